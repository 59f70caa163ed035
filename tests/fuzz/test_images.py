"""Image files of every kind and damage, given as scans, runs, masks and meshes."""

import re

import nibabel
import numpy as np
import pytest
from hypothesis import strategies as st
from nibabel.gifti import GiftiDataArray, GiftiImage
from tests.fuzz.conftest import refusing
from tests.fuzz.edits import REALS, edited, wrapped

from voxprior.images import load_maps, load_runs

pytestmark = pytest.mark.fuzz

SHAPE, AFFINE = (4, 4, 3), np.diag([3.0, 3.0, 3.0, 1.0])
TYPES = ("f4", "f8", "u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "c8", "c16", ">f4", ">i2")
KINDS = (nibabel.Nifti1Image, nibabel.Nifti2Image, nibabel.MGHImage)
NAMES = ("x.nii", "x.nii.gz", "x.NII.GZ", "x.mgh", "x.mgz", "x.img", "x.hdr", "x.img.gz", "x.gii")
LABELS = ["rest", "face", "house", "face"]


@st.composite
def values(draw):
    """Voxels of some shape and type; some are extreme."""
    usual = st.sampled_from([SHAPE] * 4 + [(*SHAPE, 4)] * 3 + [(*SHAPE, 1), (3, 4, 4)])
    shape = draw(st.one_of(usual, st.lists(st.integers(1, 5), max_size=6).map(tuple)))
    kind = np.dtype(draw(st.sampled_from(TYPES)))
    voxels = np.random.default_rng(0).normal(50, 20, size=shape)
    extreme = draw(st.lists(st.sampled_from(REALS), max_size=4))
    if voxels.ndim and voxels.size >= len(extreme):
        voxels.flat[: len(extreme)] = extreme
    with np.errstate(all="ignore"):
        return voxels.astype(kind)


@st.composite
def volumes(draw):
    """A name and the bytes of an image file, whose header may say anything."""
    kind, voxels = draw(st.sampled_from(KINDS)), draw(values())
    try:
        content = bytearray(kind(voxels, AFFINE).to_bytes())
    except Exception:  # nibabel does not write this type or shape
        content = bytearray(nibabel.Nifti1Image(np.ones(SHAPE, "f4"), AFFINE).to_bytes())
    fields = kind.header_class.template_dtype.fields
    for name in draw(st.lists(st.sampled_from(sorted(fields)), max_size=3)):
        dtype, at = fields[name]
        new = draw(st.one_of(numbers(dtype), st.binary(min_size=1, max_size=dtype.itemsize)))
        content[at : at + len(new)] = new
    usual = ("x.mgh", "x.mgz") if kind is nibabel.MGHImage else ("x.nii", "x.nii.gz")
    name = draw(st.sampled_from([*usual] * 5 + [*NAMES]))
    by_name = "gzip" if name.lower().endswith(("gz", "mgz")) else "plain"
    return name, draw(wrapped(draw(edited(bytes(content), most=1)), by_name))


def numbers(dtype):
    """Bytes of one number, and nothing else, of a field of a header."""
    base = dtype.base.newbyteorder("<")
    if base.kind not in "iuf":
        return st.binary(min_size=1, max_size=dtype.itemsize)
    if base.kind == "f":
        return st.sampled_from(REALS).map(lambda n: _cast(n, base))
    limits = np.iinfo(base)
    small = [n for n in REALS if limits.min <= n <= limits.max]
    return st.sampled_from(small).map(lambda n: _cast(n, base))


def _cast(number, dtype):
    with np.errstate(all="ignore"):
        return np.array([number]).astype(dtype).tobytes()


@pytest.fixture
def good(tmp_path):
    """Images without fault: one to fit a reader on, one with another place."""
    path = tmp_path / "good.nii.gz"
    voxels = np.random.default_rng(1).normal(50, 20, size=SHAPE).astype("f4")
    nibabel.Nifti1Image(voxels, AFFINE).to_filename(path)
    return path


def test_volumes(explore, tmp_path, good):
    space = load_maps([good]).images
    uses = {
        "alone": lambda path: load_maps(path),
        "among others": lambda path: load_maps([good, path]),
        "resampled": lambda path: load_maps([good, path], resample=True),
        "new": lambda path: load_maps(path, images=space),
        "smoothed": lambda path: load_maps(path, smoothing_fwhm=4.0),
        "a run": lambda path: load_runs(path, labels=LABELS, mask="data"),
        "a mask": lambda path: load_maps([good], mask=path),
    }

    def check(file, use):
        name, content = file
        path = tmp_path / name
        path.write_bytes(content)
        with refusing():
            found = uses[use](path)
            assert np.isfinite(found.X).all()
            assert found.X.shape[1] == found.space.n_voxels
        path.unlink()

    explore(check, volumes(), st.sampled_from(sorted(uses)), round_of=100)


CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], "f4")
FACES = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]], "i4")


def gifti(*arrays, encoding="B64GZ"):
    return GiftiImage(
        darrays=[
            GiftiDataArray(
                array,
                intent=f"NIFTI_INTENT_{intent}",
                encoding=encoding,
                datatype="NIFTI_TYPE_INT32" if array.dtype.kind == "i" else "NIFTI_TYPE_FLOAT32",
            )
            for array, intent in arrays
        ]
    ).to_bytes()


@st.composite
def surfaces(draw):
    """The bytes of a GIFTI file whose attributes may say anything."""
    encoding = draw(st.sampled_from(["ASCII", "B64BIN", "B64GZ"]))
    maps = [(CORNERS[:, 0], "SHAPE")] * draw(st.integers(0, 3))
    mesh = [(CORNERS, "POINTSET"), (FACES, "TRIANGLE")]
    text = gifti(*draw(st.sampled_from([maps, mesh])), encoding=encoding).decode()
    for _ in range(draw(st.integers(0, 3))):
        attributes = list(re.finditer(r'"[^"]*"', text))
        found = draw(st.sampled_from(attributes))
        others = [other[0] for other in attributes]
        wild = st.sampled_from([*map(str, REALS), "", "ASCII", "/etc/passwd", "&x;"])
        new = draw(st.one_of(st.sampled_from(others), wild.map(lambda word: f'"{word}"')))
        text = text[: found.start()] + new + text[found.end() :]
    return draw(edited(text.encode(), most=2))


def test_surfaces(explore, tmp_path):
    good = {"map": gifti((CORNERS[:, 0], "SHAPE"))}
    good["mesh"] = gifti((CORNERS, "POINTSET"), (FACES, "TRIANGLE"))

    def check(content, use):
        paths = {}
        for side in ("left", "right"):
            for what in good:
                paths[side, what] = tmp_path / f"{side}_{what}.gii"
                paths[side, what].write_bytes(content if what == use else good[what])
        with refusing():
            scan = {side: paths[side, "map"] for side in ("left", "right")}
            mesh = {side: paths[side, "mesh"] for side in ("left", "right")}
            found = load_maps([scan], mesh=mesh)
            assert np.isfinite(found.X).all()

    explore(check, surfaces(), st.sampled_from(sorted(good)), round_of=100)
