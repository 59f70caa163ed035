"""Pictures of Gaussian processes and relevance vectors: evidence, weights, relevance.

Every function takes plain arrays and returns a matplotlib Figure.

| symbol | variable | shape |
|---|---|---|
| log p(y given θ) | `surface` | (a,) or (a, b) |
| E[w], sd[w] | `weight`, `deviation` | (V,) |
| evidence after each move | `paths` | one (steps,) per machine |
| α, precision of a relevant weight | `alpha` | (R,) |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from voxprior.errors import InputError, option
from voxprior.report.figures import SOFT, blank
from voxprior.report.pictures import WEIGHTS, Legend, Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from voxprior.space import VoxelSpace

__all__ = [
    "draw",
    "draw_evidence_path",
    "draw_evidence_surface",
    "draw_relevance",
    "weight_ratios",
    "weight_summary",
]

# Evidence more than this many nats below the best is drawn as one colour: it is out of the
# question.
DEPTH = 20.0

EVIDENCE = (
    "How probable the training labels are under each scale of the kernel; the dashed line is the "
    "scale that was used. A flat curve: the scans do not determine the scale, which matters little."
)
DOUBT = (
    "Left: the surest weights with two standard deviations. Right: all voxels. Where bars reach "
    "far over zero, no single voxel is sure, though all together decode."
)
DOUBTS = "All voxels by class: how many standard deviations their weights are from zero."
MOVES = "One scan or voxel is added, changed or dropped per move, until the evidence stops rising."
SHARED = "The precision that all {what}s share is changed until the evidence stops rising."
RELEVANT = (
    "The decoder is built on these {what}s only. The higher a line, the more the {what} may weigh."
)
ALIKE = "All {what}s share one precision: none may weigh more than another."
LEGENDS = {
    "weight": WEIGHTS,
    "weight_sd": Legend(
        "Doubt of the weights",
        "Posterior standard deviation of each weight: low where the scans had most to say.",
        "standard deviation",
    ),
    "pattern": Legend(
        "Pattern",
        "How each voxel correlates with the decoder's output (Haufe et al. 2014): where the signal "
        "is; {sides}.",
        "covariance",
    ),
    "gradient": Legend(
        "Gradient", "How the output changes with each voxel at the mean scan; {sides}.", "slope"
    ),
}


def draw_evidence_surface(
    surface: ArrayLike,
    first: ArrayLike,
    second: ArrayLike | None = None,
    *,
    best: Sequence[float] | None = None,
    names: Sequence[str] = ("log scale", "log noise"),
) -> Figure:
    """Draw the log evidence over one hyper-parameter (a curve) or two (a map), and its maximiser.

    Parameters
    ----------
    surface : array of shape (a,) or (a, b)
        Log evidence, as `evidence_surface` of the estimators gives it.
    first, second : arrays of shape (a,) and (b,)
        Values of the hyper-parameters.
    best : sequence of float, optional
        Where the fit ended.
    names : sequence of str
        Axis labels.

    Examples
    --------
    >>> import numpy as np
    >>> grid = np.linspace(-1, 1, 5)
    >>> figure = draw_evidence_surface(-(grid[:, None] ** 2) - grid**2, grid, grid, best=(0, 0))
    >>> figure.axes[0].get_xlabel()
    'log scale'
    """
    surface, first = np.asarray(surface, dtype=float), np.asarray(first, dtype=float)
    expected = (len(first),) if second is None else (len(first), len(np.asarray(second)))
    if surface.shape != expected:
        raise InputError(
            f"{option('surface')} does not fit its axes",
            expected=f"shape {expected}",
            got=str(surface.shape),
        )
    figure = blank(4.4, 3.4)
    axis = figure.subplots()
    axis.set_xlabel(names[0])
    if second is None:
        axis.plot(first, surface, color="C0")
        axis.set_ylabel("log evidence, nats")
        if best is not None:
            axis.axvline(best[0], color=SOFT, linestyle="--", linewidth=1)
        return figure
    top = np.nanmax(surface)
    levels = top - np.linspace(DEPTH, 0, 21)
    shown = np.clip(surface, top - DEPTH, top).T
    filled = axis.contourf(first, np.asarray(second), shown, levels=levels, cmap="viridis")
    figure.colorbar(filled, label="log evidence, nats")
    axis.set_ylabel(names[1])
    if best is not None:
        axis.plot(best[0], best[1], marker="+", color="white", markersize=12)
    return figure


def weight_summary(weight: ArrayLike, deviation: ArrayLike, n_shown: int = 40) -> Figure:
    """Draw how sure the weights are: the largest with two deviations, and all as a distribution.

    Parameters
    ----------
    weight, deviation : arrays of shape (V,)
        Posterior mean and standard deviation of every voxel's weight.
    n_shown : int
        Weights drawn one by one, the surest first.

    Examples
    --------
    >>> import numpy as np
    >>> figure = weight_summary(np.array([0.5, -2.0, 0.1]), np.ones(3))
    >>> [axis.get_title() for axis in figure.axes]
    ['surest weights', 'all 3 voxels']
    """
    weight, deviation = np.asarray(weight, dtype=float), np.asarray(deviation, dtype=float)
    if weight.shape != deviation.shape or weight.ndim != 1:
        raise InputError(
            f"{option('weight')} and {option('deviation')} do not go together",
            expected="one value per voxel in each",
            got=f"shapes {weight.shape} and {deviation.shape}",
        )
    ratio = weight / np.where(deviation > 0, deviation, np.inf)
    order = np.argsort(-np.abs(ratio), kind="stable")[:n_shown]
    figure = blank(7.2, 3.0)
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    where = np.arange(len(order))
    bars = {"fmt": "o", "markersize": 3, "color": "C0"}
    left.errorbar(where, weight[order], yerr=2 * deviation[order], **bars)
    left.axhline(0, color=SOFT, linewidth=0.8)
    left.set(title="surest weights", xlabel="voxel, by |mean| / sd", ylabel="weight, ± 2 sd")
    right.hist(ratio, bins=min(60, max(5, len(ratio) // 20)), color="C0")
    right.set(title=f"all {len(ratio):,} voxels", xlabel="mean / sd", ylabel="voxels")
    return figure


def draw_evidence_path(paths: Sequence[ArrayLike], labels: Sequence[Any] | None = None) -> Figure:
    """Draw the log evidence after every move or update, one line per machine.

    Examples
    --------
    >>> figure = draw_evidence_path([[-9.996, -4.860, -4.809]], labels=["age"])
    >>> len(figure.axes[0].lines)
    1
    """
    figure = blank(4.4, 3.0)
    axis = figure.subplots()
    for k, path in enumerate(paths):
        values = np.asarray(path, dtype=float)
        name = None if labels is None else str(labels[k])
        axis.plot(np.arange(1, len(values) + 1), values, marker=".", label=name)
    axis.set(xlabel="move", ylabel="log evidence, nats")
    if labels is not None and len(labels) > 1:
        axis.legend(frameon=False, fontsize="small")
    return figure


def draw_relevance(
    alpha: ArrayLike, indices: ArrayLike, total: int, what: str = "sample"
) -> Figure:
    """Draw which samples or voxels are relevant, by the standard deviation 1/√α of their weights.

    Parameters
    ----------
    alpha : array of shape (R,) or (C, R)
        Precisions; infinite where a class does not use a column.
    indices : array of shape (R,)
        Which samples or voxels.
    total : int
        How many there were.
    what : str
        "sample" or "voxel".

    Examples
    --------
    >>> figure = draw_relevance([1.0, 4.0], [3, 17], 40)
    >>> figure.axes[0].get_title()
    '2 of 40 samples relevant'
    """
    alpha, indices = np.atleast_2d(np.asarray(alpha, dtype=float)), np.asarray(indices)
    if alpha.shape[1] != len(indices):
        raise InputError(
            f"{option('alpha')} and {option('indices')} do not go together",
            expected=f"{len(indices)} columns, one per index",
            got=str(alpha.shape[1]),
        )
    figure = blank(4.4, 3.0)
    axis = figure.subplots()
    for k, row in enumerate(alpha):
        used = np.isfinite(row)
        if used.any():
            axis.vlines(indices[used], 0, row[used] ** -0.5, color=f"C{k % 10}", linewidth=1.5)
    axis.set(
        title=f"{len(indices):,} of {total:,} {what}s relevant",
        xlabel=f"number of the {what}",
        ylabel="scale of its weight, 1/√α",
        xlim=(-0.5, total - 0.5),
    )
    axis.set_ylim(bottom=0)
    return figure


def weight_ratios(ratios: Mapping[str, ArrayLike]) -> Figure:
    """Draw how many deviations the weights are from zero, one line per class.

    Examples
    --------
    >>> import numpy as np
    >>> len(weight_ratios({"cat": np.ones(9), "dog": np.zeros(9)}).axes[0].patches)
    2
    """
    figure = blank(4.4, 3.4)
    axis = figure.subplots()
    bins = np.histogram_bin_edges(np.concatenate([np.asarray(r) for r in ratios.values()]), 40)
    for name, ratio in ratios.items():
        axis.hist(np.asarray(ratio), bins=list(bins), histtype="step", label=name)
    axis.set(xlabel="mean / sd of the weight", ylabel="voxels")
    axis.legend(frameon=False, fontsize="small")
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def draw(model: Any, X: ArrayLike, y: ArrayLike, space: VoxelSpace | None = None) -> list[Picture]:
    """Draw what a report shows of a fitted model: its evidence, or relevance."""
    if hasattr(model, "relevance_"):
        return _draw_relevance(model)
    theta = np.atleast_2d(model.theta_)[0]
    steps = theta[0] + np.linspace(-3.0, 3.0, 25)
    curve = draw_evidence_surface(
        model.evidence_surface(steps), steps, best=theta, names=("log of the kernel's scale", "")
    )
    return [Picture("Evidence for the scale of the kernel", curve, EVIDENCE)]


def draw_maps(model: Any, maps: Mapping[str, np.ndarray]) -> list[Picture]:
    """Draw how sure a process is of its weights; voxels it was not given have no uncertainty."""
    if hasattr(model, "relevance_"):
        return []
    if "weight_sd" in maps and (maps["weight_sd"] > 0).any():
        given = maps["weight_sd"] > 0
        figure = weight_summary(maps["weight"][given], maps["weight_sd"][given])
        return [Picture("Weights and their doubt", figure, DOUBT)]
    ratios = {}
    for label in map(str, getattr(model, "classes_", ())):
        if np.any(maps.get(f"weight_sd:{label}", 0) > 0):
            sd = maps[f"weight_sd:{label}"]
            ratios[label] = maps[f"weight:{label}"][sd > 0] / sd[sd > 0]
    return [Picture("Weights and their doubt", weight_ratios(ratios), DOUBTS)] if ratios else []


def _draw_relevance(model: Any) -> list[Picture]:
    several = isinstance(model.evidence_path_, list)
    paths = model.evidence_path_ if several else [model.evidence_path_]
    what = "voxel" if model.basis == "voxels" else "scan"
    total = model.n_features_in_ if what == "voxel" else len(model.design_)
    labels = model.classes_ if several else None
    relevant = draw_relevance(model.alpha_, model.relevance_, total, what)
    tied = all(len(np.unique(row)) == 1 for row in np.atleast_2d(model.alpha_))
    moves, which = (SHARED, ALIKE) if tied and len(model.relevance_) == total else (MOVES, RELEVANT)
    return [
        Picture(
            "Evidence after every move", draw_evidence_path(paths, labels), moves.format(what=what)
        ),
        Picture(f"Relevant {what}s", relevant, which.format(what=what)),
    ]
