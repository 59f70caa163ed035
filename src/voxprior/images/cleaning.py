"""Temporal cleaning of one run through nilearn: detrending, filters, confounds, scrubbing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from voxprior.errors import InputError, InputTypeError, option

__all__ = ["Cleaning", "check_number", "clean_run"]

# Voxels cleaned at once in float64, so that a run is never held twice at double precision.
VOXELS_AT_ONCE = 8192
# Hz, one period per day; far below it filters cannot be computed.
SLOWEST = 1e-5
# Volumes that scipy needs to pad a Butterworth filter of nilearn's order: of one frequency, of two.
FEWEST_FILTERED = {1: 19, 2: 34}


@dataclass(frozen=True)
class Cleaning:
    """What is done along time to every run.

    Parameters
    ----------
    detrend : bool
        Remove a straight line from every voxel.
    high_pass, low_pass : float or None
        Cut-off frequencies in Hz (Butterworth), between 0 and 1 / (2 `t_r`); both need `t_r`.
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

    def __post_init__(self) -> None:
        for name in ("t_r", "high_pass", "low_pass"):
            check_number(name, getattr(self, name))
        for name in ("high_pass", "low_pass"):
            frequency = getattr(self, name)
            if frequency is not None and frequency < SLOWEST:
                raise InputError(
                    f"{option(name, frequency)} cannot be used",
                    expected=f"a frequency of {SLOWEST:g} Hz or more",
                )
        if self.high_pass is not None and self.low_pass is not None:
            self._check_order()
        if self.t_r is not None:
            self.check_nyquist(self.t_r)

    def _check_order(self) -> None:
        if self.high_pass >= self.low_pass:  # type: ignore[operator]
            raise InputError(
                f"{option('high_pass', self.high_pass)} and {option('low_pass', self.low_pass)} "
                "leave no frequency between them",
                expected="a high-pass frequency below the low-pass one",
            )

    def check_nyquist(self, t_r: float, name: str | None = None) -> None:
        """Raise where a filter is outside what volumes every `t_r` seconds can hold."""
        fastest = 1 / (2 * t_r)
        for which in ("high_pass", "low_pass"):
            frequency = getattr(self, which)
            if frequency is not None and frequency >= fastest:
                where = f"{name}: " if name else ""
                raise InputError(
                    f"{where}{option(which, frequency)} is not below the Nyquist frequency: "
                    f"volumes every {t_r:g} s hold frequencies up to {fastest:g} Hz",
                    remedy=f"Give a lower frequency, or check {option('t_r')}",
                )

    @property
    def needed(self) -> bool:
        """Whether anything is to be done."""
        return self.detrend or self.filters

    @property
    def filters(self) -> bool:
        """Whether a frequency is to be filtered, which needs the time between volumes."""
        return self.high_pass is not None or self.low_pass is not None


def check_number(name: str, value: Any, most: float = math.inf, zero: bool = False) -> None:
    """Raise unless an option is None or a finite number above 0 (or 0 itself) and up to `most`."""
    if value is None:
        return
    if not isinstance(value, Real):
        raise InputTypeError(
            f"{option(name)} must be a number", got=f"{value!r} of type {type(value).__name__}"
        )
    number = float(value)
    if not 0 <= number <= most or not math.isfinite(number) or (number == 0 and not zero):
        expected = "a number of 0 or more" if zero else "a number above 0"
        expected += f", up to {most:g}" if math.isfinite(most) else ""
        raise InputError(f"{option(name, value)} cannot be used", expected=expected)


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
    if t_r is not None:
        cleaning.check_nyquist(t_r, name)
    if cleaning.filters:
        _check_length(cleaning, len(volumes), kept, name)
    if cleaning.filters and kept is not None:
        inside = slice(np.flatnonzero(kept)[0], np.flatnonzero(kept)[-1] + 1)
        volumes, kept = volumes[inside], kept[inside]
        confounds = None if confounds is None else _bridged(np.asarray(confounds)[inside], kept)
    n_kept = len(volumes) if kept is None else int(kept.sum())
    out = np.empty((n_kept, volumes.shape[1]), dtype=np.float32)
    for start in range(0, volumes.shape[1], VOXELS_AT_ONCE):
        part = slice(start, start + VOXELS_AT_ONCE)
        out[:, part] = _nilearn_clean(volumes[:, part], cleaning, confounds, kept, t_r)
    return out


def _check_length(cleaning: Cleaning, n: int, kept: np.ndarray | None, name: str) -> None:
    """Raise where a run is too short to be filtered; scrubbed volumes at its ends do not count."""
    inside = np.arange(n) if kept is None else np.flatnonzero(kept)
    there = int(np.ptp(inside)) + 1 if len(inside) else 0
    given = [f for f in ("high_pass", "low_pass") if getattr(cleaning, f) is not None]
    if there < FEWEST_FILTERED[len(given)]:
        raise InputError(
            f"{name}: is too short to be filtered",
            expected=f"at least {FEWEST_FILTERED[len(given)]} volumes",
            got=str(there),
            remedy=f"Leave out {' and '.join(map(option, given))}",
        )


def _bridged(volumes: np.ndarray, kept: Any) -> np.ndarray:
    """Replace scrubbed volumes by cubic splines through the kept ones, before they are filtered.

    nilearn means to do that, but takes the places of the kept volumes, counted from the end, for
    those of the scrubbed ones (seen in 0.14), so that artefacts reach the filter.
    """
    times = np.arange(len(volumes))
    bridged = np.array(volumes, dtype=np.float64)
    bridged[~kept] = CubicSpline(times[kept], bridged[kept])(times[~kept])
    return bridged


def _nilearn_clean(
    part: np.ndarray, cleaning: Cleaning, confounds: Any, kept: np.ndarray | None, t_r: float | None
) -> np.ndarray:
    from nilearn.signal import clean

    scrubbed = cleaning.filters and kept is not None
    return clean(
        _bridged(part, kept) if scrubbed else part.astype(np.float64),
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
