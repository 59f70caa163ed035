"""One posterior over members and the weight of their scores, from scans that were left out.

A member m gives scores s^m(x); a weight w on a grid makes them probabilities, p ∝ n_c exp(w s_c).

    log π(m, q) = const + log mass_m + log prior_m(q) + (n_eff/N) Σ_i log softmax(b + w_q s^m(x_i))[y_i]
    p(c | x) = (1 - ε) Σ_mq π(m, q) softmax(b + w_q s^m(x))[c] + ε n_c/n,      ε = .2 / (n_eff + 1)

The mixture over w keeps probabilities honest where few left-out scans determine the weight; no
further temperature is needed. The weight of a discriminant is the squared distance of the classes
in units of the noise: log w ~ N(log 12, 2²). Where two classes have no scan to leave out, nothing
could correct a weight that is too large, and log w ~ N(log 7, 1). The probabilities of another
model are scores too, whose weight is about 1: log w ~ N(0, .6²). "Nothing there" is a member whose
scores are 0.

| symbol | variable | shape |
|---|---|---|
| s^m of N left-out or new scans, for B labellings | `scores[m]` | (N, B, C) |
| b_c = log(n_c/n) | `log_prior` | (B, C) |
| log w_q, and its prior, summing to 1 | `Grid.log_weight`, `Grid.log_prior` | (Q,) |
| mass_m, summing to 1 | `mass` | (M,) |
| π | `posterior[m]` | (Q, B) |
| N left-out predictions, worth n_eff | `codes`, `n_effective` | (N, B), (B,) |
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

__all__ = ["NOTHING", "PROBABILITIES", "Grid", "discriminant_grid", "mixture", "posterior_of"]

# Weight of doubt, in scans, that every probability keeps, whatever the data.
DOUBT = 0.2
# Numbers that are computed with at once.
BLOCK = 2**20


class Grid(NamedTuple):
    """Weights of scores to average over, and their prior."""

    log_weight: NDArray[np.float64]
    log_prior: NDArray[np.float64]


def _grid(low: float, high: float, center: float, deviation: float) -> Grid:
    """Steps of .3 in log w under a normal prior."""
    log_weight = np.arange(low, high + 1e-9, 0.3)
    density = -(((log_weight - center) / deviation) ** 2) / 2
    return Grid(log_weight, density - logsumexp(density))


DISCRIMINANT = _grid(-2.4, 7.2, np.log(12.0), 2.0)
UNTESTED_PAIR = _grid(-2.4, 7.2, np.log(7.0), 1.0)
PROBABILITIES = _grid(-1.8, 1.8, 0.0, 0.6)
NOTHING = Grid(np.zeros(1), np.zeros(1))


def discriminant_grid(n_classes: int, tested: bool) -> Grid:
    """Weights of discriminants, and their prior; `tested` where scans can be left out."""
    return DISCRIMINANT if tested or n_classes > 2 else UNTESTED_PAIR


def posterior_of(
    scores: Sequence[NDArray],
    grids: Sequence[Grid],
    mass: NDArray,
    codes: NDArray,
    log_prior: NDArray,
    n_effective: NDArray,
) -> list[NDArray[np.float64]]:
    """Posterior π by member, each (Q, B); all together sum to 1 for each of the B labellings.

    Without left-out scans it is the prior.

    Examples
    --------
    >>> import numpy as np
    >>> codes, log_prior, worth = np.array([[0], [1]]), np.log([[0.5, 0.5]]), np.array([2])
    >>> right = np.array([[[0.1, -0.1]], [[-0.1, 0.1]]])
    >>> members = [right, -right]
    >>> made = posterior_of(members, [DISCRIMINANT] * 2, np.full(2, 0.5), codes, log_prior, worth)
    >>> [round(float(one.sum()), 3) for one in made]
    [0.923, 0.077]
    """
    log_joint = []
    for member, grid, share in zip(scores, grids, mass):
        joint = np.repeat(np.log(share) + grid.log_prior[:, None], len(log_prior), axis=1)
        if len(codes):
            joint += n_effective * _mean_log_probability(member, grid, codes, log_prior)
        log_joint.append(joint)
    total = logsumexp(np.concatenate(log_joint), axis=0)
    return [np.exp(joint - total) for joint in log_joint]


def _mean_log_probability(
    member: NDArray, grid: Grid, codes: NDArray, log_prior: NDArray
) -> NDArray[np.float64]:
    """Mean over scans of log softmax(b + w s)[y] for all weights, (Q, B)."""
    n_classes, weights = member.shape[2], np.exp(grid.log_weight)
    others = (codes[..., None] + np.arange(1, n_classes)) % n_classes
    gap = np.take_along_axis(member, others, 2) - np.take_along_axis(member, codes[..., None], 2)
    prior = np.broadcast_to(log_prior, member.shape)
    ahead = np.take_along_axis(prior, others, 2) - np.take_along_axis(prior, codes[..., None], 2)
    found = np.empty((len(weights), member.shape[1]))
    width = max(1, BLOCK // (len(weights) * gap[:, 0].size))
    for start in range(0, member.shape[1], width):
        part = slice(start, start + width)
        with np.errstate(over="ignore"):  # odds beyond all numbers: the weight gets no mass
            odds = np.exp(ahead[:, part] + weights[:, None, None, None] * gap[:, part]).sum(axis=3)
        found[:, part] = -np.log1p(odds).mean(axis=1)
    return found


def mixture(
    scores: Sequence[NDArray],
    grids: Sequence[Grid],
    posterior: Sequence[NDArray],
    log_prior: NDArray,
    n_effective: NDArray,
) -> NDArray[np.float64]:
    """Class probabilities (m, B, C) of scans with these scores by member."""
    doubt = doubt_of(n_effective)[:, None]
    told = np.zeros(scores[0].shape)
    for member, grid, weight in zip(scores, grids, posterior):
        width = max(1, BLOCK // (len(grid.log_weight) * log_prior.size))
        for start in range(0, len(member) if weight.any() else 0, width):
            part = slice(start, start + width)
            logits = np.exp(grid.log_weight)[:, None, None, None] * member[part] + log_prior
            told[part] += np.einsum("qb,qmbc->mbc", weight, softmax(logits, axis=3))
    return (1 - doubt) * told + doubt * np.exp(log_prior)


def doubt_of(n_effective: NDArray) -> NDArray[np.float64]:
    """ε, the part of every probability that is left to the class frequencies."""
    return DOUBT / (n_effective + 1)
