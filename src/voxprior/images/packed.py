"""A packed study: maps, mask, labels, groups and covariates in one zarr store, read by blocks.

    zarr.json          attributes: the description, see below
    scans              (n, V) float32; a chunk holds some voxels of all scans
    mask, affine       of volumes; mask, points and faces of surfaces

The description holds the names of the scans, the columns that are used, settings, and the shape of
every array with the SHA-256 of each of its chunks, by its place. Its `digest` is the SHA-256 of all
else that it holds. So the store proves what it was when it was packed: a chunk, a label or a shape
that was changed or exchanged is found by whoever reads it (`voxprior.images.chunks`). Stores of
version 0.2 have no digests: they are read within the same bounds, with a warning.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from voxprior.blocks import BlockedScans, memory_limit
from voxprior.blocks.scans import COPIES, ChunkedArray
from voxprior.blocks.threads import side_by_side
from voxprior.errors import InputError, InputWarning, option
from voxprior.images.chunks import (
    ARRAYS,
    SCANS,
    StoredArray,
    damaged,
    digest_of,
    package,
    read_document,
)
from voxprior.images.imagespace import ImageSpace
from voxprior.images.sources import Source

KIND, VERSION = "voxprior packed maps", 3
WITHOUT_DIGESTS = 2
SAID = ("dropped", "notes", "decisions")
# What zarr, pandas and numpy raise where a description is not what it should be.
DAMAGED = (
    ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError,
)  # fmt: skip


class PackedArray(ChunkedArray):
    """Scans of a store; every chunk is checked when it is read, here or by a worker."""

    finite = True  # reading refuses chunks that are not

    def _fetched(self, start: int, stop: int) -> np.ndarray:
        found = np.empty((self.shape[0], stop - start), self.dtype)
        width = self.array.chunks[1]

        def fill(index: int) -> None:
            left = index * width
            numbers = self.array.chunk(index)
            here = slice(max(start, left), min(stop, left + width))
            part = numbers[:, here.start - left : here.stop - left]
            found[:, here.start - start : here.stop - start] = part

        side_by_side(fill, range(start // width, -(-stop // width)))
        return found

    def digest(self) -> str:
        """Fingerprint of all values; that of what is proved anyway when it is read."""
        if self.array.digests is None:
            return super().digest()
        return digest_of(json.dumps([self.shape, self.array.digests]).encode())


class PackedMaps(NamedTuple):
    """What a store holds."""

    path: Path
    images: ImageSpace
    names: list[str]
    table: pd.DataFrame | None
    label: str | None
    covariates: list[str]
    groups: np.ndarray | None
    said: dict[str, list[str]]  # "dropped", "notes" and "decisions" of the Dataset
    scans: PackedArray

    @property
    def sources(self) -> list[Source]:
        """Scans by name; what is opened is the number of their row."""
        return [Source(name, row) for row, name in enumerate(self.names)]

    def read(self, rows: np.ndarray) -> Any:
        """Some scans: an array if they fit into memory, else `BlockedScans`."""
        everyone = np.array_equal(rows, np.arange(len(self.names)))
        scans = BlockedScans(self.scans, None if everyone else rows)
        return scans if COPIES * scans.nbytes > memory_limit() else scans[:, :]


def is_packed(images: Any) -> bool:
    """Whether images are named by the folder of a store."""
    if isinstance(images, list | tuple) and len(images) == 1:
        images = images[0]
    if not isinstance(images, str | os.PathLike):
        return False
    return Path(images).is_dir() and (
        Path(images).suffix == ".zarr" or (Path(images) / "zarr.json").exists()
    )


def open_packed(images: Any) -> PackedMaps:
    """Open a store that `is_packed`; no scan is read yet."""
    path = Path(images[0] if isinstance(images, list | tuple) else images)
    package("numcodecs")  # a missing package is reported before anything is read
    found = _description(path)
    try:
        return _opened(path, found)
    except DAMAGED as error:
        if isinstance(error, InputError):
            raise
        raise damaged(path, f"its description: {error or type(error).__name__}") from error


def description_digest(found: dict[str, Any]) -> str:
    """Digest of all else that a description holds."""
    content = {key: value for key, value in found.items() if key != "digest"}
    return digest_of(json.dumps(content, sort_keys=True, ensure_ascii=False).encode())


def _description(path: Path) -> dict[str, Any]:
    """The attributes of a store, if they are what was packed."""
    document = path / "zarr.json"
    root = read_document(document, "packed study") if os.path.lexists(document) else None
    found: Any = root.get("attributes") if isinstance(root, dict) else None
    if not isinstance(found, dict) or not isinstance(found.get("kind"), str):
        raise InputError(f"{path}: is not a packed study", remedy="Make one with voxprior pack")
    if found["kind"] != KIND or found.get("version") not in (VERSION, WITHOUT_DIGESTS):
        raise InputError(
            f"{path}: was not packed by this version of voxprior",
            expected=f"{KIND}, version {VERSION}",
            got=f"{found['kind'][:50]}, version {str(found.get('version', 'unknown'))[:50]}",
            remedy="Pack the images again",
        )
    if not found.get("complete"):
        raise InputError(
            f"{path}: was not packed to its end", remedy="Run voxprior pack again, which goes on"
        )
    try:
        digest = description_digest(found)
    except UnicodeEncodeError as error:
        raise damaged(document, "it holds text that is not Unicode") from error
    if found["version"] == VERSION and found.get("digest") != digest:
        raise damaged(document, "it was changed after packing")
    return found


def _opened(path: Path, found: dict[str, Any]) -> PackedMaps:
    _check_description(found)
    names, stored = found["names"], _stored(path, found)
    arrays: dict[str, Any] = dict.fromkeys(ARRAYS)
    arrays |= {name: stored[name].chunk() for name in stored if name not in ("mask", SCANS)}
    mask = arrays["mask"] = _booleans(path, stored["mask"].chunk())
    scans = stored[SCANS]
    expected = (len(names), int(np.count_nonzero(mask)))
    if scans.shape != expected:
        raise InputError(
            f"{path}: its scans do not fit its mask and names",
            expected=f"shape {expected}",
            got=f"shape {scans.shape}",
        )
    try:
        images = ImageSpace.from_dict({**found["images"], **arrays, "center": None})
    except DAMAGED as error:  # which names a setting, as if the user had given it
        raise damaged(path, f"its description: {error}") from error
    if images.parts and sum(n for _, n in images.parts) != mask.size:
        raise ValueError("its hemispheres are not those of its mask")
    missing = sum(not os.path.lexists(scans.file(index)) for index in range(scans.n_chunks))
    if missing:
        raise InputError(
            f"{path}: lacks {missing} of {scans.n_chunks} parts of the scans",
            remedy="Copy it again, or pack the images again",
        )
    columns, rows = found["table"], range(len(names))
    table = None if columns is None else pd.DataFrame(columns, index=rows)
    groups = None if found["groups"] is None else np.array(found["groups"])
    if found["version"] == WITHOUT_DIGESTS:
        warnings.warn(
            InputWarning(
                f"{path}: was packed by version 0.2, which kept no digests: nothing proves that "
                "its labels and the places of its parts are those of the images. Pack them again."
            ),
            stacklevel=4,
        )
    described = (found["label"], found["covariates"], groups, found["said"])
    return PackedMaps(path, images, names, table, *described, PackedArray(scans))


def _stored(path: Path, found: dict[str, Any]) -> dict[str, StoredArray]:
    """The arrays of a store, each of which is described as `voxprior pack` does."""
    listed, digests = found["arrays"], found["version"] != WITHOUT_DIGESTS
    names = {*listed} if digests else {*listed, SCANS}
    kinds = {"mask", "affine"} if found["images"]["parts"] is None else {"mask", "points", "faces"}
    if not {"mask", SCANS} <= names <= kinds | {SCANS}:
        raise ValueError(f"arrays {', '.join(names)}")
    arrays = {}
    for name in names:
        entry = listed[name] if digests else _without_digests(path / name)
        array = StoredArray.of(path / name, entry["shape"], entry["chunks"])
        array.check()
        arrays[name] = array
    return arrays


def _without_digests(folder: Path) -> dict[str, Any]:
    """The description of an array, where only the array itself has one."""
    found = read_document(folder / "zarr.json", "description of an array")
    return {"shape": found["shape"], "chunks": None}


def _booleans(path: Path, mask: np.ndarray) -> np.ndarray:
    if mask.max() > 1:
        raise damaged(path / "mask", "a mask holds 0 and 1")
    return mask.view(bool)


def _check_description(found: dict[str, Any]) -> None:
    """Raise unless all facts about the scans are of the kind that is packed."""
    said, label, groups, images = found["said"], found["label"], found["groups"], found["images"]
    lists = [found["names"], found["covariates"], images["notes"], *(said[k] for k in SAID)]
    for one in lists:
        if not (isinstance(one, list) and all(isinstance(s, str) for s in one)):
            raise TypeError("a list of texts is something else")
    if not (label is None or isinstance(label, str)):
        raise TypeError("the name of the label is not a text")
    used = [label, *found["covariates"]]
    if len({*used}) < len(used):
        raise ValueError("the label or a covariate is named twice")
    if type(images["voxels_dropped"]) is not int:
        raise TypeError("a number of voxels is something else")
    columns = {} if found["table"] is None else found["table"]
    for what, cells in (*columns.items(), ("groups", groups)):
        if cells is None and what == "groups":
            continue
        if not isinstance(cells, list) or len(cells) != len(found["names"]):
            raise ValueError(f"{what} has not one entry per scan")
        if not all(_is_cell(cell, missing=what != "groups") for cell in cells):
            raise TypeError(f"{what} holds more than texts and numbers")
        texts = {isinstance(cell, str) for cell in cells if cell is not None}
        if what in found["covariates"] and len(texts) > 1:
            raise TypeError(f"{what} holds both texts and numbers")
    for side, n in images["parts"] or ():
        if side not in ("left", "right") or type(n) is not int or n < 1:
            raise ValueError("hemispheres")


def _is_cell(cell: Any, missing: bool) -> bool:
    """Whether this is a text or a number as columns hold them."""
    if type(cell) is int:
        return -(2**63) <= cell < 2**63
    if isinstance(cell, float):
        return math.isfinite(cell)
    return isinstance(cell, str | bool) or (missing and cell is None)


def refuse_reading_settings(packed: PackedMaps, settings: dict[str, Any]) -> None:
    """Refuse settings of reading that were decided when the images were packed."""
    usual = {"detrend": False, "resample": False, "standardize": "auto", "scale": "auto"}
    free = ("standardize", "scale")
    given = [n for n, v in settings.items() if n not in free and v != usual.get(n)]
    if given:
        raise InputError(
            f"{packed.path}: is packed, so {', '.join(map(option, given))} would have no effect",
            remedy="Give them to voxprior pack",
        )
    if settings.get("standardize") in ("run", "baseline"):
        raise InputError(
            f"{option('standardize', settings['standardize'])} is for runs, and "
            f"{packed.path} holds maps"
        )
