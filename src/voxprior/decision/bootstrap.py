"""Bands by the group bootstrap: whole runs or subjects are drawn with replacement.

A statistic is computed on each of B draws; its α/2 and 1 - α/2 quantiles over the draws, point by
point, are the band. Scans of one group depend on each other, so drawing scans would give bands that
are too narrow.

References
----------
Davison & Hinkley, "Bootstrap methods and their application", 1997, section 3.8.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Band(NamedTuple):
    """Lower and upper limit of a statistic, of the statistic's shape."""

    low: np.ndarray
    high: np.ndarray


def group_bootstrap(
    statistic: Callable[[np.ndarray], np.ndarray],
    groups,
    *,
    n_draws: int = 1000,
    level: float = 0.95,
    random_state: int | None = 0,
) -> Band:
    """Percentile band of ``statistic(indices)`` over draws of whole groups.

    Parameters
    ----------
    statistic : callable
        From indices of scans (with repetition) to an array; NaN where it is not defined.
    groups : array of shape (n,)
        Group of each scan.
    n_draws, level, random_state
        Number of draws, coverage aimed at, seed.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.decision import group_bootstrap
    >>> right = np.array([1, 1, 0, 1, 1, 1, 0, 0])
    >>> band = group_bootstrap(lambda i: right[i].mean(), np.repeat([0, 1, 2, 3], 2))
    >>> float(band.low), float(band.high)
    (0.25, 1.0)
    """
    names, unit = np.unique(np.asarray(groups), return_inverse=True)
    if len(names) < 2:
        raise ValueError("A group bootstrap needs at least two groups. Got one.")
    members = [np.flatnonzero(unit == u) for u in range(len(names))]
    rng = np.random.default_rng(random_state)
    draws = [
        statistic(np.concatenate([members[u] for u in rng.integers(len(names), size=len(names))]))
        for _ in range(n_draws)
    ]
    tail = (1 - level) / 2
    with warnings.catch_warnings():  # a point that no draw defines stays NaN
        warnings.simplefilter("ignore", RuntimeWarning)
        low, high = np.nanquantile(np.asarray(draws, dtype=float), [tail, 1 - tail], axis=0)
    return Band(low, high)
