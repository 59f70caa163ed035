"""The pool of decision stumps: every feature sorted once, and where its thresholds may be.

A stump looks at one feature f and splits the samples at a threshold θ between two of its distinct
values:

    h(x) = σ  if x_f > θ,  -σ otherwise,   σ = ±1

Orders are kept in the smallest integer type, eight features side by side (a tile): `search` adds up
weights along them, and eight independent running sums hide the latency of each other's additions.
One bit per sample and feature says whether a threshold may follow it, so values that are equal, up
to the rounding of double precision, are never split. That is 1.125 bytes per sample and feature up
to 256 samples.

| symbol | variable | shape |
|---|---|---|
| samples by rising value | `order` | (n_tiles, n, 8) |
| x differs from the next higher | `distinct`, bits | (n_tiles, n) |
| a threshold of the pool follows | `candidates`, bits | (n_tiles, n) |

Reference: Xiang, Xi, Hasson & Ramadge, Boosting with spatial regularization, NIPS 2009, section 2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from voxprior.algebra import launch

__all__ = ["Presorted", "presort", "responses", "subset", "threshold"]

LANES = 8
# Features sorted together: enough for the comparisons of one pair of samples to fill vector
# registers.
SORT_WIDTH = 64
# Differences relative to the largest value of a feature that are no more than rounding.
ROUNDING = 1e-12
# Ranks by counting cost n²/2 vectorised comparisons per feature; a sort is faster beyond this many
# samples.
COUNT_LIMIT = 600


class Presorted(NamedTuple):
    """Every feature of a sample in rising order, and where thresholds may be.

    `X` is the caller's array, not a copy; `rows` are the rows of it that take part.
    """

    order: NDArray[np.unsignedinteger]
    distinct: NDArray[np.uint8]
    candidates: NDArray[np.uint8]
    X: NDArray
    rows: NDArray[np.int64]
    n_thresholds: int | None

    @property
    def n_samples(self) -> int:
        """Number of samples sorted."""
        return self.order.shape[1]


def presort(X: NDArray, n_thresholds: int | None = None) -> Presorted:
    """Sort every feature once.

    Parameters
    ----------
    X : ndarray of shape (n, n_features)
        Finite values, float32 or float64, of any memory layout.
    n_thresholds : int, optional
        Thresholds per feature, at this many quantiles; by default between all distinct neighbours.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.models.boosting.stumps import presort, responses, threshold
    >>> pool = presort(np.array([[0.0, 3.0], [1.0, 3.0], [1.0, 5.0], [4.0, 5.0]]))
    >>> threshold(pool, np.array([0, 0, 1]), np.array([0, 2, 1]))
    array([0.5, 2.5, 4. ])
    >>> responses(pool, feature=1, position=1, sign=1)
    array([-1., -1.,  1.,  1.])
    """
    n, n_features = X.shape
    n_tiles = -(-n_features // LANES)
    order = np.empty((n_tiles, n, LANES), dtype=np.min_scalar_type(n - 1))
    distinct = np.zeros((n_tiles, n), dtype=np.uint8)
    # Read-only, as arrays are in workers: one compiled form serves both.
    read = X.view()
    read.flags.writeable = False
    launch(_sort_tiles, n * X.size // 2, read, order, distinct, n <= COUNT_LIMIT)
    candidates = _chosen(distinct, n_thresholds)
    return Presorted(order, distinct, candidates, X, np.arange(n), n_thresholds)


def subset(pool: Presorted, rows: NDArray[np.int64]) -> Presorted:
    """Return the pool of some of its samples by filtering its orders; nothing is sorted.

    `rows` are rising positions among the samples of `pool`.
    """
    keep = np.full(pool.n_samples, -1)
    keep[rows] = np.arange(len(rows))
    n_tiles = len(pool.order)
    order = np.empty((n_tiles, len(rows), LANES), dtype=np.min_scalar_type(len(rows) - 1))
    distinct = np.zeros((n_tiles, len(rows)), dtype=np.uint8)
    launch(_filter_tiles, pool.order.size, pool.order, pool.distinct, keep, order, distinct)
    candidates = _chosen(distinct, pool.n_thresholds)
    return Presorted(order, distinct, candidates, pool.X, pool.rows[rows], pool.n_thresholds)


def threshold(pool: Presorted, feature: NDArray, position: NDArray) -> NDArray[np.float64]:
    """Return the midpoint θ of a sample and the next higher one; low <= θ < high when rounded.

    Of many stumps at once, each given by its feature and position.
    """
    tile, lane = np.divmod(feature, LANES)
    low, high = (
        pool.X[pool.rows[pool.order[tile, at, lane]], feature].astype(np.float64)
        for at in (position, position + 1)
    )
    middle = 0.5 * low + 0.5 * high
    return np.where((low <= middle) & (middle < high), middle, low)


def responses(pool: Presorted, feature: int, position: int, sign: int) -> NDArray[np.float64]:
    """Return h(x_i) for the pool's samples, (n,)."""
    tile, lane = divmod(feature, LANES)
    return _split(pool.order[tile], lane, position, float(sign))


@njit(cache=True)
def _split(order, lane, position, sign):
    h = np.full(len(order), sign)
    for below in range(position + 1):
        h[order[below, lane]] = -sign
    return h


# -------------------------------------------------------------------- sorting


@njit(cache=True, parallel=True)
def _sort_tiles(X, order, distinct, by_counting):
    n, n_features = X.shape
    for block in prange((n_features + SORT_WIDTH - 1) // SORT_WIDTH):
        first = block * SORT_WIDTH
        # Lanes past the last feature stay constant, hence without a threshold.
        values = np.zeros((n, SORT_WIDTH), X.dtype)
        for i in range(n):
            for k in range(min(SORT_WIDTH, n_features - first)):
                values[i, k] = X[i, first + k]
        rank = _ranks_by_counting(values) if by_counting else _ranks_by_sorting(values)
        _store_block(values, rank, first // LANES, order, distinct)


@njit(cache=True)
def _ranks_by_counting(values):
    """Rank samples by comparing all pairs: stable, without branches, vectorised over features."""
    n, width = values.shape
    rank = np.zeros((n, width), np.int32)
    for i in range(n):
        for j in range(i):
            for k in range(width):
                below = np.int32(values[i, k] < values[j, k])
                rank[j, k] += below
                rank[i, k] += 1 - below
    return rank


@njit(cache=True)
def _ranks_by_sorting(values):
    n, width = values.shape
    rank = np.empty((n, width), np.int32)
    for k in range(width):
        sorted_samples = np.argsort(values[:, k].copy(), kind="mergesort")
        for position in range(n):
            rank[sorted_samples[position], k] = position
    return rank


@njit(cache=True)
def _store_block(values, rank, first_tile, order, distinct):
    n, width = values.shape
    rising = np.empty((n, width), values.dtype)
    for tile in range(first_tile, min(first_tile + width // LANES, len(order))):
        shift = (tile - first_tile) * LANES
        for i in range(n):
            for lane in range(LANES):
                position = rank[i, shift + lane]
                order[tile, position, lane] = i
                rising[position, shift + lane] = values[i, shift + lane]
        rounding = np.empty(LANES)
        for lane in range(LANES):
            ends = abs(rising[0, shift + lane]), abs(rising[n - 1, shift + lane])
            rounding[lane] = ROUNDING * max(ends[0], ends[1])
        for position in range(n - 1):
            bits = 0
            for lane in range(LANES):
                gap = rising[position + 1, shift + lane] - rising[position, shift + lane]
                bits |= int(gap > rounding[lane]) << lane
            distinct[tile, position] = bits


@njit(cache=True, parallel=True)
def _filter_tiles(order, distinct, keep, new_order, new_distinct):
    n_tiles, n, _ = order.shape
    for tile in prange(n_tiles):
        for lane in range(LANES):
            filled, apart = 0, False
            for position in range(n):
                sample = keep[order[tile, position, lane]]
                if sample >= 0:
                    # A boundary anywhere between two kept neighbours separates them.
                    if filled > 0 and apart:
                        new_distinct[tile, filled - 1] |= 1 << lane
                    new_order[tile, filled, lane] = sample
                    filled, apart = filled + 1, False
                apart = apart or (distinct[tile, position] >> lane) & 1


def _chosen(distinct: NDArray[np.uint8], n_thresholds: int | None) -> NDArray[np.uint8]:
    return distinct if n_thresholds is None else _at_quantiles(distinct, n_thresholds)


@njit(cache=True)
def _at_quantiles(distinct, n_thresholds):
    """Keep the first boundary at or above each quantile j / (n_thresholds + 1) of a feature."""
    n_tiles, n = distinct.shape
    candidates = np.zeros_like(distinct)
    for tile in range(n_tiles):
        wanted = 0
        for position in range(n - 1):
            parts = n_thresholds + 1
            if (position + 1) * parts // n > position * parts // n:
                wanted = 255
            candidates[tile, position] = distinct[tile, position] & wanted
            wanted &= ~distinct[tile, position] & 255
    return candidates
