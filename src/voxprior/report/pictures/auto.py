"""Pictures of the automatic models: what left-out scans made of views and shrinkages.

| symbol | variable | shape |
|---|---|---|
| posterior mass of each discriminant | `weights` | (views, T) |
| τ, ∞ for no covariance | `shrinkages` | (T,) |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from voxprior.report.figures import blank
from voxprior.report.pictures import WEIGHTS, Legend, Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw", "draw_member_weights"]

MEMBERS = (
    "Each square is a linear discriminant of one view of the scans and one shrinkage of the "
    "covariance within classes; the darker, the better it predicted training scans that were left "
    "out. A row of equal squares: the shrinkage hardly matters here."
)
LEGENDS = {
    "weights": WEIGHTS,
    "pattern": Legend(
        "Pattern",
        "How each voxel rises with the decoder's output over the training scans (Haufe et al. "
        "2014): where the signal is; {sides}.",
        "per nat",
    ),
}


def draw(model: Any, X: Any, y: Any, space: Any) -> list[Picture]:
    """Pictures of a fitted `AutoClassifier`."""
    drawn = draw_member_weights(model.member_weights_, model.views_, model.shrinkages_)
    return [Picture("Views and shrinkages", drawn, MEMBERS)]


def draw_member_weights(
    weights: np.ndarray, views: Sequence[str], shrinkages: Sequence[float]
) -> Figure:
    """Posterior mass by view and shrinkage, as shaded squares with their percent."""
    figure = blank(6.4, 0.8 + 0.55 * len(views))
    axes = figure.add_subplot()
    axes.imshow(
        weights, cmap="Blues", vmin=0, vmax=max(float(np.max(weights)), 1e-9), aspect="auto"
    )
    for (row, column), share in np.ndenumerate(weights):
        dark = share > 0.6 * np.max(weights)
        color = "white" if dark else "black"
        axes.text(column, row, f"{100 * share:.0f} %", ha="center", va="center", color=color)
    axes.set_yticks(range(len(views)), views)
    names = ["none" if np.isinf(tau) else f"{tau:g}" for tau in shrinkages]
    axes.set_xticks(range(len(names)), names)
    axes.set_xlabel("shrinkage of the covariance (none: no covariance)")
    axes.spines[:].set_visible(False)
    return figure
