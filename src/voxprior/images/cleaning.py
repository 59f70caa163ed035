"""Temporal cleaning of one run through nilearn: detrending, filters, confounds, scrubbing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Cleaning", "clean_run"]

# Voxels cleaned at once in float64, so that a run is never held twice at double precision.
VOXELS_AT_ONCE = 8192


@dataclass(frozen=True)
class Cleaning:
    """What is done along time to every run.

    Parameters
    ----------
    detrend : bool
        Remove a straight line from every voxel.
    high_pass, low_pass : float or None
        Cut-off frequencies in Hz (Butterworth); both need `t_r`.
    t_r : float or None
        Seconds between volumes; None takes it from each image's header.

    Examples
    --------
    >>> from voxprior.images import Cleaning
    >>> Cleaning(detrend=True).needed, Cleaning().needed
    (True, False)
    """

    detrend: bool = False
    high_pass: float | None = None
    low_pass: float | None = None
    t_r: float | None = None

    @property
    def needed(self) -> bool:
        """Whether anything is to be done."""
        return self.detrend or self.filters

    @property
    def filters(self) -> bool:
        """Whether a frequency is to be filtered, which needs the time between volumes."""
        return self.high_pass is not None or self.low_pass is not None


def clean_run(
    volumes: np.ndarray,
    cleaning: Cleaning,
    confounds: Any = None,
    kept: np.ndarray | None = None,
    t_r: float | None = None,
    name: str = "run",
) -> np.ndarray:
    """Clean the volumes (n, V) of one run; return the kept ones, float32.

    Parameters
    ----------
    volumes : array of shape (n, V)
    cleaning : Cleaning
    confounds : array or DataFrame of shape (n or number kept, k), optional
        Regressed out of every voxel.
    kept : boolean array of shape (n,), optional
        False for scrubbed volumes; filters interpolate them, the result leaves them out.
    t_r : float, optional
        Seconds between volumes.
    name : str
        The run, for error messages.
    """
    if confounds is not None and len(confounds) != len(volumes):
        raise ValueError(
            f"{name}: confounds must have one row a volume, {len(volumes)}. "
            f"Got {len(confounds)} rows instead; is this the right confounds table?"
        )
    if not cleaning.needed and confounds is None:
        return volumes if kept is None else volumes[kept]
    if cleaning.filters and t_r is None:
        raise ValueError(
            f"{name}: high_pass and low_pass need the seconds between volumes, and the image "
            "header does not say. Give t_r."
        )
    n_kept = len(volumes) if kept is None else int(kept.sum())
    out = np.empty((n_kept, volumes.shape[1]), dtype=np.float32)
    for start in range(0, volumes.shape[1], VOXELS_AT_ONCE):
        part = slice(start, start + VOXELS_AT_ONCE)
        out[:, part] = _nilearn_clean(volumes[:, part], cleaning, confounds, kept, t_r)
    return out


def _nilearn_clean(
    part: np.ndarray, cleaning: Cleaning, confounds: Any, kept: np.ndarray | None, t_r: float | None
) -> np.ndarray:
    from nilearn.signal import clean

    return clean(
        part.astype(np.float64),
        detrend=cleaning.detrend,
        standardize=None,
        confounds=None if confounds is None else np.asarray(confounds, dtype=float),
        # Without a detrended signal, confounds must keep their mean out of the regression.
        standardize_confounds=True,
        filter="butterworth" if cleaning.filters else False,
        high_pass=cleaning.high_pass,
        low_pass=cleaning.low_pass,
        t_r=t_r,
        sample_mask=None if kept is None else np.flatnonzero(kept),
        extrapolate=False,
    )
