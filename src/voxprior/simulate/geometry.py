"""Where simulated voxels are and which of them matter: brains, grids, balls and regions."""

from __future__ import annotations

from functools import lru_cache
from numbers import Real

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from voxprior.errors import InputError, InputTypeError, option
from voxprior.space import VoxelSpace

__all__ = ["as_space", "balls", "brain", "regions"]

# Voxel size of the grids a generator makes itself, in mm: usual in functional imaging.
GRID_MILLIMETERS = 3.0
# Places tried for each ball; the one with most voxels around it wins, so balls lie inside.
CANDIDATES = 64


def brain(resolution: float = 8) -> VoxelSpace:
    """Return the MNI152 brain that ships with nilearn, at a resolution in whole millimetres.

    8 mm gives 3,666 voxels, 4 mm 29,398 and 2 mm 235,375; nothing is downloaded. The same
    resolution gives the same object.

    Examples
    --------
    >>> from voxprior.simulate import brain
    >>> brain(8)
    VoxelSpace(volume 26 x 30 x 25, 3,666 voxels)
    """
    number = isinstance(resolution, Real) and not isinstance(resolution, bool)
    if not number or resolution < 1 or resolution % 1 != 0:
        raise InputError(
            f"{option('resolution', resolution)} cannot be used",
            expected="a whole number of millimetres, 1 or more",
        )
    return _brain(int(resolution))


@lru_cache(maxsize=4)
def _brain(resolution: int) -> VoxelSpace:
    from nilearn.datasets import load_mni152_brain_mask

    image = load_mni152_brain_mask(resolution=resolution)
    return VoxelSpace.from_mask(np.asarray(image.dataobj) > 0, image.affine)


def as_space(
    space: VoxelSpace | int | tuple[int, ...] | None, default: tuple[int, ...]
) -> VoxelSpace:
    """Take a space as it is, and make a grid of 3 mm voxels from a shape (or the default one)."""
    if isinstance(space, VoxelSpace):
        return space
    shape = default if space is None else space
    affine = np.diag([GRID_MILLIMETERS] * 3 + [1.0])
    try:
        return VoxelSpace.grid(shape, affine)
    except (TypeError, ValueError) as error:
        raise InputTypeError(
            f"{option('space')} cannot be used",
            expected="a VoxelSpace, the shape of a grid such as (20, 20, 10), or None",
            got=repr(space),
        ) from error


def balls(
    space: VoxelSpace, n_balls: int, radius: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Place balls that do not touch; return 0 outside and 1, 2, ... inside each, shape (V,)."""
    tree = cKDTree(space.coordinates)
    free = np.ones(space.n_voxels, dtype=bool)
    number = np.zeros(space.n_voxels, dtype=np.int64)
    for ball in range(1, n_balls + 1):
        places = np.flatnonzero(free)
        if len(places) == 0:
            raise InputError(
                f"{n_balls} balls of radius {radius} do not fit apart in {space!r}",
                got=f"a place for {ball - 1} only",
                remedy=f"Use fewer or smaller ones, or a larger {option('space')}",
            )
        tried = rng.choice(places, size=min(CANDIDATES, len(places)), replace=False)
        inside = tree.query_ball_point(space.coordinates[tried], radius * (1 + 1e-9))
        best = int(np.argmax([len(voxels) for voxels in inside]))
        number[inside[best]] = ball
        distance = np.linalg.norm(space.coordinates - space.coordinates[tried[best]], axis=1)
        # Centres more than two radii and two voxels apart leave a gap between the balls.
        free &= distance > 2 * radius + 2
    return number


def regions(space: VoxelSpace, n_regions: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Divide a space into compact regions 1, ..., n_regions around random voxels, shape (V,)."""
    if not 1 <= n_regions <= space.n_voxels:
        raise InputError(
            f"{option('n_regions', n_regions)} cannot be used",
            expected=f"1 to {space.n_voxels}, the voxels of the space",
        )
    centers = rng.choice(space.n_voxels, size=n_regions, replace=False)
    return 1 + cKDTree(space.coordinates[centers]).query(space.coordinates)[1]
