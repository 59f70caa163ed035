"""The spatial penalty β'Kβ on an importance map, by columns and products, never as a V x V array.

    K = μ I - G,   G_ij = exp(-|v_i - v_j|² / (2 r²)),   μ = m max_j Σ_i G_ij,   m ≥ 1

m = 1 is the paper's choice and keeps K positive semi-definite (Gershgorin). Smooth maps are cheap:
the eigenvectors of K with small eigenvalues are slow waves. So are places with many neighbours: a
flat map over location k costs μ - Σ_i G_ik. The *equalised* kernel removes that: G is replaced by
G_ij s_i s_j with s such that every row sums to max_j Σ_i G_ij (Sinkhorn scaling), and a flat map
costs the same everywhere.

| symbol | variable | shape |
|---|---|---|
| K | a `Penalty` | (V, V) |
| G | `gaussian` | (V, V) operator |
| s, row scaling | `scale` | (V,) |
| μ | `mu` | scalar |
| r | `radius` | scalar |

Reference: Xiang, Xi, Hasson & Ramadge, Boosting with spatial regularization, NIPS 2009, section 3.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, issparse

from voxprior.errors import InputError, InputTypeError, option
from voxprior.space import VoxelSpace

__all__ = [
    "DiagonalPenalty",
    "GaussianPenalty",
    "MatrixPenalty",
    "Penalty",
    "PermutedPenalty",
    "diagonal_of",
    "make_penalty",
]


class Penalty(Protocol):
    """What boosting needs of K."""

    shape: tuple[int, int]

    def self_penalty(self, k: int) -> float:
        """Return K_kk."""

    def add_column(self, k: int, amount: float, out: NDArray) -> None:
        """Add amount × K[:, k] to `out`, (V,), in place."""

    def __matmul__(self, beta: NDArray) -> NDArray:
        """Return K β."""

    def smooth(self, beta: NDArray) -> NDArray:
        """Return the smoothed map: G β, or β where there is no G."""


class GaussianPenalty:
    """K = μ I - diag(s) G diag(s)."""

    def __init__(self, gaussian: Any, multiple: float = 1.0, equalize: bool = False):
        self.gaussian = gaussian
        self.shape = gaussian.shape
        rows = gaussian.row_sums()
        self.scale = _equalizing_scale(gaussian, rows) if equalize else None
        self.mu = multiple * rows.max()

    def self_penalty(self, k: int) -> float:
        """Return K_kk = μ - s_k² (G has a unit diagonal)."""
        return self.mu - (1.0 if self.scale is None else self.scale[k] ** 2)

    def add_column(self, k: int, amount: float, out: NDArray) -> None:
        """Add amount × K[:, k] to `out` in place."""
        if self.scale is None:
            self.gaussian.add_column(k, -amount, out)
        else:
            out -= self.gaussian.column(k) * (self.scale * (self.scale[k] * amount))
        out[k] += self.mu * amount

    def __matmul__(self, beta: NDArray) -> NDArray:
        """Return K β."""
        return self.mu * beta - self.smooth(beta)

    def smooth(self, beta: NDArray) -> NDArray:
        """Return diag(s) G diag(s) β."""
        if self.scale is None:
            return self.gaussian @ beta
        return self.scale * (self.gaussian @ (self.scale * beta))


class DiagonalPenalty:
    """K diagonal: a ridge, without neighbours."""

    def __init__(self, diagonal: NDArray):
        self.diagonal = diagonal
        self.shape = (len(diagonal), len(diagonal))

    def self_penalty(self, k: int) -> float:
        """Return K_kk."""
        return float(self.diagonal[k])

    def add_column(self, k: int, amount: float, out: NDArray) -> None:
        """Add amount × K[:, k] to `out` in place."""
        out[k] += amount * self.diagonal[k]

    def __matmul__(self, beta: NDArray) -> NDArray:
        """Return K β."""
        return self.diagonal * beta

    def smooth(self, beta: NDArray) -> NDArray:
        """Return β: there are no neighbours."""
        return beta.copy()


class MatrixPenalty:
    """K as the caller gave it: an array, a sparse matrix, or an operator with `column(k)`."""

    def __init__(self, K: Any):
        self.K = csc_array(K) if issparse(K) else K
        self.shape = K.shape

    def _column(self, k: int) -> NDArray:
        if isinstance(self.K, np.ndarray):
            return self.K[:, k]
        return self.K[:, [k]].toarray()[:, 0] if issparse(self.K) else np.asarray(self.K.column(k))

    def self_penalty(self, k: int) -> float:
        """Return K_kk."""
        return float(self._column(k)[k])

    def add_column(self, k: int, amount: float, out: NDArray) -> None:
        """Add amount × K[:, k] to `out` in place."""
        out += amount * self._column(k)

    def __matmul__(self, beta: NDArray) -> NDArray:
        """Return K β."""
        return np.asarray(self.K @ beta)

    def smooth(self, beta: NDArray) -> NDArray:
        """Return β: a general K has no G."""
        return beta.copy()


class PermutedPenalty:
    """K_{π(i) π(j)}: the same geometry at the wrong voxels."""

    def __init__(self, penalty: Penalty, permutation: NDArray[np.int64]):
        self.penalty, self.permutation = penalty, permutation
        self.shape = penalty.shape

    def self_penalty(self, k: int) -> float:
        """Return K_kk."""
        return self.penalty.self_penalty(self.permutation[k])

    def add_column(self, k: int, amount: float, out: NDArray) -> None:
        """Add amount × K[:, k] to `out` in place."""
        column = np.zeros(len(out))
        self.penalty.add_column(self.permutation[k], amount, column)
        out += column[self.permutation]

    def __matmul__(self, beta: NDArray) -> NDArray:
        """Return K β."""
        return self._through(self.penalty.__matmul__, beta)

    def smooth(self, beta: NDArray) -> NDArray:
        """Return the map smoothed over the shuffled neighbours."""
        return self._through(self.penalty.smooth, beta)

    def _through(self, product: Any, beta: NDArray) -> NDArray:
        moved = np.empty(len(beta))
        moved[self.permutation] = beta
        return product(moved)[self.permutation]


def make_penalty(
    kernel: Any, space: VoxelSpace | None, n_locations: int, radius: float, mu: float, units: Any
) -> Penalty:
    """Build K from an estimator's parameters.

    Parameters
    ----------
    kernel : {"gaussian", "equalized", "identity"}, array, sparse matrix or operator
        Which K; without a space the Gaussian kernels have no neighbours and become the identity.
    space : VoxelSpace or None
        Where the locations are.
    n_locations : int
        V.
    radius, mu, units
        r, the multiple m of the largest row sum, and the unit of r.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.space import VoxelSpace
    >>> from voxprior.models.boosting.penalty import make_penalty
    >>> K = make_penalty("gaussian", VoxelSpace.grid(3), 3, radius=1.0, mu=1.0, units="voxel")
    >>> (K @ np.ones(3)).round(3)
    array([0.471, 0.   , 0.471])
    """
    if not isinstance(kernel, str):
        return MatrixPenalty(_checked_matrix(kernel, n_locations))
    if kernel not in ("gaussian", "equalized", "identity"):
        raise InputError(
            f"{option('kernel')} is not known",
            expected="'gaussian', 'equalized', 'identity', or a matrix or operator",
            got=f"{kernel!r}",
        )
    if kernel == "identity" or space is None:
        return DiagonalPenalty(np.ones(n_locations))
    return GaussianPenalty(space.gaussian(radius, units), mu, equalize=kernel == "equalized")


def diagonal_of(penalty: Penalty) -> DiagonalPenalty:
    """Return the diagonal of K alone: the same price for a lone voxel, and no neighbours."""
    return DiagonalPenalty(np.array([penalty.self_penalty(k) for k in range(penalty.shape[0])]))


def _equalizing_scale(gaussian: Any, rows: NDArray, n_rounds: int = 1000) -> NDArray:
    """Find s with s_i Σ_j G_ij s_j = max row sum, by symmetric Sinkhorn rounds."""
    target = rows.max()
    scale = np.sqrt(target / rows)
    for _ in range(n_rounds):
        ratio = target / (scale * (gaussian @ scale))
        # Rows that sum to more than μ would make K indefinite; 1e-9 of μ is below any step's
        # resolution.
        if np.abs(ratio - 1).max() < 1e-9:
            break
        scale *= np.sqrt(ratio)
    return scale


def _checked_matrix(kernel: Any, n_locations: int) -> Any:
    if getattr(kernel, "shape", None) != (n_locations, n_locations):
        raise InputError(
            f"{option('kernel')} does not fit the locations",
            expected=f"shape ({n_locations}, {n_locations}), one row per location",
            got=f"{getattr(kernel, 'shape', type(kernel).__name__)}",
        )
    if not (isinstance(kernel, np.ndarray) or issparse(kernel)):
        if not (hasattr(kernel, "column") and hasattr(kernel, "__matmul__")):
            raise InputTypeError(
                f"{option('kernel')} is not an operator",
                expected="column(k) and the product @",
                got=f"{type(kernel).__name__} without them",
            )
        return kernel
    asymmetry = abs(kernel - kernel.T).max()
    if not asymmetry <= 1e-9 * abs(kernel).max():
        raise InputError(
            f"{option('kernel')} must be finite and symmetric", got=f"|K - K'| up to {asymmetry}"
        )
    if (kernel.diagonal() < 0).any():
        raise InputError(
            f"{option('kernel')} must be positive semi-definite", got="negatives on its diagonal"
        )
    return kernel
