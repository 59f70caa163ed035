"""The brain of the MNI template, for images that lie in its space.

Images are taken to be in MNI space where the names of all of them say so, or where their grid is
that of a known template. The template is the one that nilearn ships.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from voxprior.space import VoxelSpace

__all__ = ["BRAIN", "covers_far_more", "grid_name", "in_brain", "told_by_names"]

# As BIDS, fMRIPrep, FSL and SPM name images in that space.
IN_MNI = re.compile(r"space-MNI|(?:^|[^A-Za-z])MNI(?:152|305|Colin27|[^A-Za-z]|$)", re.IGNORECASE)
# Centres of the first and last voxels of grids in that space, in millimetres.
GRIDS = {
    "FSL's and SPM's MNI152": ((-90, -126, -72), (90, 90, 108)),
    "MNI152NLin2009c": ((-96, -132, -78), (96, 96, 114)),
    "nilearn's MNI152": ((-98, -134, -72), (98, 98, 116)),
    "SPM's normalised images": ((-78, -112, -70), (78, 76, 85)),
    "CAT12's normalised images": ((-84, -120, -72), (84, 84, 96)),
}
BRAIN = "the brain of the MNI152 template"
# A mask with this many times the voxels of the brain holds air or skull.
FAR_MORE = 1.3
# Of the brain, in the mask: where less is, the brain of the images lies elsewhere.
LEAST_COVERED = 0.5


def told_by_names(names: Sequence[str]) -> str:
    """State that every image is in MNI space by its name; empty where one name lacks that.

    >>> told_by_names(["sub-1_space-MNI152NLin2009cAsym_bold.nii.gz"])
    'the names of all images say so'
    >>> told_by_names(["sub-minimal_bold.nii"]), told_by_names(["MNI/sub-1_bold.nii"])
    ('', '')
    """
    # Not the folders: MNI is also the name of an institute.
    said = bool(names) and all(IN_MNI.search(PurePath(name).name) for name in names)
    return "the names of all images say so" if said else ""


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


def in_brain(space: VoxelSpace) -> np.ndarray:
    """Mark the voxels whose centres lie in the brain of the template, a boolean for each."""
    brain = _brain()
    lead = np.linalg.inv(brain.affine) @ np.asarray(space.affine)
    voxels = np.round(space.coordinates @ lead[:3, :3].T + lead[:3, 3]).astype(int)
    within = ((voxels >= 0) & (voxels < brain.inside.shape)).all(axis=1)
    x, y, z = voxels[within].T
    within[within] = brain.inside[x, y, z]
    return within


def covers_far_more(space: VoxelSpace, names: Sequence[str]) -> np.ndarray | None:
    """Mark the brain in a computed mask that covers far more than it; None where it does not.

    None too where nothing shows that the images are in MNI space, or where most of the brain that
    the grid could hold is not in the mask.
    """
    if space.affine is None or not (told_by_names(names) or grid_name(space)):
        return None
    whole = int(in_brain(VoxelSpace.grid(space.shape, np.asarray(space.affine))).sum())
    if space.n_voxels <= FAR_MORE * whole:
        return None
    brain = in_brain(space)
    return brain if brain.sum() >= max(1, LEAST_COVERED * whole) else None


class _Brain(NamedTuple):
    inside: np.ndarray
    affine: np.ndarray


@lru_cache(maxsize=1)
def _brain() -> _Brain:
    from nilearn.datasets import load_mni152_brain_mask

    image = load_mni152_brain_mask(resolution=1)  # as it is shipped: nothing is resampled
    return _Brain(np.asarray(image.dataobj) > 0, np.asarray(image.affine))
