"""Pictures of feature sharing: neighbouring time courses, and accuracies by subject.

Every function takes plain arrays and returns a matplotlib Figure. The first follows Figure 1 of the
paper (voxels of a neighbourhood have courses of one shape and different amplitudes), the second
Figures 2 and 3 (bars by subject, chance as a line), the third shows what sharing did to a mean.

| symbol | variable | shape |
|---|---|---|
| X̄, class mean courses | `courses` | (T, V) |
| θ̂, the same after sharing | `shared` | (T, V) |
| neighbour graph | `groups` | (V, V) sparse |

Reference: M. Palatucci, T. M. Mitchell, ECML/PKDD 2007.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from voxprior.errors import InputError, option
from voxprior.report.figures import SOFT, panels
from voxprior.report.pictures import Legend, Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from voxprior.space import VoxelSpace

__all__ = ["accuracy_bars", "draw", "moved_means", "neighboring_courses", "shared_courses"]

MOVED = (
    "Each dot is a voxel. On the dashed line its mean stayed as the scans have it; off the line "
    "its neighbours moved it."
)
LEGENDS = {
    "difference": Legend(
        "Difference of the classes",
        "Class means after sharing, one less the other; {sides}.",
        "standard deviations",
    ),
    "discriminability": Legend(
        "Discriminability",
        "How far apart the class means are, by how much scans of a class differ: where the decoder "
        "finds what it knows.",
        "variance between / within",
    ),
    "group_size": Legend(
        "Voxels that inform each voxel", "Neighbours of a voxel that share with it.", "voxels"
    ),
    "mean_before": Legend("Mean before sharing", "Mean of the training scans.", "mean response"),
    "mean_after": Legend(
        "Mean after sharing", "The same, drawn toward that of the neighbours.", "mean response"
    ),
}


def neighboring_courses(
    courses: ArrayLike,
    groups: Any,
    voxels: Sequence[int] | None = None,
    n_neighbors: int = 4,
    t_r: float | None = None,
) -> Figure:
    """Draw the mean courses of some voxels with those of their most similar neighbours (Figure 1).

    Parameters
    ----------
    courses : array of shape (T, V)
        Mean time course of every voxel.
    groups : sparse matrix of shape (V, V)
        Row v marks the neighbours of v, as `VoxelSpace.adjacency` gives them.
    voxels : sequence of int, optional
        Voxels in the middle of a panel; by default the four strongest that are not neighbours.
    n_neighbors : int
        Courses drawn next to each, those of highest correlation first.
    t_r : float, optional
        Seconds between images; without it the axis counts images.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.space import VoxelSpace
    >>> courses = np.outer(np.sin(np.arange(8)), np.linspace(1, 2, 25))
    >>> figure = neighboring_courses(courses, VoxelSpace.grid((5, 5)).adjacency(), voxels=[6, 18])
    >>> len(figure.axes), len(figure.axes[0].lines)
    (2, 5)
    """
    courses = np.asarray(courses, dtype=float)
    if courses.ndim != 2 or courses.shape[1] != groups.shape[0]:
        raise InputError(
            f"{option('courses')} and {option('groups')} do not go together",
            expected=f"(T, V) with V = {groups.shape[0]} voxels, as the groups have",
            got=f"shape {courses.shape}",
        )
    graph = groups.tocsr()
    chosen = _strongest(courses, graph, 4) if voxels is None else list(voxels)
    time = np.arange(1, len(courses) + 1) * (1.0 if t_r is None else t_r)
    figure, axes = panels(len(chosen), 3.2, 2.8)
    for axis, v in zip(axes, chosen):
        near = graph.indices[graph.indptr[v] : graph.indptr[v + 1]]
        likeness = [_correlation(courses[:, v], courses[:, k]) for k in near]
        for k in near[np.argsort(likeness)[::-1][:n_neighbors]]:
            axis.plot(time, courses[:, k], color=SOFT, linewidth=1)
        axis.plot(time, courses[:, v], color="C0", linewidth=2)
        axis.set_title(f"voxel {v}")
        axis.set_xlabel("image" if t_r is None else "seconds")
    axes[0].set_ylabel("mean response")
    return figure


def accuracy_bars(
    accuracies: Mapping[str, ArrayLike],
    subjects: Sequence[str] | None = None,
    chance: float = 0.5,
    title: str = "",
) -> Figure:
    """Draw a group of bars per subject, a bar per method, a line at chance (Figures 2 and 3).

    Parameters
    ----------
    accuracies : mapping of str to array of shape (n_subjects,)
        Accuracies by method.
    subjects : sequence of str, optional
        Names under the groups; numbers by default.
    chance : float
        Where the line is.
    title : str
        Title of the figure.

    Examples
    --------
    >>> figure = accuracy_bars({"naive Bayes": [0.5, 0.52], "sharing": [0.8, 0.9]})
    >>> len(figure.axes[0].patches)
    4
    """
    values = {name: np.asarray(given, dtype=float) for name, given in accuracies.items()}
    sizes = {len(given) for given in values.values()}
    if len(sizes) != 1:
        raise InputError(
            f"Methods in {option('accuracies')} differ in their number of subjects",
            expected="one accuracy per subject from every method",
            got=f"lengths {sorted(sizes)}",
        )
    n = sizes.pop()
    figure, (axis,) = panels(1, max(4.0, 0.7 * n + 1.5), 3.2)
    width = 0.8 / len(values)
    for i, (name, given) in enumerate(values.items()):
        axis.bar(np.arange(n) + (i - (len(values) - 1) / 2) * width, given, width, label=name)
    axis.axhline(chance, color=SOFT, linewidth=1, linestyle="--")
    labels = [str(s + 1) for s in range(n)] if subjects is None else list(subjects)
    axis.set_xticks(np.arange(n), labels)
    axis.set(xlabel="subject", ylabel="accuracy", ylim=(0, 1), title=title)
    figure.legend(loc="outside lower center", ncols=len(values), fontsize="small")
    return figure


def shared_courses(courses: ArrayLike, shared: ArrayLike, voxels: Sequence[int]) -> Figure:
    """Draw class mean courses of some voxels before (thin) and after (thick) sharing.

    Parameters
    ----------
    courses, shared : arrays of shape (T, V)
        Mean time courses before and after sharing, as `voxel_maps` holds them, reshaped.
    voxels : sequence of int
        One panel each.

    Examples
    --------
    >>> import numpy as np
    >>> courses = np.random.default_rng(0).normal(size=(8, 4))
    >>> len(shared_courses(courses, courses / 2, voxels=[0, 3]).axes)
    2
    """
    before, after = np.asarray(courses, dtype=float), np.asarray(shared, dtype=float)
    if before.shape != after.shape:
        raise InputError(
            f"{option('courses')} and {option('shared')} do not go together",
            expected="one shape",
            got=f"{before.shape} and {after.shape}",
        )
    figure, axes = panels(len(voxels), 3.0, 2.6)
    for axis, v in zip(axes, voxels):
        axis.plot(before[:, v], color=SOFT, linewidth=1, label="sample mean")
        axis.plot(after[:, v], color="C0", linewidth=2, label="shared")
        axis.set_title(f"voxel {v}")
        axis.set_xlabel("image")
    axes[0].legend(fontsize="small")
    return figure


def _strongest(courses: np.ndarray, graph: Any, count: int) -> list[int]:
    """Voxels of highest power that have neighbours, no two of them neighbours of each other."""
    chosen: list[int] = []
    blocked = np.diff(graph.indptr) == 0
    for v in np.argsort((courses**2).sum(axis=0))[::-1]:
        if len(chosen) == count:
            break
        if not blocked[v]:
            chosen.append(int(v))
            blocked[graph.indices[graph.indptr[v] : graph.indptr[v + 1]]] = True
    return chosen


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a - a.mean(), b - b.mean()
    scale = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / scale) if scale > 0 else -1.0


def moved_means(
    before: Mapping[str, ArrayLike], after: Mapping[str, ArrayLike], n_shown: int = 4000
) -> Figure:
    """Draw the class means of all voxels after sharing against before, one panel per class.

    Parameters
    ----------
    before, after : mappings of class to array of shape (J,)
        Means, by class.
    n_shown : int
        Dots drawn, evenly spread over the voxels.

    Examples
    --------
    >>> import numpy as np
    >>> means = np.linspace(-1, 1, 9)
    >>> len(moved_means({"face": means}, {"face": means / 2}).axes)
    1
    """
    figure, axes = panels(len(before), 3.2, 3.2)
    for axis, (label, means) in zip(axes, before.items()):
        x, y = np.asarray(means, dtype=float), np.asarray(after[label], dtype=float)
        step = max(1, len(x) // n_shown)
        ends = [x.min(), x.max()]
        axis.plot(ends, ends, color=SOFT, linestyle="--", linewidth=1)
        axis.plot(x[::step], y[::step], ".", markersize=3, alpha=0.5, rasterized=True)
        axis.set(title=label, xlabel="mean of the scans")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("mean after sharing")
    return figure


def draw(model: Any, X: ArrayLike, y: ArrayLike, space: VoxelSpace | None = None) -> list[Picture]:
    """Draw what a report shows of a fitted model: what sharing did to means, or to time courses."""
    labels = [str(label) for label in model.classes_]
    if model.space is None or model.n_features_in_ == model.space.n_voxels:
        before, after = (
            {labels[c]: rows[c] for c in (0, -1)} for rows in (model.mean_, model.theta_)
        )
        return [Picture("Class means before and after sharing", moved_means(before, after), MOVED)]
    V = model.space.n_voxels
    before, after = model.mean_[-1].reshape(-1, V), model.theta_[-1].reshape(-1, V)
    groups = model.space.adjacency(model.connectivity, model.radius)
    strongest = _strongest(before, groups, 4)
    return [
        Picture(
            f"Mean courses of neighbouring voxels, {labels[-1]}",
            neighboring_courses(before, groups),
            "The four strongest voxels (blue), each with its most similar neighbours (grey): the "
            "more alike they are, the more sharing helps.",
        ),
        Picture(
            f"Mean courses before and after sharing, {labels[-1]}",
            shared_courses(before, after, strongest),
            "Mean over the scans (grey), and after neighbours had their say (blue).",
        ),
    ]
