"""Inner cross-validation: λ, r, the number of iterations and the slope of the link, from held-out
folds.

Every fold filters the orders that were sorted once, and every candidate runs on that fold's orders,
so a path over λ and r costs its iterations only. A candidate is judged by the log-loss of its held-
out values at their own best slope, which does not mistake a large F for a good one; ties go to the
first candidate.

The slope a of p = 1 / (1 + exp(-a F)) is fitted with Platt's targets, (N₊ + 1) / (N₊ + 2) and
1 / (N₋ + 2), so that separable held-out values give a finite one. It keeps the sign of F as the
decision.

| symbol | variable | shape |
|---|---|---|
| y, one-vs-rest labels ±1 | `Y` | (C, n) |
| F, held-out values after each stage | `held_out` | (stages, n, C) |
| a | `slope` | scalar |

Reference: Platt, Probabilistic outputs for support vector machines, 1999.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, check_cv

from voxprior.errors import InputError, option
from voxprior.models.boosting.coordinate_descent import Settings, staged_values
from voxprior.models.boosting.ensemble import TrainingSet, fit_problems, restrict
from voxprior.models.boosting.penalty import Penalty

__all__ = ["Choice", "choose", "fit_slope", "grid_of", "inner_folds", "loss_table"]

Folds = list[tuple[NDArray[np.int64], NDArray[np.int64]]]
LOG_SLOPES = (-7.0, 5.0)
# What "auto" tries.
REGULARIZATIONS = (1.0, 10.0, 100.0)
RADII = (1.0, 2.0)
LOSS = np.dtype([("regularization", "f8"), ("radius", "f8"), ("loss", "f8")])


class Choice(NamedTuple):
    """The best of the candidates, by held-out log-loss."""

    candidate: int
    n_iterations: int
    slope: float
    losses: NDArray[np.float64]  # (candidates, stages)


def grid_of(
    radius: Any, regularization: Any, every_radius: bool = True
) -> list[tuple[float, float]]:
    """Return the pairs (r, λ) to try, with the first r only where the kernel has no radius.

    Examples
    --------
    >>> from voxprior.models.boosting.cross_validation import grid_of
    >>> grid_of([1.0, 2.0], 10.0)
    [(1.0, 10.0), (2.0, 10.0)]
    """
    radii = _values("radius", radius, RADII, zero=False)
    lambdas = _values("regularization", regularization, REGULARIZATIONS, zero=True)
    return list(product(radii if every_radius else radii[:1], lambdas))


def _values(name: str, given: Any, automatic: tuple[float, ...], zero: bool) -> tuple[float, ...]:
    if isinstance(given, str):
        return automatic
    values = np.atleast_1d(np.asarray(given, dtype=np.float64))
    allowed = np.isfinite(values) & (values >= 0 if zero else values > 0)
    if values.ndim != 1 or values.size == 0 or not allowed.all():
        bound = "of at least 0" if zero else "above 0"
        raise InputError(
            f"{option(name)} cannot be used",
            expected=f"a number, a sequence of finite numbers {bound}, or 'auto'",
            got=f"{given!r}",
        )
    return tuple(values.tolist())


def inner_folds(y: NDArray, groups: Any, cv: Any, random_state: Any) -> Folds:
    """Split stratified by label, never through a group; or as a splitter or iterable `cv` says."""
    if groups is not None and len(groups) != len(y):
        raise InputError(
            f"{option('groups')} do not fit the samples",
            expected=f"one entry per sample, {len(y)}",
            got=f"{len(groups)}",
        )
    if not isinstance(cv, Integral):
        return list(check_cv(cv, y, classifier=True).split(y, y, groups))
    parts = np.arange(len(y)) if groups is None else np.asarray(groups)
    rarest = min(len(np.unique(parts[y == label])) for label in np.unique(y))
    if rarest < 2:
        raise InputError(
            "Inner cross-validation cannot hold out a class",
            expected=f"every class in at least 2 {'samples' if groups is None else 'groups'}",
            got=f"one with {rarest}",
            remedy=f"Give more, or fix {option('regularization')} and {option('radius')} and leave "
            f"{option('calibrate', False)} and {option('early_stopping', False)}",
        )
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    splitter = kind(min(int(cv), rarest), shuffle=True, random_state=random_state)
    return list(splitter.split(y, y, groups))


def choose(
    training: TrainingSet,
    candidates: Sequence[tuple[Penalty, Settings]],
    folds: Folds,
    every_stage: bool,
) -> Choice:
    """Pick the candidate of least held-out log-loss, and with `every_stage` its best stage."""
    parts = [restrict(training, train) for train, _ in folds]
    losses, slopes = [], []
    for penalty, settings in candidates:
        held_out = _held_out(training, parts, folds, penalty, settings)
        stages = held_out if every_stage else held_out[-1:]
        fitted = [fit_slope(F, training.Y, training.weights) for F in stages]
        slopes.append([slope for slope, _ in fitted])
        losses.append([loss for _, loss in fitted])
    table = np.array(losses)
    candidate, stage = (int(at) for at in np.unravel_index(np.argmin(table), table.shape))
    n_iterations = stage + 1 if every_stage else candidates[candidate][1].n_iterations
    return Choice(candidate, n_iterations, slopes[candidate][stage], table)


def loss_table(grid: Sequence[tuple[float, float]], losses: Sequence[NDArray] | NDArray) -> NDArray:
    """Return the least held-out loss of each (r, λ), with fields for all three."""
    return np.array([(lam, r, loss.min()) for (r, lam), loss in zip(grid, losses)], dtype=LOSS)


def _held_out(training, parts, folds, penalty, settings) -> NDArray[np.float64]:
    """Return F after each iteration for every sample, from the folds that did not train on it."""
    X, rows = training.pool.X, training.pool.rows
    held_out = np.empty((settings.n_iterations, len(rows), len(training.Y)))
    for part, (_, test) in zip(parts, folds):
        for c, found in enumerate(fit_problems(part, penalty, settings)):
            values = staged_values(X[rows[test]], found.stumps, found.steps, settings.n_iterations)
            held_out[:, test, c] = values
    return held_out


def fit_slope(F: NDArray, Y: NDArray, weights: NDArray) -> tuple[float, float]:
    """Fit the slope a to held-out F; return it and the mean log-loss it reaches."""
    positive = (Y.T > 0).astype(np.float64)
    n_positive, n_negative = weights @ positive, weights @ (1 - positive)
    targets = np.where(positive > 0, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2))

    def loss(log_slope: float) -> float:
        margin = np.exp(log_slope) * F
        losses = np.logaddexp(0.0, margin) - targets * margin
        return float(weights @ losses.mean(axis=1) / weights.sum())

    found = minimize_scalar(loss, bounds=LOG_SLOPES, method="bounded")
    return float(np.exp(found.x)), float(found.fun)
