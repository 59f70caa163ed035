"""The pool of decision stumps and the search for the best of them, all thresholds of all voxels in
one pass.

A stump looks at one feature f and splits the samples at a threshold θ between two of its distinct
values:

    h(x) = σ  if x_f > θ,  -σ otherwise,   σ = ±1

Its score under signed weights u_i = y_i w_i, plus the compensation γ of its location, is

    Σ_i u_i h(x_i) + γ = σ (U - 2 P_s) + γ,   U = Σ_i u_i,   P_s = Σ of u over the s + 1 lowest
    samples

so that with every feature sorted once, the scores of all thresholds of a feature are one running
sum. Only its lowest and highest value matter to the best score of a feature: max(U - 2 min P, 2 max
P - U) + γ.

Orders are kept in the smallest integer type, eight features side by side (a tile): eight
independent running sums hide the latency of each other's additions. One bit per sample and feature
says whether a threshold may follow it, so equal values are never split. That is 1.125 bytes per
sample and feature up to 256 samples.

| symbol | variable | shape |
|---|---|---|
| samples by rising value | `order` | (n_tiles, n, 8) |
| x differs from the next higher | `distinct`, bits | (n_tiles, n) |
| a threshold of the pool follows | `candidates`, bits | (n_tiles, n) |
| u, signed weights | `u` | (n,) |
| U, their sum | `total` | scalar |
| P, running sums of a tile | `p` | 8 |
| γ, compensation of a location | `gamma` | (V,) |

Reference: Xiang, Xi, Hasson & Ramadge, Boosting with spatial regularization, NIPS 2009, Algorithm
1, line 6.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from voxprior.algebra import launch

__all__ = ["Presorted", "Stump", "best_stump", "presort", "responses", "subset", "threshold"]

LANES = 8
# Features sorted together: enough for the comparisons of one pair of samples to fill vector
# registers.
SORT_WIDTH = 64
# Ranks by counting cost n²/2 vectorised comparisons per feature; a sort is faster beyond this many
# samples.
COUNT_LIMIT = 600
# Tiles searched by one thread before it asks for more.
TILES_PER_CHUNK = 64
# Scores this close, relative to Σ|u|, are equal up to rounding, and a tie.
TIE = 1e-12


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


class Stump(NamedTuple):
    """A stump by its place in the pool: `position + 1` samples are on its lower side."""

    score: float
    feature: int
    position: int
    sign: int


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
    >>> from voxprior.models.boosting.stumps import best_stump, presort, threshold
    >>> X = np.array([[0.0, 3.0], [1.0, 3.0], [1.0, 5.0], [4.0, 5.0]])
    >>> pool = presort(X)
    >>> stump = best_stump(pool, u=np.array([-1.0, -1.0, 1.0, 1.0]), gamma=np.zeros(2))
    >>> stump.feature, stump.sign, stump.score, threshold(pool, stump.feature, stump.position)
    (1, 1, 4.0, 4.0)
    """
    n, n_features = X.shape
    n_tiles = -(-n_features // LANES)
    order = np.empty((n_tiles, n, LANES), dtype=np.min_scalar_type(n - 1))
    distinct = np.zeros((n_tiles, n), dtype=np.uint8)
    launch(_sort_tiles, n * X.size // 2, X, order, distinct, n <= COUNT_LIMIT)
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


def best_stump(pool: Presorted, u: NDArray, gamma: NDArray) -> Stump:
    """Find the stump of highest Σ u h + γ; ties go to the lowest feature, threshold, then σ = 1.

    Equality is judged up to rounding, so that the pick does not hang on the order of summation.

    Parameters
    ----------
    pool : Presorted
        The sorted features.
    u : ndarray of shape (n,)
        Signed weights y_i w_i of the pool's samples.
    gamma : ndarray of shape (V,)
        Compensation of each location; feature f is at location f modulo V.

    Returns
    -------
    Stump
        Its score is -inf where no feature has two distinct values.
    """
    n_features, total, slack = pool.X.shape[1], u.sum(), TIE * np.abs(u).sum()
    n_chunks = -(-len(pool.order) // TILES_PER_CHUNK)
    scores, features = np.empty(n_chunks), np.empty(n_chunks, dtype=np.int64)
    launch(
        _scan_chunks, 2 * pool.order.size, pool.order, pool.candidates, u, total, slack, gamma,
        n_features, scores, features,
    )  # fmt: skip
    best = _first_highest(scores, slack)
    score, feature = float(scores[best]), int(features[best])
    if feature < 0:
        return Stump(-np.inf, -1, -1, 1)
    tile, lane = divmod(feature, LANES)
    position, sign = _best_position(pool.order[tile], pool.candidates[tile], u, total, slack, lane)
    return Stump(score, feature, int(position), int(sign))


def threshold(pool: Presorted, feature: int, position: int) -> float:
    """Return the midpoint θ of a sample and the next higher one; low <= θ < high when rounded."""
    tile, lane = divmod(feature, LANES)
    pair = pool.rows[pool.order[tile, position : position + 2, lane]]
    low, high = (float(value) for value in pool.X[pair, feature])
    middle = 0.5 * low + 0.5 * high
    return middle if low <= middle < high else low


def responses(pool: Presorted, feature: int, position: int, sign: int) -> NDArray[np.float64]:
    """Return h(x_i) for the pool's samples, (n,)."""
    tile, lane = divmod(feature, LANES)
    h = np.full(pool.n_samples, float(sign))
    h[pool.order[tile, : position + 1, lane]] = -sign
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
        for position in range(n - 1):
            bits = 0
            for lane in range(LANES):
                differs = rising[position, shift + lane] != rising[position + 1, shift + lane]
                bits |= int(differs) << lane
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


# -------------------------------------------------------------------- searching


@njit(cache=True, parallel=True)
def _scan_chunks(order, candidates, u, total, slack, gamma, n_features, scores, features):
    for chunk in prange(len(scores)):
        first = chunk * TILES_PER_CHUNK
        last = min(first + TILES_PER_CHUNK, len(order))
        found = _scan_tiles(order, candidates, u, total, slack, gamma, n_features, first, last)
        scores[chunk], features[chunk] = found


@njit(cache=True)
def _first_highest(scores, slack):
    best = 0
    for chunk in range(1, len(scores)):
        if scores[chunk] > scores[best] + slack:
            best = chunk
    return best


@njit(cache=True)
def _scan_tiles(order, candidates, u, total, slack, gamma, n_features, first, last):
    """Return the highest score of some tiles and its feature, -1 if there is no threshold."""
    best, best_feature = -np.inf, -1
    for tile in range(first, last):
        low, high = _extremes(order[tile], candidates[tile], u)
        for lane in range(min(LANES, n_features - tile * LANES)):
            feature = tile * LANES + lane
            edge = max(total - 2.0 * low[lane], 2.0 * high[lane] - total)
            score = edge + gamma[feature % len(gamma)]
            if score > best + slack:
                best, best_feature = score, feature
    return best, best_feature


@njit(cache=True)
def _extremes(order, candidates, u):
    """Return the lowest and highest running sum of u at thresholds, of a tile's eight features."""
    zero, top = 0.0, np.inf
    p = (zero, zero, zero, zero, zero, zero, zero, zero)
    low = (top, top, top, top, top, top, top, top)
    high = (-top, -top, -top, -top, -top, -top, -top, -top)
    for position in range(len(order) - 1):
        p = _advance(p, u, order[position])
        bits = candidates[position]
        if bits == 255:
            low, high = _lower(low, p), _higher(high, p)
        elif bits != 0:
            low, high = _lower(low, _where(bits, p, top)), _higher(high, _where(bits, p, -top))
    return low, high


# Tuples, written out, stay in registers where a small array would go through memory.


@njit(cache=True)
def _advance(p, u, s):
    return (
        p[0] + u[s[0]],
        p[1] + u[s[1]],
        p[2] + u[s[2]],
        p[3] + u[s[3]],
        p[4] + u[s[4]],
        p[5] + u[s[5]],
        p[6] + u[s[6]],
        p[7] + u[s[7]],
    )


@njit(cache=True)
def _lower(a, p):
    return (
        p[0] if p[0] < a[0] else a[0],
        p[1] if p[1] < a[1] else a[1],
        p[2] if p[2] < a[2] else a[2],
        p[3] if p[3] < a[3] else a[3],
        p[4] if p[4] < a[4] else a[4],
        p[5] if p[5] < a[5] else a[5],
        p[6] if p[6] < a[6] else a[6],
        p[7] if p[7] < a[7] else a[7],
    )


@njit(cache=True)
def _higher(a, p):
    return (
        p[0] if p[0] > a[0] else a[0],
        p[1] if p[1] > a[1] else a[1],
        p[2] if p[2] > a[2] else a[2],
        p[3] if p[3] > a[3] else a[3],
        p[4] if p[4] > a[4] else a[4],
        p[5] if p[5] > a[5] else a[5],
        p[6] if p[6] > a[6] else a[6],
        p[7] if p[7] > a[7] else a[7],
    )


@njit(cache=True)
def _where(bits, p, other):
    return (
        p[0] if bits & 1 else other,
        p[1] if bits & 2 else other,
        p[2] if bits & 4 else other,
        p[3] if bits & 8 else other,
        p[4] if bits & 16 else other,
        p[5] if bits & 32 else other,
        p[6] if bits & 64 else other,
        p[7] if bits & 128 else other,
    )


@njit(cache=True)
def _best_position(order, candidates, u, total, slack, lane):
    best, best_position, best_sign, p = -np.inf, -1, 1, 0.0
    for position in range(len(order) - 1):
        p += u[order[position, lane]]
        if (candidates[position] >> lane) & 1:
            edge = total - 2.0 * p
            for sign in (1, -1):
                if sign * edge > best + slack:
                    best, best_position, best_sign = sign * edge, position, sign
    return best_position, best_sign
