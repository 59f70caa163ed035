"""Several models on the same folds: one row per model, and the score of the best.

Every model is compared with the best baseline, that with the lowest log-loss (absolute error), by a
paired test over runs or subjects. The best of several was chosen by its score, which flatters it;
`Comparison.caution` says by how much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from voxprior import registry
from voxprior.errors import fault, refuses_input
from voxprior.validation import (
    LearningCurve,
    Result,
    chance_level,
    compare_decoders,
    score_after_choice,
)
from voxprior.validation.intervals import interval
from voxprior.validation.result import plain
from voxprior.validation.scores import LOWER_IS_BETTER


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Outcome of `Decoder.compare`.

    Attributes
    ----------
    results : dict of str to Result
        By model, in the order they were tested; all on the same folds.
    failures : dict of str to Exception
        Why models could not be tested.
    curve : LearningCurve or None
        Scores at growing numbers of training scans.
    nested : float or None
        Score of the best of `rivals`, chosen anew for every group that is left out; None where that
        cannot be done.
    """

    results: dict[str, Result]
    failures: dict[str, Exception] = field(default_factory=dict)
    curve: LearningCurve | None = None
    nested: float | None = None

    @property
    def score(self) -> str:
        """The score that ranks the models."""
        return next(iter(self.results.values())).score_names[0]

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per model, best first: scores, and the paired test against a baseline.

        That is the one with the lowest log-loss; for numbers, with the lowest absolute error.
        The difference is the gain in the first score; for numbers, the mean absolute error that is
        less.
        """
        best = self._best_baseline()
        rows = [self._row(name, result, best) for name, result in self.results.items()]
        order = [self.score] + (["log_loss"] if "log_loss" in rows[0] else [])
        table = pd.DataFrame(rows).sort_values(order, ascending=[False, True][: len(order)])
        return table.reset_index(drop=True)

    def _row(self, name: str, result: Result, best: str | None) -> dict[str, Any]:
        row: dict[str, Any] = {"model": name, "baseline": _is_baseline(name)} | result.pooled()
        row |= {"against": None, "difference": np.nan, "p": np.nan}
        if best is not None and name != best and result.predictions["group"].nunique() > 1:
            paired = "mae" if result.task == "regression" else self.score
            test = compare_decoders(result, self.results[best], paired)
            gain = -test.difference if paired in LOWER_IS_BETTER else test.difference
            row |= {"against": best, "difference": gain, "p": test.p_value}
        return row

    def _best_baseline(self) -> str | None:
        baselines = [name for name in self.results if _is_baseline(name)]
        return min(baselines, key=lambda name: _losses(self.results[name]), default=None)

    @property
    def rivals(self) -> dict[str, Result]:
        """Results of the models to choose from, best first; baselines if there are no others."""
        table = self.table
        own = table[~table["baseline"]]
        return {name: self.results[name] for name in (own if len(own) else table)["model"]}

    @property
    def best(self) -> str:
        """The best model: a family if one was tested."""
        return next(iter(self.rivals))

    @property
    def caution(self) -> str:
        """Say that the best was chosen by its score, and how well such a choice scores."""
        return caution(self.best, self.rivals, self.nested)

    @property
    def reasons(self) -> dict[str, str]:
        """Why models could not be tested, in words."""
        return {name: reason(error) for name, error in self.failures.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison in JSON's types."""
        return plain(
            {
                "models": self.table.to_dict("records"),
                "failed": self.reasons,
                "best": self.best,
                **self._after_choice(),
                "scores": summary_of(self.results[self.best]),
            }
        )

    def _after_choice(self) -> dict[str, Any]:
        if self.nested is not None:
            return {"best_corrected_for_choice": self.nested, "corrected_by": "nested choice"}
        drawn = score_after_choice(self.rivals)
        return {"best_corrected_for_choice": drawn, "corrected_by": "bootstrap of predictions"}

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Headings and rows of the table as text, baselines with an asterisk."""
        table = self.table
        ranking = "balanced_accuracy" if self.score == "balanced_accuracy" else "accuracy"
        shown = [c for c in table.columns if c in (ranking, "log_loss", "auc", "r2", "mae")]
        headings = ["model", *(name.replace("_", " ") for name in shown), "gain", "p"]
        rows = []
        for row in table.to_dict("records"):
            gain = "-" if row["difference"] != row["difference"] else f"{row['difference']:+.3f}"
            name = f"{row['model']} *" if row["baseline"] else str(row["model"])
            rows.append([name, *(decimals(row[c]) for c in shown), gain, decimals(row["p"])])
        return headings, rows

    @property
    def legend(self) -> str:
        """Say what the asterisk and the gain mean."""
        against = self.table["against"].dropna()
        if not len(against):
            return "* flat baseline"
        score = "mean absolute error" if self.score == "r2" else self.score.replace("_", " ")
        gain = f"gain in {score} over {against.iloc[0]} (above 0 is better)"
        return f"* flat baseline; {gain}, and its two-sided p by sign flips"

    def __repr__(self) -> str:
        headings, rows = self.cells()
        text = pd.DataFrame(rows, columns=headings).to_string(index=False)
        return "\n".join(filter(None, [text, self.legend, self.caution]))

    def _repr_html_(self) -> str:
        headings, rows = self.cells()
        return pd.DataFrame(rows, columns=headings).to_html(index=False, escape=True)


def caution(best: str, results: Mapping[str, Result], nested: float | None = None) -> str:
    """Say that the best of several was chosen by its score, and how well such a choice scores.

    `nested`, the score of choices made anew for every group, is preferred. Without it, groups of
    finished predictions are resampled, which corrects too little.
    """
    if len(results) < 2:
        return ""
    score = next(iter(results.values())).score_names[0].replace("_", " ")
    text = (
        f"{best} was chosen as the best of {len(results)} by this very {score}, which flatters it"
    )
    if nested is not None:
        how = "chosen anew for every group, by fits that have not seen it"
        return f"{text}; corrected for the choice: {nested:.3f} ({how})."
    drawn = score_after_choice(dict(results))
    if drawn is None:
        return f"{text}."
    how = "groups drawn out of finished predictions, which still flatters slightly"
    return f"{text}; corrected for the choice: {drawn:.3f} ({how})."


def reason(error: Exception) -> str:
    """Say in one line why a model failed; marks of options stay, for the front end to write."""
    return str(getattr(error, "marked", error)) if refuses_input(error) else fault(error)


def _losses(result: Result) -> tuple[float, float]:
    """What ranks baselines: log-loss, or the absolute error; the first score where it has none."""
    scores = result.pooled()
    loss = scores["mae" if result.task == "regression" else "log_loss"]
    return (np.inf if np.isnan(loss) else loss), -scores[result.score_names[0]]


def _is_baseline(name: str) -> bool:
    return name in registry.models(role="baseline")


def summary_of(result: Result) -> dict[str, Any]:
    """Return the scores of a Result in JSON's types: value, interval, chance, and the findings."""
    found = {name: interval(result, name) for name in result.score_names}
    scores = {
        name: {
            "value": one.estimate,
            "low": one.low,
            "high": one.high,
            "interval": one.reason if one.method == "none" else one.method,
            "chance": chance_level(result, name),
        }
        for name, one in found.items()
        if one.estimate == one.estimate  # a decoder without probabilities has no log-loss
    }
    return plain(
        {
            "model": result.settings["estimator"],
            "n_samples": result.settings["n_samples"],
            "n_folds": len(result.scores),
            "split": result.settings["cv"],
            "scores": scores,
            "findings": [finding.to_dict() for finding in result.findings],
            "checks": [check.to_dict() for check in result.checks],
        }
    )


def decimals(value: float | None) -> str:
    """Three decimals, or a dash.

    >>> [decimals(v) for v in (None, -1e-9, 0.12345)]
    ['-', '0.000', '0.123']
    """
    if value is None or value != value:
        return "-"
    return f"{round(value, 3) + 0.0:.3f}"  # never -0.000
