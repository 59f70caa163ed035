"""Regression on a kernel with the noise integrated out, its left-out densities, and their weights.

A member is a kernel K and a noise ratio τ, with h = 1 / (1 + τ) the kernel's share of the variance:

    y ~ N(μ 1, σ² (h K + (1 - h) I)),    p(μ, σ²) ∝ 1 / σ²

With K = U diag(d) U', r = y - ȳ, c = 1 / (h d + 1 - h), P = U diag(c) U' - 11' / (n (1 - h)):

    a = P r,   q = r'a
    y | x ~ St(ȳ + h k'a,  s² q/(n-1) v,  ν)                                               (1)
        v = h k_** - h² Σ_i c_i (u_i'k)² + (1 - h)(1 + 1/n), at least 1 - h,   ν = max(1, n_eff - 1)

h k'a is ridge regression on the voxels with penalty τ κ. The member h = 0 is the mean alone. What
a member says of a unit g (a scan, or a whole group) without having seen it needs no second fit:

    e = P_g⁻¹ a_g,   V = P_g⁻¹,   q_-g = q - a_g'e,   l = n - 1 - n_g                      (2)
    y_i - e_i is the prediction;   density of scan i: St(e_i; 0, s² q_-g/l V_ii, max(1, l f))

with f = (n_eff - 1) / (n - 1). Units with l < 1 are left out. Members are equally probable in
advance, the stretch s of all scales is near 1, and the N left-out densities count as n_eff:

    log π(m, s) = const - (log s / .3)²/2 + n_eff/N Σ_i log density_i(m, s)                (3)

With groups whose targets are alike, scans count for less than their number. F is the mean square
of y between groups over that within:

    m_0 = (n - Σ n_g²/n) / (G - 1),  icc = clip((F - 1)/(F - 1 + m_0), 0, 1),
    n_eff = n / (1 + (m_0 - 1) icc),  at most n - G where scans were centred by group      (4)

| symbol | variable | shape |
|---|---|---|
| y, ȳ, r | `y`, `center`, `residual` | (n,), scalar, (n,) |
| τ, h | `TAUS`, `share` | (T,) |
| U, d | `vectors`, `values` | (n, n), (n,) |
| c, a, q | `c`, `dual`, `power` | (T, n), (T, n), (T,) |
| e, q_-g/l V_ii | `error`, `variance` | (T, n) |
| l | `degrees` | (n,) |
| s | `STRETCHES` | (S,) |
| π | `weights` | (M, S) |
| n_eff | `n_effective` | scalar |

References: C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, 2006,
sections 2.7 and 5.4.2; A. Gelman et al., Bayesian Data Analysis, 2013, section 14.2 (the prior on
σ²); S. Searle, G. Casella, C. McCulloch, Variance Components, 1992, section 3.6 (icc).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from voxprior.auto.regression_kernels import Kernel
from voxprior.auto.student_mixture import student_log_density

Floats = NDArray[np.float64]

TAUS = np.array([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0])
SHARES = 1.0 / (1.0 + TAUS)
NO_SHARE = np.zeros(1)  # of the member that is the mean alone
STRETCHES = np.array([0.7, 1.0, 1.4, 2.0])
STRETCH_SD = 0.3
# Variances are at least this share of the largest squared target: rounding cannot tell smaller ones
# from none, and a target that never varies must not divide by 0.
SMALLEST_VARIANCE = 1e-20


class Fit(NamedTuple):
    """Members of one kernel, one per share h."""

    share: Floats
    c: Floats
    dual: Floats
    power: Floats


class LeftOut(NamedTuple):
    """What members say of training scans that they have not seen; NaN where they cannot."""

    error: Floats
    variance: Floats
    degrees: Floats


class Targets(NamedTuple):
    """Targets, how many independent scans they count for, and the smallest variance told from 0."""

    center: float
    residual: Floats
    n_effective: float
    floor: float

    @property
    def vary(self) -> bool:
        """Whether there is anything to predict."""
        return bool(np.square(self.residual).mean() > self.floor)

    @property
    def nu(self) -> float:
        """Degrees of freedom of a prediction."""
        return max(1.0, self.n_effective - 1.0)


def describe_targets(y: Floats, n_effective: float) -> Targets:
    """Mean and residuals of targets (n,)."""
    center = float(y.mean())
    floor = max(SMALLEST_VARIANCE * float(np.abs(y).max()) ** 2, np.finfo(float).tiny)
    return Targets(center, y - center, n_effective, floor)


def effective_scans(y: Floats, groups: NDArray[np.intp] | None, centered: bool) -> tuple:
    """n_eff and icc of equation (4); groups are numbered from 0.

    Examples
    --------
    >>> y = np.array([1.0, 2, 2, 4, 5, 7])
    >>> n_effective, icc = effective_scans(y, np.array([0, 0, 1, 1, 2, 2]), centered=False)
    >>> round(n_effective, 6), icc
    (3.428571, 0.75)
    """
    n = len(y)
    if groups is None:
        return float(n), 0.0
    size = np.bincount(groups)
    G = len(size)
    means = np.bincount(groups, y) / size
    between = float(size @ (means - y.mean()) ** 2) / (G - 1)
    within = float(np.square(y - means[groups]).sum()) / (n - G)
    m0 = (n - float(size @ size) / n) / (G - 1)
    excess = between - within
    icc = float(np.clip(excess / (excess + m0 * within), 0.0, 1.0)) if excess > 0 else 0.0
    n_effective = n / (1.0 + (m0 - 1.0) * icc)
    return (min(n_effective, float(n - G)) if centered else n_effective), icc


def spectral_weights(values: Floats, share: Floats) -> Floats:
    """Inverse covariance c (T, n) of members in the eigenvectors of their kernel."""
    return 1.0 / (share[:, None] * values + (1.0 - share[:, None]))


def fit_members(values: Floats, vectors: Floats, residual: Floats, share: Floats) -> Fit:
    """Members of a kernel at several shares, all from its eigenvectors."""
    c = spectral_weights(values, share)
    rotated = vectors.T @ residual
    return Fit(share, c, (c * rotated) @ vectors.T, (c * rotated**2).sum(axis=1))


def left_out(fit: Fit, vectors: Floats, groups: NDArray[np.intp] | None, floor: float) -> LeftOut:
    """Errors and variances of (2), each scan left out by itself, or with its group."""
    n = len(vectors)
    mean_part = 1.0 / (n * (1.0 - fit.share))
    if groups is None:
        precision = fit.c @ np.square(vectors).T - mean_part[:, None]
        error = fit.dual / precision
        rest = fit.power[:, None] - fit.dual * error
        degrees = np.full(n, n - 2.0)
        own = 1.0 / precision
    else:
        error, own, rest = (np.empty(fit.dual.shape) for _ in range(3))
        degrees = (n - 1.0) - np.bincount(groups)[groups]
        for g in range(groups.max() + 1):
            unit = np.flatnonzero(groups == g)
            if degrees[unit[0]] >= 1:
                parts = _left_out_unit(fit, vectors[unit], fit.dual[:, unit], mean_part)
                error[:, unit], own[:, unit], rest[:, unit] = parts
    known = degrees >= 1
    variance = np.maximum(rest / np.maximum(degrees, 1.0), floor) * own
    return LeftOut(np.where(known, error, np.nan), np.where(known, variance, np.nan), degrees)


def _left_out_unit(fit: Fit, rows: Floats, dual: Floats, mean_part: Floats) -> tuple:
    """Errors (T, n_g), diagonals of P_g⁻¹ and q_-g (T, 1) of one unit."""
    precision = (fit.c[:, None, :] * rows) @ rows.T - mean_part[:, None, None]
    inverse = np.linalg.inv(precision)
    error = (inverse @ dual[:, :, None])[:, :, 0]
    rest = fit.power - (dual * error).sum(axis=1)
    return error, np.einsum("tii->ti", inverse), rest[:, None]


def all_left_out(
    kernels: Sequence[Kernel], fits: Sequence[Fit], targets: Targets, groups: NDArray | None
) -> LeftOut:
    """Left-out errors of all members, the mean alone first; none where the targets do not vary."""
    n = len(targets.residual)
    # With h = 0 every basis gives the same; that of the identity is at hand.
    alone = fit_members(np.zeros(n), np.eye(n), targets.residual, NO_SHARE)
    parts = [left_out(alone, np.eye(n), groups, targets.floor)]
    for kernel, fit in zip(kernels, fits):
        parts.append(left_out(fit, kernel.vectors, groups, targets.floor))
    error, variance = (np.vstack([part[i] for part in parts]) for i in range(2))
    if not targets.vary:
        error, variance = np.full_like(error, np.nan), np.full_like(error, np.nan)
    return LeftOut(error, variance, parts[0].degrees)


def member_weights(out: LeftOut, n_effective: float) -> tuple[Floats, Floats]:
    """Posterior π (M, S) of members and stretches, and left-out log densities (M, S, N).

    Without left-out units the prior decides.
    """
    known = np.isfinite(out.error[0])
    n, log_prior = len(known), -0.5 * (np.log(STRETCHES) / STRETCH_SD) ** 2
    log_weight = np.tile(log_prior, (len(out.error), 1))
    factor = (n_effective - 1.0) / (n - 1.0)
    nu = np.maximum(1.0, out.degrees[known] * factor)
    scale = np.sqrt(out.variance[:, None, known]) * STRETCHES[:, None]
    density = student_log_density(out.error[:, None, known] / scale, nu) - np.log(scale)
    if known.any():
        log_weight = log_weight + n_effective / known.sum() * density.sum(axis=2)
    return softmax(log_weight), density


def left_out_scores(out: LeftOut, weights: Floats, density: Floats) -> tuple[float, float]:
    """Mean log density of the mixture on left-out scans, and R² against the mean; NaN without."""
    known = np.isfinite(out.error[0])
    if not known.any():
        return float("nan"), float("nan")
    log_density = np.log(np.einsum("ms,msi->i", weights, np.exp(density)))
    error = weights.sum(axis=1) @ out.error[:, known]
    alone = out.error[0, known]
    return float(log_density.mean()), float(1.0 - (error @ error) / (alone @ alone))


def predictive(fit: Fit, targets: Targets, vectors: Floats, k: Floats, own: Floats) -> tuple:
    """Locations and scales (n_new, T) of (1) for s = 1; `own` is k_**."""
    n = len(vectors)
    location = targets.center + fit.share * (k @ fit.dual.T)
    known = np.square(k @ vectors) @ fit.c.T
    noise = 1.0 - fit.share
    v = fit.share * own[:, None] - fit.share**2 * known + noise * (1.0 + 1.0 / n)
    spread = np.maximum(fit.power / (n - 1.0), targets.floor)
    return location, np.sqrt(spread * np.maximum(v, noise))
