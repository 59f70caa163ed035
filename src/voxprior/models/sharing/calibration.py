"""Probabilities that can be believed: how much evidence J dependent features really are.

Naive Bayes adds the evidence of J features as if they were independent and as if the class means
were known, so its posteriors are 0 or 1. Write θ̃_c = θ̂_c − θ̄ for the class contrasts, D_c for the
same of the sample means, and measure both in units of the variances. In truth the log-likelihood
ratio of a new scan is less informative than it claims, by

    b = min(1, (Σ_c θ̃_c·D_c − n_h) / Σ_c |θ̃_c|², (Σ_c |D_c|² − n_1) / Σ_c |θ̃_c|²)   attenuation
        n_h = q (1 − 1/C) Σ_c Σ_j h_cj/N_c,   h = ∂θ̂/∂X̄,   n_1 the same with h = 1
    r = max(1, (√J + ν₀ r_e + d r_d) / (1 + ν₀ + d))                        overdispersion
        r_d = Σ_i Σ_c (e_i·θ̃_c)² / (d Σ_c |θ̃_c|²)       noise along the class contrasts
        r_e = tr Σ² / tr Σ = J/J_eff (tr Σ/J)            noise along a contrast that is all noise

Part of a contrast fitted to N examples is their noise. The first fraction of b is Stein's identity,
right when voxels have independent noise; the second takes the signal to be as smooth as the groups
assume, and is right when neighbours share noise, which sharing means cannot remove. Without sharing
both are the James-Stein factor. q is the mean of σ²/σ̂².

r_d is measured with d = N − C residuals e_i. Below five examples per class that is little, so two
prior guesses join it: r_e, from the effective number of features J_eff = (tr Σ)²/tr Σ², worth
ν₀ = 2 residuals, and √J, what images of J voxels are like before any is seen, worth one. tr Σ² is
unbiased for Gaussian residuals:

    tr Σ² ≈ d² / ((d − 1)(d + 2)) (tr S² − (tr S)²/d),    S = Σ_i e_i e_iᵀ / d

A log-likelihood gap g to the best class is worth κ g = (b/r) g. Because r rests on few residuals,
the predictive distribution in the k = C − 1 contrast dimensions is Student's with ν = ν₀ + d:

    log p(x|c) = −(ν + k)/2 log(1 + 2 κ g_c/(ν + k)) + const       (→ −κ g_c as ν → ∞)

With one example per class there are no residuals. Evidence along class contrasts of mean squared
distance D then counts κ = w/D with w = 12 and ν = ν₀: w = 8, 12 and 16 gave .700, .709 and .721
nats on two classes of noise (chance .693), and 1.40, 1.32 and 1.26 on five fingers (chance 1.61).

The order of the classes does not change. Sums over pairs of features need only a random sample of
the features: the diagonal part grows with J/m, the rest with J(J−1)/(m(m−1)).

| symbol | variable | shape |
|---|---|---|
| x at m of the features, the excerpt | `examples` | (n, m) |
| e = x − X̄ of its class, in standard deviations | `residuals` | (n, m) |
| θ̃, class contrasts, in standard deviations | `contrasts` | (C, m) |
| h, weight of its own sample mean in θ̂ | `own` | (C, J) |
| q, mean of σ²/σ̂² | `inflation` | scalar |
| d, ν, degrees of freedom of the residuals, of the Student | `degrees`, `nu` | scalars |
| κ, weight of one nat; 1/κ is the temperature | `kappa` | scalar |
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit, prange

from voxprior.algebra import launch
from voxprior.errors import InputError, option
from voxprior.models.sharing.statistics import ClassStatistics
from voxprior.models.sharing.variances import one_of_each

_BLOCK = 1024
# Number of residuals that the effective number of features counts for as a prior on the
# overdispersion.
PRIOR_DEGREES = 2.0
# Weight of the evidence along contrasts of unit length, where every class has one example.
LONE_WORTH = 12.0
# A contrast that is all noise still counts this much: below it the estimate is the larger error.
SMALLEST_ATTENUATION = 0.02
# Features looked at in pairs: 2048 give two million pairs, more than the residuals can tell apart.
EXCERPT_SIZE = 2048


class Calibration(NamedTuple):
    """Weight κ of a nat, degrees of freedom ν and dimension k of the Student predictive."""

    kappa: float
    nu: float
    dimension: int


class Excerpt(NamedTuple):
    """Examples (n, m) at a sample of the features, and their class numbers (n,)."""

    examples: np.ndarray
    codes: np.ndarray


def excerpt_of(X: np.ndarray, codes: np.ndarray) -> Excerpt:
    """The part of the examples that calibration looks at; ``X`` may be mapped or a dask array.

    Examples
    --------
    >>> import numpy as np
    >>> excerpt_of(np.zeros((4, 10_000)), np.array([0, 1, 0, 1])).examples.shape
    (4, 2048)
    """
    return Excerpt(np.asarray(X[:, excerpt_features(X.shape[1])]), np.asarray(codes))


def join_excerpts(a: Excerpt, b: Excerpt) -> Excerpt:
    """The examples of both excerpts."""
    return Excerpt(np.concatenate([a.examples, b.examples]), np.concatenate([a.codes, b.codes]))


def remove_excerpt(whole: Excerpt, part: Excerpt) -> Excerpt:
    """``whole`` without the rows of ``part``, each of which must be in it.

    Examples
    --------
    >>> import numpy as np
    >>> whole = Excerpt(np.array([[1.0], [2.0], [3.0]]), np.array([0, 1, 1]))
    >>> remove_excerpt(whole, Excerpt(np.array([[2.0]]), np.array([1]))).examples.ravel()
    array([1., 3.])
    """
    keep = np.ones(len(whole.examples), dtype=bool)
    for row, code in zip(*part):
        seen = keep & (whole.codes == code) & (whole.examples == row).all(axis=1)
        if not seen.any():
            raise InputError(
                "Cannot forget an example that was never learned",
                remedy="Pass exactly the values and labels that were given to fit or partial_fit",
            )
        keep[np.flatnonzero(seen)[0]] = False
    return Excerpt(whole.examples[keep], whole.codes[keep])


def calibrate(
    excerpt: Excerpt,
    statistics: ClassStatistics,
    theta: np.ndarray,
    var: np.ndarray,
    own: np.ndarray,
    inflation: float = 1.0,
    features: np.ndarray | None = None,
) -> Calibration:
    """κ and ν of a fitted model, from its own training examples.

    Parameters
    ----------
    excerpt : Excerpt
        The training examples at `features`.
    statistics : ClassStatistics
        Counts and sample means.
    theta, var, own : arrays of shape (C, J)
        Shared means, variances, and the weight its own sample mean has in each of ``theta``.
    inflation : float
        The mean of σ²/σ̂².
    features : array of int, optional
        Those of :func:`excerpt_features` by default.
    """
    count = statistics.count
    degrees = int(count.sum()) - len(count)
    if one_of_each(count):
        return Calibration(LONE_WORTH / contrast_length(theta, var), PRIOR_DEGREES, len(count) - 1)
    if degrees < 1:
        raise InputError(
            f"{option('calibration', 'effective')} has nothing to learn from",
            expected="more examples than classes",
            got=f"{count.sum()} examples of {len(count)} classes",
            remedy=f"Use {option('calibration', None)}",
        )
    features = excerpt_features(theta.shape[1]) if features is None else features
    scale = np.sqrt(var[:, features].mean(axis=0))
    residuals = statistics.mean[:, features][excerpt.codes]
    np.subtract(excerpt.examples, residuals, out=residuals)
    residuals /= scale
    contrasts = (theta[:, features] - theta[:, features].mean(axis=0)) / scale
    r = overdispersion(residuals, contrasts, degrees, theta.shape[1])
    b = attenuation(theta, statistics.mean, own, var, count, inflation)
    return Calibration(b / r, PRIOR_DEGREES + degrees, len(count) - 1)


def contrast_length(theta: np.ndarray, var: np.ndarray) -> float:
    """D, the mean squared distance between class means in units of the variances; 1 if they agree.

    >>> contrast_length(np.array([[1.0, 2.0], [3.0, 2.0]]), np.full((2, 2), 2.0))
    2.0
    """
    contrasts = theta - theta.mean(axis=0)
    length = 2 * float((contrasts**2 / var).sum()) / (len(theta) - 1)
    return length if length > 0 else 1.0


@lru_cache(maxsize=8)
def excerpt_features(n_features: int) -> np.ndarray:
    """The features kept for calibration: all, or a random sample that only depends on their number.

    Examples
    --------
    >>> len(excerpt_features(100)), len(excerpt_features(10**6))
    (100, 2048)
    """
    if n_features <= EXCERPT_SIZE:
        kept = np.arange(n_features)
    else:
        kept = np.sort(np.random.default_rng(0).choice(n_features, EXCERPT_SIZE, replace=False))
    kept.flags.writeable = False  # it is remembered
    return kept


def attenuation(
    theta: np.ndarray,
    means: np.ndarray,
    own: np.ndarray,
    var: np.ndarray,
    count: np.ndarray,
    inflation: float = 1.0,
) -> float:
    """b: the share of the fitted class contrasts that is not the noise of the examples.

    Examples
    --------
    Two classes of two examples, contrasts of squared length 8 of which 1/2 + 1/2 is noise:

    >>> import numpy as np
    >>> means = np.array([[2.0, 0.0], [-2.0, 0.0]])
    >>> ones = np.ones((2, 2))
    >>> attenuation(means, means, ones, ones, np.array([2, 2]))
    0.875
    """
    C, J = theta.shape
    sums = np.empty((-(-J // _BLOCK), 4))
    sizes = count.astype(float)
    launch(_contrast_sums, 8 * theta.size, theta, means, own, var, sizes, sums)
    length, overlap, sample, kept = sums.sum(axis=0)
    if length <= 0:
        return 1.0
    unit = inflation * (1 - 1 / C)
    stein = overlap - unit * kept
    smooth = sample - unit * J * (1 / count).sum()
    return float(np.clip(min(stein, smooth) / length, SMALLEST_ATTENUATION, 1.0))


@njit(cache=True, parallel=True)
def _contrast_sums(theta, means, own, var, count, sums):
    """Σ |θ̃|², Σ θ̃·D, Σ |D|² and Σ h/N by blocks of features, whatever the number of threads."""
    C, J = theta.shape
    for block in prange(sums.shape[0]):
        length, overlap, sample, kept = 0.0, 0.0, 0.0, 0.0
        for j in range(block * _BLOCK, min(J, (block + 1) * _BLOCK)):
            theta_bar, mean_bar, variance = 0.0, 0.0, 0.0
            for c in range(C):
                theta_bar += theta[c, j] / C
                mean_bar += means[c, j] / C
                variance += var[c, j] / C
                kept += own[c, j] / count[c]
            for c in range(C):
                contrast, difference = theta[c, j] - theta_bar, means[c, j] - mean_bar
                length += contrast * contrast / variance
                overlap += contrast * difference / variance
                sample += difference * difference / variance
        sums[block, 0], sums[block, 1] = length, overlap
        sums[block, 2], sums[block, 3] = sample, kept


def overdispersion(
    residuals: np.ndarray, contrasts: np.ndarray, degrees: int, n_features: int
) -> float:
    """r: how much more a score varies than independent features of unit variance would let it.

    Parameters
    ----------
    residuals : array of shape (n, m)
        Standardised residuals of the examples about their class means, at m of the features.
    contrasts : array of shape (C, m)
        Standardised class contrasts at the same features.
    degrees : int
        Degrees of freedom d = n - C of the residuals.
    n_features : int
        J, the number of features that the model sums over.

    Examples
    --------
    A hundred copies of one feature count as one:

    >>> import numpy as np
    >>> e = np.random.default_rng(0).normal(size=(50, 1))
    >>> r = overdispersion(np.repeat(e - e.mean(), 100, axis=1), np.ones((1, 100)), 49, 100)
    >>> 60 < r < 140
    True
    """
    n, m = residuals.shape
    # Both products have the same trace, and so have their squares; the smaller one is made.
    S = (residuals @ residuals.T if n <= m else residuals.T @ residuals) / degrees
    base = np.trace(S) / m
    growth = (n_features - 1) / (m - 1) if m > 1 else 1.0
    length = (contrasts**2).sum()
    if base <= 0 or length <= 0:
        return 1.0
    r_d = ((residuals @ contrasts.T) ** 2).sum() / (degrees * length)
    r_d = max(base + growth * (r_d - base), 0.0)
    r_e = r_d  # one residual has nothing but itself to compare with
    if degrees > 1:
        d = degrees
        square = d * d / ((d - 1) * (d + 2)) * ((S**2).sum() - np.trace(S) ** 2 / d)
        ratio = max(m * square / np.trace(S) ** 2, 1.0)  # m / J_eff of the excerpt
        r_e = base * (1 + growth * (ratio - 1))
    guesses = np.sqrt(n_features) + PRIOR_DEGREES * r_e
    return max(1.0, float((guesses + degrees * r_d) / (1 + PRIOR_DEGREES + degrees)))


def tempered(log_likelihood: np.ndarray, calibration: Calibration) -> np.ndarray:
    """Student log-likelihoods (n, C), relative to each scan's best class.

    Examples
    --------
    >>> import numpy as np
    >>> many = Calibration(kappa=0.5, nu=1e9, dimension=1)
    >>> tempered(np.array([[0.0, -4.0]]), many).round(6)
    array([[-0., -2.]])
    >>> few = Calibration(kappa=0.5, nu=3.0, dimension=1)
    >>> tempered(np.array([[0.0, -4.0]]), few).round(6)
    array([[-0.      , -1.386294]])
    """
    gap = log_likelihood.max(axis=1, keepdims=True) - log_likelihood
    total = calibration.nu + calibration.dimension
    return -0.5 * total * np.log1p(2 * calibration.kappa * gap / total)
