r"""Whether the network is an artefact: model and edge frequencies over resampled data, dominance.

* Frequencies over resampled data sets D_i (4), (5), of parent sets and of single edges::

      f(R) = (1/n) Σ_i [R = R_i],        f(E) = (1/n) Σ_i [E ∈ R_i]

  Parent sets are compared as sets; `groups` lets voxels of one cluster count as one and the same
  parent.
* Dominance: the most frequent model has f ≥ 1/2, or at least twice the frequency of the runner-up.
  While no model dominates, the dimensionality is lowered by one: greedy paths are nested, so their
  first d parents are the models.

The jackknife is exact, from shared passes over the voxels. Deleting sample i, which lies in cell
(j, k) and in state x of voxel v, changes one factor of the score::

    score_{−i}(v) = score(v) − log[ (α + N_jxk − 1) / (Kα + N_jx − 1) ]

so two numbers per cell and voxel (x = 0, 1) serve all folds, and folds that have chosen the same
parents so far share the pass over the voxels. At least the sample itself is in its part of the
cell, and at most all samples of other classes are in its part of the configuration, so that::

    score_{−i}(v) ≤ score(v) + slack_i,        slack_i = log[ (Kα + N_j − N_jk) / α ]

A few promising voxels, scored fold by fold, show what each fold can reach. No fold will choose a
voxel whose gain is below all of these by more than its slack; one pass leaves out those voxels
(`contenders`), and the few that remain are scored fold by fold.

| symbol | variable | shape |
|---|---|---|
| D_{−i}, samples left out, one per fold | `folds` | list |
| N_jxk, samples of cell (j, k) with the voxel on | `inside` | (J, K) |
| best score of each fold so far, and its voxel (−1: none) | `top`, `chosen` | (n,) |
| lowest `top` over the folds of a cell | `floor` | (J, K) |

The number of classes stays that of the full sample, also where a fold loses the only member of a
class.

Reference: Chen and Herskovits, KDD 2005, section 3.1.2 and (4), (5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from voxprior.models.network.bits import popcount
from voxprior.models.network.equivalence import equivalent
from voxprior.models.network.greedy import Equivalence, grow
from voxprior.models.network.score import (
    TIE,
    Cells,
    cell_alpha,
    class_cells,
    contenders,
    evenly_spaced,
    gains,
)

DOMINANT_FREQUENCY = 0.5
DOMINANT_RATIO = 2.0
# Stands for α + N − 1 where N = 0: a cell without samples loses none.
TINY = 1e-300
# How many of the best voxels tried first are scored by fold.
LEADERS = 32


class Frequencies(NamedTuple):
    """Models and edges by falling frequency, and whether the first model dominates.

    `models` are sorted tuples of voxels, `edges` voxels; `selected` is the place in `models` of the
    network learned from all samples (−1 where no resample found it).
    """

    models: list[tuple[int, ...]]
    model_frequency: np.ndarray
    edges: np.ndarray
    edge_frequency: np.ndarray
    dominant: bool
    selected: int


def frequencies(
    paths: Sequence[tuple[int, ...]],
    parents: Sequence[int],
    groups: dict[int, int] | None = None,
) -> Frequencies:
    """Frequencies (4) and (5) of the resampled ``paths`` at the dimensionality of ``parents``.

    Parameters
    ----------
    paths : sequence of tuples of int
        Parents of each resample in order of entry.
    parents : sequence of int
        Parents learned from all samples; paths are shortened to their number.
    groups : dict, optional
        Voxel to the parent that stands for its cluster.

    Returns
    -------
    Frequencies

    Examples
    --------
    >>> f = frequencies([(1,), (1,), (0,), (1, 2)], parents=[1])
    >>> f.models, f.model_frequency, f.dominant
    ([(1,), (0,)], array([0.75, 0.25]), True)
    """
    names = {} if groups is None else groups
    sets = [tuple(sorted({names.get(v, v) for v in path[: len(parents)]})) for path in paths]
    n = max(len(paths), 1)
    models = sorted(Counter(sets).items(), key=lambda item: (-item[1], item[0]))
    edges = sorted(
        Counter(v for s in sets for v in s).items(), key=lambda item: (-item[1], item[0])
    )
    f = np.array([count / n for _, count in models])
    found = [model for model, _ in models]
    own = tuple(sorted({names.get(v, v) for v in map(int, parents)}))
    return Frequencies(
        found,
        f,
        np.array([v for v, _ in edges], dtype=np.intp),
        np.array([count / n for _, count in edges]),
        is_dominant(f),
        found.index(own) if own in found else -1,
    )


def is_dominant(frequency: np.ndarray) -> bool:
    """Whether the first of falling model frequencies stands out."""
    runner_up = frequency[1] if len(frequency) > 1 else 0.0
    return bool(frequency[0] >= DOMINANT_FREQUENCY or frequency[0] >= DOMINANT_RATIO * runner_up)


def dominant_dimension(
    paths: Sequence[tuple[int, ...]], parents: Sequence[int], groups: dict[int, int] | None = None
) -> int:
    """Largest number of parents at which the learned model dominates; 0 if at none."""
    for d in range(len(parents), 0, -1):
        f = frequencies(paths, parents[:d], groups)
        if f.dominant and f.selected == 0:
            return d
    return 0


def leave_one_out_paths(
    words: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    alpha: float | str = 1.0,
    max_parents: int | None = None,
) -> list[tuple[int, ...]]:
    """Parents, in order of entry, that greedy search finds without sample i, for every i.

    Examples
    --------
    >>> from voxprior.models.network.bits import pack
    >>> a, b = np.repeat([0, 1], 12), np.tile(np.repeat([0, 1], 6), 2)
    >>> set(leave_one_out_paths(pack(np.column_stack([a, b])), a, 2))
    {(0,)}
    """
    limit = len(y) if max_parents is None else max_parents
    paths: list[tuple[int, ...]] = [() for _ in y]
    level: dict[tuple[int, ...], list[int]] = {(): list(range(len(y)))}
    promising = evenly_spaced(len(words))
    for _ in range(limit):
        groups = sorted(level.items(), key=lambda group: -len(group[1]))
        level = {}
        # Folds with nearly the same parents may choose what most folds choose.
        for some in (groups[:1], groups[1:]):
            chosen = next_parents(words, y, n_classes, some, alpha, promising)
            new = {v for picks in chosen for v in picks.tolist() if v >= 0}
            promising = np.append(promising, sorted(new)).astype(np.intp)
            for (_, folds), picks in zip(some, chosen):
                for i, v in zip(folds, picks.tolist()):
                    if v >= 0:
                        paths[i] = (*paths[i], v)
                        # Folds with the same parents go on together, in whatever order they came.
                        level.setdefault(tuple(sorted(paths[i])), []).append(i)
    return paths


def refit_without(
    words: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    alpha: float | str,
    max_parents: int | None,
    sample: int,
    removal: Equivalence,
) -> tuple[int, ...]:
    """Parents without one sample by a search of its own, equivalents taken out of the race."""
    weights = np.ones(len(y), dtype=np.int64)
    weights[sample] = 0
    path = grow(words, y, n_classes, alpha, max_parents, removal, weights)
    return tuple(path.parents.tolist())


def loses_a_parent(
    words: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    alpha: float | str,
    path: tuple[int, ...],
    sample: int,
    limit: int,
) -> bool:
    """Whether Algorithm 1 would have taken a voxel of ``path`` out of the race earlier.

    Voxel R_s goes out at an earlier step t if it is equivalent to R_{t−1} and does not help then.
    Where none of the chosen goes out, taking others out changes nothing.
    """
    weights = np.ones(len(y), dtype=np.int64)
    weights[sample] = 0
    for s in range(2, len(path)):
        for t in range(1, s):
            pair = words[[path[t - 1], path[s]]]
            if equivalent(pair, 0, limit, weights)[1]:
                cells = class_cells(words, y, n_classes, list(path[:t]), alpha, weights)
                if gains(pair[1:], cells)[0] <= TIE:
                    return True
    return False


def next_parents(
    words: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    groups: list[tuple[tuple[int, ...], list[int]]],
    alpha: float | str,
    promising: np.ndarray,
) -> list[np.ndarray]:
    """The voxel that each fold of each group (parents, folds) adds, −1 where none helps.

    ``promising`` voxels are tried first; the better they are, the fewer others are scored by fold.
    """
    cell_sets = [class_cells(words, y, n_classes, list(parents), alpha) for parents, _ in groups]
    samples = [np.array(folds) for _, folds in groups]
    first = words[promising]
    tops, bars = [], []
    for cells, folds in zip(cell_sets, samples):
        top = np.full(len(y), np.inf)
        top[folds] = _scores_without(cells, y, folds, alpha) + TIE
        leaders = np.argsort(gains(first, cells))[-LEADERS:]
        reached, _ = _race(words, y, cells, folds, promising[leaders], top)
        tops.append(top)
        bars.append(np.min(reached[folds] - _slack(cells, y, folds)) - cells.score - 2 * TIE)
    races = zip(cell_sets, samples, contenders(words, cell_sets, bars), tops)
    return [_race(words, y, cells, folds, near, top)[1][folds] for cells, folds, near, top in races]


def _slack(cells: Cells, y: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """How far a voxel can rise when a sample is left out."""
    N = cells.counts[cells.configuration[folds]]
    others = N.sum(axis=1) - N[np.arange(len(folds)), y[folds]]
    return np.log((N.shape[1] * cells.alpha + others) / cells.alpha)


def _race(words, y, cells: Cells, folds, voxels, top) -> tuple[np.ndarray, np.ndarray]:
    """Best score and voxel of every fold among ``voxels``, where it beats ``top``."""
    J, K = cells.counts.shape
    selected = words[voxels]
    cell = cells.configuration[folds] * K + y[folds]
    order = np.argsort(cell, kind="stable")
    begin = np.searchsorted(cell[order], np.arange(J * K + 1))
    c = np.arange(len(y) + 1)
    log_cell = np.log(np.maximum(cells.alpha + c - 1, TINY))
    log_row = np.log(np.maximum(K * cells.alpha + c - 1, TINY))
    score = cells.score + gains(selected, cells)
    top, chosen = top.copy(), np.full(len(y), -1, dtype=np.int64)
    _offer_all(
        selected,
        score,
        cells.masks[:, :, 0],
        cells.counts,
        log_cell,
        log_row,
        folds[order],
        begin,
        top,
        chosen,
    )
    return top, np.append(voxels, -1)[chosen]


def _scores_without(
    cells: Cells, y: np.ndarray, folds: np.ndarray, alpha: float | str
) -> np.ndarray:
    """score_{−i} of the present parents."""
    K = cells.counts.shape[1]
    a = cell_alpha(alpha, K, cells.n_parents)
    j, k = cells.configuration[folds], y[folds]
    inside, row = cells.counts[j, k], cells.counts.sum(axis=1)[j]
    return cells.score - np.log((a + inside - 1) / (K * a + row - 1))


def bootstrap_paths(
    words: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    alpha: float | str,
    max_parents: int | None,
    n_bootstrap: int,
    rng: np.random.Generator,
) -> list[tuple[int, ...]]:
    """Parents found in samples drawn with replacement; repeated samples are counted, not copied."""
    paths = []
    for _ in range(n_bootstrap):
        weights = np.bincount(rng.integers(0, len(y), len(y)), minlength=len(y))
        path = grow(words, y, n_classes, alpha, max_parents, weights=weights)
        paths.append(tuple(path.parents.tolist()))
    return paths


@njit(cache=True)
def _offer_all(words, score, masks, sizes, log_cell, log_row, samples, begin, top, chosen):
    J, K = sizes.shape
    floor = np.full((J, K), -np.inf)
    inside = np.zeros((J, K), np.int64)
    for v in range(len(words)):
        n_split = 0
        for j in range(J):
            for k in range(K):
                inside[j, k] = 0
                for w in range(words.shape[1]):
                    inside[j, k] += popcount(words[v, w] & masks[j, k, w])  # type: ignore[call-arg]
            n_split += 0 < inside[j].sum() < sizes[j].sum()
        for j in range(J):
            row, size = inside[j].sum(), sizes[j].sum()
            # Without its only 1 (or 0) a configuration is split no more; splitting none is out.
            alone = n_split == 1 and 0 < row < size
            on_counts = n_split > 0 and not (alone and row == 1)
            off_counts = n_split > 0 and not (alone and size - row == 1)
            for k in range(K):
                on, off = -np.inf, -np.inf
                if on_counts and inside[j, k] > 0:
                    on = score[v] - log_cell[inside[j, k]] + log_row[row]
                if off_counts and sizes[j, k] > inside[j, k]:
                    off = score[v] - log_cell[sizes[j, k] - inside[j, k]] + log_row[size - row]
                if max(on, off) > floor[j, k]:
                    cell = j * K + k
                    members = samples[begin[cell] : begin[cell + 1]]
                    floor[j, k] = _offer(v, words[v], on, off, members, top, chosen)


@njit(cache=True)
def _offer(v, word, on, off, members, top, chosen):
    """Give voxel v to the folds that it serves better; return the lowest score of all."""
    lowest = np.inf
    for i in members:
        state = (word[i >> 6] >> np.uint64(i & 63)) & np.uint64(1)
        value = on if state else off
        if value > top[i] + TIE:
            top[i] = value
            chosen[i] = v
        lowest = min(lowest, top[i])
    return lowest
