r"""Score the class given its parents (Cooper-Herskovits), every candidate voxel in one pass.

Model. The class C has K states; its parents take J occupied configurations (of q = 2^p possible
ones); cell (j, k) holds N_jk samples. With equal Dirichlet parameters α in every cell (1)::

    log p(D | G) = Σ_j [ log Γ(Kα) − log Γ(Kα + N_j) + Σ_k log Γ(α + N_jk) − log Γ(α) ]

An empty configuration adds exactly 0, so only occupied ones are visited. A candidate voxel v splits
every configuration in two; with g(c) = log Γ(α+c) − log Γ(α) and h(t) = log Γ(Kα+t) − log Γ(Kα)::

    score(v) = Σ_j { Σ_k F_jk[ |v ∧ m_jk| ] + H_j[ |v ∧ m_j| ] }
    F_jk[c]  = g(c) + g(N_jk − c),        H_j[t] = −h(t) − h(N_j − t)

so one voxel costs J·K population counts and J·(K+1) look-ups in tables of n + JK numbers. Where
the tables stay small, those of a configuration are fused into F_j[|v ∧ m_j1|, ..., |v ∧ m_jK|], one
look-up instead of K+1. The axes of a table are padded to powers of two, so that a place in it is
a sum of shifted counts.

======== ============ ======================================================================
symbol   variable     shape and meaning
======== ============ ======================================================================
V        `words`      (V, W) uint64, packed voxels, 64 samples to a word
C        `y`          (n,) codes 0 .. K−1
m_jk     `masks`      (J, K, B, W) uint64, samples of cell (j, k); B bit planes of sample weights
N_jk     `counts`     (J, K) weighted number of samples in each cell
α        `alpha`      1 (K2), "bdeu" = 1/(K q), or any positive number
F, H     `tables`     flat; look-up l of row j is at `start[j, l]` + Σ_k count_k << `shift[j, l, k]`
         `shift`      (J, L, K), −1 where class k has no part in look-up l
======== ============ ======================================================================

A voxel that splits no configuration (constant, or a copy of a parent) says nothing about the class.
With α = 1 its gain is 0; with α = 1/(Kq) it would be rewarded for halving α, so its gain is set to
0 under every prior.

Reference: Chen and Herskovits, KDD 2005, section 2.1; Cooper and Herskovits, Machine Learning 9
(1992).
"""

from typing import NamedTuple

import numpy as np
from numba import njit, prange
from scipy.special import gammaln

from voxprior.bits import pack, popcount, unpack

# Gains closer than this are equal in exact arithmetic; the lowest voxel index wins.
TIE = 1e-9
# Fused tables must stay in the second cache.
FUSED = 1 << 16
# Voxels whose counts are taken together, so that their loops become vector instructions.
STRIP = 512
# Waking threads costs more than scoring fewer voxels than this.
PARALLEL = 1 << 15


class Family(NamedTuple):
    """The class given its parents: who is in which cell, and the tables that score a candidate."""

    masks: np.ndarray
    counts: np.ndarray
    configuration: np.ndarray
    score: float
    tables: np.ndarray
    start: np.ndarray
    shift: np.ndarray
    alpha: float
    n_parents: int


def cell_alpha(alpha: float | str, n_states: int, n_parents: int) -> float:
    """Dirichlet parameter of one cell of a variable with ``n_states`` states and binary parents."""
    if alpha == "bdeu":
        return 1.0 / (n_states * 2.0**n_parents)
    return float(alpha)


def log_score(counts: np.ndarray, alpha: float) -> float:
    """Equation (1) for one variable: log score of counts (configurations, states).

    Examples
    --------
    >>> table1 = [[10, 20], [15, 9], [1, 70], [51, 12]]  # the paper's Table 1
    >>> print(f"{log_score(table1, 1.0):.6f}")
    -79.265439
    """
    N = np.atleast_2d(np.asarray(counts, dtype=float))
    rows = gammaln(N.shape[1] * alpha) - gammaln(N.shape[1] * alpha + N.sum(axis=1))
    return float(np.sum(rows) + np.sum(gammaln(alpha + N) - gammaln(alpha)))


def family(
    words: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    parents: np.ndarray | list[int],
    alpha: float | str = 1.0,
    weights: np.ndarray | None = None,
) -> Family:
    """Cells of the class given ``parents`` and the tables for one parent more.

    Parameters
    ----------
    words : ndarray of uint64 (V, W)
        Voxels, packed along the samples.
    y : ndarray of int (n,)
        Class codes.
    n_classes : int
        Number of states of the class, also where some do not occur in ``y``.
    parents : sequence of int
        Voxels that are parents already.
    alpha : float or "bdeu"
        Dirichlet parameter.
    weights : ndarray of int (n,), optional
        How often each sample counts (0 leaves it out); once each by default.

    Returns
    -------
    Family
    """
    n, p = len(y), len(parents)
    weights = np.ones(n, dtype=np.int64) if weights is None else np.asarray(weights, np.int64)
    states = unpack(words[np.asarray(parents, dtype=np.intp)], n)
    used = weights > 0
    _, codes = np.unique(states[used], axis=0, return_inverse=True)
    configuration = np.full(n, -1)
    configuration[used] = codes.ravel()
    J = int(configuration.max(initial=-1)) + 1
    counts = np.zeros((J, n_classes), dtype=np.int64)
    np.add.at(counts, (configuration[used], y[used]), weights[used])
    masks = _cell_masks(configuration, y, J, n_classes, weights)
    a = cell_alpha(alpha, n_classes, p + 1)
    tables, start, shift = _split_tables(counts, a)
    score = log_score(counts, cell_alpha(alpha, n_classes, p))
    return Family(masks, counts, configuration, score, tables, start, shift, a, p)


def _cell_masks(
    configuration: np.ndarray,
    y: np.ndarray,
    n_configurations: int,
    n_classes: int,
    weights: np.ndarray,
) -> np.ndarray:
    """Sample masks (J, K, B, W) of every cell, one for each bit of the sample weights."""
    n_planes = max(int(weights.max(initial=1)).bit_length(), 1)
    cell = configuration * n_classes + y
    member = cell[:, None] == np.arange(n_configurations * n_classes)
    planes = (weights[:, None] >> np.arange(n_planes)) & 1 == 1
    columns = (member[:, :, None] & planes[:, None, :]).reshape(len(y), -1)
    return pack(columns).reshape(n_configurations, n_classes, n_planes, -1)


def _split_tables(counts: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tables F_jk and H_j of the formulas end to end, where each begins, and its shifts."""
    K = counts.shape[1]
    top = int(counts.sum(axis=1).max(initial=0)) + 1
    g = gammaln(alpha + np.arange(top)) - gammaln(alpha)
    h = gammaln(K * alpha + np.arange(top)) - gammaln(K * alpha)
    fused = sum(2.0 ** sum(int(c).bit_length() for c in N) for N in counts) <= FUSED
    parts: list[np.ndarray] = []
    shifts: list[np.ndarray] = []
    for N in counts:
        F = [g[: c + 1] + g[c::-1] for c in N]
        H = -(h[: N.sum() + 1] + h[N.sum() :: -1])
        if fused:
            shifts.append(_axis_shifts(N)[None])
            parts.append(_fused_table(F, H, N, shifts[-1][0]))
        else:
            shifts.append(np.vstack([np.eye(K, dtype=np.int64) - 1, np.zeros(K, dtype=np.int64)]))
            parts += [*F, H]
    start = np.cumsum([0, *map(len, parts)])[:-1].reshape(len(counts), -1)
    return np.concatenate(parts), start, np.array(shifts)


def _axis_shifts(N: np.ndarray) -> np.ndarray:
    """Place of each class count's bits when all are written side by side, the last class lowest."""
    widths = [int(c).bit_length() for c in N]
    return np.array([sum(widths[k + 1 :]) for k in range(len(N))])


def _fused_table(
    F: list[np.ndarray], H: np.ndarray, N: np.ndarray, shift: np.ndarray
) -> np.ndarray:
    grid = np.indices(tuple(N + 1)).reshape(len(N), -1)
    table = np.zeros(int(np.sum(N << shift)) + 1)
    place = np.sum(grid << shift[:, None], axis=0)
    table[place] = sum(F[k][grid[k]] for k in range(len(N))) + H[grid.sum(axis=0)]
    return table


def gains(words: np.ndarray, cells: Family, out: np.ndarray | None = None) -> np.ndarray:
    """δ(v) of every voxel: log score with v as one parent more, minus the score without.

    ``out`` (V,) takes the result; filling new memory costs as much as scoring.

    Examples
    --------
    >>> from voxprior.bits import pack
    >>> y = np.array([1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1])
    >>> words = pack(np.column_stack([1 - y, np.ones_like(y)]))
    >>> gains(words, family(words, y, 2, [])).round(6)
    array([5.501841, 0.      ])
    """
    delta = np.empty(len(words)) if out is None else out
    # A voxel splits configuration j unless its last look-up falls on the first or the last entry.
    last = np.sum(cells.counts << np.maximum(cells.shift[:, -1], 0), axis=1).astype(np.uint64)
    tables = (cells.tables, cells.start, cells.shift, last)
    run = _gain_pass if len(words) < PARALLEL else _gain_pass_parallel
    run(words, cells.masks, *tables, cells.score, delta)
    return delta


@njit(cache=True)
def _gain_pass(words, masks, tables, start, shift, last, score, delta):
    for first in range(0, len(words), STRIP):
        _gain_strip(words, first, masks, tables, start, shift, last, score, delta)


@njit(cache=True, parallel=True)
def _gain_pass_parallel(words, masks, tables, start, shift, last, score, delta):
    for strip in prange((len(words) + STRIP - 1) // STRIP):
        _gain_strip(words, strip * STRIP, masks, tables, start, shift, last, score, delta)


@njit(cache=True)
def _gain_strip(words, first, masks, tables, start, shift, last, score, delta):
    J, K, B, W = masks.shape
    size = min(len(words) - first, STRIP)
    block = np.zeros((W, STRIP), np.uint64)
    for w in range(W):
        for i in range(size):
            block[w, i] = words[first + i, w]
    total = np.zeros(STRIP)
    splits = np.zeros(STRIP, np.uint8)
    place = np.empty(STRIP, np.uint64)
    for j in range(J):
        for look_up in range(start.shape[1]):
            place[:] = np.uint64(0)
            for k in range(K):
                for b in range(B):
                    if shift[j, look_up, k] >= 0:
                        _add_counts(block, masks[j, k, b], shift[j, look_up, k] + b, place)
            table = tables[start[j, look_up] :]
            for i in range(STRIP):
                total[i] += table[place[i]]
        for i in range(STRIP):
            splits[i] |= np.uint8((place[i] > 0) & (place[i] < last[j]))
    for i in range(size):
        delta[first + i] = total[i] - score if splits[i] else 0.0


@njit(cache=True)
def _add_counts(block, mask, shift, place):
    """Add to each voxel's place its number of samples in the mask, shifted; two words at a time."""
    by = np.uint64(shift)
    W = len(mask)
    for w in range(0, W - 1, 2):
        low, high = mask[w], mask[w + 1]
        for i in range(STRIP):
            one = np.uint64(popcount(block[w, i] & low))  # type: ignore[call-arg]
            two = np.uint64(popcount(block[w + 1, i] & high))  # type: ignore[call-arg]
            place[i] += (one + two) << by
    if W % 2:
        low = mask[W - 1]
        for i in range(STRIP):
            place[i] += np.uint64(popcount(block[W - 1, i] & low)) << by  # type: ignore[call-arg]


def best(delta: np.ndarray, allowed: np.ndarray | None = None) -> int:
    """Lowest voxel index among the largest gains, or −1 where no gain is positive."""
    score = delta if allowed is None else np.where(allowed, delta, 0.0)
    if not len(score) or not (top := score.max()) > TIE:
        return -1
    return int(np.argmax(score >= top - TIE))
