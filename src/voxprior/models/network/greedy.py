r"""Algorithm 1: the voxel that raises the score most becomes a parent of the class, and so on.

The printed algorithm (line numbers as in the paper; A are the voxels that still help)::

     5  while not done:
     6     A = { v ∈ V : score(C, pa ∪ {v}) − score(C, pa) > 0 }
     8     R_n = argmax over A                  (ties: lowest index)
    10     pa = pa ∪ {R_n}
    12     if n ≠ 1: E_{n−1} = voxels of V \ A equivalent to R_{n−1}
    14     V = V \ (E_{n−1} ∪ {R_n})

Equivalents of R_{n−1} stop helping once it is a parent, so V \ A is where they must be; the last
parent gets its set after the loop, from the voxels that remain. ``removal=None`` leaves all voxels
in the race (the equivalents can then be found afterwards from all voxels, in any order).

| symbol | variable | shape |
|---|---|---|
| pa(C), voxels in order of entry | `parents` | list |
| V, voxels still in the race | `candidates` | (V,) bool |
| A | `delta > 0` | (V,) bool |
| E_n, one index array per parent | `equivalents` | list of arrays |

Greedy search sees one voxel at a time: a class that is the exclusive-or of two voxels has no gain
at the first step and is not found.

Reference: Chen and Herskovits, KDD 2005, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from voxprior.models.network.score import TIE, best_voxel, class_cells, gains

# Given a parent, says which voxels (V,) are equivalent to it.
Equivalence = Callable[[int], np.ndarray]


class GreedyPath(NamedTuple):
    """Parents in order, score after each, gains before the first and after the last, clusters.

    `ties` counts the voxels that would have been as good as each parent when it was chosen.
    """

    parents: np.ndarray
    scores: np.ndarray
    first_gain: np.ndarray
    last_gain: np.ndarray
    ties: np.ndarray
    equivalents: list[np.ndarray] | None


def grow(
    words: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    alpha: float | str = 1.0,
    max_parents: int | None = None,
    removal: Equivalence | None = None,
    weights: np.ndarray | None = None,
) -> GreedyPath:
    """Greedy parents of the class among packed voxels.

    Parameters
    ----------
    words : ndarray of uint64 (V, W)
        Voxels, packed along the samples.
    y : ndarray of int (n,)
        Class codes.
    n_classes : int
        Number of classes.
    alpha : float or "bdeu"
        Dirichlet parameter.
    max_parents : int, optional
        Upper bound on the number of parents.
    removal : callable, optional
        Equivalence to remove on the way, as Algorithm 1 does.
    weights : ndarray of int (n,), optional
        How often each sample counts.

    Returns
    -------
    GreedyPath

    Examples
    --------
    >>> from voxprior.models.network.bits import pack
    >>> a, b = np.repeat([0, 1], 12), np.tile(np.repeat([0, 1], 6), 2)
    >>> y = a & b
    >>> grow(pack(np.column_stack([a, b])), y, 2).parents
    array([0, 1])
    """
    limit = len(y) if max_parents is None else max_parents
    cells = class_cells(words, y, n_classes, [], alpha, weights)
    first = delta = gains(words, cells)
    candidates = np.ones(len(words), dtype=bool)
    parents: list[int] = []
    clusters: list[np.ndarray] = []
    scores, ties = [cells.score], []
    while len(parents) < limit and (chosen := best_voxel(delta, candidates)) >= 0:  # lines 6, 8
        if parents and removal is not None:  # lines 11-14
            clusters.append(_claim(removal, parents[-1], candidates & (delta <= TIE)))
            candidates[clusters[-1]] = False
        ties.append(int(np.sum(candidates & (delta >= delta[chosen] - TIE))) - 1)
        candidates[chosen] = False
        parents.append(chosen)  # line 10
        cells = class_cells(words, y, n_classes, parents, alpha, weights)
        scores.append(cells.score)
        delta = gains(words, cells)
    if parents and removal is not None:
        clusters.append(_claim(removal, parents[-1], candidates))
    order = np.array(parents, dtype=np.intp)
    equivalents = clusters if removal is not None else None
    return GreedyPath(
        order, np.array(scores), first, delta, np.array(ties, dtype=np.intp), equivalents
    )


def _claim(removal: Equivalence, parent: int, among: np.ndarray) -> np.ndarray:
    return np.flatnonzero(removal(parent) & among)
