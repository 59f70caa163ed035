"""Standardising: a run by its own statistics or its rest volumes, or by training statistics.

    z = (x - m) / s, voxel by voxel.

| mode | m and s come from | unit of prediction |
|---|---|---|
| ``run`` | all (kept) volumes of the run | a run |
| ``baseline`` | the rest volumes of the run | a run |
| ``train`` | the training samples, frozen | a scan |
| ``none`` | nowhere: values stay as they are | a scan |

``auto`` is ``run`` for 4-D runs and ``train`` for one image a subject. Runs differ in offset and
scale far more than conditions do, so frozen statistics are a poor choice for them: see the
module's tests on real data. ``train`` must be learnt inside every training fold, so it is a step
of the estimator (`scaled_by_training`), never of the reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

__all__ = [
    "MODES",
    "Mode",
    "Statistics",
    "choose",
    "scaled_by_training",
    "standardize",
    "statistics",
]

Mode = Literal["auto", "run", "baseline", "train", "none"]
MODES = ("auto", "run", "baseline", "train", "none")
VOXELS_AT_ONCE = 8192


class Statistics(NamedTuple):
    """Centre m and scale s of every voxel, float64 (V,); s is 1 where a voxel is constant."""

    center: np.ndarray
    scale: np.ndarray


def choose(mode: str, runs: bool) -> str:
    """Resolve ``auto`` and refuse modes that the images cannot serve.

    >>> choose("auto", runs=True), choose("auto", runs=False)
    ('run', 'train')
    """
    if mode not in MODES:
        raise ValueError(f"standardize must be one of {', '.join(MODES)}. Got {mode!r} instead.")
    if mode == "auto":
        return "run" if runs else "train"
    if mode in ("run", "baseline") and not runs:
        raise ValueError(
            f"standardize={mode!r} needs 4-D runs: a single image has no statistics of its own. "
            "Use 'train' (or 'auto')."
        )
    return mode


def statistics(
    volumes: np.ndarray, rows: np.ndarray | None = None, name: str = "run"
) -> Statistics:
    """Mean and standard deviation (divisor n) over the given rows, accumulated in float64."""
    chosen = volumes if rows is None else volumes[rows]
    if len(chosen) < 2:
        what = "volume" if rows is None else "rest volume"
        raise ValueError(
            f"{name}: standardising needs at least 2 {what}s. Got {len(chosen)}. "
            "Use standardize='train' or 'none'."
        )
    center = np.empty(volumes.shape[1])
    scale = np.empty(volumes.shape[1])
    for start in range(0, volumes.shape[1], VOXELS_AT_ONCE):
        part = slice(start, start + VOXELS_AT_ONCE)
        values = chosen[:, part].astype(np.float64)
        center[part], scale[part] = values.mean(axis=0), values.std(axis=0)
        # Exactly equal values: their rounding noise must not be blown up to unit variance.
        scale[part][(values == values[0]).all(axis=0)] = 1.0
    scale[scale == 0] = 1.0
    return Statistics(center, scale)


def standardize(volumes: np.ndarray, by: Statistics) -> np.ndarray:
    """Return (volumes - m) / s as float32.

    >>> import numpy as np
    >>> run = np.array([[1.0, 5.0], [3.0, 5.0]], dtype=np.float32)
    >>> standardize(run, statistics(run))
    array([[-1.,  0.],
           [ 1.,  0.]], dtype=float32)
    """
    out = np.empty(volumes.shape, dtype=np.float32)
    for start in range(0, volumes.shape[1], VOXELS_AT_ONCE):
        part = slice(start, start + VOXELS_AT_ONCE)
        out[:, part] = (volumes[:, part] - by.center[part]) / by.scale[part]
    return out


def scaled_by_training(estimator: Any) -> Pipeline:
    """Return the estimator behind frozen training statistics: what ``standardize="train"`` means.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from voxprior.images import scaled_by_training
    >>> X, y = np.array([[1.0], [2.0], [9.0], [8.0]]), [0, 0, 1, 1]
    >>> scaled_by_training(GaussianNB()).fit(X, y).predict([[3.0]])
    array([0])
    """
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), estimator)
