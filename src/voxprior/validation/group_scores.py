"""Scores as functions of how often each group counts, from sums by group: a draw costs nothing.

A mean over predictions needs two sums a group (of values, of their number), balanced accuracy those
of each class, R² four (of 1, y, y², squared errors); AUC needs for every two groups how many
positives of the one score above negatives of the other.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from voxprior.validation.result import Result

# Weights (B, G) of the groups to scores (B,).
OfGroups = Callable[[np.ndarray], np.ndarray]


def score_of_groups(result: Result, score: str) -> OfGroups:
    """Score of all predictions by weights (B, G) of the groups in the order of their names."""
    group = np.unique(result.predictions["group"].to_numpy(), return_inverse=True)[1]
    if score == "auc":
        return _area(result, group)
    truth, guess = (result.predictions[name].to_numpy() for name in ("y_true", "y_pred"))
    if score == "r2":
        sums = _group_sums(group, [np.ones(len(truth)), truth, truth**2, (truth - guess) ** 2])

        def explained(weights: np.ndarray) -> np.ndarray:
            n, total, squares, errors = sums @ weights.T
            with np.errstate(invalid="ignore", divide="ignore"):
                return 1 - errors / (squares - total**2 / n)

        return explained
    value = row_scores(result, score)
    if value is None:
        raise ValueError(f"The score {score!r} is not defined for these predictions.")
    counted = np.isfinite(value)
    parts = [counted]
    if score == "balanced_accuracy":
        parts = [truth == label for label in pd.unique(truth)]
    members = _group_sums(group, [part.astype(float) for part in parts])
    totals = _group_sums(group, [np.where(part, value, 0.0) for part in parts])

    def mean(weights: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", divide="ignore"):
            return ((totals @ weights.T) / (members @ weights.T)).mean(axis=0)

    return mean


def _group_sums(group: np.ndarray, columns: list) -> np.ndarray:
    """(K, G) sums of K columns by group."""
    return np.array([np.bincount(group, weights=column) for column in columns])


def _area(result: Result, group: np.ndarray) -> OfGroups:
    """AUC: a pair counts 1 if ordered rightly, ½ if tied; pairs are summed by groups once."""
    truth, G = result.predictions["y_true"].to_numpy(), group.max() + 1
    parts = []
    for label, name in zip(result.classes, result.score_columns):
        positive = truth == label
        rank = np.unique(result.predictions[name].to_numpy(), return_inverse=True)[1]
        downs = np.zeros((rank.max() + 1, G))
        np.add.at(downs, (rank[~positive], group[~positive]), 1.0)
        below = np.cumsum(downs, axis=0) - 0.5 * downs
        wins = np.zeros((G, G))  # of the row's positives over the column's negatives
        np.add.at(wins, group[positive], below[rank[positive]])
        ups = np.bincount(group[positive], minlength=G)
        parts.append((wins, ups, downs.sum(axis=0)))

    def area(weights: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", divide="ignore"):
            areas = [
                ((weights @ wins) * weights).sum(axis=1) / ((weights @ ups) * (weights @ downs))
                for wins, ups, downs in parts
            ]
        return np.mean(areas, axis=0)

    return area


def row_scores(result: Result, score: str) -> np.ndarray | None:
    """One number a prediction whose mean is the score, NaN not counted; None for other scores."""
    table = result.predictions
    truth, guess = table["y_true"].to_numpy(), table["y_pred"].to_numpy()
    if score in ("accuracy", "balanced_accuracy"):
        return (truth == guess).astype(float)
    if score in ("coverage", "selective_accuracy"):
        answered = np.isin(guess, np.array(result.classes, dtype=guess.dtype))
        if score == "coverage":
            return answered.astype(float)
        return np.where(answered, truth == guess, np.nan)
    if score == "mae":
        return np.abs(truth - guess)
    if score in ("log_loss", "brier") and result.has_probabilities:
        p = result.probabilities()
        one_hot = truth[:, None] == np.array(result.classes, dtype=truth.dtype)[None, :]
        if score == "brier":
            return 0.5 * ((p - one_hot) ** 2).sum(axis=1)
        return -np.log(np.clip(p[one_hot], np.finfo(float).eps, None))
    return None


def scan_scores(result: Result, score: str) -> pd.DataFrame | None:
    """One row a scan: group, true label, score averaged over repeats. None for other scores."""
    value = row_scores(result, score)
    if value is None:
        return None
    rows = result.predictions[["sample", "group", "y_true"]].assign(value=value)
    return rows.groupby("sample", as_index=False).agg(
        group=("group", "first"), y_true=("y_true", "first"), value=("value", "mean")
    )
