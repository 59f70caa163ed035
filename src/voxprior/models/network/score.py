r"""Score the class given its parents (Cooper-Herskovits), every candidate voxel in one pass.

Model. The class C has K states; its parents take J occupied configurations (of q = 2^p possible
ones); cell (j, k) holds N_jk samples. With equal Dirichlet parameters α in every cell (1)::

    log p(D | G) = Σ_j [ log Γ(Kα) − log Γ(Kα + N_j) + Σ_k log Γ(α + N_jk) − log Γ(α) ]

An empty configuration adds exactly 0, so only occupied ones are visited. A candidate voxel v splits
every configuration in two and so changes the score by::

    δ(v) = base + Σ_j G_j(|v ∧ m_j1|, .., |v ∧ m_jK|)

with tables G_j of the cells' counts; one voxel costs a population count per cell and a few look-ups
(`scan`). `base` is 0 where α does not depend on the number of parents.

| symbol | variable | shape |
|---|---|---|
| V, packed voxels, 64 samples per word | `words` | (V, W) uint64 |
| C, class codes 0 .. K−1 | `y` | (n,) |
| m_jk, samples of cell (j, k); B bit planes of sample weights | `masks` | (J, K, B, W) uint64 |
| N_jk, weighted number of samples in each cell | `counts` | (J, K) |
| α, 1 (K2), "bdeu" = 1/(K q), or any positive number | `alpha` | scalar |
| G, what to count, and where to read off the change | `tables` | `LookUps` |
| the same, bounding the change from above | `bounds` | `LookUps` |

Reference: Chen and Herskovits, KDD 2005, section 2.1; Cooper and Herskovits, Machine Learning 9
(1992).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from voxprior.algebra import launch
from voxprior.models.network.bits import pack, unpack
from voxprior.models.network.scan import (
    NO_TABLES,
    VOXEL_WORK,
    LookUps,
    Program,
    best_each_pass,
    gain_pass,
    look_ups,
    program,
    screen_pass,
)

# Gains closer than this are equal in exact arithmetic; the lowest voxel index wins.
TIE = 1e-9
# Sets of parents screened in one pass over the voxels; a byte per voxel each.
TOGETHER = 8
# Voxels tried before the others.
SAMPLE = 2048


class Cells(NamedTuple):
    """The class given its parents: who is in which cell, and the tables that score a candidate."""

    masks: np.ndarray
    counts: np.ndarray
    configuration: np.ndarray
    score: float
    base: float
    tables: LookUps
    bounds: LookUps
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


def class_cells(
    words: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    parents: np.ndarray | list[int],
    alpha: float | str = 1.0,
    weights: np.ndarray | None = None,
) -> Cells:
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
    Cells
    """
    n, p = len(y), len(parents)
    weights = np.ones(n, dtype=np.int64) if weights is None else np.asarray(weights, np.int64)
    states = unpack(words[np.asarray(parents, dtype=np.intp)], n)
    configuration = _configurations(states, weights > 0)
    used = configuration >= 0
    J = int(configuration.max(initial=-1)) + 1
    cell = configuration * n_classes + y
    counts = np.bincount(cell[used], weights[used], J * n_classes).astype(np.int64)
    counts = counts.reshape(J, n_classes)
    masks = _cell_masks(cell, J, n_classes, weights)
    a = cell_alpha(alpha, n_classes, p + 1)
    score = log_score(counts, cell_alpha(alpha, n_classes, p))
    base = log_score(counts, a) - score
    tables = look_ups(counts, a, masks.shape[2])
    return Cells(masks, counts, configuration, score, base, *tables, a, p)


def _configurations(states: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Number (n,) of each sample's configuration, in lexical order of ``states``; −1: not used."""
    code = np.where(used, 0, -1)
    for state in states.T:
        code[used] = np.unique(2 * code[used] + state[used], return_inverse=True)[1]
    return code


def _cell_masks(
    cell: np.ndarray, n_configurations: int, n_classes: int, weights: np.ndarray
) -> np.ndarray:
    """Sample masks (J, K, B, W) of every cell, one for each bit of the sample weights."""
    n_planes = max(int(weights.max(initial=1)).bit_length(), 1)
    member = cell[:, None] == np.arange(n_configurations * n_classes)
    planes = (weights[:, None] >> np.arange(n_planes)) & 1 == 1
    columns = (member[:, :, None] & planes[:, None, :]).reshape(len(cell), -1)
    return pack(columns).reshape(n_configurations, n_classes, n_planes, -1)


def gains(words: np.ndarray, cells: Cells, out: np.ndarray | None = None) -> np.ndarray:
    """δ(v) of every voxel: log score with v as one parent more, minus the score without.

    ``out`` (V,) takes the result; filling new memory costs as much as scoring.

    Examples
    --------
    >>> from voxprior.models.network.bits import pack
    >>> y = np.array([1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1])
    >>> words = pack(np.column_stack([1 - y, np.ones_like(y)]))
    >>> gains(words, class_cells(words, y, 2, [])).round(6)
    array([5.501841, 0.      ])
    """
    delta = np.empty(len(words)) if out is None else out
    exact = program([cells.tables], [cells.masks])
    launch(gain_pass, VOXEL_WORK * len(words), words, exact, cells.base, delta)
    return delta


def contenders(
    words: np.ndarray, cell_sets: Sequence[Cells], bars: Sequence[float]
) -> list[np.ndarray]:
    """Voxels, in order, whose gain exceeds a bar; perhaps also some at most `TIE` below it.

    One bar per set of parents; several are taken together so that voxels are fetched once for many.
    Far cheaper than `gains` where bars are high: most voxels are given up after few counts. Voxels
    that split no configuration are never among them.

    Examples
    --------
    >>> from voxprior.models.network.bits import pack
    >>> y = np.array([1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1])
    >>> words = pack(np.column_stack([1 - y, np.ones_like(y), y]))
    >>> contenders(words, [class_cells(words, y, 2, [])], [5.0])
    [array([0, 2])]
    """
    found: list[np.ndarray] = []
    flags = np.empty((min(len(cell_sets), TOGETHER), len(words)), dtype=bool)
    for first in range(0, len(cell_sets), TOGETHER):
        some = cell_sets[first : first + TOGETHER]
        least = _least(some, bars[first : first + TOGETHER])
        near = flags[: len(some)]
        launch(screen_pass, VOXEL_WORK * len(words), words, *_programs(some, least), least, near)
        found += [np.flatnonzero(row) for row in near]
    return found


def _least(cell_sets: Sequence[Cells], bars: ArrayLike) -> np.ndarray:
    """Sum of look-ups above which a voxel reaches the bar of each set of parents."""
    return np.asarray(bars) - [f.base + TIE for f in cell_sets]


def _programs(cell_sets: Sequence[Cells], least: np.ndarray) -> tuple[Program, Program]:
    """Bounds and exact look-ups; bounds that the ordinary candidate passes do not pay."""
    masks = [f.masks for f in cell_sets]
    bounds = [f.bounds if f.bounds.typical < bar else NO_TABLES for f, bar in zip(cell_sets, least)]
    return program(bounds, masks), program([f.tables for f in cell_sets], masks)


def evenly_spaced(n_voxels: int) -> np.ndarray:
    """About `SAMPLE` voxels from all over: what they reach is a first bar for the others."""
    return np.arange(0, n_voxels, max(n_voxels // SAMPLE, 1))


def top_gains(words: np.ndarray, cell_sets: Sequence[Cells]) -> np.ndarray:
    """Largest gain of any voxel for each set of parents, 0 where none is positive.

    Examples
    --------
    >>> from voxprior.models.network.bits import pack
    >>> y = np.array([1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1])
    >>> words = pack(np.column_stack([1 - y, np.ones_like(y), y]))
    >>> top_gains(words, [class_cells(words, y, 2, [])]).round(6)
    array([5.501841])
    """
    first = words[evenly_spaced(len(words))]
    bars = [gains(first, cells).max(initial=0.0) for cells in cell_sets]
    found = zip(contenders(words, cell_sets, bars), cell_sets, bars)
    return np.array([gains(words[near], f).max(initial=bar) for near, f, bar in found])


def top_gains_each(blocks: Iterable[np.ndarray], cell_sets: Sequence[Cells]) -> np.ndarray:
    """The same, where each set of parents has voxels of its own, in blocks (sets, any number, W).

    Examples
    --------
    >>> from voxprior.models.network.bits import pack
    >>> y = np.array([1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1])
    >>> words = pack(np.column_stack([1 - y, np.ones_like(y), y]))
    >>> top_gains_each([words[None]], [class_cells(words, y, 2, [])]).round(6)
    array([5.501841])
    """
    tops, search = np.zeros(len(cell_sets)), None
    for words in blocks:
        if search is None:
            some = words[:, evenly_spaced(words.shape[1])]
            tops = np.array([gains(w, f).max(initial=0.0) for w, f in zip(some, cell_sets)])
            search = _Search(cell_sets, tops)
        search.raise_tops(words, tops)
    return tops


def n_reaching(
    blocks: Iterable[np.ndarray], cell_sets: Sequence[Cells], bar: float, most: int
) -> int:
    """How many sets of parents, each with voxels of its own, have one whose gain reaches ``bar``.

    Voxels are read until more than ``most`` do.

    Examples
    --------
    >>> from voxprior.models.network.bits import pack
    >>> y = np.array([1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1])
    >>> words = pack(np.column_stack([1 - y, np.ones_like(y), y]))
    >>> cells = class_cells(words, y, 2, [])
    >>> [n_reaching([words[None]], [cells], bar, 0) for bar in (5.5, 5.6)]
    [1, 0]
    """
    # What is not above the number before the bar does not reach it; no gain at all is a gain of 0.
    tops = np.full(len(cell_sets), max(np.nextafter(bar, -np.inf), 0.0))
    search = _Search(cell_sets, tops)
    for words in blocks:
        search.raise_tops(words, tops)
        if np.sum(tops >= bar) > most:
            break
    return int(np.sum(tops >= bar))


class _Search:
    """Largest gains of sets of parents that have voxels of their own, from ``tops`` (F,) on."""

    def __init__(self, cell_sets: Sequence[Cells], tops: np.ndarray):
        self.programs = _programs(cell_sets, _least(cell_sets, tops))
        self.base = np.array([f.base for f in cell_sets])

    def raise_tops(self, words: np.ndarray, tops: np.ndarray) -> None:
        """Write gains above ``tops`` that a block (F, v, W) of voxels has."""
        work = VOXEL_WORK * words.shape[0] * words.shape[1]
        launch(best_each_pass, work, words, *self.programs, self.base, TIE, tops)


def best_voxel(delta: np.ndarray, allowed: np.ndarray | None = None) -> int:
    """Lowest voxel index among the largest gains, or −1 where no gain is positive."""
    score = delta if allowed is None else np.where(allowed, delta, 0.0)
    if not len(score) or not (top := score.max()) > TIE:
        return -1
    return int(np.argmax(score >= top - TIE))
