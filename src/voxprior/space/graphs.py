"""Neighbour graphs: which voxels are one allowed step apart, as symmetric boolean CSR matrices.

On a grid the graph is given by its steps (integer vectors o): voxels i and j are neighbours where
v_j - v_i is a step. Steps come in pairs ±o, so the graph is symmetric; 0 is none, so the diagonal
is empty. Elsewhere it is given by its pairs.

| symbol | variable | shape |
|---|---|---|
| v_i, grid indices of voxel i | `places` | (V, 3) |
| o, a step | `steps` | (n_steps, 3) |
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

__all__ = ["STEP_AXES", "connectivity_steps", "grid_graph", "pair_graph", "radius_steps"]

# Largest number of axes a step to a neighbour moves along, by connectivity.
STEP_AXES = {6: 1, 18: 2, 26: 3}
# Elements of the neighbour table held at once: 32 MB of int32 and its mask.
TABLE_ELEMENTS = 8_000_000


def connectivity_steps(connectivity: int) -> NDArray[np.int64]:
    """Return the steps to the 6, 18 or 26 neighbours, in C order."""
    steps = np.indices((3, 3, 3)).reshape(3, -1).T - 1
    n_axes = np.count_nonzero(steps, axis=1)
    return steps[(n_axes > 0) & (n_axes <= STEP_AXES[connectivity])]


def radius_steps(radius: float, axes: NDArray, box: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the non-zero steps o with |axes o| <= radius that fit in the box, in C order."""
    # The ellipsoid o' M o = radius², M = axes' axes, reaches radius sqrt((M^-1)_aa) along axis a.
    reach = radius * np.sqrt(np.diag(np.linalg.inv(axes.T @ axes)))
    reach = np.minimum(np.floor(reach * (1 + 1e-9)), np.array(box) - 1).astype(int)
    steps = np.indices(tuple(2 * reach + 1)).reshape(3, -1).T - reach
    distance = np.linalg.norm(steps @ axes.T, axis=1)
    return steps[(distance > 0) & (distance <= radius * (1 + 1e-9))]


def grid_graph(box: tuple[int, ...], places: NDArray, steps: NDArray) -> csr_array:
    """Join the voxels at `places` that are one of `steps` apart."""
    n_voxels = len(places)
    if len(steps) == 0:
        return csr_array((n_voxels, n_voxels), dtype=bool)
    # A border as wide as the longest step keeps every look-up inside the table.
    border = np.abs(steps).max(axis=0)
    padded = tuple(np.array(box) + 2 * border)
    voxel_at = np.full(np.prod(padded), -1, dtype=np.int32)
    home = np.ravel_multi_index(tuple((places + border).T), padded)
    voxel_at[home] = np.arange(n_voxels, dtype=np.int32)
    jumps = steps @ np.array([padded[1] * padded[2], padded[2], 1])
    counts, columns = [], []
    block = max(1, TABLE_ELEMENTS // len(steps))
    for start in range(0, n_voxels, block):
        neighbors = voxel_at[home[start : start + block, None] + jumps]
        present = neighbors >= 0
        counts.append(present.sum(axis=1))
        columns.append(neighbors[present])
    pointers = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    indices = np.concatenate(columns)
    graph = csr_array((np.ones(len(indices), bool), indices, pointers), (n_voxels, n_voxels))
    graph.sort_indices()
    return graph


def pair_graph(pairs: NDArray, n_voxels: int) -> csr_array:
    """Join both ways the voxels named by pairs (n_pairs, 2), which may repeat."""
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    rows, columns = np.concatenate([pairs, pairs[:, ::-1]]).T
    graph = coo_array((np.ones(len(rows), bool), (rows, columns)), (n_voxels, n_voxels)).tocsr()
    graph.sum_duplicates()
    return graph
