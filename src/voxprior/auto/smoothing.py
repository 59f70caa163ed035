"""What smooths the smooth view: every voxel is averaged with its neighbours, wherever voxels are.

    S_ij ∝ exp(-h_ij² / 2) for h_ij <= 1.8, rows sum to 1

h is the distance in voxels: on a mesh in median edges, between points in median distances to the
nearest one.

| symbol | variable | shape |
|---|---|---|
| S | `smoother` | (V, V) sparse |
| h² | `squared` | per pair of neighbours |
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from voxprior.space import VoxelSpace

__all__ = ["Neighborhood", "neighbor_radius", "neighborhood", "smoother_of"]

# Reach of the smooth view in voxels: the 26 neighbours in a volume.
REACH = 1.8
# Most voxels that are read as they lie, over those of a block whose neighbours they are.
STRETCH = 4


# ---------------------------------------------------------------- the smoother


@lru_cache(maxsize=2)
def smoother_of(space: VoxelSpace | None) -> csr_array | None:
    """S of the smooth view, (V, V), kept for the next call; None where no voxel has a neighbour.

    Neighbours on a mesh are those along edges; elsewhere, all within reach.

    Examples
    --------
    >>> smoother_of(VoxelSpace.grid((3,))).toarray().round(3)
    array([[0.622, 0.378, 0.   ],
           [0.274, 0.452, 0.274],
           [0.   , 0.378, 0.622]])
    """
    unit = None if space is None else _voxel_size(space)
    if space is None or unit is None:
        return None
    graph = space.adjacency() if space.kind == "mesh" else space.adjacency(radius=REACH * unit)
    short = np.int32 if graph.nnz + space.n_voxels < 2**31 else np.int64  # half the size, if it can
    column, counts = graph.indices.astype(short, copy=False), np.diff(graph.indptr)
    places = space.coordinates / unit
    if space.kind == "volume":
        places = places.astype(np.int32)  # whole numbers
    squared = np.zeros(len(column), dtype=places.dtype)
    for along in places.T:
        squared += (np.repeat(along, counts) - along[column]) ** 2
    kernel = np.exp(squared / -2)
    if space.kind != "volume":
        kernel[squared > (REACH * (1 + 1e-9)) ** 2] = 0.0
    if not kernel.any():
        return None
    itself, first = np.arange(space.n_voxels, dtype=short), graph.indptr[:-1]
    rows = (np.insert(kernel, first, 1.0), np.insert(column, first, itself))
    ends = (graph.indptr + np.arange(len(graph.indptr))).astype(short)
    smoother = csr_array((*rows, ends), graph.shape)
    smoother.data /= np.repeat(np.add.reduceat(smoother.data, ends[:-1]), counts + 1)
    if space.kind != "volume":
        smoother.eliminate_zeros()
    return smoother


def neighbor_radius(space: VoxelSpace) -> float | None:
    """Reach of a voxel in the units of the coordinates; None where there is nothing to reach."""
    size = _voxel_size(space)
    return None if size is None else REACH * size


def _voxel_size(space: VoxelSpace) -> float | None:
    """What counts as one voxel: the median edge of a mesh, or distance to the nearest point."""
    if space.kind == "volume":
        return 1.0
    if space.kind == "mesh":
        edges = space.adjacency().tocoo()
        lengths = space.coordinates[edges.row] - space.coordinates[edges.col]
        lengths = np.linalg.norm(lengths, axis=1)
    elif space.n_voxels > 1:
        lengths = cKDTree(space.coordinates).query(space.coordinates, k=2)[0][:, 1]
    else:
        return None
    return (float(np.median(lengths)) or None) if len(lengths) else None


# ---------------------------------------------------------------- a block of voxels


class Neighborhood(NamedTuple):
    """Rows of S at a block of features, the features they reach, and where the block is in these.

    The columns of `rows` are the features that are reached, one time point for all.
    """

    rows: csr_array
    columns: slice | NDArray[np.intp]
    inside: slice | NDArray[np.intp]


def neighborhood(smoother: csr_array, block: slice) -> Neighborhood:
    """What is read to smooth a block of features of one time point."""
    n_voxels = smoother.shape[0]
    start = block.start // n_voxels * n_voxels  # of the time point
    own = slice(block.start - start, block.stop - start)
    ends = smoother.indptr[own.start : own.stop + 1]
    column, weight = (part[ends[0] : ends[-1]] for part in (smoother.indices, smoother.data))
    ends = ends - ends[0]
    first, end = int(column.min()), int(column.max()) + 1
    if end - first <= STRETCH * (own.stop - own.start):
        rows = csr_array((weight, column - first, ends), (len(ends) - 1, end - first))
        inside = slice(own.start - first, own.stop - first)
        return Neighborhood(rows, slice(start + first, start + end), inside)
    near, column = np.unique(column, return_inverse=True)  # they lie far apart in memory
    rows = csr_array((weight, column, ends), (len(ends) - 1, len(near)))
    return Neighborhood(rows, start + near, np.searchsorted(near, np.arange(own.start, own.stop)))
