"""Variances shared between features: a handful of examples says too little about each one alone.

S_j² = M2_j / (N_c − ddof) is the sample variance of feature j in class c, with d = N_c − 1 degrees
of freedom; or, shared over classes, S_j² = Σ_c M2_j^(c) / Σ_c (N_c − ddof) with d = N − C.

    none        σ̂_j² = S_j²                                        Gaussian naive Bayes
    neighbors   σ̂_j² = (1/G_j) Σ_{g∈G_j} S_g²                      (6), the map m' = identity
    mean        σ̂_j² = (1/J) Σ_g S_g²
    median      σ̂_j² = median{S_1², …, S_J²}                       (7)
    moderated   σ̂_j² = (d₀ s₀² + d S_j²) / (d₀ + d)

``moderated`` is the posterior mean precision⁻¹ under σ_j² ~ s₀² d₀/χ²_{d₀}; d₀ and s₀ come from
the first two moments of log S_j²:

    E log S² = log s₀² + ψ(d/2) − log(d/2) − ψ(d₀/2) + log(d₀/2),   var log S² = ψ'(d/2) + ψ'(d₀/2)

With N = 2 examples the median of S² is .455 σ²: dividing by median(χ²_d)/d removes that bias.

With one example of a class M2 is 0 whatever the divisor: per class, variances need two examples of
each. Only features that keep variances of their own can do without, if something is added to them
(``var_smoothing``). Shared over classes with one example of each, the deviations from the mean of
all examples stand in for residuals, d = N − 1: too large by the differences of the classes, but by
much the same in every feature.

| symbol | variable | shape |
|---|---|---|
| S², sample variances; R = C, or 1 shared over classes | `sample` | (R, J) |
| N_c − ddof or Σ_c (N_c − ddof), their divisors | `divisor` | (R,) |
| d, their degrees of freedom | `degrees` | (R,) |
| σ̂², shared variances | `value` | (R, J) |
| σ²/σ̂², how much a variance falls short of the truth on average | `inflation` | (R,) |
| d₀, s₀², of the inverse-χ² prior | `prior_degrees`, `centre` | scalars, per row |

References: M. Palatucci, T. M. Mitchell, ECML/PKDD 2007, equations (6) and (7); G. K. Smyth,
"Linear models and empirical Bayes methods for assessing differential expression", SAGMB 2004.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.stats import chi2

from voxprior.algebra import inverse_chi2_prior
from voxprior.errors import InputError, option
from voxprior.models.sharing.means import member_weights
from voxprior.models.sharing.statistics import ClassStatistics, pooled

# Rules by which every feature keeps a variance of its own, which smoothing may raise above 0.
_OWN = ("none", "neighbors")


class Variances(NamedTuple):
    """Variances (R, J), the degrees of freedom (R,) each rests on, and the mean of σ²/σ̂² (R,)."""

    value: np.ndarray
    degrees: np.ndarray
    inflation: np.ndarray


def variances_exist(
    count: np.ndarray, rule: str, scope: str = "class", ddof: int = 1, var_smoothing: float = 0.0
) -> bool:
    """Whether there are examples enough for the variances of :func:`share_variances`.

    Examples
    --------
    >>> import numpy as np
    >>> once = np.array([1, 1])
    >>> variances_exist(once, "median", ddof=0), variances_exist(2 * once, "median", ddof=0)
    (False, True)
    >>> variances_exist(once, "none", ddof=0, var_smoothing=1e-9)
    True
    """
    divisor, degrees = _degrees(count, scope, ddof)
    smoothed = rule in _OWN and var_smoothing > 0
    return bool(count.min() > 0 and divisor.min() > 0 and (smoothed or degrees.min() > 0))


def one_of_each(count: np.ndarray) -> bool:
    """Whether every class has one example, so that there are no residuals.

    >>> one_of_each(np.array([1, 1])), one_of_each(np.array([1, 2]))
    (True, False)
    """
    return bool(len(count) > 1 and np.all(count == 1))


def _degrees(count: np.ndarray, scope: str, ddof: int) -> tuple[np.ndarray, np.ndarray]:
    """Divisors and degrees of freedom (R,) of the sample variances."""
    if scope == "shared":
        n, C = count.sum(), len(count)
        means = 1 if one_of_each(count) else C
        return np.array([n - ddof * means]), np.array([n - means])
    return count - ddof, count - 1


def sample_variances(statistics: ClassStatistics, scope: str = "class", ddof: int = 1) -> Variances:
    """S² of each feature, per class or shared over classes, with their degrees of freedom.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.models.sharing.statistics import class_statistics
    >>> X = np.array([[0.0], [2.0], [1.0], [5.0]])
    >>> statistics = class_statistics(X, np.array([0, 0, 1, 1]), 2)
    >>> sample_variances(statistics).value.ravel()
    array([2., 8.])
    >>> sample_variances(statistics, scope="shared").value.ravel()
    array([5.])
    """
    divisor, degrees = _degrees(statistics.count, scope, ddof)
    if divisor.min() <= 0:
        raise _too_few(statistics.count, scope)
    m2 = statistics.m2
    if scope == "shared":
        alone = one_of_each(statistics.count)
        m2 = pooled(statistics)[2][None] if alone else m2.sum(axis=0, keepdims=True)
    bias = divisor / np.maximum(degrees, 1)
    return Variances(m2 / divisor[:, None], degrees.astype(float), bias)


def share_variances(
    statistics: ClassStatistics,
    rule: str = "median",
    scope: str = "class",
    ddof: int = 1,
    groups: sparse.csr_array | None = None,
    median_correction: bool = False,
    var_smoothing: float = 0.0,
) -> Variances:
    """Equations (6) and (7) and their companions.

    Parameters
    ----------
    statistics : ClassStatistics
        Counts, means and M2 of every class and feature.
    rule : {"none", "neighbors", "mean", "median", "moderated"}
        How features share.
    scope : {"class", "shared"}
        One variance per class, or one for all classes.
    ddof : {0, 1}
        Divisor N - ddof of the sample variance.
    groups : sparse array of shape (V, V), optional
        The groups of (6). A voxel without a group keeps its own variance.
    median_correction : bool
        Divide the median by its expectation in units of σ².
    var_smoothing : float
        Fraction of the largest total variance that is added where features keep variances of
        their own (``none`` and ``neighbors``), so that a constant feature does not divide by 0.

    Returns
    -------
    Variances

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.models.sharing.statistics import class_statistics
    >>> X = np.array([[0.0, 0.0, 0.0], [2.0, 4.0, 1.0]])
    >>> share_variances(class_statistics(X, np.array([0, 0]), 1)).value
    array([[2., 2., 2.]])
    """
    if not variances_exist(statistics.count, rule, scope, ddof, var_smoothing):
        raise _too_few(statistics.count, scope)
    sample, degrees, bias = sample_variances(statistics, scope, ddof)
    if rule == "neighbors" and groups is not None:
        sample = _neighbor_average(sample, groups)
    if rule in _OWN:
        return Variances(_smoothed(sample, statistics, var_smoothing), degrees, bias)
    if rule == "moderated":
        return _moderated(sample, degrees, bias)
    one = np.median(sample, axis=1) if rule == "median" else sample.mean(axis=1)
    if rule == "median" and median_correction:
        one = one * (degrees + (1 - ddof) * _classes(statistics, scope)) / chi2.median(degrees)
    if np.any(one <= 0):
        raise InputError(
            f"The {rule} of the features' sample variances is 0, so no feature can be weighed: too "
            "many features are constant within a class",
            remedy=f"Mask out constant voxels, or use {option('variances', 'mean')}",
        )
    shared = np.broadcast_to(one[:, None], sample.shape)
    return Variances(shared, np.full(len(one), np.inf), bias * sample.mean(axis=1) / one)


def _moderated(sample: np.ndarray, degrees: np.ndarray, bias: np.ndarray) -> Variances:
    value, total = np.empty_like(sample), np.empty(len(sample))
    for r, d in enumerate(degrees):
        if not sample[r].any():
            raise InputError(
                "Every sample variance is 0: there is no scale to moderate toward",
                remedy="Mask out voxels that are constant within a class",
            )
        prior_degrees, centre = inverse_chi2_prior(sample[r], d)
        keep = d / (prior_degrees + d)
        value[r] = (1 - keep) * centre + keep * sample[r]
        total[r] = prior_degrees + d
    # The posterior mean of σ² is ν/(ν − 2) times the moderated variance, which is 1/E[1/σ²];
    # below ν = 4 it hardly exists and 2 stands in for it.
    excess = 2 / (np.maximum(total, 4.0) - 2)
    return Variances(value, total, bias * (1 + excess))


def _neighbor_average(sample: np.ndarray, groups: sparse.csr_array) -> np.ndarray:
    """Mean of the group's sample variances at the same time point; own variance if it is empty."""
    groups, V = member_weights(groups), groups.shape[0]
    sizes = np.asarray(groups.sum(axis=1)).ravel()
    courses = sample.reshape(-1, V)
    average = (groups @ courses.T).T / np.where(sizes > 0, sizes, 1.0)
    return np.where(sizes > 0, average, courses).reshape(sample.shape)


def _smoothed(sample: np.ndarray, statistics: ClassStatistics, smoothing: float) -> np.ndarray:
    if smoothing > 0:
        count, _, m2 = pooled(statistics)
        sample = sample + smoothing * m2.max() / count
    if np.any(sample <= 0):
        raise InputError(
            f"{np.count_nonzero((sample <= 0).any(axis=0))} features have no variance within a "
            "class",
            remedy=f"Remove constant features, raise {option('var_smoothing')}, or share variances "
            f"with {option('variances', 'median')} or {option('variances', 'mean')}",
        )
    return sample


def _classes(statistics: ClassStatistics, scope: str) -> int:
    return len(statistics.count) if scope == "shared" else 1


def _too_few(count: np.ndarray, scope: str) -> InputError:
    if scope == "shared":
        return InputError(
            "There is nothing to estimate a variance from",
            expected="two samples or more, and one of every class",
            got=f"n_samples = {count.sum()} in {len(count)} classes",
        )
    return InputError(
        "A class with one example has no sample variance",
        expected="at least 2 examples of every class",
        got=f"a class with n_samples = {count.min()}",
        remedy="Give more examples, or share the variance over classes with "
        f"{option('variance_scope', 'shared')}",
    )
