"""Scores of predictions: of a table of them, of each, and as functions of how often groups count.

Scores of a fold, from its predictions alone (c runs over classes, i over the m test scans):

* ``accuracy``: share of scans labelled rightly; an abstention is not right
* ``balanced_accuracy``: mean over the classes present of the share labelled rightly
* ``log_loss``: -1/m Σ_i log p_i[y_i], p clipped at 2.2e-16 as scikit-learn does
* ``brier``: 1/(2m) Σ_i Σ_c (p_ic - [y_i = c])², from 0 to 1 for any number of classes
* ``auc``: area under the ROC curve, one class against the rest, averaged over classes; NaN where a
  class is missing from the fold
* ``coverage``: share of scans answered, and ``selective_accuracy``, accuracy among them: only where
  the decoder abstained somewhere
* ``r2``, ``mae``: regression: explained variance (NaN below two test scans), mean absolute error
* ``log_density``, ``interval_coverage``: regression by a model that gives distributions: mean log
  density of the numbers, and the share of them inside their 90 % intervals

The group bootstrap needs the score of many draws of groups: from sums by group, a draw costs
nothing. A mean over predictions needs two sums per group (of values, of their number), balanced
accuracy those of each class, R² four (of 1, y, y², squared errors); AUC needs for every two groups
how many positives of the one score above negatives of the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from voxprior.errors import InputError

if TYPE_CHECKING:
    from voxprior.validation.result import Result

CLASSIFICATION_SCORES = ("accuracy", "balanced_accuracy", "log_loss", "brier", "auc")
REGRESSION_SCORES = ("r2", "mae")
DISTRIBUTION_SCORES = ("log_density", "interval_coverage")
# Columns of predictions that a model with distributions adds, and the level of its intervals.
INTERVAL_COLUMNS = ("low", "high", "log_density")
INTERVAL_LEVEL = 0.9
LOWER_IS_BETTER = ("log_loss", "brier", "mae")
NAMES = {
    "r2": "R²",
    "mae": "mean absolute error",
    "auc": "area under ROC",
    "brier": "Brier score",
    "margin": "mean held-out margin",
    "interval_coverage": "share inside 90 % intervals",
}
# Scores closer than this differ by rounding alone.
TIE = 1e-12


def score_name(key: str) -> str:
    """Name of a score for readers.

    >>> score_name("auc"), score_name("balanced_accuracy")
    ('area under ROC', 'balanced accuracy')
    """
    return NAMES.get(key, key.replace("_", " "))


def score_predictions(predictions: pd.DataFrame, task: str, classes: tuple) -> dict[str, float]:
    """Scores of one table of predictions, by name."""
    truth, guess = predictions["y_true"].to_numpy(), predictions["y_pred"].to_numpy()
    if task == "regression":
        varies = len(truth) > 1 and np.ptp(truth) > 0
        return {
            "r2": float(1 - np.sum((truth - guess) ** 2) / np.sum((truth - truth.mean()) ** 2))
            if varies
            else np.nan,
            "mae": float(np.mean(np.abs(truth - guess))),
        } | _distribution_scores(predictions, truth)
    right = truth == guess
    recalls = [right[truth == label].mean() for label in pd.unique(truth)]
    scores = {"accuracy": float(right.mean()), "balanced_accuracy": float(np.mean(recalls))}
    scores |= _probability_scores(predictions, truth, classes)
    answered = np.isin(guess, np.array(classes, dtype=guess.dtype))
    scores["coverage"] = float(answered.mean())
    scores["selective_accuracy"] = float(right[answered].mean()) if answered.any() else np.nan
    return scores


def _distribution_scores(predictions: pd.DataFrame, truth: np.ndarray) -> dict[str, float]:
    """Log density and coverage, where the predictions have intervals."""
    if "log_density" not in predictions:
        return {}
    inside = _inside(predictions, truth)
    return {
        "log_density": float(predictions["log_density"].mean()),
        "interval_coverage": float(inside.mean()),
    }


def _inside(predictions: pd.DataFrame, truth: np.ndarray) -> np.ndarray:
    low, high = columns_of(predictions, ["low", "high"]).T
    return (low <= truth) & (truth <= high)


def _probability_scores(predictions, truth, classes) -> dict[str, float]:
    """log-loss, Brier and AUC as far as the columns allow."""
    one_hot = truth[:, None] == np.array(classes, dtype=truth.dtype)[None, :]
    scores = {"log_loss": np.nan, "brier": np.nan, "auc": np.nan}
    if f"p_{classes[0]}" in predictions:
        p = columns_of(predictions, [f"p_{label}" for label in classes])
        certain = np.clip(p[one_hot], np.finfo(float).eps, None)
        scores["log_loss"] = float(-np.log(certain).mean())
        scores["brier"] = float(0.5 * ((p - one_hot) ** 2).sum(axis=1).mean())
        scores["auc"] = _auc(one_hot, p)
    elif f"d_{classes[0]}" in predictions:
        d = columns_of(predictions, [f"d_{label}" for label in classes])
        scores["auc"] = _auc(one_hot, d)
    return scores


def columns_of(table: pd.DataFrame, names: list[str]) -> np.ndarray:
    """Columns side by side: many times faster than a table of them, which counts for many folds."""
    return np.column_stack([table[name].to_numpy() for name in names])


def _auc(one_hot: np.ndarray, value: np.ndarray) -> float:
    """One against the rest, averaged: the Mann-Whitney statistic, from mid-ranks."""
    n, present = len(one_hot), one_hot.sum(axis=0)
    if np.any(present == 0) or np.any(present == n):
        return np.nan
    ranks = rankdata(value, axis=0)
    above = np.where(one_hot, ranks, 0.0).sum(axis=0) - present * (present + 1) / 2
    return float(np.mean(above / (present * (n - present))))


def margins_of(values: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """How far each scan's value for its own class is above the mean of the others, (m,).

    >>> margins_of(np.array([[0.25, 1.0, 0.75], [3.0, 0.0, 1.0]]), np.array([1, 2]))
    array([ 0.5, -0.5])
    """
    own, n_classes = values[np.arange(len(codes)), codes], values.shape[1]
    return (n_classes * own - values.sum(axis=1)) / (n_classes - 1)


# --- scores by groups and by scans ------------------------------------------------------------

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
        raise InputError(f"The score {score!r} is not defined for these predictions")
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
    """One number per prediction whose mean is the score, NaN not counted; None for other scores."""
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
    if score == "log_density" and score in table:
        return table[score].to_numpy()
    if score == "interval_coverage" and "low" in table:
        return _inside(table, truth).astype(float)
    if score in ("log_loss", "brier") and result.has_probabilities:
        p = result.probabilities()
        one_hot = truth[:, None] == np.array(result.classes, dtype=truth.dtype)[None, :]
        if score == "brier":
            return 0.5 * ((p - one_hot) ** 2).sum(axis=1)
        return -np.log(np.clip(p[one_hot], np.finfo(float).eps, None))
    return None


def scan_scores(result: Result, score: str) -> pd.DataFrame | None:
    """One row per scan: group, true label, score averaged over repeats. None for other scores."""
    value = row_scores(result, score)
    if value is None:
        return None
    rows = result.predictions[["sample", "group", "y_true"]].assign(value=value)
    return rows.groupby("sample", as_index=False).agg(
        group=("group", "first"), y_true=("y_true", "first"), value=("value", "mean")
    )


def check_same_scans(first: Result, second: Result) -> None:
    """Refuse two results that cannot be compared scan by scan."""
    columns = ["fold", "sample", "group", "y_true"]
    if not first.predictions[columns].equals(second.predictions[columns]):
        raise InputError(
            "The decoders cannot be compared", expected="the same scans tested in the same folds"
        )
