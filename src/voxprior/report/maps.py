"""Voxel maps as pictures: slices of a volume, views of a mesh, projections of a point set.

Every map of one picture shares its slices; each row has its own colour scale, because the maps of
different models are in different units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from voxprior.errors import InputError, option
from voxprior.report.colors import colors_of, strongest
from voxprior.report.figures import blank
from voxprior.report.slices import (
    N_SLICES,
    Ground,
    axial,
    choose_slices,
    draw_slice,
    draw_through,
    mark_sides,
    silhouette,
    slice_name,
    tallness,
)
from voxprior.report.surfaces import draw_mesh_maps, draw_points
from voxprior.space import VoxelSpace

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_maps(
    space: VoxelSpace,
    maps: Mapping[str, np.ndarray],
    n_slices: int = N_SLICES,
    unit: str = "",
    *,
    ground: Ground | None = None,
    slices: Sequence[int] | None = None,
    overview: bool = False,
    outline: np.ndarray | None = None,
) -> Figure:
    """Draw maps below each other, one row per map.

    Parameters
    ----------
    space : VoxelSpace
        Where the voxels are.
    maps : mapping of str to array of shape (V,)
        Values by the name to print next to the row.
    n_slices : int
        Slices of a volume, spread over the extent of the maps.
    unit : str
        What the values are, for the colour bars.
    ground : Ground, optional
        Anatomy to draw volumes over; the mask, if absent.
    slices : sequence of int, optional
        Which slices, as `common_slices` chooses them; chosen for these maps if absent.
    overview : bool
        Whether to draw volumes as seen through the whole brain, too.
    outline : boolean array of shape (V,), optional
        Voxels that a line encloses; by default the strongest 5 % of each map.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior import VoxelSpace
    >>> figure = draw_maps(VoxelSpace.grid((4, 4, 3)), {"ramp": np.arange(48.0)})
    >>> len(figure.axes) >= 3
    True
    """
    if not maps:
        raise InputError(f"{option('maps')} is empty", expected="at least one map by its name")
    maps = {name: np.asarray(values, dtype=float) for name, values in maps.items()}
    if space.kind == "mesh":
        return draw_mesh_maps(space, maps, unit)
    if space.kind != "volume":
        return draw_points(space, maps, unit)
    chosen = common_slices(space, maps.values(), n_slices) if slices is None else list(slices)
    ground = silhouette(space) if ground is None else ground
    return _volume_maps(space, maps, chosen, unit, ground, overview, outline)


def common_slices(space: VoxelSpace, maps, n_slices: int = N_SLICES) -> list[int]:
    """Slices for several maps: spread over their common extent, each map counted alike."""
    weight = np.zeros(space.n_voxels)
    for values in maps:
        strength = np.nan_to_num(np.abs(np.asarray(values, dtype=float)))
        weight += strength / (strength.sum() or 1.0)
    inside = axial(space, np.ones(space.n_voxels)).values > 0
    return choose_slices(axial(space, weight).values, inside, n_slices)


def _volume_maps(
    space: VoxelSpace,
    maps: dict[str, np.ndarray],
    chosen: list[int],
    unit: str,
    ground: Ground,
    overview: bool,
    outline: np.ndarray | None,
) -> Figure:
    width = 2.4 if len(chosen) < 3 else 1.35
    tall = max(1.1, 0.25 + 0.95 * width * tallness(ground.volume))
    above = 1.9 if overview else 0.0
    figure = blank(width * len(chosen) + 1.3, (tall + above) * len(maps) + 0.3)
    rows = figure.subfigures(len(maps), 1, squeeze=False)[:, 0]
    for number, (row, (name, values)) in enumerate(zip(rows, maps.items())):
        volume, colors = axial(space, values, fill=np.nan), colors_of(values)
        parts = row.subfigures(2, 1, height_ratios=[above, tall]) if overview else [row]
        if overview:
            draw_through(parts[0].subplots(1, 3), ground, volume, colors)
        axes = parts[-1].subplots(1, len(chosen), squeeze=False)[0]
        inside = strongest(values, colors) if outline is None else outline
        enclosed = axial(space, inside.astype(float)).values > 0
        for ax, z in zip(axes, chosen):
            draw_slice(ax, ground, volume, z, colors, enclosed[:, :, z])
            if overview or number == 0:
                ax.set_title(slice_name(volume, z), fontsize="small")
        axes[0].set_ylabel(name, rotation=0, ha="right", va="center")
        colors.bar(parts[-1], axes, unit, shrink=0.8, pad=0.02)
    if space.affine is not None:
        mark_sides(axes[0])
    return figure


# ---------------------------------------------------------------- places


def millimeters(space: VoxelSpace | None) -> np.ndarray | None:
    """Places of the voxels of a volume in millimetres, (V, 3); None where they are not known."""
    if space is None or space.kind != "volume" or space.affine is None:
        return None
    return space.coordinates @ space.affine[:3, :3].T + space.affine[:3, 3]


def place_name(feature: int, space: VoxelSpace | None) -> str:
    """Say where a feature is: in millimetres where they are known, else its number.

    >>> place_name(5, VoxelSpace.grid((2, 2, 2), 3 * np.eye(4)))
    'at (3, 0, 3) mm'
    """
    places = millimeters(space)
    if places is None:
        return f"number {feature}"
    x, y, z = (f"{round(value)}".replace("-", "−") for value in places[feature % len(places)])
    return f"at ({x}, {y}, {z}) mm"
