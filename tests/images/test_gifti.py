"""GIFTI is read as far as its arrays declare, and like nibabel reads it."""

import base64
import gzip
import tracemalloc
import zlib

import numpy as np
import pytest
from nibabel.gifti import GiftiDataArray, GiftiImage
from nilearn.surface import load_surf_data, load_surf_mesh

from voxprior.images import bounds, gifti, load_maps

VALUES = np.arange(12, dtype="<f4")


def write(path, *arrays, before="", encoding="Base64Binary"):
    """Write a GIFTI file; an array is its attributes (beyond the usual ones) and its text."""
    written = ""
    for attributes, text in arrays:
        known = {"Intent": "NIFTI_INTENT_SHAPE", "DataType": "NIFTI_TYPE_FLOAT32", "Dim0": 12}
        known |= {"Dimensionality": 1, "Encoding": encoding, "Endian": "LittleEndian"}
        known |= {"ArrayIndexingOrder": "RowMajorOrder"} | attributes
        told = " ".join(f'{name}="{value}"' for name, value in known.items())
        written += f"<DataArray {told}><Data>{text}</Data></DataArray>"
    content = f'<?xml version="1.0"?>{before}<GIFTI Version="1.0">{written}</GIFTI>'.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def base64_of(values):
    return base64.b64encode(bytes(values)).decode()


def gzipped(values):
    return base64_of(zlib.compress(bytes(values)))


@pytest.mark.parametrize("suffix", [".gii", ".gii.gz"])
@pytest.mark.parametrize("n_maps", [1, 3])
@pytest.mark.parametrize("encoding", ["ASCII", "B64BIN", "B64GZ"])
@pytest.mark.parametrize("kind", ["float32", "int32", "uint8"])
def test_values_are_those_of_nibabel(tmp_path, rng, encoding, n_maps, kind, suffix):
    arrays = [
        GiftiDataArray(
            (100 * rng.random(size=50_000)).astype(kind),
            intent="NIFTI_INTENT_SHAPE",
            encoding=encoding,
            datatype=f"NIFTI_TYPE_{kind.upper()}",
            meta={"Name": "x"},
        )
        for _ in range(n_maps)
    ]
    path = tmp_path / f"x{suffix}"
    content = GiftiImage(darrays=arrays).to_bytes()
    path.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    found = gifti.read_maps(path)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.asarray(load_surf_data(path), dtype=np.float32))


def test_meshes_are_those_of_nilearn(surface, tmp_path):
    surface().mesh.to_filename(tmp_path / "white.gii")
    path = tmp_path / "white_hemi-L.gii"
    points, faces = gifti.read_mesh(path)
    theirs = load_surf_mesh(path)
    np.testing.assert_array_equal(points, theirs.coordinates)
    np.testing.assert_array_equal(faces, theirs.faces)


@pytest.mark.parametrize("endian", ["LittleEndian", "BigEndian"])
def test_byte_order_and_external_files(tmp_path, endian):
    """SPM writes the values into a file of their own."""
    stored = VALUES.astype("<f4" if endian == "LittleEndian" else ">f4")
    (tmp_path / "x.dat").write_bytes(b"head" + stored.tobytes() + b"tail")
    inside = write(tmp_path / "i.gii", ({"Endian": endian}, base64_of(stored)))
    place = {"ExternalFileName": "x.dat", "ExternalFileOffset": 4, "Endian": endian}
    outside = write(tmp_path / "x.gii", (place, ""), encoding="ExternalFileBinary")
    for path in (inside, outside):
        np.testing.assert_array_equal(gifti.read_maps(path), VALUES)


@pytest.mark.parametrize(
    ("encoding", "text", "words"),
    [
        ("Base64Binary", base64_of(VALUES[:11]), "shorter than it declares"),
        ("Base64Binary", base64_of(bytes(49)), "shorter than it declares|more values"),
        ("Base64Binary", base64_of(np.arange(13, dtype="f4")), "more values"),
        ("Base64Binary", "%%%%" + base64_of(VALUES), "base64"),
        ("GZipBase64Binary", gzipped(VALUES[:11]), "shorter than it declares"),
        ("GZipBase64Binary", gzipped(bytes(10**7)), "more values"),
        ("GZipBase64Binary", base64_of(zlib.compress(VALUES.tobytes()) + b"more"), "after its end"),
        ("GZipBase64Binary", base64_of(zlib.compress(VALUES.tobytes())[:-4]), "shorter"),
        ("GZipBase64Binary", base64_of(VALUES), "compression method"),
        ("ASCII", "1 2 3", "shorter than it declares"),
        ("ASCII", "1 " * 13, "more values"),
        ("ASCII", "1" * 200_000 + " 2" * 11, "too many digits"),
        ("ASCII", "one " * 12, "could not convert"),
        ("undef", "", "shorter than it declares"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_arrays_that_are_not_what_they_declare(tmp_path, encoding, text, words):
    path = write(tmp_path / "x.gii", ({}, text), encoding=encoding)
    with pytest.raises((ValueError, zlib.error), match=words):
        gifti.read_maps(path)


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"Dim0": -12}, "at least one voxel"),
        ({"Dim0": 0}, "at least one voxel"),
        ({"Dim0": 10**15}, "more than it can hold"),
        ({"Dimensionality": 99}, "99 dimensions"),
        ({"Dimensionality": 2}, "Dim1"),
        ({"DataType": "NIFTI_TYPE_COMPLEX64"}, "complex"),
        ({"DataType": "NIFTI_TYPE_RGB24"}, "colours"),
        ({"Dimensionality": 2, "Dim0": 4, "Dim1": 3}, "one value per vertex"),
        (
            {"Encoding": "ExternalFileBinary", "ExternalFileName": "../x.dat"},
            "not a file in the same folder",
        ),
        (
            {"Encoding": "ExternalFileBinary", "ExternalFileName": "/etc/passwd"},
            "not a file in the",
        ),
        (
            {"Encoding": "ExternalFileBinary", "ExternalFileName": "no.dat"},
            "not a file in the same folder",
        ),
        ({"Encoding": "ExternalFileBinary"}, "not a file in the same folder"),
    ],
)
def test_attributes_that_cannot_be(tmp_path, attributes, words):
    (tmp_path / "x.dat").write_bytes(bytes(48))
    (tmp_path / "sub").mkdir()
    path = write(tmp_path / "sub" / "x.gii", (attributes, base64_of(VALUES)))
    with pytest.raises((ValueError, KeyError), match=words):
        gifti.read_maps(path)


def test_maps_of_several_lengths_and_none(tmp_path):
    two = write(tmp_path / "x.gii", ({}, base64_of(VALUES)), ({"Dim0": 11}, base64_of(VALUES[:11])))
    with pytest.raises(ValueError, match="arrays of 12 and of 11 vertices"):
        gifti.read_maps(two)
    with pytest.raises(ValueError, match="no data array"):
        gifti.read_maps(write(tmp_path / "none.gii"))


def test_entities_are_refused_and_the_usual_document_type_is_not(tmp_path):
    usual = '<!DOCTYPE GIFTI SYSTEM "http://www.nitrc.org/frs/download.php/115/gifti.dtd">'
    good = write(tmp_path / "good.gii", ({}, base64_of(VALUES)), before=usual)
    np.testing.assert_array_equal(gifti.read_maps(good), VALUES)
    laughs = '<!DOCTYPE GIFTI [<!ENTITY a "AAAA"><!ENTITY b "&a;&a;&a;&a;">]>'
    for before in (laughs, '<!DOCTYPE GIFTI [<!ENTITY a SYSTEM "file:///etc/passwd">]>'):
        path = write(tmp_path / "bad.gii", ({}, "&b;&b;&b;&b;"), before=before)
        with pytest.raises(ValueError, match="entities of its own"):
            gifti.read_maps(path)


def test_text_that_expands_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "HEADER_BYTES", 10**5)
    path = write(tmp_path / "x.gii.gz", ({}, base64_of(VALUES) + " " * 10**7))
    with pytest.raises(ValueError, match="more text than its arrays can need"):
        gifti.read_maps(path)


@pytest.mark.parametrize("encoding", ["GIFTI_ENCODING_B64BIN", "GIFTI_ENCODING_B64GZ"])
@pytest.mark.parametrize("n_maps", [1, 2, 5])
def test_maps_are_held_once(tmp_path, rng, encoding, n_maps):
    values = rng.normal(size=(n_maps, 600_000 // n_maps)).astype(np.float32)
    code = base64_of if encoding.endswith("BIN") else gzipped
    arrays = [({"Dim0": values.shape[1]}, code(one.tobytes())) for one in values]
    path = write(tmp_path / "x.gii", *arrays, encoding=encoding)
    tracemalloc.start()
    found = gifti.read_maps(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(found.T.reshape(values.shape), values)
    assert peak < 2 * values.nbytes


def test_a_mesh_must_name_its_vertices(tmp_path):
    shape = {"Dimensionality": 2, "Dim0": 4, "Dim1": 3}
    points = shape | {"Intent": "NIFTI_INTENT_POINTSET"}
    faces = shape | {"Intent": "NIFTI_INTENT_TRIANGLE", "DataType": "NIFTI_TYPE_INT32"}
    for places, numbers, words in (
        (VALUES, np.full(12, 7, "<i4"), "vertices from 0 to 3"),
        (VALUES, np.full(12, -1, "<i4"), "vertices from 0 to 3"),
        (VALUES * np.nan, np.zeros(12, "<i4"), "no finite place"),
    ):
        arrays = (points, base64_of(places)), (faces, base64_of(numbers))
        with pytest.raises(ValueError, match=words):
            gifti.read_mesh(write(tmp_path / "x.gii", *arrays))
    with pytest.raises(ValueError, match="points and one of triangles"):
        gifti.read_mesh(write(tmp_path / "half.gii", (points, base64_of(VALUES))))


def test_bad_files_are_named(surface, tmp_path):
    bomb = write(tmp_path / "lh.gii.gz", ({}, gzipped(bytes(10**7))), encoding="GZipBase64Binary")
    with pytest.raises(OSError, match=r"lh.gii.gz: cannot be read as surface data .*more values"):
        load_maps([bomb], mesh=surface().mesh)
    odd = write(tmp_path / "lh.gii", ({"DataType": "NIFTI_TYPE_COMPLEX64"}, ""))
    with pytest.raises(ValueError, match=r"lh.gii: the voxels are complex numbers"):
        load_maps([odd], mesh=surface().mesh)
