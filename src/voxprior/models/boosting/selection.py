"""Inner cross-validation: λ, r, the number of iterations and the slope of the link from held-out
folds.

Every fold filters the orders that were sorted once, and every candidate runs on that fold's orders,
so a path over λ and r costs its iterations only. A candidate is judged by the log-loss of its held-
out values at their own best slope, which does not mistake a large F for a good one; ties go to the
first candidate.

| symbol | variable | shape |
|---|---|---|
| y, one-vs-rest labels ±1 | `Y` | (C, n) |
| F, held-out values after each stage | `held_out` | (stages, n, C) |
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, check_cv

from voxprior.models.boosting.boost import Boosted, Settings, boost, staged_values
from voxprior.models.boosting.link import fit_slope
from voxprior.models.boosting.penalty import Penalty
from voxprior.models.boosting.stumps import Presorted, subset

__all__ = ["Choice", "Task", "choose", "fit_problems", "folds_of", "restrict", "with_weight"]

Folds = list[tuple[NDArray[np.int64], NDArray[np.int64]]]


class Task(NamedTuple):
    """What is learned: sorted features, one-vs-rest labels, and the samples' weights."""

    pool: Presorted
    Y: NDArray[np.float64]  # (C, n), ±1
    weights: NDArray[np.float64]  # (n,)
    mean_loss: bool  # loss averaged over samples, so that λ does not depend on their number


class Choice(NamedTuple):
    """The best of the candidates, by held-out log-loss."""

    candidate: int
    n_iterations: int
    slope: float
    losses: NDArray[np.float64]  # (candidates, stages)


def restrict(task: Task, rows: NDArray[np.int64], weights: NDArray | None = None) -> Task:
    """Return the task of those of some samples that have weight, with other weights if given."""
    weights = task.weights if weights is None else weights
    rows = rows[weights[rows] > 0]
    return Task(subset(task.pool, rows), task.Y[:, rows], weights[rows], task.mean_loss)


def with_weight(task: Task) -> Task:
    """Return the task without samples of weight zero."""
    return task if (task.weights > 0).all() else restrict(task, np.arange(len(task.weights)))


def fit_problems(
    task: Task, penalty: Penalty, settings: Settings, starts: Sequence[Any] | None = None
) -> list[Boosted]:
    """Boost each one-vs-rest problem of a task."""
    scale = task.weights.sum() if task.mean_loss else 1.0
    starts = [None] * len(task.Y) if starts is None else starts
    return [
        boost(task.pool, y, penalty, settings, task.weights / scale, start)
        for y, start in zip(task.Y, starts)
    ]


def folds_of(y: NDArray, groups: Any, cv: Any, random_state: Any) -> Folds:
    """Split stratified by label, never through a group; or as a splitter or iterable `cv` says."""
    if groups is not None and len(groups) != len(y):
        raise ValueError(f"groups must have one entry a sample, {len(y)}. Got {len(groups)}.")
    if not isinstance(cv, Integral):
        return list(check_cv(cv, y, classifier=True).split(y, y, groups))
    parts = np.arange(len(y)) if groups is None else np.asarray(groups)
    rarest = min(len(np.unique(parts[y == label])) for label in np.unique(y))
    if rarest < 2:
        raise ValueError(
            "Inner cross-validation needs every class in at least 2 "
            f"{'samples' if groups is None else 'groups'}. Got one with {rarest}: give more, or "
            "fix regularization and radius, and leave calibrate and early_stopping False."
        )
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    splitter = kind(min(int(cv), rarest), shuffle=True, random_state=random_state)
    return list(splitter.split(y, y, groups))


def choose(
    task: Task,
    candidates: Sequence[tuple[Penalty, Settings]],
    folds: Folds,
    every_stage: bool,
) -> Choice:
    """Pick the candidate of least held-out log-loss, and with `every_stage` its best stage."""
    parts = [restrict(task, train) for train, _ in folds]
    losses, slopes = [], []
    for penalty, settings in candidates:
        held_out = _held_out(task, parts, folds, penalty, settings)
        stages = held_out if every_stage else held_out[-1:]
        fitted = [fit_slope(F, task.Y, task.weights) for F in stages]
        slopes.append([slope for slope, _ in fitted])
        losses.append([loss for _, loss in fitted])
    table = np.array(losses)
    candidate, stage = (int(at) for at in np.unravel_index(np.argmin(table), table.shape))
    n_iterations = stage + 1 if every_stage else candidates[candidate][1].n_iterations
    return Choice(candidate, n_iterations, slopes[candidate][stage], table)


def _held_out(task, parts, folds, penalty, settings) -> NDArray[np.float64]:
    """Return F after each iteration for every sample, from the folds that did not train on it."""
    X, rows = task.pool.X, task.pool.rows
    held_out = np.empty((settings.n_iterations, len(rows), len(task.Y)))
    for part, (_, test) in zip(parts, folds):
        for c, found in enumerate(fit_problems(part, penalty, settings)):
            values = staged_values(X[rows[test]], found.stumps, found.steps, settings.n_iterations)
            held_out[:, test, c] = values
    return held_out
