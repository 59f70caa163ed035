"""Gaussian process classification of C classes by expectation propagation, multinomial probit.

    z_c = f_c(x) + e_c,  e_c ~ N(0, 1),  f_c ~ GP(0, K_c),  label = argmax_c z_c

is a probability of every labelling of the scans, so that its evidence weighs models, which the
evidences of C classes each against the rest do not. The posterior is taken independent over
classes: Gaussian sites τ̃_ic, ν̃_ic, updated all at once and damped. With the cavity N(m_c, v_c) of
one scan of class y,

    Z = E_{t ~ N(m_y, 1 + v_y)} ∏_{j≠y} Φ(z_j),  z_j = (t − m_j)/√(1 + v_j)       Gauss-Hermite
    g_j = −E_q[r(z_j)]/√(1 + v_j),   h_j = −E_q[z_j r(z_j)]/(1 + v_j) − g_j²      j ≠ y
    g_y = E_q[u]/√(1 + v_y),         h_y = (E_q[u²] − 1)/(1 + v_y) − g_y²
    site     τ̃ = −h/(1 + v h),   ν̃ = (g − m h)/(1 + v h)

with u = (t − m_y)/√(1 + v_y), r = N/Φ, g and h the first and second derivatives of log Z by m, and
q the nodes weighted by their part of Z. Evidence: Σ_i log Z_i, and per class the terms that sites
and cavities add in the binary algorithm. The prediction is the integral Z; log Z_i at the fixed
point are the log-probabilities of every scan given the labels of the others.

| symbol | variable | shape |
|---|---|---|
| y | `codes` | (n,) |
| m, v | `mean`, `variance` | (n, C) |
| g, h | `first`, `second` | (n, C) |
| τ̃, ν̃ | `tau`, `nu` | (n, C) |

Reference: M. Girolami, S. Rogers, Neural Computation 18 (2006) 1790-1817 (the likelihood);
M. Seeger, M. I. Jordan, Sparse Gaussian process classification with multiple classes, 2004 (EP
independent over classes); Rasmussen & Williams 2006, Alg. 3.5.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve
from scipy.special import log_ndtr, roots_hermitenorm, softmax

from voxprior.models.gaussian.ep import (
    LOG_ROOT_2PI,
    SITE_TOLERANCE,
    Marginals,
    Sites,
    marginals,
    site_evidence,
    steady,
    warn_unsettled,
)
from voxprior.models.gaussian.laplace import BinaryPosterior

NODES, _WEIGHTS = roots_hermitenorm(32)
LOG_WEIGHTS = np.log(_WEIGHTS / _WEIGHTS.sum())
MAX_ITERATIONS = 200
DAMPING = 0.7
Cavities = tuple[np.ndarray, np.ndarray]


class Tilted(NamedTuple):
    """Log normaliser (n,) of cavity times likelihood, and its derivatives (n, C) by the mean."""

    log_Z: np.ndarray
    first: np.ndarray
    second: np.ndarray


class MultinomialPosterior(NamedTuple):
    """Gaussian approximation of p(f | y), independent over classes: one posterior per class."""

    classes: list[BinaryPosterior]
    log_evidence: float
    log_Z: np.ndarray


def tilted(mean: np.ndarray, variance: np.ndarray, codes: np.ndarray) -> Tilted:
    """Normaliser of cavity times likelihood, and its derivatives.

    Examples
    --------
    >>> import numpy as np
    >>> at = tilted(np.array([[0.5, 0.0, -0.5]]), np.array([[1.0, 0.5, 2.0]]), np.array([0]))
    >>> at.log_Z.round(6), at.first.round(6)
    (array([-0.738322]), array([[ 0.453479, -0.276389, -0.17709 ]]))
    """
    own = np.arange(len(codes)), codes
    spread = np.sqrt(1.0 + variance)
    t = mean[own][:, None] + spread[own][:, None] * NODES
    z = (t[:, :, None] - mean[:, None, :]) / spread[:, None, :]
    log_cdf = log_ndtr(z)
    ratio = np.exp(-0.5 * z**2 - LOG_ROOT_2PI - log_cdf)
    # The class of the scan has no factor of its own in the product.
    log_cdf[own[0], :, codes] = 0.0
    log_parts = LOG_WEIGHTS + log_cdf.sum(axis=2)
    top = log_parts.max(axis=1)
    log_Z = top + np.log(np.exp(log_parts - top[:, None]).sum(axis=1))
    q = softmax(log_parts, axis=1)
    first = -np.einsum("ik,ikc->ic", q, ratio) / spread
    curve = -np.einsum("ik,ikc->ic", q, z * ratio) / spread**2
    first[own] = (q @ NODES) / spread[own]
    curve[own] = (q @ NODES**2 - 1.0) / spread[own] ** 2
    return Tilted(log_Z, first, curve - first**2)


def multinomial_probabilities(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Class probabilities (m, C) of latent values N(mean, variance), independent over classes.

    Examples
    --------
    >>> import numpy as np
    >>> multinomial_probabilities(
    ...     np.array([[0.5, 0.0, -0.5]]), np.array([[1.0, 0.5, 2.0]])
    ... ).round(6)
    array([[0.477915, 0.291039, 0.231046]])
    """
    codes = [np.full(len(mean), c) for c in range(mean.shape[1])]
    log_p = np.stack([tilted(mean, variance, code).log_Z for code in codes], axis=1)
    return softmax(log_p, axis=1)


def multinomial_propagation(
    K: np.ndarray, codes: np.ndarray, start: Sites | None = None, tolerance: float = SITE_TOLERANCE
) -> tuple[MultinomialPosterior, Sites]:
    """Posterior and evidence of the multinomial probit by EP.

    Parameters
    ----------
    K : array (n, n), shared by all classes, or (C, n, n)
    codes : array (n,)
        Class codes 0 .. C − 1.
    start : Sites, optional
        Sites (n, C) to start from, as found for a nearby kernel.
    tolerance : float
        Largest relative change of a site at which the rounds end.

    Examples
    --------
    >>> import numpy as np
    >>> fit, _ = multinomial_propagation(np.eye(3), np.array([0, 1, 2]))
    >>> bool(np.isclose(fit.log_evidence, 3 * np.log(1 / 3)))
    True
    """
    n, n_classes = len(codes), int(codes.max()) + 1 if K.ndim == 2 else len(K)
    kernels = [steady(K if K.ndim == 2 else K[c]) for c in range(n_classes)]
    tau, nu = (np.zeros((n, n_classes)) for _ in range(2)) if start is None else start
    ats = [marginals(k, tau[:, c], nu[:, c]) for c, k in enumerate(kernels)]
    for _ in range(MAX_ITERATIONS):
        new_tau, new_nu = _matched(_cavities(ats, tau, nu), codes, tau, nu)
        change = max(np.abs(new_tau - tau).max(), np.abs(new_nu - nu).max())
        tau, nu = tau + DAMPING * (new_tau - tau), nu + DAMPING * (new_nu - nu)
        ats = [marginals(k, tau[:, c], nu[:, c]) for c, k in enumerate(kernels)]
        if change <= tolerance * (1.0 + np.abs(tau).max()):
            break
    else:
        warn_unsettled(MAX_ITERATIONS, change)
    mean, variance = _cavities(ats, tau, nu)
    log_Z = tilted(mean, variance, codes).log_Z
    classes = [_posterior(k, ats[c], tau[:, c], nu[:, c]) for c, k in enumerate(kernels)]
    evidence = float(log_Z.sum() + sum(fit.log_evidence for fit in classes))
    return MultinomialPosterior(classes, evidence, log_Z), Sites(tau, nu)


def _cavities(ats: list[Marginals], tau: np.ndarray, nu: np.ndarray) -> Cavities:
    """Mean and variance (n, C) of every latent value without its own site."""
    mean = np.stack([at.mean for at in ats], axis=1)
    variance = np.stack([at.variance for at in ats], axis=1)
    precision = np.maximum(1.0 / variance - tau, np.finfo(float).tiny)
    return (mean / variance - nu) / precision, 1.0 / precision


def _matched(cavities: Cavities, codes: np.ndarray, tau: np.ndarray, nu: np.ndarray) -> Sites:
    """Sites that give the tilted moments; a site stays where rounding has left no cavity."""
    mean, variance = cavities
    at = tilted(mean, variance, codes)
    rest = 1.0 + variance * at.second
    good = (rest > 0.0) & np.isfinite(variance) & np.isfinite(mean)
    safe = np.where(good, rest, 1.0)
    new_tau = np.where(good, np.maximum(-at.second, 0.0) / safe, tau)
    return Sites(new_tau, np.where(good, (at.first - mean * at.second) / safe, nu))


def _posterior(K: np.ndarray, at: Marginals, tau: np.ndarray, nu: np.ndarray) -> BinaryPosterior:
    root = np.sqrt(tau)
    a = nu - root * cho_solve((at.cholesky, True), root * (K @ nu))
    return BinaryPosterior(a, root, at.cholesky, at.mean, site_evidence(0.0, at, tau, nu))
