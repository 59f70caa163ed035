"""Binary Gaussian process classification by expectation propagation, probit likelihood.

Each likelihood Φ(y_i f_i) is replaced by an unnormalised Gaussian site with natural parameters
τ̃_i, ν̃_i, chosen so that the moments of cavity × likelihood equal those of cavity × site:

    cavity   τ₋ = 1/Σ_ii − τ̃_i,  ν₋ = μ_i/Σ_ii − ν̃_i,  μ₋ = ν₋/τ₋,  σ₋² = 1/τ₋
    tilted   z = y μ₋/√(1 + σ₋²),  r = N(z)/Φ(z)
             μ̂ = μ₋ + y σ₋² r/√(1 + σ₋²),   σ̂² = σ₋² − σ₋⁴ r (z + r)/(1 + σ₋²)
    site     τ̃ = 1/σ̂² − τ₋,  ν̃ = μ̂/σ̂² − ν₋          then a rank-one update of Σ and μ
    B = I + S̃^½ K S̃^½ = L Lᵀ,   b = ν̃ − S̃^½ B⁻¹ S̃^½ K ν̃,   ∂ log Z = ½ bᵀK'b − ½ tr(S̃^½B⁻¹S̃^½ K')

| symbol | variable | shape |
|---|---|---|
| y | `sign` | (n,) |
| τ̃, ν̃ | `tau`, `nu` | (n,) |
| Σ, μ | `Sigma`, `mu` | (n, n), (n,) |
| b | `a` | (n,) |

Predictions (Alg. 3.6) have the form of Laplace's: `voxprior.models.gaussian.laplace.latent_moments`
with the sites in the place of W.

Reference: Rasmussen & Williams 2006, Alg. 3.5 and 3.6, eqs 3.73-3.75.
"""

import math
import warnings
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.lapack import dtrtri
from scipy.special import log_ndtr
from sklearn.exceptions import ConvergenceWarning

from voxprior.models.gaussian.covariance import cholesky_factor
from voxprior.models.gaussian.laplace import BinaryPosterior, site_matrix

LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)
# All sites at once cost one Cholesky factor and nearly always converge; where they have not after
# this many rounds, sites are visited one after the other as printed. The fixed point is the same.
MAX_PARALLEL = 60
MAX_ITERATIONS = 200
SITE_TOLERANCE = 1e-8
# While climbing: the evidence is stationary in the sites and does not feel this; more would leave
# gradients too rough for the line search.
CLIMB_TOLERANCE = 1e-6
WEAK_SITE = 1e-3
# Of a kernel that is zero throughout: its inverse is still finite.
LEAST_VARIANCE = 1e-100
SMALL_FACTOR = 128


class Sites(NamedTuple):
    """Natural parameters of the Gaussian sites."""

    tau: np.ndarray
    nu: np.ndarray


def expectation_propagation(
    K: np.ndarray,
    sign: np.ndarray,
    start: Sites | None = None,
    tolerance: float = SITE_TOLERANCE,
) -> tuple[BinaryPosterior, Sites]:
    """Posterior and evidence by EP (Alg. 3.5).

    Parameters
    ----------
    K : array (n, n)
    sign : array (n,) of −1 and +1
    start : Sites, optional
        Sites to start from, as found for a nearby kernel.
    tolerance : float
        Largest relative change of a site at which the rounds end.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1, 0], [0.5, 1], [-1, 0.5], [-0.5, -1]])
    >>> fit, _ = expectation_propagation(X @ X.T + 1, np.array([1, -1, -1, 1]))
    >>> round(fit.log_evidence, 6)
    -2.840314
    """
    n = len(sign)
    sign = np.ascontiguousarray(sign, dtype=np.float64)
    K = steady(K)
    tau = np.zeros(n) if start is None else start.tau.copy()
    nu = np.zeros(n) if start is None else start.nu.copy()
    at = marginals(K, tau, nu)
    for iteration in range(MAX_ITERATIONS):
        before_tau, before_nu = tau.copy(), nu.copy()
        if iteration < MAX_PARALLEL:
            _parallel(at, tau, nu, sign)
        else:
            V = solve_triangular(at.cholesky, np.sqrt(tau)[:, None] * K, lower=True)
            _sweep(K - V.T @ V, at.mean.copy(), tau, nu, sign)
        # Rank-one updates gather rounding error: all is rebuilt after every round (line 15).
        at = marginals(K, tau, nu)
        change = max(np.abs(tau - before_tau).max(), np.abs(nu - before_nu).max())
        if change <= tolerance * (1.0 + np.abs(tau).max()):
            break
    else:
        warn_unsettled(MAX_ITERATIONS, change)
    root = np.sqrt(tau)
    a = nu - root * cho_solve((at.cholesky, True), root * (K @ nu))
    log_evidence = _log_evidence(at, tau, nu, sign)
    return BinaryPosterior(a, root, at.cholesky, at.mean, log_evidence), Sites(tau, nu)


def steady(K: np.ndarray) -> np.ndarray:
    """K with a trace of noise: without prior variance a scan has an infinitely sharp cavity."""
    return K + 1e-12 * max(float(np.diag(K).max()), LEAST_VARIANCE) * np.eye(len(K))


def warn_unsettled(n_rounds: int, change: float) -> None:
    """Warn the caller of the propagation that its sites still move."""
    warnings.warn(
        f"Expectation propagation did not settle in {n_rounds} rounds (last change {change:.2g}); "
        "lower the kernel scale or use inference='laplace'.",
        ConvergenceWarning,
        stacklevel=3,
    )


class Marginals(NamedTuple):
    """Mean and variance of every latent value, and the factor L of B."""

    mean: np.ndarray
    variance: np.ndarray
    cholesky: np.ndarray


def marginals(K: np.ndarray, tau: np.ndarray, nu: np.ndarray) -> Marginals:
    """Mean and diagonal of Σ = K − K S̃^½B⁻¹S̃^½ K without forming it.

    S̃^½ΣS̃^½ = I − B⁻¹ gives Σ_ii = (1 − [B⁻¹]_ii)/τ̃_i from the inverse of L alone; where a site is
    too weak for that difference, Σ_ii is computed as it is written.
    """
    root, prior = np.sqrt(tau), np.diag(K)
    B = K * root
    B *= root[:, None]
    B.flat[:: len(tau) + 1] += 1.0
    L = cholesky_factor(B)
    inverse = inverse_of_factor(L)
    weak = tau * prior < WEAK_SITE
    variance = (1.0 - np.einsum("ij,ij->j", inverse, inverse)) / np.where(weak, 1.0, tau)
    V = inverse @ (root[:, None] * K[:, weak])
    variance[weak] = prior[weak] - np.einsum("ij,ij->j", V, V)
    Knu = K @ nu
    mean = Knu - K @ (root * (inverse.T @ (inverse @ (root * Knu))))
    return Marginals(mean, variance, L)


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


def _parallel(at: Marginals, tau, nu, sign) -> None:
    """Lines 5 to 9 for all sites at once, in place."""
    tau_cavity = 1.0 / at.variance - tau
    nu_cavity = at.mean / at.variance - nu
    s2, m = 1.0 / tau_cavity, nu_cavity / tau_cavity
    z = sign * m / np.sqrt(1.0 + s2)
    r = np.exp(-0.5 * z**2 - LOG_ROOT_2PI - log_ndtr(z))
    mean = m + sign * s2 * r / np.sqrt(1.0 + s2)
    variance = s2 - s2**2 * r * (z + r) / (1.0 + s2)
    good = tau_cavity > 0.0
    tau[good] = np.maximum(1.0 / variance - tau_cavity, 0.0)[good]
    nu[good] = (mean / variance - nu_cavity)[good]


@njit(cache=True)
def _normal_ratio(z):
    """φ(z)/Φ(z), by its continued fraction far in the lower tail where Φ underflows."""
    if z > -30.0:
        return math.exp(-0.5 * z * z) * math.sqrt(2.0 / math.pi) / math.erfc(-z / math.sqrt(2.0))
    x = -z
    tail = x
    for k in range(12, 0, -1):
        tail = x + k / tail
    return tail


@njit(cache=True)
def _sweep(Sigma, mu, tau, nu, sign):
    """Lines 4 to 13: visit every site once, updating Σ and μ by rank one."""
    n = len(sign)
    column = np.empty(n)
    for i in range(n):
        tau_cavity = 1.0 / Sigma[i, i] - tau[i]
        nu_cavity = mu[i] / Sigma[i, i] - nu[i]
        if tau_cavity <= 0.0:
            continue
        s2, m = 1.0 / tau_cavity, nu_cavity / tau_cavity
        z = sign[i] * m / math.sqrt(1.0 + s2)
        r = _normal_ratio(z)
        mean = m + sign[i] * s2 * r / math.sqrt(1.0 + s2)
        variance = s2 - s2 * s2 * r * (z + r) / (1.0 + s2)
        tau_new = max(1.0 / variance - tau_cavity, 0.0)
        delta = tau_new - tau[i]
        nu_new = mean / variance - nu_cavity
        change = nu_new - nu[i]
        tau[i], nu[i] = tau_new, nu_new
        factor = delta / (1.0 + delta * Sigma[i, i])
        gain = change - factor * (mu[i] + change * Sigma[i, i])
        for j in range(n):
            column[j] = Sigma[j, i]
        for j in range(n):
            mu[j] += gain * column[j]
            scaled = factor * column[j]
            for k in range(n):
                Sigma[j, k] -= scaled * column[k]


def _log_evidence(at: Marginals, tau, nu, sign) -> float:
    """Evidence log Z_EP (eqs 3.73 to 3.75)."""
    tau_cavity = 1.0 / at.variance - tau
    mu_cavity = (at.mean / at.variance - nu) / tau_cavity
    z = sign * mu_cavity / np.sqrt(1.0 + 1.0 / tau_cavity)
    return site_evidence(log_ndtr(z).sum(), at, tau, nu)


def site_evidence(log_Z: float, at: Marginals, tau, nu) -> float:
    """Σ log Z_i and what sites and cavities add to it, in the form that stays finite as τ̃ → 0."""
    tau_cavity = 1.0 / at.variance - tau
    mu_cavity = (at.mean / at.variance - nu) / tau_cavity
    total = tau + tau_cavity
    fit = log_Z + 0.5 * np.log1p(tau / tau_cavity).sum() - np.log(np.diag(at.cholesky)).sum()
    quadratic = 0.5 * (nu @ at.mean - (nu**2 / total).sum())
    cavity = 0.5 * (mu_cavity * tau_cavity / total * (tau * mu_cavity - 2.0 * nu)).sum()
    return float(fit + quadratic + cavity)


def ep_gradient(posterior: BinaryPosterior, dK: np.ndarray) -> np.ndarray:
    """∂ log Z/∂θ for every kernel derivative in dK (P, n, n) (eq. 5.27); sites do not move it."""
    inner = np.outer(posterior.a, posterior.a) - site_matrix(posterior)
    return 0.5 * np.einsum("ij,pij->p", inner, dK)
