"""The statistics of a map test: how each is computed, and what a small p of it means.

| name | value of voxel v | a small p says | control |
|---|---|---|---|
| t | t of the class difference; F for more than two classes | v differs | strong |
| moderated | t with a prior on variances, see `voxprior.mapping.moderation` | v differs | strong |
| welch | t of variances not pooled, see `voxprior.mapping.spread` | v's means differ | strong |
| shared | t of the mean over v and its neighbours | v or a neighbour differs | strong |
| tfce | threshold-free cluster enhancement of t | v is in a structure that differs | weak |
| cluster | size of v's cluster above a threshold of t | v is in a structure that differs | weak |
| pattern | cov(x_v, f) / sd(f), f what a ridge decoder reads | the map is not chance | global |
| weight | weight w_v of a ridge decoder | the map is not chance | global |

"Differs" means in mean or in spread, since labels are exchanged as if classes did not differ at
all; welch is about means. Strong: the probability that anything is claimed of voxels in which
nothing differs is at most the level, whatever the other voxels do. Weak: only where nothing differs
at all; voxels near a true effect are claimed too. Global: there is no claim about single voxels. A
weight can be large where a voxel does not differ at all but helps to cancel noise, and f depends on
all voxels.

The ridge decoder has the penalty λ of the mean eigenvalue of C = X~X~', which labels do not change,
so with a^_b as in `voxprior.mapping.product`

    dual (C + λI)^-1 a^_b,   w = X~'dual,   f = C dual,   pattern X~'f / |f|                  (1)

References
----------
Haufe et al., "On the interpretation of weight vectors of linear models", NeuroImage 87, 2014.
Nichols & Hayasaka, "Controlling the familywise error rate in functional neuroimaging", 2003.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isinf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats

from voxprior.mapping.exchange import Exchange
from voxprior.mapping.moderation import NO_PRIOR, Prior
from voxprior.mapping.product import orthonormal

__all__ = ["STATISTICS", "Statistic", "decoder_columns", "hypothesis", "in_units", "shared_scans"]

# Degrees of freedom below which variances are moderated.
FEW = 20
# Share of the unexplained below which a voxel is the label itself: t would be rounding.
PERFECT = 1e-10
# Clusters are cut where a single voxel has this p by its t.
CLUSTER_P = 0.001


class Statistic(NamedTuple):
    """What is known of a statistic."""

    claim: str  # what a small p means, with {effect} for what differs
    control: str  # "strong", "weak" or "global"
    symbol: str  # what its values are, for legends

    @property
    def spatial(self) -> bool:
        """Whether values depend on those of neighbours, so that whole maps are needed."""
        return self.control == "weak"


STRONG = (
    "If nothing differed at all in some voxels, a map with any claim among them would have a "
    "probability of at most the level, whatever the other voxels do."
)
WEAK = (
    "The probability of a claim where nothing differs is at most the level; where something does, "
    "voxels around it are claimed too, so borders say little."
)
GLOBAL = (
    "It says nothing of single voxels: one that does not differ at all can have a large value here."
)
CONTROL = {"strong": STRONG, "weak": WEAK, "global": GLOBAL}
STATISTICS = {
    "t": Statistic("In this voxel {effect}.", "strong", "t"),
    "moderated": Statistic("In this voxel {effect}.", "strong", "moderated t"),
    "welch": Statistic("In this voxel {effect}.", "strong", "Welch's t"),
    "shared": Statistic("In this voxel or one of its neighbours {effect}.", "strong", "shared t"),
    "tfce": Statistic("This voxel is in a structure in which {effect}.", "weak", "TFCE"),
    "cluster": Statistic("This voxel is in a cluster in which {effect}.", "weak", "cluster size"),
    "pattern": Statistic(
        "The decoder's pattern as a whole is not that of meaningless labels.", "global", "pattern"
    ),
    "weight": Statistic(
        "The decoder's weights as a whole are not those of meaningless labels.", "global", "weight"
    ),
}


def hypothesis(name: str, exchange: Exchange) -> str:
    """Put into words what a small p of a statistic means, and how far errors are controlled."""
    one = STATISTICS[name]
    return f"{one.claim.format(effect=effect_words(name, exchange))} {CONTROL[one.control]}"


def effect_words(name: str, exchange: Exchange) -> str:
    """What there is to find: classes, numbers or a mean, as far as relabelling can show."""
    if exchange.scheme == "signs":
        return "the mean of the maps is not zero, or they lie unevenly about it"
    if not exchange.classes:
        return "the values vary with the number, in mean or in spread"
    if len(exchange.classes) > 2:
        return f"the {len(exchange.classes)} classes differ, in mean or in spread"
    one, other = exchange.classes[1], exchange.classes[0]
    if name == "welch":
        return f"the means of {one} and {other} differ, whatever their spread"
    return f"{one} and {other} differ, in mean or in spread"


def contrast_words(exchange: Exchange) -> str:
    """What a positive value means."""
    if exchange.scheme == "signs":
        return "positive above zero"
    if not exchange.classes:
        return "positive where values rise with the number"
    if len(exchange.classes) > 2:
        return "without sign"
    return f"positive where {exchange.classes[1]} is above {exchange.classes[0]}"


# ---------------------------------------------------------------- values


def in_units(R2: NDArray, k: int, df: int, prior: Prior = NO_PRIOR) -> NDArray:
    """Write R² as |t|, or as F where a relabelling has k > 1 columns; moderated by a prior.

    >>> in_units(np.array([0.0, 0.5]), 1, 8).round(3)
    array([0.   , 2.828])
    """
    R2 = np.asarray(R2, dtype=np.float64)
    if isinf(prior.dof):
        F = R2 / k
    else:
        F = R2 / np.maximum(1 - R2, PERFECT) * (df + prior.dof) / k
    return np.sqrt(F) if k == 1 else F


def parametric_p(values: NDArray, k: int, df: int, prior: Prior = NO_PRIOR) -> NDArray:
    """Probability of at least this |t|, or F, under normal noise."""
    F = values**2 if k == 1 else values
    if isinf(prior.dof):
        return stats.chi2.sf(F * k, k)
    return stats.f.sf(F, k, df + prior.dof)


def cluster_threshold(k: int, df: int, prior: Prior = NO_PRIOR) -> float:
    """Height, |t| or the root of F, above which voxels form clusters."""
    dof = inf if isinf(prior.dof) else df + prior.dof
    F = stats.chi2.isf(CLUSTER_P, k) / k if isinf(dof) else stats.f.isf(CLUSTER_P, k, dof)
    return float(np.sqrt(F))


# ---------------------------------------------------------------- scans and columns


def shared_scans(X: NDArray, graph: sparse.csr_array) -> NDArray:
    """Replace every voxel by the mean over itself and its neighbours."""
    near = sparse.csr_array(graph, dtype=np.float64) + sparse.eye_array(graph.shape[0])
    near = sparse.diags_array(1 / near.sum(axis=1)) @ near
    return (near @ np.asarray(X, dtype=np.float64).T).T


def decoder_columns(name: str, gram: NDArray, k: int) -> Callable[[NDArray], NDArray]:
    """Make what turns columns of labels into those of a ridge decoder's map, (1).

    `gram` (U, U) is C; weights are times λ, which is the same for all relabellings.
    """
    n = len(gram)
    penalty = float(np.trace(gram)) / n or 1.0
    dual = np.linalg.inv(gram / penalty + np.eye(n))
    if name == "weight":
        return lambda columns: dual @ columns

    def pattern(columns: NDArray) -> NDArray:
        read = gram @ (dual @ columns) / penalty
        return orthonormal(np.moveaxis(read.reshape(n, -1, k), 1, 0), k)

    return pattern
