"""The search for the best stump, again and again while weights change little by little.

The score of stump h of feature f under signed weights u, and the edge of the feature, are

    Σ_i u_i h(x_i) + γ,   e_f(u) = max over the stumps of f of Σ_i u_i h(x_i)

With every feature sorted once, the edge comes from one running sum: with P_s the sum of u over the
s + 1 lowest samples and U that of all, e_f = max(U - 2 min P, 2 max P - U).

Few features need it. Each stump answers ±1 and comes with its opposite, so that e_f is a seminorm,
and for any c ≥ 0

    e_f(u') ≤ c e_f(u) + Σ_i |u'_i - c u_i|                                             (1)

So an edge that was once found bounds it ever after, tightly while weights have changed little but
for a common factor c. The weights of earlier searches are kept, and the best of some factors around
c = Σ|u'| / Σ|u| is taken for each. Only tiles with a feature whose bound reaches the best score
known so far are looked at. What comes out is the same as of a search through all, rounding
included, because what is looked at is computed in the same way. On noise of 20,000 voxels one tile
in fifty is.

| symbol | variable | shape |
|---|---|---|
| u, signed weights | `u` | (n,) |
| U, their sum | `total` | scalar |
| P, running sums of a tile | `p` | 8 |
| γ, compensation of a location | `gamma` | (V,) |
| weights of earlier searches | `weights` | (n, number of them) |
| c, the last sum of (1), and that of absolute u, of each | `bound` | (3, number of them) |
| e, when last found | `edges` | (n_tiles, 8) |
| number of the search that found them | `found_by` | (n_tiles,) |
| highest score of a tile then | `scores` | (n_tiles,) |

Reference: Xiang, Xi, Hasson & Ramadge, Boosting with spatial regularization, NIPS 2009, Algorithm
1, line 6.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from voxprior import algebra
from voxprior.models.boosting.stumps import LANES, Presorted

__all__ = ["Stump", "StumpSearch", "best_stump"]

# Tiles searched by one thread before it asks for more.
TILES_PER_CHUNK = 64
# Stands for zero in a ratio.
TINY = 1e-300
# Scores this close, relative to Σ|u|, are equal up to rounding, and a tie.
TIE = 1e-12
# Bounds are trusted up to this much of Σ|u|, far above their rounding errors.
ROUNDING = 1e-10
# Searches whose weights are kept; then all edges are found anew.
MOST_SEARCHES = 128
# Factors c to try, relative to Σ|u'| / Σ|u|: where a few weights grow most of them shrink by more.
FACTORS = (1.0, 0.92, 0.8, 0.65)


class Stump(NamedTuple):
    """A stump by its place in the pool: `position + 1` samples are on its lower side."""

    score: float
    feature: int
    position: int
    sign: int


class StumpSearch:
    """The best stump of a pool under weights and compensations that change from call to call.

    Parameters
    ----------
    pool : Presorted
        The sorted features.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.models.boosting.search import StumpSearch
    >>> from voxprior.models.boosting.stumps import presort
    >>> search = StumpSearch(presort(np.array([[0.0, 3.0], [1.0, 3.0], [2.0, 5.0], [3.0, 5.0]])))
    >>> search.best(np.array([-1.0, -1.0, 1.0, 1.0]), np.zeros(2))
    Stump(score=4.0, feature=0, position=1, sign=1)
    >>> search.best(np.array([-2.0, -1.0, 0.5, 1.0]), np.array([0.0, 0.5]))
    Stump(score=5.0, feature=1, position=1, sign=1)
    """

    def __init__(self, pool: Presorted):
        n_tiles = len(pool.order)
        self.pool = pool
        self.edges = np.empty((n_tiles, LANES))
        self.scores = np.empty(n_tiles)
        self.found_by = np.zeros(n_tiles, dtype=np.int64)
        self.weights = np.empty((pool.n_samples, MOST_SEARCHES))
        self.bound = np.empty((3, MOST_SEARCHES))
        self.n_searches, self.runner_up = 0, 0

    def best(self, u: NDArray[np.float64], gamma: NDArray[np.float64]) -> Stump:
        """Find the stump of highest Σ u h + γ.

        Ties go to the lowest feature, then the lowest threshold, then σ = 1. Equality is judged
        up to rounding, so that the pick does not depend on the order of summation.

        Parameters
        ----------
        u : ndarray of shape (n,)
            Signed weights y_i w_i of the pool's samples.
        gamma : ndarray of shape (V,)
            Compensation of each location; feature f is at location f modulo V.

        Returns
        -------
        Stump
            Its score is -inf where no feature has two distinct values.
        """
        pool, number = self.pool, self.n_searches % MOST_SEARCHES
        self.n_searches += 1
        data = (pool.order, pool.candidates, u, gamma, pool.X.shape[1])
        known = (self.edges, self.scores, self.found_by, self.bound, number)
        earlier = (self.weights, self.runner_up)
        work = len(gamma) if number else pool.order.size
        if algebra.stays_on_one_thread(work):
            *found, self.runner_up = _search(*data, *known, *earlier)
        else:
            floor = _begin(*data, *known, *earlier)
            highest = np.empty(-(-len(pool.order) // TILES_PER_CHUNK))
            _scan_chunks(*data, *known, floor, highest)
            *found, self.runner_up = _choose(*data, *known, highest.max())
        return Stump(*found)


def best_stump(pool: Presorted, u: NDArray, gamma: NDArray) -> Stump:
    """Find the best stump once: see `StumpSearch.best`."""
    return StumpSearch(pool).best(u, gamma)


@njit(cache=True)
def _search(
    order, candidates, u, gamma, n_features, edges, scores, found_by, bound, number, weights,
    runner_up,
):  # fmt: skip
    """Search on one thread."""
    data = (order, candidates, u, gamma, n_features)
    known = (edges, scores, found_by, bound, number)
    floor = _begin(*data, *known, weights, runner_up)
    highest = _scan(*data, *known, floor, 0, len(order))
    return _choose(*data, *known, highest)


@njit(cache=True)
def _begin(
    order, candidates, u, gamma, n_features, edges, scores, found_by, bound, number, weights,
    runner_up,
):  # fmt: skip
    """Bound the change since each earlier search, and return a score that the best one reaches."""
    _bound_changes(u, weights, bound, number)
    if number == 0:
        edges[:], found_by[:] = np.inf, 0
        return -np.inf
    return _look_at(order, candidates, u, u.sum(), gamma, n_features, runner_up, np.empty(LANES))


@njit(cache=True)
def _bound_changes(u, weights, bound, number):
    """Find for each earlier search the c of some that makes Σ|u - c earlier u| least, and that."""
    size = np.abs(u).sum()
    c, distance = np.empty(number), np.empty(number)
    bound[1, :number] = np.inf
    for factor in FACTORS:
        for earlier in range(number):
            c[earlier] = max(factor * size / max(bound[2, earlier], TINY), TINY)
            distance[earlier] = 0.0
        for i in range(len(u)):
            of_scan = weights[i, :number]
            for earlier in range(number):
                distance[earlier] += abs(u[i] - c[earlier] * of_scan[earlier])
        for earlier in range(number):
            if distance[earlier] < bound[1, earlier]:
                bound[0, earlier], bound[1, earlier] = c[earlier], distance[earlier]
    bound[0, number], bound[1, number], bound[2, number] = 1.0, 0.0, size
    weights[:, number] = u


@njit(cache=True)
def _scan(
    order, candidates, u, gamma, n_features, edges, scores, found_by, bound, number,
    floor, first, last,
):  # fmt: skip
    """Look at those of some tiles that may be best; return their highest score, or `floor`."""
    total, trust, highest = u.sum(), ROUNDING * np.abs(u).sum(), floor
    tile = _next(gamma, n_features, edges, found_by, bound, highest - trust, first, last)
    while tile < last:
        scores[tile] = _look_at(order, candidates, u, total, gamma, n_features, tile, edges[tile])
        found_by[tile] = number
        highest = max(highest, scores[tile])
        tile = _next(gamma, n_features, edges, found_by, bound, highest - trust, tile + 1, last)
    return highest


@njit(cache=True)
def _next(gamma, n_features, edges, found_by, bound, wanted, first, last):
    """Return the first of some tiles whose score may be as high as wanted, or `last`."""
    for tile in range(first, last):
        by, place = found_by[tile], _place(tile, n_features, len(gamma))
        # Few tiles reach past the last location; they are always looked at.
        if place + LANES > len(gamma):
            return tile
        reach = _reach(edges[tile], gamma[place : place + LANES], bound[0, by])
        if reach + bound[1, by] >= wanted:
            return tile
    return last


@njit(cache=True, parallel=True)
def _scan_chunks(
    order, candidates, u, gamma, n_features, edges, scores, found_by, bound, number,
    floor, highest,
):  # fmt: skip
    for chunk in prange(len(highest)):
        first = chunk * TILES_PER_CHUNK
        last = min(first + TILES_PER_CHUNK, len(order))
        highest[chunk] = _scan(
            order, candidates, u, gamma, n_features, edges, scores, found_by, bound, number,
            floor, first, last,
        )  # fmt: skip


@njit(cache=True)
def _place(tile, n_features, n_locations):
    """Location of a tile's first feature."""
    first = tile * LANES
    return first if n_features == n_locations else first % n_locations


@njit(cache=True)
def _reach(edge, g, c):
    """Return the highest c e + γ of a tile."""
    p = (
        c * edge[0] + g[0],
        c * edge[1] + g[1],
        c * edge[2] + g[2],
        c * edge[3] + g[3],
        c * edge[4] + g[4],
        c * edge[5] + g[5],
        c * edge[6] + g[6],
        c * edge[7] + g[7],
    )
    a = (_max(p[0], p[4]), _max(p[1], p[5]), _max(p[2], p[6]), _max(p[3], p[7]))
    return _max(_max(a[0], a[2]), _max(a[1], a[3]))


@njit(cache=True)
def _max(a, b):
    """The higher of two numbers, in one instruction: numba's own also looks for NaN."""
    return a if a > b else b


@njit(cache=True)
def _look_at(order, candidates, u, total, gamma, n_features, tile, edge):
    """Return the highest score of a tile, and leave its edges in `edge`."""
    low, high = _extremes(order[tile], candidates[tile], u)
    place, best = _place(tile, n_features, len(gamma)), -np.inf
    for lane in range(LANES):
        edge[lane] = _max(total - 2.0 * low[lane], 2.0 * high[lane] - total)
        if tile * LANES + lane < n_features:
            best = max(best, edge[lane] + gamma[(place + lane) % len(gamma)])
    return best


@njit(cache=True)
def _choose(
    order, candidates, u, gamma, n_features, edges, scores, found_by, bound, number, highest
):
    """Return the first stump of a score that ties with the highest, and the best tile but one.

    The stump by score, feature, position and σ. A step along it will lower its own score, so that
    the next search begins with the other tile.
    """
    total, slack = u.sum(), TIE * np.abs(u).sum()
    best, runner_up = -1, -1
    for tile in range(len(order)):
        if found_by[tile] == number:
            if best < 0 and scores[tile] >= highest - slack and highest > -np.inf:
                best = tile
            elif runner_up < 0 or scores[tile] > scores[runner_up]:
                runner_up = tile
    for lane in range(min(LANES, n_features - best * LANES) if best >= 0 else 0):
        feature = best * LANES + lane
        score = edges[best, lane] + gamma[feature % len(gamma)]
        if score >= highest - slack:
            wanted = edges[best, lane] - slack
            position, sign = _position(order[best], candidates[best], u, total, wanted, lane)
            return score, feature, position, sign, max(runner_up, 0)
    return -np.inf, -1, -1, 1, 0


@njit(cache=True)
def _position(order, candidates, u, total, wanted, lane):
    """Return the first threshold of a feature whose edge is as high as wanted, and its sign."""
    p = 0.0
    for position in range(len(order) - 1):
        p += u[order[position, lane]]
        if (candidates[position] >> lane) & 1:
            edge = total - 2.0 * p
            if edge >= wanted:
                return position, 1
            if -edge >= wanted:
                return position, -1
    return -1, 1


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
