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
from scipy.linalg.lapack import dpotrf, dpotri

from voxprior.errors import InputError

KERNEL_NAMES = ("linear", "poly", "rbf", "precomputed")
# A kernel scaled by 1e16 and more has rounding errors larger than the identity added to it: they
# are tolerated up to this part of the mean diagonal.
ROUNDING = 1e-11
# Half of a matrix is written in blocks of 128 columns; what is above the diagonal of one of these.
ABOVE = np.triu(np.ones((128, 128), dtype=bool), 1)


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


def cholesky_factor(A: np.ndarray, overwrite: bool = False) -> np.ndarray:
    """Lower L with L Lᵀ = A; an indefinite A raises an error about its kernel.

    Parameters
    ----------
    A : array (n, n)
        Symmetric; one half of it is read.
    overwrite : bool
        L takes the memory of A, where that is contiguous.

    Examples
    --------
    >>> import numpy as np
    >>> cholesky_factor(np.array([[4.0, 2.0], [2.0, 5.0]]))
    array([[2., 0.],
           [1., 2.]])
    """
    if not len(A):
        return A
    L, diagonal = _for_lapack(A, overwrite), np.diag(A).copy()
    for jitter in (0.0, ROUNDING * float(np.mean(diagonal))):
        np.fill_diagonal(L, diagonal + jitter)
        L, failed = dpotrf(L, lower=1, clean=0, overwrite_a=1)
        if not failed:
            _clear_above(L)
            return L
        mirror_lower(L.T)  # what is above the diagonal was not touched
    np.fill_diagonal(L, diagonal)
    raise InputError(
        "The kernel matrix is not positive semi-definite",
        got=f"the eigenvalue {np.linalg.eigvalsh(L)[0]:.3g} in its regularised form",
        remedy="Check a precomputed kernel, or raise the noise",
    )


def inverse_from_factor(L: np.ndarray, overwrite: bool = False) -> np.ndarray:
    """(L Lᵀ)⁻¹ as a full symmetric matrix, at a third of the cost of solving for the identity.

    With `overwrite` it takes the memory of L.
    """
    if not len(L):
        return L
    inverse = dpotri(L, lower=1, overwrite_c=overwrite)[0]
    mirror_lower(inverse)
    return inverse.T  # rows one after the other, as elsewhere


def _for_lapack(A: np.ndarray, overwrite: bool) -> np.ndarray:
    """A symmetric A with columns one after the other: its rows are its columns."""
    own = A if overwrite and A.dtype == np.float64 else np.array(A, dtype=np.float64)
    return own if own.flags.f_contiguous else own.T


def mirror_lower(A: np.ndarray) -> None:
    """Copy what is below the diagonal to above it, in place.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([[1.0, 9.0], [2.0, 3.0]])
    >>> mirror_lower(A)
    >>> A
    array([[1., 2.],
           [2., 3.]])
    """
    for start in range(0, len(A), len(ABOVE)):
        stop = start + len(ABOVE)
        corner = A[start:stop, start:stop]
        np.copyto(corner, corner.T.copy(), where=ABOVE[: len(corner), : len(corner)])
        A[start:stop, stop:] = A[stop:, start:stop].T


def _clear_above(L: np.ndarray) -> None:
    for start in range(0, len(L), len(ABOVE)):
        stop = start + len(ABOVE)
        corner = L[start:stop, start:stop]
        np.copyto(corner, 0.0, where=ABOVE[: len(corner), : len(corner)])
        L[start:stop, stop:] = 0.0
