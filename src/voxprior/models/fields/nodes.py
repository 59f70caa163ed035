"""The nodes of a field: score every feature by the class, keep the best, standardise them.

Everything is learned from training scans alone. A feature's score is how much information it alone
has about the class.

Correlation with the label (A.3)-(A.5), in absolute value. For C > 2 classes it becomes the
correlation ratio √(between-class sum of squares / total sum of squares), which for two classes is
|ρ̂| itself. ``signed_correlation`` is ρ̂ with the second of two classes as +1: with a smallest score
it is the rule ρ̂ ≥ ρ_Th as printed (A.5), which keeps only features that are higher in that class.

Gaussian mutual information (A.6)-(A.12), classes weighted alike. With p_θ = N(μ_θ, s_θ²) and a
marginal p̄,

    I = (1/C) Σ_θ Σ_j p_θ(x_j) log(p_θ(x_j) / p̄(x_j))                              (A.10)

where the support is the k training values and every density is renormalised to sum to one over them
(A.11). The marginal as printed is Gaussian with the mean of the class means (A.8c) and the variance
Σ_θ (k_θ−1) s_θ² / (k−1) (A.8d), which is neither the pooled nor the total one. Three sound variants
are offered: ``total`` puts the total sample variance in its place; ``mixture`` takes p̄ = (1/C) Σ
p_θ, the true information of the discretised model; ``continuous`` is the information between the
class and the Gaussian mixture, by quadrature.

| symbol | variable | shape |
|---|---|---|
| x_j, training scans | `X` | (k, m) |
| θ, class of each scan, 0 .. C−1 | `codes` | (k,) |
| μ_θ, class means (A.8a) | `mean` | (C, m) |
| s_θ², class variances, divisor k_θ − 1 (A.8b) | `variance` | (C, m) |

References
----------
A. Carmi, G. Cecchi, D. Kanevsky, B. Ramabhadran and I. Rish. Classification via compressed random
fields. IBM Research Report, 2009. Appendix A.2.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy.special import logsumexp

from voxprior.blocks import BlockedScans, moments
from voxprior.errors import InputError, option

MARGINALS = ("printed", "total", "mixture", "continuous")
INFORMATION = "mutual_information"
RANKINGS = (
    "correlation",
    "signed_correlation",
    INFORMATION,
    *(f"{INFORMATION}_{kind}" for kind in MARGINALS[1:]),
)
# A deviation below this share of the mean is no more than rounding.
ROUNDING = 1e-12
# Columns at a time, so that (C, k, columns) stays in the cache.
_COLUMNS = 1024


class Nodes(NamedTuple):
    """Chosen features with the statistics they are standardised by."""

    features: np.ndarray
    center: np.ndarray
    scale: np.ndarray

    def take(self, X: np.ndarray) -> np.ndarray:
        """Scans at the nodes, standardised, float64."""
        return (np.asarray(X[:, self.features], dtype=float) - self.center) / self.scale


def rank_features(X: np.ndarray, codes: np.ndarray, ranking: str) -> np.ndarray:
    """Score (n_features,) of every feature by one of ``RANKINGS``."""
    if ranking == "correlation":
        return correlation_score(X, codes)
    if ranking == "signed_correlation":
        return signed_correlation(X, codes)
    marginal = ranking.removeprefix(INFORMATION).removeprefix("_") or "printed"
    return mutual_information_score(X, codes, marginal)


def choose_nodes(
    X: np.ndarray,
    score: np.ndarray,
    nodes: Any = None,
    n_nodes: int | None = None,
    min_score: float | None = None,
    standardize: bool = True,
) -> Nodes:
    """The nodes that the user names, or the best by ``score`` of features that are not constant.

    Where all are constant, or the user names one, a constant node keeps scale 1.
    """
    if nodes is None:
        features = best_features(score, n_nodes, min_score)
    else:
        features = checked_features(nodes, X.shape[1])
    values = np.asarray(X[:, features], dtype=float)
    center, scale = values.mean(axis=0), values.std(axis=0)
    constant = scale <= ROUNDING * np.maximum(np.abs(center), np.finfo(float).tiny)
    if nodes is None and not constant.all():
        features, center, scale = (part[~constant] for part in (features, center, scale))
        constant = constant[~constant]
    if not standardize:
        return Nodes(features, np.zeros(len(features)), np.ones(len(features)))
    return Nodes(features, center, np.where(constant, 1.0, scale))


def best_features(score: np.ndarray, n_nodes: int | None, min_score: float | None) -> np.ndarray:
    """The ``n_nodes`` best (ties to the lowest index) that reach ``min_score``, ascending."""
    reached = np.arange(len(score))
    if min_score is not None:
        reached = np.flatnonzero(score >= min_score)
    if not len(reached):
        raise InputError(
            f"No feature reaches {option('min_score', min_score)}",
            got=f"{score.max():.4g} at best",
            remedy="Lower it",
        )
    if n_nodes is None or n_nodes >= len(reached):
        return reached
    values = score[reached]
    lowest = np.partition(values, -n_nodes)[-n_nodes]
    better, equal = np.flatnonzero(values > lowest), np.flatnonzero(values == lowest)
    return reached[np.sort(np.append(better, equal[: n_nodes - len(better)]))]


def checked_features(nodes: Any, n_features: int) -> np.ndarray:
    """Features that the user names, refused unless they are distinct indices."""
    features = np.asarray(nodes)
    whole = features.ndim == 1 and features.size > 0 and np.issubdtype(features.dtype, np.integer)
    if not whole or features.min() < 0 or features.max() >= n_features:
        raise InputError(
            f"{option('nodes')} cannot be used",
            expected=f"integer feature indices in 0 .. {n_features - 1}",
            got=repr(nodes),
        )
    if len(np.unique(features)) < len(features):
        raise InputError(
            f"{option('nodes')} names a feature twice",
            remedy="Name it once: a node cannot predict its own copy",
        )
    return features.astype(np.intp)


def correlation_score(X: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """|ρ̂| of every feature with the class (correlation ratio for more than two classes).

    Parameters
    ----------
    X : ndarray of shape (k, m)
        Scans, any float type; sums are float64.
    codes : ndarray of shape (k,)
        Class of each scan as 0 .. C−1.

    Returns
    -------
    ndarray of shape (m,)
        In [0, 1]; 0 for constant features.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1.0], [2], [3], [2], [4], [6]])
    >>> correlation_score(x, np.array([0, 0, 0, 1, 1, 1])).round(6)
    array([0.612372])
    """
    count, mean, squares = class_moments(X, codes)
    centre = (count[:, None] * mean).sum(axis=0) / count.sum()
    between = (count[:, None] * (mean - centre) ** 2).sum(axis=0)
    total = between + squares.sum(axis=0)
    varies = total > count.sum() * (ROUNDING * centre) ** 2
    return np.sqrt(np.divide(between, total, out=np.zeros_like(total), where=varies))


def signed_correlation(X: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """ρ̂ (A.4) of every feature with the label, positive where class 1 of two is higher.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[3.0, 1], [2, 2], [1, 3], [0, 4]])
    >>> signed_correlation(x, np.array([0, 0, 1, 1])).round(6)
    array([-0.894427,  0.894427])
    """
    n_classes = int(codes.max()) + 1
    if n_classes != 2:
        raise InputError(
            f"{option('ranking', 'signed_correlation')} is for two classes",
            got=f"{n_classes} classes",
            remedy=f"Set {option('ranking', 'correlation')}",
        )
    _, mean, _ = class_moments(X, codes)
    return np.sign(mean[1] - mean[0]) * correlation_score(X, codes)


def mutual_information_score(
    X: np.ndarray, codes: np.ndarray, marginal: str = "printed"
) -> np.ndarray:
    """Gaussian mutual information of every feature with the class.

    Parameters
    ----------
    X : ndarray of shape (k, m)
        Scans; every class needs at least two.
    codes : ndarray of shape (k,)
        Class of each scan as 0 .. C−1.
    marginal : {"printed", "total", "mixture", "continuous"}
        The marginal density, see the module's text.

    Returns
    -------
    ndarray of shape (m,)
        Non-negative, in nats; 0 for constant features.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1.0], [2], [3], [2], [4], [6]])
    >>> mutual_information_score(x, np.array([0, 0, 0, 1, 1, 1])).round(6)
    array([0.182228])
    """
    if marginal not in MARGINALS:
        raise InputError(
            "The marginal is not known", expected=f"one of {MARGINALS}", got=repr(marginal)
        )
    count, mean, squares = class_moments(X, codes)
    if count.min() < 2:
        raise InputError(
            "Mutual information needs a variance of every class",
            expected="at least 2 scans of each",
            got=f"{int(count.min())} of one class",
            remedy=f"Set {option('ranking', 'correlation')}",
        )
    score = np.empty(X.shape[1])
    for start in range(0, X.shape[1], _COLUMNS):
        part = slice(start, start + _COLUMNS)
        values = np.asarray(X[:, part], dtype=float)
        score[part] = _information(values, count, mean[:, part], squares[:, part], marginal)
    return score


def _information(x, count, mean, squares, marginal):
    variance = squares / (count - 1.0)[:, None]  # (A.8b)
    centre = mean.mean(axis=0)  # (A.8c)
    if marginal == "total":
        total = ((x - x.mean(axis=0)) ** 2).sum(axis=0) / (len(x) - 1.0)
    else:
        total = squares.sum(axis=0) / (len(x) - 1.0)  # (A.8d)
    constant = np.ptp(x, axis=0) <= ROUNDING * np.abs(x[0])
    # A class without variance is a point mass; a variance of rounding size keeps its logarithm
    # finite.
    tiny = 1e-12 * np.maximum(((x - x.mean(axis=0)) ** 2).mean(axis=0), np.finfo(float).tiny)
    variance, total = np.maximum(variance, tiny), np.maximum(total, tiny)
    if marginal == "continuous":
        score = _continuous(mean, variance)
    else:
        log_p = -0.5 * (x[None] - mean[:, None]) ** 2 / variance[:, None]
        log_p -= logsumexp(log_p, axis=1, keepdims=True)  # (A.11a)
        if marginal == "mixture":
            log_bar = logsumexp(log_p, axis=0) - np.log(len(mean))
        else:
            log_bar = -0.5 * (x - centre) ** 2 / total
            log_bar -= logsumexp(log_bar, axis=0)  # (A.11b)
        score = (np.exp(log_p) * (log_p - log_bar)).sum(axis=1).mean(axis=0)  # (A.10)
    return np.where(constant, 0.0, np.maximum(score, 0.0))


def _continuous(mean, variance, n_points: int = 65):
    """(1/C) Σ_θ E_θ[log p_θ − log p̄] of the mixture, by the trapezium over ±8 deviations."""
    z, step = np.linspace(-8.0, 8.0, n_points, retstep=True)
    weight = np.exp(-0.5 * z**2) * step / np.sqrt(2 * np.pi)
    total = np.zeros(mean.shape[1])
    for mu, s2 in zip(mean, variance, strict=True):
        x = mu + z[:, None] * np.sqrt(s2)
        log_all = -0.5 * ((x - mean[:, None]) ** 2 / variance[:, None] + np.log(variance)[:, None])
        own = -0.5 * (z[:, None] ** 2 + np.log(s2))
        bar = logsumexp(log_all, axis=0) - np.log(len(mean))
        total += weight @ (own - bar)
    return total / len(mean)


def class_moments(X: Any, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts (C,), means and sums of squared deviations (C, m) by class, in float64."""
    n_classes = int(codes.max()) + 1
    if not isinstance(X, BlockedScans):
        return _class_moments(X, codes, n_classes)
    return moments.class_moments(X, codes, n_classes, _class_moments)


@njit(cache=True)
def _class_moments(X, codes, n_classes):
    """Counts, means and sums of squared deviations by class, in float64."""
    k, m = X.shape
    count = np.zeros(n_classes)
    mean = np.zeros((n_classes, m))
    squares = np.zeros((n_classes, m))
    for i in range(k):
        c = codes[i]
        count[c] += 1.0
        for j in range(m):
            mean[c, j] += X[i, j]
    for c in range(n_classes):
        for j in range(m):
            mean[c, j] /= max(count[c], 1.0)
    for i in range(k):
        c = codes[i]
        for j in range(m):
            squares[c, j] += (X[i, j] - mean[c, j]) ** 2
    return count, mean, squares
