"""Voxel maps as pictures: slices of a volume, views of a mesh, projections of a point set.

Volumes are turned to the patient's axes by their affine, so that the picture's left is the
patient's left whatever the order of the file, and slices are told in millimetres. Every map of one
picture shares its slices; each row has its own colour scale, because the maps of different models
are in different units.

| values | colours |
|---|---|
| of both signs | red and blue around zero |
| of one sign | light to dark, from zero where the map comes near it |
| few whole numbers, none below zero | one colour per number |
| zero, where no value is below | the grey of the mask |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from voxprior.errors import InputError, option
from voxprior.report.figures import blank
from voxprior.space import VoxelSpace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize
    from matplotlib.figure import Figure

BOTH_SIGNS, ONE_SIGN = "RdBu_r", "YlOrRd"
BACKGROUND = 0.85
# Whole numbers up to this are counted by colour; above, a scale is easier to read.
MOST_NUMBERS = 10
# Values that differ by less than this share are one value.
CONSTANT = 1e-3


class Colors(NamedTuple):
    """How the values of one map are coloured."""

    cmap: str | Colormap
    norm: Normalize
    ticks: list[float] | None = None


class Axial(NamedTuple):
    """A volume turned so that its axes run to the right, to the front and up.

    ``heights`` (nz,) are the places of its slices in millimetres, None without an affine.
    """

    values: np.ndarray
    heights: np.ndarray | None
    aspect: float


def draw_maps(
    space: VoxelSpace, maps: Mapping[str, np.ndarray], n_slices: int = 6, unit: str = ""
) -> Figure:
    """Draw maps below each other, one row per map.

    Parameters
    ----------
    space : VoxelSpace
        Where the voxels are.
    maps : mapping of str to array of shape (V,)
        Values by the name to print beside the row.
    n_slices : int
        Slices of a volume, chosen where the first map has most of its weight.
    unit : str
        What the values are, for the colour bars.

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
    if space.kind == "volume":
        return _slices(space, maps, n_slices, unit)
    return _projections(space, maps, unit)


# ---------------------------------------------------------------- colours


def colors_of(values: np.ndarray) -> Colors:
    """Choose colours by what the values are: of both signs, of one, or few whole numbers."""
    import matplotlib
    from matplotlib.colors import BoundaryNorm, ListedColormap, Normalize

    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.any() else (0.0, 1.0)
    if low < 0 < high:
        top = max(-low, high)
        return Colors(BOTH_SIGNS, Normalize(-top, top))
    numbers = np.unique(finite[finite > 0])
    if low >= 0 and high <= MOST_NUMBERS and len(numbers) and (numbers == np.round(numbers)).all():
        steps = np.arange(numbers[0], high + 1)
        shades = matplotlib.colormaps[ONE_SIGN](np.linspace(1, 0.35, len(steps))[::-1])
        bounds = np.append(steps, high + 1) - 0.5
        return Colors(ListedColormap(shades), BoundaryNorm(bounds, len(steps)), list(steps))
    if is_constant(values):
        return Colors(ONE_SIGN, Normalize(min(low, 0.0), max(high, 0.0)))
    if high > 0:  # a narrow range far from zero would be one colour if drawn from zero
        return Colors(ONE_SIGN, Normalize(low if low > high / 2 else 0.0, high))
    return Colors(f"{ONE_SIGN}_r", Normalize(low, high if high < low / 2 else 0.0))


def is_constant(values: np.ndarray) -> bool:
    """Whether a map is practically the same everywhere: colours would only magnify rounding."""
    finite = values[np.isfinite(values)]
    return bool(finite.size and np.ptp(finite) < CONSTANT * np.abs(finite).max())


# ---------------------------------------------------------------- volumes


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


def axial(space: VoxelSpace, values: np.ndarray, fill: float = 0.0) -> Axial:
    """Return a volume with its axes to the patient's right, front and head."""
    volume = _as_volume(space.unmask(values, fill=fill))
    if space.affine is None:
        return Axial(volume, None, 1.0)
    from nibabel.orientations import apply_orientation, inv_ornt_aff, io_orientation

    turn = io_orientation(space.affine)
    affine = space.affine @ inv_ornt_aff(turn, volume.shape)
    turned = apply_orientation(volume, turn)
    center = (np.array(turned.shape[:2]) - 1) / 2
    places = [(*center, z, 1.0) for z in range(turned.shape[2])]
    sizes = np.linalg.norm(affine[:3, :3], axis=0)
    return Axial(turned, (np.array(places) @ affine.T)[:, 2], float(sizes[1] / sizes[0]))


def choose_slices(weight: np.ndarray, inside: np.ndarray, n_slices: int) -> list[int]:
    """Axial slices with the most weight, in order; slices of equal weight by how much they show."""
    occupied = np.flatnonzero(inside.any(axis=(0, 1)))
    by_weight = sorted(occupied, key=lambda z: (-weight[:, :, z].sum(), -inside[:, :, z].sum(), z))
    return sorted(int(z) for z in by_weight[:n_slices])


def slice_name(volume: Axial, z: int) -> str:
    """Say where a slice is."""
    if volume.heights is None:
        return f"slice {z}"
    return f"z = {volume.heights[z]:.0f} mm".replace("-0 mm", "0 mm").replace("-", "−")


def draw_slice(ax: Axes, inside: Axial, volume: Axial, z: int, colors: Colors) -> Any:
    """Draw one axial slice, seen from above, over the outline of the mask."""
    from matplotlib.colors import ListedColormap

    shape: dict[str, Any] = {"origin": "lower", "aspect": volume.aspect, "interpolation": "nearest"}
    ground = np.where(inside.values[:, :, z] > 0, 1.0, np.nan).T
    ax.imshow(ground, cmap=ListedColormap([str(BACKGROUND)]), **shape)
    values = volume.values[:, :, z].T
    if not (volume.values < 0).any():
        values = np.where(values == 0, np.nan, values)
    drawn = ax.imshow(values, cmap=colors.cmap, norm=colors.norm, **shape)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    across, along = _extent(inside)
    ax.set(xlim=(across[0] - 1.5, across[1] + 1.5), ylim=(along[0] - 1.5, along[1] + 1.5))
    return drawn


def _extent(inside: Axial) -> list[tuple[int, int]]:
    """First and last column, and row, that hold a voxel."""
    used = [np.flatnonzero(inside.values.any(axis=axes)) for axes in ((1, 2), (0, 2))]
    return [(int(places[0]), int(places[-1])) for places in used]


def _tallness(inside: Axial) -> float:
    (left, right), (low, high) = _extent(inside)
    return inside.aspect * (high - low + 3) / (right - left + 3)


def mark_sides(ax: Axes) -> None:
    """Write L and R where the patient's left and right are."""
    for letter, x in (("L", 0.0), ("R", 1.0)):
        ax.text(
            x, 0.0, letter, transform=ax.transAxes, ha="center", va="bottom", fontsize="small",
            color="0.3",
        )  # fmt: skip


def _slices(space: VoxelSpace, maps: dict[str, np.ndarray], n_slices: int, unit: str) -> Figure:
    inside = axial(space, np.ones(space.n_voxels))
    first = np.nan_to_num(np.abs(next(iter(maps.values()))))
    chosen = choose_slices(axial(space, first).values, inside.values > 0, n_slices)
    width = 2.8 if len(chosen) < 3 else 1.6
    height = max(1.2, 0.2 + 0.92 * width * _tallness(inside))
    size = (width * len(chosen) + 1.6, height * len(maps) + 0.3)
    figure = blank(*size)
    grid = figure.subplots(len(maps), len(chosen), squeeze=False)
    for axes, (name, values) in zip(grid, maps.items()):
        volume, colors = axial(space, values, fill=np.nan), colors_of(values)
        for ax, z in zip(axes, chosen):
            drawn = draw_slice(ax, inside, volume, z, colors)
        axes[0].set_ylabel(name, rotation=0, ha="right", va="center")
        figure.colorbar(drawn, ax=list(axes), shrink=0.8, pad=0.02, label=unit, ticks=colors.ticks)
    for ax, z in zip(grid[0], chosen):
        ax.set_title(slice_name(inside, z), fontsize="small")
    if inside.heights is not None:
        mark_sides(grid[-1][0])
    return figure


def _as_volume(array: np.ndarray) -> np.ndarray:
    return array.reshape(array.shape + (1,) * (3 - array.ndim))


# ---------------------------------------------------------------- points and meshes


def _projections(space: VoxelSpace, maps: dict[str, np.ndarray], unit: str) -> Figure:
    """Orthogonal views of points or vertices, far ones drawn first."""
    views = [("side", 1, 2, 0), ("front", 0, 2, 1), ("top", 0, 1, 2)]
    figure = blank(2.6 * len(views) + 1.2, 2.4 * len(maps))
    grid = figure.subplots(len(maps), len(views), squeeze=False)
    size = float(np.clip(4e4 / space.n_voxels, 0.5, 40))
    for axes, (name, values) in zip(grid, maps.items()):
        colors = colors_of(values)
        for ax, (view, across, up, depth) in zip(axes, views):
            order = np.argsort(space.coordinates[:, depth])
            where = space.coordinates[order]
            drawn = ax.scatter(
                where[:, across],
                where[:, up],
                c=values[order],
                s=size,
                cmap=colors.cmap,
                norm=colors.norm,
            )
            ax.set(xticks=[], yticks=[], aspect="equal", title=view)
        axes[0].set_ylabel(name, rotation=0, ha="right", va="center")
        figure.colorbar(drawn, ax=list(axes), shrink=0.8, label=unit, ticks=colors.ticks)
    return figure
