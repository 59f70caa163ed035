"""Slices of a volume over its anatomy, and a view through the whole brain.

Volumes are turned to the patient's axes by their affine, so that the picture's left is the
patient's left whatever the order of the file, and slices are named in millimetres. A map lies over
the anatomy with an opacity that grows with its strength; a line encloses its strongest voxels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from voxprior.report.colors import Colors, painted
from voxprior.report.figures import SOFT
from voxprior.space import VoxelSpace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_SLICES = 7
SILHOUETTE = 0.8
# On the anatomy, which is light on a dark page too.
OUTLINE = "#222222"


class Axial(NamedTuple):
    """A volume turned so that its axes run to the right, to the front and up.

    ``affine`` leads from its voxels to millimetres; None where that is unknown.
    """

    values: np.ndarray
    affine: np.ndarray | None = None

    @property
    def heights(self) -> np.ndarray | None:
        """Places of the slices in millimetres, (nz,)."""
        return None if self.affine is None else self.places(2)

    def places(self, axis: int) -> np.ndarray:
        """Places of the voxels along an axis, in millimetres or else counted."""
        counts = np.arange(self.values.shape[axis])
        if self.affine is None:
            return counts.astype(float)
        center = (np.array(self.values.shape) - 1) / 2
        voxels = np.tile([*center, 1.0], (len(counts), 1))
        voxels[:, axis] = counts
        return (voxels @ self.affine.T)[:, axis]

    def edges(self, axis: int) -> tuple[float, float]:
        """Where the first voxel along an axis begins and the last one ends."""
        places = self.places(axis)
        half = (places[-1] - places[0]) / (2 * max(len(places) - 1, 1)) or 0.5
        return float(places[0] - half), float(places[-1] + half)

    def at(self, height: float) -> np.ndarray:
        """The slice nearest to a height, as rows from back to front."""
        return self.values[:, :, int(np.abs(self.places(2) - height).argmin())].T


class Ground(NamedTuple):
    """What a map is drawn over: an anatomy in shades of grey, NaN outside of it."""

    volume: Axial
    words: str


def axial(space: VoxelSpace, values: np.ndarray, fill: float = 0.0) -> Axial:
    """Return a volume with its axes to the patient's right, front and head."""
    volume = _as_volume(space.unmask(values, fill=fill))
    if space.affine is None:
        return Axial(volume)
    from nibabel.orientations import apply_orientation, inv_ornt_aff, io_orientation

    turn = io_orientation(space.affine)
    return Axial(apply_orientation(volume, turn), space.affine @ inv_ornt_aff(turn, volume.shape))


def silhouette(space: VoxelSpace) -> Ground:
    """The mask in one grey: the ground where no anatomy is known."""
    inside = np.full(space.n_voxels, SILHOUETTE)
    return Ground(axial(space, inside, fill=np.nan), "the mask")


def choose_slices(weight: np.ndarray, inside: np.ndarray, n_slices: int = N_SLICES) -> list[int]:
    """Axial slices spread over the extent of a map, in each part the one with most weight.

    The extent is that of the weight, or of all that is inside where there is no weight.

    Examples
    --------
    >>> weight = np.zeros((1, 1, 12))
    >>> weight[0, 0, [2, 3, 9]] = 1, 5, 2
    >>> choose_slices(weight, np.ones((1, 1, 12), bool), 2)
    [3, 9]
    """
    occupied = np.flatnonzero(inside.any(axis=(0, 1)))
    strength = np.where(inside, np.nan_to_num(weight), 0.0).sum(axis=(0, 1))
    extent = np.flatnonzero(strength) if strength.any() else occupied
    within = occupied[(occupied >= extent[0]) & (occupied <= extent[-1])]
    parts = np.array_split(within, min(n_slices, len(within)))
    return [_telling(part, strength) for part in parts]


def _telling(part: np.ndarray, strength: np.ndarray) -> int:
    """The strongest slice of a part, from its middle unless the middle misses most of it."""
    middle = part[len(part) // 4 : len(part) - len(part) // 4]
    chosen = middle if 2 * strength[middle].max() >= strength[part].max() else part
    # Of equal weights, the middle of the part shows most.
    return int(max(chosen, key=lambda z: (strength[z], -abs(z - np.mean(part)))))


def slice_name(volume: Axial, z: int) -> str:
    """Name the place of a slice."""
    if volume.heights is None:
        return f"slice {z}"
    return f"z = {volume.heights[z]:.0f} mm".replace("-0 mm", "0 mm").replace("-", "−")


def draw_slice(
    ax: Axes,
    ground: Ground,
    volume: Axial,
    z: int,
    colors: Colors,
    enclosed: np.ndarray | None = None,
) -> None:
    """Draw one axial slice, seen from above, over its ground; a line around what is enclosed.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from voxprior.report.colors import colors_of
    >>> space, ax = VoxelSpace.grid((4, 4, 2)), Figure().add_subplot()
    >>> values = np.arange(32.0)
    >>> draw_slice(ax, silhouette(space), axial(space, values), 1, colors_of(values))
    >>> len(ax.images)
    2
    """
    below = ground.volume
    _show(ax, below.at(volume.places(2)[z]), below, cmap="gray", vmin=0.0, vmax=1.1)
    values = volume.values[:, :, z].T
    _show(ax, painted(values, colors), volume)
    if enclosed is not None and enclosed.any() and min(enclosed.shape) > 1:
        across, along = volume.places(0), volume.places(1)
        ax.contour(across, along, enclosed.T.astype(float), [0.5], colors=OUTLINE, linewidths=0.7)
    _frame(ax, below)


def _show(ax: Axes, values: np.ndarray, volume: Axial, **options: Any) -> None:
    extent = (*volume.edges(0), *volume.edges(1))
    ax.imshow(values, origin="lower", extent=extent, interpolation="none", **options)


def _frame(ax: Axes, ground: Axial) -> None:
    """No axes, and no more room than the ground needs."""
    ax.set(xticks=[], yticks=[], aspect="equal")
    ax.patch.set_alpha(0.0)
    ax.spines[:].set_visible(False)
    across, along = extent_of(ground)
    ax.set(xlim=across, ylim=along)


def extent_of(ground: Axial) -> list[tuple[float, float]]:
    """From where to where the ground reaches, to the right and to the front, with a margin."""
    reach = []
    for axis, others in ((0, (1, 2)), (1, (0, 2))):
        used = np.flatnonzero(np.isfinite(ground.values).any(axis=others))
        places = ground.places(axis)[[used[0], used[-1]]]
        (first, last), n = ground.edges(axis), ground.values.shape[axis]
        step = (last - first) / n
        reach.append((float(places[0] - 1.5 * step), float(places[-1] + 1.5 * step)))
    return reach


def tallness(ground: Axial) -> float:
    """Height of a slice by its width."""
    (left, right), (low, high) = extent_of(ground)
    return (high - low) / (right - left)


def mark_sides(ax: Axes) -> None:
    """Write L and R where the patient's left and right are."""
    for letter, x in (("L", 0.0), ("R", 1.0)):
        ax.text(
            x, 0.0, letter, transform=ax.transAxes, ha="center", va="bottom", fontsize="small",
            color=SOFT,
        )  # fmt: skip


# ---------------------------------------------------------------- through the whole brain

# Axis looked along, and what the view is called.
VIEWS = ((0, "from the left"), (1, "from behind"), (2, "from above"))


def draw_through(axes: Sequence[Axes], ground: Ground, volume: Axial, colors: Colors) -> None:
    """Draw the strongest value along three lines of sight, inside the outline of the ground."""
    filled = np.nan_to_num(volume.values)
    for ax, (axis, name) in zip(axes, VIEWS):
        across, up = (a for a in range(3) if a != axis)
        place = np.abs(filled).argmax(axis=axis, keepdims=True)
        seen = np.take_along_axis(filled, place, axis).squeeze(axis).T
        extent = (*volume.edges(across), *volume.edges(up))
        shades = painted(seen, colors)
        ax.imshow(shades, origin="lower", extent=extent, interpolation="none")
        below = ground.volume
        inside = np.isfinite(below.values).any(axis=axis).T.astype(float)
        rim = np.pad(inside, 1)
        x, y = (_padded(below.places(a)) for a in (across, up))
        ax.contour(x, y, rim, [0.5], colors=SOFT, linewidths=0.8)
        ax.set(xticks=[], yticks=[], aspect="equal")
        ax.set_title(name, fontsize="small")
        ax.patch.set_alpha(0.0)
        ax.spines[:].set_visible(False)


def _padded(places: np.ndarray) -> np.ndarray:
    step = (places[-1] - places[0]) / max(len(places) - 1, 1) or 1.0
    return np.concatenate([[places[0] - step], places, [places[-1] + step]])


def _as_volume(array: np.ndarray) -> np.ndarray:
    return array.reshape(array.shape + (1,) * (3 - array.ndim))
