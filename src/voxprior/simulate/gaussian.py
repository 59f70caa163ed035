"""Smooth maps that predict a class or an age: the assumption of Gaussian processes.

    x_i ~ N(0, Σ) smooth,   f_ik = x_i · w_k with w_k smooth and Var f_ik = 1
    two classes    P(y_i = 1) = 1 / (1 + exp(-a f_i1))
    C classes      P(y_i = k) = softmax_k(a f_i)
    regression     y_i = m + d (√R f_i1 + √(1 - R) ε_i)

The probabilities are known, so that calibration can be judged against the truth and not only
against labels. The pattern Σ w is what a voxel alone reveals about f.

| symbol | variable | shape |
|---|---|---|
| w, weight maps | `truth["weights"]` | (1 or C, V) |
| Σ w, Cov(x, f) | `truth["pattern"]` | (1 or C, V) |
| f | `truth["latent"]` | (n, 1 or C) |
| a, R | `strength`, `r2` | scalars |
| m, d | `mean`, `sd` | scalars |
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from voxprior.errors import InputError, option
from voxprior.simulate.data import Simulated
from voxprior.simulate.geometry import as_space
from voxprior.simulate.noise import SmoothField, add_group_effects, group_numbers
from voxprior.space import VoxelSpace

__all__ = ["smooth_maps"]


def smooth_maps(
    space: VoxelSpace | tuple[int, ...] | None = None,
    n_samples: int = 100,
    *,
    task: Literal["classification", "regression"] = "classification",
    n_classes: int = 2,
    strength: float = 3.0,
    r2: float = 0.7,
    mean: float = 50.0,
    sd: float = 15.0,
    smoothness: float = 2.0,
    weight_smoothness: float = 2.0,
    n_groups: int | None = None,
    group_offset: float = 0.0,
    group_scale: float = 0.0,
    random_state: int | np.random.Generator | None = None,
) -> Simulated:
    """Simulate scans whose class or age follows smooth weight maps.

    Parameters
    ----------
    space : VoxelSpace or shape of a grid, default (16, 16, 10)
        Where the voxels are.
    n_samples : int
        Number of scans.
    task : {"classification", "regression"}
        Whether y is a class or a number such as an age.
    n_classes : int
        Classes; labels are drawn from the probabilities, so their numbers vary.
    strength : float
        Standard deviation a of the logits of a class.
    r2 : float
        Part R of the variance of the number that the scan determines.
    mean, sd : float
        Mean and standard deviation of the number.
    smoothness : float
        Radius in voxels over which scans are alike; 0 for independent voxels.
    weight_smoothness : float
        Radius in voxels over which weights are alike.
    n_groups : int, optional
        Sites the scans come from; each scan is its own group if None.
    group_offset, group_scale : float
        Standard deviations of the sites' offset maps and log scales.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    Simulated
        X is float32 (n, V). The truth has `weights`, `pattern` and `latent`; for classes also
        `probability` (n, C) and `ideal_accuracy`, the mean of its row maxima.

    Examples
    --------
    >>> from voxprior.simulate import smooth_maps
    >>> data = smooth_maps((10, 10, 6), n_samples=30, n_classes=3, random_state=0)
    >>> data.X.shape, data.truth["weights"].shape, data.truth["probability"].shape
    ((30, 600), (3, 600), (30, 3))
    >>> ages = smooth_maps((10, 10, 6), task="regression", random_state=0)
    >>> 40 < ages.y.mean() < 60
    np.True_
    """
    _check(task, n_classes, r2)
    rng = np.random.default_rng(random_state)
    space = as_space(space, (16, 16, 10))
    groups = group_numbers(n_samples, n_groups)
    field = SmoothField(space, smoothness)
    n_maps = 1 if task == "regression" or n_classes == 2 else n_classes
    w = SmoothField(space, weight_smoothness).sample(n_maps, rng)
    pattern = np.array([field.covariance(row) for row in w])
    to_unit = np.sum(w * pattern, axis=1, keepdims=True) ** -0.5  # Var f = w' Σ w = 1
    w, pattern = to_unit * w, to_unit * pattern
    X = field.sample(n_samples, rng, np.float32)
    f = X @ w.T
    truth = {"weights": w, "pattern": pattern, "latent": f}
    if task == "regression":
        y = mean + sd * (np.sqrt(r2) * f[:, 0] + np.sqrt(1 - r2) * rng.standard_normal(n_samples))
    else:
        p = _probabilities(strength * f)
        y = (p.cumsum(axis=1)[:, :-1] < rng.random((n_samples, 1))).sum(axis=1)
        truth |= {"probability": p, "ideal_accuracy": p.max(axis=1).mean()}
    truth |= add_group_effects(X, groups, space, group_offset, group_scale, rng)
    return Simulated(X, y, groups, space, truth)


def _check(task: str, n_classes: int, r2: float) -> None:
    if task not in ("classification", "regression"):
        raise InputError(
            f"{option('task', task)} cannot be used", expected="'classification' or 'regression'"
        )
    if n_classes < 2:
        raise InputError(f"{option('n_classes', n_classes)} cannot be used", expected="2 or more")
    if not 0 <= r2 <= 1:
        raise InputError(f"{option('r2', r2)} cannot be used", expected="a number from 0 to 1")


def _probabilities(logits: NDArray) -> NDArray[np.float64]:
    if logits.shape[1] == 1:
        return np.column_stack([expit(-logits), expit(logits)])
    return softmax(logits, axis=1)
