"""Volumes are read as far as their header says: no further, no less, and not twice in memory."""

import gzip
import tracemalloc

import nibabel
import numpy as np
import pytest
from scipy.io import savemat

from voxprior.images import bounds, fit_image_space
from voxprior.images.sources import array_of, find_sources

SHAPE = (10, 9, 8)
KINDS = {
    ".nii": nibabel.Nifti1Image,
    ".nii.gz": nibabel.Nifti1Image,
    ".img": nibabel.Nifti1Pair,
    ".img.gz": nibabel.Nifti1Pair,
    ".mgh": nibabel.MGHImage,
    ".mgz": nibabel.MGHImage,
}


def read(path):
    return array_of(find_sources(path)[0].load(), str(path))


def peak_of(function):
    """Call a function; return the most bytes that it held, and the error it raised, if any."""
    error = None
    tracemalloc.start()
    try:
        function()
    except (OSError, ValueError) as raised:
        error = raised
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, error


def write_raw(path, content):
    path.write_bytes(gzip.compress(content) if path.suffix in (".gz", ".mgz") else content)
    return path


def raw(path):
    return (
        gzip.decompress(path.read_bytes()) if path.suffix in (".gz", ".mgz") else path.read_bytes()
    )


def nifti(changes=None, shape=SHAPE, dtype=np.float32, extra=b"", kind=nibabel.Nifti1Header):
    """Bytes of a NIfTI file whose header was changed after its voxels were counted."""
    header = kind()
    header.set_data_shape(shape)
    header.set_data_dtype(dtype)
    header["vox_offset"] = kind.sizeof_hdr + 4
    header.set_sform(np.eye(4), 1)
    voxels = np.ones(shape, dtype).tobytes()
    for name, value in (changes or {}).items():
        header[name] = value
    return header.binaryblock + bytes(4) + extra + voxels


@pytest.fixture(params=sorted(KINDS))
def written(request, tmp_path, rng):
    """An image of each format, with its values."""
    values = rng.normal(size=SHAPE).astype(np.float32)
    path = tmp_path / f"image{request.param}"
    KINDS[request.param](values, np.eye(4)).to_filename(path)
    return path, values


def test_every_format_gives_its_values(written):
    path, values = written
    np.testing.assert_array_equal(read(path), values)


def test_truncated_files_are_refused(written):
    path, _ = written
    write_raw(path, raw(path)[:-2000])
    with pytest.raises(OSError, match=rf"{path.name}: .*(truncated|cannot be read)"):
        read(path)


def test_trailing_data_are_refused_without_being_read(written):
    path, values = written
    write_raw(path, raw(path) + bytes(1000 * values.nbytes))
    peak, error = peak_of(lambda: read(path))
    assert isinstance(error, OSError)
    assert f"{path.name}: the data are truncated or corrupt (trailing data" in str(error)
    assert peak < 2 * values.nbytes + 2**20  # 2.9 MB follow; gzip has a buffer


def test_a_gzip_must_end_where_the_header_says(save):
    path = save(np.ones(SHAPE, np.float32), "one_more.nii.gz")
    write_raw(path, raw(path) + b"\0")
    with pytest.raises(OSError, match=r"one_more.nii.gz: .*trailing data: .* 10 x 9 x 8"):
        read(path)


def test_what_may_follow_the_voxels(save, tmp_path):
    """Plain files may fill their last block; FreeSurfer writes tags."""
    values = np.ones(SHAPE, np.float32)
    padded = save(values, "padded.nii")
    write_raw(padded, raw(padded) + bytes(500))
    tagged = tmp_path / "tagged.mgz"
    nibabel.MGHImage(values, np.eye(4)).to_filename(tagged)
    write_raw(tagged, raw(tagged) + b"mri_convert a b" * 100)
    for path in (padded, tagged):
        np.testing.assert_array_equal(read(path), values)


def test_a_gzip_of_several_members_is_whole(save):
    path = save(np.arange(720, dtype=np.float32).reshape(SHAPE), "members.nii.gz")
    content = raw(path)
    path.write_bytes(b"".join(gzip.compress(content[i : i + 700]) for i in range(0, 4000, 700)))
    np.testing.assert_array_equal(read(path).ravel(), np.arange(720))


@pytest.mark.parametrize("suffix", sorted(KINDS))
@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_the_image_is_held_once(tmp_path, rng, suffix, dtype):
    """Scaled integers are the common case: they are never held in double precision as a whole."""
    values = rng.normal(300, 50, size=(128, 128, 64)).astype(np.float32)
    image = KINDS[suffix](values.astype(dtype) if "mg" in suffix else values, np.eye(4))
    image.set_data_dtype(np.dtype(dtype))
    image.to_filename(tmp_path / f"image{suffix}")
    source = find_sources(tmp_path / f"image{suffix}")[0]
    image = source.load()
    peak, error = peak_of(lambda: array_of(image, source.name))
    assert error is None
    assert peak < 2 * values.nbytes


@pytest.mark.parametrize("dtype", [np.int16, np.uint8, np.float64, np.int32, "big"])
@pytest.mark.parametrize("name", ["x.nii", "x.nii.gz"])
def test_scaled_values_are_those_of_nibabel(tmp_path, rng, dtype, name):
    dtype = np.dtype(">f4" if dtype == "big" else dtype)
    header = nibabel.Nifti1Header(endianness=">" if dtype.byteorder == ">" else "<")
    image = nibabel.Nifti1Image(rng.normal(30, 9, size=(4, 3, 2, 5)), np.eye(4), header)
    image.set_data_dtype(dtype)
    image.to_filename(tmp_path / name)
    loaded = nibabel.load(tmp_path / name)
    np.testing.assert_array_equal(array_of(loaded, "x"), loaded.get_fdata(dtype=np.float32))


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        (
            [4, 32767, 32767, 32767, 32767, 1, 1, 1],
            "truncated .* expected by the header",
        ),
        ([3, 2000, 2000, 2000, 1, 1, 1, 1], "truncated .* expected by the header"),
        ([3, -10, 9, 8, 1, 1, 1, 1], "at least one voxel"),
        ([3, 10, 0, 8, 1, 1, 1, 1], "at least one voxel"),
        ([4, 10, 9, 8, 0, 1, 1, 1], "at least one voxel"),
        ([0, 10, 9, 8, 1, 1, 1, 1], "at least one voxel"),
        ([7, 10, 9, 8, 1, 1, 1, 1], "3 or 4 dimensions"),
        ([999, 10, 9, 8, 1, 1, 1, 1], "cannot be read|at least one"),
    ],
)
@pytest.mark.parametrize("name", ["x.nii", "x.nii.gz"])
def test_absurd_dimensions_are_refused_before_memory_is_reserved(tmp_path, dims, words, name):
    path = write_raw(tmp_path / name, nifti({"dim": dims}))
    find_sources(path)  # imports come first, they take memory too
    with pytest.raises((OSError, ValueError), match=rf"{name}: .*{words}"):
        read(path)
    assert peak_of(lambda: read(path))[0] < 2**20


def test_more_than_the_free_memory_is_refused(tmp_path, monkeypatch):
    path = write_raw(tmp_path / "large.nii.gz", nifti())
    monkeypatch.setattr(bounds, "free_memory", lambda: 4 * 720 - 1)
    with pytest.raises(ValueError, match=r"large.nii.gz: its 720 values need .* of free memory"):
        read(path)


def test_the_free_memory_is_some():
    assert bounds.free_memory() is None or bounds.free_memory() > 2**20


@pytest.mark.parametrize(
    "dtype",
    [np.complex64, np.complex128, np.dtype([("R", "u1"), ("G", "u1"), ("B", "u1")])],
    ids=["complex64", "complex128", "colors"],
)
def test_only_real_numbers_are_read(tmp_path, dtype):
    path = write_raw(tmp_path / "x.nii.gz", nifti(dtype=dtype))
    in_memory = nibabel.Nifti1Image(np.ones(SHAPE, dtype), np.eye(4))
    for image in (path, in_memory):
        with pytest.raises(ValueError, match=r"the voxels are (complex|colours).* one real number"):
            fit_image_space([image])


@pytest.mark.parametrize("offset", [2e9, -400.0, np.nan, np.inf])
def test_voxels_cannot_start_anywhere(tmp_path, offset):
    path = write_raw(tmp_path / "x.nii.gz", nifti({"vox_offset": offset}))
    with pytest.raises((OSError, ValueError), match=r"x.nii.gz: .*(voxels start|cannot be read)"):
        read(path)


KINDS_OF_NIFTI = pytest.mark.parametrize("kind", [nibabel.Nifti1Header, nibabel.Nifti2Header])


@pytest.mark.parametrize("name", ["x.nii", "x.nii.gz"])
@KINDS_OF_NIFTI
def test_voxels_of_a_single_file_start_behind_its_header(tmp_path, kind, name):
    first = kind.sizeof_hdr + 4
    np.testing.assert_array_equal(read(write_raw(tmp_path / name, nifti(kind=kind))), 1)
    for offset in (0, 16, first - 4, first - 1):
        path = write_raw(tmp_path / name, nifti({"vox_offset": offset}, kind=kind))
        said = rf"{name}: .*( byte {offset}\. Expected at least {first}|offset {offset} too low)"
        with pytest.raises((OSError, ValueError), match=said):
            read(path)


@pytest.mark.parametrize("name", ["x.nii", "x.nii.gz"])
def test_voxels_start_at_a_whole_byte(tmp_path, name):
    with pytest.raises(OSError, match=r"cannot be read as an image .*byte 352.5"):
        read(write_raw(tmp_path / name, nifti({"vox_offset": 352.5})))


@pytest.mark.parametrize("name", ["x.nii", "x.nii.gz"])
@pytest.mark.parametrize("order", ["<", ">"])
@KINDS_OF_NIFTI
def test_extensions_do_not_overlap_the_voxels(tmp_path, kind, order, name):
    values = np.zeros(SHAPE, np.float32)  # zeros at the end could be the filling of a block
    values[:5] = 3
    image = (nibabel.Nifti2Image if kind is nibabel.Nifti2Header else nibabel.Nifti1Image)(
        values, np.eye(4), kind(endianness=order)
    )
    text = nibabel.nifti1.Nifti1Extension("comment", b"scanned on a Thursday, by hand")
    image.header.extensions += [text, text]
    path = tmp_path / name
    image.to_filename(path)
    np.testing.assert_array_equal(read(path), values)
    loaded = nibabel.load(path)
    header, end = loaded.header, loaded.dataobj.offset
    for offset in (end - 16, end - 48, kind.sizeof_hdr + 4):
        header["vox_offset"] = offset
        write_raw(path, header.binaryblock + raw(path)[kind.sizeof_hdr :])
        with pytest.raises(ValueError, match=rf"byte {offset}\. Expected at least"):
            read(path)


@pytest.mark.parametrize("suffix", [".nii", ".img"])
def test_a_volume_behind_the_last_is_not_padding(tmp_path, rng, suffix):
    """Plain files may end in zeros, not in up to 512 bytes of values that the header leaves out."""
    values = rng.integers(1, 99, size=(4, 4, 4, 3)).astype(np.uint8)
    path = tmp_path / f"x{suffix}"
    KINDS[suffix](values, np.eye(4)).to_filename(path)
    header_file = path.with_suffix(".hdr") if suffix == ".img" else path
    content = bytearray(header_file.read_bytes())
    content[48:50] = (2).to_bytes(2, "little")  # dim[4]
    header_file.write_bytes(content)
    with pytest.raises(OSError, match="trailing data: by the header, 4 x 4 x 4 x 2 voxels"):
        read(path)


def test_a_header_that_expands_is_refused(tmp_path):
    """nibabel reads extensions whole, and those of a header file until it ends."""
    nibabel.Nifti1Pair(np.ones(SHAPE, np.float32), np.eye(4)).to_filename(tmp_path / "x.img.gz")
    header = bytearray(raw(tmp_path / "x.hdr.gz"))
    header[348:352] = b"\1\0\0\0"
    extension = np.array([2**30, 6], np.int32).tobytes()
    with gzip.open(tmp_path / "x.hdr.gz", "wb", 1) as file:
        file.write(bytes(header) + extension)
        for _ in range(bounds.HEADER_BYTES // 2**20 + 1):
            file.write(bytes(2**20))
    with pytest.raises(OSError, match=r"x.img.gz: cannot be read as an image .* has more than"):
        read(tmp_path / "x.img.gz")


def test_the_matrix_of_spm_is_bounded(tmp_path):
    path = tmp_path / "x.img"
    nibabel.Spm99AnalyzeImage(np.ones(SHAPE, np.float32), np.eye(4)).to_filename(path)
    np.testing.assert_array_equal(read(path), np.ones(SHAPE))
    savemat(tmp_path / "x.mat", {"M": np.random.default_rng(0).normal(size=(4, 4, 4000))})
    with pytest.raises(OSError, match=r"x.img: cannot be read as an image .*x.mat has more than"):
        read(path)


@pytest.mark.parametrize("field", ["srow_x", "srow_z"])
def test_an_affine_without_numbers_is_refused(tmp_path, field):
    path = write_raw(tmp_path / "x.nii.gz", nifti({field: [1, np.nan, 0, 0]}))
    with pytest.raises(ValueError, match=r"x.nii.gz: the affine in the header must be"):
        read(path)


@pytest.mark.parametrize("slope", [0.0, np.nan, np.inf])
def test_a_slope_that_is_none_does_not_scale(tmp_path, slope):
    path = write_raw(tmp_path / "x.nii.gz", nifti({"scl_slope": slope, "scl_inter": 3}))
    np.testing.assert_array_equal(read(path), np.ones(SHAPE))


def test_an_intercept_that_is_no_number_is_refused(tmp_path):
    path = write_raw(tmp_path / "x.nii.gz", nifti({"scl_slope": 2, "scl_inter": np.nan}))
    with pytest.raises(OSError, match=r"x.nii.gz: cannot be read as an image"):
        read(path)


@pytest.mark.parametrize("name", ["x.mnc", "x.BRIK", "x.nii.bz2", "x.txt", "x"])
def test_other_formats_are_refused_by_name(tmp_path, name):
    (tmp_path / name).write_bytes(nifti())
    with pytest.raises(ValueError, match=rf"{name}: is not an image file. Expected .*\.nii\.gz"):
        read(tmp_path / name)


def test_cifti_is_refused(tmp_path):
    axis = nibabel.cifti2.ScalarAxis(["a"])
    brain = nibabel.cifti2.BrainModelAxis.from_mask(np.ones((2, 2, 2)), affine=np.eye(4))
    image = nibabel.Cifti2Image(np.ones((1, 8), np.float32), (axis, brain))
    image.to_filename(tmp_path / "x.dscalar.nii")
    with pytest.raises(OSError, match=r"x.dscalar.nii: .*CIFTI has no grid"):
        read(tmp_path / "x.dscalar.nii")


def test_a_pair_without_its_voxels(tmp_path):
    nibabel.Nifti1Pair(np.ones(SHAPE, np.float32), np.eye(4)).to_filename(tmp_path / "x.img")
    (tmp_path / "x.img").unlink()
    with pytest.raises(OSError, match=r"x.img"):
        read(tmp_path / "x.hdr")


def test_a_damaged_file_is_found_before_it_is_resampled(save):
    good = [save(np.random.default_rng(i).normal(size=SHAPE), f"{i}.nii.gz") for i in range(3)]
    other = save(np.ones((6, 6, 6), np.float32), "other.nii.gz", affine=np.eye(4))
    images = fit_image_space(good, resample=True)
    assert images.transform(other).shape == (1, images.space.n_voxels)
    write_raw(other, raw(other) + bytes(10))
    with pytest.raises(OSError, match=r"other.nii.gz: .*trailing data"):
        images.transform(other)


def test_what_nibabel_mends_in_a_header_is_a_warning(tmp_path, capfd):
    path = write_raw(tmp_path / "x.nii", nifti({"pixdim": np.zeros(8)}))
    with pytest.warns(UserWarning, match=r"x.nii: pixdim.* should be non-zero"):
        read(path)
    assert capfd.readouterr().err == ""


def test_smoothing_wider_than_the_image_is_refused(save, rng):
    """Voxels of a nanometre: the kernel would reach over millions of them."""
    affine = np.diag([1e-6, 1e-6, 1e-6, 1])
    maps = [save(rng.normal(size=SHAPE), f"{i}.nii.gz", affine=affine) for i in range(3)]
    with pytest.raises(ValueError, match=r"smoothing_fwhm=5 is wider than the images, 1e-05 mm"):
        fit_image_space(maps, smoothing_fwhm=5)
