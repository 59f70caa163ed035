"""Scores as a report shows them: by a readable name, with an interval, next to chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from voxprior.validation import Result, chance_level, interval
from voxprior.validation.intervals import Interval
from voxprior.validation.scores import INTERVAL_LEVEL, LOWER_IS_BETTER, score_name


class Score(NamedTuple):
    """A score on held-out scans; ``chance`` is None where it is unknown.

    ``grouped`` says whether the scans have groups that are drawn whole.
    """

    key: str
    interval: Interval
    chance: float | None
    grouped: bool = True

    @property
    def name(self) -> str:
        """What readers call it."""
        return score_name(self.key)

    @property
    def has_interval(self) -> bool:
        """Whether the split allows an interval; if not, `interval` gives the reason."""
        return self.interval.method != "none"

    @property
    def value(self) -> str:
        """The score, to three digits."""
        return _number(self.interval.estimate)

    @property
    def range(self) -> str:
        """Limits of the interval, to three digits."""
        return f"{self.interval.low:.3f} to {self.interval.high:.3f}" if self.has_interval else "-"

    @property
    def how(self) -> str:
        """The method of the interval in words; without groups, scans are what is drawn."""
        if not self.has_interval:
            return self.interval.reason
        by_scans = self.interval.method == "group bootstrap" and not self.grouped
        return "bootstrap of scans" if by_scans else self.interval.method

    @property
    def better(self) -> str:
        """Which values are good ones; of a share inside intervals, that which was asked for."""
        if self.key == "interval_coverage":
            return f"near {INTERVAL_LEVEL:g}"
        return "lower" if self.key in LOWER_IS_BETTER else "higher"

    def row(self) -> dict[str, Any]:
        """Write it as a row of the page's table."""
        return {
            "key": self.key,
            "name": self.name,
            "better": self.better,
            "mean": self.value,
            "interval": self.range,
            "method": self.how,
            "chance": "-" if self.chance is None else _number(self.chance),
        }


def main_scores(names: Sequence[str]) -> list[str]:
    """Return the two scores that are read first: of answers, and of what the decoder states.

    >>> main_scores(["balanced_accuracy", "accuracy", "log_loss", "auc"])
    ['balanced_accuracy', 'log_loss']
    """
    return [one for n, one in enumerate(names) if n == 0 or one in ("log_loss", "mae")]


def scores_of(result: Result) -> list[Score]:
    """All scores of a result, its first one first."""
    grouped = result.settings.get("n_groups") is not None
    return [
        Score(key, interval(result, key), chance_level(result, key), grouped)
        for key in result.score_names
    ]


def _number(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "-"
