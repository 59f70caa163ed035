"""The anatomy below a map: the MNI template for images in MNI space, else the mean image.

Images are taken to be in MNI space where the names of all of them say so, or where their grid is
that of a known template and the mask lies in its brain. A mask that happens to fit is not enough:
brains in scanner coordinates often do. The template is the one that nilearn ships.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from voxprior.images.template import grid_name, in_brain, told_by_names
from voxprior.report.slices import Axial, Ground, axial, silhouette
from voxprior.space import VoxelSpace

# Shades of the mean image reach from the first to the second of its quantiles.
SHADES = (0.02, 0.98)
# Share of its brightest shade above which the template shows a brain.
BRAIN = 0.1
# Of the mask, in the brain of the template.
LEAST_INSIDE = 0.9


def ground_of(
    space: VoxelSpace, names: Sequence[str] = (), mean: np.ndarray | None = None
) -> Ground:
    """Choose what the maps of a volume are drawn over.

    Parameters
    ----------
    space : VoxelSpace
        A volume.
    names : sequence of str
        Of the images.
    mean : array of shape (V,), optional
        Mean image.
    """
    known = space.affine is not None and len(space.shape) == 3
    why = told_by_names(names) or told_by_grid(space) if known else ""
    if why:
        return Ground(_template(), f"the MNI template ({why})")
    if mean is not None and np.ptp(mean) > 0:
        low, high = np.quantile(mean, SHADES)
        shades = np.clip((mean - low) / ((high - low) or 1.0), 0.0, 1.0)
        return Ground(axial(space, 0.15 + 0.85 * shades, fill=np.nan), "the mean image")
    return silhouette(space)


def told_by_grid(space: VoxelSpace) -> str:
    """State that a volume has a grid of MNI space, and its mask is in the brain; else empty."""
    name = grid_name(space)
    inside = in_brain(space).mean() if name else 0.0
    if inside < LEAST_INSIDE:
        return ""
    return f"the grid is that of {name}, and {100 * inside:.0f} % of the voxels lie in its brain"


@lru_cache(maxsize=1)
def _template() -> Axial:
    from nilearn.datasets import load_mni152_template

    image = load_mni152_template(resolution=1)  # as it is shipped: nothing is resampled
    shades = np.asarray(image.dataobj, dtype=float)[::2, ::2, ::2]
    top = np.quantile(shades[shades > 0], 0.98)
    shades = np.where(shades > BRAIN * top, np.clip(shades / top, 0, 1), np.nan)
    affine = np.asarray(image.affine) @ np.diag([2.0, 2.0, 2.0, 1.0])
    return Axial(shades, affine)
