"""Means shared within groups of features, for many labellings side by side.

Steps 3 and 4 of `voxprior.models.sharing.naive_bayes`, compiled. A class mean is the mean x̄ of all
scans, which labels do not change, and a deviation u. For member k of feature j's group let

    e = x̄_k − x̄_j,   d = u_k − u_j

Then mean and variance within the group, by its weights, are

    shift = E e + E d,   τ̂² = Var e + 2 Cov(e, d) + Var d

With two classes u_0 = −q u_1, and sums over a group are made for class 1 alone: those of class 0
have f d for d, with the factor f = −q.

| symbol | variable | shape |
|---|---|---|
| u | `deviations` | (P, J, L) |
| f | `factor` | (C, L) |
| Σ_c M2_c | `within` | (J, L) |
| N | `size` | (C, L) |
| x̄, E e, Var e | `everywhere` | (J,) each |

Reference: M. Palatucci, T. M. Mitchell, "Classification in very high dimensional problems with
handfuls of examples", ECML/PKDD 2007.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy import sparse

from voxprior.models.sharing.naive_bayes import SharingRules

# Members of a group that are added at once: sums are read and written less often.
TOGETHER = 4


class Members(NamedTuple):
    """The members of each voxel's group, in compressed rows.

    The length of a row is a multiple of `TOGETHER`: the voxel itself fills it up, without a share.
    """

    pointers: np.ndarray
    members: np.ndarray
    shares: np.ndarray  # weights that sum to 1 in each group
    growth: np.ndarray  # (V,) total / (total - ddof) of (5) in `means`, 0 for one member


def members_of(groups: sparse.csr_array, rules: SharingRules) -> Members:
    """Groups as the compiled part reads them; empty where means are not shared."""
    if isinstance(rules.means, str) and rules.means == "none":
        groups = sparse.csr_array(groups.shape)
    sizes, total = np.diff(groups.indptr), groups.sum(axis=1)
    many = sizes > 1
    squares = groups.power(2).sum(axis=1)[many]
    growth = np.zeros(len(sizes))
    growth[many] = total[many] / (total[many] - rules.tau_ddof * squares / total[many])
    filled = -(-sizes // TOGETHER) * TOGETHER
    pointers = np.concatenate([[0], np.cumsum(filled)])
    members, shares = np.repeat(np.arange(len(sizes)), filled), np.zeros(pointers[-1])
    where = np.arange(groups.nnz) + np.repeat(pointers[:-1] - groups.indptr[:-1], sizes)
    members[where], shares[where] = groups.indices, groups.data / np.repeat(total, sizes)
    return Members(pointers, members, shares, growth)


class Overall(NamedTuple):
    """The mean of all training scans, and how it differs within groups, (J,) each."""

    mean: np.ndarray
    shift: np.ndarray
    variance: np.ndarray


def overall(mean: np.ndarray, circle: Members) -> Overall:
    """The part of the group means that comes from all training scans, whatever the labels."""
    everywhere = Overall(mean, np.zeros_like(mean), np.zeros_like(mean))
    _differences(circle, *everywhere)
    return everywhere


@njit(cache=True)
def _differences(circle, mean, shift, variance):
    V = len(circle.growth)
    for j in range(len(mean)):
        v = j % V
        for e in range(circle.pointers[v], circle.pointers[v + 1]):
            shift[j] += circle.shares[e] * (mean[j - v + circle.members[e]] - mean[j])
        for e in range(circle.pointers[v], circle.pointers[v + 1]):
            d = mean[j - v + circle.members[e]] - mean[j] - shift[j]
            variance[j] += circle.shares[e] * d * d


@njit(cache=True, fastmath=True, error_model="numpy")
def share_means(
    start, deviations, within, scales, circle, everywhere, grand_mean, grand_variance, grand, drawn,
    floor, weights, norms, length, sample,
):  # fmt: skip
    """Steps 3 and 4 for a block of features, labellings side by side, and the sums of (2).

    Loops over labellings write an array or two and read a few more: only then are they vectorised.
    """
    base, slope, size, factor, pull = scales
    C, L = size.shape
    P, pulled, over = len(deviations), pull.min() < 1.0, 1.0 / size
    variance, precision, theta = np.empty(L), np.empty(L), np.empty((C, L))
    shift, square, cross = np.empty((P, L)), np.empty((P, L)), np.empty((P, L))
    for j in range(start, start + len(weights)):
        mean, left = everywhere.mean[j], within[j]
        for b in range(L):
            variance[b] = base[b] + slope[b] * left[b]
            precision[b] = 1.0 / variance[b]
        if not grand:
            for p in range(P):
                _group(deviations[p], j, circle, everywhere.mean, shift[p], square[p], cross[p])
        for c in range(C):
            p = min(c, P - 1)
            u, f, own = deviations[p, j], factor[c], theta[c]
            for b in range(L):
                own[b] = f[b] * u[b]
            if drawn:
                _add_squares(own, mean, precision, sample)
            if grand:
                to, tau = grand_mean[c], grand_variance[c]
                _shrink_to_all(own, mean, to, tau, variance, over[c], floor)
            else:
                sums = shift[p], square[p], cross[p]
                _shrink_to_group(own, f, sums, j, circle, everywhere, variance, over[c], floor)
            if drawn:
                _add_squares(own, mean, precision, length)
        if pulled:
            _pull(theta, pull)
        for c in range(1, C):
            own, zero, weight, norm = theta[c], theta[0], weights[j - start, c - 1], norms[c - 1]
            for b in range(L):
                weight[b] = (own[b] - zero[b]) * precision[b]
                norm[b] += weight[b] * (own[b] + zero[b])


@njit(cache=True, fastmath=True, error_model="numpy")
def _group(deviations, j, circle, mean, shift, square, cross):
    """E d, E d² and E e d of feature j's group, in steps of `TOGETHER`."""
    v, own, members, shares = j % len(circle.growth), deviations[j], circle.members, circle.shares
    first, here, L = j - v, mean[j], len(own)
    for b in range(L):
        shift[b], square[b], cross[b] = 0.0, 0.0, 0.0
    for e in range(circle.pointers[v], circle.pointers[v + 1], TOGETHER):
        k0, k1 = first + members[e], first + members[e + 1]
        k2, k3 = first + members[e + 2], first + members[e + 3]
        w0, w1, w2, w3 = shares[e], shares[e + 1], shares[e + 2], shares[e + 3]
        x0, x1, x2, x3 = mean[k0] - here, mean[k1] - here, mean[k2] - here, mean[k3] - here
        u0, u1, u2, u3 = deviations[k0], deviations[k1], deviations[k2], deviations[k3]
        for b in range(L):
            d0, d1, d2, d3 = u0[b] - own[b], u1[b] - own[b], u2[b] - own[b], u3[b] - own[b]
            s0, s1, s2, s3 = w0 * d0, w1 * d1, w2 * d2, w3 * d3
            shift[b] += s0 + s1 + s2 + s3
            square[b] += s0 * d0 + s1 * d1 + s2 * d2 + s3 * d3
            cross[b] += s0 * x0 + s1 * x1 + s2 * x2 + s3 * x3


@njit(cache=True, fastmath=True, error_model="numpy")
def _shrink_to_group(theta, factor, sums, j, circle, everywhere, variance, over, floor):
    """Means (3) of a class, in place of deviations, by what feature j's group has in common."""
    shift, square, cross = sums
    growth = circle.growth[j % len(circle.growth)]
    far, uneven = everywhere.shift[j], everywhere.variance[j]
    for b in range(len(theta)):
        f, noise = factor[b], variance[b] * over[b]
        covariance, spread = cross[b] - far * shift[b], square[b] - shift[b] * shift[b]
        tau = growth * max(uneven + f * (2.0 * covariance + f * spread), 0.0)
        away = noise / (max(tau, floor * noise) + noise)
        theta[b] += away * (far + f * shift[b])


@njit(cache=True, fastmath=True, error_model="numpy")
def _shrink_to_all(theta, mean, center, tau, variance, over, floor):
    """Means (3) of a class, in place of deviations, by what all features have in common."""
    for b in range(len(theta)):
        noise = variance[b] * over[b]
        away = noise / (max(tau[b], floor * noise) + noise)
        theta[b] += away * (center[b] - mean - theta[b])


@njit(cache=True, fastmath=True, error_model="numpy")
def _add_squares(deviation, mean, precision, total):
    for b in range(len(total)):
        value = deviation[b] + mean
        total[b] += value * value * precision[b]


@njit(cache=True, fastmath=True, error_model="numpy")
def _pull(theta, pull):
    """Draw class means toward their mean."""
    for b in range(len(pull)):
        mean = theta[:, b].mean()
        for c in range(len(theta)):
            theta[c, b] = mean + pull[b] * (theta[c, b] - mean)
