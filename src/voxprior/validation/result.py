"""Result: what a validation run found, as plain tables that can be saved, read back and compared.

Scores of a fold, from its predictions alone (c runs over classes, i over the m test scans):

===================  ============================================================================
accuracy             share of scans labelled rightly; an abstention is not right
balanced_accuracy    mean over the classes present of the share labelled rightly
log_loss             -1/m Σ_i log p_i[y_i], p clipped at 2.2e-16 as scikit-learn does
brier                1/(2m) Σ_i Σ_c (p_ic - [y_i = c])², from 0 to 1 for any number of classes
auc                  area under the ROC curve, one class against the rest averaged over classes;
                     NaN where a class is missing from the fold
coverage             share of scans answered, and **selective_accuracy**, accuracy among them:
                     only where the decoder abstained somewhere
r2, mae              regression: explained variance (NaN below two test scans), mean absolute error
===================  ============================================================================
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from voxprior.validation.audit import Finding

FORMAT = 2
READABLE = (1, 2)  # format 1 also held the timings
TABLES = ("predictions", "scores")
CLASSIFICATION_SCORES = ("accuracy", "balanced_accuracy", "log_loss", "brier", "auc")
REGRESSION_SCORES = ("r2", "mae")


@dataclass(frozen=True, eq=False)
class Result:
    """Outcome of a validation run.

    Attributes
    ----------
    task : {"classification", "regression"}
        What was decoded.
    predictions : DataFrame
        One row a test scan of a fold: ``fold, sample, group, y_true, y_pred`` and, where the
        decoder gives them, one probability column a class, ``p_<class>`` (or ``d_<class>`` for
        scores that are not probabilities). Without groups every scan is its own group.
    scores : DataFrame
        One row a fold: ``fold, n_train, n_test`` and the scores of this module's table.
    timings : DataFrame
        One row a fold: ``fold, fit_seconds, predict_seconds``. They differ from run to run, so they
        are never saved: the same run twice gives the same file.
    classes : tuple
        Labels in sorted order; empty for regression.
    settings : dict
        All that is needed to repeat the run: estimator and parameters, split, seed, versions.
    findings : tuple of Finding
        What the audit found before the run, errors that were allowed included.
    complete : bool
        False where the run was interrupted and holds the finished folds only.
    models : tuple
        Fitted estimators in the order of the folds, if they were asked for; never saved.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from voxprior.validation import FewShotSplit, Result, cross_validate
    >>> X, y = load_iris(return_X_y=True)
    >>> result = cross_validate(GaussianNB(), X, y, cv=FewShotSplit(5, n_repeats=3))
    >>> result.predictions.columns.tolist()
    ['fold', 'sample', 'group', 'y_true', 'y_pred', 'p_0', 'p_1', 'p_2']
    >>> Result.from_dict(result.to_dict()).equals(result)
    True
    """

    task: str
    predictions: pd.DataFrame
    scores: pd.DataFrame
    timings: pd.DataFrame
    classes: tuple = ()
    settings: dict[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    complete: bool = True
    models: tuple = ()

    @property
    def score_names(self) -> list[str]:
        """Names of the score columns, the most telling one first.

        That is balanced accuracy where the classes are unequal.
        """
        names = [c for c in self.scores.columns if c not in ("fold", "n_train", "n_test")]
        if self.task == "classification" and not self.balanced:
            names.remove("balanced_accuracy")
            names.insert(0, "balanced_accuracy")
        return names

    @property
    def balanced(self) -> bool:
        """Whether the classes of the scans tested are of equal size."""
        counts = self.class_counts()
        return bool(counts.min() == counts.max())

    def class_counts(self) -> np.ndarray:
        """Scans tested of each class that was, in the order of their labels."""
        sample, truth = (self.predictions[name].to_numpy() for name in ("sample", "y_true"))
        first = np.unique(sample, return_index=True)[1]
        return np.unique(truth[first], return_counts=True)[1]

    @property
    def score_columns(self) -> list[str]:
        """Names of the probability (or decision) columns, in the order of the classes."""
        for prefix in ("p", "d"):
            names = [f"{prefix}_{label}" for label in self.classes]
            if names and names[0] in self.predictions.columns:
                return names
        return []

    @property
    def has_probabilities(self) -> bool:
        """Whether the decoder gave probabilities."""
        return bool(self.score_columns) and self.score_columns[0].startswith("p_")

    def probabilities(self) -> np.ndarray:
        """Class probabilities, (n_predictions, n_classes)."""
        if not self.has_probabilities:
            raise ValueError("These predictions carry no probabilities (no predict_proba).")
        return _columns(self.predictions, self.score_columns)

    def summary(self) -> dict[str, Any]:
        """Plain dictionary: sizes, and for every score its mean and spread over folds and pooled.

        The spread (sd) over folds is no standard error: folds share training scans.
        """
        spread = {
            name: {
                "mean": float(self.scores[name].mean()),
                "sd": float(self.scores[name].std(ddof=1)) if len(self.scores) > 1 else np.nan,
                "pooled": value,
            }
            for name, value in self.pooled().items()
        }
        return {
            "task": self.task,
            "classes": list(self.classes),
            "n_samples": int(self.predictions["sample"].nunique()),
            "n_groups": int(self.predictions["group"].nunique()),
            "n_folds": len(self.scores),
            "complete": self.complete,
            "scores": spread,
            "findings": [finding.to_dict() for finding in self.findings],
            "seconds": self.seconds,
            "settings": self.settings,
        }

    @property
    def seconds(self) -> float | None:
        """Seconds of fitting and predicting over all folds; None for a result that was read."""
        if self.timings.empty:
            return None
        return float(self.timings[["fit_seconds", "predict_seconds"]].to_numpy().sum())

    def pooled(self) -> dict[str, float]:
        """Scores of all predictions taken together, in the order of `score_names`."""
        pooled = score_predictions(self.predictions, self.task, self.classes)
        return {name: pooled[name] for name in self.score_names}

    def equals(self, other: Result) -> bool:
        """Whether two results say the same, whatever time they took."""
        return (
            self.task == other.task
            and self.classes == other.classes
            and self.complete == other.complete
            and self.findings == other.findings
            and self.predictions.equals(other.predictions)
            and self.scores.equals(other.scores)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold; `from_dict` reads it back to an equal result.

        The same run gives the same dictionary, so it leaves out how long the folds took.
        """
        return {
            "format": FORMAT,
            "task": self.task,
            "classes": [plain(c) for c in self.classes],
            "complete": self.complete,
            "settings": plain(self.settings),
            "findings": [finding.to_dict() for finding in self.findings],
            **{name: _table_to_dict(getattr(self, name)) for name in TABLES},
        }

    def to_json(self, path: str | os.PathLike | None = None) -> str:
        """Return the JSON text, and write it to `path` where one is given (all or nothing)."""
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False)
        if path is not None:
            write_whole(Path(path), text)
        return text

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Result:
        """Read what `to_dict` returned."""
        if content.get("format") not in READABLE:
            raise ValueError(
                f"A result of format {FORMAT} was expected. Got format {content.get('format')!r}: "
                "was it written by another version of voxprior?"
            )
        return cls(
            content["task"],
            _table_from_dict(content["predictions"]),
            _table_from_dict(content["scores"]),
            pd.DataFrame({"fold": [], "fit_seconds": [], "predict_seconds": []}),
            classes=tuple(content["classes"]),
            complete=content["complete"],
            settings=dict(content["settings"]),
            findings=tuple(Finding(**finding) for finding in content["findings"]),
        )

    @classmethod
    def from_json(cls, source: str | os.PathLike) -> Result:
        """Read a file that `to_json` wrote."""
        return cls.from_dict(json.loads(Path(source).read_text(encoding="utf-8")))


def write_whole(path: Path, text: str) -> None:
    """Write a file entirely or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


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
        }
    right = truth == guess
    recalls = [right[truth == label].mean() for label in pd.unique(truth)]
    scores = {"accuracy": float(right.mean()), "balanced_accuracy": float(np.mean(recalls))}
    scores |= _probability_scores(predictions, truth, classes)
    answered = np.isin(guess, np.array(classes, dtype=guess.dtype))
    scores["coverage"] = float(answered.mean())
    scores["selective_accuracy"] = float(right[answered].mean()) if answered.any() else np.nan
    return scores


def _probability_scores(predictions, truth, classes) -> dict[str, float]:
    """log-loss, Brier and AUC as far as the columns allow."""
    one_hot = truth[:, None] == np.array(classes, dtype=truth.dtype)[None, :]
    scores = {"log_loss": np.nan, "brier": np.nan, "auc": np.nan}
    if f"p_{classes[0]}" in predictions:
        p = _columns(predictions, [f"p_{label}" for label in classes])
        certain = np.clip(p[one_hot], np.finfo(float).eps, None)
        scores["log_loss"] = float(-np.log(certain).mean())
        scores["brier"] = float(0.5 * ((p - one_hot) ** 2).sum(axis=1).mean())
        scores["auc"] = _auc(one_hot, p)
    elif f"d_{classes[0]}" in predictions:
        d = _columns(predictions, [f"d_{label}" for label in classes])
        scores["auc"] = _auc(one_hot, d)
    return scores


def _columns(table: pd.DataFrame, names: list[str]) -> np.ndarray:
    """Columns side by side: many times faster than by a table of them, which many folds feel."""
    return np.column_stack([table[name].to_numpy() for name in names])


def _auc(one_hot: np.ndarray, value: np.ndarray) -> float:
    """One against the rest, averaged: the Mann-Whitney statistic, from mid-ranks."""
    n, present = len(one_hot), one_hot.sum(axis=0)
    if np.any(present == 0) or np.any(present == n):
        return np.nan
    ranks = rankdata(value, axis=0)
    above = np.where(one_hot, ranks, 0.0).sum(axis=0) - present * (present + 1) / 2
    return float(np.mean(above / (present * (n - present))))


def plain(value):
    """Python's own types instead of numpy's; NaN and infinities become None."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def _table_to_dict(table: pd.DataFrame) -> dict[str, Any]:
    return {
        "columns": table.columns.tolist(),
        "float": [c for c in table.columns if table[c].dtype.kind == "f"],
        "data": {c: plain(table[c].tolist()) for c in table.columns},
    }


def _table_from_dict(content: Mapping[str, Any]) -> pd.DataFrame:
    table = pd.DataFrame({c: content["data"][c] for c in content["columns"]})
    return table.astype(dict.fromkeys(content["float"], float))
