"""Boosting of many labellings of the same scans, for permutation tests.

Features are sorted once for all folds and labellings, and the spatial penalty is made once. Each
labelling is then boosted as in ``fit``, on the orders of its fold: what comes out is the same to
the last digit. The search for stumps, which looks at few of them, makes it quick (`search`).
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from voxprior.labels import check_two_classes
from voxprior.models.base import ManyLabellings
from voxprior.models.boosting.coordinate_descent import Settings, decision_values
from voxprior.models.boosting.ensemble import TrainingSet, fit_problems, one_vs_rest
from voxprior.models.boosting.penalty import Penalty
from voxprior.models.boosting.stumps import Presorted, presort, subset


class Prepared(NamedTuple):
    """What labels do not change."""

    pool: Presorted  # of all scans
    penalty: Penalty
    settings: Settings


class ManyBoosted(NamedTuple):
    """Boosted stumps of one training set, for every labelling."""

    X: NDArray  # (n, n_features), all scans
    labellings: list[list[NDArray]]  # STUMP of each one-vs-rest problem

    def decision_function(self, rows: NDArray) -> NDArray[np.float64]:
        """F of other scans: (m, B) for two classes, (m, B, C) for more."""
        X = self.X[rows]
        F = [[decision_values(X, stumps) for stumps in problems] for problems in self.labellings]
        values = np.moveaxis(np.array(F), 2, 0)
        return values[..., 0] if values.shape[2] == 1 else values


class BoostingInBatch(ManyLabellings):
    """What `SpatialBoostingClassifier` offers to permutation tests."""

    fit_many_words: ClassVar[str] = "spatially regularised boosting"
    fit_many_is_fit: ClassVar[bool] = True
    fit_many_in_memory: ClassVar[bool] = True
    most_scans_at_once: ClassVar[float] = np.inf

    def prepare(self: Any, X: Any) -> Prepared:
        """Sort the features of scans X (n, n_features), and make the penalty."""
        self._validate_params()
        X = self._checked_scans(X)
        ((penalty, settings),) = self._candidates(self._grid())
        return Prepared(presort(X, self._n_thresholds()), penalty, settings)

    def _n_thresholds(self: Any) -> int | None:
        return None if self.thresholds == "all" else self.thresholds

    def _can_fit_many(self: Any) -> bool:
        """Whether nothing is chosen by inner cross-validation."""
        return len(self._grid()) == 1 and not self.early_stopping

    def _fit_many(
        self: Any, prepared: Prepared, rows: NDArray, Y: NDArray, n_classes: int
    ) -> ManyBoosted:
        """Fit each labelling as ``fit`` does; its slope is not needed for decisions."""
        pool, penalty, settings = prepared
        rising = np.argsort(rows)
        fold, weights = subset(pool, rows[rising]), np.ones(len(rows))
        labellings = []
        for codes in Y[rising].T:
            check_two_classes(np.unique(codes))
            problems = one_vs_rest(codes, n_classes)
            training = TrainingSet(fold, problems, weights, self.loss_scale == "mean")
            labellings.append([one.stumps for one in fit_problems(training, penalty, settings)])
        return ManyBoosted(pool.X, labellings)
