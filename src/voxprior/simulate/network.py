"""Latent states that drive clusters of binary voxels and a class: the inverse-tree assumption.

    L_ik ~ Bernoulli(p),   C_i = L_i1 ∧ ... ∧ L_id, flipped with probability `label_noise`
    V_iv = L_ik, flipped with probability `voxel_noise`, for every voxel v of cluster k
    V_iv = 1 where a smooth random field is positive, elsewhere

p is the d-th root of the prevalence, so that both classes are as frequent as asked. A longitudinal
data set has a baseline and a follow-up map per subject: where V_iv = 1, and only there, the
follow-up is lower. Design of Chen and Herskovits, KDD 2005 (119 subjects, 128 x 128 x 94 voxels);
subjects are drawn one at a time, so memory is little more than the result (183 MB there).

| symbol | variable | shape |
|---|---|---|
| L | `truth["latent"]` | (n, d) |
| C before label noise | `truth["clean_label"]` | (n,) |
| the clusters, numbered from 1 | `truth["cluster"]` | (V,) |
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from voxprior.errors import InputError, option
from voxprior.simulate.data import Simulated
from voxprior.simulate.geometry import as_space, balls
from voxprior.simulate.noise import SmoothField, add_group_effects, group_numbers
from voxprior.space import VoxelSpace

__all__ = ["latent_clusters"]

# Smallest change between two time points, so that float32 keeps its sign.
SMALLEST_CHANGE = 0.01


def latent_clusters(
    space: VoxelSpace | tuple[int, ...] | None = None,
    n_samples: int = 119,
    *,
    n_latent: int = 2,
    cluster_radius: float = 2.0,
    prevalence: float = 0.5,
    label_noise: float = 0.08,
    voxel_noise: float = 0.1,
    smoothness: float = 1.0,
    longitudinal: bool = False,
    n_groups: int | None = None,
    group_offset: float = 0.0,
    group_scale: float = 0.0,
    random_state: int | np.random.Generator | None = None,
) -> Simulated:
    """Simulate binary maps in which latent clusters drive a class.

    Parameters
    ----------
    space : VoxelSpace or shape of a grid, default (20, 20, 10)
        Where the voxels are.
    n_samples : int
        Number of subjects.
    n_latent : int
        Number d of latent states, each with its cluster.
    cluster_radius : float
        Radius of a cluster in voxels.
    prevalence : float
        Probability of class 1 before label noise.
    label_noise, voxel_noise : float
        Probabilities that a label, or a voxel of a cluster, is flipped.
    smoothness : float
        Radius in voxels over which the background is alike; 0 for independent voxels.
    longitudinal : bool
        Return a baseline and a follow-up map per subject in place of the binary map.
    n_groups : int, optional
        Sites the subjects come from; each subject is its own group if None.
    group_offset, group_scale : float
        Standard deviations of the sites' offset maps and log scales; longitudinal data only.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    Simulated
        X is uint8 (n, V), or float32 (n, 2 V) if longitudinal (time-major: baseline, follow-up; a
        positive baseline minus follow-up is a 1). The truth has `cluster` (V,) with 0 outside,
        `latent` (n, d) and `clean_label` (n,).

    Examples
    --------
    >>> from voxprior.simulate import latent_clusters
    >>> data = latent_clusters((12, 12, 6), n_samples=40, random_state=0)
    >>> data.X.dtype, data.X.shape, int(data.truth["cluster"].max())
    (dtype('uint8'), (40, 864), 2)
    """
    _check_probabilities(prevalence, label_noise, voxel_noise)
    if (group_offset or group_scale) and not longitudinal:
        raise InputError(
            f"{option('group_offset')} and {option('group_scale')} change measured values, and "
            "binary maps have none",
            remedy=f"Set {option('longitudinal', True)}, or leave them 0",
        )
    rng = np.random.default_rng(random_state)
    space = as_space(space, (20, 20, 10))
    groups = group_numbers(n_samples, n_groups)
    cluster = balls(space, n_latent, cluster_radius, rng)
    latent = (rng.random((n_samples, n_latent)) < prevalence ** (1 / n_latent)).astype(np.uint8)
    clean_label = latent.all(axis=1).astype(np.int64)
    y = clean_label ^ (rng.random(n_samples) < label_noise)
    field = SmoothField(space, smoothness)
    n_times, dtype = (2, np.float32) if longitudinal else (1, np.uint8)
    X = np.empty((n_samples, n_times * space.n_voxels), dtype=dtype)
    inside = np.flatnonzero(cluster)
    for i, row in enumerate(X):
        change = field.sample(1, rng)[0]
        state = latent[i, cluster[inside] - 1] ^ (rng.random(len(inside)) < voxel_noise)
        change[inside] = np.where(state, 1, -1) * np.abs(change[inside])
        row[:] = _two_maps(change, field, rng) if longitudinal else change > 0
    truth = {"cluster": cluster, "latent": latent, "clean_label": clean_label}
    truth |= add_group_effects(X, groups, space, group_offset, group_scale, rng)
    return Simulated(X, y, groups, space, truth)


def _two_maps(change: NDArray, field: SmoothField, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return a baseline map and the follow-up after the change, one after the other."""
    baseline = field.sample(1, rng)[0]
    loss = np.where(change > 0, 1, -1) * np.maximum(np.abs(change), SMALLEST_CHANGE)
    return np.concatenate([baseline, baseline - loss])


def _check_probabilities(prevalence: float, label_noise: float, voxel_noise: float) -> None:
    if not 0 < prevalence < 1:
        raise InputError(
            f"{option('prevalence', prevalence)} cannot be used",
            expected="a number above 0 and below 1",
        )
    for name, value in (("label_noise", label_noise), ("voxel_noise", voxel_noise)):
        if not 0 <= value <= 1:
            raise InputError(f"{option(name, value)} cannot be used", expected="a probability")
