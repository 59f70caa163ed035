"""Which voxels inform which: the sparse group matrix behind every way of sharing.

Row v of the matrix holds the members of G_v. A voxel without members keeps its own estimates.
"""

from typing import Any, Literal

import numpy as np
from scipy import sparse

from voxprior.space import VoxelSpace


def voxel_groups(
    source: Any,
    space: VoxelSpace | None,
    n_features: int,
    connectivity: Literal[6, 18, 26] = 26,
    radius: float | None = None,
) -> sparse.csr_array:
    """The groups of a space's neighbours or of a user's matrix, checked against the features.

    Parameters
    ----------
    source : str or sparse matrix of shape (V, V)
        A matrix is taken as it is; any word means the neighbours of ``space``.
    space : VoxelSpace or None
        Without one every feature is a voxel of its own and nobody has neighbours.
    n_features : int
        J, a multiple of V.
    connectivity, radius
        Which voxels are neighbours, as in ``VoxelSpace.adjacency``.

    Examples
    --------
    >>> from voxprior import VoxelSpace
    >>> voxel_groups("neighbors", VoxelSpace.grid((3,)), n_features=6).toarray().astype(int)
    array([[0, 1, 0],
           [1, 0, 1],
           [0, 1, 0]])
    """
    if sparse.issparse(source):
        return _checked(source, space, n_features)
    if space is None:
        return sparse.csr_array((n_features, n_features), dtype=bool)
    _check_multiple(n_features, space.n_voxels, "the space")
    return space.adjacency(connectivity=connectivity, radius=radius)


def members(groups: sparse.csr_array) -> sparse.csr_array:
    """Weights as float64 CSR without the diagonal: a voxel is no member of its own group.

    Examples
    --------
    >>> from scipy import sparse
    >>> members(sparse.csr_array([[5.0, 2.0], [1.0, 0.0]])).toarray()
    array([[0., 2.],
           [1., 0.]])
    """
    if groups.dtype == np.float64 and groups.format == "csr" and not groups.diagonal().any():
        return groups
    groups = sparse.csr_array(groups, dtype=np.float64, copy=True)
    rows = np.repeat(np.arange(groups.shape[0]), np.diff(groups.indptr))
    groups.data[rows == groups.indices] = 0.0
    groups.eliminate_zeros()
    return groups


def _checked(matrix: Any, space: VoxelSpace | None, n_features: int) -> sparse.csr_array:
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"A group matrix must be square (voxel by voxel), got {matrix.shape}.")
    if space is not None and matrix.shape[0] != space.n_voxels:
        raise ValueError(
            f"The group matrix has {matrix.shape[0]} rows but the space has {space.n_voxels} "
            "voxels: pass one row a voxel, in the order of the space."
        )
    _check_multiple(n_features, matrix.shape[0], "the group matrix")
    groups = sparse.csr_array(matrix, dtype=np.float64)
    if groups.data.size and not (np.isfinite(groups.data).all() and groups.data.min() >= 0):
        raise ValueError("The weights of a group matrix must be finite and not negative.")
    return groups


def _check_multiple(n_features: int, n_voxels: int, of: str) -> None:
    if n_features % n_voxels:
        raise ValueError(
            f"X has {n_features} features, which is not a multiple of the {n_voxels} voxels of "
            f"{of}: each scan must hold T time points of all voxels, time-major."
        )
