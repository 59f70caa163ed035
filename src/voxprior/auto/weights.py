"""One posterior over members and the weight of their scores, from scans that were left out.

A member m gives scores s^m(x); a weight w on a grid makes them probabilities, p ∝ n_c exp(w s_c).

    log π(m, q) = const + log mass_m + log prior_m(q) + (n_eff/N) Σ_i log softmax(b + w_q s^m(x_i))[y_i]
    p(c | x) = (1 - ε) Σ_mq π(m, q) softmax(b + w_q s^m(x))[c] + ε n_c/n,      ε = .2 / (n_eff + 1)

The mixture over w keeps probabilities honest where few left-out scans tell the weight; no further
temperature is needed. The weight of a discriminant is the squared distance of the classes in units
of the noise: log w ~ N(log 12, 2²). Where two classes have no scan to leave out, nothing could
correct a weight that is too large, and log w ~ N(log 7, 1). The probabilities of another model
are scores too, whose weight is about 1: log w ~ N(0, .6²). "Nothing there" is a member whose scores
are 0.

| symbol | variable | shape |
|---|---|---|
| s^m of N left-out or new scans | `scores[m]` | (N, C) |
| b_c = log(n_c/n) | `log_prior` | (C,) |
| log w_q, and its prior, summing to 1 | `Grid.log_weight`, `Grid.log_prior` | (Q,) |
| mass_m, summing to 1 | `mass` | (M,) |
| π | `posterior[m]` | (Q,) |
| N left-out predictions, worth n_eff | `codes`, `n_effective` | (N,), scalar |
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp, softmax

__all__ = ["NOTHING", "PROBABILITIES", "Grid", "discriminant_grid", "mixture", "posterior_of"]

# Scans of doubt that any probability keeps, whatever was seen.
DOUBT = 0.2


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
    n_effective: float,
) -> list[NDArray[np.float64]]:
    """Posterior π by member, each (Q,), all together summing to 1.

    Without left-out scans it is the prior.

    Examples
    --------
    >>> import numpy as np
    >>> codes, log_prior = np.array([0, 1]), np.log([0.5, 0.5])
    >>> right = np.array([[0.1, -0.1], [-0.1, 0.1]])
    >>> members = [right, -right]
    >>> made = posterior_of(members, [DISCRIMINANT] * 2, np.full(2, 0.5), codes, log_prior, 2)
    >>> round(float(made[0].sum()), 3), round(float(made[1].sum()), 3)
    (0.923, 0.077)
    """
    log_joint = []
    for member, grid, share in zip(scores, grids, mass):
        joint = np.log(share) + grid.log_prior
        if len(codes):
            logits = log_prior + np.exp(grid.log_weight)[:, None, None] * member
            told = log_softmax(logits, axis=2)[:, np.arange(len(codes)), codes]
            joint = joint + n_effective * told.mean(axis=1)
        log_joint.append(joint)
    total = logsumexp(np.concatenate(log_joint))
    return [np.exp(joint - total) for joint in log_joint]


def mixture(
    scores: Sequence[NDArray],
    grids: Sequence[Grid],
    posterior: Sequence[NDArray],
    log_prior: NDArray,
    n_effective: float,
) -> NDArray[np.float64]:
    """Class probabilities (m, C) of scans with these scores by member."""
    prior, doubt = np.exp(log_prior), doubt_of(n_effective)
    told = np.zeros(scores[0].shape)
    for member, grid, weight in zip(scores, grids, posterior):
        for w, share in zip(np.exp(grid.log_weight), weight):
            if share > 0:
                told += share * softmax(log_prior + w * member, axis=1)
    return (1 - doubt) * told + doubt * prior


def doubt_of(n_effective: float) -> float:
    """ε, the part of every probability that is left to the class frequencies."""
    return DOUBT / (n_effective + 1)
