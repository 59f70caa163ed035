"""One subject in a few small tables: episodes of few scans, class geometry, noise share.

An *episode* of size n pretends that a subject is new: n of its runs are training scans, the other
runs are test scans. With the class means M of the training scans, minus their mean over classes,
and moderated noise variances v_j, D = diag(v),

    F = X_test D⁻¹ Mᵀ        Q = M D⁻¹ Mᵀ                                                   (1)

are all that later steps need: C numbers per test scan and a C x C table. With one scan per class
there are no residuals, and v_j = φ T for every voxel, with T the mean square of the training scans
and φ the noise share of other subjects, which is put in later (`Episode.unscaled`).

The geometry of a subject is the second moment of its true class means in units of noise, from
products between different runs a and b only, so that noise does not enter:

    G = 1/(V R (R−1)) Σ_{a≠b} M_a D⁻¹ M_bᵀ                                                  (2)

Voxels that share their noise are counted more than once. With the residuals R of all d degrees of
freedom, in units of noise, and K = R Rᵀ, a subject has as many effective voxels as its noise has
directions,

    V_eff = (tr Σ)²/tr Σ²     tr Σ = tr K/d     tr Σ² = (|K|² − (tr K)²/d)/((d−1)(d+2))      (3)

with an estimate of tr Σ² that few scans do not bias.

Scans are centred by run where runs hold all classes, else by the mean of the class means of the
training scans. Without runs the j-th scans of all classes serve as run j of an episode, and halves
of the scans as the two runs of (2).

| symbol | variable | shape |
|---|---|---|
| X, scans of a subject | `X` | (n, V) |
| y, class numbers; run of each scan | `codes`, `runs` | (n,) |
| M | `means` | (C, V) |
| v | `variances` | (V,) |
| F, Q | `F`, `Q` | (tests, C), (C, C) |
| n_c | `counts` | (C,) |
| G | `geometry` | (C, C) |
| φ | `noise_share` | scalar |
| V, V_eff | `n_voxels`, `n_effective` | scalars |
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from voxprior.algebra import inverse_chi2_prior

Array = NDArray[np.float64]


class Scans(NamedTuple):
    """Scans of a subject, the number of the class of each, and its run if runs hold all classes."""

    X: NDArray
    codes: NDArray[np.intp]
    runs: NDArray[np.intp] | None
    n_classes: int


class Moments(NamedTuple):
    """Class means (C, V), noise variances (V,), moderated and as sampled, counts (C,), centre (V,).

    Without degrees of freedom the variances are the mean square T of the scans, see the module.
    """

    means: Array
    variances: Array
    sample: Array
    degrees: int
    counts: NDArray[np.intp]
    center: Array


class Episode(NamedTuple):
    """One pretended new subject: (1), the size V, counts (C,), classes of the test scans."""

    F: Array
    Q: Array
    n_voxels: float
    counts: NDArray[np.intp]
    unscaled: bool  # F and Q are still to be divided by the noise share of others
    y: NDArray[np.intp]
    base: Array  # log-probabilities of the base model for the test scans


class Split(NamedTuple):
    """Rows of the training and of the test scans of an episode."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]


def scans_of(X: NDArray, codes: NDArray[np.intp], groups: NDArray | None, n_classes: int) -> Scans:
    """Scans of a subject, centred by run if every run holds all classes.

    >>> X, y = np.array([[1.0], [3.0], [6.0], [8.0]]), np.array([0, 1, 0, 1])
    >>> scans_of(X, y, np.array(["a", "a", "b", "b"]), 2).X.ravel()
    array([-1.,  1., -1.,  1.])
    """
    X = np.asarray(X, dtype=np.float64)
    if groups is None:
        return Scans(X, codes, None, n_classes)
    runs = np.unique(groups, return_inverse=True)[1]
    table = np.zeros((runs.max() + 1, n_classes), dtype=int)
    np.add.at(table, (runs, codes), 1)
    if (table == 0).any():
        return Scans(X, codes, None, n_classes)
    sums = np.zeros((len(table), X.shape[1]))
    np.add.at(sums, runs, X)
    return Scans(X - (sums / table.sum(axis=1)[:, None])[runs], codes, runs, n_classes)


def moments(scans: Scans, rows: NDArray[np.intp]) -> Moments:
    """Class means and moderated noise variances of some scans of a subject."""
    X, codes = scans.X[rows], scans.codes[rows]
    counts = np.bincount(codes, minlength=scans.n_classes)
    means = class_sums(X, codes, scans.n_classes) / counts[:, None]
    spent = 1 if scans.runs is None else len(np.unique(scans.runs[rows]))
    degrees = len(rows) - scans.n_classes - (spent - 1)
    center = means.mean(axis=0)
    if degrees > 0:
        sample = ((X - means[codes]) ** 2).sum(axis=0) / degrees
        variances = moderated(sample, degrees)
    else:
        square = ((X - center) ** 2).sum() / max((len(rows) - spent) * X.shape[1], 1)
        sample = variances = np.full(X.shape[1], square)
    return Moments(means - center, _positive(variances), sample, max(degrees, 0), counts, center)


def class_sums(X: NDArray, codes: NDArray[np.intp], n_classes: int) -> Array:
    """Sum of the scans of each class, (C, V)."""
    return np.stack([X[codes == c].sum(axis=0) for c in range(n_classes)])


def moderated(sample: Array, degrees: int) -> Array:
    """Sample variances (V,) drawn toward a common one as far as their spread says.

    >>> moderated(np.array([0.1, 0.5, 1, 2, 8, 20]), 4).round(6)
    array([ 0.287624,  0.58681 ,  0.960791,  1.708755,  6.196539, 15.172107])
    """
    if not sample.any():
        return sample
    prior_degrees, scale = inverse_chi2_prior(sample, degrees)
    if np.isinf(prior_degrees):
        return np.full_like(sample, sample.mean())
    return (prior_degrees * scale + degrees * sample) / (prior_degrees + degrees)


def _positive(variances: Array) -> Array:
    """Variances above 0: a voxel that never moves must not divide by nothing."""
    largest = variances.max(initial=0.0)
    return np.maximum(variances, 1e-12 * largest) if largest > 0 else np.ones_like(variances)


# ---------------------------------------------------------------- episodes


def sizes_of(scans: Scans) -> list[int]:
    """Scans per class that episodes of a subject can train on: 1, 2, 3, 4, 6, 8, ...

    >>> X, y = np.zeros((12, 1)), np.tile([0, 1], 6)
    >>> sizes_of(scans_of(X, y, np.arange(12) // 2, 2))
    [1, 2, 3, 4]
    """
    largest = (n_units(scans) - 1) * scans_per_unit(scans)
    return [n for n in (1, 2, 3, *range(4, largest + 1, 2)) if n <= largest]


def n_units(scans: Scans) -> int:
    """Units that hold all classes."""
    if scans.runs is not None:
        return int(scans.runs.max()) + 1
    return int(np.bincount(scans.codes, minlength=scans.n_classes).min())


def units_of(scans: Scans) -> NDArray[np.intp]:
    """What episodes are put together from: runs, or the j-th scans of all classes."""
    return scans.runs if scans.runs is not None else rank_in_class(scans.codes, scans.n_classes)


def rank_in_class(codes: NDArray[np.intp], n_classes: int) -> NDArray[np.intp]:
    """How many scans of the same class came before, per scan.

    >>> rank_in_class(np.array([0, 1, 1, 0]), 2)
    array([0, 0, 1, 1])
    """
    rank = np.empty(len(codes), dtype=np.intp)
    for c in range(n_classes):
        rank[codes == c] = np.arange((codes == c).sum())
    return rank


def scans_per_unit(scans: Scans) -> int:
    """Scans of the rarest class that a unit brings, as a rule."""
    if scans.runs is None:
        return 1
    counts = [
        np.bincount(scans.codes[scans.runs == run], minlength=scans.n_classes).min()
        for run in range(n_units(scans))
    ]
    return max(1, int(np.median(counts)))


def episodes_of(scans: Scans, size: int, most: int) -> list[Split]:
    """Splits of a subject into n runs that train and the others; all of them, or `most` in order.

    >>> scans = scans_of(np.zeros((6, 1)), np.tile([0, 1], 3), np.arange(6) // 2, 2)
    >>> [split.train.tolist() for split in episodes_of(scans, 1, 24)]
    [[0, 1], [2, 3], [4, 5]]
    """
    units, usable = units_of(scans), n_units(scans)
    n_train = max(1, round(size / scans_per_unit(scans)))
    if n_train >= usable:
        return []
    inside = (np.isin(units, chosen) for chosen in _spread(usable, n_train, most))
    return [Split(np.flatnonzero(one), np.flatnonzero(~one)) for one in inside]


def _spread(total_units: int, n_train: int, most: int) -> Iterator[tuple[int, ...]]:
    """Combinations in lexicographic order: all, or `most` of them, evenly spread."""
    total = comb(total_units, n_train)
    every, at = combinations(range(total_units), n_train), 0
    if total <= most:
        yield from every
        return
    for number in (i * total // most for i in range(most)):
        yield next(islice(every, number - at, None))
        at = number + 1


def episode(known: Moments, new: Array, y: NDArray[np.intp], base: Array) -> Episode:
    """Equation (1): what scans (tests, V) of classes y look like to a subject with such moments."""
    weighted = known.means / known.variances
    return Episode(
        (new - known.center) @ weighted.T,
        known.means @ weighted.T,
        new.shape[1],
        known.counts,
        known.degrees == 0,
        y,
        base,
    )


# ---------------------------------------------------------------- a subject as a whole


class Traits(NamedTuple):
    """Summary of a subject as a whole: φ and V_eff, NaN if unknown, G, None if unknown, and V."""

    noise_share: float
    n_effective: float
    geometry: Array | None
    n_voxels: int


def traits(scans: Scans) -> Traits:
    """φ, V_eff, G and V of a subject."""
    return Traits(noise_share(scans), effective_voxels(scans), geometry(scans), scans.X.shape[1])


def effective_voxels(scans: Scans) -> float:
    """V_eff of equation (3), no more than V; NaN for a subject with less than two residuals.

    >>> X, y = np.random.default_rng(0).standard_normal((40, 90)), np.tile([0, 1], 20)
    >>> once, thrice = (scans_of(np.repeat(X, k, axis=1), y, None, 2) for k in (1, 3))
    >>> round(effective_voxels(once)), round(effective_voxels(thrice))
    (90, 92)
    """
    known = moments(scans, np.arange(len(scans.X)))
    d, V = known.degrees, scans.X.shape[1]
    if d < 2:
        return np.nan
    R = (scans.X - known.center - known.means[scans.codes]) / np.sqrt(known.variances)
    K = R @ R.T
    total = np.trace(K)
    squares = ((K**2).sum() - total**2 / d) / ((d - 1) * (d + 2))
    return float(np.clip((total / d) ** 2 / squares, 1.0, V)) if squares > 0 else float(V)


def noise_share(scans: Scans) -> float:
    """φ: mean noise variance over the mean square of the centred scans, or NaN if unknown."""
    everything = np.arange(len(scans.X))
    known = moments(scans, everything)
    if known.degrees == 0:
        return np.nan
    spent = 1 if scans.runs is None else scans.runs.max() + 1
    square = ((scans.X - known.center) ** 2).sum() / ((len(scans.X) - spent) * scans.X.shape[1])
    return float(np.clip(known.variances.mean() / square, 1e-3, 1.0)) if square > 0 else np.nan


def geometry(scans: Scans) -> Array | None:
    """G of equation (2), or None for a subject that cannot be parted into two runs."""
    parts = scans.runs if scans.runs is not None else _halves(scans)
    if parts is None or parts.max() == 0:
        return None
    variances = moments(scans, np.arange(len(scans.X))).variances
    n_parts, C = parts.max() + 1, scans.n_classes
    total, own = np.zeros((C, scans.X.shape[1])), np.zeros((C, C))
    for part in range(n_parts):
        X, codes = scans.X[parts == part], scans.codes[parts == part]
        means = class_sums(X, codes, C) / np.bincount(codes, minlength=C)[:, None]
        means -= means.mean(axis=0)
        own += (means / variances) @ means.T
        total += means
    between = (total / variances) @ total.T - own
    return between / (scans.X.shape[1] * n_parts * (n_parts - 1))


def _halves(scans: Scans) -> NDArray[np.intp] | None:
    """First and second half of the scans of each class, if each has two."""
    counts = np.bincount(scans.codes, minlength=scans.n_classes)
    if counts.min() < 2:
        return None
    return (rank_in_class(scans.codes, scans.n_classes) >= (counts // 2)[scans.codes]).astype(int)
