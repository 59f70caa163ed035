"""Prior mean and variance integrated out: the fully Bayesian alternative to empirical Bayes.

For one voxel and class, z_1 … z_G are its members' mapped means, z_0 = X̄ its own, s² = σ̂²/N the
noise of a mean, and nothing is known of the hyper-parameters in advance:

    z_g | θ_g ~ N(θ_g, s²),   θ_g ~ N(μ, τ²),   p(μ, τ) ∝ 1

Given τ all is Gaussian: with z̄ the mean of all G + 1 and w = τ²/(τ² + s²),

    E[θ_0 | τ] = z̄ + w (X̄ − z̄)
    p(τ | z) ∝ (τ² + s²)^(−G/2) exp{−Q / 2(τ² + s²)},   Q = Σ_g (z_g − z̄)²

so that θ̂ = z̄ + E[w] (X̄ − z̄). Put 1 − w = sin²φ, and the integral over τ becomes one over an angle,
of a smooth function with one peak:

    1 − E[w] = ∫ sin²φ f dφ / ∫ f dφ,   f = sin^(G−2) φ exp(−½ q sin²φ),   q = Q/s²,  0 ≤ φ ≤ π/2

Gauss-Legendre nodes around the peak, sin²φ = min((G − 2)/q, 1), do it. Below two members the
posterior puts all weight on τ = ∞: θ̂ = X̄, the limit.

Q needs no second look at the group: with μ̂ and τ̂² of (4) and (5), Q = G τ̂² + (X̄ − μ̂)² G/(G + 1).
Where members have weights, G is their effective number, (Σ w)²/Σ w². Members are taken to be as
noisy as the voxel itself, which they are where all features share one variance.

| symbol | variable | shape |
|---|---|---|
| X̄, sample means | `means` | (C, J) |
| z̄, Q, G, of the voxel and its members | `center`, `squares`, `members` | (C, J) |
| s², noise of a mean | `noise` | (C, J) |
| θ̂; h = ∂θ̂/∂X̄ given w | `theta`, `own` | (C, J) |

Reference: M. Palatucci, T. M. Mitchell, "Classification in very high dimensional problems with
handfuls of examples", ECML/PKDD 2007, section 2, which names the treatment and leaves it out.
"""

from typing import NamedTuple

import numpy as np
from numba import njit, prange
from scipy import sparse

from voxprior.algebra import launch
from voxprior.models.sharing.means import PriorMeans, member_weights

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
# Widths of the peak on either side of it that are integrated over.
_REACH = 8.0


class Pool(NamedTuple):
    """What a mean is drawn toward: z̄, Q and G (C, J)."""

    center: np.ndarray
    squares: np.ndarray
    members: np.ndarray


def pool_of_group(means: np.ndarray, prior: PriorMeans, members: np.ndarray) -> Pool:
    """The voxel and its members; ``prior`` has their μ̂ and τ̂² (divisor G), ``members`` (V,) G."""
    G = np.broadcast_to(np.tile(members, means.shape[1] // len(members)), means.shape)
    gap = means - prior.mean
    within = np.where(G > 0, prior.variance, 0.0)
    return Pool(prior.mean + gap / (G + 1), G * within + gap**2 * G / (G + 1), G)


def pool_of_all(prior: PriorMeans) -> Pool:
    """All features of a class; ``prior`` is that of ``grand_prior``, with divisor J."""
    J = prior.mean.shape[1]
    return Pool(prior.mean, J * prior.variance, np.full(prior.mean.shape, J - 1.0))


def integrate_shrinkage(
    means: np.ndarray, pool: Pool, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means θ̂ under flat hyper-priors, and the weights of the voxels' own means in them.

    Parameters
    ----------
    means : array of shape (C, J)
        Sample means X̄.
    pool : Pool
        Of `pool_of_group` or `pool_of_all`.
    noise : array of shape (C, J)
        Variance σ̂²/N of a sample mean.

    Examples
    --------
    Four members near 1 pull a mean of 3 to them; the point estimate pulls harder:

    >>> import numpy as np
    >>> from voxprior.models.sharing.means import shrink
    >>> one = np.ones((1, 1))
    >>> prior = PriorMeans(one, 0.1 * one, 4 * one)
    >>> pool = pool_of_group(3 * one, prior, np.array([4.0]))
    >>> integrate_shrinkage(3 * one, pool, one)[0].round(2)
    array([[2.02]])
    >>> shrink(3 * one, prior, one)[0].round(2)
    array([[1.18]])
    """
    theta, own = np.empty(means.shape), np.empty(means.shape)
    noise = np.broadcast_to(noise, means.shape)
    launch(_integrate, 40 * _NODES.size * means.size, means, *pool, noise, theta, own)
    return theta, own


def effective_members(groups: sparse.csr_array) -> np.ndarray:
    """(Σ w)²/Σ w² of every voxel's group, (V,); the number of members where weights are equal.

    Examples
    --------
    >>> from scipy import sparse
    >>> effective_members(sparse.csr_array([[0.0, 2.0, 2.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    array([2., 1., 0.])
    """
    weights = member_weights(groups)
    total = np.asarray(weights.sum(axis=1)).ravel()
    squares = np.asarray(weights.multiply(weights).sum(axis=1)).ravel()
    return np.divide(total**2, squares, out=np.zeros(len(total)), where=squares > 0)


@njit(cache=True, parallel=True)
def _integrate(means, center, squares, members, noise, theta, own):
    for c in range(means.shape[0]):
        for j in prange(means.shape[1]):
            w, G = 1.0, members[c, j]
            if G >= 2.0 and noise[c, j] > 0.0:
                w = 1.0 - _expected_pull(squares[c, j] / noise[c, j], G)
            own[c, j] = w + (1.0 - w) / (G + 1.0)
            theta[c, j] = center[c, j] + w * (means[c, j] - center[c, j])


@njit(cache=True)
def _expected_pull(q, G):
    """1 − E[w] = E[sin²φ] under f."""
    if not np.isfinite(q):
        return 0.0
    m = G - 2.0
    peak = np.arcsin(np.sqrt(m / q)) if m < q else 0.5 * np.pi
    # The curvature of log f at its peak; where it vanishes (q = m) the next order takes over.
    width = _REACH / np.sqrt(max(abs(q - m), np.sqrt(m), 0.25))
    low, high = max(0.0, peak - width), min(0.5 * np.pi, peak + width)
    top = _log_f(peak, q, m)
    total, pulled = 0.0, 0.0
    for node, weight in zip(_NODES, _WEIGHTS):
        phi = 0.5 * (low + high) + 0.5 * (high - low) * node
        f = weight * np.exp(_log_f(phi, q, m) - top)
        total += f
        pulled += f * np.sin(phi) ** 2
    return pulled / total


@njit(cache=True)
def _log_f(phi, q, m):
    sine = np.sin(phi)
    power = m * np.log(sine) if m > 0.0 else 0.0
    return power - 0.5 * q * sine * sine
