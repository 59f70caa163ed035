"""Neighbourhoods of a searchlight: which voxels are decoded together, around every voxel.

In a volume and among points they are balls, the voxels at most `radius` away; on a mesh the
vertices within `radius` along its edges, or a number of rings of edges. The centre belongs to its
own neighbourhood.

| symbol | variable | shape |
|---|---|---|
| voxels of the neighbourhood of voxel c | `indices[indptr[c] : indptr[c + 1]]` | |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, eye_array
from scipy.sparse.csgraph import dijkstra

from voxprior.errors import InputError, option
from voxprior.space import VoxelSpace

__all__ = ["Neighborhoods", "neighborhoods"]

UNITS = ("mm", "voxel", "rings")
# Vertices whose distances to all others are held at once.
VERTICES = 1024


class Neighborhoods(NamedTuple):
    """Members of every neighbourhood, one after the other."""

    indices: np.ndarray
    indptr: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """Voxels of each."""
        return np.diff(self.indptr)

    def members(self, center: int) -> np.ndarray:
        """Voxels of one."""
        return self.indices[self.indptr[center] : self.indptr[center + 1]]


def neighborhoods(space: VoxelSpace, radius: float, units: str = "mm") -> Neighborhoods:
    """Find the voxels around every voxel.

    Parameters
    ----------
    space : VoxelSpace
        Where the voxels are.
    radius : float
        How far a neighbourhood reaches.
    units : {"mm", "voxel", "rings"}
        Millimetres, steps of the grid, or rings of edges (of a volume: of voxels that share a
        face). Points and meshes are measured in the unit of their coordinates, whatever that is.

    Examples
    --------
    >>> from voxprior.space import VoxelSpace
    >>> near = neighborhoods(VoxelSpace.grid((5,)), 1, units="voxel")
    >>> near.members(0).tolist(), near.members(2).tolist()
    ([0, 1], [1, 2, 3])
    """
    if units not in UNITS:
        raise InputError(f"{option('units', units)} is not known", expected=", ".join(UNITS))
    if not (np.isfinite(radius) and radius > 0):
        raise InputError(f"{option('radius', radius)} is not a radius", expected="above 0")
    if units == "rings":
        graph = _rings(space, radius)
    elif space.kind == "mesh":
        graph = _along_edges(space, radius)
    else:
        graph = space.adjacency(radius=radius, units="voxel" if units == "voxel" else "mm")
    if graph.nnz == 0 and space.n_voxels > 1:
        raise InputError(
            f"{option('radius', radius)} is below a voxel: no voxel has a neighbour",
            expected=_nearest(space, units),
        )
    whole = csr_array(graph.astype(bool) + eye_array(space.n_voxels, dtype=bool, format="csr"))
    whole.sort_indices()
    return Neighborhoods(whole.indices.astype(np.int64), whole.indptr.astype(np.int64))


def _nearest(space: VoxelSpace, units: str) -> str:
    if units == "rings":
        return "1 ring or more"
    if space.kind == "volume":
        step = 1.0 if units == "voxel" else float(space.voxel_sizes.min())
        return f"at least {step:g} {'voxel' if units == 'voxel' else 'mm'}, the size of a voxel"
    return "at least the distance between two points"


def _rings(space: VoxelSpace, radius: float) -> csr_array:
    if space.kind == "points":
        raise InputError(
            f"{option('units', 'rings')} needs a volume or a mesh: points have no edges"
        )
    step = space.adjacency(6).astype(np.int8)
    reached = step
    for _ in range(int(radius) - 1):
        reached = reached + reached @ step
        reached.data[:] = 1
    if int(radius) == 0:
        return csr_array(step.shape, dtype=bool)
    reached.setdiag(0)
    reached.eliminate_zeros()
    return csr_array(reached.astype(bool))


def _along_edges(space: VoxelSpace, radius: float) -> csr_array:
    """Vertices at most so far apart along edges of the mesh."""
    edges = space.adjacency().tocoo()
    # Older versions of SciPy walk along 32-bit numbers of vertices only.
    ends = (edges.row.astype(np.int32), edges.col.astype(np.int32))
    places = space.coordinates
    lengths = np.linalg.norm(places[ends[0]] - places[ends[1]], axis=1)
    mesh = csr_array((np.maximum(lengths, 1e-12), ends), shape=edges.shape)
    rows, columns = [], []
    for start in range(0, space.n_voxels, VERTICES):
        centers = np.arange(start, min(start + VERTICES, space.n_voxels))
        distance = dijkstra(mesh, indices=centers, limit=radius * (1 + 1e-9))
        distance[np.arange(len(centers)), centers] = np.inf
        near = np.nonzero(np.isfinite(distance))
        rows.append(near[0] + start)
        columns.append(near[1])
    row, column = np.concatenate(rows), np.concatenate(columns)
    return csr_array((np.ones(len(row), bool), (row, column)), shape=edges.shape)
