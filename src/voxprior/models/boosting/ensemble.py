"""The one-vs-rest problems of a classifier: fitted together, as one table, to probabilities.

Boosting tells two classes apart. With more, each class is a problem against the rest; all of them
share the sorted features. The population minimiser of the exponential loss is half the log-odds, so

    p(y = +1 | x) = 1 / (1 + exp(-a F(x))),   a = 2

On few samples F is far too confident; then a smaller slope a, fitted to held-out values, takes
the place of 2. One-vs-rest problems share the slope, and their p are normalised.

| symbol | variable | shape |
|---|---|---|
| y, one-vs-rest labels ±1 | `Y` | (C, n); C = 1 for two classes |
| h_j, α_j of every problem | `stumps` | structured: problem, feature, threshold, sign, weight |
| every change of an α_j | `steps` | structured: problem, iteration, stump, change |
| objective by iteration | `objective` | (C, iterations + 1) |
| β of each problem | `importances` | (C, V) |
| F | `F` | (n, C) |
| a | `slope` | scalar |

Reference: Friedman, Hastie & Tibshirani, Additive logistic regression, Annals of Statistics 2000.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from voxprior.models.boosting.coordinate_descent import (
    STEP,
    STUMP,
    Boosted,
    Settings,
    boost,
    decision_values,
    staged_values,
)
from voxprior.models.boosting.penalty import Penalty
from voxprior.models.boosting.stumps import Presorted, presort, subset

__all__ = [
    "EXPONENTIAL_SLOPE",
    "Ensemble",
    "TrainingSet",
    "direction",
    "ensemble_values",
    "fit_problems",
    "join_problems",
    "leading_class",
    "location_maps",
    "log_probabilities",
    "one_vs_rest",
    "restrict",
    "selection_order",
    "staged_ensemble_values",
    "training_set",
    "without_weightless",
]

EXPONENTIAL_SLOPE = 2.0


class TrainingSet(NamedTuple):
    """What is learned from: sorted features, one-vs-rest labels, and the samples' weights."""

    pool: Presorted
    Y: NDArray[np.float64]  # (C, n), ±1
    weights: NDArray[np.float64]  # (n,)
    mean_loss: bool  # loss averaged over samples, so that λ does not depend on their number


def training_set(
    X: NDArray,
    codes: NDArray[np.intp],
    n_classes: int,
    weights: NDArray[np.float64],
    n_thresholds: int | None = None,
    mean_loss: bool = False,
) -> TrainingSet:
    """Sort the features and make one-vs-rest labels of class codes 0 .. n_classes - 1."""
    Y = one_vs_rest(codes, n_classes)
    return TrainingSet(presort(X, n_thresholds), Y, weights, mean_loss)


def one_vs_rest(codes: NDArray[np.intp], n_classes: int) -> NDArray[np.float64]:
    """Return labels ±1 of every problem, (C, n); C = 1 for two classes.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.models.boosting.ensemble import one_vs_rest
    >>> one_vs_rest(np.array([0, 1, 1]), n_classes=2)
    array([[-1.,  1.,  1.]])
    """
    positive = [1] if n_classes == 2 else range(n_classes)
    return np.array([np.where(codes == c, 1.0, -1.0) for c in positive])


def restrict(
    training: TrainingSet, rows: NDArray[np.int64], weights: NDArray | None = None
) -> TrainingSet:
    """Return those of some samples that have weight, with other weights if given."""
    weights = training.weights if weights is None else weights
    rows = rows[weights[rows] > 0]
    pool = subset(training.pool, rows)
    return TrainingSet(pool, training.Y[:, rows], weights[rows], training.mean_loss)


def without_weightless(training: TrainingSet) -> TrainingSet:
    """Return the training set without samples of weight zero."""
    weights = training.weights
    return training if (weights > 0).all() else restrict(training, np.arange(len(weights)))


def fit_problems(
    training: TrainingSet,
    penalty: Penalty,
    settings: Settings,
    starts: Sequence[Any] | None = None,
) -> list[Boosted]:
    """Boost each one-vs-rest problem, continuing from stumps where `starts` has them."""
    scale = training.weights.sum() if training.mean_loss else 1.0
    starts = [None] * len(training.Y) if starts is None else starts
    return [
        boost(training.pool, y, penalty, settings, training.weights / scale, start)
        for y, start in zip(training.Y, starts)
    ]


class Ensemble(NamedTuple):
    """All problems together; C = 1 for two classes."""

    stumps: NDArray
    steps: NDArray
    objective: NDArray[np.float64]
    importances: NDArray[np.float64]

    @property
    def n_iterations(self) -> int:
        """Iterations of the problem that took most."""
        return self.objective.shape[1] - 1

    def problem(self, c: int) -> tuple[NDArray, NDArray]:
        """Return the stumps and steps of one problem, without the problem's number."""
        stumps = self.stumps[self.stumps["problem"] == c][list(STUMP.fields or ())]
        steps = self.steps[self.steps["problem"] == c][list(STEP.fields or ())]
        return stumps, steps


def join_problems(fitted: Sequence[Boosted], earlier: Ensemble | None = None) -> Ensemble:
    """Put problems together, after the iterations of an `earlier` ensemble they continued."""
    longest = max(len(found.objective) for found in fitted)
    # A problem that converged before the others stays at its last value.
    objective = np.array(
        [np.pad(f.objective, (0, longest - len(f.objective)), mode="edge") for f in fitted]
    )
    steps = _numbered([found.steps for found in fitted])
    if earlier is not None:
        steps["iteration"] += earlier.n_iterations
        steps = np.concatenate([earlier.steps, steps])
        objective = np.hstack([earlier.objective, objective[:, 1:]])
    stumps = _numbered([found.stumps for found in fitted])
    return Ensemble(stumps, steps, objective, np.array([found.importance for found in fitted]))


def ensemble_values(X: NDArray, ensemble: Ensemble) -> NDArray[np.float64]:
    """Return F of every problem, (n, C)."""
    problems = range(len(ensemble.importances))
    return np.column_stack([decision_values(X, ensemble.problem(c)[0]) for c in problems])


def staged_ensemble_values(X: NDArray, ensemble: Ensemble) -> NDArray[np.float64]:
    """Return F of every problem after each iteration, (iterations, n, C)."""
    problems = (ensemble.problem(c) for c in range(len(ensemble.importances)))
    return np.stack([staged_values(X, *parts, ensemble.n_iterations) for parts in problems], -1)


def log_probabilities(F: NDArray, slope: float) -> NDArray[np.float64]:
    """Return log p of each class, (n, max(C, 2)).

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.models.boosting.ensemble import log_probabilities
    >>> np.exp(log_probabilities(np.array([[0.0], [1.0]]), slope=2.0)).round(3)
    array([[0.5  , 0.5  ],
           [0.119, 0.881]])
    """
    if F.shape[1] == 1:
        return -np.logaddexp(0.0, slope * F * np.array([1.0, -1.0]))
    log_p = -np.logaddexp(0.0, -slope * F)
    return log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True)


def leading_class(F: NDArray) -> NDArray[np.intp]:
    """Return the code of the most probable class, (n,).

    F decides between classes whose probabilities are equal up to rounding.
    """
    return (F[:, 0] > 0).astype(np.intp) if F.shape[1] == 1 else np.argmax(F, axis=1)


def location_maps(
    ensemble: Ensemble, smoothed: NDArray, labels: NDArray, n_features: int
) -> dict[str, NDArray]:
    """Return what the stumps rely on, by name: one value per location, or per feature."""
    importance = ensemble.importances.sum(axis=0)
    maps: dict[str, NDArray] = {"importance": importance, "smoothed": smoothed.copy()}
    maps["selection_order"] = selection_order(ensemble)
    if len(labels) == 2:
        maps["direction"] = direction(ensemble)
    else:
        maps |= {f"importance_{c}": b.copy() for c, b in zip(labels, ensemble.importances)}
    if n_features > len(importance):
        stumps = ensemble.stumps
        maps["feature_importance"] = np.bincount(stumps["feature"], stumps["weight"], n_features)
    return maps


def direction(ensemble: Ensemble) -> NDArray[np.float64]:
    """Return the weight of a location's rising stumps less that of its falling ones, (V,)."""
    n_locations, stumps = ensemble.importances.shape[1], ensemble.stumps
    signed = stumps["weight"] * stumps["sign"]
    return np.bincount(stumps["feature"] % n_locations, signed, n_locations).astype(np.float64)


def selection_order(ensemble: Ensemble) -> NDArray[np.int64]:
    """Rank locations by the iteration that first chose them, from 1; 0 where none did."""
    n_problems, n_locations = ensemble.importances.shape
    stumps, steps = ensemble.stumps, ensemble.steps
    first = np.cumsum([0, *np.bincount(stumps["problem"], minlength=n_problems)])
    place = stumps["feature"][first[steps["problem"]] + steps["stump"]] % n_locations
    by_time = place[np.argsort(steps["iteration"], kind="stable")]
    chosen, when = np.unique(by_time, return_index=True)
    order = np.zeros(n_locations, dtype=np.int64)
    order[chosen[np.argsort(when)]] = np.arange(1, len(chosen) + 1)
    return order


def _numbered(parts: Sequence[NDArray]) -> NDArray:
    """Join tables of equal fields, with the number of each as first field."""
    dtype = np.dtype([("problem", "i8"), *parts[0].dtype.descr])
    table = np.empty(sum(map(len, parts)), dtype=dtype)
    table["problem"] = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    for name in parts[0].dtype.names or ():
        table[name] = np.concatenate([part[name] for part in parts])
    return table
