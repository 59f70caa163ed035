"""Time courses that neighbouring voxels share up to scale: the assumption of feature sharing.

    x_i(t, v) = a_c(v) h(t) + σ(v) ε_i(t, v),   c = y_i

Every class has a smooth amplitude map and all voxels the same response shape, so neighbours have
nearly the same time course up to a scale; the noise has one level everywhere, or a log-normal
spread of levels. It follows the design of the picture-against-sentence experiment (Palatucci and
Mitchell, ECML/PKDD 2007): 16 images per trial, 500 ms apart, regions of interest, 20 trials
per class.

| symbol | variable | shape |
|---|---|---|
| a_c, amplitude map of class c | `truth["amplitude"]` | (C, V) |
| h, haemodynamic response, peak 1 | `truth["response"]` | (T,) |
| σ, standard deviation of the noise | `truth["noise"]` | (V,) |
| ε, standard normal, white or smooth in space | | (n, T, V) |
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from voxprior.errors import InputError, option
from voxprior.simulate.data import Simulated
from voxprior.simulate.geometry import as_space, regions
from voxprior.simulate.noise import SmoothField, add_group_effects, balanced_design
from voxprior.space import VoxelSpace

__all__ = ["response", "time_courses"]


def time_courses(
    space: VoxelSpace | tuple[int, ...] | None = None,
    n_per_class: int = 20,
    *,
    n_classes: int = 2,
    n_times: int = 16,
    amplitude: float = 0.5,
    smoothness: float = 2.0,
    noise: float = 1.0,
    noise_spread: float = 0.0,
    noise_smoothness: float = 0.0,
    n_regions: int = 1,
    active_regions: int | None = None,
    n_groups: int | None = None,
    group_offset: float = 0.0,
    group_scale: float = 0.0,
    random_state: int | np.random.Generator | None = None,
) -> Simulated:
    """Simulate trials whose neighbouring voxels have nearly the same time course up to scale.

    Parameters
    ----------
    space : VoxelSpace or shape of a grid, default (14, 14, 8)
        Where the voxels are.
    n_per_class : int
        Trials of each class.
    n_classes : int
        Number of classes C.
    n_times : int
        Images T per trial, 500 ms apart.
    amplitude : float
        Standard deviation of the amplitude maps, in response peaks.
    smoothness : float
        Radius in voxels over which amplitudes are alike.
    noise : float
        Median standard deviation of the noise.
    noise_spread : float
        Standard deviation of log σ(v); 0 gives all voxels the same noise level.
    noise_smoothness : float
        Radius in voxels over which noise is correlated; 0 for independent voxels.
    n_regions : int
        Regions of interest the space is divided into.
    active_regions : int, optional
        Only regions 1, ..., active_regions respond; all of them if None.
    n_groups : int, optional
        Runs the trials come from, classes balanced in each; each trial is its own group if None.
    group_offset, group_scale : float
        Standard deviations of the runs' offset maps and log scales.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    Simulated
        X is float32 (n, T V). The truth has `amplitude` (C, V), `response` (T,), `noise` (V,),
        `region` (V,) numbered from 1, and `difference` (V,): the standard deviation of the
        amplitudes over classes.

    Examples
    --------
    >>> from voxprior.simulate import time_courses
    >>> data = time_courses((6, 6, 4), n_per_class=3, random_state=0)
    >>> data
    Simulated(6 samples x 2,304 features, 6 groups, VoxelSpace(volume 6 x 6 x 4, 144 voxels))
    >>> data.n_times
    16
    """
    rng = np.random.default_rng(random_state)
    space = as_space(space, (14, 14, 8))
    y, groups = balanced_design(n_per_class, n_classes, n_groups)
    region = regions(space, n_regions, rng)
    a = amplitude * SmoothField(space, smoothness).sample(n_classes, rng)
    if active_regions is not None:
        a *= region <= active_regions
    h = response(n_times)
    sigma = noise * np.exp(noise_spread * rng.standard_normal(space.n_voxels))
    field = SmoothField(space, noise_smoothness)
    X = np.empty((len(y), n_times * space.n_voxels), dtype=np.float32)
    for i, label in enumerate(y):
        X[i] = (np.outer(h, a[label]) + sigma * field.sample(n_times, rng)).ravel()
    truth = {
        "amplitude": a,
        "response": h,
        "noise": sigma,
        "region": region,
        "difference": a.std(axis=0),
    }
    truth |= add_group_effects(X, groups, space, group_offset, group_scale, rng)
    return Simulated(X, y, groups, space, truth)


def response(n_times: int, interval: float = 0.5) -> NDArray[np.float64]:
    """Return the haemodynamic response h(t) = (t/5)^5 e^(5-t), peak 1 at 5 s, after each image."""
    if n_times < 1:
        raise InputError(f"{option('n_times', n_times)} cannot be used", expected="1 or more")
    t = interval * np.arange(1, n_times + 1)
    return (t / 5) ** 5 * np.exp(5 - t)
