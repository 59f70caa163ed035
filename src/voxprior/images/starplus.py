"""StarPlus: the picture-against-sentence experiment, read from its MATLAB files.

A file holds three variables. ``data`` is a cell array of trials, each (images, voxels), an image
every 500 ms. ``info`` is a struct array with one entry per trial: ``cond`` (0 ignore, 1 fixation, 2
and 3 a sentence that affirms or negates), ``firstStimulus`` ('P' or 'S'), ``mint``, ``maxt``,
``len``. ``meta`` has ``colToCoord`` (x, y, z of every column, from 1), ``dimx``, ``dimy``,
``dimz`` and the struct array ``rois`` with ``name``, ``coords``, ``columns`` (from 1).

    images 1-8 first stimulus, 9-16 blank, 17-24 second stimulus, then rest (about 54 in all)

So "20 picture + 20 sentence trials of 16 images (8 s)" are images 1-16 of the 40 trials with cond
> 1, labelled by the FIRST stimulus; images 17-32 belong to the other one.

Reference: M. Just, T. Mitchell and colleagues, StarPlus fMRI data, Carnegie Mellon University.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from voxprior.errors import InputError, option
from voxprior.images.dataset import Dataset
from voxprior.images.imagespace import ImageSpace
from voxprior.space import VoxelSpace

__all__ = ["load_starplus"]

STIMULUS = {"P": "picture", "S": "sentence"}
OTHER = {"P": "S", "S": "P"}
WINDOWS = {"first": slice(0, 16), "second": slice(16, 32)}
IGNORED_BELOW = 2  # cond 0 is to be ignored, 1 is fixation


def load_starplus(
    path: Any, *, rois: str | list[str] | None = None, images: str | slice = "first"
) -> Dataset:
    """Read one subject's StarPlus file.

    Parameters
    ----------
    path : path of a ``data-starplus-<subject>-v7.mat`` file
    rois : str or list of str, optional
        Regions to keep, for instance "CALC"; all voxels by default.
    images : {"first", "second", "both"} or slice
        "first" is images 1-16 labelled by the first stimulus; "second" images 17-32 labelled by the
        other one; "both" gives two samples per trial, grouped by trial. A slice (counted from 0) is
        labelled by the stimulus in whose half it starts.

    Returns
    -------
    Dataset
        Labels "picture" and "sentence"; rows time-major, ``X.reshape(n, T, V)``; the covariates are
        trial, cond and, where recorded, the reaction time. `standardize` is "none": values are raw.

    Examples
    --------
    >>> from voxprior.images import load_starplus
    >>> data = load_starplus("data-starplus-04847-v7.mat", rois="CALC")  # doctest: +SKIP
    """
    windows = _windows(images)
    name = os.fspath(path)
    meta, info, data = _read(Path(name))
    coordinates, shape = _coordinates(meta, name)
    columns = _columns(meta, rois, len(coordinates), name)
    # VoxelSpace orders voxels as numpy does, C order of the mask; the file has its own order.
    flat = np.ravel_multi_index(tuple(coordinates[columns].T), shape)
    if len(np.unique(flat)) < len(flat):
        raise InputError(f"{name}: several columns have the same coordinate in meta.colToCoord")
    columns = columns[np.argsort(flat)]
    mask = np.zeros(shape, dtype=bool)
    mask[tuple(coordinates[columns].T)] = True
    space = VoxelSpace.from_mask(mask, np.eye(4))
    return _samples(info, data, columns, windows, space, name)


def _windows(images: str | slice) -> list[tuple[str, slice]]:
    """List (which stimulus, images) of the samples cut from each trial."""
    if isinstance(images, slice):
        start = images.start or 0
        whole = images.step in (None, 1) and images.stop is not None
        if not whole or not 0 <= start < images.stop:
            raise InputError(
                f"{option('images', images)} cannot be used",
                expected="a slice start:stop of image numbers from 0, with at least one image",
            )
        which = "first" if start < WINDOWS["second"].start else "second"
        return [(which, slice(start, images.stop))]
    if images == "both":
        return list(WINDOWS.items())
    if images not in WINDOWS:
        raise InputError(
            f"{option('images', images)} is not a choice",
            expected="'first', 'second', 'both' or a slice",
        )
    return [(images, WINDOWS[images])]


# ------------------------------------------------------------------------- the MATLAB file


def _read(path: Path) -> tuple[Any, Any, Any]:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file.")
    damaged = (ValueError, OSError, EOFError, TypeError, KeyError, IndexError, zlib.error)
    try:
        content = loadmat(path, variable_names=["meta", "info", "data"])
    except NotImplementedError as error:
        raise OSError(f"{path}: is a MATLAB 7.3 file. Save it with -v7 in MATLAB.") from error
    except (*damaged, MatReadError, MemoryError) as error:
        raise OSError(
            f"{path}: cannot be read as a MATLAB file ({error}); it may be damaged."
        ) from error
    missing = [key for key in ("meta", "info", "data") if key not in content]
    if missing:
        raise InputError(
            f"{path}: is not a StarPlus file, it has no variable {', '.join(missing)}",
            expected="the structs meta and info and the cell array data",
        )
    return content["meta"].ravel()[0], content["info"].ravel(), content["data"].ravel()


def _field(struct: Any, field: str, name: str) -> np.ndarray:
    if struct.dtype.names is None or field not in struct.dtype.names:
        raise InputError(f"{name}: a StarPlus struct lacks the field {field!r}")
    return np.asarray(struct[field])


def _scalar(struct: Any, field: str, name: str) -> Any:
    value = _field(struct, field, name).ravel()
    if value.size == 0:
        raise InputError(f"{name}: the field {field!r} of a StarPlus struct is empty")
    return value[0]


def _coordinates(meta: Any, name: str) -> tuple[np.ndarray, tuple[int, int, int]]:
    coordinates = _field(meta, "colToCoord", name).astype(np.int64) - 1
    shape = tuple(int(_scalar(meta, axis, name)) for axis in ("dimx", "dimy", "dimz"))
    inside = coordinates.ndim == 2 and coordinates.shape[1] == 3
    if not inside or (coordinates < 0).any() or (coordinates >= np.array(shape)).any():
        raise InputError(
            f"{name}: meta.colToCoord must hold x, y, z from 1 to dimx, dimy, dimz = {shape}",
            got=f"shape {coordinates.shape}",
        )
    return coordinates, shape  # type: ignore[return-value]


def _columns(meta: Any, rois: str | list[str] | None, n_voxels: int, name: str) -> np.ndarray:
    if rois is None:
        return np.arange(n_voxels)
    regions = {}
    for region in _field(meta, "rois", name).ravel():
        label = str(_scalar(region, "name", name))
        regions[label] = _field(region, "columns", name).ravel().astype(np.int64) - 1
    wanted = [rois] if isinstance(rois, str) else list(rois)
    unknown = [region for region in wanted if region not in regions]
    if unknown or not wanted:
        raise InputError(
            f"{name}: has no region {', '.join(unknown) or '(empty list)'}",
            expected=f"{option('rois')} among {', '.join(sorted(regions))}",
        )
    columns = np.unique(np.concatenate([regions[region] for region in wanted]))
    if columns.size == 0:
        raise InputError(f"{name}: the mask is empty, {', '.join(wanted)} has no voxel")
    return columns


# ------------------------------------------------------------------------- trials to samples


def _samples(
    info: Any,
    data: Any,
    columns: np.ndarray,
    windows: list[tuple[str, slice]],
    space: VoxelSpace,
    name: str,
) -> Dataset:
    if len(info) != len(data):
        raise InputError(f"{name}: info has {len(info)} trials but data has {len(data)}")
    rows, labels, records, dropped = [], [], [], []
    for number, (trial, values) in enumerate(zip(info, data), start=1):
        if int(_scalar(trial, "cond", name)) < IGNORED_BELOW:
            continue
        side = str(_scalar(trial, "firstStimulus", name))
        if side not in STIMULUS:
            raise InputError(
                f"{name}: firstStimulus of trial {number} is {side!r}", expected="'P' or 'S'"
            )
        for which, window in windows:
            if len(values) < window.stop:
                dropped.append(
                    f"{name}, trial {number}: {len(values)} images, {window.stop} expected"
                )
                continue
            part = values[window][:, columns].astype(np.float32)
            if not np.isfinite(part).all():
                raise InputError(f"{name}: trial {number} holds NaN or infinite values")
            rows.append(part.ravel())
            labels.append(STIMULUS[side if which == "first" else OTHER[side]])
            records.append(_record(trial, number, name))
    if not rows:
        raise InputError(f"{name}: no trial with cond 2 or 3 has the images asked for")
    covariates = pd.DataFrame(records)
    both = len(windows) > 1
    return Dataset(
        X=np.stack(rows),
        y=np.array(labels),
        space=space,
        groups=covariates["trial"].to_numpy() if both else None,
        covariates=covariates,
        names=tuple(f"{name}, trial {r['trial']}" for r in records),
        blocks=covariates["trial"].to_numpy(),
        images=ImageSpace(space),
        dropped=tuple(dropped),
    )


def _record(trial: Any, number: int, name: str) -> dict[str, Any]:
    record: dict[str, Any] = {"trial": number, "cond": int(_scalar(trial, "cond", name))}
    if "actionRT" in (trial.dtype.names or ()) and _field(trial, "actionRT", name).size:
        record["actionRT"] = float(_scalar(trial, "actionRT", name))
    return record
