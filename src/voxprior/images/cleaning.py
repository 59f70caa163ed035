"""What is done to the volumes of a run: confounds, filters and scrubbing, then standardising.

Detrending, filters and regression of confounds are nilearn's. Standardising is z = (x - m) / s,
voxel by voxel:

| mode | m and s come from | unit of prediction |
|---|---|---|
| ``run`` | all (kept) volumes of the run | a run |
| ``baseline`` | the rest volumes of the run | a run |
| ``group`` | the maps of the group (m; s is 1) | a group |
| ``train`` | the training samples, frozen | a scan |
| ``none`` | nowhere: values stay as they are | a scan |

``auto`` is ``run`` for 4-D runs and ``train`` for maps, or ``group`` where the maps have groups and
the rule of `voxprior.images.rules` says so. Runs differ in offset and
scale far more than conditions do, so frozen statistics are a poor choice for them: see the tests
on real data. ``train`` must be learnt inside every training fold, so it is a step of the estimator
(`scaled_by_training`), never of the reader.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline

from voxprior.errors import InputError, InputTypeError, option
from voxprior.images.preparation import SCALES, check_choice

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

__all__ = ["MODES", "Cleaning", "Mode", "Statistics", "check_settings", "clean_run"]
__all__ += ["resolve_mode", "scaled_by_training", "standardize", "statistics"]

Mode = Literal["auto", "run", "baseline", "group", "train", "none"]
MODES = ("auto", "run", "baseline", "group", "train", "none")
# Voxels handled at once in float64, so that a run is never held twice at double precision.
VOXELS_AT_ONCE = 8192
# Wider than a brain; the kernel of an absurd width would fill the memory.
WIDEST_MM = 200.0
# Seconds between volumes: frames of PET may last most of an hour; milliseconds given by mistake
# would be more.
LONGEST_T_R = 3600.0
# Volumes that scipy needs to pad a Butterworth filter of nilearn's order: of one frequency, of two.
FEWEST_FILTERED = {1: 19, 2: 34}
# Share of the Nyquist frequency below which its coefficients are indistinguishable from zero.
SLOWEST = 1e-3


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
        _check_flag("detrend", self.detrend)
        _check_number("t_r", self.t_r, most=LONGEST_T_R)
        for name in ("high_pass", "low_pass"):
            _check_number(name, getattr(self, name))
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
        """Raise where a filter is impossible with a volume every `t_r` seconds."""
        fastest, where = 1 / (2 * t_r), f"{name}: " if name else ""
        for which in ("high_pass", "low_pass"):
            frequency = getattr(self, which)
            if frequency is not None and frequency < SLOWEST * fastest:
                raise InputError(
                    f"{where}{option(which, frequency)} is too slow for volumes every {t_r:g} s: "
                    "rounding errors would take over the filter",
                    expected=f"at least {SLOWEST * fastest:g} Hz",
                    remedy=f"Leave it out, or use {option('detrend', True)}",
                )
            if frequency is not None and frequency >= fastest:
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


def check_settings(
    *,
    smoothing_fwhm: Any = None,
    standardize: Any = "auto",
    scale: Any = "auto",
    resample: Any = False,
    **cleaning: Any,
) -> Cleaning:
    """Refuse impossible settings before anything is read; return how runs are cleaned.

    Parameters
    ----------
    smoothing_fwhm, standardize, scale, resample
        Parameters of `fit_image_space`.
    **cleaning
        Those of `Cleaning`.
    """
    _check_number("smoothing_fwhm", smoothing_fwhm, most=WIDEST_MM, zero=True)
    check_choice("standardize", standardize, MODES)
    check_choice("scale", scale, SCALES)
    _check_flag("resample", resample)
    return Cleaning(**cleaning)


def _check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool_):
        raise InputTypeError(f"{option(name, value)} is not a choice", expected="True or False")


def _check_number(name: str, value: Any, most: float = math.inf, zero: bool = False) -> None:
    """Raise unless an option is None or a finite number above 0 (or 0 itself) and up to `most`."""
    if value is None:
        return
    if not isinstance(value, Real) or isinstance(value, bool):
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
        raise InputError(
            f"{name}: {option('confounds')} must have one row per volume",
            expected=f"{len(volumes)} rows",
            got=f"{len(confounds)}",
            remedy="Check that run and confounds belong together",
        )
    if not cleaning.needed and confounds is None:
        return volumes if kept is None else volumes[kept]
    if cleaning.filters and t_r is None:
        raise InputError(
            f"{name}: {option('high_pass')} and {option('low_pass')} need the seconds between "
            "volumes, and the image header does not say them",
            remedy=f"Give {option('t_r')}",
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


# ---------------------------------------------------------------- standardising


class Statistics(NamedTuple):
    """Centre m and scale s of every voxel, float64 (V,); s is 1 where a voxel is constant."""

    center: np.ndarray
    scale: np.ndarray


def resolve_mode(mode: str, runs: bool) -> str:
    """Resolve ``auto`` and refuse modes that the images cannot serve.

    >>> resolve_mode("auto", runs=True), resolve_mode("auto", runs=False)
    ('run', 'train')
    """
    if mode == "auto":
        return "run" if runs else "train"
    if mode in ("run", "baseline") and not runs:
        raise InputError(
            f"{option('standardize', mode)} needs 4-D runs: a single image has no statistics of "
            "its own",
            remedy=f"Set {option('standardize', 'group')} for maps of several runs, or "
            f"{option('standardize', 'train')}",
        )
    return mode


def statistics(
    volumes: np.ndarray, rows: np.ndarray | None = None, name: str = "run"
) -> Statistics:
    """Mean and standard deviation (divisor n) over the given rows, accumulated in float64."""
    chosen = volumes if rows is None else volumes[rows]
    if len(chosen) < 2:
        what = "volume" if rows is None else "rest volume"
        raise InputError(
            f"{name}: standardising needs at least 2 {what}s",
            got=f"{len(chosen)}",
            remedy=f"Set {option('standardize', 'train')} or {option('standardize', 'none')}",
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

    from voxprior.blocks import VoxelScaler

    return make_pipeline(VoxelScaler(), estimator)
