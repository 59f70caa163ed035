"""Packed stores that voxprior did not write so: a good one, and what somebody made of it.

`HOSTILE` names changes of a good store. Those that would be found by a digest of the description
alone are sealed: all digests are made right again, so that what they lead to must be refused too.
"""

import json
import os
import shutil
import struct

import nibabel
import numpy as np
import pandas as pd
from numcodecs import Blosc

from voxprior.images import pack_maps
from voxprior.images.chunks import _crc32c, digest_of
from voxprior.images.packed import description_digest

N, WIDTH = 12, 25
# For `voxprior.images.chunks.CHUNK`: four chunks of scans.
CHUNK = 4 * N * WIDTH


def good_store(folder):
    rng = np.random.default_rng(0)
    for i in range(N):
        values = 5 + rng.normal(size=(5, 5, 4)) + (i % 2)
        image = nibabel.Nifti1Image(values.astype("f4"), np.diag([2, 2, 3, 1.0]))
        nibabel.save(image, folder / f"s{i:02}.nii")
    table = pd.DataFrame({"file": [f"s{i:02}" for i in range(N)], "animal": ["cat", "dog"] * 6})
    table = table.assign(run=np.repeat(["a", "b", "c"], 4), age=np.arange(N))
    named = {"label": "animal", "groups": "run", "covariates": ["age"]}
    return pack_maps(f"{folder}/*.nii", folder / "good.zarr", table=table, **named)


# ---------------------------------------------------------------- how they are changed


def edited(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def described(change, seal=True):
    """Change the description of a store."""

    def whole(root):
        change(root["attributes"])
        if seal:
            root["attributes"]["digest"] = description_digest(root["attributes"])

    return lambda store: edited(store / "zarr.json", whole)


def setting(seal=True, **values):
    return described(lambda found: found.update(values), seal)


def inside(name, seal=True, **values):
    return described(lambda found: found[name].update(values), seal)


def array(name, **values):
    return lambda store: edited(store / name / "zarr.json", lambda found: found.update(values))


def codecs(name, change):
    return lambda store: edited(store / name / "zarr.json", lambda found: change(found["codecs"]))


def shaped(name, shape):
    """Give an array another shape, in its own and in the whole description."""

    def change(store):
        grid = {"name": "regular", "configuration": {"chunk_shape": shape}}
        array(name, shape=shape, **({} if name == "scans" else {"chunk_grid": grid}))(store)
        described(lambda found: found["arrays"][name].update(shape=shape))(store)

    return change


def chunk(name="scans", index=1, seal=True):
    """Replace a chunk by what is made of it, before its checksum; seal it too."""

    def made_by(make):
        def change(store):
            path = sorted(one for one in (store / name / "c").rglob("*") if one.is_file())
            path = path[index if name == "scans" else 0]
            body = make(path.read_bytes()[:-4])
            content = body + _crc32c(body).to_bytes(4, "little")
            path.write_bytes(content)
            if seal:
                k = index if name == "scans" else 0
                described(
                    lambda found: found["arrays"][name]["chunks"].__setitem__(k, digest_of(content))
                )(store)

        return change

    return made_by


def numbers(change, shuffle=Blosc.BITSHUFFLE, cname="zstd", **options):
    """Chunk of other numbers."""

    def make(body):
        values = np.frombuffer(Blosc().decode(body), "<f4").reshape(N, WIDTH).copy()
        values = change(values)
        return Blosc(cname, 1, shuffle, **options).encode(np.ascontiguousarray(values))

    return make


def put(value):
    def change(values):
        values[3, 4] = value
        return values

    return change


def declaring(at, value):
    """Chunk whose header says another number of bytes."""
    return lambda body: body[:at] + struct.pack("<I", value) + body[at + 4 :]


def exchanged(store):
    first, second = (store / "scans/c/0" / name for name in "01")
    a, b = first.read_bytes(), second.read_bytes()
    first.write_bytes(b)
    second.write_bytes(a)


def flipped(name):
    def change(store):
        path = next(one for one in (store / name / "c").rglob("*") if one.is_file())
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)

    return change


def without_checksum(store):
    codecs("scans", lambda listed: listed.pop())(store)
    path = store / "scans/c/0/1"
    path.write_bytes((store / "scans/c/0/2").read_bytes()[:-4])


def replaced(name, make):
    """A file or folder of the store gives way to something else."""

    def change(store):
        path = store / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        make(path)

    return change


def linked(name):
    def change(store):
        path = store / name
        other = store.with_name("elsewhere")
        path.rename(other)
        path.symlink_to(other)

    return change


def large(path):
    with path.open("wb") as file:
        file.truncate(2 * 10**9)


def large_mask(store):
    shaped("mask", [1000, 1000, 2000])(store)
    large(store / "mask/c/0/0/0")


def before_digests(store):
    """Make a store as version 0.2 wrote it."""
    described(lambda found: found.update(version=2, arrays=["mask", "affine"]))(store)
    described(lambda found: found.pop("digest"), seal=False)(store)


def older(change):
    def both(store):
        change(store)
        before_digests(store)

    return both


def twice(store):
    path = store / "zarr.json"
    path.write_text(path.read_text().replace('"label":', '"label": "age", "label":', 1))


def many_brackets(path):
    path.write_text('{"attributes": [' + "[]," * 7_000_000 + "0]}")


ZSTD = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
GZIP = {"name": "gzip", "configuration": {"level": 5}}
PICKLE = {"name": "numcodecs.pickle", "configuration": {"protocol": 5}}

CHANGED = {
    "chunks exchanged": exchanged,
    "another chunk and no checksum": without_checksum,
    "numbers of a chunk": chunk(seal=False)(numbers(put(7))),
    "a bit of the scans": flipped("scans"),
    "a bit of the mask": flipped("mask"),
    "a bit of the affine": flipped("affine"),
    "labels reversed": described(lambda found: found["table"]["animal"].reverse(), seal=False),
    "names reversed": described(lambda found: found["names"].reverse(), seal=False),
    "groups reversed": described(lambda found: found["groups"].reverse(), seal=False),
    "another label": setting(label="run", seal=False),
    "another covariate": setting(covariates=[], seal=False),
    "another smoothing": inside("images", smoothing_fwhm=4.0, seal=False),
    "no digest": described(lambda found: found.pop("digest"), seal=False),
    "mask of another shape": array("mask", shape=[4, 5, 5]),
    "a chunk cut short": replaced("scans/c/0/1", lambda path: path.write_bytes(b"cut")),
    "an empty chunk": replaced("scans/c/0/1", lambda path: path.touch()),
    "a missing chunk": replaced("scans/c/0/1", lambda path: None),
    "a large chunk": replaced("scans/c/0/1", large),
    "no mask": replaced("mask", lambda path: None),
}
SEALED = {
    "NaN": chunk()(numbers(put(np.nan))),
    "infinity": chunk()(numbers(put(np.inf))),
    "NaN in the last chunk": chunk(index=3)(numbers(put(np.nan))),
    "a chunk that declares 1.9 GB": chunk()(declaring(4, 1_900_000_000)),
    "a chunk of a large block": chunk()(declaring(8, 1_900_000_000)),
    "a chunk that declares its end elsewhere": chunk()(declaring(12, 2**31)),
    "a chunk of other compression": chunk()(numbers(put(7), cname="lz4")),
    "a chunk of bytes": chunk()(numbers(lambda values: values.view("u1"))),
    "a chunk of more voxels": chunk()(numbers(lambda values: np.tile(values, 2))),
    "a chunk of fewer voxels": chunk()(numbers(lambda values: values[:, :-1])),
    "a chunk as it is": chunk()(Blosc().decode),
    "a chunk of nothing": chunk()(lambda body: b""),
    "other codecs": codecs("scans", lambda listed: listed.__setitem__(1, GZIP)),
    "codecs of the mask": codecs("mask", lambda listed: listed.insert(1, ZSTD)),
    "a codec that runs code": codecs("mask", lambda listed: listed.insert(0, PICKLE)),
    "no checksum": codecs("scans", lambda listed: listed.pop()),
    "no codecs": array("scans", codecs=[]),
    "codecs that are none": array("scans", codecs={"name": "bytes"}),
    "bits not shuffled": codecs(
        "scans", lambda listed: listed[1]["configuration"].update(shuffle="noshuffle")
    ),
    "the other order of bytes": codecs(
        "scans", lambda listed: listed[0]["configuration"].update(endian="big")
    ),
    "double precision": array("scans", data_type="float64"),
    "texts": array("affine", data_type="string", fill_value=""),
    "another fill value": array("scans", fill_value=0.0),
    "narrow chunks": array(
        "scans", chunk_grid={"name": "regular", "configuration": {"chunk_shape": [N, 1]}}
    ),
    "other files": array("scans", chunk_key_encoding={"name": "v2"}),
    "a transformer": array("scans", storage_transformers=[{"name": "x"}]),
    "an unknown key": array("scans", must_understand=True),
    "scans for ever": shaped("scans", [N, 10**12]),
    "a mask for ever": shaped("mask", [10**4, 10**4, 10**4]),
    "a mask of no voxels": shaped("mask", [0, 5, 4]),
    "a mask that is a line": shaped("mask", [100]),
    "a mask of texts": shaped("mask", ["5", 5, 4]),
    "a mask of 2 GB": large_mask,
    "a mask of twos": chunk("mask")(lambda body: b"\2" * len(body)),
    "an empty mask": chunk("mask")(lambda body: bytes(len(body))),
    "an affine of NaN": chunk("affine")(lambda body: np.full(16, np.nan).tobytes()),
    "a flat affine": chunk("affine")(lambda body: bytes(len(body))),
    "fewer names": described(lambda found: found["names"].pop()),
    "names that are numbers": setting(names=[*range(N)]),
    "columns of lists": inside("table", animal=[[1]] * N),
    "a column that is short": inside("table", animal=["cat"]),
    "a column of huge numbers": inside("table", animal=[10**40] * N),
    "a column of texts and numbers": inside("table", age=["x", 1] * 6),
    "a column of infinity": inside("table", age=[float("inf")] * N),
    "the label among the covariates": setting(covariates=["animal"]),
    "a covariate twice": setting(covariates=["age", "age"]),
    "a table that is a list": setting(table=[]),
    "groups of lists": setting(groups=[[1]] * N),
    "groups of nothing": setting(groups=[None] * N),
    "a label that is none": setting(label="plant"),
    "a covariate that is none": setting(covariates=["plant"]),
    "text that is not Unicode": lambda store: edited(
        store / "zarr.json", lambda root: root["attributes"].update(label="\ud800")
    ),
    "nothing of the images": setting(images={}),
    "hemispheres": inside("images", parts=[["left", 50], ["right", 50]]),
    "smoothing in words": inside("images", smoothing_fwhm="4 mm"),
    "smoothing for ever": inside("images", smoothing_fwhm=1e300),
    "another reading": inside("images", standardize="holiday"),
    "notes that are numbers": inside("images", notes=[1]),
    "arrays elsewhere": setting(arrays={"../../etc": {"shape": [1], "chunks": ["0"]}}),
    "arrays that are none": setting(arrays=[3]),
    "no scans": described(lambda found: found["arrays"].pop("scans")),
    "too few digests": described(lambda found: found["arrays"]["scans"]["chunks"].pop()),
    "digests that are numbers": described(
        lambda found: found["arrays"]["scans"].update(chunks=[1, 2, 3, 4])
    ),
    "another version": setting(version=4),
    "a version that is a list": setting(version=[3]),
    "not complete": setting(complete=False),
}
FILES = {
    "a key twice": twice,
    "a description of 20 MB": replaced("zarr.json", many_brackets),
    "a description without end": replaced("zarr.json", large),
    "a deep description": replaced("zarr.json", lambda path: path.write_text("[" * 10**5)),
    **{f"{name} is a FIFO": replaced(name, os.mkfifo) for name in
       ("zarr.json", "scans/zarr.json", "mask/zarr.json", "mask/c/0/0/0", "scans/c/0/1")},
    **{f"{name} is a folder": replaced(name, os.mkdir) for name in
       ("zarr.json", "scans/zarr.json", "mask/c/0/0/0", "scans/c/0/1")},
    **{f"{name} is a link": linked(name) for name in
       ("zarr.json", "scans/zarr.json", "mask/c/0/0/0", "scans/c/0/1")},
    "a chunk is a device": replaced("scans/c/0/1", lambda path: path.symlink_to("/dev/zero")),
    "a description is a device": replaced("zarr.json", lambda path: path.symlink_to("/dev/zero")),
}  # fmt: skip
OF_VERSION_0_2 = {
    f"0.2: {name}": older((CHANGED | SEALED)[name])
    for name in (
        "a bit of the scans", "a bit of the mask", "a chunk cut short", "a missing chunk",
        "another chunk and no checksum", "NaN", "infinity", "a chunk that declares 1.9 GB",
        "a chunk of a large block", "a chunk of other compression", "a chunk as it is",
        "other codecs", "narrow chunks", "scans for ever", "a mask for ever", "a mask of 2 GB",
        "a mask of twos", "an affine of NaN", "fewer names", "columns of lists", "no mask",
    )
} | {
    "0.2: arrays elsewhere": lambda store: [
        before_digests(store), setting(arrays=["mask", "../../etc"], seal=False)(store)],
    "0.2: a link": lambda store: [before_digests(store), linked("mask/zarr.json")(store)],
}  # fmt: skip
HOSTILE = CHANGED | SEALED | FILES | OF_VERSION_0_2
