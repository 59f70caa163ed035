"""Training scans left out without a refit: what their labels say about a Gaussian process.

**Left-out moments.** A Gaussian posterior has one site per scan, τ̃_i, ν̃_i = τ̃_i f_i + a_i. Without
the site of one scan, or the sites of a group of scans g (o: all others),

    σ²₋ = 1/(1/V_ii − τ̃_i),   μ₋ = f_i − σ²₋ a_i                 f_i given all other labels
    A = K_oo + T_o⁻¹:   μ₋ = K_io A⁻¹T_o⁻¹ν̃_o,   σ²₋ = K_ii − K_io A⁻¹K_oi    given labels of o

and for the softmax, whose site of a scan is W_i (C, C): V₋ = (I − S_iW_i)⁻¹S_i, μ₋ = f_i − V₋a_i.
Their log-probability L = Σ_i log p(y_i | others) compares models that have no evidence in common.
Scans centred by run must be left out by run: each of them is minus the sum of its run.

**Unseen variance.** With voxels ≫ scans a new scan lies mostly in directions that no training scan
has. The share of the prior variance there that counts is a number ρ:

    k_** = seen + ρ · unseen          seen = G_* G⁺ G_*ᵀ, the part in the span of the training scans

An isotropic prior of the weights (ρ = 1) blurs every probability, and ρ = 0 may be overconfident. ρ
is chosen by leaving scans out:

    unseen_i = 1/[K⁻¹]_ii, or K_ii − K_io K_oo⁻¹K_oi        prior variance of f_i given all other f
    ρ = argmax Σ_i log p(y_i | μ₋, σ²₋ − (1 − ρ) unseen_i)    normalised over classes

Where scans lie in the span of the others (centred within runs) nothing depends on ρ, and it is 0.

**Power.** p_α(c) ∝ p(c)^α is averaged over the posterior of α given the left-out scans,
log α ~ N(0, 1): how far the scale chosen by evidence can be trusted.

| symbol | variable | shape |
|---|---|---|
| V_ii, posterior variance of f_i | `variance` | (n,) |
| μ₋, σ²₋ | `LeftOut.mean`, `LeftOut.variance` | (n,) |
| S_i, W_i, V₋ | `S`, `W`, `covariance` | (n, C, C) |
| ρ | `rho` | scalar |
| log α | `LOG_POWERS` | (37,) |

Reference: Rasmussen & Williams 2006, section 5.4.2 (leave-one-out) and eq. 3.56 (cavity).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import log_softmax, softmax

from voxprior.algebra import floored_log
from voxprior.models.gaussian.covariance import cholesky_factor
from voxprior.models.gaussian.laplace import (
    BinaryPosterior,
    SoftmaxMoments,
    SoftmaxPosterior,
    site_factors,
    site_matrix,
    softmax_marginals,
    softmax_moments,
    softmax_target,
)

# Relative eigenvalues below this are rounding: no training scan has their directions.
SPAN_TOLERANCE = 1e-9
# Values of ρ tried, denser near 0 where probabilities change fastest.
RHOS = np.linspace(0.0, 1.0, 21) ** 2
LOG_POWERS = np.linspace(-1.5, 3.0, 37)
# (mean, variance) of latent values to class probabilities (n, C).
Probabilities = Callable[[np.ndarray, np.ndarray], np.ndarray]


def pseudo_inverse_root(gram: np.ndarray) -> np.ndarray:
    """Root T (n, r) with T Tᵀ = G⁺: |G_* T|² is the part of a squared norm that training has seen.

    Examples
    --------
    >>> import numpy as np
    >>> pseudo_inverse_root(np.diag([4.0, 0.0]))
    array([[0.5],
           [0. ]])
    """
    values, vectors = np.linalg.eigh(gram)
    keep = values > SPAN_TOLERANCE * max(values[-1], 0.0)
    return vectors[:, keep] / np.sqrt(values[keep])


class LeftOut(NamedTuple):
    """Moments of every training latent value given the labels of all others."""

    mean: np.ndarray
    variance: np.ndarray
    unseen: np.ndarray


def left_out(
    posterior: BinaryPosterior, K: np.ndarray, groups: np.ndarray | None = None
) -> LeftOut:
    """Moments of scans given the labels of all others, or of other groups; no refit.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.models.gaussian.ep import expectation_propagation
    >>> posterior, _ = expectation_propagation(np.eye(2), np.array([1.0, -1.0]))
    >>> left_out(posterior, np.eye(2)).mean.round(6) + 0.0
    array([0., 0.])
    """
    if groups is not None:
        return _without_groups(posterior, K, groups)
    K_R = K @ site_matrix(posterior)
    variance = np.maximum(np.diag(K) - np.einsum("ij,ij->i", K_R, K), np.finfo(float).tiny)
    cavity = 1.0 / np.maximum(1.0 / variance - posterior.root**2, np.finfo(float).tiny)
    return LeftOut(posterior.f - cavity * posterior.a, cavity, unseen_variances(K))


def unseen_variances(K: np.ndarray, groups: np.ndarray | None = None) -> np.ndarray:
    """Prior variance (n,) of every latent value given all others, or those of other groups."""
    # A scan within the span of the others has no variance left; this keeps the inverse finite.
    small = 1e-9 * float(np.mean(np.diag(K))) + np.finfo(float).tiny
    steady = K + small * np.eye(len(K))
    if groups is None:
        return np.maximum(1.0 / np.diag(np.linalg.inv(steady)) - small, 0.0)
    unseen = np.empty(len(K))
    for i, o in _splits(groups):
        V = solve_triangular(cholesky_factor(steady[np.ix_(o, o)]), K[np.ix_(o, i)], lower=True)
        unseen[i] = np.diag(K)[i] - np.einsum("ij,ij->j", V, V)
    return np.maximum(unseen, 0.0)


def _splits(groups: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Scans of each group, and all others."""
    for group in np.unique(groups):
        yield np.flatnonzero(groups == group), np.flatnonzero(groups != group)


def _without_groups(posterior: BinaryPosterior, K: np.ndarray, groups: np.ndarray) -> LeftOut:
    nu = posterior.a + posterior.root**2 * posterior.f
    mean, variance = np.empty(len(K)), np.empty(len(K))
    for i, o in _splits(groups):
        root, K_oo, K_oi = posterior.root[o], K[np.ix_(o, o)], K[np.ix_(o, i)]
        L = cholesky_factor(np.eye(len(o)) + root[:, None] * K_oo * root)
        a = nu[o] - root * cho_solve((L, True), root * (K_oo @ nu[o]))
        V = solve_triangular(L, root[:, None] * K_oi, lower=True)
        mean[i] = K_oi.T @ a
        variance[i] = np.diag(K)[i] - np.einsum("ij,ij->j", V, V)
    return LeftOut(mean, np.maximum(variance, 0.0), unseen_variances(K, groups))


def softmax_left_out(
    posterior: SoftmaxPosterior, K: np.ndarray, onehot: np.ndarray, groups: np.ndarray | None
) -> SoftmaxMoments:
    """Moments (n, C), (n, C, C) of scans given the labels of all others, or of other groups."""
    p = softmax(posterior.f, axis=1)
    if groups is not None:
        return _softmax_without_groups(posterior, K, onehot, p, groups)
    S = softmax_marginals(posterior, K)
    W = np.einsum("ic,cd->icd", p, np.eye(p.shape[1])) - np.einsum("ic,id->icd", p, p)
    covariance = np.linalg.solve(np.eye(p.shape[1]) - S @ W, S)
    return SoftmaxMoments(
        posterior.f - np.einsum("icd,id->ic", covariance, posterior.a), covariance
    )


def _softmax_without_groups(posterior, K, onehot, p, groups) -> SoftmaxMoments:
    n, n_classes = p.shape
    mean, covariance = np.empty((n, n_classes)), np.empty((n, n_classes, n_classes))
    own = np.einsum("...ii->...i", K)
    for i, o in _splits(groups):
        K_oo, K_io = K[..., o[:, None], o], K[..., i[:, None], o]
        E, M, _ = site_factors(K_oo, p[o])
        a = softmax_target(K_oo, onehot[o], posterior.f[o], p[o], E, M)
        rest = SoftmaxPosterior(a, E, M, posterior.f[o], 0.0)
        mean[i], covariance[i] = softmax_moments(rest, K_io, own[..., i])
    return SoftmaxMoments(mean, covariance)


def choose_unseen_variance(
    outs: Sequence[LeftOut], codes: np.ndarray, probabilities: Probabilities
) -> float:
    """ρ of the highest left-out log-likelihood; the smallest of equals.

    One problem for two classes, or one per class; all have the same ρ, because blurring them
    unequally would change which class is the most probable.
    """
    values = [left_out_log_p(outs, codes, probabilities, rho)[1] for rho in RHOS]
    good = np.array(values) >= max(values) - 1e-6
    return float(RHOS[np.argmax(good)])


def left_out_log_p(
    outs: Sequence[LeftOut], codes: np.ndarray, probabilities: Probabilities, rho: float
) -> tuple[np.ndarray, float]:
    """Log-probabilities (n, C) of left-out scans at ρ, and their sum over the true classes."""
    mean, variance, unseen = (np.stack(parts, axis=1) for parts in zip(*outs))
    if len(outs) == 1:
        mean, variance, unseen = mean[:, 0], variance[:, 0], unseen[:, 0]
    blurred = np.maximum(variance - (1.0 - rho) * unseen, 0.0)
    log_p = floored_log(probabilities(mean, blurred))
    return log_p, float(log_p[np.arange(len(codes)), codes].sum())


def power_posterior(log_p: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Posterior (37,) of the power α on its grid, given left-out log-probabilities (n, C).

    Examples
    --------
    Ten scans, all right, with odds of 2 to 1: a higher power is likely.

    >>> import numpy as np
    >>> weights = power_posterior(np.log([[2 / 3, 1 / 3]] * 10), np.zeros(10, dtype=int))
    >>> bool(weights @ LOG_POWERS > 0.5)
    True
    """
    log_each = log_softmax(np.exp(LOG_POWERS)[:, None, None] * log_p, axis=2)
    fit = log_each[:, np.arange(len(codes)), codes].sum(axis=1)
    return softmax(fit - 0.5 * LOG_POWERS**2)


def powered(log_p: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Class probabilities averaged over the power, rows summing to 1.

    Examples
    --------
    >>> import numpy as np
    >>> powered(np.log([[0.5, 0.5]]), np.full(37, 1 / 37)).round(6)
    array([[0.5, 0.5]])
    """
    each = softmax(np.exp(LOG_POWERS)[:, None, None] * log_p, axis=2)
    return np.tensordot(weights, each, axes=1)
