"""What others teach: how sure to be, how classes relate, how scores are read.

The class means of a new subject are mixed by W before scans are scored with them,

    Σ = size (κ Ḡ + (1−κ) H/(C−1))       W = Σ (Σ + N)⁺       N = H diag(1/n_c) H             (1)
    S = F Wᵀ − ½ diag(W Q Wᵀ),  centred over classes                                         (2)

with size = max(tr Q/V − tr N, .02 tr Q/V), the subject's own signal, noise removed, and Ḡ the shape
of the others' class geometry. Levels differ in what they take from others:

    calibration   κ = 0 (James-Stein: W = ρ H)        p = softmax(t S)
    geometry      κ = m/(m + κ₀), m other subjects     p = softmax(t_G S_G)
    readout       κ = 0                                p = softmax(S Aᵀ + b)

t minimises the log-loss over the others' episodes, in which each subject weighs the same; A and b
that log-loss plus a ridge toward t I (not toward zero):

    log-loss of softmax(Z A_Zᵀ + b) + λ/2 (|A_Z − t k I|² + |b|²),   Z = S/k, λ = λ₀/m       (3)

with one scale k for all subjects, because the size of S says how sure to be.

S is a sum over voxels, and t presumes that a voxel is equally informative in all subjects. A
subject with V voxels is taken to have the others' effective voxels, or all of its own if these are
fewer; F, Q and V are multiplied by g(V)/g(V̄), g(V) = min(V, V_eff)/V, and V̄, V_eff medians over
the others. Numbers within a factor of 1.5 are taken for the same: masks differ by that much where
voxels do not.

| symbol | variable | shape |
|---|---|---|
| F, Q, V, n_c | `Episode` | |
| φ, V̄, V_eff of a group | `Units` | scalars |
| Ḡ | `shape` | (C, C) |
| W, S | `mixing`, `scores` | (C, C), (scans, C) |
| t, t_G | `temperature`, `temperature_geometry` | scalars |
| A, b | `slope`, `offset` | (C, C), (C,) |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar

from voxprior.algebra import log_softmax_rows
from voxprior.transfer.episodes import Episode, Traits

Array = NDArray[np.float64]

# The smallest share of tr Q that counts as signal.
LEAST_SIGNAL = 0.02
# Voxel counts that differ by no more than this factor are taken for the same.
SAME_VOXELS = 1.5


class Scored(NamedTuple):
    """Scores of test scans of one subject (scans, C), with and without geometry, and classes."""

    plain: Array
    shaped: Array
    y: NDArray[np.intp]


class Readout(NamedTuple):
    """p = softmax(S slopeᵀ + offset)."""

    slope: Array
    offset: Array


class Units(NamedTuple):
    """What brings scores of subjects to one scale: φ, V̄ and V_eff of a group."""

    noise_share: float
    n_voxels: float
    n_effective: float

    def weight(self, n_voxels: float) -> float:
        """g(V)/g(V̄): what a voxel counts in a subject with so many, relative to the group."""
        if 1 / SAME_VOXELS <= n_voxels / self.n_voxels <= SAME_VOXELS:
            return 1.0
        own, usual = (min(V, self.n_effective) / V for V in (n_voxels, self.n_voxels))
        return own / usual


@dataclass(frozen=True)
class Lesson:
    """What m others teach a subject with a given number of scans per class."""

    noise_share: float
    n_voxels: float
    n_effective: float
    shape: Array  # Ḡ
    trust: float  # κ
    temperature: float
    temperature_geometry: float
    slope: Array
    offset: Array
    from_base: bool  # whether S are the base's log-probabilities, which know no geometry

    @property
    def units(self) -> Units:
        """The scale of its scores."""
        return Units(self.noise_share, self.n_voxels, self.n_effective)


def group_shape(geometries: Sequence[Array], n_classes: int) -> Array:
    """Ḡ: the mean of G/tr G, positive and of trace 1; exchangeable classes where there is none.

    >>> group_shape([np.array([[1.0, -1.0], [-1.0, 1.0]])], 2)
    array([[ 0.5, -0.5],
           [-0.5,  0.5]])
    """
    H = centering(n_classes)
    usable = [G / np.trace(G) for G in geometries if np.trace(G) > 0]
    if not usable:
        return H / (n_classes - 1)
    values, vectors = np.linalg.eigh(H @ np.mean(usable, axis=0) @ H)
    positive = (vectors * np.maximum(values, 0)) @ vectors.T
    return positive / np.trace(positive)


def centering(n_classes: int) -> Array:
    """H = I − 11ᵀ/C."""
    return np.eye(n_classes) - 1 / n_classes


def scaled(episode: Episode, units: Units) -> Episode:
    """The episode in units of noise, if these were still unknown, and of the group's voxels."""
    weight = units.weight(episode.n_voxels)
    per_noise = weight / units.noise_share if episode.unscaled else weight
    return episode._replace(
        F=episode.F * per_noise,
        Q=episode.Q * per_noise,
        n_voxels=episode.n_voxels * weight,
        unscaled=False,
    )


def second_moments(episode: Episode, shape: Array, trust: float) -> tuple[Array, Array]:
    """Σ and N of equation (1)."""
    C = len(episode.Q)
    H = centering(C)
    N = H @ np.diag(1 / episode.counts) @ H
    per_voxel = np.trace(episode.Q) / episode.n_voxels
    size = max(per_voxel - np.trace(N), LEAST_SIGNAL * per_voxel)
    return size * (trust * shape + (1 - trust) * H / (C - 1)), N


def mixing(episode: Episode, shape: Array, trust: float) -> Array:
    """W of equation (1)."""
    Sigma, N = second_moments(episode, shape, trust)
    return Sigma @ np.linalg.pinv(Sigma + N, hermitian=True)


def scores(episode: Episode, shape: Array, trust: float) -> Array:
    """S of equation (2)."""
    W = mixing(episode, shape, trust)
    S = episode.F @ W.T - np.einsum("ab,bc,ac->a", W, episode.Q, W) / 2
    return S - S.mean(axis=1, keepdims=True)


def evidence_for_shape(episode: Episode, shape: Array, trust: float) -> float:
    """ℓ(Ḡ) − ℓ(H): evidence of a subject's own means for the others' geometry, per voxel."""
    return _evidence(episode, shape, trust) - _evidence(episode, shape, 0.0)


def _evidence(episode: Episode, shape: Array, trust: float) -> float:
    Sigma, N = second_moments(episode, shape, trust)
    C = len(N)
    basis = np.linalg.svd(np.ones((1, C)))[2][1:].T
    inside = basis.T @ (Sigma + N) @ basis
    second = basis.T @ episode.Q @ basis / episode.n_voxels
    return -(np.linalg.slogdet(inside)[1] + np.trace(np.linalg.solve(inside, second))) / 2


# ---------------------------------------------------------------- learning from others


class Rules(NamedTuple):
    """Settings of learning: κ₀, λ₀, and whether the base's log-probabilities stand for S."""

    kappa0: float
    lambda0: float
    from_base: bool


def plain_scores(episode: Episode, shape: Array, from_base: bool) -> Array:
    """S without the others' geometry: of James-Stein class means, or of the base."""
    if not from_base:
        return scores(episode, shape, 0.0)
    return episode.base - episode.base.mean(axis=1, keepdims=True)


def scored(
    episodes: Sequence[Episode], units: Units, shape: Array, trust: float, from_base: bool
) -> Scored:
    """Scores of all episodes of one subject, one below the other."""
    known = [scaled(one, units) for one in episodes]
    return Scored(
        np.concatenate([plain_scores(one, shape, from_base) for one in known]),
        np.concatenate([scores(one, shape, trust) for one in known]),
        np.concatenate([one.y for one in known]),
    )


def weights_of(subjects: Sequence[Scored]) -> Array:
    """Weight of every scan; each subject has the same in all, and all together have 1."""
    return np.concatenate([np.full(len(s.y), 1 / (len(subjects) * len(s.y))) for s in subjects])


def best_temperature(S: Array, y: NDArray[np.intp], weights: Array) -> float:
    """Temperature t that minimises the log-loss of softmax(t S)."""
    size = np.sqrt((S**2).mean())
    if size == 0:
        return 1.0

    def loss(log_t: float) -> float:
        return float(-weights @ log_softmax_rows(np.exp(log_t) * S)[np.arange(len(y)), y])

    middle = -np.log(size)
    found = minimize_scalar(loss, bounds=(middle - 4, middle + 5), method="bounded")
    return float(np.exp(found.x))


def best_readout(
    S: Array, y: NDArray[np.intp], weights: Array, temperature: float, ridge: float
) -> Readout:
    """A and b of equation (3)."""
    C = S.shape[1]
    k = np.sqrt((weights @ S**2).sum() / C)
    if k == 0:
        return Readout(temperature * np.eye(C), np.zeros(C))
    Z, center, truth = S / k, temperature * k * np.eye(C), np.eye(C)[y]

    def objective(flat: Array) -> tuple[float, Array]:
        A, b = flat[: C * C].reshape(C, C), flat[C * C :]
        log_p = log_softmax_rows(Z @ A.T + b)
        error = weights[:, None] * (np.exp(log_p) - truth)
        penalty = ridge / 2 * (((A - center) ** 2).sum() + b @ b)
        slope = error.T @ Z + ridge * (A - center)
        return penalty - weights @ (log_p * truth).sum(axis=1), np.r_[
            slope.ravel(), error.sum(axis=0) + ridge * b
        ]

    start = np.r_[center.ravel(), np.zeros(C)]
    flat = minimize(objective, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-13}).x
    return Readout(flat[: C * C].reshape(C, C) / k, flat[C * C :])


def learn(
    episodes: Sequence[Sequence[Episode]], subjects: Sequence[Traits], rules: Rules
) -> Lesson:
    """What m subjects teach by their episodes of one size (one sequence per subject).

    The noise share and the shape that serve a subject come from the others, as they will for a
    new one; a single subject has to take its own.
    """
    m, C = len(episodes), len(episodes[0][0].Q)
    trust, everyone = m / (m + rules.kappa0), common_units(subjects)
    parts = []
    for o, own in enumerate(episodes):
        rest = [subjects[i] for i in range(m) if i != o] or [subjects[o]]
        units = everyone._replace(noise_share=common_units(rest).noise_share)
        parts.append(scored(own, units, common_shape(rest, C), trust, rules.from_base))
    weights, y = weights_of(parts), np.concatenate([one.y for one in parts])
    plain = np.concatenate([one.plain for one in parts])
    t = best_temperature(plain, y, weights)
    t_shaped = best_temperature(np.concatenate([one.shaped for one in parts]), y, weights)
    readout = best_readout(plain, y, weights, t, rules.lambda0 / m)
    shape = common_shape(subjects, C)
    return Lesson(*everyone, shape, trust, t, t_shaped, *readout, rules.from_base)


def common_units(subjects: Sequence[Traits]) -> Units:
    """Mean noise share of some subjects, and the medians of their V and V_eff."""
    shares = [one.noise_share for one in subjects if np.isfinite(one.noise_share)]
    voxels = float(np.median([one.n_voxels for one in subjects]))
    known = [one.n_effective for one in subjects if np.isfinite(one.n_effective)]
    effective = float(np.median(known)) if known else voxels
    return Units(float(np.mean(shares)) if shares else 1.0, voxels, effective)


def common_shape(subjects: Sequence[Traits], n_classes: int) -> Array:
    """Ḡ of some subjects."""
    return group_shape([G for one in subjects if (G := one.geometry) is not None], n_classes)


def log_probabilities(episode: Episode, lesson: Lesson) -> dict[str, Array]:
    """Log-probabilities (scans, C) of every level for the new scans of a subject."""
    known = scaled(episode, lesson.units)
    plain = plain_scores(known, lesson.shape, lesson.from_base)
    shaped = scores(known, lesson.shape, lesson.trust)
    return {
        "base": log_softmax_rows(episode.base),
        "calibration": log_softmax_rows(lesson.temperature * plain),
        "geometry": log_softmax_rows(lesson.temperature_geometry * shaped),
        "readout": log_softmax_rows(plain @ lesson.slope.T + lesson.offset),
    }
