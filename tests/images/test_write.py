from unicodedata import normalize

import nibabel
import numpy as np
import pytest

from voxprior.images import ImageSpace, write_map, write_maps
from voxprior.images.write import file_stems
from voxprior.space import VoxelSpace


@pytest.fixture
def space(affine):
    mask = np.zeros((3, 4, 2), dtype=bool)
    mask[1:, 1:3] = True
    return VoxelSpace.from_mask(mask, affine)


@pytest.mark.parametrize("extension", [".nii", ".nii.gz"])
def test_affine_and_values_are_kept(space, tmp_path, extension, affine):
    values = np.arange(8, dtype=np.float32) - 3
    (path,) = write_map(values, space, tmp_path / "new" / f"map{extension}")
    image = nibabel.load(path)
    np.testing.assert_array_equal(image.affine, affine)
    np.testing.assert_array_equal(space.apply_mask(image.get_fdata()), values)
    assert image.get_data_dtype() == np.float32
    np.testing.assert_array_equal(ImageSpace(space).transform(path)[0], values)


def test_time_becomes_the_fourth_dimension(space, tmp_path):
    values = np.arange(24.0)
    (path,) = write_map(values, space, tmp_path / "map.nii.gz")
    image = nibabel.load(path)
    assert image.shape == (3, 4, 2, 3)
    np.testing.assert_array_equal(image.get_fdata()[space.mask].T, values.reshape(3, 8))


@pytest.mark.parametrize("dtype", [bool, np.int64, np.uint8, np.float64, np.float16])
def test_types_that_every_reader_knows(space, tmp_path, dtype):
    values = (np.arange(8) % 2).astype(dtype)
    (path,) = write_map(values, space, tmp_path / "map.nii")
    np.testing.assert_array_equal(space.apply_mask(nibabel.load(path).get_fdata()), values)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(space, tmp_path, monkeypatch):
    path = tmp_path / "map.nii.gz"
    write_map(np.ones(8), space, path)
    before = path.read_bytes()

    def break_off(self, filename, *args, **kwargs):
        with open(filename, "wb") as file:
            file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(nibabel.Nifti1Image, "to_filename", break_off)
    with pytest.raises(OSError, match="disk full"):
        write_map(np.zeros(8), space, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["map.nii.gz"]


def test_several_maps_into_a_folder(space, tmp_path):
    files = write_maps({"weights a/b": np.ones(8), "var": np.zeros(8)}, space, tmp_path / "maps")
    assert {p.name for p in (tmp_path / "maps").iterdir()} == {"weights_a_b.nii.gz", "var.nii.gz"}
    assert files["var"][0].name == "var.nii.gz"


@pytest.mark.parametrize("unfit", [r"[^\w.+-]+", r"[^A-Za-z0-9]+"])
@pytest.mark.parametrize("joint", ["_", "-", ""])
def test_any_names_get_files_of_their_own(tmp_path, unfit, joint):
    names = ["a/b", "a b", "A B", "a b 2", "", "..", ".", "../up", "CON", "nul.", ".hidden",
             "x" * 300, "x" * 301, "é", "e\u0301", "脳" * 100, "a\nb", "[/]", "*"]  # fmt: skip
    stems = file_stems(names, unfit, joint)
    assert list(stems) == names
    for name, stem in stems.items():
        path = tmp_path / f"{stem}.nii.gz"
        assert path.parent == tmp_path, name
        assert not stem.startswith(".")
        assert stem.casefold() not in ("con", "nul")
        path.touch(exist_ok=False)
    folded = {normalize("NFC", stem).casefold() for stem in stems.values()}
    assert len(folded) == len(names)
    assert file_stems(names, unfit, joint) == stems


def test_names_that_fit_are_kept():
    assert file_stems(["weights", "p_value", "gp-2.5"]) == {
        "weights": "weights", "p_value": "p_value", "gp-2.5": "gp-2.5"
    }  # fmt: skip


def test_maps_of_like_names_do_not_overwrite_each_other(space, tmp_path):
    files = write_maps({"a/b": np.ones(8), "a b": np.zeros(8)}, space, tmp_path)
    for name, value in {"a/b": 1, "a b": 0}.items():
        (path,) = files[name]
        assert (nibabel.load(path).get_fdata()[space.mask] == value).all()


@pytest.mark.parametrize("extension", [".nii", ".nii.gz"])
def test_the_same_map_gives_the_same_bytes(space, tmp_path, monkeypatch, extension):
    first = tmp_path / f"first{extension}"
    write_map(np.arange(8.0), space, first)
    monkeypatch.setattr("time.time", lambda: 2e9)
    second = tmp_path / f"second{extension}"
    write_map(np.arange(8.0), space, second)
    assert first.read_bytes() == second.read_bytes()


def test_wrong_extensions_and_lengths(space, tmp_path):
    with pytest.raises(ValueError, match=r"map.png: a volume is written as"):
        write_map(np.zeros(8), space, tmp_path / "map.png")
    with pytest.raises(ValueError, match="each of the 8 voxels"):
        write_map(np.zeros(7), space, tmp_path / "map.nii")
    with pytest.raises(ValueError, match="three-dimensional"):
        write_map(np.zeros(4), VoxelSpace.grid((2, 2)), tmp_path / "map.nii")
    assert not list(tmp_path.iterdir())
