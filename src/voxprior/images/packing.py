"""Packing: a folder of maps becomes a store, scan by scan and then chunk by chunk.

Images come one by one, chunks hold all of them; between the two is a file ``rows`` in which scans
stand one after the other:

    1. every image is read once into ``rows``; its number and checksum go into ``rows.done``
    2. every chunk is cut out of ``rows`` and written
    3. the description gets the digest of every chunk by its place and of itself, ``rows`` is
       deleted, the folder moved to its name

All of it happens in ``.<name>.partial`` next to the store, under a lock: two programs never pack
one store. A run that is killed goes on where it was if images, mask and settings are the same; a
row or chunk that was cut short has a wrong checksum and is made again.

A store leaves the machine with its study. It holds what is used of the table, and names of images
without the folders that they stand in on this machine (`relative_names`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import warnings
import zlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd

from voxprior.content import content_of, file_digest, versions
from voxprior.errors import InputError, InputWarning, option
from voxprior.images.chunks import ARRAYS, DOCUMENT_BYTES, SCANS, StoredArray, digest_of, package
from voxprior.images.fitting import check_fitting, fit_image_space, read_where_finite
from voxprior.images.imagespace import ImageSpace
from voxprior.images.labelling import FoundLabels, LabeledMaps, find_labels, names_of
from voxprior.images.packed import (
    KIND,
    SAID,
    VERSION,
    description_digest,
    is_packed,
    open_packed,
)
from voxprior.images.sources import Source, find_sources, n_volumes, relative_names
from voxprior.lock import exclusive
from voxprior.writing import open_to_others, private_folder, unfinished, write_whole

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

    `load_maps`, `Decoder` and every command take the store in place of the images. It holds the
    scans inside the mask, the mask, the columns of the table that are named here, and the names of
    the images relative to the table or the working folder.

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
    package("zarr")  # a missing package is reported before anything is read
    out = Path(out).absolute()
    _check_name(out)
    unfinished(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(out.with_name(f".{out.name}.lock"), out):
        _check_free(out)
        settings = {"standardize": "none", "scale": "none", "mask": "auto"} | {
            name: value for name, value in settings.items() if value is not None
        }
        check_fitting(None, settings)
        sources = find_sources(maps, settings.get("mesh"))
        counts = [n_volumes(source.load()) for source in sources]
        labels = {"table": table, "label": label, "key": key, "covariates": covariates}
        found = find_labels(sources, counts, y, groups=groups, unmatched=unmatched, **labels)
        named = [label, groups if isinstance(groups, str) else None]
        description = _description(found, _used(found.maps, label, named))
        description["names"] = _names(found, sources, counts, table)
        _pack(out, found, description, settings, progress)
    return out


def _check_name(out: Path) -> None:
    """Refuse a name that commands would not recognise as a store."""
    if out.suffix != ".zarr":
        raise InputError(f"{out}: is not a name of a store", expected="a name that ends in .zarr")
    if out.is_symlink():
        raise InputError(
            f"{out}: is a link to {os.readlink(out)}",
            remedy="Name what it leads to, or choose another name",
        )


def _check_free(out: Path) -> None:
    """Refuse a name that is taken."""
    if not out.exists():
        return
    held = "other files"
    if is_packed(out):
        with suppress(InputError):  # of another program, or damaged
            held = f"{len(open_packed(out).names)} packed scans"
    raise InputError(
        f"{out}: holds {held} already", remedy="Choose another name, or delete it first"
    )


def _pack(
    out: Path,
    found: FoundLabels,
    description: dict[str, Any],
    settings: dict[str, Any],
    progress: Progress,
) -> None:
    """Read the images, and write the store that is described."""
    size = len(json.dumps(description, indent=2))
    if size > DOCUMENT_BYTES:
        raise InputError(
            f"The names and columns of {len(found.names)} scans take {size / 1e6:.3g} MB",
            expected=f"at most {DOCUMENT_BYTES / 1e6:.3g} MB",
            remedy=f"Name fewer {option('covariates')}, or pack the scans in several stores",
        )
    dropped = found.maps.dropped
    if dropped:
        told = f"{len(dropped)} left out, the first: {dropped[0]}"
        warnings.warn(InputWarning(told), stacklevel=3)
    images = fit_image_space(found.maps.sources, **settings)
    work = unfinished(out)

    def rows(images: ImageSpace) -> np.ndarray:
        _start(work, _digest(images, found.maps.sources, description))
        return _write_rows(work, images, found.maps.sources, len(found.names), progress)

    images, values = read_where_finite(rows, images, found.maps.sources)
    _write_store(work, values, images, description, progress)
    del values
    open_packed(work)  # what cannot be read is not left as a store
    for name in ("rows", "rows.done", "plan"):
        (work / name).unlink()
    open_to_others(work)
    os.replace(work, out)


# ---------------------------------------------------------------- what is known besides the values


def _description(found: FoundLabels, table: pd.DataFrame | None) -> dict[str, Any]:
    """Facts about the scans, except for their names."""
    covariates = found.maps.covariates
    table = None if table is None else table.astype(object).where(table.notna(), None)
    columns = None if table is None else {str(k): _cells(v.tolist()) for k, v in table.items()}
    # Recipients of the store must not learn who was left out.
    dropped = ["left out when the study was packed"] * len(found.maps.dropped)
    return {
        "kind": KIND,
        "version": VERSION,
        "complete": False,
        "label": None if found.maps.y is None or table is None else str(table.columns[0]),
        "covariates": [] if covariates is None else [str(name) for name in covariates.columns],
        "table": columns,
        "groups": None if found.groups is None else _cells(np.asarray(found.groups).tolist()),
        "said": dict(zip(SAID, (dropped, [*found.said], [*found.decided]))),
    }


def _used(maps: LabeledMaps, label: str | None, named: Sequence[str | None]) -> pd.DataFrame | None:
    """Columns that are used, labels first: of the table, or of what was given one by one."""
    covariates = maps.covariates
    if maps.columns is not None:
        used = [*named, *(() if covariates is None else covariates.columns)]
        return maps.columns[[*dict.fromkeys(name for name in used if name is not None)]]
    if maps.y is None and covariates is None:
        return None
    table = pd.DataFrame() if covariates is None else covariates.copy()
    if maps.y is not None:
        if (label or "label") in table:
            raise InputError(
                f"A covariate is called {label or 'label'!r}, as the labels of the store are",
                remedy=f"Give it another name, or name the labels by {option('label')}",
            )
        table.insert(0, label or "label", maps.y)
    return table


def _names(
    found: FoundLabels, sources: list[Source], counts: Sequence[int], table: Any
) -> list[str]:
    """What scans are called in the store."""
    near = [Path(table).absolute().parent] if isinstance(table, str | os.PathLike) else []
    shown = relative_names(sources, [*near, Path.cwd()])
    renamed = [Source(name, source.item) for name, source in zip(shown, sources)]
    name_of = dict(zip(names_of(sources, counts), names_of(renamed, counts)))
    return [name_of[name] for name in found.names]


def _cells(values: list) -> list:
    return [*map(_plain_cell, values)]


def _plain_cell(value: Any) -> Any:
    """A cell as JSON has it; dates and the like as text."""
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def _digest(images: ImageSpace, sources: list[Source], description: dict[str, Any]) -> str:
    """Fingerprint of all that decides what is packed: content of files, settings, versions.

    Images in memory are never those of an earlier run: the fingerprint is new.
    """
    files = [
        [source.name, [file_digest(file) for file in source.files] or uuid4().hex]
        for source in sources
    ]
    parts = [files, content_of(images.to_dict()), versions(), description]
    return hashlib.sha256(json.dumps(parts, default=str, sort_keys=True).encode()).hexdigest()


# ---------------------------------------------------------------- rows, then chunks


def _start(work: Path, plan: str) -> None:
    """Go on in a folder of the same plan, else begin anew."""
    private_folder(work)
    known = work / "plan"
    if not (known.is_file() and known.read_bytes() == plan.encode()):
        shutil.rmtree(work, ignore_errors=True)
        private_folder(work)
        write_whole(known, plan)


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
    """Rows that the journal names, if they match its checksums."""
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
    stored = StoredArray(str(work / SCANS), rows.shape)
    saved = images.to_dict()
    group, scans = _kept(work, stored)
    if group is None:  # there is none, or what the disk has of it is damaged
        for part in ("zarr.json", SCANS):
            remove = shutil.rmtree if (work / part).is_dir() else os.unlink
            if (work / part).exists():
                remove(work / part)
        group = package("zarr").open_group(str(work), mode="a")
        scans = _new_scans(group, stored)
    width = stored.chunks[1]
    with progress("blocks of voxels", stored.n_chunks) as advance:
        for index in range(stored.n_chunks):
            block = slice(index * width, min(rows.shape[1], (index + 1) * width))
            if not _is_whole(scans, block, rows):
                scans[:, block] = rows[:, block]
            advance()
    arrays = [stored]
    for name in ARRAYS:
        if saved[name] is not None:
            values = np.asarray(saved[name])
            values = values.astype(np.uint8) if values.dtype == bool else values
            _write_whole(group, name, values)
            arrays.append(StoredArray(str(work / name), values.shape))
    plain = {name: value for name, value in saved.items() if name not in (*ARRAYS, "center")}
    listed = {array.name: _listed(array) for array in arrays}
    whole = description | {"images": plain, "arrays": listed, "complete": True}
    whole = json.loads(json.dumps(whole))  # as it will be read
    group.attrs.put(whole | {"digest": description_digest(whole)})


def _listed(array: StoredArray) -> dict[str, Any]:
    """Shape of an array, and the digests of its chunks."""
    contents = (Path(array.file(index)).read_bytes() for index in range(array.n_chunks))
    return {"shape": [*array.shape], "chunks": [digest_of(content) for content in contents]}


def _kept(work: Path, stored: StoredArray) -> tuple[Any, Any]:
    """The group and the scans of a run that was stopped, if they can be gone on with."""
    try:
        stored.check()
        group = package("zarr").open_group(str(work), mode="r+")
        return group, group[SCANS]
    except Exception:  # of files that a loss of power cut anywhere
        return None, None


def _new_scans(group: Any, stored: StoredArray) -> Any:
    from zarr.codecs import BloscCodec, Crc32cCodec

    squeezed = BloscCodec(cname="zstd", clevel=1, shuffle="bitshuffle", typesize=4)
    return group.create_array(
        SCANS, shape=stored.shape, chunks=stored.chunks, dtype="float32",
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
