"""The design of a map test: what is removed from scans and labels, and what remains to be tested.

Nuisance columns Z are the means of the strata inside which labels are exchanged (run means, or one
constant; none for sign flips), and variables that the user gives. Those that are constant inside
the strata keep a test by relabelling exact. Others, taken out of scans and labels, make it
approximate.

| symbol | variable | shape |
|---|---|---|
| U, exchanged units; q, rank of Z | | |
| Q, orthonormal basis of Z | `Q` | (U, q) |
| k = K - 1 columns of K classes, 1 of numbers and signs | `k` | |
| df = U - q - k | `df` | |

Reference: Winkler et al., "Permutation inference for the general linear model", NeuroImage, 2014.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from voxprior.errors import InputError, option
from voxprior.mapping.exchange import Exchange, unit_means
from voxprior.mapping.product import basis

__all__ = ["Design", "choose_design"]


class Design(NamedTuple):
    """What is removed from units and labels, and what remains to be tested."""

    Q: NDArray  # (U, q) basis of the nuisance
    k: int
    df: int
    length: float  # |a_0|, of the true labels without nuisance
    approximate: bool  # whether nuisance varies inside strata


def choose_design(exchange: Exchange, nuisance: Any = None) -> Design:
    """Find the nuisance of a design and its degrees of freedom.

    >>> from voxprior.mapping.exchange import choose_exchange
    >>> runs = choose_exchange(np.tile(["a", "b"], 5), np.repeat(range(5), 2), n=10)
    >>> choose_design(runs).df
    4
    """
    U, k = len(exchange.stratum), max(1, len(exchange.classes) - 1)
    own = np.zeros((U, 0))
    if exchange.scheme != "signs":
        own = (exchange.stratum[:, None] == np.unique(exchange.stratum)).astype(float)
    Q, approximate = basis(own), False
    if nuisance is not None:
        Z = _nuisance(nuisance, exchange)
        left = Z - Q @ (Q.T @ Z)
        approximate = bool((np.linalg.norm(left, axis=0) > 1e-8 * np.linalg.norm(Z, axis=0)).any())
        Q = basis(np.hstack([Q, left]))
    df = U - Q.shape[1] - k
    if df < 1:
        raise InputError(
            f"There are too few {exchange.units} to test a map",
            expected=f"more than {Q.shape[1] + k}, the number of means and effects to estimate",
            got=str(U),
        )
    first = exchange.targets[0].astype(float)
    length = float(np.linalg.norm(first - Q @ (Q.T @ first)))
    if length <= 1e-8 * np.linalg.norm(first):
        raise InputError("Nuisance variables explain the labels entirely, so nothing can be tested")
    return Design(Q, k, df, length, approximate)


def _nuisance(nuisance: Any, exchange: Exchange) -> NDArray:
    Z = np.asarray(nuisance, dtype=float)
    Z = Z[:, None] if Z.ndim == 1 else Z
    if Z.ndim != 2 or len(Z) != len(exchange.unit) or not np.isfinite(Z).all():
        raise InputError(
            f"{option('nuisance')} does not fit the scans",
            expected=f"finite numbers, one row for each of {len(exchange.unit)} scans",
            got=f"shape {Z.shape}",
        )
    Z = unit_means(Z, exchange.unit)
    # The mean of the maps is what is tested: variables are taken at their own mean.
    return Z - Z.mean(axis=0) if exchange.scheme == "signs" else Z
