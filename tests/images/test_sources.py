import gzip
import subprocess
import sys

import nibabel
import numpy as np
import pytest

from voxprior.images import fit_image_space
from voxprior.images.sources import array_of, find_sources, n_volumes, relative_folders, stem


@pytest.mark.parametrize(
    ("path", "expected"),
    [("a/b_bold.nii.gz", "b_bold"), ("x.nii", "x"), ("lh.func.gii", "lh"), ("t.csv", "t")],
)
def test_stem_drops_folder_and_extension(path, expected):
    assert stem(path) == expected


def test_every_way_to_name_images_gives_the_same_sources(maps, tmp_path):
    paths, values = maps
    by_glob = find_sources(str(tmp_path / "sub-*_map.nii.gz"))
    by_list = find_sources(paths)
    by_image = find_sources([nibabel.load(p) for p in paths])
    assert [s.name for s in by_glob] == [s.name for s in by_list] == [s.name for s in by_image]
    for found in (by_glob, by_list, by_image):
        np.testing.assert_array_equal(array_of(found[2].load(), "x"), values[2])


def test_images_in_memory_are_named_by_position(affine):
    image = nibabel.Nifti1Image(np.zeros((2, 2, 2), np.float32), affine)
    assert [s.name for s in find_sources([image, image])] == [
        "image 0 of the list",
        "image 1 of the list",
    ]


def test_values_are_float32_and_not_cached(run_path):
    image = nibabel.load(run_path)
    assert array_of(image, "x").dtype == np.float32
    assert not image.in_memory
    assert n_volumes(image) == 20


def test_gzipped_values_are_those_of_nibabel(save, rng):
    """Scaled integers, the common case: slope and intercept are applied."""
    image = nibabel.Nifti1Image(rng.normal(30, 9, size=(4, 3, 2, 5)), np.eye(4))
    image.set_data_dtype(np.int16)
    path = save(np.zeros((1, 1, 1)), "scaled.nii.gz")
    image.to_filename(path)
    loaded = nibabel.load(path)
    assert loaded.dataobj.slope != 1
    np.testing.assert_array_equal(array_of(loaded, "x"), loaded.get_fdata(dtype=np.float32))


def test_absent_file_glob_folder_and_wrong_type(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere.nii.gz"):
        find_sources(tmp_path / "nowhere.nii.gz")[0].load()
    with pytest.raises(FileNotFoundError, match="no file matches"):
        find_sources(str(tmp_path / "*.nii.gz"))
    with pytest.raises(IsADirectoryError, match="folder"):
        find_sources(tmp_path)[0].load()
    with pytest.raises(TypeError, match="an array of numbers"):
        find_sources(np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match="empty"):
        find_sources([])


def test_truncated_gzip_is_named(save, rng):
    path = save(rng.normal(size=(8, 8, 8, 4)), "cut.nii.gz")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(OSError, match=r"cut.nii.gz: .*(truncated|corrupt|cannot be read)"):
        array_of(find_sources(path)[0].load(), str(path))


def test_corrupt_gzip_is_named(save, rng):
    """A flipped bit still inflates to numbers: only the checksum at the end tells."""
    path = save(rng.normal(size=(8, 8, 8, 4)), "bent.nii.gz")
    with gzip.open(path) as file:
        raw = bytearray(file.read())
    compressed = bytearray(gzip.compress(bytes(raw), compresslevel=0))
    compressed[len(compressed) // 2] ^= 1
    path.write_bytes(bytes(compressed))
    assert np.isfinite(nibabel.load(path).get_fdata()).any()
    with pytest.raises(OSError, match=r"bent.nii.gz: the data are truncated or corrupt .CRC"):
        array_of(find_sources(path)[0].load(), str(path))


def test_not_an_image_is_named(tmp_path):
    path = tmp_path / "text.nii.gz"
    with gzip.open(path, "wt") as file:
        file.write("no image")
    with pytest.raises(OSError, match=r"text.nii.gz: cannot be read as an image"):
        find_sources(path)[0].load()


def test_truncated_uncompressed_file_is_named(save, rng):
    path = save(rng.normal(size=(6, 6, 6, 4)), "cut.nii")
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(OSError, match=r"cut.nii: the data are truncated"):
        array_of(find_sources(path)[0].load(), str(path))


def test_five_dimensions_are_refused(save):
    path = save(np.zeros((2, 2, 2, 1, 3)), "five.nii.gz")
    with pytest.raises(ValueError, match=r"five.nii.gz: an image must have 3 or 4 dimensions"):
        find_sources(path)[0].load()


def test_the_package_opens_without_nilearn():
    code = (
        "import sys, voxprior.images; assert 'load_runs' in dir(voxprior.images); "
        "from voxprior.images import Dataset, load_runs, load_maps, ImageSpace, write_map; "
        "from voxprior.images import load_starplus, join_table, load_differences, read_confounds; "
        "sys.exit('nilearn' in sys.modules or 'nibabel' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unknown_names_are_attribute_errors():
    import voxprior.images

    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = voxprior.images.nothing


def test_scans_read_side_by_side_are_in_their_rows_and_the_first_damaged_one_is_told(tmp_path):
    rng, paths = np.random.default_rng(0), [tmp_path / f"{n}.nii.gz" for n in range(7)]
    values = rng.normal(size=(7, 3, 4, 2)).astype("f4")
    for path, volume in zip(paths, values):
        nibabel.save(nibabel.Nifti1Image(volume, np.eye(4)), path)
    images = fit_image_space([*map(str, paths)], mask=np.ones((3, 4, 2), bool))
    X = images.transform([*map(str, paths)])
    np.testing.assert_array_equal(X, values.reshape(7, -1))
    for path in (paths[5], paths[2]):
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(OSError, match=r"2\.nii\.gz"):
        images.transform([*map(str, paths)])


def test_a_header_is_read_once(tmp_path):
    path = tmp_path / "a.nii.gz"
    nibabel.save(nibabel.Nifti1Image(np.ones((2, 2, 2), "f4"), np.eye(4)), path)
    (source,) = find_sources(str(path))
    first = source.load()
    path.unlink()
    assert source.load() is first


@pytest.mark.parametrize("place", ["run, 1", "run"])
def test_names_lose_the_folders_of_a_machine_only(tmp_path, place):
    folder = tmp_path / "anna" / place
    folder.mkdir(parents=True)
    names = [f"{folder}/a.nii.gz, face/house", f"{folder.parent}/b.nii.gz"]
    base = folder.parent
    assert relative_folders(names, [base]) == {f"{folder}/": f"{place}/", f"{base}/": ""}
    assert relative_folders(names, []) == {f"{folder}/": f"{place}/", f"{base}/": ""}
    assert relative_folders(names, [folder, tmp_path])[f"{base}/"] == "anna/"
    assert relative_folders(["image 1 of the list", "maps/a.nii"], [tmp_path]) == {}
