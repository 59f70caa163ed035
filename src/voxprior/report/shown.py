"""Maps as the page shows them: a picture over the anatomy, its peaks, and an interactive viewer.

A map that is zero everywhere is said to be empty; one that is practically the same everywhere is
told by its number. Neither is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from voxprior.mapping import Atlas
from voxprior.report.anatomy import ground_of
from voxprior.report.colors import is_uniform
from voxprior.report.maps import common_slices, draw_maps
from voxprior.report.peaks import peak_table
from voxprior.report.pictures import Legend, legend_of
from voxprior.report.slices import Ground
from voxprior.report.viewers import stage_of, viewer_of
from voxprior.space import VoxelSpace


def show_maps(
    space: VoxelSpace,
    maps: Mapping[str, np.ndarray],
    legends: Mapping[str, Legend],
    classes: Sequence[Any] = (),
    *,
    names: Sequence[str] = (),
    mean: np.ndarray | None = None,
    atlas: Atlas | None = None,
) -> dict[str, Any]:
    """Draw the maps of a model, all with the same slices.

    Parameters
    ----------
    space : VoxelSpace
        Where the voxels are.
    maps : mapping of str to array of shape (V,) or (T * V,)
        Values by name; with time, their mean over it is shown.
    legends : mapping of str to Legend
        What maps show.
    classes : sequence
        Labels, which names of maps may hold.
    names : sequence of str
        Of the images: they may tell that the space is that of the MNI template.
    mean : array of shape (V,), optional
        Mean image, to draw maps over where there is no template.
    atlas : Atlas, optional
        Names peaks.

    Returns
    -------
    dict
        ``maps``: dicts with ``name``, ``caption``, and where something is drawn, ``figure``,
        ``peaks`` and ``viewer``; ``stage``: what viewers draw on.
    """
    ground = ground_of(space, names, mean) if space.kind == "volume" else None
    entries: list[dict[str, Any]] = []
    drawn: dict[int, np.ndarray] = {}
    for key, values in maps.items():
        values = np.asarray(values, dtype=float)
        legend = legend_of(key, legends, classes)
        entry: dict[str, Any] = {"name": legend.title, "caption": legend.text, "unit": legend.unit}
        if len(values) > space.n_voxels:
            entry["caption"] = f"{legend.text} Mean over time.".lstrip()
            values = values.reshape(-1, space.n_voxels).mean(axis=0)
        entry["note"] = _nothing_to_see(values)
        if not entry["note"]:
            drawn[len(entries)] = values
        entries.append(entry)
    slices = common_slices(space, drawn.values()) if drawn and ground is not None else None
    stage = stage_of(space, ground) if drawn else None
    for number, values in drawn.items():
        entries[number] |= _drawn(space, values, entries[number], ground, slices, stage, atlas)
    return {"maps": entries, "stage": stage}


def _nothing_to_see(values: np.ndarray) -> str:
    """Why a map is not drawn; empty if it is."""
    if not np.any(np.nan_to_num(values)):
        return "The map is empty: zero in every voxel."
    if is_uniform(values):
        low, high = np.nanmin(values), np.nanmax(values)
        return (
            f"Not drawn, because it is practically the same everywhere: {np.nanmean(values):.3g} "
            f"(between {low:.3g} and {high:.3g})."
        )
    return ""


def _drawn(
    space: VoxelSpace,
    values: np.ndarray,
    entry: Mapping[str, Any],
    ground: Ground | None,
    slices: Sequence[int] | None,
    stage: Any,
    atlas: Atlas | None,
) -> dict[str, Any]:
    overview = space.kind == "volume" and len(space.shape) == 3 and min(space.shape) > 1
    figure = draw_maps(
        space,
        {"": values},
        unit=entry["unit"],
        ground=ground,
        slices=slices,
        overview=overview,
    )
    return {
        "figure": figure,
        "over": "" if ground is None else ground.words,
        "peaks": peak_table(space, values, atlas) if overview else None,
        "viewer": None if stage is None else viewer_of(space, values),
    }
