"""Gaussian kernels between voxels as operators that never exist as V x V arrays.

    G_ij = exp(-|v_i - v_j|^2 / (2 r^2))

On a regular grid the squared distance is a sum over the axes, so G is the Kronecker product of
K_1, K_2 and K_3 restricted to the voxels inside the mask: G x scatters x onto the grid, correlates
it with the full-width profile g_a(d) = exp(-(d s_a)^2 / (2 r^2)) along each axis, and gathers the
voxels again. The width is cut only where weights are below 1e-100.
Elsewhere (point sets, mesh vertices) the product is formed in blocks of rows.

| symbol | variable | shape |
|---|---|---|
| r, the kernel's radius (standard deviation) | `radius` | scalar |
| s_a, the voxel size along axis a | `spacing` | (3,) |
| g_a, the profile along axis a | `profiles[a]` | (n_a,) |
| K_a, the symmetric Toeplitz matrix of g_a | `factors[a]` | (n_a, n_a) |
| v_i, where voxel i is | `points` | (V, 3) |
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import toeplitz
from scipy.spatial.distance import cdist

__all__ = ["GaussianOperator", "GridGaussian", "PointGaussian"]

# Elements of one block of rows in a product over points: 32 MB of float64.
BLOCK_ELEMENTS = 4_000_000
# Weights below this are left out of products on a grid: far under rounding, but subnormal numbers,
# which a product of three could reach, slow the processor down tenfold.
NEGLIGIBLE = 1e-100
# Weights below this are left out where a column is added to others: far under their rounding.
UNSEEN = 1e-20


class GaussianOperator(ABC):
    """A symmetric positive semi-definite Gaussian kernel, known by its products.

    Attributes
    ----------
    shape : tuple of int
        (V, V).
    dtype : numpy.dtype
        Always float64.
    radius : float
        Standard deviation of the Gaussian, in the units of the voxel positions.
    """

    # Makes numpy hand `array @ operator` to __rmatmul__ whole, not element by element.
    __array_ufunc__ = None
    dtype = np.dtype(np.float64)

    def __init__(self, n_voxels: int, radius: float):
        if not (np.isfinite(radius) and radius > 0):
            raise ValueError(
                f"The kernel radius must be positive and finite. Got {radius!r} instead."
            )
        self.shape = (n_voxels, n_voxels)
        self.radius = float(radius)

    def __matmul__(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return G x for a vector (V,) or a matrix (V, k), in float64."""
        x = np.asarray(x)
        if x.ndim not in (1, 2) or x.shape[0] != self.shape[0]:
            raise ValueError(
                f"The kernel has {self.shape[0]} voxels: it multiplies a vector of shape "
                f"({self.shape[0]},) or a matrix ({self.shape[0]}, k). Got shape {x.shape} instead."
            )
        return self._product(x)

    def __rmatmul__(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return x G = (G x')'."""
        return (self @ np.asarray(x).T).T

    def matvec(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return G x, under the name scipy's iterative solvers ask for."""
        return self @ x

    def row_sums(self) -> NDArray[np.float64]:
        """Return G 1, the kernel mass that each voxel sees inside the space."""
        return self @ np.ones(self.shape[0])

    def to_dense(self) -> NDArray[np.float64]:
        """Return G as an array, from its definition. For tests and small spaces only."""
        points = self._points()
        return np.exp(cdist(points, points, "sqeuclidean") / (-2 * self.radius**2))

    def _row(self, k: int) -> int:
        """Check a voxel number, allowing negative ones as numpy does."""
        n_voxels = self.shape[0]
        if not -n_voxels <= k < n_voxels:
            raise IndexError(f"Voxel {k} is out of range for a kernel of {n_voxels} voxels.")
        return int(k) % n_voxels

    @abstractmethod
    def column(self, k: int) -> NDArray[np.float64]:
        """Return column k of G, which is also row k, in O(V)."""

    def add_column(self, k: int, amount: float, out: NDArray[np.float64]) -> None:
        """Add amount × column k of G to `out`, (V,), in place."""
        out += amount * self.column(k)

    @abstractmethod
    def _product(self, x: NDArray) -> NDArray[np.float64]:
        """Multiply by a checked vector or matrix."""

    @abstractmethod
    def _points(self) -> NDArray[np.float64]:
        """Return the voxel positions (V, 3) in the units of the radius."""


class GridGaussian(GaussianOperator):
    """The kernel between the voxels of a mask on a regular grid, by separable correlation.

    Parameters
    ----------
    places : ndarray of int, shape (V, 3)
        Grid indices of the voxels.
    spacing : ndarray, shape (3,)
        Voxel size along each axis, in the units of `radius`.
    radius : float
        Standard deviation of the Gaussian.
    """

    def __init__(self, places: NDArray[np.int64], spacing: NDArray, radius: float):
        super().__init__(len(places), radius)
        self.spacing = np.asarray(spacing, dtype=np.float64)
        # Only the bounding box of the voxels takes part: outside it there is nothing to correlate.
        corner = places.min(axis=0)
        self.box = tuple(int(n) for n in places.max(axis=0) - corner + 1)
        self.sites = np.ravel_multi_index(tuple((places - corner).T), self.box)
        self.profiles = [
            np.exp(-((np.arange(n) * s) ** 2) / (2 * radius**2))
            for n, s in zip(self.box, self.spacing)
        ]
        self.factors = [toeplitz(np.where(g > NEGLIGIBLE, g, 0)) for g in self.profiles]
        self.lines = _lines(self.sites, self.box)

    def column(self, k: int) -> NDArray[np.float64]:
        """Return column k of G in O(V): the outer product of three profiles centred on voxel k."""
        centre = np.unravel_index(self.sites[self._row(k)], self.box)
        g = [g[np.abs(np.arange(len(g)) - c)] for g, c in zip(self.profiles, centre)]
        field = (g[0][:, None] * g[1]).reshape(-1, 1) * g[2]
        return field.reshape(-1)[self.sites]

    def add_column(self, k: int, amount: float, out: NDArray[np.float64]) -> None:
        """Add amount × column k of G to `out`, line by line of the grid."""
        x, rest = divmod(int(self.sites[self._row(k)]), self.box[1] * self.box[2])
        g0, g1, g2 = self.profiles
        _add_lines(self.lines, g0, g1, g2, (x, *divmod(rest, self.box[2])), amount, out)

    def _product(self, x: NDArray) -> NDArray[np.float64]:
        if x.ndim == 1:
            return self._correlate(x)
        out = np.empty(x.shape, order="F")
        for j in range(x.shape[1]):
            out[:, j] = self._correlate(x[:, j])
        return out

    def _correlate(self, x: NDArray) -> NDArray[np.float64]:
        """Scatter to the box, correlate along each axis, gather: O(box volume x box width)."""
        field = np.zeros(np.prod(self.box))
        field[self.sites] = x
        for n, K in zip(self.box, self.factors):
            # The leading axis is correlated and goes last, so after three turns all are in place.
            field = field.reshape(n, -1).T @ K
        return field.reshape(-1)[self.sites]

    def _points(self) -> NDArray[np.float64]:
        return np.column_stack(np.unravel_index(self.sites, self.box)) * self.spacing


def _lines(sites: NDArray[np.int64], box: tuple[int, ...]) -> NDArray[np.int64]:
    """Voxels that follow each other along the last axis: number, number past the last, and x, y, z
    of the first; (number of lines, 5).
    """
    follows = (np.diff(sites) == 1) & (sites[1:] % box[2] > 0)
    first = np.flatnonzero(np.append(True, ~follows))
    last = np.append(first[1:], len(sites))
    return np.column_stack([first, last, *np.unravel_index(sites[first], box)])


@njit(cache=True)
def _add_lines(lines, g0, g1, g2, centre, amount, out):
    x0, y0, z0 = centre
    along = np.empty(len(g2))
    for z in range(len(g2)):
        along[z] = g2[abs(z - z0)]
    low, high = z0, z0 + 1
    while low > 0 and along[low - 1] > UNSEEN:
        low -= 1
    while high < len(g2) and along[high] > UNSEEN:
        high += 1
    for line in range(len(lines)):
        first, last, x, y, z = lines[line]
        across = g0[abs(x - x0)] * g1[abs(y - y0)]
        start, stop = max(low, z), min(high, z + last - first)
        if across > UNSEEN and start < stop:
            piece = out[first + start - z : first + stop - z]
            weight = along[start:stop]
            for i in range(len(piece)):
                piece[i] += amount * (across * weight[i])


class PointGaussian(GaussianOperator):
    """The kernel between points anywhere in space, by products in blocks of rows.

    Parameters
    ----------
    points : ndarray, shape (V, 3)
        Positions, in the units of `radius`.
    radius : float
        Standard deviation of the Gaussian.
    """

    def __init__(self, points: NDArray[np.float64], radius: float):
        super().__init__(len(points), radius)
        self.points = points

    def column(self, k: int) -> NDArray[np.float64]:
        """Return column k of G in O(V)."""
        return self._rows(slice(self._row(k), self._row(k) + 1))[0]

    def _product(self, x: NDArray) -> NDArray[np.float64]:
        x = x.astype(np.float64, copy=False)
        out = np.empty(x.shape)
        step = max(1, BLOCK_ELEMENTS // self.shape[0])
        for start in range(0, self.shape[0], step):
            rows = slice(start, start + step)
            out[rows] = self._rows(rows) @ x
        return out

    def _rows(self, rows: slice) -> NDArray[np.float64]:
        block = cdist(self.points[rows], self.points, "sqeuclidean")
        block /= -2 * self.radius**2
        return np.exp(block, out=block)

    def _points(self) -> NDArray[np.float64]:
        return self.points
