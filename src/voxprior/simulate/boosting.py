"""Compact blobs that tell two classes apart: the assumption of spatially regularised boosting.

    x_i = (y_i - 1/2) s + noise,   y_i ∈ {0, 1}

s is non-zero in a few balls. Three kinds of noise, all of standard deviation 1:

- `iid`: independent standard normal.
- `poisson`: counts of mean b + √b (y - 1/2) s, minus b, over √b; b is the baseline count.
- `correlated`: a smooth Gaussian field D G ε. The signal passes through the same filter, s = D G u
  with u constant in the balls, because a signal sharper than its noise would make the ideal
  classifier perfect, whatever its size.

For normal noise of covariance Σ the ideal classifier is right with probability Φ(√(s' Σ^-1 s) / 2)
= Φ(|u| / 2), where u = s for independent noise.

| symbol | variable | shape |
|---|---|---|
| s, difference of the class means | `truth["signal"]` | (V,) |
| the balls, numbered from 1 | `truth["blob"]` | (V,) |
| b | `baseline` | scalar |
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from voxprior.errors import InputError, option
from voxprior.simulate.data import Simulated
from voxprior.simulate.geometry import as_space, balls
from voxprior.simulate.noise import SmoothField, add_group_effects, balanced_design
from voxprior.space import VoxelSpace

__all__ = ["blobs"]


def blobs(
    space: VoxelSpace | tuple[int, ...] | None = None,
    n_per_class: int = 40,
    *,
    n_blobs: int = 2,
    blob_radius: float = 2.0,
    effect: float = 1.0,
    noise: Literal["iid", "poisson", "correlated"] = "iid",
    noise_smoothness: float = 1.5,
    baseline: float = 20.0,
    n_groups: int | None = None,
    group_offset: float = 0.0,
    group_scale: float = 0.0,
    random_state: int | np.random.Generator | None = None,
) -> Simulated:
    """Simulate two classes that differ in compact blobs.

    Parameters
    ----------
    space : VoxelSpace or shape of a grid, default (20, 20, 10)
        Where the voxels are.
    n_per_class : int
        Scans of each class.
    n_blobs : int
        Number of blobs; their signs alternate.
    blob_radius : float
        Radius of a blob in voxels.
    effect : float
        Largest difference between the class means, in standard deviations of the noise.
    noise : {"iid", "poisson", "correlated"}
        Kind of noise.
    noise_smoothness : float
        Radius in voxels over which correlated noise is alike.
    baseline : float
        Mean count of Poisson noise.
    n_groups : int, optional
        Runs the scans come from, classes balanced in each; each scan is its own group if None.
    group_offset, group_scale : float
        Standard deviations of the runs' offset maps and log scales.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    Simulated
        X is float32 (n, V). The truth has `signal` (V,), `blob` (V,) numbered from 1 with 0 outside
        and, for normal noise, `ideal_accuracy`, that of the ideal classifier before group effects.

    Examples
    --------
    >>> from voxprior.simulate import blobs
    >>> data = blobs((12, 12, 6), n_per_class=5, noise="correlated", random_state=0)
    >>> data.X.shape, sorted(data.truth)
    ((10, 864), ['blob', 'ideal_accuracy', 'signal'])
    """
    rng = np.random.default_rng(random_state)
    space = as_space(space, (20, 20, 10))
    y, groups = balanced_design(n_per_class, 2, n_groups)
    blob = balls(space, n_blobs, blob_radius, rng)
    u = np.where(blob > 0, np.where(blob % 2, 1.0, -1.0), 0.0)
    truth: dict[str, NDArray] = {"blob": blob}
    if noise == "poisson":
        truth["signal"] = s = effect * u
        X = _counts(np.outer(y - 0.5, s), baseline, rng)
    elif noise in ("iid", "correlated"):
        field = SmoothField(space, noise_smoothness if noise == "correlated" else 0.0)
        s = field.filter(u)
        factor = effect / max(np.abs(s).max(), np.finfo(float).tiny)
        truth["signal"] = s = factor * s
        truth["ideal_accuracy"] = norm.cdf(np.linalg.norm(factor * u) / 2)
        X = field.sample(len(y), rng, np.float32)
        X += np.outer(y - 0.5, s).astype(np.float32)
    else:
        raise InputError(
            f"{option('noise', noise)} cannot be used", expected="'iid', 'poisson' or 'correlated'"
        )
    truth |= add_group_effects(X, groups, space, group_offset, group_scale, rng)
    return Simulated(X, y, groups, space, truth)


def _counts(mean: NDArray, baseline: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw Poisson counts and express them in standard deviations from the baseline."""
    rate = baseline + np.sqrt(baseline) * mean
    if not (baseline > 0 and rate.min() >= 0):
        raise InputError(
            f"{option('baseline', baseline)} cannot carry the effect",
            expected="a baseline and mean counts above 0",
            got=f"a smallest mean count of {rate.min():.3g}",
            remedy=f"Raise {option('baseline')} or lower {option('effect')}",
        )
    return ((rng.poisson(rate) - baseline) / np.sqrt(baseline)).astype(np.float32)
