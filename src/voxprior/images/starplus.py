"""StarPlus: the picture-against-sentence experiment, read from its MATLAB files.

A file holds three variables. ``data`` is a cell array of trials, each (images, voxels), an image
every 500 ms. ``info`` is a struct array with one entry a trial: ``cond`` (0 ignore, 1 fixation, 2
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
        other one; "both" gives two samples a trial, grouped by trial. A slice (counted from 0) is
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
    name = os.fspath(path)
    meta, info, data = _read(Path(name))
    coordinates, shape = _coordinates(meta, name)
    columns = _columns(meta, rois, len(coordinates), name)
    # VoxelSpace orders voxels as numpy does, C order of the mask; the file has its own order.
    flat = np.ravel_multi_index(tuple(coordinates[columns].T), shape)
    if len(np.unique(flat)) < len(flat):
        raise ValueError(f"{name}: several columns have the same coordinate in meta.colToCoord.")
    columns = columns[np.argsort(flat)]
    mask = np.zeros(shape, dtype=bool)
    mask[tuple(coordinates[columns].T)] = True
    space = VoxelSpace.from_mask(mask, np.eye(4))
    return _samples(info, data, columns, _windows(images), space, name)


def _windows(images: str | slice) -> list[tuple[str, slice]]:
    """List (which stimulus, images) of the samples cut from each trial."""
    if isinstance(images, slice):
        if images.step not in (None, 1) or images.stop is None or (images.start or 0) < 0:
            raise ValueError(f"images must be a slice start:stop of image numbers. Got {images}.")
        start = images.start or 0
        if images.stop <= start:
            raise ValueError(f"images must hold at least one image. Got {images}.")
        which = "first" if start < WINDOWS["second"].start else "second"
        return [(which, slice(start, images.stop))]
    if images == "both":
        return list(WINDOWS.items())
    if images not in WINDOWS:
        raise ValueError(f"images must be 'first', 'second', 'both' or a slice. Got {images!r}.")
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
        raise ValueError(
            f"{path}: is no StarPlus file, it has no variable {', '.join(missing)}. "
            "Expected the structs meta and info and the cell array data."
        )
    return content["meta"].ravel()[0], content["info"].ravel(), content["data"].ravel()


def _field(struct: Any, field: str, name: str) -> np.ndarray:
    if struct.dtype.names is None or field not in struct.dtype.names:
        raise ValueError(f"{name}: a StarPlus struct lacks the field {field!r}.")
    return np.asarray(struct[field])


def _scalar(struct: Any, field: str, name: str) -> Any:
    value = _field(struct, field, name).ravel()
    if value.size == 0:
        raise ValueError(f"{name}: the field {field!r} of a StarPlus struct is empty.")
    return value[0]


def _coordinates(meta: Any, name: str) -> tuple[np.ndarray, tuple[int, int, int]]:
    coordinates = _field(meta, "colToCoord", name).astype(np.int64) - 1
    shape = tuple(int(_scalar(meta, axis, name)) for axis in ("dimx", "dimy", "dimz"))
    inside = coordinates.ndim == 2 and coordinates.shape[1] == 3
    if not inside or (coordinates < 0).any() or (coordinates >= np.array(shape)).any():
        raise ValueError(
            f"{name}: meta.colToCoord must hold x, y, z from 1 to dimx, dimy, dimz = {shape}. "
            f"Got shape {coordinates.shape}."
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
        raise ValueError(
            f"{name}: no region {', '.join(unknown) or '(empty list)'}. "
            f"It has {', '.join(sorted(regions))}."
        )
    columns = np.unique(np.concatenate([regions[region] for region in wanted]))
    if columns.size == 0:
        raise ValueError(f"{name}: the mask is empty, {', '.join(wanted)} has no voxel.")
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
        raise ValueError(f"{name}: info has {len(info)} trials but data has {len(data)}.")
    rows, labels, records, dropped = [], [], [], []
    for number, (trial, values) in enumerate(zip(info, data), start=1):
        if int(_scalar(trial, "cond", name)) < IGNORED_BELOW:
            continue
        side = str(_scalar(trial, "firstStimulus", name))
        if side not in STIMULUS:
            raise ValueError(
                f"{name}: firstStimulus of trial {number} is {side!r}, not 'P' or 'S'."
            )
        for which, window in windows:
            if len(values) < window.stop:
                dropped.append(f"{name}, trial {number}: {len(values)} images, {window.stop} due")
                continue
            part = values[window][:, columns].astype(np.float32)
            if not np.isfinite(part).all():
                raise ValueError(f"{name}: trial {number} holds NaN or infinite values.")
            rows.append(part.ravel())
            labels.append(STIMULUS[side if which == "first" else OTHER[side]])
            records.append(_record(trial, number, name))
    if not rows:
        raise ValueError(f"{name}: no trial with cond 2 or 3 has the images asked for.")
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
