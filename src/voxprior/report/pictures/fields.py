"""Pictures of compressed random fields: connections, the two-circle graph, accuracies, ratios.

Every function takes plain arrays, as `RandomFieldClassifier` returns them, and gives a Figure.

| symbol | variable | shape |
|---|---|---|
| connections per class and node | `connections` | (C, n) |
| β, row i predicts node i | `coef` | (n, n) |
| running mean of the log-likelihood ratio | `running_mean` | (m, n) |
| its limit, a Kullback-Leibler divergence | `limit` | (m,) |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voxprior.errors import InputError, option
from voxprior.report.figures import SOFT, panels
from voxprior.report.maps import millimeters, place_name
from voxprior.report.pictures import Legend, Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from voxprior.space import VoxelSpace

__all__ = [
    "accuracy_histograms",
    "connection_counts",
    "draw",
    "ratio_trajectories",
    "stem_plot",
    "two_circles",
]

COUNTED = "How many other voxels help to predict a voxel, by class: few, if the field is sparse."
CIRCLES = "Dots are voxels, lines the strongest of their connections. "
HALVES = "The first half of the voxels is the left circle."
SIDES = "The left circle is the left hemisphere."
STEMS = "Coefficients of the others in the prediction of the voxel that says most about the class"
RATIO = (
    "Each thin line is a training scan: the evidence for its class, per voxel, as voxels are added "
    "one by one. Above zero the scan is classified correctly; the red line is where the model "
    "expects it to end."
)
LEGENDS = {
    "ranking": Legend(
        "Ranking", "How much each voxel alone says about the class; the best became nodes.", "score"
    ),
    "selected": Legend("Voxels used", "The nodes of the field: all the decoder looks at.", ""),
    "degree": Legend(
        "Connections", "Voxels that help to predict each node, mean over classes.", "connections"
    ),
    "strength": Legend(
        "Strength of connections", "Sum of a node's coefficients, mean over classes.", "sum of |β|"
    ),
    "difference": Legend(
        "Where connections differ",
        "Change of a node's coefficients from the first class to the last.",
        "sum of |change of β|",
    ),
}


def connection_counts(connections: ArrayLike, classes: Sequence[object]) -> Figure:
    """Draw how many nodes predict each node, one histogram per class.

    Parameters
    ----------
    connections : array of shape (C, n)
        As `RandomFieldClassifier.connections` returns it.
    classes : sequence of length C
        Names of the classes.

    Examples
    --------
    >>> from voxprior.report.pictures.fields import connection_counts
    >>> len(connection_counts([[2, 3, 2], [1, 1, 0]], ["rest", "task"]).axes)
    1
    """
    counts = np.atleast_2d(np.asarray(connections))
    figure, (axis,) = _wide_panels(1)
    bins = list(np.arange(counts.max() + 2) - 0.5)
    few = len(counts) <= 2  # more areas would hide each other
    look: dict[str, Any] = {"alpha": 0.6} if few else {"histtype": "step"}
    for row, name in zip(counts, classes, strict=True):
        axis.hist(row, bins=bins, label=f"{name}: mean {row.mean():.1f}", **look)
    axis.set(xlabel="connections of a voxel, |β| > 0.05", ylabel="voxels")
    axis.legend(frameon=False, fontsize="medium" if few else "small")
    return figure


def two_circles(
    fields: Mapping[str, ArrayLike],
    right: ArrayLike | None = None,
    tolerance: float = 0.05,
    n_edges: int = 300,
) -> Figure:
    """Draw fields as graphs on two circles, side by side: a plain field next to a compressed one.

    Parameters
    ----------
    fields : mapping of name to array of shape (n, n)
        Coefficients of one class each.
    right : bool array of shape (n,), optional
        Nodes of the right circle, for instance of the right hemisphere; by default the second half.
    tolerance : float
        Connections with |β| above it are counted and drawn.
    n_edges : int
        Draw the strongest ones only.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.report.pictures.fields import two_circles
    >>> dense = np.random.default_rng(0).normal(size=(6, 6))
    >>> len(two_circles({"plain": dense, "compressed": np.diag(np.ones(5), 1)}).axes)
    2
    """
    from matplotlib.collections import LineCollection

    figure, axes = _wide_panels(len(fields), 2.2 if len(fields) < 4 else 1.4)
    for axis, (name, coef) in zip(axes, fields.items()):
        coef = np.asarray(coef, dtype=float)
        places = _on_circles(_sides(right, len(coef)))
        pairs, size, total = _edges(coef, tolerance, n_edges)
        lines = LineCollection(
            list(places[pairs]), linewidths=0.3 + 1.7 * size, colors=SOFT, alpha=0.35
        )
        axis.add_collection(lines)
        axis.scatter(places[:, 0], places[:, 1], s=9, color="C3", zorder=3)
        axis.set_title(f"{name}: {total} connections", fontsize=9)
        axis.set_aspect("equal")
        axis.set_axis_off()
    return figure


def stem_plot(fields: Mapping[str, ArrayLike], node: int) -> Figure:
    """Draw the connections of one node in several fields, one panel per field.

    Parameters
    ----------
    fields : mapping of name to array of shape (n, n)
        Coefficients.
    node : int
        The node whose row is drawn.
    """
    figure, axes = _wide_panels(len(fields))
    for axis, (name, coef) in zip(axes, fields.items()):
        row = np.asarray(coef, dtype=float)[node]
        markers, stems, base = axis.stem(row)
        markers.set_markersize(2.5)
        stems.set_linewidth(0.8)
        base.set_linewidth(0.5)
        axis.set(title=name, xlabel="voxel", ylabel="β")
    top = max(np.abs(np.asarray(coef)[node]).max() for coef in fields.values()) or 1.0
    for axis in axes:
        axis.set_ylim(-1.1 * top, 1.1 * top)
    return figure


def accuracy_histograms(
    accuracies: Mapping[str, ArrayLike], published: Mapping[str, float] | None = None
) -> Figure:
    """Draw accuracies over Monte-Carlo runs, with their means and published means if given.

    Parameters
    ----------
    accuracies : mapping of name to array of shape (runs,)
        Between 0 and 1.
    published : mapping of name to float, optional
        Means to mark by a dotted line.
    """
    figure, (axis,) = _wide_panels(1)
    values = {name: np.asarray(a, dtype=float) for name, a in accuracies.items()}
    low = min(a.min() for a in values.values())
    bins = list(np.linspace(min(low, 0.5), 1.0, 26))
    for number, (name, a) in enumerate(values.items()):
        color = f"C{number}"
        axis.hist(a, bins=bins, alpha=0.5, color=color, label=f"{name}: mean {a.mean():.3f}")
        axis.axvline(a.mean(), color=color)
        if published and name in published:
            axis.axvline(published[name], color=color, linestyle=":", label=f"{name}, published")
    axis.set(xlabel="accuracy", ylabel="Monte-Carlo runs")
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=8)
    return figure


def ratio_trajectories(running_mean: ArrayLike, limit: ArrayLike, threshold: float = 0.0) -> Figure:
    """Draw (1/i) log l of scans as nodes are added, with the mean limit and c/i.

    Parameters
    ----------
    running_mean : array of shape (m, n)
        As `RandomFieldClassifier.trajectory` returns it.
    limit : array of shape (m,)
        Divergence that each tends to.
    threshold : float
        c, which matters less and less: c/i is drawn.
    """
    running = np.atleast_2d(np.asarray(running_mean, dtype=float))
    figure, (axis,) = _wide_panels(1)
    nodes = np.arange(1, running.shape[1] + 1)
    axis.plot(nodes, running.T, color="C0", alpha=0.3, linewidth=0.7)
    axis.plot(nodes, running.mean(axis=0), color="C0", label="mean over scans")
    axis.axhline(
        float(np.asarray(limit, dtype=float).mean()),
        color="C3",
        linestyle="--",
        label="expected limit",
    )
    axis.plot(nodes, threshold / nodes, color=SOFT, linewidth=0.8, label="threshold / voxels")
    axis.set(xlabel="voxels", ylabel="log-likelihood ratio per voxel, nats")
    axis.legend(frameon=False, fontsize=8)
    return figure


def _wide_panels(count: int, height: float = 3.0) -> tuple[Figure, list[Axes]]:
    return panels(count, 3.6, height, across=4, margin=1.0)


def _sides(right: ArrayLike | None, n: int) -> NDArray[np.bool_]:
    if right is None:
        return np.arange(n) >= n // 2
    sides = np.asarray(right, dtype=bool)
    if sides.shape != (n,):
        raise InputError(
            f"{option('right')} must say for each of {n} nodes where it is",
            expected=f"shape ({n},)",
            got=str(sides.shape),
        )
    return sides


def _on_circles(right: NDArray[np.bool_]) -> NDArray[np.float64]:
    places = np.empty((len(right), 2))
    for side, center in ((False, -1.3), (True, 1.3)):
        members = np.flatnonzero(right == side)
        angle = 2 * np.pi * np.arange(len(members)) / max(len(members), 1)
        places[members] = np.column_stack([center + np.cos(angle), np.sin(angle)])
    return places


def _edges(coef: NDArray, tolerance: float, n_edges: int) -> tuple[NDArray, NDArray, int]:
    """Node pairs (e, 2) of the strongest connections, strengths in 0..1, and how many count."""
    size = np.maximum(np.abs(coef), np.abs(coef.T))
    i, j = np.triu_indices(len(coef), k=1)
    strength = size[i, j]
    total = int((strength > tolerance).sum())
    order = np.argsort(-strength, kind="stable")[: min(n_edges, total)]
    largest = strength.max() if strength.size and strength.max() > 0 else 1.0
    return np.column_stack([i[order], j[order]]), strength[order] / largest, total


def draw(model: Any, X: ArrayLike, y: ArrayLike, space: VoxelSpace | None = None) -> list[Picture]:
    """Draw what a report shows of a fitted model: connections, graphs, the ratio of its scans."""
    fields = {str(label): coef for label, coef in zip(model.classes_, model.coef_)}
    right, where = _hemispheres(model, space)
    counts = connection_counts(model.connections(), model.classes_)
    shown = [
        Picture("Connections of a voxel", counts, COUNTED),
        Picture("Connections between voxels", two_circles(fields, right), CIRCLES + where),
    ]
    if len(fields) <= 4:
        best = int(np.argmax(model.ranking_[model.nodes_]))
        text = f"{STEMS}, {place_name(model.nodes_[best], space)}."
        shown.append(Picture("What predicts the best voxel", stem_plot(fields, best), text))
    if len(model.classes_) == 2:
        first, second = model.classes_
        scans = np.asarray(X)[np.asarray(y) == first]
        path = model.trajectory(scans, first, second)
        figure = ratio_trajectories(path.running_mean, path.limit)
        shown.append(Picture(f"How scans of {first} are separated from {second}", figure, RATIO))
    return shown


def _hemispheres(model: Any, space: VoxelSpace | None) -> tuple[NDArray[np.bool_] | None, str]:
    """Which nodes are right of the midline, where the places are known and both sides have some."""
    places = millimeters(space)
    if places is None:
        return None, HALVES
    right = places[np.asarray(model.nodes_) % len(places), 0] > 0
    return (None, HALVES) if right.all() or not right.any() else (right, SIDES)
