"""Maps that borrow strength from neighbours: threshold-free cluster enhancement, cluster extent.

On the graph of the voxels, e(v, h) the number of voxels in v's component above height h,

    TFCE(v) = ∫_0^{h_v} e(v, h)^E h^H dh,   E = 1/2, H = 2                                    (1)

is computed exactly, without steps of h. Voxels are visited by falling height and joined to the
components of their visited neighbours (union-find). A root keeps its size e, the power of the
height down to which it has been paid, c = h^(H+1), and what it has earned so far. When two
components meet at height h, each first earns

    e^E (c - h^(H+1)) / (H + 1)                                                               (2)

and the smaller one becomes a child of the larger one, with the difference of what they have earned:
what the joint root earns from then on reaches all its voxels. At the end every root earns
e^E c / (H + 1). Sorting costs V log V, the rest is nearly linear.

Both signs of a map are enhanced apart, and so are clusters: neighbours of unlike sign are never
joined, so one pass serves both. Volumes, meshes and point sets are alike to it: only the graph
counts.

| symbol | variable | shape |
|---|---|---|
| h = abs(values), with their sign | `values` | (V,) |
| voxels by falling h, without those of 0 | `order` | (U,) |
| place of a voxel in `order`, twice, plus 1 where positive | `rank` | (V,) |
| e, c, what a root has earned, of places in `order` | `size`, `paid`, `earned` | (U,) |
| the graph in compressed rows | `pointers`, `neighbors` | (V + 1,), (edges,) |

Reference: Smith & Nichols, "Threshold-free cluster enhancement", NeuroImage 44, 2009.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from voxprior.errors import InputError, option
from voxprior.space import VoxelSpace

__all__ = ["cluster_sizes", "components", "graph_of", "tfce"]

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
    graph = space.adjacency(CONNECTIVITY, radius=radius)
    return sparse.csr_array((graph.data, *_compressed(graph)), shape=graph.shape)


def _compressed(graph: Any) -> tuple[NDArray, NDArray]:
    """Neighbours and pointers in 32 bits, half the memory to walk through; as they are if so."""
    return np.asarray(graph.indices, dtype=np.int32), np.asarray(graph.indptr, dtype=np.int32)


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
    values = np.asarray(values, dtype=np.float64)
    neighbors, pointers = _compressed(graph)
    return _enhance(values, _falling(values), pointers, neighbors)


def _falling(values: NDArray) -> NDArray:
    """Voxels by falling |value|, without those of value 0.

    The bits of positive numbers are in their order. Their last ones give way to the voxel's number,
    so that whole numbers are sorted, much faster than by `argsort`; values that agree in all other
    bits count as equal.
    """
    number = np.arange(len(values), dtype=np.uint64)
    last = np.uint64((1 << len(values).bit_length()) - 1)
    keys = (~np.abs(values).view(np.uint64) & ~last) | number
    keys.sort()
    return (keys & last)[: np.count_nonzero(values)].astype(np.int32)


def cluster_sizes(values: NDArray, graph: Any, threshold: float) -> NDArray:
    """Size of the cluster that each voxel is in, of |values| > threshold; negative where they are.

    >>> from voxprior.space import VoxelSpace
    >>> row = VoxelSpace.grid((5,)).adjacency(6)
    >>> cluster_sizes(np.array([3.0, 2.0, -2.0, -1.0, 4.0]), row, 1.5)
    array([ 2.,  2., -1.,  0.,  1.])
    """
    values = np.asarray(values, dtype=np.float64)

    def sizes(heights: NDArray) -> NDArray:
        label = components(heights > threshold, graph)
        return (np.bincount(label + 1)[label + 1] * (label >= 0)).astype(float)

    return sizes(values) - sizes(-values)


def components(inside: NDArray, graph: Any) -> NDArray:
    """Number the connected components of the marked voxels, from 0; -1 elsewhere.

    >>> from voxprior.space import VoxelSpace
    >>> components(np.array([True, True, False, True]), VoxelSpace.grid((4,)).adjacency(6))
    array([ 0,  0, -1,  1])
    """
    neighbors, pointers = _compressed(graph)
    return _label(np.asarray(inside, dtype=bool), pointers, neighbors)


@njit(cache=True)
def _root(parent, offset, v):
    """Root of v; on the way everything becomes its child, with the offsets that it then has."""
    root = parent[v]
    if parent[root] == root:
        return root
    root, total = v, 0.0
    while parent[root] != root:
        total += offset[root]
        root = parent[root]
    while parent[v] != root:
        above, own = parent[v], offset[v]
        parent[v], offset[v] = root, total
        total -= own
        v = above
    return root


@njit(cache=True)
def _enhance(values, order, pointers, neighbors):
    U = len(order)
    rank = np.full(len(values), 2 * U, np.int32)
    for i, v in enumerate(order):
        rank[v] = 2 * i + (values[v] > 0)
    parent, size = np.arange(U).astype(np.int32), np.ones(U)
    paid, earned, offset = np.abs(values[order]) ** 3, np.zeros(U), np.zeros(U)
    for i, v in enumerate(order):
        power, own, mine = paid[i], rank[v], np.int32(i)
        for e in range(pointers[v], pointers[v + 1]):
            near = rank[neighbors[e]]
            if near > own or (near ^ own) & 1:  # not visited yet, or of the other sign
                continue
            other = _root(parent, offset, near >> 1)
            if other == mine:
                continue
            for root in (mine, other):
                if paid[root] > power:
                    earned[root] += np.sqrt(size[root]) * (paid[root] - power) / 3  # (2)
                    paid[root] = power
            if size[mine] < size[other]:
                mine, other = other, mine
            parent[other], offset[other] = mine, earned[other] - earned[mine]
            size[mine] += size[other]
    for i in range(U):
        if parent[i] == i:
            earned[i] += np.sqrt(size[i]) * paid[i] / 3
    found = np.zeros(len(values))
    for i, v in enumerate(order):
        root = _root(parent, offset, i)
        value = earned[root] + (offset[i] if root != i else 0.0)
        found[v] = value if values[v] > 0 else -value
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
