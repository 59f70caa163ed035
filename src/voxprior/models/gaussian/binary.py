"""A Gaussian stand-in for the posterior of a binary problem: what Laplace's method and EP share.

Both replace the likelihood by n Gaussian sites of precision ω_i = root_i², so that with
B = I + Ω^½ K Ω^½ = L Lᵀ a new scan has

    mean k_*ᵀa,    variance k_** − vᵀv,    v = L⁻¹ Ω^½ k_*

==========  ==================  ========
symbol      variable            shape
==========  ==================  ========
a           a                   (n,)
Ω^½         root                (n,)
L           cholesky            (n, n)
f           f                   (n,)
==========  ==================  ========

Reference: Rasmussen & Williams 2006, Alg. 3.2 and 3.6.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dpotri, dtrtri

ROUNDING = 1e-11
SMALL_FACTOR = 128


class BinaryPosterior(NamedTuple):
    """Gaussian approximation of p(f | y) for labels −1 and +1."""

    a: np.ndarray
    root: np.ndarray
    cholesky: np.ndarray
    f: np.ndarray
    log_evidence: float


def factorise(A: np.ndarray) -> np.ndarray:
    """Lower Cholesky factor, or a ValueError that says what was wrong with the kernel."""
    if not len(A):
        return A
    # A kernel scaled by 1e16 and more has rounding errors larger than the identity added to it;
    # a kernel that is indefinite beyond rounding fails the second time too.
    for jitter in (0.0, ROUNDING * float(np.mean(np.diag(A)))):
        try:
            moved = A if jitter == 0.0 else A + jitter * np.eye(len(A))
            return cholesky(moved, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            continue
    lowest = float(np.linalg.eigvalsh(A)[0])
    raise ValueError(
        "The kernel matrix must be positive semi-definite: its regularised form has the "
        f"eigenvalue {lowest:.3g}. Check a precomputed kernel, or raise the noise."
    )


def inverse_of(L: np.ndarray) -> np.ndarray:
    """(L Lᵀ)⁻¹ as a full symmetric matrix, at a third of the cost of solving for the identity."""
    if not len(L):
        return L
    # What stands above the diagonal of L, zeros, is left there.
    lower = dpotri(L, lower=1)[0]
    whole = lower + lower.T
    whole.flat[:: len(L) + 1] *= 0.5
    return whole


def inverse_of_factor(L: np.ndarray) -> np.ndarray:
    """L⁻¹ by halves, so that most of the work is matrix products: twice as fast as LAPACK alone."""
    if len(L) <= SMALL_FACTOR:
        return dtrtri(L, lower=1)[0] if len(L) else L
    half = len(L) // 2
    above, below = inverse_of_factor(L[:half, :half]), inverse_of_factor(L[half:, half:])
    inverse = np.zeros_like(L)
    inverse[:half, :half], inverse[half:, half:] = above, below
    inverse[half:, :half] = -(below @ (L[half:, :half] @ above))
    return inverse


def latent_moments(
    posterior: BinaryPosterior, K_new: np.ndarray, k_new: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of f at new scans; K_new is (n_new, n), k_new the prior variance."""
    v = solve_triangular(posterior.cholesky, posterior.root[:, None] * K_new.T, lower=True)
    return K_new @ posterior.a, np.maximum(k_new - np.einsum("ij,ij->j", v, v), 0.0)


def site_matrix(posterior: BinaryPosterior) -> np.ndarray:
    """R = Ω^½ B⁻¹ Ω^½ = (K + Ω⁻¹)⁻¹, the precision that the data put on the latent values."""
    root = posterior.root
    return root[:, None] * inverse_of(posterior.cholesky) * root
