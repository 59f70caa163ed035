"""Gaussian process regression: posterior, evidence and leave-one-out, all exact.

    y = f + ε,  f ~ N(0, K),  ε ~ N(0, σ²I),  A = K + σ²I = L Lᵀ
    α = A⁻¹y,   mean k_*ᵀα,   variance k_** − k_*ᵀA⁻¹k_*   (of f; a measurement adds σ²)
    log p(y) = −½ yᵀα − Σ log L_ii − (n/2) log 2π
    ∂ log p/∂θ = ½ Σ_ij (α_iα_j − [A⁻¹]_ij) ∂A_ij/∂θ
    leave one out: μ_i = y_i − α_i/[A⁻¹]_ii,  v_i = 1/[A⁻¹]_ii

With K = s²K₀ and K₀ = UΛUᵀ the evidence of every (s, σ) costs O(n):

    log p = −½ Σ_i z_i²/(s²λ_i + σ²) − ½ Σ_i log(s²λ_i + σ²) − (n/2) log 2π,   z = Uᵀy

and for a given ratio ρ = σ²/s² the best scale is s² = (1/n) Σ z_i²/(λ_i + ρ), so that maximising
the evidence is a search along one line.

| symbol | variable | shape |
|---|---|---|
| K | `K` | (n, n) |
| y | `y` | (n,) |
| σ² | `noise` | scalar |
| α | `alpha` | (n,) |
| L | `cholesky` | (n, n) |
| λ, z | `values`, `rotated` | (n,) |

Reference: Rasmussen & Williams 2006, Alg. 2.1, eqs 5.9 and 5.12.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, eigh, solve_triangular
from scipy.optimize import minimize_scalar

from voxprior.models.gaussian.covariance import cholesky_factor, inverse_from_factor

LOG_2PI = float(np.log(2.0 * np.pi))
# Nats of evidence per target that are taken for rounding.
FLAT = 1e-9


class Regression(NamedTuple):
    """Posterior of a Gaussian process given noisy targets."""

    alpha: np.ndarray
    cholesky: np.ndarray
    log_evidence: float


class Moments(NamedTuple):
    """Mean and variance of the latent function, or of left-out targets."""

    mean: np.ndarray
    variance: np.ndarray


class Spectrum(NamedTuple):
    """Eigenvalues of K₀ and the targets in its eigenvectors: all the evidence depends on."""

    values: np.ndarray
    rotated: np.ndarray


def regress(K: np.ndarray, y: np.ndarray, noise: float) -> Regression:
    """Posterior and log evidence (Alg. 2.1).

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([1.0, 2.0, 3.0])
    >>> fit = regress(np.outer(x, x) + 1, np.array([1.0, 2.0, 2.5]), noise=0.5)
    >>> round(fit.log_evidence, 6)
    -4.124508
    """
    L = cholesky_factor(K + noise * np.eye(len(y)))
    alpha = cho_solve((L, True), y)
    log_evidence = -0.5 * y @ alpha - np.log(np.diag(L)).sum() - 0.5 * len(y) * LOG_2PI
    return Regression(alpha, L, float(log_evidence))


def predict_latent(fit: Regression, K_new: np.ndarray, k_new: np.ndarray) -> Moments:
    """Mean and variance of f at new scans; K_new is (n_new, n), k_new its prior variance."""
    v = solve_triangular(fit.cholesky, K_new.T, lower=True)
    return Moments(K_new @ fit.alpha, np.maximum(k_new - np.einsum("ij,ij->j", v, v), 0.0))


def leave_one_out(fit: Regression, y: np.ndarray) -> Moments:
    """Mean and variance (with noise) of each target given all others (eq. 5.12)."""
    diagonal = np.diag(inverse_from_factor(fit.cholesky))
    return Moments(y - fit.alpha / diagonal, 1.0 / diagonal)


def leave_groups_out(fit: Regression, y: np.ndarray, groups: np.ndarray) -> Moments:
    """Mean and variance (with noise) of each target given those of other groups."""
    precision = inverse_from_factor(fit.cholesky)
    mean, variance = np.empty(len(y)), np.empty(len(y))
    for group in np.unique(groups):
        i = np.flatnonzero(groups == group)
        block = np.linalg.inv(precision[np.ix_(i, i)])
        mean[i], variance[i] = y[i] - block @ fit.alpha[i], np.diag(block)
    return Moments(mean, variance)


def evidence_gradient(fit: Regression, dK: np.ndarray, noise: float) -> np.ndarray:
    """∂ log p/∂θ for each kernel derivative in dK (P, n, n), and last for log σ (eq. 5.9)."""
    inner = np.outer(fit.alpha, fit.alpha) - inverse_from_factor(fit.cholesky)
    kernel_part = 0.5 * np.einsum("ij,pij->p", inner, dK)
    return np.append(kernel_part, noise * np.trace(inner))


def spectrum(K0: np.ndarray, y: np.ndarray) -> Spectrum:
    """Eigendecompose K₀ once for all scales and noises."""
    values, vectors = eigh(K0)
    return Spectrum(np.maximum(values, 0.0), vectors.T @ y)


def without_mean(modes: Spectrum) -> Spectrum:
    """Without the direction that neither the kernel nor the targets have: a mean taken out.

    It holds no information, yet its −½ log σ² would reward a noise of zero. One direction at most
    is a mean; where others are silent too the kernel explains all of the targets.
    """
    silent = modes.values <= 1e-12 * modes.values.max()
    silent &= np.abs(modes.rotated) <= 1e-10 * np.linalg.norm(modes.rotated)
    if not silent.any() or silent.all():
        return modes
    mean = int(np.argmax(silent))
    return Spectrum(np.delete(modes.values, mean), np.delete(modes.rotated, mean))


def best_scale_and_noise(modes: Spectrum, ratios: tuple[float, float]) -> tuple[float, float]:
    """Global maximiser (log s, log σ) of the evidence with ρ = σ²/s² in the interval `ratios`."""

    def negative_profile(log_ratio: float) -> float:
        total = modes.values + np.exp(log_ratio)
        s2 = max(np.mean(modes.rotated**2 / total), np.finfo(float).tiny)
        return float(0.5 * (len(total) * np.log(s2) + np.log(total).sum()))

    # The profile may have two humps (all signal, all noise): look everywhere, then refine the best.
    grid = np.linspace(np.log(ratios[0]), np.log(ratios[1]), 65)
    # Where it is flat, as two scans leave it, nothing points to noise: rounding must not choose.
    profile = np.array([negative_profile(point) for point in grid])
    best = int(np.argmax(profile <= profile.min() + FLAT * len(modes.values)))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    log_ratio = float(minimize_scalar(negative_profile, bounds=around, method="bounded").x)
    s2 = np.mean(modes.rotated**2 / (modes.values + np.exp(log_ratio)))
    log_scale = 0.5 * float(np.log(max(s2, np.finfo(float).tiny)))
    return log_scale, log_scale + 0.5 * log_ratio


def noise_of_residuals(residual: np.ndarray, variance: np.ndarray) -> float:
    """σ² under which residuals of held-out targets, N(0, variance + σ²), are the most probable.

    Examples
    --------
    >>> import numpy as np
    >>> round(noise_of_residuals(np.array([1.0, -1.0, 3.0, -3.0]), np.full(4, 2.0)), 4)
    3.0
    """

    def negative(log_noise: float) -> float:
        total = variance + np.exp(log_noise)
        return float(0.5 * (residual**2 / total + np.log(total)).sum())

    largest = float(np.max(residual**2))
    if largest == 0.0:
        return 0.0
    # Beyond the largest square the density only falls; below a millionth of it σ² plays no part.
    grid = np.linspace(np.log(1e-6 * largest), np.log(largest), 29)
    best = int(np.argmin([negative(point) for point in grid]))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    options = {"xatol": 1e-9}
    return float(
        np.exp(minimize_scalar(negative, bounds=around, method="bounded", options=options).x)
    )
