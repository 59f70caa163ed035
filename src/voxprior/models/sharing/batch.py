"""Feature sharing of many labellings at once, for permutation tests.

Labels enter the model through class sums alone. With x relative to the mean x̄ of the training
scans, so that nothing cancels, and Z_c the indicators of class c, one column per labelling, the
deviations of class means are one product, and what is left within classes follows:

    u_c = X̄_c − x̄ = Xᵀ Z_c / N_c,      Σ_c M2_c = Σ_i x_i² − Σ_c N_c u_c²                   (1)

With two classes u_0 = −q u_1, q = N_1 / N_0, and u_1 alone is made:

    Σ_c N_c u_c² = N_1 (1 + q) u_1²

The steps of `voxprior.models.sharing.naive_bayes` are then taken for several labellings side by
side: moderated, median or mean variances of all classes together, means drawn to those of the
neighbours, of all features or of none, and by ρ toward zero. With one variance per feature a
scan's log-probabilities are linear in it, up to what all classes share; with x and θ̂ relative to x̄,
and 0 for class 0:

    s_c(x) = ρ Σ_j (x_j + (1 − ρ) x̄_j) φ_cj / σ̂_j² − ½ ρ² Σ_j (θ̂_cj² − θ̂_0j²) / σ̂_j²
             + log P(c)/P(0),      φ_c = θ̂_c − θ̂_0                                         (2)

These are the models of `fit` before calibration, which does not change the order of classes. A
class without a training scan, as a relabelling may have it, has the mean of all of them and the
weight of half a scan.

| symbol | variable | shape |
|---|---|---|
| N, of L labellings | `count` | (C, L) |
| u, of P classes: one of two, or all | `deviations` | (P, J, L) |
| u_c = factor_c u_p | `factor` | (C, L) |
| Σ_c M2_c | `within` | (J, L) |
| σ̂² = base + slope Σ_c M2_c | `base`, `slope` | (L,) |
| φ / σ̂², of a block of features | `weights` | (F, C − 1, L) |
| ρ | `rho` | (L,) |

Reference: M. Palatucci, T. M. Mitchell, "Classification in very high dimensional problems with
handfuls of examples", ECML/PKDD 2007.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy import sparse

from voxprior.algebra import blas_threads_for, chi2_prior_of_logs
from voxprior.errors import InputError
from voxprior.models.base import class_prior
from voxprior.models.sharing.batch_means import Members, Overall, members_of, overall, share_means
from voxprior.models.sharing.groups import needs_scans
from voxprior.models.sharing.means import LONE_FACTOR
from voxprior.models.sharing.naive_bayes import CENTERED, Prepared, SharingRules
from voxprior.models.sharing.statistics import ROUNDING

# Labellings side by side, and features whose sums are made at once.
LANES, FEATURES = 64, 1024
# Sum of squares within classes, relative to that of all scans, below which it is rounding.
NOTHING = 1e-13


def can_batch(rules: SharingRules) -> bool:
    """Whether many labellings can be fitted at once.

    With one variance of all classes, without fitted maps, learned groups or integrals they can.

    >>> can_batch(SharingRules()), can_batch(SharingRules(variance_scope="class"))
    (True, False)
    >>> can_batch(SharingRules("correlated")), can_batch(SharingRules(hyperparameters="integrated"))
    (False, False)
    """
    if needs_scans(rules.means) or rules.hyperparameters != "estimated":
        return False
    shared = rules.variance_scope == "shared" and rules.variances in ("moderated", "median", "mean")
    return shared and not rules.median_correction and rules.mean_map == "identity"


class ManySharers(NamedTuple):
    """Models of one training set, one per labelling; made, a few at a time, on demand."""

    prepared: Prepared
    rows: np.ndarray  # (k,) training scans
    Y: np.ndarray  # (k, B) class codes
    n_classes: int
    rules: SharingRules
    priors: Any

    def decision_function(self, rows: np.ndarray) -> np.ndarray:
        """Log-odds of other scans, (m, B) for two classes; s_c of (2), (m, B, C), for more."""
        train = training_part(self.prepared.scans, np.asarray(self.rows))
        test, groups = np.asarray(self.prepared.scans[rows]), self.prepared.groups
        varies = train.varying(groups.shape[0])
        if varies.any() and not varies.all():  # those that do not vary take no part
            inside = np.tile(varies, test.shape[1] // len(varies))
            train, test = train.at(inside), test[:, inside]
            groups = sparse.csr_array(groups[varies][:, varies])
        values = np.zeros((len(rows), self.Y.shape[1], self.n_classes))
        circle = members_of(groups, self.rules)
        everywhere = overall(train.mean, circle)
        drawn = draws_to_zero(train, groups, self.rules)
        test = np.vstack([test - train.mean, train.mean])
        room = workspace(self.n_classes, len(train.mean), min(LANES, self.Y.shape[1]))
        with blas_threads_for(len(self.rows)):
            for start in range(0, self.Y.shape[1], LANES):
                lanes = slice(start, start + LANES)
                values[:, lanes, 1:] = self._values(
                    train, circle, everywhere, test, drawn, self.Y[:, lanes], room
                )
        return values[..., 1] if self.n_classes == 2 else values

    def _values(
        self,
        train: Train,
        circle: Members,
        everywhere: Overall,
        test: np.ndarray,
        drawn: bool,
        Y: np.ndarray,
        room: Workspace,
    ) -> np.ndarray:
        """Values (2) of a few labellings, (m, L, C - 1)."""
        rules = self.rules
        count = (np.arange(self.n_classes)[:, None, None] == Y).sum(axis=1).astype(float)
        lone = count.max(axis=0) <= 1
        size = np.maximum(count, 0.5)
        room = room.cut(Y.shape[1])
        class_deviations(train, Y, count, lone, room)
        base, slope, inflation = variance_scales(room.within, count, lone, rules)
        pull = np.where(lone & draws_alone(rules), LONE_FACTOR, 1.0)
        scales = Scales(base, slope, size, class_factors(count), pull)
        found = shared_products(room, scales, circle, everywhere, rules, test, drawn)
        rho = np.ones(len(lone))
        if drawn:
            noise = inflation * len(room.within) * (1 / size).sum(axis=0)
            part = (found.sample - noise) / np.maximum(found.length, 1e-300)
            rho = np.where(lone | (found.length <= 0), 1.0, np.clip(part, 0.05, 1.0))
        along, at_mean = found.products[:-1], found.products[-1]
        values = rho * (along + (1 - rho) * at_mean) - 0.5 * rho**2 * found.norms
        with np.errstate(divide="ignore"):
            prior = np.log([class_prior(self.priors, n) for n in size.T])
        return np.moveaxis(values, 1, 2) + (prior[:, 1:] - prior[:, :1])


class Train(NamedTuple):
    """What does not depend on the labels of the training scans."""

    mean: np.ndarray  # (J,) x̄
    x: np.ndarray  # (J, k), relative to it
    squares: np.ndarray  # (J,) Σ x²
    centered: bool  # whether the scans themselves have mean zero

    def varying(self, n_voxels: int) -> np.ndarray:
        """Which voxels differ between scans, as `statistics.varying_voxels` says."""
        varies = self.squares > self.x.shape[1] * (ROUNDING * self.mean) ** 2
        return varies.reshape(-1, n_voxels).any(axis=0)

    def at(self, features: np.ndarray) -> Train:
        """The same of some features; whether all have mean zero is decided anew."""
        mean, x, squares = self.mean[features], self.x[features], self.squares[features]
        return Train(mean, x, squares, _has_mean_zero(x.shape[1], mean, squares))


def training_part(scans: np.ndarray, rows: np.ndarray) -> Train:
    """Training scans relative to their mean, which is found relative to the first of them."""
    first = scans[rows[0]].astype(float)
    x, k = np.ascontiguousarray((np.asarray(scans[rows]) - first).T), len(rows)
    shift = x.mean(axis=1)
    x -= shift[:, None]
    mean, squares = first + shift, np.einsum("jk,jk->j", x, x)
    return Train(mean, x, squares, _has_mean_zero(k, mean, squares))


def _has_mean_zero(n: int, mean: np.ndarray, squares: np.ndarray) -> bool:
    return bool(n * (mean @ mean) <= CENTERED * squares.sum())


def draws_alone(rules: SharingRules) -> bool:
    """Whether class means of one scan each are drawn toward their mean."""
    neighbors = isinstance(rules.means, str) and rules.means == "neighbors"
    return rules.shrinkage == "james-stein" or (rules.shrinkage == "auto" and neighbors)


def draws_to_zero(train: Train, groups: sparse.csr_array, rules: SharingRules) -> bool:
    """Whether class means are drawn toward zero, as `naive_bayes.draws_means` decides."""
    alone = groups.nnz == 0 or train.centered
    return draws_alone(rules) and (rules.shrinkage == "james-stein" or alone)


# --- sums and variances -----------------------------------------------------------------------


class Workspace(NamedTuple):
    """Arrays of the size of all models of a few labellings, used again and again."""

    deviations: np.ndarray  # (P, J, L)
    within: np.ndarray  # (J, L)
    weights: np.ndarray  # (F, C - 1, L)

    def cut(self, n: int) -> Workspace:
        """Contiguous arrays for n labellings: these, or new ones for the last few."""
        J, L = self.within.shape
        return self if n == L else workspace(self.weights.shape[1] + 1, J, n)


def workspace(n_classes: int, n_features: int, n_lanes: int) -> Workspace:
    """Room for so many labellings."""
    made, block = len(_made_classes(n_classes)), min(FEATURES, n_features)
    return Workspace(
        np.empty((made, n_features, n_lanes)),
        np.empty((n_features, n_lanes)),
        np.empty((block, n_classes - 1, n_lanes)),
    )


def _made_classes(n_classes: int) -> range:
    """Classes whose deviations are made: the second of two, or all."""
    return range(1, 2) if n_classes == 2 else range(n_classes)


def class_factors(count: np.ndarray) -> np.ndarray:
    """The deviation of every class relative to that which is made for it."""
    factor = np.ones_like(count)
    if len(count) == 2:
        factor[0] = -np.where(count[0] > 0, count[1] / np.maximum(count[0], 1), 0.0)
    return factor


def class_deviations(
    train: Train, Y: np.ndarray, count: np.ndarray, lone: np.ndarray, room: Workspace
) -> None:
    """Make deviations of class means and sums of squares within classes, by (1).

    Classes of one scan each have no residuals: the squares of all scans stand in for them.
    """
    made, J = list(_made_classes(len(count))), len(train.mean)
    shares = [(c == Y) / np.maximum(count[c], 1) for c in made]
    between = count[made] * (1 - class_factors(count)[0] if len(count) == 2 else 1.0)
    between[:, lone] = 0.0
    for start in range(0, J, FEATURES):
        here = slice(start, min(start + FEATURES, J))
        for share, deviations in zip(shares, room.deviations):
            np.matmul(train.x[here], share, out=deviations[here])
        _squares_within(here.start, here.stop, room.deviations, between, train.squares, room.within)


@njit(cache=True, fastmath=True)
def _squares_within(start, stop, deviations, between, squares, within):
    """Σ_c M2_c by (1) of a block of features, zero where it is rounding."""
    P, _, L = deviations.shape
    for j in range(start, stop):
        left, total, least = within[j], squares[j], NOTHING * squares[j]
        for b in range(L):
            left[b] = total
        for p in range(P):
            u, weight = deviations[p, j], between[p]
            for b in range(L):
                left[b] -= weight[b] * u[b] * u[b]
        for b in range(L):
            left[b] = left[b] if left[b] > least else 0.0


def variance_scales(
    within: np.ndarray, count: np.ndarray, lone: np.ndarray, rules: SharingRules
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Base, slope and the mean of σ²/σ̂² (L,) of variances, as in `variances.share_variances`."""
    k, present = count.sum(axis=0), (count > 0).sum(axis=0)
    means = np.where(lone, 1, present)
    divisor, degrees = k - rules.ddof * means, k - means
    if (divisor <= 0).any():
        raise InputError(
            "There is nothing to estimate a variance from",
            expected="two training scans or more",
            got=f"{int(k.min())}",
        )
    bias = divisor / np.maximum(degrees, 1)
    if not _any_above_zero(within):
        raise InputError(
            "Every sample variance is 0 under some relabelling: there is no scale",
            remedy="Mask out voxels that are constant within a class",
        )
    if rules.variances == "moderated":
        d0, centre = chi2_prior_of_logs(*_log_moments(within, divisor), degrees)
        keep = degrees / (d0 + degrees)
        excess = 2 / (np.maximum(d0 + degrees, 4.0) - 2)
        return (1 - keep) * centre, keep / divisor, bias * (1 + excess)
    average = within.mean(axis=0) / divisor
    one = average if rules.variances == "mean" else np.median(within, axis=0) / divisor
    if (one <= 0).any():
        raise InputError(
            "The median of the features' sample variances is 0 under some relabelling",
            remedy="Mask out constant voxels",
        )
    return one, np.zeros_like(one), bias * average / one


def _any_above_zero(within: np.ndarray) -> bool:
    """Whether every labelling has a feature that varies within classes; mostly the first does."""
    return bool(within[0].all() or within.any(axis=0).all())


def _log_moments(within: np.ndarray, divisor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance over features of log S², of those above 0."""
    n, first, second = (np.zeros(within.shape[1]) for _ in range(3))
    for start in range(0, len(within), FEATURES):
        block = within[start : start + FEATURES]
        whole = block.all()  # mostly; counting takes as long as logarithms do
        n += len(block) if whole else np.count_nonzero(block, axis=0)
        logs = np.log(block if whole else np.where(block > 0, block, 1.0))
        first += logs.sum(axis=0)
        second += np.einsum("jl,jl->l", logs, logs)
    mean = first / n
    spread = np.where(n > 1, (second - n * mean**2) / np.maximum(n - 1, 1), 0.0)
    return mean - np.log(divisor), spread


# --- means and weights ------------------------------------------------------------------------


class Scales(NamedTuple):
    """What labellings differ in, besides class means."""

    base: np.ndarray  # (L,)
    slope: np.ndarray  # (L,)
    size: np.ndarray  # (C, L) N
    factor: np.ndarray  # (C, L)
    pull: np.ndarray  # (L,) of class means toward their mean


class Sums(NamedTuple):
    """Sums over features of what (2) and ρ need."""

    norms: np.ndarray  # (C - 1, L) Σ (θ̂_c² − θ̂_0²) / σ̂²
    length: np.ndarray  # (L,) Σ_c Σ (θ̂_c + x̄)² / σ̂²
    sample: np.ndarray  # (L,) Σ_c Σ (u_c + x̄)² / σ̂²
    products: np.ndarray  # (m + 1, C - 1, L) Σ x φ_c / σ̂² of scans, and of x̄


def shared_products(
    room: Workspace,
    scales: Scales,
    circle: Members,
    everywhere: Overall,
    rules: SharingRules,
    test: np.ndarray,
    drawn: bool,
) -> Sums:
    """Share means, weigh features by their variances, and sum up one block after the other."""
    (C, L), J = scales.size.shape, len(room.within)
    norms, length, sample = np.zeros((C - 1, L)), np.zeros(L), np.zeros(L)
    products = np.zeros((len(test), (C - 1) * L))
    everyone = isinstance(rules.means, str) and rules.means == "all"
    center, spread = np.zeros((C, L)), np.zeros((C, L))
    if everyone:
        for c, factor in enumerate(scales.factor):
            deviations = room.deviations[min(c, len(room.deviations) - 1)]
            means = everywhere.mean[:, None] + factor * deviations
            center[c] = means.mean(axis=0)
            spread[c] = means.var(axis=0) * (J / max(J - rules.tau_ddof, 1))
    for start in range(0, J, FEATURES):
        weights = room.weights[: J - start]
        share_means(
            start, room.deviations, room.within, scales, circle, everywhere, center, spread,
            everyone, drawn, rules.tau_floor, weights, norms, length, sample,
        )  # fmt: skip
        products += test[:, start : start + FEATURES] @ weights.reshape(len(weights), -1)
    return Sums(norms, length, sample, products.reshape(-1, C - 1, L))
