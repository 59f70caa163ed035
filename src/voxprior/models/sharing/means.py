"""Groups of related voxels, the prior means they lend each other, and the shrinkage toward them.

The model, for one class (c is dropped): X_ivt | θ_vt ~ N(θ_vt, σ²),  θ_vt ~ N(μ_vt, τ_vt²).
A voxel k of the group G_v predicts the mean course of v through a map m_{k→v}, constant in time:

    identity   m(X̄_kt) = X̄_kt
    scale      m(X̄_kt) = β X̄_kt        β = Σ_t X̄_vt X̄_kt / Σ_t X̄_kt²                  (8)
    affine     m(X̄_kt) = α + β X̄_kt    least squares over t

    μ̂_vt = (1/G_v) Σ_{k∈G_v} m_{k→v}(X̄_kt)                                            (4)
    τ̂²_vt = (1/G_v) Σ_{k∈G_v} (m_{k→v}(X̄_kt) − μ̂_vt)²                                 (5)
    θ̂_vt = w X̄_vt + (1 − w) μ̂_vt,   w = τ̂² / (τ̂² + σ̂²/N)                             (3)

(3) is written without 1/τ², so that its limits need no special arithmetic. Where a group is empty
τ² = ∞ and θ̂ = X̄; where τ² = 0 < σ² the limit is θ̂ = μ̂; where both are 0, θ̂ = X̄. A pair whose
map does not exist (Σ_t X̄_kt² = 0) is left out of the group and not counted in G_v. Groups may be
weighted; then the averages of (4) and (5) are weighted ones. A voxel is not a member of its own
group, and one without members keeps its own mean.

Scans that were centred by run have their run mean at zero, and class means may be drawn toward it
(James and Stein), all by one factor: θ̂ ← ρ θ̂,

    ρ = [ Σ_c Σ_j X̄_cj²/σ̂_j² − q J Σ_c 1/N_c ] / Σ_c Σ_j θ̂_cj²/σ̂_j²,   .05 ≤ ρ ≤ 1

with q the mean of σ²/σ̂². Far from zero ρ is 1 and nothing happens. One example per class cannot
tell signal from noise: there ρ = .3, toward the mean of the class means, θ̂ ← θ̄ + ρ (θ̂ − θ̄).

| symbol | variable | shape |
|---|---|---|
| G, row v has the weights of the voxels that inform v | `groups` | (V, V) CSR |
| X̄, class mean time courses | `course` | (T, V) |
| courses the maps are fitted on: the class's, or all joined | `basis` | (V, S) |
| μ̂, τ̂², hyper-parameters, J = T V, time-major | `mean`, `variance` | (C, J) |
| G_v, voxels of the group that have a map | `size` | (C, V) |
| θ̂, shrunk means | `theta` | (C, J) |
| ρ, the James-Stein factor | returned | scalar |

Reference: M. Palatucci, T. M. Mitchell, "Classification in very high dimensional problems with
handfuls of examples", ECML/PKDD 2007, equations (2)-(5) and (8).
"""

import warnings
from typing import Any, Literal, NamedTuple

import numpy as np
from numba import njit, prange
from scipy import sparse

from voxprior.algebra import launch
from voxprior.errors import InputError, option
from voxprior.space import VoxelSpace

# ρ where every class has one example.
LONE_FACTOR = 0.3
# Voxels a thread handles before it asks for more.
_VOXELS = 256
_MAPS = {"identity": 0, "scale": 1, "affine": 2}
_COEFFICIENTS = {"identity": 0, "scale": 1, "affine": 2}


class PriorMeans(NamedTuple):
    """Hyper-means μ̂ (C, J), hyper-variances τ̂² (C, J), group sizes (C, V) and leverage.

    ``leverage`` is the derivative ∂μ̂_j/∂X̄_j: how much a fitted map repeats the mean it was
    fitted to. A map with p coefficients has p/T of it.
    """

    mean: np.ndarray
    variance: np.ndarray
    size: np.ndarray
    leverage: float = 0.0


def voxel_groups(
    source: Any,
    space: VoxelSpace | None,
    n_features: int,
    connectivity: Literal[6, 18, 26] = 26,
    radius: float | None = None,
) -> sparse.csr_array:
    """The groups G: a user's matrix, checked, or the neighbours of a space.

    Parameters
    ----------
    source : str or sparse matrix of shape (V, V)
        A matrix is taken as it is; any word means the neighbours of ``space``.
    space : VoxelSpace or None
        Without one every feature is a voxel of its own and has no neighbours.
    n_features : int
        J, the number of voxels where there is no space.
    connectivity, radius
        Which voxels are neighbours, as in ``VoxelSpace.adjacency``.

    Examples
    --------
    >>> from voxprior import VoxelSpace
    >>> voxel_groups("neighbors", VoxelSpace.grid((3,)), n_features=6).toarray().astype(int)
    array([[0, 1, 0],
           [1, 0, 1],
           [0, 1, 0]])
    """
    if sparse.issparse(source):
        return _checked_weights(source, space)
    if space is None:
        return sparse.csr_array((n_features, n_features), dtype=bool)
    return space.adjacency(connectivity=connectivity, radius=radius)


def member_weights(groups: sparse.csr_array) -> sparse.csr_array:
    """Groups as float64 CSR without the diagonal.

    Examples
    --------
    >>> from scipy import sparse
    >>> member_weights(sparse.csr_array([[5.0, 2.0], [1.0, 0.0]])).toarray()
    array([[0., 2.],
           [1., 0.]])
    """
    if groups.dtype == np.float64 and groups.format == "csr" and not groups.diagonal().any():
        return groups
    groups = sparse.csr_array(groups, dtype=np.float64, copy=True)
    rows = np.repeat(np.arange(groups.shape[0]), np.diff(groups.indptr))
    groups.data[rows == groups.indices] = 0.0
    groups.eliminate_zeros()
    return groups


def _checked_weights(matrix: Any, space: VoxelSpace | None) -> sparse.csr_array:
    what = f"The group matrix {option('means')} cannot be used"
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(what, expected="a square one, voxel by voxel", got=f"{matrix.shape}")
    if space is not None and matrix.shape[0] != space.n_voxels:
        raise InputError(
            what,
            expected=f"one row per voxel of the {option('space')}, {space.n_voxels}, in its order",
            got=f"{matrix.shape[0]} rows",
        )
    groups = sparse.csr_array(matrix, dtype=np.float64)
    if groups.data.size and not (np.isfinite(groups.data).all() and groups.data.min() >= 0):
        raise InputError(what, expected="weights that are finite and not negative")
    return groups


def chosen_map(mean_map: str, n_times: int, sharing: bool = True) -> str:
    """The map ``auto`` stands for; warn where a named one predicts every voxel exactly.

    Examples
    --------
    >>> chosen_map("auto", n_times=1), chosen_map("auto", n_times=16)
    ('identity', 'scale')
    """
    if mean_map == "auto":
        return "scale" if n_times > 1 else "identity"
    needed = _COEFFICIENTS[mean_map] + 1
    if n_times < needed and sharing:
        warnings.warn(
            f"mean_map={mean_map!r} with {n_times} time points lets every neighbour predict a "
            f"voxel exactly, so means are not shared: it needs {needed} time points or more. "
            "Use mean_map='identity'.",
            UserWarning,
            stacklevel=7,  # the call of fit
        )
    return mean_map


def group_prior(
    means: np.ndarray,
    groups: sparse.csr_array,
    mean_map: str = "scale",
    tau_ddof: int = 0,
    pooled_maps: bool = False,
) -> PriorMeans:
    """Equations (4), (5) and (8): what each voxel's group says about its mean course.

    Parameters
    ----------
    means : array of shape (C, J)
        Class means, time-major: ``means.reshape(C, T, V)``.
    groups : sparse array of shape (V, V)
        Row v holds the positive weights of the voxels that inform v. The diagonal is ignored.
    mean_map : {"scale", "identity", "affine"}
        The map m. With too few time points (1 for ``scale``, 2 for ``affine``) every member
        predicts the voxel exactly, and nothing is shared.
    tau_ddof : {0, 1}
        Divisor G - tau_ddof of (5). At G = 1 the variance is 0 either way.
    pooled_maps : bool
        Fit each map on the courses of all classes joined, rather than class by class.

    Returns
    -------
    PriorMeans

    Examples
    --------
    Voxels 0 and 1 are neighbours, and proportional over T = 2 time points:

    >>> import numpy as np
    >>> from scipy import sparse
    >>> groups = sparse.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> prior = group_prior(np.array([[1.0, 2.0, 3.0, 6.0]]), groups)
    >>> prior.mean, prior.variance
    (array([[1., 2., 3., 6.]]), array([[0., 0., 0., 0.]]))
    """
    groups = member_weights(groups)
    V, kind = groups.shape[0], _MAPS[mean_map]
    mean, variance = np.empty(means.shape), np.empty(means.shape)
    size = np.empty((len(means), V), dtype=np.int64)
    joined = _voxel_major(means, V) if pooled_maps and kind else None
    for c, row in enumerate(means):
        course = row.reshape(-1, V)
        # Maps run over time, so they are fitted on voxel-major courses; identity needs none.
        basis = np.zeros((0, 0)) if not kind else joined
        basis = _voxel_major(course, V) if basis is None else basis
        launch(
            _group_moments, 4 * groups.nnz * len(course), course, basis, *_regressor(basis, kind),
            groups.indptr, groups.indices, groups.data, kind, tau_ddof,
            mean[c].reshape(-1, V), variance[c].reshape(-1, V), size[c],
        )  # fmt: skip
    fitted_on = (means.size if pooled_maps else means.shape[1]) // V
    return PriorMeans(mean, variance, size, _COEFFICIENTS[mean_map] / fitted_on)


def grand_prior(means: np.ndarray, tau_ddof: int = 0) -> PriorMeans:
    """The standard hierarchical model: θ_j ~ N(μ, τ²) with one μ̂, τ̂² per class for all features.

    Examples
    --------
    >>> import numpy as np
    >>> prior = grand_prior(np.array([[1.0, 3.0]]))
    >>> prior.mean, prior.variance
    (array([[2., 2.]]), array([[1., 1.]]))
    """
    mu = means.mean(axis=1, keepdims=True)
    J = means.shape[1]
    tau2 = ((means - mu) ** 2).sum(axis=1, keepdims=True) / max(J - tau_ddof, 1)
    shape = means.shape
    return PriorMeans(np.broadcast_to(mu, shape), np.broadcast_to(tau2, shape), np.full(shape, J))


def no_prior(means: np.ndarray, n_voxels: int) -> PriorMeans:
    """Nothing is shared: τ² = ∞, and empty groups."""
    size = np.zeros((len(means), n_voxels), dtype=np.int64)
    return PriorMeans(means, np.broadcast_to(np.inf, means.shape), size)


def shrink(
    means: np.ndarray, prior: PriorMeans, noise: np.ndarray, tau_floor: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Equation (3): posterior means θ̂ and the weights w that the samples kept.

    Parameters
    ----------
    means : array of shape (C, J)
        Sample means X̄.
    prior : PriorMeans
        Hyper-means and hyper-variances, of the same shape.
    noise : array of shape (C, J)
        Variance σ̂²/N of a sample mean.
    tau_floor : float
        Smallest τ̂², as a multiple of ``noise``.

    Returns
    -------
    theta, weight : arrays of shape (C, J)

    Examples
    --------
    N = 2, σ² = 4, τ² = 1, X̄ = 3, μ = 1:

    >>> import numpy as np
    >>> prior = PriorMeans(np.array([[1.0]]), np.array([[1.0]]), np.array([[1]]))
    >>> shrink(np.array([[3.0]]), prior, np.array([[4 / 2]]))[0].round(6)
    array([[1.666667]])
    """
    theta, weight = np.empty(means.shape), np.empty(means.shape)
    noise = np.broadcast_to(noise, means.shape)
    hyper = prior.mean, prior.variance
    launch(_shrink, 8 * means.size, means, *hyper, noise, tau_floor, theta, weight)
    return theta, weight


@njit(cache=True, parallel=True)
def _shrink(means, mu, tau2, noise, floor, theta, weight):
    for c in range(means.shape[0]):
        for j in prange(means.shape[1]):
            prior = max(tau2[c, j], floor * noise[c, j])
            total = prior + noise[c, j]
            if np.isfinite(prior) and total > 0:
                weight[c, j] = prior / total
                theta[c, j] = mu[c, j] + weight[c, j] * (means[c, j] - mu[c, j])
            else:  # no prior, or nothing to weigh: keep X̄
                weight[c, j] = 1.0
                theta[c, j] = means[c, j]


def james_stein_factor(
    theta: np.ndarray,
    means: np.ndarray,
    var: np.ndarray,
    count: np.ndarray,
    inflation: float = 1.0,
) -> float:
    """ρ, which draws class means toward zero.

    Examples
    --------
    Two examples of each of two classes, J = 2; half of the squared length is noise:

    >>> import numpy as np
    >>> means = np.array([[1.0, 1.0], [1.0, -1.0]])
    >>> james_stein_factor(means, means, np.ones((2, 2)), np.array([2, 2]))
    0.5
    """
    noise = inflation * means.shape[1] * (1 / count).sum()
    length = (theta**2 / var).sum()
    if length <= 0:
        return 1.0
    return float(np.clip(((means**2 / var).sum() - noise) / length, 0.05, 1.0))


def _voxel_major(means: np.ndarray, V: int) -> np.ndarray:
    return np.ascontiguousarray(means.reshape(-1, V).T)


def _regressor(basis: np.ndarray, kind: int) -> tuple[np.ndarray, np.ndarray]:
    """What a least-squares map subtracts from each course, and the power that divides it."""
    if kind == _MAPS["identity"]:
        return np.zeros(0), np.zeros(0)
    if kind == _MAPS["scale"]:
        return np.zeros(len(basis)), np.einsum("vt,vt->v", basis, basis)
    centre = basis.mean(axis=1)
    power = ((basis - centre[:, None]) ** 2).sum(axis=1)
    # A constant course has no slope: rounding must not give it one.
    return centre, np.where(np.ptp(basis, axis=1) == 0, 0.0, power)


# Loops over members are written out: slices inside them would cost more than the arithmetic.
@njit(cache=True, parallel=True, fastmath={"reassoc", "contract", "nsz"})
def _group_moments(
    course, basis, centre, power, indptr, indices, weights, kind, ddof, mu, tau2, size
):
    """Maps, means and two-pass variances of every group, fused: no edge list is ever stored."""
    T, V = course.shape
    widest = np.max(indptr[1:] - indptr[:-1])
    for block in prange((V + _VOXELS - 1) // _VOXELS):
        start = block * _VOXELS
        width = min(V, start + _VOXELS) - start
        group = np.empty((width, widest), np.int32)
        offset, slope = np.zeros((width, widest)), np.ones((width, widest))
        weight = np.empty((width, widest))
        growth = np.zeros(width)  # total / (total - ddof) of (5)
        for i in range(width):
            v, used, total, squares = start + i, 0, 0.0, 0.0
            for e in range(indptr[v], indptr[v + 1]):
                k = indices[e]
                if kind != 0:
                    if power[k] == 0.0:
                        continue  # no map: not a member
                    product = 0.0
                    for s in range(basis.shape[1]):
                        product += (basis[v, s] - centre[v]) * (basis[k, s] - centre[k])
                    slope[i, used] = product / power[k]  # (8)
                    offset[i, used] = centre[v] - slope[i, used] * centre[k]
                group[i, used], weight[i, used] = k, weights[e]
                total += weights[e]
                squares += weights[e] ** 2
                used += 1
            size[v] = used
            for e in range(used):
                weight[i, e] /= total
            if used > 1:
                growth[i] = total / (total - ddof * squares / total)
        values = np.empty(widest)
        for t in range(T):
            for i in range(width):
                G, mean, variance = size[start + i], 0.0, 0.0
                for e in range(G):
                    values[e] = offset[i, e] + slope[i, e] * course[t, group[i, e]]
                    mean += weight[i, e] * values[e]  # (4)
                for e in range(G):
                    variance += weight[i, e] * (values[e] - mean) ** 2  # (5)
                mu[t, start + i] = mean if G else course[t, start + i]
                tau2[t, start + i] = growth[i] * variance if G else np.inf
