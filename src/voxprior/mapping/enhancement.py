"""Maps that borrow strength from neighbours: threshold-free cluster enhancement, cluster extent.

On the graph of the voxels, e(v, h) the number of voxels in v's component above height h,

    TFCE(v) = ∫_0^{h_v} e(v, h)^E h^H dh,   E = 1/2, H = 2                                    (1)

is computed exactly, without steps of h. Voxels are visited by falling height and joined to the
components of their visited neighbours (union-find). A root keeps its size e, the power of the
height down to which it has been paid, c = h^(H+1), and what it has earned so far. When two
components meet at height h, each first earns

    e^E (c - h^(H+1)) / (H + 1)                                                               (2)

and the smaller one hangs below the larger one with the difference of what they have earned, so that
what the joint root earns from then on reaches all its voxels. At the end every root earns
e^E c / (H + 1). Sorting costs V log V, the rest is nearly linear.

Both signs of a map are enhanced apart, and so are clusters. Volumes, meshes and point sets are
alike to it: only the graph counts.

| symbol | variable | shape |
|---|---|---|
| h, heights | `heights` | (V,) |
| the graph in compressed rows | `pointers`, `neighbors` | (V + 1,), (edges,) |

Reference: Smith & Nichols, "Threshold-free cluster enhancement", NeuroImage 44, 2009.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from voxprior.errors import InputError, option
from voxprior.space import VoxelSpace

__all__ = ["cluster_sizes", "components", "graph_of", "tfce"]

E, H = 0.5, 2.0
# Neighbours of a voxel of a volume share a face, as in FSL and nilearn.
CONNECTIVITY: Literal[6] = 6


def graph_of(space: VoxelSpace | None, radius: float | None = None) -> Any:
    """Neighbours of every voxel: faces of a grid, edges of a mesh, points within a radius."""
    if space is None:
        raise InputError("Clusters need to know where voxels are", remedy=f"Give {option('space')}")
    if radius is None and space.kind == "points":
        raise InputError(
            "Places have no neighbours of themselves",
            remedy=f"Give {option('radius')}, the distance up to which two are neighbours",
        )
    return space.adjacency(CONNECTIVITY, radius=radius)


def tfce(values: NDArray, graph: Any) -> NDArray:
    """Enhance a map, (1); negative values apart, and negative again.

    Parameters
    ----------
    values : array of shape (V,)
        For instance t.
    graph : sparse array of shape (V, V)
        Neighbours, symmetric, as `VoxelSpace.adjacency` gives them.

    Examples
    --------
    Five voxels in a row:

    >>> from voxprior.space import VoxelSpace
    >>> row = VoxelSpace.grid((5,)).adjacency(6)
    >>> tfce(np.array([1.0, 2.0, 1.0, 0.0, -3.0]), row).round(8)
    array([ 0.57735027,  2.9106836 ,  0.57735027,  0.        , -9.        ])
    """

    def enhanced(heights: NDArray, pointers: NDArray, neighbors: NDArray) -> NDArray:
        above = np.flatnonzero(heights)
        order = above[np.argsort(-heights[above])]  # NumPy sorts several times faster than numba
        return _enhance(heights, order, pointers, neighbors)

    return _both_signs(enhanced, values, graph)


def cluster_sizes(values: NDArray, graph: Any, threshold: float) -> NDArray:
    """Size of the cluster that each voxel is in, of |values| > threshold; negative where they are.

    >>> from voxprior.space import VoxelSpace
    >>> row = VoxelSpace.grid((5,)).adjacency(6)
    >>> cluster_sizes(np.array([3.0, 2.0, -2.0, -1.0, 4.0]), row, 1.5)
    array([ 2.,  2., -1.,  0.,  1.])
    """

    def sizes(heights: NDArray, pointers: NDArray, neighbors: NDArray) -> NDArray:
        label = _label(heights > threshold, pointers, neighbors)
        return (np.bincount(label + 1)[label + 1] * (label >= 0)).astype(float)

    return _both_signs(sizes, values, graph)


def components(inside: NDArray, graph: Any) -> NDArray:
    """Number the connected components of the marked voxels, from 0; -1 elsewhere.

    >>> from voxprior.space import VoxelSpace
    >>> components(np.array([True, True, False, True]), VoxelSpace.grid((4,)).adjacency(6))
    array([ 0,  0, -1,  1])
    """
    return _label(np.asarray(inside, dtype=bool), graph.indptr, graph.indices)


def _both_signs(enhance: Callable[..., NDArray], values: NDArray, graph: Any) -> NDArray:
    values = np.asarray(values, dtype=np.float64)
    found = enhance(np.maximum(values, 0.0), graph.indptr, graph.indices)
    if (values < 0).any():
        found = found - enhance(np.maximum(-values, 0.0), graph.indptr, graph.indices)
    return found


@njit(cache=True)
def _root(parent, offset, v):
    """Root of v; on the way everything is hung below it, with the offsets that it then has."""
    root, total = v, 0.0
    while parent[root] != root:
        total += offset[root]
        root = parent[root]
    while parent[v] != root and v != root:
        above, own = parent[v], offset[v]
        parent[v], offset[v] = root, total
        total -= own
        v = above
    return root


@njit(cache=True)
def _enhance(heights, order, pointers, neighbors):
    V = heights.shape[0]
    parent = np.full(V, -1)
    size = np.ones(V)
    paid, earned, offset = np.zeros(V), np.zeros(V), np.zeros(V)
    for v in order:
        power = heights[v] ** (H + 1)
        parent[v], paid[v] = v, power
        mine = v
        for e in range(pointers[v], pointers[v + 1]):
            if parent[neighbors[e]] < 0:
                continue
            other = _root(parent, offset, neighbors[e])
            if other == mine:
                continue
            for root in (mine, other):
                earned[root] += size[root] ** E * (paid[root] - power) / (H + 1)  # (2)
                paid[root] = power
            if size[mine] < size[other]:
                mine, other = other, mine
            parent[other], offset[other] = mine, earned[other] - earned[mine]
            size[mine] += size[other]
    found = np.zeros(V)
    for v in order:
        if parent[v] == v:
            earned[v] += size[v] ** E * paid[v] / (H + 1)
    for v in order:
        root = _root(parent, offset, v)
        found[v] = earned[root] + (offset[v] if root != v else 0.0)
    return found


@njit(cache=True)
def _label(inside, pointers, neighbors):
    V = inside.shape[0]
    label = np.full(V, -1)
    stack = np.empty(V, np.int64)
    found = 0
    for start in range(V):
        if not inside[start] or label[start] >= 0:
            continue
        stack[0], depth = start, 1
        label[start] = found
        while depth > 0:
            depth -= 1
            v = stack[depth]
            for e in range(pointers[v], pointers[v + 1]):
                u = neighbors[e]
                if inside[u] and label[u] < 0:
                    label[u] = found
                    stack[depth] = u
                    depth += 1
        found += 1
    return label
