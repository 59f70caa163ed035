"""Pictures of spatially regularised boosting: a map next to its controls, stability, descent.

Every function takes plain arrays and returns a matplotlib Figure. Maps are functions of a location:
places with one or two coordinates are drawn as such, volumes by their slice of highest importance.

| symbol | variable | shape |
|---|---|---|
| β, component importance | `importance` | (V,) |
| v, where the locations are | `space` | VoxelSpace |
| the objective | `objective` | (iterations + 1,) or (C, iterations + 1) |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from voxprior.report.colors import ONE_SIGN, Colors
from voxprior.report.figures import SOFT, panels
from voxprior.report.pictures import Legend, Picture
from voxprior.report.slices import axial, draw_slice, mark_sides, silhouette, slice_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from voxprior.models.boosting import Controls
    from voxprior.space import VoxelSpace

__all__ = ["draw", "draw_selection_frequency", "importance_with_controls", "objective_path"]

TITLES = {
    "importance": "importance",
    "permuted": "coordinates permuted",
    "ridge": "ridge only (K = I)",
    "diagonal": "no neighbours (diag K)",
    "shuffled": "labels shuffled, mean",
}
CONTROLS = (
    "Shares of the summed importance: of the map, and of what the same scans give when the prior "
    "is taken away: voxels moved to random places, no smoothness between neighbours, or labels "
    "shuffled. Believe what the map has and the shuffled labels have not."
)
DESCENT = (
    "What boosting lowers with every stump that it adds. A flat end: more would change little."
)
LEGENDS = {
    "importance": Legend(
        "Importance", "Weight of all stumps that look at a voxel.", "sum of weights"
    ),
    "smoothed": Legend(
        "Importance, smoothed",
        "The same, blurred by the kernel of the prior: the region rather than its voxels.",
        "smoothed sum of weights",
    ),
    "selection_order": Legend(
        "Order of selection",
        "1 for the voxel that was chosen first; grey was never chosen.",
        "rank",
    ),
    "direction": Legend("Direction", "What high values of a voxel speak for; {sides}.", "weight"),
    "feature_importance": Legend(
        "Importance by time",
        "Weight of all stumps that look at a voxel and time.",
        "sum of weights",
    ),
}


def importance_with_controls(
    controls: Controls | Mapping[str, NDArray], space: VoxelSpace
) -> Figure:
    """Draw an importance map and the maps to compare it with, each as a share of its sum.

    Parameters
    ----------
    controls : Controls or mapping
        Maps by name, as `SpatialBoostingClassifier.controls` returns them.
    space : VoxelSpace
        Where the locations are.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.space import VoxelSpace
    >>> from voxprior.report.pictures.boosting import importance_with_controls
    >>> maps = {"importance": np.ones(9), "shuffled": np.ones((4, 9))}
    >>> len(importance_with_controls(maps, VoxelSpace.grid((3, 3))).axes)
    3
    """
    given = controls if isinstance(controls, Mapping) else controls._asdict()
    maps = {name: _share(np.atleast_2d(values).mean(axis=0)) for name, values in given.items()}
    figure, axes = panels(len(maps), 2.6, 2.4)
    where = _slice_of(maps["importance"], space)
    colors = _from_zero(max(values.max() for values in maps.values()) or 1.0)
    for axis, (name, values) in zip(axes, maps.items()):
        _draw(axis, values, space, where, colors)
        axis.set_title(TITLES.get(name, name), fontsize=9)
    if space.kind == "volume" and space.affine is not None:
        mark_sides(axes[0])
    colors.bar(figure, axes, "share", shrink=0.7)
    return figure


def draw_selection_frequency(
    frequency: NDArray, space: VoxelSpace, n_bootstraps: int | None = None
) -> Figure:
    """Draw the share of bootstrap refits that select each location.

    Parameters
    ----------
    frequency : ndarray of shape (V,)
        Shares between 0 and 1.
    space : VoxelSpace
        Where the locations are.
    n_bootstraps : int, optional
        Number of refits, for the label.
    """
    figure, (axis,) = panels(1, 2.6, 3.0)
    colors = _from_zero(1.0)
    _draw(axis, np.asarray(frequency), space, _slice_of(frequency, space), colors)
    of = "refits" if n_bootstraps is None else f"{n_bootstraps} bootstrap refits"
    colors.bar(figure, [axis], f"share of {of} that select it", shrink=0.7)
    return figure


def objective_path(
    objective: NDArray, validation: NDArray | None = None, labels: Any = None
) -> Figure:
    """Draw the objective by iteration, one line per problem, and an accuracy next to it.

    Parameters
    ----------
    objective : ndarray of shape (iterations + 1,) or (C, iterations + 1)
        The objective, the start first.
    validation : ndarray of shape (iterations,), optional
        Accuracy on other samples after each iteration.
    labels : sequence of str, optional
        Names of the one-vs-rest problems.
    """
    figure, (axis,) = panels(1, 5.0, 3.0)
    paths = np.atleast_2d(objective)
    names = [None] * len(paths) if labels is None else [str(label) for label in labels]
    for path, name in zip(paths, names):
        axis.plot(np.arange(len(path)), path, label=name, lw=1.5)
    axis.set(xlabel="iteration", ylabel="exponential loss + penalty")
    if labels is not None:
        axis.legend(fontsize=8, frameon=False)
    if validation is not None:
        other = axis.twinx()
        other.plot(np.arange(1, len(validation) + 1), validation, color=SOFT, ls="--", lw=1)
        other.set(ylabel="accuracy on other samples (dashed)", ylim=(0, 1.02))
    return figure


def _share(values: NDArray) -> NDArray:
    total = values.sum()
    return values / total if total > 0 else values


def _slice_of(values: NDArray, space: VoxelSpace) -> int | None:
    """Return the axial slice of a volume that holds most of a map."""
    if space.kind != "volume" or len(space.shape) < 3:
        return None
    return int(np.argmax(axial(space, np.asarray(values, dtype=float)).values.sum(axis=(0, 1))))


def _from_zero(top: float) -> Colors:
    from matplotlib.colors import Normalize

    return Colors(ONE_SIGN, Normalize(0, top))


def _draw(
    axis: Axes, values: NDArray, space: VoxelSpace, where: int | None, colors: Colors
) -> None:
    axis.set(xticks=[], yticks=[])
    if space.kind != "volume":
        x, y = space.coordinates[:, 0], space.coordinates[:, 1]
        axis.set_aspect("equal")
        axis.scatter(x, y, c=values, cmap=colors.cmap, norm=colors.norm, s=24, edgecolors="0.7")
        return
    volume = axial(space, np.asarray(values, dtype=float), fill=np.nan)
    if where is not None:
        axis.set_xlabel(slice_name(volume, where), fontsize=8)
    draw_slice(axis, silhouette(space), volume, where or 0, colors)


def draw(model: Any, X: NDArray, y: NDArray, space: VoxelSpace | None = None) -> list[Picture]:
    """Draw what a report shows of a fitted model: its map next to the controls, and its descent."""
    shown = []
    if model.space is not None:
        controls = model.controls(X, y, n_shuffles=10, random_state=0)
        figure = importance_with_controls(controls, model.space)
        shown.append(Picture("Importance and its controls", figure, CONTROLS))
    labels = model.classes_ if np.ndim(model.objective_) == 2 else None
    figure = objective_path(model.objective_, labels=labels)
    shown.append(Picture("Descent of the objective", figure, DESCENT))
    return shown
