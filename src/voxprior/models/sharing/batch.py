"""Feature sharing of many labellings at once, for permutation tests.

Labels enter the model through class sums alone. With Z_c the indicators of class c, one column per
labelling, those of all labellings are one product, and what is left within classes follows:

    N_c X̄_c = Xᵀ Z_c,      Σ_c M2_c = Σ_i x_i² − Σ_c N_c X̄_c²                              (1)

with x, X̄ and θ̂ relative to a training scan r, so that nothing cancels. The steps of
`voxprior.models.sharing.naive_bayes` are then taken for several labellings side by side: moderated,
median or mean variances of all classes together, means drawn to those of the neighbours, of all
features or of nobody, and by ρ toward zero. With one variance per feature a scan's
log-probabilities are linear in it, up to what all classes share; class 0 has the value 0:

    s_c(x) = ρ Σ_j (x_j + (1 − ρ) r_j) φ_cj / σ̂_j² − ½ ρ² Σ_j (θ̂_cj² − θ̂_0j²) / σ̂_j²
             + log P(c)/P(0),      φ_c = θ̂_c − θ̂_0                                         (2)

These are the models of `fit` before calibration, which does not change the order of classes. A
class without a training scan, as a relabelling may have it, has the mean of all of them and the
weight of half a scan.

| symbol | variable | shape |
|---|---|---|
| N, of L labellings | `count` | (C, L) |
| X̄ + r, class means | `means` | (C, J, L) |
| Σ_c M2_c | `within` | (J, L) |
| σ̂² = base + slope Σ_c M2_c | `base`, `slope` | (L,) |
| φ / σ̂² | `weights` | (C − 1, J, L) |
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
from voxprior.models.sharing.batch_means import Members, Tie, members_of, share_means, tie_of
from voxprior.models.sharing.groups import needs_scans
from voxprior.models.sharing.means import LONE_FACTOR
from voxprior.models.sharing.naive_bayes import CENTERED, Prepared, SharingRules

# Labellings side by side, and features whose sums are made at once.
LANES, FEATURES = 32, 2048
# Sum of squares within classes, relative to that about a scan, below which it is rounding.
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
    """Models of one training set, one per labelling; made, a few at a time, as values are asked."""

    prepared: Prepared
    rows: np.ndarray  # (k,) training scans
    Y: np.ndarray  # (k, B) class codes
    n_classes: int
    rules: SharingRules
    priors: Any

    def decision_function(self, rows: np.ndarray) -> np.ndarray:
        """Log-odds of other scans, (m, B) for two classes; s_c of (2), (m, B, C), for more."""
        train = training_part(self.prepared.scans, np.asarray(self.rows))
        values = np.zeros((len(rows), self.Y.shape[1], self.n_classes))
        circle = members_of(self.prepared.groups, self.rules)
        tie = tie_of(train.mean, circle)
        room = workspace(self.n_classes, len(train.reference), min(LANES, self.Y.shape[1]))
        with blas_threads_for(len(self.rows)):
            for start in range(0, self.Y.shape[1], LANES):
                lanes = slice(start, start + LANES)
                values[:, lanes, 1:] = self._values(
                    train, circle, tie, rows, self.Y[:, lanes], room
                )
        return values[..., 1] if self.n_classes == 2 else values

    def _values(
        self, train: Train, circle: Members, tie: Tie, rows: Any, Y: np.ndarray, room: Workspace
    ) -> np.ndarray:
        """Values (2) of a few labellings, (m, L, C - 1)."""
        rules = self.rules
        count = (np.arange(self.n_classes)[:, None, None] == Y).sum(axis=1).astype(float)
        lone = count.max(axis=0) <= 1
        size = np.maximum(count, 0.5)
        room = room.cut(Y.shape[1])
        class_means(train, Y, count, room)
        if lone.any():  # no residuals: the squares about the mean of all stand in for them
            total = train.squares - train.sums**2 / train.x.shape[1]
            room.within[:, lone] = total[:, None]
        base, slope, inflation = variance_scales(room.within, count, lone, rules)
        pull = np.where(lone & draws_alone(rules), LONE_FACTOR, 1.0)
        found = shared_weights(room, base, slope, size, pull, train, circle, tie, rules)
        rho = np.ones(len(lone))
        if draws_to_zero(train, self.prepared.groups, rules):
            noise = inflation * len(room.within) * (1 / size).sum(axis=0)
            drawn = np.clip((found.sample - noise) / np.maximum(found.length, 1e-300), 0.05, 1.0)
            rho = np.where(lone | (found.length <= 0), 1.0, drawn)
        along, at_reference = _products(
            np.asarray(self.prepared.scans[rows]), train.reference, room.weights
        )
        values = rho * (along + (1 - rho) * at_reference) - 0.5 * rho**2 * found.norms
        with np.errstate(divide="ignore"):
            prior = np.log([class_prior(self.priors, n) for n in size.T])
        return np.moveaxis(values, 1, 2) + (prior[:, 1:] - prior[:, :1])


class Train(NamedTuple):
    """What the training scans have whatever their labels, relative to the first of them."""

    reference: np.ndarray  # (J,) r
    x: np.ndarray  # (J, k)
    sums: np.ndarray  # (J,)
    squares: np.ndarray  # (J,)
    mean: np.ndarray  # (J,) of the scans themselves
    centered: bool  # whether the scans themselves have mean zero


def training_part(scans: np.ndarray, rows: np.ndarray) -> Train:
    """Training scans relative to the first, their sums and sums of squares."""
    reference = scans[rows[0]].astype(float)
    x, k = np.ascontiguousarray((np.asarray(scans[rows]) - reference).T), len(rows)
    sums, squares = x.sum(axis=1), np.einsum("jk,jk->j", x, x)
    mean, around = reference + sums / k, squares - sums**2 / k
    centered = k * (mean @ mean) <= CENTERED * around.sum()
    return Train(reference, x, sums, squares, mean, bool(centered))


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

    means: np.ndarray  # (C, J, L)
    within: np.ndarray  # (J, L)
    weights: np.ndarray  # (C - 1, J, L)

    def cut(self, n: int) -> Workspace:
        """Contiguous arrays for n labellings: these, or new ones for the last few."""
        C, J, L = self.means.shape
        return self if n == L else workspace(C, J, n)


def workspace(n_classes: int, n_features: int, n_lanes: int) -> Workspace:
    """Room for so many labellings."""
    sizes = (n_classes, n_features, n_lanes), (n_features, n_lanes)
    return Workspace(*(np.empty(size) for size in (*sizes, (n_classes - 1, *sizes[1]))))


def class_means(train: Train, Y: np.ndarray, count: np.ndarray, room: Workspace) -> None:
    """Make class means X̄ + r and sums of squares within classes, by (1)."""
    C, J, _ = room.means.shape
    indicators = [np.ascontiguousarray(c == Y, dtype=float) for c in range(1, C)]
    for start in range(0, J, FEATURES):
        here = slice(start, min(start + FEATURES, J))
        for c, members in enumerate(indicators, start=1):
            np.matmul(train.x[here], members, out=room.means[c, here])
        of_all = train.reference[here], train.sums[here], train.squares[here]
        _finish_means(room.means[:, here], room.within[here], count, *of_all, len(Y))


@njit(cache=True, fastmath=True)
def _finish_means(means, within, count, reference, sums, squares, k):
    """Turn the sums of classes 1 to C - 1 into means, with those of class 0 by what is left."""
    C, J, L = means.shape
    inverse = 1.0 / np.maximum(count, 1.0)
    for j in range(J):
        rest, left = means[0, j], within[j]
        for b in range(L):
            rest[b], left[b] = sums[j], squares[j]
        for c in range(C - 1, -1, -1):
            own, size, over = means[c, j], count[c], inverse[c]
            for b in range(L):
                total = own[b]
                if c > 0:
                    rest[b] -= total
                mean = total * over[b] if size[b] > 0 else sums[j] / k
                left[b] -= size[b] * mean * mean
                own[b] = reference[j] + mean
        for b in range(L):
            if left[b] <= NOTHING * squares[j]:
                left[b] = 0.0


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
        n += np.count_nonzero(block, axis=0)
        logs = np.log(block if block.all() else np.where(block > 0, block, 1.0))
        first += logs.sum(axis=0)
        second += np.einsum("jl,jl->l", logs, logs)
    mean = first / n
    spread = np.where(n > 1, (second - n * mean**2) / np.maximum(n - 1, 1), 0.0)
    return mean - np.log(divisor), spread


# --- means and weights ------------------------------------------------------------------------


class Sums(NamedTuple):
    """Sums over features of what (2) and ρ need."""

    norms: np.ndarray  # (C - 1, L) Σ (θ̂_c² − θ̂_0²) / σ̂²
    length: np.ndarray  # (L,) Σ_c Σ (θ̂_c + r)² / σ̂²
    sample: np.ndarray  # (L,) Σ_c Σ (X̄_c + r)² / σ̂²


def shared_weights(
    room: Workspace,
    base: np.ndarray,
    slope: np.ndarray,
    size: np.ndarray,
    pull: np.ndarray,
    train: Train,
    circle: Members,
    tie: Tie,
    rules: SharingRules,
) -> Sums:
    """Share means and weigh features by their variances, into ``room.weights``."""
    means, (C, J, L) = room.means, room.means.shape
    found = Sums(np.zeros((C - 1, L)), np.zeros(L), np.zeros(L))
    everyone = isinstance(rules.means, str) and rules.means == "all"
    center, spread = np.zeros((C, L)), np.zeros((C, L))
    if everyone:
        center, spread = means.mean(axis=1), means.var(axis=1) * (J / max(J - rules.tau_ddof, 1))
    # The means of two classes with a scan each are tied by that of all scans.
    tied = tie if C == 2 and (size >= 1).all() else Tie(*[np.empty(0)] * 3)
    share_means(
        means, room.within, base, slope, size, pull, train.reference, circle, tied, center, spread,
        everyone, rules.tau_floor, room.weights, found,
    )  # fmt: skip
    return found


def _products(
    scans: np.ndarray, reference: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Products of the weights with scans relative to r, (m, C - 1, L), and with r, (C - 1, L)."""
    x = np.vstack([scans - reference, reference])
    along = np.stack([x @ part for part in weights], axis=1)
    return along[:-1], along[-1]
