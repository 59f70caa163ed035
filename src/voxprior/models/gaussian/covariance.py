"""Covariance functions of the Gram matrix (linear, polynomial, RBF, sums), and Cholesky factors.

    linear   s² (c + g_ij)
    poly     s² (c + g_ij)^d
    rbf      s² exp(−(g_ii + g_jj − 2 g_ij) / (2 ℓ²))
    sum      K = Σ_m K_m            one term per region or modality: multiple-kernel learning

The linear form with c = 1 is PRoNTo's covLINkcell, written there as e^{−2h}(1 + g).
Hyper-parameters are logarithms, θ = (log s) or (log s, log ℓ) per term, one term after the other.

| symbol | variable | shape |
|---|---|---|
| g | `gram` | (M, m, n) |
| g_ii | `rows` | (M, m) |
| g_jj | `columns` | (M, n) |
| θ | `theta` | (P,) |
| A = L Lᵀ | `A`, `L` | (n, n) |

Reference: J. Schrouff et al., PRoNTo: Pattern Recognition for Neuroimaging Toolbox,
Neuroinformatics 11 (2013) 319-337.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky
from scipy.linalg.lapack import dpotri

from voxprior.errors import InputError

KERNEL_NAMES = ("linear", "poly", "rbf", "precomputed")
# A kernel scaled by 1e16 and more has rounding errors larger than the identity added to it: they
# are forgiven up to this part of the mean diagonal.
ROUNDING = 1e-11


class Kernel(NamedTuple):
    """One term of the covariance; "precomputed" is the linear form of a given Gram matrix."""

    name: str
    offset: float = 1.0
    degree: int = 2


def n_parameters(kernels: Sequence[Kernel]) -> int:
    """Number of log hyper-parameters of a sum of kernels."""
    return sum(2 if kernel.name == "rbf" else 1 for kernel in kernels)


def scale_positions(kernels: Sequence[Kernel]) -> np.ndarray:
    """Where the log scales log s stand in θ."""
    sizes = [2 if kernel.name == "rbf" else 1 for kernel in kernels]
    return np.cumsum([0, *sizes[:-1]])


def covariance(
    kernels: Sequence[Kernel],
    theta: np.ndarray,
    gram: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
) -> np.ndarray:
    """K (m, n) of a sum of kernels.

    Examples
    --------
    >>> import numpy as np
    >>> gram = np.array([[[1.0, 2.0], [2.0, 4.0]]])
    >>> norms = np.array([[1.0, 4.0]])
    >>> covariance([Kernel("linear")], np.zeros(1), gram, norms, norms)
    array([[2., 3.],
           [3., 5.]])
    """
    total = np.zeros(gram.shape[1:])
    for m, (kernel, position) in enumerate(zip(kernels, scale_positions(kernels))):
        total += _term(kernel, theta[position:], gram[m], rows[m], columns[m])
    return total


def variance(kernels: Sequence[Kernel], theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Diagonal k(x, x) (m,) of a sum of kernels."""
    total = np.zeros(rows.shape[1])
    for m, (kernel, position) in enumerate(zip(kernels, scale_positions(kernels))):
        s2 = np.exp(2.0 * theta[position])
        total += s2 if kernel.name == "rbf" else s2 * _polynomial(kernel, rows[m])
    return total


def derivatives(
    kernels: Sequence[Kernel], theta: np.ndarray, gram: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """∂K/∂θ (P, n, n) on the training scans."""
    parts = []
    for m, (kernel, position) in enumerate(zip(kernels, scale_positions(kernels))):
        term = _term(kernel, theta[position:], gram[m], rows[m], rows[m])
        parts.append(2.0 * term)
        if kernel.name == "rbf":
            distance = _squared_distance(gram[m], rows[m], rows[m])
            parts.append(term * distance / np.exp(2.0 * theta[position + 1]))
    return np.array(parts)


def slope_at_mean(kernel: Kernel, length: float, norms: np.ndarray) -> np.ndarray | float:
    """∂k(x, x_r)/∂(x·x_r) at the mean scan x = 0 and s = 1, for x_r of squared norms `norms`."""
    if kernel.name == "poly":
        return kernel.degree * kernel.offset ** (kernel.degree - 1)
    if kernel.name == "rbf":
        l2 = length**2
        return np.exp(-0.5 * norms / l2) / l2
    return 1.0


def _term(
    kernel: Kernel, theta: np.ndarray, gram: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    s2 = np.exp(2.0 * theta[0])
    if kernel.name == "rbf":
        distance = _squared_distance(gram, rows, columns)
        return s2 * np.exp(-0.5 * distance / np.exp(2.0 * theta[1]))
    return s2 * _polynomial(kernel, gram)


def _polynomial(kernel: Kernel, gram: np.ndarray) -> np.ndarray:
    degree = kernel.degree if kernel.name == "poly" else 1
    return (kernel.offset + gram) ** degree


def _squared_distance(gram: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return np.maximum(rows[:, None] + columns[None, :] - 2.0 * gram, 0.0)


def cholesky_factor(A: np.ndarray) -> np.ndarray:
    """Lower L with L Lᵀ = A; an indefinite A is an error that speaks of the kernel behind it.

    Examples
    --------
    >>> import numpy as np
    >>> cholesky_factor(np.array([[4.0, 2.0], [2.0, 5.0]]))
    array([[2., 0.],
           [1., 2.]])
    """
    if not len(A):
        return A
    for jitter in (0.0, ROUNDING * float(np.mean(np.diag(A)))):
        try:
            moved = A if jitter == 0.0 else A + jitter * np.eye(len(A))
            return cholesky(moved, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            continue
    raise InputError(
        "The kernel matrix is not positive semi-definite",
        got=f"the eigenvalue {np.linalg.eigvalsh(A)[0]:.3g} in its regularised form",
        remedy="Check a precomputed kernel, or raise the noise",
    )


def inverse_from_factor(L: np.ndarray) -> np.ndarray:
    """(L Lᵀ)⁻¹ as a full symmetric matrix, at a third of the cost of solving for the identity."""
    if not len(L):
        return L
    # What stands above the diagonal of L, zeros, is left there.
    lower = dpotri(L, lower=1)[0]
    whole = lower + lower.T
    whole.flat[:: len(L) + 1] *= 0.5
    return whole
