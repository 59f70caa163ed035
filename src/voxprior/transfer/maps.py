"""Maps of the group, where subjects share a space: a prior mean and variance for every voxel.

With the class means M_o of each other subject (centred over classes), their noise σ², and K_h a
Gaussian smoother of h voxels,

    μ = K_h mean_o M_o        d_o = M_o − K_h mean_{o'≠o} M_o'
    τ² = max(K_2 mean_o Σ_c d_oc²/(C−1) − e σ², 10⁻⁴ σ²),    e = mean of 1/n_oc              (1)

The noise of each subject's own map is taken out of τ²; what finite m, smoothing and misalignment
leave stays in, because a new subject meets it too. h maximises the likelihood of the d_o, which is
how misalignment is learned. A new subject with means M and counts n_c has

    f = (1 + own/expected)/2,  μ ← √f μ,  τ² ← f τ²                        its own gain
    w_c = τ²/(τ² + σ²/n_c)     θ_c = μ_c + w_c (M_c − μ_c)     D = σ² + mean_c w_c σ²/n_c    (2)
    S(x) = Σ_j x_j θ_cj/D_j − θ_cj²/(2 D_j),  centred over classes                           (3)

σ² comes from the others, so that one scan per class needs nothing special. Functional alignment of
subjects, where there is one, comes before all this.

| symbol | variable | shape |
|---|---|---|
| μ | `mean` | (C, V) |
| τ², σ² | `spread`, `noise` | (V,) |
| h | `smoothing` | scalar |
| θ/D, Σ θ²/(2 D) | `weights`, `offsets` | (C, V), (C,) |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from voxprior.space import VoxelSpace
from voxprior.transfer.episodes import Moments

Array = NDArray[np.float64]
Smoother = Callable[[float, Array], Array]

WIDTHS = (0.0, 1.0, 2.0, 3.0)  # of the smoothers that are tried, in voxels
NOISE_WIDTH = 1.0
SPREAD_WIDTH = 2.0
LEAST_SPREAD = 1e-4  # in units of σ²


@dataclass(frozen=True)
class GroupMaps:
    """Prior maps of a group of m subjects."""

    mean: Array
    spread: Array
    noise: Array
    smoothing: float
    n_subjects: int


class MapScorer(NamedTuple):
    """Equation (3) as a linear function of scans: weights (C, V) and offsets (C,)."""

    weights: Array
    offsets: Array

    def scores(self, X: NDArray) -> Array:
        """Scores of scans (scans, C), centred over classes."""
        S = X @ self.weights.T - self.offsets
        return S - S.mean(axis=1, keepdims=True)


def smoother(space: VoxelSpace) -> Smoother:
    """K_h of a space: weighted means over voxels, so that edges are not dimmed."""

    @cache
    def kernel(width: float):
        gaussian = space.gaussian(width)
        return gaussian, gaussian.row_sums()

    def smooth(width: float, maps: Array) -> Array:
        if width == 0:
            return maps
        gaussian, mass = kernel(width)
        return (gaussian @ maps.T).T / mass

    return smooth


def smoothed_means(subjects: Sequence[Moments], smooth: Smoother) -> list[Array]:
    """K_h M_o of all subjects (m, C, V), for every width h."""
    return [np.stack([smooth(width, one.means) for one in subjects]) for width in WIDTHS]


def group_maps(
    subjects: Sequence[Moments], smoothed: Sequence[Array], smooth: Smoother
) -> GroupMaps:
    """Equation (1) from two subjects or more, and their `smoothed_means`."""
    noise = noise_map(subjects, smooth)
    means = np.stack([one.means for one in subjects])
    error = float(np.mean([1 / one.counts for one in subjects]))
    tried = [_at_width(means, one, smooth, error, noise) for one in smoothed]
    best = int(np.argmax([likelihood for likelihood, _, _ in tried]))
    _, mean, spread = tried[best]
    return GroupMaps(mean, spread, noise, WIDTHS[best], len(subjects))


def noise_map(subjects: Sequence[Moments], smooth: Smoother) -> Array:
    """σ²: mean noise variance of the subjects for which it is known."""
    known = [one.sample for one in subjects if one.degrees > 0] or [
        one.variances for one in subjects
    ]
    noise = smooth(NOISE_WIDTH, np.mean(known, axis=0))
    return np.maximum(noise, 1e-12 * noise.max()) if noise.max() > 0 else np.ones_like(noise)


def _at_width(
    means: Array, smoothed: Array, smooth: Smoother, error: float, noise: Array
) -> tuple[float, Array, Array]:
    """Likelihood of the subjects' deviations at one width of the smoother, with μ and τ²."""
    m, C, _ = means.shape
    total = smoothed.sum(axis=0)
    squares = np.stack(
        [((M - (total - K) / (m - 1)) ** 2).sum(axis=0) for M, K in zip(means, smoothed)]
    )
    spread = smooth(SPREAD_WIDTH, squares.mean(axis=0) / (C - 1)) - error * noise
    spread = np.maximum(spread, LEAST_SPREAD * noise)
    total_variance = spread + error * noise
    likelihood = -(squares / total_variance + (C - 1) * np.log(total_variance)).sum() / 2
    return float(likelihood), total / m, spread


def map_scorer(group: GroupMaps, known: Moments) -> MapScorer:
    """Equations (2) and (3) for a subject with such class means."""
    mean, spread = _with_own_gain(group, known)
    share = spread / (spread + group.noise / known.counts[:, None])
    theta = mean + share * (known.means - mean)
    D = group.noise + (share * group.noise / known.counts[:, None]).mean(axis=0)
    weights = theta / D
    return MapScorer(weights, (weights * theta).sum(axis=1) / 2)


def _with_own_gain(group: GroupMaps, known: Moments) -> tuple[Array, Array]:
    """μ and τ² on the scale of a subject's own signal."""
    C, V = known.means.shape
    noise_part = (C - 1) * V * (1 / known.counts).mean()
    own = max(0.0, float((known.means**2 / group.noise).sum() - noise_part))
    signal = (group.mean**2).sum(axis=0) + (C - 1) * group.spread
    expected = float((signal / group.noise).sum())
    gain = (1 + own / expected) / 2 if expected > 0 else 1.0
    return np.sqrt(gain) * group.mean, gain * group.spread
