"""What a decoder keeps of images that were read is of these very files."""

import os

import joblib
import nibabel
import numpy as np
import pytest

from voxprior import Decoder
from voxprior.decoder import reading


@pytest.fixture
def files(tmp_path, rng):
    """Maps of eight scans and a mask, whose size and time will tell nothing."""
    for number in range(8):
        write(tmp_path / f"map-{number}.nii", rng.normal(size=(4, 4, 3)))
    write(tmp_path / "mask.nii", np.ones((4, 4, 3)))
    return tmp_path


def write(path, values):
    state = path.stat() if path.exists() else None
    nibabel.Nifti1Image(values.astype("f4"), np.eye(4)).to_filename(path)
    if state is not None:
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def read(files, **settings):
    decoder = Decoder(memory=joblib.Memory(files / "memory", verbose=0), **settings)
    return decoder.read(str(files / "map-*.nii"), [*"abababab"])


@pytest.fixture
def reads(monkeypatch):
    """Count what is read, by the names of the settings."""
    found, real = [], reading.load_maps

    def load(*arguments, **settings):
        found.append(settings)
        return real(*arguments, **settings)

    monkeypatch.setattr(reading, "load_maps", load)
    return found


def test_the_same_files_are_read_once(files, reads):
    first, second = read(files), read(files)
    assert len(reads) == 1
    np.testing.assert_array_equal(first.X, second.X)


@pytest.mark.parametrize("name", ["map-3.nii", "mask.nii"])
def test_a_file_with_other_content_is_read_again(files, reads, name):
    mask = str(files / "mask.nii")
    before = read(files, mask=mask)
    values = np.ones((4, 4, 3))
    values[0] = 0
    write(files / name, values)
    after = read(files, mask=mask)
    assert len(reads) == 2
    assert before.X.shape != after.X.shape or not np.array_equal(before.X, after.X)
    np.testing.assert_array_equal(after.X, Decoder(mask=mask).read(str(files / "map-*.nii")).X)


def test_another_version_reads_again(files, reads, monkeypatch):
    read(files)
    monkeypatch.setattr(np, "__version__", "9.9")
    read(files)
    assert len(reads) == 2


def test_a_pair_of_files_is_known_by_both(tmp_path, reads, rng):
    for number in range(4):
        image = nibabel.Nifti1Pair(rng.normal(size=(4, 4, 3)).astype("f4"), np.eye(4))
        image.to_filename(tmp_path / f"map-{number}.img")
    decoder = Decoder(memory=joblib.Memory(tmp_path / "memory", verbose=0))
    pattern = str(tmp_path / "*.hdr")
    before = decoder.read(pattern, [*"abab"])
    voxels = tmp_path / "map-1.img"
    voxels.write_bytes(rng.normal(size=48).astype("f4").tobytes())
    after = decoder.read(pattern, [*"abab"])
    assert len(reads) == 2
    assert not np.array_equal(before.X, after.X)
