"""Feature sharing from class statistics: the published classifier, step by step.

For each class:

    1. variances σ̂² from all features                       (6), (7) and companions
    2. maps between related voxels                           (8)
    3. hyper-means μ̂ and hyper-variances τ̂² from the groups  (2), (4), (5)
    4. means θ̂ = w X̄ + (1 − w) μ̂                             (3), or μ and τ² integrated out

and, beyond the paper, θ̂ drawn toward the run mean, and the weight of the evidence. A scan then has

    log p(x_i | c) = Σ_j log N(x_ij; θ̂_j^(c), σ̂_j²^(c))                                (1)

The differences x − θ̂ are formed before they are squared, so nothing cancels whatever the offset
of the data, and no array of the size of X is made. Each scan is summed block of features by block
of features in a fixed order: its score has the same bits alone as in any batch.

| symbol | variable | shape |
|---|---|---|
| N, X̄, counts and means of the examples | `statistics` | (C,), (C, J) |
| θ̂, σ̂², means and variances after sharing | `theta`, `var` | (C, J) |
| h = ∂θ̂/∂X̄, weight of its own sample mean in θ̂ | `own` | (C, J) |
| x, scans | `X` | (n, J) |

Reference: M. Palatucci, T. M. Mitchell, "Classification in very high dimensional problems with
handfuls of examples", ECML/PKDD 2007.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange
from scipy import sparse

from voxprior.algebra import launch
from voxprior.blocks import BlockedScans, voxel_blocks
from voxprior.errors import InputError, option
from voxprior.models.sharing.calibration import (
    Calibration,
    Excerpt,
    calibrate,
    excerpt_features,
)
from voxprior.models.sharing.integrated import (
    effective_members,
    integrate_shrinkage,
    pool_of_all,
    pool_of_group,
)
from voxprior.models.sharing.means import (
    LONE_FACTOR,
    PriorMeans,
    chosen_map,
    grand_prior,
    group_prior,
    james_stein_factor,
    no_prior,
    shrink,
)
from voxprior.models.sharing.statistics import ClassStatistics, pooled, varying_voxels
from voxprior.models.sharing.variances import one_of_each, share_variances

_BLOCK = 1024
# Scans have mean zero where it holds less than this of their squares: more than float32 rounds.
CENTERED = 1e-6


class SharingRules(NamedTuple):
    """How features share; the parameters of the same names of ``FeatureSharingNB``."""

    means: Any = "neighbors"
    mean_map: str = "identity"
    shrinkage: str | None = "auto"
    variances: str = "moderated"
    variance_scope: str = "shared"
    ddof: int = 1
    tau_ddof: int = 0
    tau_floor: float = 0.0
    beta: str = "pooled"
    median_correction: bool = False
    var_smoothing: float = 1e-9
    hyperparameters: str = "estimated"


class Prepared(NamedTuple):
    """What a fit needs of the scans whatever their labels."""

    scans: np.ndarray  # (n, J), checked; the user's own array where it will do
    examples: np.ndarray  # (n, m), the scans at the features that calibration looks at
    groups: sparse.csr_array  # (V, V), the members of each voxel's group


class SharedModel(NamedTuple):
    """Means and variances (C, J), group sizes (V,), and how much a nat of evidence counts."""

    theta: np.ndarray
    var: np.ndarray
    group_size: np.ndarray
    calibration: Calibration | None


def check_rules(rules: SharingRules) -> None:
    """Refuse rules that contradict each other."""
    grand = isinstance(rules.means, str) and rules.means == "all"
    if grand and rules.mean_map in ("scale", "affine"):
        raise InputError(
            f"{option('means', 'all')} shrinks to the grand mean, which has no map",
            expected=f"{option('mean_map', 'auto')} or {option('mean_map', 'identity')}",
            got=option("mean_map", rules.mean_map),
            remedy=f"Change one of them, or give a group matrix as {option('means')}",
        )
    if rules.hyperparameters == "integrated" and (rules.tau_ddof or rules.tau_floor):
        changed = "tau_ddof" if rules.tau_ddof else "tau_floor"
        raise InputError(
            f"{option('hyperparameters', 'integrated')} estimates no hyper-variance that "
            f"{option(changed)} could change",
            remedy=f"Leave {option(changed)} at 0, or use {option('hyperparameters', 'estimated')}",
        )


def share_features(
    statistics: ClassStatistics,
    groups: sparse.csr_array,
    rules: SharingRules,
    excerpt: Excerpt | None = None,
) -> SharedModel:
    """Estimate the model: steps 1 to 4, and calibration where an excerpt of the examples is given.

    Voxels that do not vary between the examples take no part: they lend nothing and count nowhere.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior import VoxelSpace
    >>> from voxprior.models.sharing.statistics import class_statistics
    >>> X = np.array([[0.0, 1, 2], [1, 1, 2], [5, 5, 4], [5, 6, 6]])
    >>> statistics = class_statistics(X, np.array([0, 0, 1, 1]), 2)
    >>> share_features(statistics, VoxelSpace.grid((3,)).adjacency(), SharingRules()).theta.round(2)
    array([[1. , 1.1, 1. ],
           [5.5, 5. , 5.5]])
    """
    check_rules(rules)
    varies = varying_voxels(statistics, groups.shape[0])
    if varies.all() or not varies.any():
        return _shared_by_all(statistics, groups, rules, excerpt)
    inside = np.tile(varies, statistics.mean.shape[1] // len(varies))
    seen = excerpt_features(len(inside))
    known = inside[seen]
    if excerpt is not None:
        excerpt = excerpt._replace(examples=excerpt.examples[:, known])
    part = ClassStatistics(statistics.count, statistics.mean[:, inside], statistics.m2[:, inside])
    within = sparse.csr_array(groups[varies][:, varies])
    places = (np.cumsum(inside) - 1)[seen[known]]
    found = _shared_by_all(part, within, rules, excerpt, places)
    # A constant has the same mean and variance in all classes, so that it does not help to decide.
    theta = np.repeat(pooled(statistics)[1][None], len(statistics.count), axis=0)
    var = np.full(theta.shape, found.var.max())
    theta[:, inside], var[:, inside] = found.theta, found.var
    size = np.zeros(len(varies))
    size[varies] = found.group_size
    return SharedModel(theta, var, size, found.calibration)


def _shared_by_all(
    statistics: ClassStatistics,
    groups: sparse.csr_array,
    rules: SharingRules,
    excerpt: Excerpt | None,
    features: np.ndarray | None = None,
) -> SharedModel:
    """Steps 1 to 4 of voxels that vary; `features` are those of the excerpt, if not the usual."""
    count, means = statistics.count, statistics.mean
    variances = share_variances(  # step 1
        statistics, rules.variances, rules.variance_scope, rules.ddof, groups,
        rules.median_correction, rules.var_smoothing,
    )  # fmt: skip
    prior = prior_means(means, groups, rules)  # steps 2 and 3
    noise = variances.value / count[:, None]
    theta, own = shrunk_means(means, prior, noise, groups, rules)  # step 4
    size, leverage = prior.size.mean(axis=0), prior.leverage
    del prior, noise  # with millions of features, half of what is held
    var = np.array(np.broadcast_to(variances.value, theta.shape))
    inflation = float(variances.inflation.mean())
    if leverage > 0:
        own += (1 - own) * leverage
    worth = None
    if excerpt is not None:
        worth = calibrate(excerpt, statistics, theta, var, own, inflation, features)
    if draws_means(statistics, groups, rules):
        center, rho = theta.mean(axis=0), LONE_FACTOR
        if not one_of_each(count):
            center, rho = np.zeros(1), james_stein_factor(theta, means, var, count, inflation)
        theta = center + rho * (theta - center)
        # Contrasts are ρ times as long now, and a nat of their evidence counts 1/ρ as much.
        worth = None if worth is None else worth._replace(kappa=worth.kappa / rho)
    return SharedModel(theta, var, size, worth)


def draws_means(statistics: ClassStatistics, groups: sparse.csr_array, rules: SharingRules) -> bool:
    """Whether class means are drawn toward a common one, beyond what groups do.

    ``auto`` does where neighbours should lend means and there are none; where every class has one
    example; and where the scans have mean zero, as centring by run leaves them.

    Examples
    --------
    >>> from voxprior.models.sharing.statistics import class_statistics
    >>> alone, chain = sparse.csr_array((2, 2)), sparse.csr_array([[0, 1], [1, 0]])
    >>> X, y = np.array([[1.0, 2], [3, 1], [0, 4], [2, 2]]), np.array([0, 0, 1, 1])
    >>> scans, centered = class_statistics(X, y, 2), class_statistics(X - X.mean(axis=0), y, 2)
    >>> [draws_means(scans, alone, SharingRules()), draws_means(scans, chain, SharingRules()),
    ...  draws_means(centered, chain, SharingRules())]
    [True, False, True]
    """
    if rules.shrinkage != "auto":
        return rules.shrinkage is not None
    if not isinstance(rules.means, str) or rules.means in ("all", "none"):
        return False
    if groups.nnz == 0 or one_of_each(statistics.count):
        return True
    n, mean, m2 = pooled(statistics)
    return bool(n * (mean @ mean) <= CENTERED * m2.sum())


def prior_means(means: np.ndarray, groups: sparse.csr_array, rules: SharingRules) -> PriorMeans:
    """Hyper-parameters of every mean: from no others, from all features, or from a group."""
    named = isinstance(rules.means, str)
    if named and rules.means == "none":
        return no_prior(means, groups.shape[0])
    if named and rules.means == "all":
        return grand_prior(means, rules.tau_ddof)
    n_times = means.shape[1] // groups.shape[0]
    mean_map = chosen_map(rules.mean_map, n_times, sharing=groups.nnz > 0)
    return group_prior(means, groups, mean_map, rules.tau_ddof, rules.beta == "pooled")


def shrunk_means(
    means: np.ndarray,
    prior: PriorMeans,
    noise: np.ndarray,
    groups: sparse.csr_array,
    rules: SharingRules,
) -> tuple[np.ndarray, np.ndarray]:
    """θ̂ and the weight of a feature's own mean in it, hyper-parameters estimated or integrated."""
    named = rules.means if isinstance(rules.means, str) else ""
    if rules.hyperparameters == "estimated" or named == "none":
        return shrink(means, prior, noise, rules.tau_floor)
    if named == "all":
        return integrate_shrinkage(means, pool_of_all(prior), noise)
    pool = pool_of_group(means, prior, effective_members(groups))
    return integrate_shrinkage(means, pool, noise)


def log_likelihood(X: np.ndarray, theta: np.ndarray, var: np.ndarray) -> np.ndarray:
    """Equation (1) without the priors: log p(x_i | c), an array (n, C).

    Examples
    --------
    >>> import numpy as np
    >>> X, theta = np.array([[1.0, 1.0]]), np.array([[1.0, 1.0], [0.0, 1.0]])
    >>> log_likelihood(X, theta, np.ones((2, 2))).round(4)
    array([[-1.8379, -2.3379]])
    """
    if not theta.shape == var.shape == (len(theta), X.shape[1]):  # compiled code would read beyond
        raise InputError(
            "Means and variances do not fit the scans",
            expected=f"shapes (classes, {X.shape[1]})",
            got=f"{theta.shape} and {var.shape}",
        )
    if isinstance(X, BlockedScans):
        blocks = voxel_blocks(*X.shape)
        parts = [log_likelihood(X[:, s], theta[:, s], var[:, s]) for s in blocks]
        return np.sum(parts, axis=0)
    n_blocks = -(-theta.shape[1] // _BLOCK)
    distance = np.empty((n_blocks, len(X), len(theta)))
    log_volume = np.empty((n_blocks, len(theta)))
    work = 2 * (len(X) + 1) * theta.size
    launch(_block_scores, work, X, theta, var, distance, log_volume)
    constant = -0.5 * (theta.shape[1] * np.log(2 * np.pi) + log_volume.sum(axis=0))
    return constant - 0.5 * distance.sum(axis=0)


@njit(cache=True, parallel=True, fastmath={"reassoc", "contract", "nsz"})
def _block_scores(X, theta, var, distance, log_volume):
    """Per block of features: Mahalanobis distances (blocks, n, C), log-determinants (blocks, C)."""
    n, J = X.shape
    C = theta.shape[0]
    for block in prange(distance.shape[0]):
        start = block * _BLOCK
        width = min(J, start + _BLOCK) - start
        precision = np.empty((C, width))
        for c in range(C):
            volume = 0.0
            for j in range(width):
                precision[c, j] = 1.0 / var[c, start + j]
                volume += np.log(var[c, start + j])
            log_volume[block, c] = volume
        for i in range(n):
            row = X[i, start : start + width]
            for c in range(C):
                # Slices: an index that starts at 0 needs no wrap-around test and vectorises.
                centre, weight = theta[c, start : start + width], precision[c]
                total = 0.0
                for j in range(width):
                    miss = row[j] - centre[j]
                    total += miss * miss * weight[j]
                distance[block, i, c] = total
