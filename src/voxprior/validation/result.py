"""Result: what a validation run found, as plain tables that can be saved, read back and compared.

The scores are described in `voxprior.validation.scores`, their intervals in
`voxprior.validation.intervals`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from voxprior.errors import InputError
from voxprior.registry import load
from voxprior.validation.audit import Audit, Check, Finding
from voxprior.validation.intervals import chance_level, interval
from voxprior.validation.scores import columns_of, score_predictions
from voxprior.writing import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from voxprior.validation.permutation import PermutationResult

# Of result.json, see voxprior/output/schema.json; 1 also held the timings, and until 2 the key of
# the number was "format".
SCHEMA_VERSION, READABLE = 3, (1, 2, 3)
TABLES = ("predictions", "scores")


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Outcome of a validation run.

    Attributes
    ----------
    task : {"classification", "regression"}
        What was decoded.
    predictions : DataFrame
        One row per test scan of a fold: ``fold, sample, group, y_true, y_pred`` and, where the
        decoder gives them, one probability column per class, ``p_<class>`` (or ``d_<class>`` for
        scores that are not probabilities). Without groups every scan is its own group.
    scores : DataFrame
        One row per fold: ``fold, n_train, n_test`` and the scores of `voxprior.validation.scores`.
    timings : DataFrame
        One row per fold: ``fold, fit_seconds, predict_seconds``. They differ from run to run, so
        they are never saved: the same run twice gives the same file.
    classes : tuple
        Labels in sorted order; empty for regression.
    settings : dict
        All that is needed to repeat the run: estimator and parameters, split, seed, versions.
    findings : tuple of Finding
        What the audit found, errors that were allowed included.
    complete : bool
        False where the run was interrupted and holds the finished folds only.
    models : tuple
        Fitted estimators in the order of the folds, if they were asked for; never saved.
    checks : tuple of Check
        All that the audit looked for, with what came of it; empty where none was made.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from voxprior.validation import FewShotSplit, Result, cross_validate
    >>> X, y = load_iris(return_X_y=True)
    >>> result = cross_validate(GaussianNB(), X, y, cv=FewShotSplit(5, n_repeats=3))
    >>> result
    Result of classification: 128 scans, 3 folds; training on 5 scans per class drawn at random ...
                       value   95 % interval chance           method
    balanced_accuracy  0.916  0.859 to 0.954  0.333  group bootstrap
    accuracy           0.916  0.857 to 0.955  0.344  group bootstrap
    log_loss           0.619  0.122 to 2.169  1.098   group variance
    brier              0.067  0.027 to 0.169  0.333  group bootstrap
    auc                0.979  0.946 to 0.994  0.500  group bootstrap
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
    checks: tuple[Check, ...] = ()

    @property
    def audit(self) -> Audit:
        """Findings and checks, for other tests of the same scans (``audited``)."""
        return Audit(self.findings, self.checks)

    @property
    def score_names(self) -> list[str]:
        """Names of the score columns, the most informative one first.

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
            raise InputError(
                "These predictions have no probabilities", remedy="Use a model with predict_proba"
            )
        return columns_of(self.predictions, self.score_columns)

    def table(self, level: float = 0.95) -> pd.DataFrame:
        """One row per score: value, low and high end of its interval, chance level and method.

        Where there is no interval, its ends are NaN and the method gives the reason. The chance
        level is the score of a decoder that ignores the images, NaN for scores that have none.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from voxprior.validation import cross_validate
        >>> result = cross_validate(GaussianNB(), *load_iris(return_X_y=True))
        >>> table = result.table()
        >>> table.columns.tolist(), round(float(table.loc["accuracy", "low"]), 2)
        (['value', 'low', 'high', 'chance', 'method'], 0.91)
        """
        rows = {}
        for name in self.score_names:
            found, chance = interval(self, name, level=level), chance_level(self, name)
            rows[name] = {
                "value": found.estimate,
                "low": found.low,
                "high": found.high,
                "chance": np.nan if chance is None else chance,
                "method": found.reason if found.method == "none" else found.method,
            }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("score")

    def plot(
        self,
        others: Mapping[str, Result] | None = None,
        permutation: PermutationResult | None = None,
    ) -> Figure:
        """Draw the first figure of the report: the score with its interval, and chance.

        Parameters
        ----------
        others : mapping of str to Result, optional
            Decoders tested on the same folds, by name, below this one.
        permutation : PermutationResult, optional
            What exchanged labels give, as a shade.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from voxprior.validation import cross_validate
        >>> cross_validate(GaussianNB(), *load_iris(return_X_y=True)).plot().axes[0].get_xlabel()
        'accuracy'
        """
        draw = load("voxprior.report.summary:standing_picture")  # a report is above validation
        return draw(self, others or {}, permutation).figure

    def __repr__(self) -> str:
        lines = [self._title(), self._shown().to_string(), self._audit()]
        return "\n".join(line for line in lines if line)

    def _repr_html_(self) -> str:
        return html_table(self._title(), self._shown(), self._audit())

    def _title(self) -> str:
        """Task, sizes and split in a line."""
        n_groups, planned = self.settings.get("n_groups"), self.settings.get("n_folds")
        stopped = "" if self.complete else f" of {planned or '?'} (interrupted)"
        sizes = [
            f"{self.predictions['sample'].nunique()} scans",
            f"{n_groups} groups" if n_groups else "",
            f"{len(self.scores)}{stopped} folds",
        ]
        split = self.settings.get("split", self.settings.get("cv", ""))
        told = [f"Result of {self.task}: {', '.join(filter(None, sizes))}", split]
        return "; ".join(filter(None, told))

    def _shown(self) -> pd.DataFrame:
        """`table` as text."""
        table = self.table()
        ends = table["low"].map("{:.3f}".format) + " to " + table["high"].map("{:.3f}".format)
        return pd.DataFrame(
            {
                "value": table["value"].map(_rounded),
                "95 % interval": ends.where(table["low"].notna(), "-"),
                "chance": table["chance"].map(_rounded),
                "method": table["method"],
            }
        ).rename_axis(index=None)

    def _audit(self) -> str:
        """Findings by name."""
        told = [f"{f.name} ({'allowed' if f.allowed else f.severity})" for f in self.findings]
        return f"Audit: {', '.join(dict.fromkeys(told))}" if told else ""

    def summary(self) -> dict[str, Any]:
        """Plain dictionary: sizes, and for every score its mean and sd over folds, and pooled.

        The standard deviation over folds is not a standard error: folds share training scans.
        """
        scores = {
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
            "scores": scores,
            "findings": [finding.to_dict() for finding in self.findings],
            "checks": [check.to_dict() for check in self.checks],
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
        """Whether two results agree, whatever time they took."""
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
            "schema_version": SCHEMA_VERSION,
            "task": self.task,
            "classes": [plain(c) for c in self.classes],
            "complete": self.complete,
            "settings": plain(self.settings),
            "findings": [finding.to_dict() for finding in self.findings],
            "checks": [check.to_dict() for check in self.checks],
            **{name: _table_to_dict(getattr(self, name)) for name in TABLES},
        }

    def to_json(self, path: str | os.PathLike | None = None) -> str:
        """Return the JSON text, and write it to `path` where one is given (all or nothing)."""
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False)
        if path is not None:
            write_whole(path, text)
        return text

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Result:
        """Read what `to_dict` returned."""
        version = content.get("schema_version", content.get("format"))
        if version not in READABLE:
            raise InputError(
                "This is not a result that can be read",
                expected=f"schema_version {SCHEMA_VERSION}",
                got=f"schema_version {version!r}",
                remedy="Read it with the version of voxprior that wrote it",
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
            checks=tuple(Check(**check) for check in content.get("checks", ())),
        )

    @classmethod
    def from_json(cls, source: str | os.PathLike) -> Result:
        """Read a file that `to_json` wrote."""
        return cls.from_dict(json.loads(Path(source).read_text(encoding="utf-8")))


def _rounded(value: float) -> str:
    return f"{round(value, 3) + 0.0:.3f}" if np.isfinite(value) else "-"  # -0 is 0


def html_table(title: str, table: pd.DataFrame, note: str = "") -> str:
    """A table of text for a notebook; whatever labels hold is shown and not read as markup."""
    with pd.option_context("display.max_colwidth", None):
        body = table.to_html(border=0, escape=True)
    below = f"<p>{escape(note)}</p>" if note else ""
    return f"<div><p>{escape(title)}</p>{body}{below}</div>"


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
