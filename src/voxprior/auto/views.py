"""Views of the same scans, and their Gram matrices in one pass over the voxels; no label is seen.

Scans are centred by the mean of the training scans and divided by one number u, the largest
deviation, so that squares neither overflow nor vanish. A view is a matrix A_v on voxels:

    raw       A = I
    z         A = diag(s),      s_j = 1 / √Ṽ_j,   Ṽ_j = (d V_j + 4 V̄) / (d + 4)
    smooth    A = S diag(s),    S_ij ∝ exp(-h_ij² / 2) for h_ij <= 1.8 voxels, rows sum to 1
    K_v = X A_v'A_v X'

V_j = Σ_i x_ij² / d is the variance of voxel j, moderated toward the mean V̄ of all that vary: with
few scans the variance of one voxel is mostly noise. Voxels that do not vary have s_j = 0. With
several time points S acts within each of them. Any linear score in a view is one in voxels: with
dual coefficients a its weights are A_v'A_v X'a, so that no view is computed for a new scan.

| symbol | variable | shape |
|---|---|---|
| X, centred and in units of u | `part`, by blocks of voxels | (n, p) |
| mean, u | `mean`, `unit` | (p,), scalar |
| d, degrees of freedom of a variance | `degrees` | scalar |
| s | `scale` | (p,) |
| S | `smoother` | (V, V) sparse |
| K_v | `grams[v]` | (n, n) |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial import cKDTree

from voxprior.models.gaussian.gram import voxel_blocks
from voxprior.space import VoxelSpace

__all__ = ["Standard", "Views", "lifted", "neighbor_radius", "smoother_of", "views_of"]

# Reach of the smooth view in voxels: the 26 neighbours in a volume.
REACH = 1.8
# Scans that the mean variance of all voxels counts for, beside a voxel's own.
PRIOR_DEGREES = 4.0
# Voxels whose variance is below this share of the largest do not vary.
CONSTANT = 1e-12
# Scans are centred by group where less than this share of their squares lies between groups.
CENTERED = 1e-6


class Standard(NamedTuple):
    """What centres and scales scans: mean (p,), the unit, and the inverse deviations s (p,)."""

    mean: NDArray[np.float64]
    unit: float
    scale: NDArray[np.float64]

    def read(self, X: NDArray, columns: slice | NDArray) -> NDArray[np.float64]:
        """Some columns of scans, centred and in units, as float64."""
        return (X[:, columns].astype(np.float64) - self.mean[columns]) / self.unit


class Views(NamedTuple):
    """Gram matrices (n, n) of the training scans by view, and what they were made with."""

    names: tuple[str, ...]
    grams: list[NDArray[np.float64]]
    standard: Standard
    centered: bool  # whether every group has the mean of all scans


def views_of(
    X: NDArray, groups: NDArray | None = None, smoother: sparse.csr_array | None = None
) -> Views:
    """Views of training scans (n, p) of numbered groups: `smooth` only where there is a smoother.

    Examples
    --------
    >>> import numpy as np
    >>> views = views_of(np.array([[1.0, 0.0, 7.0], [3.0, 1.0, 7.0], [2.0, 5.0, 7.0]]))
    >>> views.names, views.grams[0].round(2).tolist()[0]
    (('raw', 'z'), [0.56, 0.11, -0.67])
    """
    n, p = X.shape
    standard, squares, raw = _unscaled(X), np.empty(p), np.zeros((n, n))
    for block in voxel_blocks(n, p):
        part = standard.read(X, block)
        raw += part @ part.T
        squares[block] = np.einsum("ij,ij->j", part, part)
    centered = groups is not None and _is_centered(raw, groups)
    degrees = n - (int(groups.max()) + 1 if groups is not None and centered else 1)
    standard = standard._replace(scale=_inverse_deviations(squares, max(degrees, 1)))
    parts = [_scaled(X, standard)]
    parts += [] if smoother is None else [_smoothed(X, standard, smoother)]
    grams = [raw, *(_gram(view, n) for view in parts)]
    return Views(("raw", "z", "smooth")[: len(grams)], grams, standard, centered)


def _unscaled(X: NDArray) -> Standard:
    """Mean and unit of training scans."""
    mean = X.mean(axis=0, dtype=np.float64)
    unit = float(np.maximum(X.max(axis=0) - mean, mean - X.min(axis=0)).max()) or 1.0
    return Standard(mean, unit, np.ones(len(mean)))


def _is_centered(gram: NDArray, groups: NDArray) -> bool:
    """Whether next to nothing of the centred scans lies between groups."""
    Z = np.eye(int(groups.max()) + 1)[groups]
    between = np.einsum("ig,ij,jg->g", Z, gram, Z) / Z.sum(axis=0)
    return bool(between.sum() <= CENTERED * np.trace(gram))


def _inverse_deviations(squares: NDArray, degrees: int) -> NDArray[np.float64]:
    """S (p,) of sums of squares (p,); 0 for voxels that do not vary."""
    varies = squares > CONSTANT * squares.max()
    shared = squares[varies].sum() / max(varies.sum(), 1) / degrees
    moderated = (squares[varies] + PRIOR_DEGREES * shared) / (degrees + PRIOR_DEGREES)
    scale = np.zeros(len(squares))
    scale[varies] = moderated**-0.5
    return scale


def _gram(parts: Iterator[NDArray], n: int) -> NDArray[np.float64]:
    gram = np.zeros((n, n))
    for part in parts:
        gram += part @ part.T
    return gram


def _scaled(X: NDArray, standard: Standard) -> Iterator[NDArray[np.float64]]:
    """The z view of scans, (n, some voxels) at a time."""
    for block in voxel_blocks(*X.shape):
        yield standard.read(X, block) * standard.scale[block]


def _smoothed(
    X: NDArray, standard: Standard, smoother: sparse.csr_array
) -> Iterator[NDArray[np.float64]]:
    """The smooth view of scans, (n, some voxels) at a time."""
    n_voxels = smoother.shape[0]
    for start in range(0, X.shape[1], n_voxels):
        for block in voxel_blocks(len(X), n_voxels):
            rows = smoother[block]
            seen = np.unique(rows.indices)
            columns = start + seen
            part = standard.read(X, columns) * standard.scale[columns]
            yield (rows[:, seen] @ part.T).T


def lifted(
    name: str, rows: NDArray, standard: Standard, smoother: sparse.csr_array | None
) -> NDArray[np.float64]:
    """A_v'A_v applied to weights, rows (r, p), in place: what they are on centred voxels."""
    if name == "raw":
        return rows
    rows *= standard.scale
    if name == "smooth" and smoother is not None:
        for times in rows.reshape(len(rows), -1, smoother.shape[0]):
            times[:] = (smoother.T @ (smoother @ times.T)).T
    rows *= standard.scale
    return rows


# ---------------------------------------------------------------- where voxels are


def smoother_of(space: VoxelSpace | None) -> sparse.csr_array | None:
    """S of the smooth view, (V, V); None where no voxel has a neighbour.

    Examples
    --------
    >>> smoother_of(VoxelSpace.grid((3,))).toarray().round(3)
    array([[0.622, 0.378, 0.   ],
           [0.274, 0.452, 0.274],
           [0.   , 0.378, 0.622]])
    """
    radius = None if space is None else neighbor_radius(space)
    if space is None or radius is None:
        return None
    graph = space.adjacency(radius=radius).tocoo()
    if graph.nnz == 0:
        return None
    apart = space.coordinates[graph.row] - space.coordinates[graph.col]
    h = np.linalg.norm(apart, axis=1) * (REACH / radius)
    kernel = sparse.coo_array((np.exp(-(h**2) / 2), (graph.row, graph.col)), graph.shape)
    kernel = sparse.csr_array(kernel + sparse.eye_array(graph.shape[0]))
    return sparse.csr_array(sparse.diags_array(1 / kernel.sum(axis=1)) @ kernel)


def neighbor_radius(space: VoxelSpace) -> float | None:
    """Reach of a voxel in the units of the coordinates; None where points coincide.

    A point set or mesh has no voxel size: the median distance to the nearest other point counts
    as one voxel.
    """
    if space.kind == "volume":
        return REACH
    if space.n_voxels < 2:
        return None
    nearest = cKDTree(space.coordinates).query(space.coordinates, k=2)[0][:, 1]
    return REACH * float(np.median(nearest)) or None
