"""From values of relabellings to p: corrected for the whole map, alone, and as a discovery rate.

    p_v(FWER) = (1 + #{b : M_b >= |T_v|}) / (1 + B),   M_b = max_v |T_vb|
    p_v       = (1 + #{b : |T_vb| >= |T_v|}) / (1 + B)

Where all N relabellings of a design are used, the true one among them, both are exact. The false
discovery rate is controlled on p_v by Benjamini and Hochberg. A permutation p cannot fall below
1/(1 + B), and nothing is found unless V / ((1 + B) level) voxels reach that. Where this is more
than one, p of the t distribution take their place, which is reported. That is not done where the
design itself has too few relabellings: the claim would rest only on the assumption of normal noise.

References
----------
Nichols & Holmes, "Nonparametric permutation tests for functional neuroimaging", 2002.
Phipson & Smyth, "Permutation p-values should never be zero", 2010.
Benjamini & Hochberg, "Controlling the false discovery rate", 1995.
"""

from __future__ import annotations

from html import escape
from math import ceil, floor, inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import false_discovery_control

from voxprior.mapping.design import Design
from voxprior.mapping.exchange import Exchange, enough
from voxprior.mapping.product import SLACK
from voxprior.mapping.relabelled import Relabelled
from voxprior.mapping.statistics import (
    STATISTICS,
    contrast_words,
    hypothesis,
    parametric_p,
)

__all__ = ["MapTest", "floor_words", "judge", "reach_words"]


class MapTest(NamedTuple):
    """Outcome of `map_test`; arrays have one value per voxel, None where there is no answer."""

    statistic: np.ndarray  # signed; F for more than two classes
    effect: np.ndarray  # difference of means, slope or mean; (K, V) class means for K > 2
    p_fwer: np.ndarray | None
    p_uncorrected: np.ndarray | None
    q_fdr: np.ndarray | None
    threshold: float  # what the statistic must exceed (fwer) or reach; inf where nothing can
    null_max: np.ndarray  # (B,) the largest of every relabelling, in units of the statistic
    smallest_p: float  # that the design and the number of relabellings can give
    n_distinct: int  # distinct relabellings of the design
    exact: bool  # whether all of them were used
    scheme: str  # how labels were exchanged, in words
    hypothesis: str  # what a small p says, in words
    name: str  # of the statistic
    control: str  # "strong", "weak" or "global"
    contrast: str  # what a positive value means
    p_global: float  # that the map as a whole is chance
    significant: np.ndarray  # (V,) bool, by `correction` at `level`; none of a "global" map
    correction: str
    level: float
    df: int
    unmoderated: np.ndarray | None  # t or F, where the statistic is another
    notes: tuple[str, ...]  # what else a reader should know

    def __repr__(self) -> str:
        voxels = f"{int(self.significant.sum()):,} of {len(self.statistic):,} voxels significant"
        found = "" if self.control == "global" else f"{voxels} ({self.words()}), "
        return (
            f"Map test by {self.symbol}: {found}p of the whole map "
            f"{self.p_global:.3g} (smallest possible {self.smallest_p:.3g}); {self.relabellings()}"
        )

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(line)}</p>" for line in (repr(self), *self.notes))

    @property
    def symbol(self) -> str:
        """What the values of the statistic are called: F instead of t for more classes."""
        name = STATISTICS[self.name].symbol
        several = self.effect.ndim > 1 and self.control == "strong"
        return name.removesuffix("t") + "F" if several else name

    def words(self) -> str:
        """Name the correction and its level."""
        rate = {"fwer": "familywise error", "fdr": "false discovery rate", "none": "uncorrected p"}
        return f"{rate[self.correction]} {self.level:g}"

    def relabellings(self) -> str:
        """State how many relabellings there were, and how labels were exchanged."""
        number = len(self.null_max) + self.exact
        many = f"all {number:,}" if self.exact else f"{number:,} random"
        return f"{many} relabellings, {self.scheme}"

    def summary(self) -> dict[str, Any]:
        """Return what was found, without the maps, for a report or JSON."""
        arrays = ("statistic", "effect", "p_fwer", "p_uncorrected", "q_fdr", "unmoderated")
        content = {n: v for n, v in self._asdict().items() if n not in (*arrays, "null_max")}
        content["significant"] = int(self.significant.sum())
        content["threshold"] = None if np.isinf(self.threshold) else self.threshold
        return content | {
            "voxels": len(self.statistic),
            "relabellings": self.relabellings(),
            "n_relabellings": len(self.null_max) + self.exact,
        }


def judge(
    name: str,
    found: Relabelled,
    exchange: Exchange,
    design: Design,
    correction: str = "fwer",
    level: float = 0.05,
) -> MapTest:
    """Turn the values of relabellings into p, and explain what they mean."""
    control, n_maps = STATISTICS[name].control, len(found.largest)
    null = np.sort(found.largest[1:])
    above = len(null) - np.searchsorted(null, found.size * (1 - SLACK))
    p_fwer, p_alone, q = (1 + above) / n_maps, None, None
    notes = _notes(exchange, design, level) + ([found.spread] if found.spread else [])
    if found.counts is not None:
        p_alone = (1 + found.counts) / n_maps
        q, how = _discovery_rate(found, p_alone, exchange, design, level)
        notes += [how] if correction == "fdr" else []
    value: Any = {"fwer": p_fwer, "fdr": q, "none": p_alone}[correction]
    significant = np.asarray(value <= level) & (control != "global")
    return MapTest(
        found.statistic,
        found.effect,
        None if control == "global" else p_fwer,
        p_alone,
        q,
        _threshold(found, null, significant, correction, level),
        found.units(found.largest[1:]),
        exchange.smallest_p,
        exchange.n_distinct,
        exchange.exact,
        exchange.statement,
        hypothesis(name, exchange),
        name,
        control,
        contrast_words(exchange),
        float(p_fwer[np.argmax(found.size)]),
        significant,
        correction,
        level,
        design.df,
        found.unmoderated,
        tuple(notes),
    )


def _threshold(
    found: Relabelled, null: NDArray, significant: NDArray, correction: str, level: float
) -> float:
    """Value that divides significant voxels from others."""
    if correction != "fwer":
        return float(np.abs(found.statistic[significant]).min()) if significant.any() else inf
    may_reach = floor(level * (1 + len(null)) + 1e-9) - 1  # so many relabellings
    if may_reach < 0:
        return inf
    critical = null[-1 - may_reach] if may_reach < len(null) else 0.0
    return float(found.units(np.array([critical]))[0])


def _discovery_rate(
    found: Relabelled, p_alone: NDArray, exchange: Exchange, design: Design, level: float
) -> tuple[NDArray, str]:
    """Benjamini-Hochberg values, and in words the p they are based on."""
    V, needed = len(p_alone), len(p_alone) / level
    if len(exchange.targets) >= needed:
        return false_discovery_control(p_alone), "False discovery rate of permutation p."
    if exchange.n_distinct < needed * exchange.n_symmetric:
        how = (
            "False discovery rate of permutation p, of which the design allows none below "
            f"{exchange.smallest_p:.2g}: at least {ceil(V * exchange.smallest_p / level):,} voxels "
            "must reach that before one counts."
        )
        return false_discovery_control(p_alone), how
    p = parametric_p(np.abs(found.statistic), design.k, found.df, found.prior)
    how = (
        f"False discovery rate of p by the t distribution, because permutation p of {V:,} voxels "
        f"would need {ceil(needed):,} relabellings."
    )
    return false_discovery_control(p), how


def _notes(exchange: Exchange, design: Design, level: float) -> list[str]:
    notes = []
    if len(exchange.unit) > len(exchange.stratum):
        notes.append(f"Scans were averaged to {len(exchange.stratum)} {exchange.units}.")
    if design.approximate:
        notes.append(
            "Nuisance variables differ inside what is exchanged, so p is approximate, not exact."
        )
    if exchange.smallest_p > level:
        notes.append(floor_words(exchange, level))
    return notes


def reach_words(exchange: Exchange) -> str:
    """State what relabellings there are, and how small p can get.

    >>> from voxprior.mapping.exchange import choose_exchange
    >>> print(reach_words(choose_exchange(None, n=8)))
    All 256 relabellings, signs flipped of whole maps: the smallest possible p is 0.0078.
    """
    number = f"All {len(exchange.targets):,}"
    if not exchange.exact:
        number = f"{len(exchange.targets) - 1:,} random"
    return (
        f"{number} relabellings, {exchange.statement}: the smallest possible p is "
        f"{exchange.smallest_p:.2g}."
    )


def floor_words(exchange: Exchange, level: float) -> str:
    """Explain that a design cannot reach a level, and what would.

    >>> from voxprior.mapping.exchange import choose_exchange
    >>> five = choose_exchange(np.tile(["a", "b"], 5), np.repeat(range(5), 2), n=10)
    >>> print(floor_words(five, 0.05))
    No p below 0.062 is possible (32 relabellings, labels exchanged among scans within each group),
    so nothing can reach the level 0.05: 6 such groups would suffice.
    """
    told = (
        f"No p below {exchange.smallest_p:.2g} is possible ({exchange.n_distinct:,} relabellings, "
        f"{exchange.statement}), so nothing can reach the level {level:g}"
    )
    if exchange.n_symmetric <= level * exchange.n_distinct:
        return f"{told}: draw at least {ceil(1 / level) - 1} of them."
    number = enough(exchange, level)
    name = "groups" if exchange.scheme == "within" else exchange.units
    return f"{told}." if number is None else f"{told}: {number} such {name} would suffice."
