"""Random fields over a space, and what runs and subjects add to their scans.

    field = D G ε,   ε ~ N(0, I),   D = diag(G²1)^(-1/2),   so that every voxel has variance 1

where (G²)_ij means the square of the entry G_ij, itself a Gaussian kernel of radius r / √2.
Group g sees its scans as s_g x + b_g: a scale s_g = exp(N(0, group_scale²)) and an offset map b_g.

| symbol | variable | shape |
|---|---|---|
| G, the Gaussian kernel of radius r | `kernel` | (V, V) operator |
| D, the inverse standard deviations | `inverse_sd` | (V,) |
| s_g | `truth["group_scale"]` | (n_groups,) |
| b_g | `truth["group_offset"]` | (n_groups, V) |
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from voxprior.errors import InputError, option
from voxprior.space import VoxelSpace

__all__ = ["SmoothField", "add_group_effects", "balanced_design", "group_numbers"]


class SmoothField:
    """The stationary Gaussian field of a space: unit variance, correlated over `radius` voxels.

    A radius of 0 makes voxels independent.
    """

    def __init__(self, space: VoxelSpace, radius: float):
        if not (np.isfinite(radius) and radius >= 0):
            raise InputError(
                "A smoothness cannot be used", expected="0 or more voxels", got=repr(radius)
            )
        self.n_voxels = space.n_voxels
        self.kernel = space.gaussian(radius) if radius > 0 else None
        if radius > 0:
            self.inverse_sd = space.gaussian(radius / np.sqrt(2)).row_sums() ** -0.5

    def filter(self, x: NDArray) -> NDArray[np.float64]:
        """Return D G x of one map (V,)."""
        if self.kernel is None:
            return np.asarray(x, dtype=np.float64)
        return self.inverse_sd * (self.kernel @ x)

    def covariance(self, x: NDArray) -> NDArray[np.float64]:
        """Return Σ x = D G G D x, the field's covariance applied to one map (V,)."""
        if self.kernel is None:
            return np.asarray(x, dtype=np.float64)
        return self.filter(self.kernel @ (self.inverse_sd * x))

    def sample(self, n_fields: int, rng: np.random.Generator, dtype: type = np.float64) -> NDArray:
        """Draw fields (n_fields, V), one at a time so that temporaries stay small."""
        fields: NDArray = np.empty((n_fields, self.n_voxels), dtype=dtype)
        for row in fields:
            row[:] = self.filter(rng.standard_normal(self.n_voxels))
        return fields


def group_numbers(n_units: int, n_groups: int | None) -> NDArray[np.int64]:
    """Divide units, in order, into equal groups; each is its own if `n_groups` is None."""
    if n_groups is None:
        return np.arange(n_units)
    if not 1 <= n_groups <= n_units:
        raise InputError(
            f"{option('n_groups', n_groups)} cannot be used", expected=f"None or 1 to {n_units}"
        )
    return np.arange(n_units) * n_groups // n_units


def balanced_design(
    n_per_class: int, n_classes: int, n_groups: int | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return labels 0, 1, ..., 0, 1, ... and groups in which all classes are equally frequent."""
    if n_per_class < 1 or n_classes < 2:
        raise InputError(
            "There are too few samples or classes",
            expected="at least 1 sample per class and 2 classes",
            got=f"{option('n_per_class', n_per_class)} and {option('n_classes', n_classes)}",
        )
    y = np.tile(np.arange(n_classes), n_per_class)
    if n_groups is None:
        return y, np.arange(len(y))
    return y, np.repeat(group_numbers(n_per_class, n_groups), n_classes)


def add_group_effects(
    X: NDArray,
    groups: NDArray[np.int64],
    space: VoxelSpace,
    offset: float,
    scale: float,
    rng: np.random.Generator,
) -> dict[str, NDArray]:
    """Change X in place to what each group measures; return what was done as truth.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_times * V)
        Scans, changed in place.
    groups : ndarray of int, shape (n_samples,)
        Group numbers from 0.
    space : VoxelSpace
        Where the voxels are.
    offset : float
        Standard deviation of the offset maps, which differ from voxel to voxel.
    scale : float
        Standard deviation of the logarithm of the scales.
    rng : numpy.random.Generator
        Source of chance.
    """
    if offset < 0 or scale < 0:
        raise InputError(
            "Group effects cannot be used",
            expected="standard deviations of 0 or more",
            got=f"{option('group_offset', offset)} and {option('group_scale', scale)}",
        )
    if offset == 0 and scale == 0:
        return {}
    n_groups = int(groups.max()) + 1
    scales = np.exp(scale * rng.standard_normal(n_groups))
    offsets = (offset * rng.standard_normal((n_groups, space.n_voxels))).astype(np.float32)
    scans = X.reshape(len(X), -1, space.n_voxels)
    for scan, group in zip(scans, groups):
        scan *= scales[group]
        scan += offsets[group]
    return {"group_scale": scales, "group_offset": offsets}
