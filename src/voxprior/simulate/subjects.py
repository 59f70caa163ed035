"""Subjects who share blobs, but not quite their places: the assumption of a prior from others.

    θ_s,c = a e^{N(0, g²)} Σ_b ±exp(−|v − z_cb − δ_scb|²/(2 w²)) + own · field,   Σ_c θ_s,c = 0
    x = θ_s,c + b_run + ε

Every class has blobs at places z that all subjects share up to shifts δ ~ N(0, shift²) per axis and
a gain; each subject adds maps of its own. There is one scan per class and run, with smooth noise
and an offset image per run.

| symbol | variable | shape |
|---|---|---|
| θ_s, class maps of subject s, centred over classes | `truth["theta"]` | (C, V) |
| z, places of the blobs | `truth["centers"]` | (C, blobs, 3) |
| z + δ_s, in subject s | `truth["own_centers"]` | (C, blobs, 3) |
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from voxprior.errors import InputError, option
from voxprior.simulate.data import Simulated
from voxprior.simulate.geometry import as_space
from voxprior.simulate.noise import SmoothField
from voxprior.space import VoxelSpace

__all__ = ["subjects"]


def subjects(
    n_subjects: int = 12,
    space: VoxelSpace | tuple[int, ...] | None = None,
    *,
    n_classes: int = 3,
    n_runs: int = 10,
    n_blobs: int = 4,
    width: float = 1.5,
    amplitude: float = 0.8,
    shift: float = 1.0,
    gain: float = 0.3,
    own: float = 0.15,
    noise_smoothness: float = 0.8,
    run_offset: float = 0.5,
    random_state: int | np.random.Generator | None = None,
) -> dict[str, Simulated]:
    """Simulate a study: the same experiment with several subjects.

    Parameters
    ----------
    n_subjects : int
        Subjects, named sub-01, sub-02, ...
    space : VoxelSpace or shape of a grid, default (14, 14, 8)
        Where the voxels are, in all subjects.
    n_classes, n_runs : int
        Classes, and runs of one scan per class.
    n_blobs : int
        Blobs of each class.
    width : float
        Standard deviation of a blob, in voxels.
    amplitude, gain : float
        Height of the blobs in units of the noise, and the standard deviation of its logarithm
        between subjects.
    shift : float
        Standard deviation, per axis and in voxels, of where a subject has a blob.
    own : float
        Standard deviation of the maps that only one subject has.
    noise_smoothness : float
        Radius of the noise, in voxels.
    run_offset : float
        Standard deviation of the image that a run adds to its scans.
    random_state : int, generator or None
        Source of chance.

    Returns
    -------
    dict of str to Simulated
        By name; groups are runs. Truth: ``theta`` (C, V), ``centers``, ``own_centers``.

    Examples
    --------
    >>> from voxprior.simulate import subjects
    >>> study = subjects(3, (8, 8, 4), n_runs=4, random_state=0)
    >>> study["sub-02"]
    Simulated(12 samples x 256 features, 4 groups, VoxelSpace(volume 8 x 8 x 4, 256 voxels))
    """
    space = as_space(space, (14, 14, 8))
    _check(n_subjects=n_subjects, n_classes=n_classes - 1, n_runs=n_runs, n_blobs=n_blobs)
    rng = np.random.default_rng(random_state)
    places = space.coordinates
    centers = _inside(space, (n_classes, n_blobs), rng)
    signs = rng.choice([-1.0, 1.0], size=(n_classes, n_blobs))
    smooth, noise = SmoothField(space, width), SmoothField(space, noise_smoothness)
    study = {}
    for number in range(1, n_subjects + 1):
        moved = centers + shift * rng.standard_normal(centers.shape)
        theta = amplitude * np.exp(gain * rng.standard_normal()) * _blobs(
            places, moved, signs, width
        ) + own * smooth.sample(n_classes, rng)
        theta -= theta.mean(axis=0)
        y, runs = np.tile(np.arange(n_classes), n_runs), np.repeat(np.arange(n_runs), n_classes)
        offsets = run_offset * rng.standard_normal((n_runs, space.n_voxels))
        X = theta[y] + offsets[runs] + noise.sample(len(y), rng)
        truth = {"theta": theta, "centers": centers, "own_centers": moved}
        study[f"sub-{number:02d}"] = Simulated(X.astype(np.float32), y, runs, space, truth)
    return study


def _check(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            least = 2 if name == "n_classes" else 1
            raise InputError(f"{option(name)} is too small", expected=f"{least} or more")


def _inside(space: VoxelSpace, shape: tuple[int, int], rng: np.random.Generator) -> NDArray:
    """Random places of voxels, (classes, blobs, 3)."""
    return space.coordinates[rng.integers(space.n_voxels, size=shape)].astype(float)


def _blobs(places: NDArray, centers: NDArray, signs: NDArray, width: float) -> NDArray[np.float64]:
    """Σ_b ±exp(−|v − z_b|²/(2 w²)) of each class, (C, V)."""
    maps = np.zeros((len(centers), len(places)))
    for c, (of_class, sign) in enumerate(zip(centers, signs)):
        for center, plus in zip(of_class, sign):
            maps[c] += plus * np.exp(((places - center) ** 2).sum(axis=1) / (-2 * width**2))
    return maps
