"""A packed study: maps, mask, labels, groups and covariates in one zarr store, read by blocks.

    zarr.json          attributes: names of the scans, the table, what its columns are, settings
    scans              (n, V) float32; a chunk holds some voxels of all scans
    mask, affine       of volumes; mask, points and faces of surfaces

A chunk is one file, compressed and with a checksum (CRC-32C): a block of voxels of all scans is one
sequential read, and damage is found by whoever reads it. Arrays hold numbers and attributes are
JSON; a store of another format, or with other codecs than these, is refused unread, so that nothing
in it is ever run.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from voxprior.blocks import BlockedScans, memory_limit
from voxprior.blocks.scans import COPIES, ChunkedArray
from voxprior.errors import InputError, option
from voxprior.images.imagespace import ImageSpace
from voxprior.images.sources import Source

KIND, VERSION = "voxprior packed maps", 2
SAID = ("dropped", "notes", "decisions")
ARRAYS = ("mask", "affine", "points", "faces")
# All that `voxprior pack` writes. Another codec could run what the store holds: one unpickles.
CODECS = {"bytes", "blosc", "zstd", "crc32c"}
# What zarr, pandas and numpy raise where a description is not what it should be.
DAMAGED = (
    ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError,
)  # fmt: skip


class PackedArray(ChunkedArray):
    """Scans of a store; a chunk that cannot be read is told in one line."""

    def __init__(self, array: Any, path: Path):
        super().__init__(array)
        self.path = str(path)

    def _fetched(self, start: int, stop: int) -> np.ndarray:
        try:
            return super()._fetched(start, stop)
        except (ValueError, RuntimeError, OSError, SystemError) as error:
            raise InputError(
                f"{self.path}: voxels {start} to {stop} are damaged ({str(error).split('. ')[0]})",
                remedy="Copy it again, or pack the images again",
            ) from error


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


def zarr_package() -> Any:
    """Return zarr, or say how to install it."""
    try:
        import zarr
    except ImportError as error:
        raise InputError(
            "Packed studies need the package zarr", remedy="Run: pip install 'voxprior[dask]'"
        ) from error
    return zarr


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
    zarr = zarr_package()
    try:
        group = zarr.open_group(str(path), mode="r", zarr_format=3)
        found = dict(group.attrs)
        if not isinstance(found.get("kind"), str):
            raise TypeError
    except DAMAGED as error:
        raise InputError(
            f"{path}: is no packed study", remedy="Make one with voxprior pack"
        ) from error
    if found.get("kind") != KIND or found.get("version") != VERSION:
        raise InputError(
            f"{path}: was not packed by this version of voxprior",
            expected=f"{KIND}, version {VERSION}",
            got=f"{found.get('kind', 'another store')}, version {found.get('version', 'unknown')}",
            remedy="Pack the images again",
        )
    if not found.get("complete"):
        raise InputError(
            f"{path}: was not packed to its end", remedy="Run voxprior pack again, which goes on"
        )
    try:
        return _opened(path, group, found)
    except DAMAGED as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path}: its description is damaged ({type(error).__name__})",
            remedy="Copy it again, or pack the images again",
        ) from error


def _opened(path: Path, group: Any, found: dict[str, Any]) -> PackedMaps:
    arrays = {
        name: _read_array(path, group, name) if name in found["arrays"] else None for name in ARRAYS
    }
    _check_description(found)
    if arrays["mask"] is not None:
        arrays["mask"] = arrays["mask"].astype(bool)
    images = ImageSpace.from_dict({**found["images"], **arrays, "center": None})
    scans, names = _array(path, group, "scans"), [str(name) for name in found["names"]]
    expected = (len(names), images.space.n_voxels)
    if scans.shape != expected or scans.dtype != np.float32:
        raise InputError(
            f"{path}: its scans do not fit its mask and names",
            expected=f"shape {expected} of float32",
            got=f"shape {scans.shape} of {scans.dtype}",
        )
    missing = scans.nchunks - scans.nchunks_initialized
    if missing:
        raise InputError(
            f"{path}: lacks {missing} of {scans.nchunks} parts of the scans",
            remedy="Copy it again, or pack the images again",
        )
    table = None if found["table"] is None else pd.DataFrame(found["table"])
    groups = None if found["groups"] is None else np.array(found["groups"])
    for what, values in (("table", table), ("groups", groups)):
        if values is not None and len(values) != len(names):
            raise InputError(f"{path}: its {what} has not one entry per scan")
    described = (found["label"], list(found["covariates"]), groups, found["said"])
    return PackedMaps(path, images, names, table, *described, PackedArray(scans, path))


def _check_description(found: dict[str, Any]) -> None:
    """Raise unless all that is told of the scans is of the kind that is packed."""
    said, label, groups = found["said"], found["label"], found["groups"]
    lists = [found["names"], found["covariates"], *(said[k] for k in SAID)]
    fits = all(isinstance(one, list) and all(isinstance(s, str) for s in one) for one in lists)
    fits &= label is None or isinstance(label, str)
    fits &= groups is None or all(isinstance(g, str | int | float) for g in groups)
    fits &= found["table"] is None or isinstance(found["table"], dict)
    if not fits:
        raise ValueError


def _array(path: Path, group: Any, name: str) -> Any:
    """An array of the store, unread, if it is of the kind that is packed."""
    array = group[name]
    written = array.metadata.to_dict()["codecs"]
    codecs = {codec["name"] for codec in written}
    little = all(c.get("configuration", {}).get("endian", "little") == "little" for c in written)
    usual = codecs <= CODECS and little and min(array.chunks, default=1) > 0
    if not usual or array.dtype.kind not in "fiu":
        raise InputError(
            f"{path}: {name} is not written as voxprior pack writes it",
            expected=f"numbers, by the codecs {', '.join(sorted(CODECS))}",
            got=f"{array.dtype}, by {', '.join(sorted(codecs))}",
            remedy="Pack the images again",
        )
    return array


def _read_array(path: Path, group: Any, name: str) -> np.ndarray:
    """One of the small arrays, if it is small."""
    array = _array(path, group, name)
    size = array.size * array.dtype.itemsize
    if size > memory_limit():
        raise InputError(
            f"{path}: {name} would take {size / 1e9:.3g} GB",
            expected=f"at most {memory_limit() / 1e9:.3g} GB",
            remedy="If that much is not expected the store is damaged: copy it again",
        )
    return array[:]


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
