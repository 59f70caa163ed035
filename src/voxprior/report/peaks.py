"""Peaks of a map: the strongest places, some millimetres apart, by name where an atlas is given.

A peak is a voxel that is stronger than its neighbours. The strongest is taken, then the strongest
of those that are far enough from all taken before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from voxprior.mapping import Atlas
from voxprior.report.maps import millimeters
from voxprior.space import VoxelSpace

APART = 12.0
N_PEAKS = 8


def peak_table(
    space: VoxelSpace, values: np.ndarray, atlas: Atlas | None = None
) -> dict[str, Any] | None:
    """Table of peaks for the page; None where places are not known in millimetres."""
    places = millimeters(space)
    if places is None or len(space.shape) != 3:
        return None
    found = find_peaks(space, places, values)
    rows = [
        [
            *(f"{round(v)}".replace("-", "−") for v in places[voxel]),
            f"{values[voxel]:.3g}".replace("-", "−"),
            *([] if atlas is None else [atlas.name(voxel) or "outside the atlas"]),
        ]
        for voxel in found
    ]
    columns = ["x", "y", "z", "value"] + ([] if atlas is None else ["region"])
    return {"columns": columns, "rows": rows}


def find_peaks(
    space: VoxelSpace,
    places: np.ndarray,
    values: np.ndarray,
    apart: float = APART,
    count: int = N_PEAKS,
) -> list[int]:
    """Voxels that are peaks of a volume, the strongest first; their places (V, 3) in millimetres.

    Examples
    --------
    >>> space, values = VoxelSpace.grid((9, 3, 3), 4 * np.eye(4)), np.zeros(81)
    >>> values[[4, 5, 76]] = 1.0, 0.9, -2.0
    >>> find_peaks(space, millimeters(space), values)
    [76, 4]
    """
    from scipy.ndimage import maximum_filter

    strength = np.nan_to_num(np.abs(np.asarray(values, dtype=float)))
    around = space.apply_mask(maximum_filter(space.unmask(strength), size=3, mode="constant"))
    tops = np.flatnonzero((strength > 0) & (strength >= around))
    found: list[int] = []
    for voxel in tops[np.argsort(-strength[tops], kind="stable")]:
        if len(found) == count:
            break
        distances = np.linalg.norm(places[found] - places[voxel], axis=1)
        if not found or distances.min() >= apart:
            found.append(int(voxel))
    return found
