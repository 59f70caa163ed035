"""Values far from zero are not rounded to each other in silence: float32 has seven digits."""

import nibabel
import numpy as np
import pytest

from voxprior.errors import InputError
from voxprior.images import load_maps, load_runs
from voxprior.images.bounds import refuse_lost_digits, sampled
from voxprior.images.gifti import read_maps

SHAPE = (6, 5, 4)
FAR = [3e7, -3e7, 1e9, 2.0**40]
SUFFIXES = [".nii", ".nii.gz", ".img", None]
LABELS = ["a", "b"] * 3


def written(values, folder, suffix, dtype=np.float64):
    """Images in files of a kind, or in memory."""
    values = [v.astype(dtype) for v in values]
    images = [nibabel.Nifti1Image(v, np.eye(4), dtype=dtype) for v in values]
    if suffix is None:
        return images
    kind = nibabel.Nifti1Pair if suffix == ".img" else nibabel.Nifti1Image
    paths = [folder / f"map-{number}{suffix}" for number in range(len(values))]
    for image, path in zip(images, paths):
        kind(image.get_fdata().astype(dtype), np.eye(4), dtype=dtype).to_filename(path)
    return [str(path) for path in paths]


def with_background(values, rng):
    """Scans of a head: zeros around it, and one voxel of an extreme value."""
    values = values.copy()
    values[:, :2] = 0
    values[:, 3, 3, 3] *= 1e6
    return values


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("offset", FAR)
def test_maps_far_from_zero_are_refused_by_name(tmp_path, rng, offset, suffix):
    values = offset + rng.normal(size=(6, *SHAPE))
    mask = "data" if suffix in (".nii", None) else np.ones(SHAPE, bool)
    for scans in (values, with_background(values, rng)):
        maps = written(scans, tmp_path, suffix)
        with pytest.raises(InputError, match=r"(map-0|image 0).*too far from zero.*Subtract"):
            load_maps(maps, LABELS, mask=mask)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint32])
def test_whole_numbers_too(tmp_path, rng, dtype):
    offset = 2**40 if dtype == np.int64 else 2**30
    values = offset + rng.integers(-2, 3, size=(6, *SHAPE))
    with pytest.raises(InputError, match="too far from zero"):
        load_maps(written(values, tmp_path, ".nii", dtype), LABELS, mask="data")


def test_an_intercept_that_hides_what_is_stored(tmp_path, rng):
    image = nibabel.Nifti1Image(rng.integers(-9, 9, SHAPE).astype(np.int16), np.eye(4))
    image.header.set_slope_inter(0.1, 3e7)
    image.to_filename(tmp_path / "x.nii")
    with pytest.raises(InputError, match=r"x\.nii.*values of about 3e\+07 that differ by"):
        load_maps([str(tmp_path / "x.nii")] * 2, ["a", "b"], mask="data")


def test_runs_are_looked_at_too(tmp_path, rng):
    run = nibabel.Nifti1Image(1e9 + rng.normal(size=(*SHAPE, 12)), np.eye(4))
    with pytest.raises(InputError, match="too far from zero"):
        load_runs(run, labels=["rest", "a", "b"] * 4, mask=np.ones(SHAPE, bool))


@pytest.mark.parametrize("encoding", ["ASCII", "B64BIN", "B64GZ"])
def test_surfaces_are_looked_at_too(tmp_path, rng, encoding):
    for offset, refused in ((0, False), (2**16, False), (2**30, True)):
        values = (offset + rng.integers(-9, 9, size=200)).astype(np.int32)
        array = nibabel.gifti.GiftiDataArray(values, datatype=8, encoding=encoding)
        nibabel.save(nibabel.GiftiImage(darrays=[array]), tmp_path / "x.func.gii")
        if refused:
            with pytest.raises(InputError, match=r"x\.func\.gii.*too far from zero"):
                read_maps(tmp_path / "x.func.gii")
        else:
            np.testing.assert_array_equal(read_maps(tmp_path / "x.func.gii"), values)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e5, 1e6])
def test_ordinary_offsets_give_the_numbers_that_they_gave(tmp_path, rng, offset, suffix):
    values = offset + rng.normal(size=(6, *SHAPE))
    data = load_maps(written(values, tmp_path, suffix), LABELS, mask="data", standardize="train")
    expected = values.reshape(6, -1).astype(np.float32)
    np.testing.assert_array_equal(data.X, expected)


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(100),
        np.full(100, 0.1),
        np.full(100, 0.1) + np.tile([0, 1e-17, 2e-17, -2e-17], 25),
        np.r_[np.zeros(50), np.full(50, 1e9)],
        np.array([]),
        np.array([np.nan, np.inf, 1e9]),
        np.full(100, 1e300) * np.tile([1, 2], 50),
        1000 + np.arange(100),
        2**24 + 1000 * np.arange(100),
        np.linspace(1e8, 2e8, 100),
        np.ones(100, bool),
    ],
    ids=str,
)
def test_what_has_no_digits_to_lose_passes(values):
    refuse_lost_digits(values, "x")


@pytest.mark.parametrize("offset", [0.0, 1e5, 3e7, 1e9])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_differences_of_scans_of_one_anatomy(tmp_path, rng, offset, suffix):
    """Voxels differ enough to be told apart, scans do not."""
    anatomy = offset + 1e4 * rng.normal(size=SHAPE)
    values = anatomy + rng.normal(size=(6, *SHAPE))
    maps, mask = written(values, tmp_path, suffix), np.ones(SHAPE, bool)
    run = nibabel.Nifti1Image(np.moveaxis(values, 0, -1), np.eye(4))
    if offset < 1e6:
        assert len(load_maps(maps, LABELS, mask=mask).X) == 6
        assert len(load_runs(run, labels=LABELS, mask=mask).X) == 6
        return
    with pytest.raises(InputError, match=r"those of the other scans lie together too far"):
        load_maps(maps, LABELS, mask=mask)
    with pytest.raises(InputError, match=r"those of the other scans lie together too far"):
        load_runs(run, labels=LABELS, mask=mask)


def test_copies_are_copies_whatever_their_size(tmp_path, rng):
    values = np.tile((1e9 * (1 + rng.random(SHAPE))).astype(np.float32), (6, 1, 1, 1))
    with pytest.warns(UserWarning, match="constant"):
        data = load_maps(written(values, tmp_path, ".nii"), LABELS, mask=np.ones(SHAPE, bool))
    assert len(data.X) == 6


def test_large_images_are_sampled(rng):
    values = 3e7 + rng.normal(size=(40, 40, 40))
    assert 2**12 < len(sampled(values, values.size)) < 2**14
    with pytest.raises(InputError, match="x: its values lie together"):
        refuse_lost_digits(sampled(values, values.size), "x")
