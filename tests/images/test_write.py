import nibabel
import numpy as np
import pytest

from voxprior.images import ImageSpace, write_map, write_maps
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


def test_wrong_extensions_and_lengths(space, tmp_path):
    with pytest.raises(ValueError, match=r"map.png: a volume is written as"):
        write_map(np.zeros(8), space, tmp_path / "map.png")
    with pytest.raises(ValueError, match="each of the 8 voxels"):
        write_map(np.zeros(7), space, tmp_path / "map.nii")
    with pytest.raises(ValueError, match="three-dimensional"):
        write_map(np.zeros(4), VoxelSpace.grid((2, 2)), tmp_path / "map.nii")
    assert not list(tmp_path.iterdir())
