"""Means shared within groups of features, for many labellings side by side.

Steps 3 and 4 of `voxprior.models.sharing.naive_bayes`, compiled. With two classes the mean of all
scans, which labels do not change, ties the class means to each other:

    x̄ = (N_0 X̄_0 + N_1 X̄_1) / N,   N = N_0 + N_1

so that sums over a group are made for class 1 alone. With d = X̄_1k - X̄_1j for member k of feature
j's group, e likewise for x̄, and q = N_1 / N_0, those of class 0 are of (1 + q) e - q d.

| symbol | variable | shape |
|---|---|---|
| X̄ + r, class means | `means` | (C, J, L) |
| Σ_c M2_c | `within` | (J, L) |
| N | `size` | (C, L) |
| x̄, and Σ e, Σ e² by the weights of a group | `tie` | (J,) each |

Reference: M. Palatucci, T. M. Mitchell, "Classification in very high dimensional problems with
handfuls of examples", ECML/PKDD 2007.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy import sparse

from voxprior.models.sharing.naive_bayes import SharingRules


class Members(NamedTuple):
    """The members of each voxel's group, in compressed rows."""

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
    shares = groups.data / np.repeat(total, sizes)
    return Members(groups.indptr.astype(np.int64), groups.indices.astype(np.int64), shares, growth)


class Tie(NamedTuple):
    """What ties the means of two classes, (J,): the mean of all scans, x̄ = Σ_c N_c X̄_c / Σ_c N_c.

    Empty where classes are more, or without a scan.
    """

    mean: np.ndarray
    shift: np.ndarray  # how far that of the group is from a feature's own
    square: np.ndarray  # mean square of how far those of the members are


def tie_of(mean: np.ndarray, circle: Members) -> Tie:
    """The mean of all training scans, and how it differs within groups, whatever the labels."""
    tie = Tie(mean, np.zeros_like(mean), np.zeros_like(mean))
    _differences(circle, *tie)
    return tie


@njit(cache=True)
def _differences(circle, mean, shift, square):
    V = len(circle.growth)
    for j in range(len(mean)):
        v = j % V
        for e in range(circle.pointers[v], circle.pointers[v + 1]):
            d = mean[j - v + circle.members[e]] - mean[j]
            shift[j] += circle.shares[e] * d
            square[j] += circle.shares[e] * d * d


@njit(cache=True, fastmath=True)
def share_means(
    means, within, base, slope, size, pull, reference, circle, tie, grand_mean, grand_variance,
    grand, floor, weights, sums,
):  # fmt: skip
    """Steps 3 and 4 for every feature, labellings side by side, and the sums of (2)."""
    indptr, indices, shares, growth = circle
    norms, length, sample = sums
    C, J, L = means.shape
    V = len(growth)
    theta, variance, precision = np.empty((C, L)), np.empty(L), np.empty(L)
    shift, square, over = np.empty((C, L)), np.empty((C, L)), 1.0 / size
    for j in range(J):
        v, first = j % V, j - j % V
        shared = grand or indptr[v + 1] > indptr[v]
        members, share = indices[indptr[v] : indptr[v + 1]], shares[indptr[v] : indptr[v + 1]]
        for b in range(L):
            variance[b] = base[b] + slope[b] * within[j, b]
            precision[b] = 1.0 / variance[b]
        if len(tie.mean) and not grand:
            _tied_groups(means[1], j, first, members, share, tie, growth[v], size, shift, square)
        for c in range(C):
            if grand:
                for b in range(L):
                    shift[c, b] = grand_mean[c, b] - means[c, j, b]
                    square[c, b] = grand_variance[c, b]
            elif not len(tie.mean):
                _group(means[c], j, first, members, share, growth[v], shift[c], square[c])
            for b in range(L):
                noise = variance[b] * over[c, b]
                prior = max(square[c, b], floor * noise)
                own = means[c, j, b]
                mean = own + (noise / (prior + noise) * shift[c, b] if shared else 0.0)  # (3)
                sample[b] += own * own * precision[b]
                length[b] += mean * mean * precision[b]
                theta[c, b] = mean - reference[j]
        for b in range(L):
            if pull[b] < 1.0:
                mean = theta[:, b].mean()
                for c in range(C):
                    theta[c, b] = mean + pull[b] * (theta[c, b] - mean)
        for c in range(1, C):
            for b in range(L):
                contrast = (theta[c, b] - theta[0, b]) * precision[b]
                weights[c - 1, j, b] = contrast
                norms[c - 1, b] += contrast * (theta[c, b] + theta[0, b])


@njit(cache=True, fastmath=True)
def _tied_groups(means, j, first, members, shares, tie, growth, size, shift, square):
    """As `_group`, for class 1, and by X̄_0 = (N x̄ - N_1 X̄_1) / N_0 for class 0 as well."""
    L = size.shape[1]
    cross, sums, squares = shift[0], shift[1], square[1]
    for b in range(L):
        cross[b], sums[b], squares[b] = 0.0, 0.0, 0.0
    e, G = 0, len(members)
    while e + 4 <= G:
        k0, k1 = first + members[e], first + members[e + 1]
        k2, k3 = first + members[e + 2], first + members[e + 3]
        w0, w1, w2, w3 = shares[e], shares[e + 1], shares[e + 2], shares[e + 3]
        x0, x1 = tie.mean[k0] - tie.mean[j], tie.mean[k1] - tie.mean[j]
        x2, x3 = tie.mean[k2] - tie.mean[j], tie.mean[k3] - tie.mean[j]
        for b in range(L):
            own = means[j, b]
            d0, d1 = means[k0, b] - own, means[k1, b] - own
            d2, d3 = means[k2, b] - own, means[k3, b] - own
            s0, s1, s2, s3 = w0 * d0, w1 * d1, w2 * d2, w3 * d3
            sums[b] += s0 + s1 + s2 + s3
            squares[b] += s0 * d0 + s1 * d1 + s2 * d2 + s3 * d3
            cross[b] += s0 * x0 + s1 * x1 + s2 * x2 + s3 * x3
        e += 4
    for last in range(e, G):
        k = first + members[last]
        x = tie.mean[k] - tie.mean[j]
        for b in range(L):
            d = means[k, b] - means[j, b]
            sums[b] += shares[last] * d
            squares[b] += shares[last] * d * d
            cross[b] += shares[last] * d * x
    for b in range(L):
        q = size[1, b] / size[0, b]
        p = 1.0 + q
        around = p * p * tie.square[j] - 2.0 * p * q * cross[b] + q * q * squares[b]
        shift[0, b] = p * tie.shift[j] - q * sums[b]
        square[0, b] = growth * max(around - shift[0, b] * shift[0, b], 0.0)
        square[1, b] = growth * max(squares[b] - sums[b] * sums[b], 0.0)


@njit(cache=True, fastmath=True)
def _group(means, j, first, members, shares, growth, shift, square):
    """How far the mean of the group is from feature j's own, and (5), by differences from it."""
    L = len(shift)
    for b in range(L):
        shift[b], square[b] = 0.0, 0.0
    e, G = 0, len(members)
    while e + 4 <= G:  # four at a time: sums are read and written less often
        k0, k1 = first + members[e], first + members[e + 1]
        k2, k3 = first + members[e + 2], first + members[e + 3]
        w0, w1, w2, w3 = shares[e], shares[e + 1], shares[e + 2], shares[e + 3]
        for b in range(L):
            own = means[j, b]
            d0, d1, d2, d3 = (
                means[k0, b] - own,
                means[k1, b] - own,
                means[k2, b] - own,
                means[k3, b] - own,
            )
            shift[b] += w0 * d0 + w1 * d1 + w2 * d2 + w3 * d3
            square[b] += w0 * d0 * d0 + w1 * d1 * d1 + w2 * d2 * d2 + w3 * d3 * d3
        e += 4
    for last in range(e, G):
        k, w = first + members[last], shares[last]
        for b in range(L):
            d = means[k, b] - means[j, b]
            shift[b] += w * d
            square[b] += w * d * d
    for b in range(L):
        square[b] = growth * max(square[b] - shift[b] * shift[b], 0.0)
