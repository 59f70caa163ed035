"""The anatomy below a map: the MNI template for images in MNI space, else the mean image.

Images are taken to be in MNI space where their names or headers say so, never because they happen
to fit. The template is the one that nilearn ships.
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
    if space.affine is not None and len(space.shape) == 3 and in_mni(names):
        return _template()
    if mean is not None and np.ptp(mean) > 0:
        low, high = np.quantile(mean, SHADES)
        shades = np.clip((mean - low) / ((high - low) or 1.0), 0.0, 1.0)
        return Ground(axial(space, 0.15 + 0.85 * shades, fill=np.nan), "the mean image")
    return silhouette(space)


def in_mni(names: Sequence[str]) -> bool:
    """Whether every image says that it is in MNI space.

    >>> in_mni(["sub-1_space-MNI152NLin2009cAsym_bold.nii.gz"]), in_mni(["sub-minimal_bold.nii"])
    (True, False)
    """
    return bool(names) and all(IN_MNI.search(name) for name in names)


@lru_cache(maxsize=1)
def _template() -> Ground:
    from nilearn.datasets import load_mni152_template

    image = load_mni152_template(resolution=1)  # as it is shipped: nothing is resampled
    shades = np.asarray(image.dataobj, dtype=float)[::2, ::2, ::2]
    top = np.quantile(shades[shades > 0], 0.98)
    shades = np.where(shades > BRAIN * top, np.clip(shades / top, 0, 1), np.nan)
    affine = np.asarray(image.affine) @ np.diag([2.0, 2.0, 2.0, 1.0])
    return Ground(Axial(shades, affine), "the MNI template")
