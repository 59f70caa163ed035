"""A claim of a paper, tested on what was measured here, and the verdict.

A claim says in which range an effect lies: above 0 for "A beats B", within ± .015 for "all perform
alike". The effect is measured once in every unit (subject, realisation, data set), always as a
paired difference where two methods are compared, and the 95 % Student interval of its mean decides:

    holds        the interval lies inside the range
    refuted      the interval lies outside the range
    undecided    it reaches across a bound, or there are fewer than five units

Nothing else enters: a claim that is refuted is printed as refuted, whoever made it. Beside the
interval stand t against the nearest bound and, for one bound, how many units were on its right side
with the sign test, which asks nothing of the shape of the distribution.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf, isinf

import numpy as np
from scipy.stats import binomtest
from scipy.stats import t as student

LEVEL = 0.95
FEWEST_UNITS = 5


class Verdict(StrEnum):
    """What the measurements say of a claim; the rule is in the module's docstring."""

    HOLDS = "holds"
    UNDECIDED = "undecided"
    REFUTED = "refuted"


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper, on one set of data.

    Parameters
    ----------
    text : str
        What is claimed, in words that need no context.
    effects : sequence of float
        The effect in every unit; a paired difference where two methods are compared.
    data : str
        What the units are, for instance "13 simulated subjects, all voxels".
    published : str
        What is printed, with the place.
    differs : str
        One line on what differs from the paper, or on what the effects were chosen on.
    above, below : float
        The range that the claim gives to the mean effect.

    Examples
    --------
    >>> claim = Claim("A beats B", [0.1, 0.2, 0.15, 0.1, 0.3], "five subjects")
    >>> claim.verdict.value, claim.evidence
    ('holds', '+0.170 [+0.066, +0.274], t(4) = 4.5; 5 of 5, sign test p = 0.062')
    """

    text: str
    effects: Sequence[float] = field(repr=False)
    data: str
    published: str = ""
    differs: str = ""
    above: float = 0.0
    below: float = inf

    @property
    def effect(self) -> float:
        """Mean over units."""
        return float(np.mean(self.effects))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % Student interval of the mean; the whole line with one unit."""
        n = len(self.effects)
        if n < 2:
            return -inf, inf
        half = float(student.ppf((1 + LEVEL) / 2, n - 1)) * self._error
        return self.effect - half, self.effect + half

    @property
    def verdict(self) -> Verdict:
        """Whether the claim holds."""
        low, high = self.interval
        if len(self.effects) < FEWEST_UNITS:
            return Verdict.UNDECIDED
        if self.above < low and high < self.below:
            return Verdict.HOLDS
        return Verdict.REFUTED if high < self.above or low > self.below else Verdict.UNDECIDED

    @property
    def expected(self) -> str:
        """The range in words."""
        if isinf(self.below):
            return f"> {self.above:g}"
        return f"< {self.below:g}" if isinf(self.above) else f"{self.above:g} to {self.below:g}"

    @property
    def evidence(self) -> str:
        """Mean, interval, t, and the units on the right side of a single bound."""
        n, (low, high) = len(self.effects), self.interval
        if n < 2:
            return f"{self.effect:+.3f}, one unit"
        text = f"{self.effect:+.3f} [{low:+.3f}, {high:+.3f}]"
        bound = min((self.above, self.below), key=lambda one: abs(self.effect - one))
        if self._error > 1e-12 * abs(self.effect):  # else all are equal, to rounding
            text += f", t({n - 1}) = {(self.effect - bound) / self._error:.1f}"
        if isinf(self.above) or isinf(self.below):
            text += f"; {self._signs(bound)}"
        return text

    @property
    def _error(self) -> float:
        return float(np.std(self.effects, ddof=1) / np.sqrt(len(self.effects)))

    def _signs(self, bound: float) -> str:
        gains = np.asarray(self.effects) - bound
        right, wrong = int(np.sum(gains > 0)), int(np.sum(gains < 0))
        if isinf(self.above):
            right, wrong = wrong, right
        p = binomtest(right, right + wrong).pvalue if right + wrong else 1.0
        return f"{right} of {len(gains)}, sign test p = {p:.2g}"

    def row(self) -> dict[str, str]:
        """One line of a table of claims."""
        return {
            "claim": self.text,
            "published": self.published,
            "data": self.data,
            "claimed effect": self.expected,
            "measured effect [95 % interval]": self.evidence,
            "verdict": self.verdict.value.upper()
            if self.verdict is Verdict.REFUTED
            else self.verdict.value,
            "what differs": self.differs,
        }


def paired(first: Sequence[float], second: Sequence[float]) -> np.ndarray:
    """Differences of two methods, first minus second, unit by unit."""
    return np.asarray(first, dtype=float) - np.asarray(second, dtype=float)


def told(effects: Sequence[float]) -> str:
    """Mean of effects over units with its 95 % interval.

    >>> told([0.1, 0.2, 0.15, 0.1, 0.3]), told([0.1])
    ('+0.170 [+0.066, +0.274]', '+0.100')
    """
    claim = Claim("", effects, "")
    low, high = claim.interval
    return f"{claim.effect:+.3f}" + ("" if isinf(low) else f" [{low:+.3f}, {high:+.3f}]")
