"""Covariance functions of the Gram matrix: linear with bias, polynomial, RBF, and their sums.

    linear   s² (c + g_ij)
    poly     s² (c + g_ij)^d
    rbf      s² exp(−(g_ii + g_jj − 2 g_ij) / (2 ℓ²))
    sum      K = Σ_m K_m            one term a region or modality: multiple-kernel learning

The linear form with c = 1 is PRoNTo's covLINkcell, written there as e^{−2h}(1 + g).
Hyper-parameters are logarithms, θ = (log s) or (log s, log ℓ) a term, concatenated over the terms.

==========  ==================  ==========
symbol      variable            shape
==========  ==================  ==========
g           gram                (M, m, n)
g_ii        rows                (M, m)
g_jj        columns             (M, n)
θ           theta               (P,)
==========  ==================  ==========

Reference: J. Schrouff et al., PRoNTo: Pattern Recognition for Neuroimaging Toolbox,
Neuroinformatics 11 (2013) 319-337.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

SHAPES = ("linear", "poly", "rbf", "precomputed")


class Kernel(NamedTuple):
    """One term of the covariance; "precomputed" is the linear form of a given Gram matrix."""

    shape: str
    offset: float = 1.0
    degree: int = 2


def n_parameters(kernels: Sequence[Kernel]) -> int:
    """Number of log hyper-parameters of a sum of kernels."""
    return sum(2 if kernel.shape == "rbf" else 1 for kernel in kernels)


def scale_positions(kernels: Sequence[Kernel]) -> np.ndarray:
    """Where the log scales log s stand in θ."""
    sizes = [2 if kernel.shape == "rbf" else 1 for kernel in kernels]
    return np.cumsum([0, *sizes[:-1]])


def parameter_names(kernels: Sequence[Kernel]) -> list[str]:
    """Readable names of θ, in order."""
    names = []
    for m, kernel in enumerate(kernels):
        suffix = f" {m}" if len(kernels) > 1 else ""
        names.append("log scale" + suffix)
        if kernel.shape == "rbf":
            names.append("log length" + suffix)
    return names


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
        total += s2 if kernel.shape == "rbf" else s2 * _polynomial(kernel, rows[m])
    return total


def derivatives(
    kernels: Sequence[Kernel], theta: np.ndarray, gram: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """∂K/∂θ (P, n, n) on the training scans."""
    parts = []
    for m, (kernel, position) in enumerate(zip(kernels, scale_positions(kernels))):
        term = _term(kernel, theta[position:], gram[m], rows[m], rows[m])
        parts.append(2.0 * term)
        if kernel.shape == "rbf":
            distance = _squared_distance(gram[m], rows[m], rows[m])
            parts.append(term * distance / np.exp(2.0 * theta[position + 1]))
    return np.array(parts)


def _term(
    kernel: Kernel, theta: np.ndarray, gram: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    s2 = np.exp(2.0 * theta[0])
    if kernel.shape == "rbf":
        distance = _squared_distance(gram, rows, columns)
        return s2 * np.exp(-0.5 * distance / np.exp(2.0 * theta[1]))
    return s2 * _polynomial(kernel, gram)


def _polynomial(kernel: Kernel, gram: np.ndarray) -> np.ndarray:
    degree = kernel.degree if kernel.shape == "poly" else 1
    return (kernel.offset + gram) ** degree


def _squared_distance(gram: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return np.maximum(rows[:, None] + columns[None, :] - 2.0 * gram, 0.0)
