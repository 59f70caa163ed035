"""The anatomy below a map: the MNI template for images in MNI space, else the mean image.

Images are taken to be in MNI space where the names of all of them say so, or where their grid is
that of a known template and the mask lies in its brain. A mask that happens to fit is not enough:
brains in scanner coordinates often do. The template is the one that nilearn ships.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from voxprior.report.slices import Axial, Ground, axial, silhouette
from voxprior.space import VoxelSpace

# As BIDS, fMRIPrep, FSL and SPM name images in that space.
IN_MNI = re.compile(r"space-MNI|(?:^|[^A-Za-z])MNI(?:152|305|Colin27|[^A-Za-z]|$)", re.IGNORECASE)
# Shades of the mean image reach from the first to the second of its quantiles.
SHADES = (0.02, 0.98)
# Share of its brightest shade above which the template shows a brain.
BRAIN = 0.1
# Centres of the first and last voxels of grids in that space, in millimetres.
GRIDS = {
    "FSL's and SPM's MNI152": ((-90, -126, -72), (90, 90, 108)),
    "MNI152NLin2009c": ((-96, -132, -78), (96, 96, 114)),
    "nilearn's MNI152": ((-98, -134, -72), (98, 98, 116)),
    "SPM's normalised images": ((-78, -112, -70), (78, 76, 85)),
}
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


def told_by_names(names: Sequence[str]) -> str:
    """Say that every image is in MNI space by its name; nothing where one does not say it.

    >>> told_by_names(["sub-1_space-MNI152NLin2009cAsym_bold.nii.gz"])
    'the names of all images say so'
    >>> told_by_names(["sub-minimal_bold.nii"])
    ''
    """
    said = bool(names) and all(IN_MNI.search(name) for name in names)
    return "the names of all images say so" if said else ""


def told_by_grid(space: VoxelSpace) -> str:
    """Say that a volume has a grid of MNI space, and its mask is in the brain; else nothing."""
    name = grid_name(space)
    inside = share_in_brain(space) if name else 0.0
    if inside < LEAST_INSIDE:
        return ""
    return f"the grid is that of {name}, and {100 * inside:.0f} % of the voxels lie in its brain"


def grid_name(space: VoxelSpace) -> str:
    """Name of the template whose grid a volume has, to a voxel and at any resolution, or nothing.

    >>> affine = np.array([[-2.0, 0, 0, 90], [0, 2, 0, -126], [0, 0, 2, -72], [0, 0, 0, 1]])
    >>> grid_name(VoxelSpace.grid((91, 109, 91), affine))
    "FSL's and SPM's MNI152"
    """
    affine = np.asarray(space.affine)
    sizes = np.abs(affine[:3, :3]).max(axis=0)
    turned = np.abs(affine[:3, :3]).sum() - sizes.sum() > 0.01 * sizes.min()
    corners = np.array([[0, 0, 0], np.array(space.shape) - 1]) @ affine[:3, :3].T + affine[:3, 3]
    ends = np.sort(corners, axis=0)
    for name, reach in GRIDS.items():
        if not turned and (np.abs(ends - reach) <= sizes.max()).all():
            return name
    return ""


def share_in_brain(space: VoxelSpace) -> float:
    """Share of the voxels whose centres lie in the brain of the template."""
    brain = _template()
    lead = np.linalg.inv(np.asarray(brain.affine)) @ np.asarray(space.affine)
    voxels = np.round(space.coordinates @ lead[:3, :3].T + lead[:3, 3])
    within = ((voxels >= 0) & (voxels < brain.values.shape)).all(axis=1)
    x, y, z = voxels[within].astype(int).T
    return float(np.isfinite(brain.values[x, y, z]).sum() / space.n_voxels)


@lru_cache(maxsize=1)
def _template() -> Axial:
    from nilearn.datasets import load_mni152_template

    image = load_mni152_template(resolution=1)  # as it is shipped: nothing is resampled
    shades = np.asarray(image.dataobj, dtype=float)[::2, ::2, ::2]
    top = np.quantile(shades[shades > 0], 0.98)
    shades = np.where(shades > BRAIN * top, np.clip(shades / top, 0, 1), np.nan)
    affine = np.asarray(image.affine) @ np.diag([2.0, 2.0, 2.0, 1.0])
    return Axial(shades, affine)
