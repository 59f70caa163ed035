"""Packing: a folder of maps becomes a store, scan by scan and then chunk by chunk.

Images come one by one, chunks hold all of them; between the two is a file ``rows`` in which scans
stand one after the other:

    1. every image is read once into ``rows``; its number and checksum go into ``rows.done``
    2. every chunk is cut out of ``rows`` and written
    3. the description is completed, ``rows`` deleted, the folder moved to its name

All of it happens in ``.<name>.partial`` beside the store. A run that is killed goes on where it
was, if the images, the mask and the settings are the same; a row or chunk that was cut short has a
wrong checksum and is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from voxprior.errors import InputError, option
from voxprior.images.fitting import check_fitting, fit_image_space, read_where_finite
from voxprior.images.imagespace import ImageSpace
from voxprior.images.labelling import LabeledMaps
from voxprior.images.maps import find_labels
from voxprior.images.packed import ARRAYS, KIND, VERSION, is_packed, open_packed, zarr_package
from voxprior.images.sources import Source, find_sources, n_volumes

# Bytes of a chunk before compression: large enough for the disk, small enough for any memory.
CHUNK = 16 * 10**6

Progress = Callable[[str, int], AbstractContextManager[Callable[..., None]]]


def _silent(name: str, total: int) -> AbstractContextManager[Callable[..., None]]:
    return nullcontext(lambda done=1: None)


def pack_maps(
    maps: Any,
    out: str | os.PathLike,
    y: Any = None,
    *,
    table: Any = None,
    label: str | None = None,
    key: str | None = None,
    covariates: Any = None,
    groups: Any = None,
    unmatched: str = "raise",
    progress: Progress = _silent,
    **settings: Any,
) -> Path:
    """Pack maps with their labels, groups and covariates into a zarr store.

    `load_maps`, `Decoder` and every command take the store in place of the images.

    Parameters
    ----------
    maps, y, table, label, key, covariates, groups, unmatched
        As in `load_maps`.
    out : path
        The store, a folder called ``<name>.zarr``.
    progress : callable, optional
        ``progress(name, total)`` gives a context with what is called after every step.
    **settings
        mask, mesh, smoothing_fwhm and resample, as in `fit_image_space`.

    Returns
    -------
    Path
        The store.

    Examples
    --------
    >>> import nibabel, numpy as np, tempfile
    >>> from voxprior.images import load_maps, pack_maps
    >>> values = np.random.default_rng(0).normal(size=(4, 3, 3, 2))
    >>> maps = [nibabel.Nifti1Image(v, np.eye(4)) for v in values]
    >>> store = pack_maps(maps, f"{tempfile.mkdtemp()}/study.zarr", ["a", "b", "a", "b"])
    >>> load_maps(store)
    Dataset(4 samples, 18 voxels, labels a: 2, b: 2)
    """
    zarr_package()  # what is missing is told before anything is read
    out = _free_name(Path(out))
    settings = {"standardize": "none", "scale": "none", "mask": "auto"} | {
        name: value for name, value in settings.items() if value is not None
    }
    check_fitting(None, settings)
    sources = find_sources(maps, settings.get("mesh"))
    counts = [n_volumes(source.load()) for source in sources]
    labels = {"table": table, "label": label, "key": key, "covariates": covariates}
    found = find_labels(sources, counts, y, groups=groups, unmatched=unmatched, **labels)
    images = fit_image_space(found.maps.sources, **settings)
    description = {
        "kind": KIND, "version": VERSION, "complete": False, "names": found.names,
        "label": label, "covariates": _names(found.maps.covariates),
        "table": _plain_table(found.maps, label), "groups": _plain(found.groups),
        "said": {"dropped": [*found.maps.dropped], "notes": [*found.said],
                 "decisions": [*found.decided]},
    }  # fmt: skip
    if description["table"] is not None and label is None and found.maps.y is not None:
        description["label"] = "label"
    work = out.with_name(f".{out.name}.partial")

    def rows(images: ImageSpace) -> np.ndarray:
        _start(work, _digest(images, found.maps.sources, description))
        return _write_rows(work, images, found.maps.sources, len(found.names), progress)

    images, values = read_where_finite(rows, images, found.maps.sources)
    _write_store(work, values, images, description, progress)
    del values
    for name in ("rows", "rows.done", "plan"):
        (work / name).unlink()
    os.replace(work, out)
    return out


def _free_name(out: Path) -> Path:
    """Refuse a name that is taken, or that commands would not know for a store."""
    if out.suffix != ".zarr":
        raise InputError(f"{out}: is no name of a store", expected="a name that ends in .zarr")
    if not out.exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        return out
    held = "other files"
    if is_packed(out):
        with suppress(InputError):  # of another program, or damaged
            held = f"{len(open_packed(out).names)} packed scans"
    raise InputError(
        f"{out}: holds {held} already", remedy="Choose another name, or delete it first"
    )


# ---------------------------------------------------------------- what is known beside the values


def _plain(values: Any) -> list | None:
    return None if values is None else np.asarray(values).tolist()


def _names(covariates: Any) -> list[str]:
    return [] if covariates is None else [str(name) for name in covariates.columns]


def _plain_table(maps: LabeledMaps, label: str | None) -> dict[str, list] | None:
    """The rows of the table that scans were joined to, or what was given one by one."""
    if maps.columns is not None:
        table = maps.columns.copy()
    elif maps.y is None and maps.covariates is None:
        return None
    else:
        import pandas as pd

        table = pd.DataFrame() if maps.covariates is None else maps.covariates.copy()
        if maps.y is not None:
            if (label or "label") in table:
                raise InputError(
                    f"A covariate is called {label or 'label'!r}, as the labels of the store are",
                    remedy=f"Give it another name, or name the labels by {option('label')}",
                )
            table[label or "label"] = maps.y
    table = table.astype(object).where(table.notna(), None)
    return {str(name): [*map(_plain_cell, column.tolist())] for name, column in table.items()}


def _plain_cell(value: Any) -> Any:
    """A cell as JSON has it; dates and the like as text."""
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def _digest(images: ImageSpace, sources: list[Source], description: dict[str, Any]) -> str:
    """Fingerprint of all that decides what is packed; files by name, size and time.

    Images in memory, which have none, are never those of an earlier run: the fingerprint is new.
    """
    files = []
    for source in sources:
        items = source.item.values() if isinstance(source.item, dict) else [source.path]
        stats = [os.stat(item) for item in items if isinstance(item, str | os.PathLike)]
        told = [part for stat in stats for part in (stat.st_size, stat.st_mtime_ns)]
        files.append((source.name, told or uuid4().hex))
    smoothing = [images.smoothing_fwhm, images.space.digest]
    text = json.dumps([files, smoothing, description], default=str, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


# ---------------------------------------------------------------- rows, then chunks


def _start(work: Path, plan: str) -> None:
    """Go on in a folder of the same plan, else begin anew."""
    known = work / "plan"
    if not (known.is_file() and known.read_bytes() == plan.encode()):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        known.write_text(plan)


def _write_rows(
    work: Path, images: ImageSpace, sources: list[Source], n: int, progress: Progress
) -> np.ndarray:
    """Scans one after the other, (n, V) in a memory map; those that are there are kept."""
    path, journal = work / "rows", work / "rows.done"
    shape = (n, images.space.n_voxels)
    if not path.exists():
        _take_room(path, 4 * n * shape[1])
    rows = np.memmap(path, np.float32, "r+", shape=shape)
    done = _finished(journal, rows)
    row = 0
    with progress("scans", n) as advance, journal.open("a") as book:
        for source in sources:
            count = n_volumes(source.load())
            here = range(row, row + count)
            if not done.issuperset(here):
                rows[row : row + count] = images.read(source)
                rows.flush()
                book.writelines(f"{i} {zlib.crc32(rows[i].tobytes())}\n" for i in here)
                book.flush()
            advance(count)
            row += count
    return rows


def _take_room(path: Path, n_bytes: int) -> None:
    """Make a file of zeros that has its place on the disk.

    A memory map of a file that has none kills the process where the disk is full.
    """
    new = path.with_name("rows.new")
    with new.open("wb") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, n_bytes)
        else:
            file.truncate(n_bytes)
    new.rename(path)


def _finished(journal: Path, rows: np.ndarray) -> set[int]:
    """Rows that the journal names, if they are what it says."""
    told = journal.read_text("ascii", "replace").splitlines() if journal.exists() else []
    pairs = [line.split(" ") for line in told if re.fullmatch(r"[0-9]{1,12} [0-9]{1,12}", line)]
    known = {int(i): int(c) for i, c in pairs if int(i) < len(rows)}
    return {i for i, checksum in known.items() if zlib.crc32(rows[i].tobytes()) == checksum}


def _write_store(
    work: Path,
    rows: np.ndarray,
    images: ImageSpace,
    description: dict[str, Any],
    progress: Progress,
) -> None:
    """Write chunks that are not there yet, then all else, and that it is complete at last."""
    n, V = rows.shape
    width = min(V, max(1, CHUNK // (4 * n)))
    saved = images.to_dict()
    group, scans = _kept(work, rows.shape, width)
    if group is None:  # there is none, or what the disk has of it is damaged
        for part in ("zarr.json", "scans"):
            remove = shutil.rmtree if (work / part).is_dir() else os.unlink
            if (work / part).exists():
                remove(work / part)
        group = zarr_package().open_group(str(work), mode="a")
        scans = _new_scans(group, rows.shape, width)
    with progress("blocks of voxels", -(-V // width)) as advance:
        for start in range(0, V, width):
            block = slice(start, min(V, start + width))
            if not _is_whole(scans, block, rows):
                scans[:, block] = rows[:, block]
            advance()
    for name in ARRAYS:
        if saved[name] is not None:
            values = np.asarray(saved[name])
            values = values.astype(np.uint8) if values.dtype == bool else values
            _write_whole(group, name, values)
    arrays = [name for name in ARRAYS if saved[name] is not None]
    plain = {name: value for name, value in saved.items() if name not in (*ARRAYS, "center")}
    group.attrs.update(description | {"images": plain, "arrays": arrays, "complete": True})


def _kept(work: Path, shape: tuple[int, int], width: int) -> tuple[Any, Any]:
    """The group and the scans of a run that was stopped, if they can be gone on with."""
    try:
        group = zarr_package().open_group(str(work), mode="r+")
        scans = group["scans"]
        fits = scans.shape == shape and scans.chunks == (shape[0], width)
        return (group, scans) if fits and np.isnan(scans.fill_value) else (None, None)
    except Exception:  # of files that a loss of power cut anywhere
        return None, None


def _new_scans(group: Any, shape: tuple[int, int], width: int) -> Any:
    from zarr.codecs import BloscCodec, Crc32cCodec

    squeezed = BloscCodec(cname="zstd", clevel=1, shuffle="bitshuffle", typesize=4)
    return group.create_array(
        "scans", shape=shape, chunks=(shape[0], width), dtype="float32",
        compressors=[squeezed, Crc32cCodec()],
        fill_value=np.nan,  # a chunk of fill values is not written, and zeros must be
    )  # fmt: skip


def _write_whole(group: Any, name: str, values: np.ndarray) -> None:
    """Write one of the small arrays, with a checksum, as one chunk that is written in any case."""
    from zarr.codecs import Crc32cCodec

    made = {"shape": values.shape, "chunks": values.shape, "dtype": values.dtype}
    fill = 255 if values.dtype == np.uint8 else -1
    made |= {"compressors": [Crc32cCodec()], "fill_value": fill, "overwrite": True}
    group.create_array(name, **made)[...] = values


def _is_whole(scans: Any, block: slice, rows: np.ndarray) -> bool:
    """Whether a chunk is there and holds what it should."""
    if not scans.nchunks_initialized:
        return False
    try:
        return np.array_equal(scans[:, block], rows[:, block])
    except (ValueError, RuntimeError, OSError):  # it was cut short
        return False
