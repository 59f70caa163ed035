"""The feature-sharing classifier from class statistics: the published algorithm, step by step.

For each class:

    1. variances σ̂² from all features                              (6), (7) and companions
    2. maps between related voxels                                  (8)
    3. hyper-means μ̂ and hyper-variances τ̂² from the groups         (2), (4), (5)
    4. means θ̂ = w X̄ + (1 − w) μ̂                                    (3)

and, beyond the paper, θ̂ drawn toward the run mean, and the worth of the evidence.

======== ================== ========= ==============================================
symbol   variable           shape     meaning
======== ================== ========= ==============================================
N, X̄     ``statistics``     (C, J)    counts and means, with the squared deviations
θ̂, σ̂²    ``theta``, ``var`` (C, J)    means and variances after sharing
h        ``own``            (C, J)    ∂θ̂/∂X̄, the weight of its own sample mean in θ̂
======== ================== ========= ==============================================

Reference: M. Palatucci, T. M. Mitchell, "Classification in very high dimensional problems with
handfuls of examples", ECML/PKDD 2007.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from voxprior.models.sharing.calibration import Calibration, Sketch, calibrate
from voxprior.models.sharing.means import (
    PriorMeans,
    chosen_map,
    grand_prior,
    group_prior,
    no_prior,
    shrink,
    toward_zero,
)
from voxprior.models.sharing.statistics import ClassStatistics
from voxprior.models.sharing.variances import share_variances


class Options(NamedTuple):
    """How features share; the parameters of the same names of ``FeatureSharingNB``."""

    means: Any = "neighbors"
    mean_map: str = "identity"
    shrinkage: str | None = None
    variances: str = "moderated"
    variance_scope: str = "shared"
    ddof: int = 1
    tau_ddof: int = 0
    tau_floor: float = 0.0
    beta: str = "pooled"
    median_correction: bool = False
    var_smoothing: float = 1e-9


class SharedModel(NamedTuple):
    """Means and variances (C, J), group sizes (V,), and how much a nat of evidence is worth."""

    theta: np.ndarray
    var: np.ndarray
    group_size: np.ndarray
    calibration: Calibration | None


def share(
    statistics: ClassStatistics,
    groups: sparse.csr_array,
    options: Options,
    kept: Sketch | None = None,
) -> SharedModel:
    """Settle the model: steps 1 to 4, and calibration where a sketch of the examples is given.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior import VoxelSpace
    >>> from voxprior.models.sharing.statistics import class_statistics
    >>> X = np.array([[0.0, 1, 2], [1, 1, 2], [5, 5, 4], [5, 6, 6]])
    >>> statistics = class_statistics(X, np.array([0, 0, 1, 1]), 2)
    >>> share(statistics, VoxelSpace.grid((3,)).adjacency(), Options()).theta.round(2)
    array([[1. , 1.1, 1. ],
           [5.5, 5. , 5.5]])
    """
    count, means = statistics.count, statistics.mean
    variances = share_variances(  # step 1
        statistics, options.variances, options.variance_scope, options.ddof, groups,
        options.median_correction, options.var_smoothing,
    )  # fmt: skip
    prior = prior_means(means, groups, options)  # steps 2 and 3
    noise = variances.value / count[:, None]
    theta, own = shrink(means, prior, noise, options.tau_floor)  # step 4
    var = np.array(np.broadcast_to(variances.value, theta.shape))
    inflation = float(variances.inflation.mean())
    if prior.leverage > 0:
        own += (1 - own) * prior.leverage
    worth = None if kept is None else calibrate(kept, statistics, theta, var, own, inflation)
    if options.shrinkage is not None:
        rho = toward_zero(theta, means, var, count, inflation)
        theta *= rho
        # Contrasts are ρ times as long now, and a nat of their evidence is worth 1/ρ as much.
        worth = None if worth is None else worth._replace(kappa=worth.kappa / rho)
    return SharedModel(theta, var, prior.size.mean(axis=0), worth)


def prior_means(means: np.ndarray, groups: sparse.csr_array, options: Options) -> PriorMeans:
    """Hyper-parameters of every mean: from nobody, from all features, or from a group."""
    named = isinstance(options.means, str)
    if named and options.means == "none":
        return no_prior(means, groups.shape[0])
    if named and options.means == "all":
        if options.mean_map in ("scale", "affine"):
            raise ValueError(
                f"means='all' shrinks to the grand mean and knows no mean_map={options.mean_map!r}"
                ": use mean_map='auto' or 'identity', or a group matrix."
            )
        return grand_prior(means, options.tau_ddof)
    n_times = means.shape[1] // groups.shape[0]
    mean_map = chosen_map(options.mean_map, n_times, sharing=groups.nnz > 0)
    return group_prior(means, groups, mean_map, options.tau_ddof, options.beta == "pooled")
