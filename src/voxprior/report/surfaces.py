"""Maps on meshes, inflated so that the walls of sulci can be seen, and on point sets.

A mesh is inflated by moving every vertex to the mean of itself and its neighbours, again and again,
and blowing the result up to its old size. How far a vertex moved inwards or outwards separates gyri
from sulci, which are drawn light and dark below the map. This needs no other file than the mesh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from voxprior.report.colors import Colors, colors_of, painted
from voxprior.report.figures import SOFT, blank
from voxprior.space import VoxelSpace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEPS = 80
GYRUS, SULCUS = 0.85, 0.65


class Inflated(NamedTuple):
    """An inflated piece of a mesh, such as a hemisphere."""

    vertices: np.ndarray  # (n,) places in the whole mesh
    points: np.ndarray  # (n, 3)
    faces: np.ndarray  # (m, 3) into the vertices of the piece
    folds: np.ndarray  # (n,) grey of gyri and sulci


def inflate(points: np.ndarray, faces: np.ndarray, steps: int = STEPS) -> list[Inflated]:
    """Inflate every connected piece of a mesh.

    Examples
    --------
    >>> corners = np.array([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]])
    >>> sides = np.array([[0, 2, 4], [2, 1, 4], [1, 3, 4], [3, 0, 4],
    ...                   [2, 0, 5], [1, 2, 5], [3, 1, 5], [0, 3, 5]])
    >>> (piece,) = inflate(corners, sides)
    >>> bool(np.allclose(np.linalg.norm(piece.points, axis=1), 1))
    True
    """
    points, faces = np.asarray(points, dtype=float), np.asarray(faces)
    n = len(points)
    ends = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    graph = sparse.coo_matrix((np.ones(len(ends)), ends.T), (n, n)).tocsr()
    graph = ((graph + graph.T) > 0).astype(float)
    count, piece = sparse.csgraph.connected_components(graph)
    found = []
    for number in range(count):
        vertices = np.flatnonzero(piece == number)
        inner = faces[piece[faces[:, 0]] == number]
        if len(inner):
            renumbered = np.searchsorted(vertices, inner)
            moved, folds = _smoothed(points[vertices], graph[vertices][:, vertices], steps)
            found.append(Inflated(vertices, moved, renumbered, folds))
    return found


def _smoothed(points: np.ndarray, graph: Any, steps: int) -> tuple[np.ndarray, np.ndarray]:
    center = points.mean(axis=0)
    size = np.sqrt(((points - center) ** 2).sum(axis=1).mean())
    degree = np.asarray(graph.sum(axis=1)) + 1.0
    moved, inwards = points - center, np.zeros(len(points))
    for _ in range(steps):
        mean = (graph @ moved + moved) / degree
        out = mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-12)
        inwards += ((mean - moved) * out).sum(axis=1)
        moved = mean * (size / np.sqrt((mean**2).sum(axis=1).mean()))
    return moved + center, np.where(inwards > np.median(inwards), SULCUS, GYRUS)


# ---------------------------------------------------------------- drawing


def draw_mesh_maps(space: VoxelSpace, maps: dict[str, np.ndarray], unit: str = "") -> Figure:
    """Draw maps on the inflated mesh, each piece from the left and from the right."""
    pieces = inflate(np.asarray(space.points), np.asarray(space.faces))
    views = [(piece, side) for piece in pieces for side in (-1, 1)]
    if not views:
        return draw_points(space, maps, unit)
    figure = blank(2.2 * len(views) + 1.2, 1.9 * len(maps) + 0.2)
    grid = figure.subplots(len(maps), len(views), squeeze=False)
    for axes, (name, values) in zip(grid, maps.items()):
        whole, colors = space.unmask(values, fill=np.nan), colors_of(values)
        for ax, (piece, side) in zip(axes, views):
            _draw_side(ax, piece, whole[piece.vertices], side, colors)
            ax.set_title("from the left" if side < 0 else "from the right", fontsize="small")
        axes[0].set_ylabel(name, rotation=0, ha="right", va="center")
        colors.bar(figure, axes, unit, shrink=0.8)
    return figure


def _draw_side(ax: Axes, piece: Inflated, values: np.ndarray, side: int, colors: Colors) -> None:
    """Draw the faces that look to one side, far ones first."""
    from matplotlib.collections import PolyCollection

    corners = piece.points[piece.faces]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    outwards = np.sign((normal * (corners.mean(axis=1) - piece.points.mean(axis=0))).sum(axis=1))
    seen = np.flatnonzero(normal[:, 0] * np.where(outwards == 0, 1, outwards) * side > 0)
    seen = seen[np.argsort(side * corners[seen].mean(axis=1)[:, 0])]
    flat = corners[seen][:, :, [1, 2]] * [side, 1]
    shade = piece.folds[piece.faces[seen]].mean(axis=1)
    with np.errstate(invalid="ignore"):
        value = values[piece.faces[seen]].mean(axis=1)
    shades = painted(value, colors)
    color, alpha = shades[:, :3], shades[:, 3:]
    light = 0.75 + 0.25 * np.abs(normal[seen, 0]) / np.linalg.norm(normal[seen], axis=1)
    mixed = (alpha * color + (1 - alpha) * shade[:, None]) * light[:, None]
    ax.add_collection(
        PolyCollection(flat, facecolors=mixed, edgecolors=mixed, rasterized=True, lw=0.2)
    )
    ax.set(xticks=[], yticks=[], aspect="equal")
    ax.autoscale_view()
    ax.patch.set_alpha(0.0)
    ax.spines[:].set_visible(False)


def draw_points(space: VoxelSpace, maps: dict[str, np.ndarray], unit: str = "") -> Figure:
    """Orthogonal views of points, far ones drawn first."""
    views = [("side", 1, 2, 0), ("front", 0, 2, 1), ("top", 0, 1, 2)]
    figure = blank(2.6 * len(views) + 1.2, 2.4 * len(maps))
    grid = figure.subplots(len(maps), len(views), squeeze=False)
    size = float(np.clip(4e4 / space.n_voxels, 0.5, 40))
    for axes, (name, values) in zip(grid, maps.items()):
        colors = colors_of(values)
        for ax, (view, across, up, depth) in zip(axes, views):
            order = np.argsort(space.coordinates[:, depth])
            where = space.coordinates[order]
            ax.scatter(
                where[:, across], where[:, up], c=values[order], s=size, cmap=colors.cmap,
                norm=colors.norm, rasterized=True,
            )  # fmt: skip
            ax.set(xticks=[], yticks=[], aspect="equal", title=view)
            ax.spines[:].set_color(SOFT)
        axes[0].set_ylabel(name, rotation=0, ha="right", va="center")
        colors.bar(figure, axes, unit, shrink=0.8)
    return figure
