"""The one-vs-rest problems of a classifier as one table of stumps, its values and its maps.

| symbol | variable | shape |
|---|---|---|
| h_j, α_j of every problem | `stumps` | structured: problem, feature, threshold, sign, weight |
| every change of an α_j | `steps` | structured: problem, iteration, stump, change |
| objective by iteration | `objective` | (C, iterations + 1) |
| β of each problem | `importances` | (C, V) |
| F | returned | (n, C) |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from voxprior.models.boosting.boost import (
    STEP,
    STUMP,
    Boosted,
    decision_values,
    staged_values,
)

__all__ = [
    "Ensemble",
    "direction",
    "ensemble_values",
    "join",
    "selection_order",
    "staged_ensemble_values",
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


def join(fitted: Sequence[Boosted], earlier: Ensemble | None = None) -> Ensemble:
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
