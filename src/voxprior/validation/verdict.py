"""What a validation shows, in two sentences: is the score above chance, and better than others?

* **Above chance**: the lower end of the interval of the first score lies above its chance level.
* **Better than others**: the interval of the paired difference to the best of the others leaves
  out 0, by log-loss (by the mean absolute error for numbers) on the same folds.
* **No verdict** where the split allows no interval, as below five independent groups.

No other score, and no second look, takes part: the rule was fixed before the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from voxprior.validation.intervals import chance_level, difference_interval, interval
from voxprior.validation.scores import score_name

if TYPE_CHECKING:
    from voxprior.validation.result import Result

ABOVE, NOT_ABOVE, BELOW, NONE = "above chance", "not above chance", "below chance", "no verdict"


class Verdict(NamedTuple):
    """Outcome against chance ("above chance", "not above chance", "below chance", "no verdict").

    `best` is the best of the other decoders, `gain` how much less this one's loss is, with the ends
    of its interval; None where there was none to compare with. `text` puts it into words.
    """

    outcome: str
    text: str
    best: str | None = None
    gain: tuple[float, float, float] | None = None

    def __str__(self) -> str:
        return self.text


def verdict(
    result: Result, others: Mapping[str, Result] | None = None, target: str = "the labels"
) -> Verdict:
    """Put into words what a result shows.

    Parameters
    ----------
    result : Result
        From `cross_validate`.
    others : mapping of str to Result, optional
        Other decoders on the same folds, by name.
    target : str
        What is decoded, as a reader calls it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from voxprior.validation import cross_validate, verdict
    >>> X, y = load_iris(return_X_y=True)
    >>> print(verdict(cross_validate(GaussianNB(), X, y), target="the species"))
    The interval lies above chance: the scans say something about the species.
    """
    outcome, sentence = _against_chance(result, target)
    found = _against_others(result, others or {})
    said = " ".join(filter(None, (sentence, found.text, _cautions(result, outcome))))
    return found._replace(outcome=outcome, text=said)


def _against_chance(result: Result, target: str) -> tuple[str, str]:
    score = result.score_names[0]
    found, chance = interval(result, score), chance_level(result, score)
    if found.method == "none" or chance is None:
        return NONE, f"No verdict: the score has no interval ({found.reason})."
    if found.low > chance:
        return ABOVE, f"The interval lies above chance: the scans say something about {target}."
    if found.high < chance:
        return BELOW, (
            "The interval lies below chance, which no signal explains: look at how the folds were "
            "made, and at the audit."
        )
    return NOT_ABOVE, (
        f"The interval includes chance: that the scans say something about {target} was not shown."
    )


def _against_others(result: Result, others: Mapping[str, Result]) -> Verdict:
    """Compare with the best of the others, by the loss that both have."""
    loss = "mae" if result.task == "regression" else "log_loss"
    known = {name: other for name, other in others.items() if loss in other.score_names}
    if loss not in result.score_names or not known:
        return Verdict(NONE, "")
    best = min(known, key=lambda name: known[name].pooled()[loss])
    found = difference_interval(result, known[best], loss)
    if found.method == "none":
        return Verdict(NONE, "", best)
    first = result.score_names[0]
    value = f"{score_name(first)} {known[best].pooled()[first]:.3f}"
    if found.high < 0:
        how = "It is better than"
    else:
        how = "It is worse than" if found.low > 0 else "It was not shown to be better than"
    gain = (-found.estimate, -found.high, -found.low)
    return Verdict(NONE, f"{how} {best} ({value}) on the same folds.", best, gain)


def _cautions(result: Result, outcome: str) -> str:
    """Name the findings that a score above chance has to be read with."""
    names = list(dict.fromkeys(finding.name for finding in result.findings))
    if outcome != ABOVE or not names:
        return ""
    return f"The audit found what else may explain the score: {', '.join(names)}."
