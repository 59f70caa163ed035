"""Views of scans, without labels: inner products of scans as they are, scaled, and smoothed.

    raw       x - m                          m the mean of the training scans
    z         (x - m) / sqrt(V~)             every voxel on its own scale, moderated
    smooth    S z                            S a small Gaussian over neighbours, rows sum to 1

    V_j  = Σ_i (x_ij - m_j)² / d             d = n - 1, less G - 1 where centred by group before
    V~_j = (d V_j + 4 mean(V)) / (d + 4)     a handful of scans tells little of one voxel's scale
    S_ij ∝ exp(-h_ij² / 2)                   h the distance in voxels, up to 1.8

Voxels that do not vary have weight 0, and no part in the mean of V. On a mesh h is the length of an
edge over the median length, on a point set the distance over the median distance to the nearest
point. Only n x n inner products of a view are kept; they are summed in float64 over blocks of
voxels, so that scans of any type are read once per view and never copied whole.

| symbol | variable | shape |
|---|---|---|
| m | `mean` | (J,) |
| 1 / sqrt(V~), or 0 | `weight` | (J,) |
| S | `smoother` | (V, V) CSR, or None without a space |
| d | `degrees` | scalar |
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import spatial
from scipy.sparse import csr_array

from voxprior.models.gaussian.gram import Cross, voxel_blocks
from voxprior.space import VoxelSpace

VIEWS = ("raw", "z", "smooth")
# Scans that the common scale is worth as a prior on the scale of one voxel.
SCALE_PRIOR = 4.0
# Voxels with less than this share of the largest variance do not vary.
CONSTANT = 1e-12
# Share of the sum of squares that group means may have after centring: more than float32 rounds.
CENTERED = 1e-6
# Neighbours are voxels up to this distance: faces, edges and corners in a volume.
REACH = 1.8


class Voxels(NamedTuple):
    """What the training scans tell of each voxel, and where its neighbours are."""

    mean: NDArray[np.float64]
    weight: NDArray[np.float64]
    smoother: csr_array | None


def describe_voxels(X: Any, degrees: int, smoother: csr_array | None = None) -> Voxels:
    """Mean and moderated scale of every voxel of scans (n, J).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[2.0, 0, 1, 0], [3, 1, 0, 1], [2, 1, 2, 0], [0, 2, 1, 1], [1, 3, 0, 0],
    ...               [0, 2, 2, 2]])
    >>> (1 / describe_voxels(X, degrees=5).weight).round(6)
    array([1.123816, 1.029203, 0.944771, 0.90472 ])
    """
    mean, variance = np.empty(X.shape[1]), np.empty(X.shape[1])
    for block in voxel_blocks(*X.shape):
        part = np.asarray(X[:, block], dtype=np.float64)
        mean[block] = part.mean(axis=0)
        deviation = part - mean[block]
        variance[block] = np.einsum("ij,ij->j", deviation, deviation) / degrees
    varies = variance > CONSTANT * variance.max()
    if not varies.any():
        return Voxels(mean, np.zeros(len(mean)), smoother)
    moderated = degrees * variance + SCALE_PRIOR * variance[varies].mean()
    weight = np.sqrt((degrees + SCALE_PRIOR) / moderated)
    return Voxels(mean, np.where(varies, weight, 0.0), smoother)


def centered_by_group(X: Any, groups: NDArray[np.intp]) -> bool:
    """Whether every group of scans has mean 0 in every voxel, as centring by group leaves it.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, -2.0], [-1.0, 2.0], [3.0, 0.5], [-3.0, -0.5]])
    >>> centered_by_group(X, np.array([0, 0, 1, 1])), centered_by_group(X, np.array([0, 1, 0, 1]))
    (True, False)
    """
    size = np.bincount(groups)
    member = (groups == np.arange(len(size))[:, None]) / np.sqrt(size)[:, None]
    of_means = total = 0.0
    for block in voxel_blocks(*X.shape):
        part = np.asarray(X[:, block], dtype=np.float64)
        of_means += float(np.square(member @ part).sum())
        total += float(np.square(part).sum())
    return of_means <= CENTERED * total


@lru_cache(maxsize=2)
def smoothing_of(space: VoxelSpace) -> csr_array:
    """S, the row-normalised Gaussian over each voxel and its neighbours; kept for the next call.

    Examples
    --------
    >>> from voxprior import VoxelSpace
    >>> smoothing_of(VoxelSpace.grid((3,))).toarray().round(3)
    array([[0.622, 0.378, 0.   ],
           [0.274, 0.452, 0.274],
           [0.   , 0.378, 0.622]])
    """
    graph, unit = _neighbors(space)
    rows = np.repeat(np.arange(space.n_voxels), np.diff(graph.indptr))
    places = space.coordinates
    distance = np.linalg.norm(places[rows] - places[graph.indices], axis=1) / unit
    near = np.where(distance <= REACH * (1 + 1e-9), np.exp(-(distance**2) / 2), 0.0)
    total = 1.0 + np.bincount(rows, near, minlength=space.n_voxels)
    around = csr_array((near / total[rows], graph.indices, graph.indptr), graph.shape)
    itself = np.arange(space.n_voxels)
    return csr_array(around + csr_array((1.0 / total, (itself, itself)), graph.shape))


def _neighbors(space: VoxelSpace) -> tuple[csr_array, float]:
    """Pairs of voxels that may be neighbours, and the distance that counts as one voxel."""
    if space.kind == "volume":
        return space.adjacency(radius=REACH), 1.0
    if space.kind == "mesh":
        graph = space.adjacency()
        rows = np.repeat(np.arange(space.n_voxels), np.diff(graph.indptr))
        lengths = np.linalg.norm(space.coordinates[rows] - space.coordinates[graph.indices], axis=1)
        return graph, _typical(lengths)
    tree = spatial.cKDTree(space.coordinates)
    nearest = tree.query(space.coordinates, k=min(2, space.n_voxels))[0]
    unit = _typical(nearest.reshape(space.n_voxels, -1)[:, -1])
    return space.adjacency(radius=REACH * unit), unit


def _typical(lengths: NDArray) -> float:
    """Median of the positive lengths; 1 where there are none, and nothing to measure."""
    positive = lengths[lengths > 0]
    return float(np.median(positive)) if len(positive) else 1.0


def gram_of(X: Any, voxels: Voxels, view: str) -> NDArray[np.float64]:
    """Inner products (n, n) of the training scans in a view.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 5.0], [3.0, 5.0]])
    >>> gram_of(X, describe_voxels(X, degrees=1), "raw")
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    total = np.zeros((X.shape[0], X.shape[0]))
    for block in _blocks(X.shape[0], voxels):
        part = viewed(X, block, voxels, view)
        total += part @ part.T
    return total


def cross_of(X_new: Any, X: Any, voxels: Voxels, view: str) -> Cross:
    """Inner products (n_new, n) of new scans with the training scans, and with themselves."""
    gram, norms = np.zeros((X_new.shape[0], X.shape[0])), np.zeros(X_new.shape[0])
    for block in _blocks(X.shape[0] + X_new.shape[0], voxels):
        part = viewed(X_new, block, voxels, view)
        gram += part @ viewed(X, block, voxels, view).T
        norms += np.einsum("ij,ij->i", part, part)
    return Cross(gram, norms)


def weights_on_voxels(X: Any, voxels: Voxels, view: str, dual: NDArray) -> NDArray[np.float64]:
    """Weights (J,) on the scans' own voxels of the function Σ_i dual_i <x_i, x> in a view."""
    weight = np.zeros(X.shape[1])
    for block in _blocks(X.shape[0], voxels):
        part = dual @ viewed(X, block, voxels, view)
        if view == "smooth" and voxels.smoother is not None:
            rows, time = _of_space(block, voxels.smoother.shape[0])
            weight[time] += voxels.smoother[rows].T @ part
        else:
            weight[block] = part
    return weight if view == "raw" else weight * voxels.weight


def viewed(X: Any, block: slice, voxels: Voxels, view: str) -> NDArray[np.float64]:
    """Scans in a view at a block of voxels, in float64."""
    if view == "smooth" and voxels.smoother is not None:
        rows, time = _of_space(block, voxels.smoother.shape[0])
        S = voxels.smoother[rows]
        needed = np.unique(S.indices)
        columns = time.start + needed
        part = np.asarray(X[:, columns], dtype=np.float64) - voxels.mean[columns]
        return (S[:, needed] @ (part * voxels.weight[columns]).T).T
    part = np.asarray(X[:, block], dtype=np.float64) - voxels.mean[block]
    return part if view == "raw" else part * voxels.weight[block]


def _of_space(block: slice, n_voxels: int) -> tuple[slice, slice]:
    """The voxels of a block of features, and all features of its time point."""
    start = block.start // n_voxels * n_voxels
    return slice(block.start - start, block.stop - start), slice(start, start + n_voxels)


def _blocks(n_rows: int, voxels: Voxels) -> Iterator[slice]:
    """Blocks of features; where voxels have neighbours, each of one time point."""
    n_features = len(voxels.mean)
    n_voxels = n_features if voxels.smoother is None else voxels.smoother.shape[0]
    for start in range(0, n_features, n_voxels):
        for block in voxel_blocks(n_rows, n_voxels):
            yield slice(start + block.start, start + block.stop)
