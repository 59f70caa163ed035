"""Maps as the page shows them: a picture over the anatomy, its peaks, and an interactive viewer.

All maps of a page are drawn with the same slices, over the same anatomy. A map that is zero
everywhere is called empty; one that is practically the same everywhere is reported as a number.
Neither is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from voxprior.errors import InputError
from voxprior.mapping import Atlas
from voxprior.report.anatomy import ground_of
from voxprior.report.colors import is_uniform
from voxprior.report.maps import common_slices, draw_maps
from voxprior.report.peaks import peak_table
from voxprior.report.pictures import Legend, legend_of
from voxprior.report.slices import Ground
from voxprior.report.viewers import stage_of, viewer_of
from voxprior.space import VoxelSpace

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Told(NamedTuple):
    """A map with its description.

    ``outline`` are the voxels that a line encloses, by default the strongest; ``peaks`` says
    whether its strongest places are listed.
    """

    name: str
    caption: str
    values: np.ndarray
    unit: str = ""
    outline: np.ndarray | None = None
    peaks: bool = True


class Shown(NamedTuple):
    """Maps of a page.

    ``maps`` are dicts with ``name``, ``caption``, ``note``, and where something is drawn,
    ``figure``, ``over``, ``peaks`` and ``viewer``, a place in ``viewers``; ``stage`` is what
    viewers draw on.
    """

    maps: list[dict[str, Any]]
    stage: dict[str, Any] | None
    viewers: list[dict[str, Any]]


def model_entries(
    space: VoxelSpace,
    maps: Mapping[str, np.ndarray],
    legends: Mapping[str, Legend],
    classes: Sequence[Any] = (),
) -> list[Told]:
    """Maps of a model, (V,) or (T * V,), by what legends say of their names.

    Names may hold one of the classes. With time, the mean over it is shown.
    """
    entries = []
    for key, values in maps.items():
        values, legend = np.asarray(values, dtype=float), legend_of(key, legends, classes)
        text = legend.text
        if len(values) > space.n_voxels:
            text = f"{text} Mean over time.".lstrip()
            values = values.reshape(-1, space.n_voxels).mean(axis=0)
        entries.append(Told(legend.title, text, values, legend.unit))
    return entries


def draw_together(
    space: VoxelSpace,
    told: Sequence[Told],
    *,
    names: Sequence[str] = (),
    mean: np.ndarray | None = None,
) -> Figure:
    """Draw maps below each other, without those in which there is nothing to see.

    Parameters are those of `show_maps`.
    """
    seen = [one for one in told if not _nothing_to_see(one.values)]
    if not seen:
        reasons = [f"{one.name}: {_nothing_to_see(one.values)}" for one in told]
        raise InputError(f"There is no map to draw. {' '.join(reasons)}".rstrip(". "))
    ground = ground_of(space, names, mean) if space.kind == "volume" else None
    units = {one.unit for one in seen}
    unit = units.pop() if len(units) == 1 else ""
    return draw_maps(space, {one.name: one.values for one in seen}, unit=unit, ground=ground)


def show_maps(
    space: VoxelSpace,
    told: Sequence[Told],
    *,
    names: Sequence[str] = (),
    mean: np.ndarray | None = None,
    atlas: Atlas | None = None,
) -> Shown:
    """Draw maps, all with the same slices.

    Parameters
    ----------
    space : VoxelSpace
        Where the voxels are.
    told : sequence of Told
        The maps.
    names : sequence of str
        Of the images: they may show that the space is that of the MNI template.
    mean : array of shape (V,), optional
        Mean image, to draw maps over where there is no template.
    atlas : Atlas, optional
        Names peaks.
    """
    notes = [_nothing_to_see(one.values) for one in told]
    drawn = [one.values for one, note in zip(told, notes) if not note]
    if not drawn:
        return Shown([_entry(one, note) for one, note in zip(told, notes)], None, [])
    ground = ground_of(space, names, mean) if space.kind == "volume" else None
    slices = common_slices(space, drawn) if ground is not None else None
    stage = stage_of(space, ground)
    entries, viewers = [], []  # type: list[dict[str, Any]], list[dict[str, Any]]
    for one, note in zip(told, notes):
        entry = _entry(one, note)
        if not note:
            entry |= _drawn(space, one, ground, slices, atlas)
            if stage is not None:
                entry["viewer"] = len(viewers)
                viewers.append(viewer_of(space, one.values))
        entries.append(entry)
    return Shown(entries, stage, viewers)


def _entry(told: Told, note: str) -> dict[str, Any]:
    return {"name": told.name, "caption": told.caption, "unit": told.unit, "note": note}


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
    told: Told,
    ground: Ground | None,
    slices: Sequence[int] | None,
    atlas: Atlas | None,
) -> dict[str, Any]:
    overview = space.kind == "volume" and len(space.shape) == 3 and min(space.shape) > 1
    figure = draw_maps(
        space,
        {"": told.values},
        unit=told.unit,
        ground=ground,
        slices=slices,
        overview=overview,
        outline=told.outline,
    )
    return {
        "figure": figure,
        "over": "" if ground is None else ground.words,
        "peaks": peak_table(space, told.values, atlas) if overview and told.peaks else None,
    }
