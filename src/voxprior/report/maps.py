"""Voxel maps as pictures: slices of a volume, views of a mesh, projections of a point set.

Every map of one picture shares its slices; each row has its own symmetric colour scale, because the
maps of different models are in different units.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from voxprior.space import VoxelSpace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = "RdBu_r"


def draw_maps(space: VoxelSpace, maps: Mapping[str, np.ndarray], n_slices: int = 6) -> Figure:
    """Draw maps below each other, one row a map.

    Parameters
    ----------
    space : VoxelSpace
        Where the voxels are.
    maps : mapping of str to array of shape (V,)
        Values by the name to print beside the row.
    n_slices : int
        Slices of a volume, chosen where the first map has most of its weight.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior import VoxelSpace
    >>> figure = draw_maps(VoxelSpace.grid((4, 4, 3)), {"ramp": np.arange(48.0)})
    >>> len(figure.axes) >= 3
    True
    """
    if not maps:
        raise ValueError("At least one map was expected. Got none.")
    maps = {name: np.asarray(values, dtype=float) for name, values in maps.items()}
    if space.kind == "volume":
        return _slices(space, maps, n_slices)
    return _projections(space, maps)


def _limit(values: np.ndarray) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size and finite.max() > 0 else 1.0


def _slices(space: VoxelSpace, maps: dict[str, np.ndarray], n_slices: int) -> Figure:
    from matplotlib.figure import Figure

    inside = _as_volume(space.unmask(np.ones(space.n_voxels)))
    first = next(iter(maps.values()))
    chosen = choose_slices(_as_volume(space.unmask(np.nan_to_num(np.abs(first)))), inside, n_slices)
    figure = Figure(figsize=(1.6 * len(chosen) + 1.8, 1.7 * len(maps) + 0.3), layout="constrained")
    grid = np.atleast_2d(figure.subplots(len(maps), len(chosen), squeeze=False))
    for axes, (name, values) in zip(grid, maps.items()):
        volume, limit = _as_volume(space.unmask(values, fill=np.nan)), _limit(values)
        for ax, z in zip(axes, chosen):
            ax.imshow(
                np.where(inside[:, :, z], 0.85, np.nan).T,
                cmap="gray",
                vmin=0,
                vmax=1,
                origin="lower",
            )
            picture = ax.imshow(
                volume[:, :, z].T, cmap=COLOURS, vmin=-limit, vmax=limit, origin="lower"
            )
            ax.set(xticks=[], yticks=[])
            for side in ax.spines.values():
                side.set_visible(False)
        axes[0].set_ylabel(name, rotation=0, ha="right", va="center")
        figure.colorbar(picture, ax=list(axes), shrink=0.8, pad=0.01)
    for ax, z in zip(grid[0], chosen):
        ax.set_title(f"z = {z}", fontsize="small")
    return figure


def _as_volume(array: np.ndarray) -> np.ndarray:
    return array.reshape(array.shape + (1,) * (3 - array.ndim))


def choose_slices(weight: np.ndarray, inside: np.ndarray, n_slices: int) -> list[int]:
    """Axial slices with the most weight, in order; slices of equal weight by how much they show."""
    occupied = np.flatnonzero(inside.any(axis=(0, 1)))
    by_weight = sorted(occupied, key=lambda z: (-weight[:, :, z].sum(), -inside[:, :, z].sum(), z))
    return sorted(int(z) for z in by_weight[:n_slices])


def _projections(space: VoxelSpace, maps: dict[str, np.ndarray]) -> Figure:
    """Orthogonal views of points or vertices, far ones drawn first."""
    from matplotlib.figure import Figure

    views = [("side", 1, 2, 0), ("front", 0, 2, 1), ("top", 0, 1, 2)]
    figure = Figure(figsize=(2.6 * len(views) + 1.2, 2.4 * len(maps)), layout="constrained")
    grid = figure.subplots(len(maps), len(views), squeeze=False)
    size = float(np.clip(4e4 / space.n_voxels, 0.5, 40))
    for axes, (name, values) in zip(grid, maps.items()):
        limit = _limit(values)
        for ax, (view, across, up, depth) in zip(axes, views):
            order = np.argsort(space.coordinates[:, depth])
            where = space.coordinates[order]
            picture = ax.scatter(
                where[:, across],
                where[:, up],
                c=values[order],
                s=size,
                cmap=COLOURS,
                vmin=-limit,
                vmax=limit,
            )
            ax.set(xticks=[], yticks=[], aspect="equal", title=view)
        axes[0].set_ylabel(name, rotation=0, ha="right", va="center")
        figure.colorbar(picture, ax=list(axes), shrink=0.8)
    return figure
