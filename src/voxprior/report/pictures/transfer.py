"""Pictures of a prior from other subjects: what came from whom, and what helped the others.

| symbol | variable | shape |
|---|---|---|
| weight of each level | `levels` | by name |
| L_l(o), log-loss of level l on other subject o | `losses` | (m,) by level |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from voxprior.report.figures import INK, PAPER, SOFT, blank
from voxprior.report.pictures import WEIGHTS, Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from voxprior.space import VoxelSpace

__all__ = ["LEGENDS", "draw", "draw_left_out", "draw_shares", "from_others"]

LEGENDS = {"weight": WEIGHTS}
# Levels whose evidence on a scan is the subject's own, then those that bring the others' in.
OWN = {"base": "own scans alone", "calibration": "own scans, as sure as in others"}
OTHERS = {
    "geometry": "how classes relate in others",
    "readout": "how scores are read in others",
    "maps": "where classes differ in others",
}
COLORS = ("#1f5f99", "#7fb2dd", "#f4b183", "#e07b39", "#a6480f")


def draw(model: Any, X: np.ndarray, y: np.ndarray, space: VoxelSpace | None) -> list[Picture]:
    """Pictures for the report; `X`, `y` and `space` are not needed."""
    size, m = model.lesson_size_, len(model.prior.subjects)
    others = f"{m} other {'subject says' if m == 1 else 'subjects say'}"
    shares = Picture(
        "Own scans and others",
        draw_shares(model.levels_),
        f"Blue: what the subject's own scans say of a scan. Orange: what {others}, "
        f"{100 * from_others(model.levels_):.0f} %. The reason stands under the answer.",
    )
    losses = model.prior.left_out[size]
    if m < 2:
        return [shares]
    text = (
        f"Each dot is one of the others, taken for new with {size} scans per class and decoded "
        "with what the rest of them teach; lines are means. A level counts only if its mean is "
        "below that of calibration, and calibration only if below the base; those are dark."
    )
    chosen = model.prior.levels[size] or ["base"]
    return [shares, Picture("What helped the others", draw_left_out(losses, chosen), text)]


def from_others(levels: Mapping[str, float]) -> float:
    """Share of the decision that others have, beyond how sure to be.

    >>> from_others({"base": 0.0, "calibration": 0.4, "geometry": 0.35, "readout": 0.25})
    0.6
    """
    return sum(weight for level, weight in levels.items() if level in OTHERS)


def draw_shares(levels: Mapping[str, float]) -> Figure:
    """One bar: weights of the levels, own scans first."""
    figure = blank(6.4, 2.1)
    ax, left = figure.add_subplot(), 0.0
    for (level, words), color in zip({**OWN, **OTHERS}.items(), COLORS):
        weight = levels.get(level, 0.0)
        if weight <= 0:
            continue
        ax.barh(0, weight, left=left, color=color, edgecolor=PAPER, label=words)
        if weight >= 0.06:
            ink = "#ffffff" if color in (COLORS[0], COLORS[-1]) else "#000001"
            ax.text(left + weight / 2, 0, f"{weight:.2f}", ha="center", va="center", color=ink)
        left += weight
    ax.set(xlim=(0, 1), yticks=[], xlabel="weight")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize="small")
    return figure


def draw_left_out(losses: Mapping[str, np.ndarray], chosen: Collection[str]) -> Figure:
    """Log-loss of every level on every other subject, with the mean over subjects."""
    figure = blank(4.6, 3.5)
    ax = figure.add_subplot()
    for place, (level, values) in enumerate(losses.items()):
        color = INK if level in chosen else SOFT
        across = place + np.linspace(-0.12, 0.12, len(values))
        ax.plot(across, values, "o", color=color, markersize=4, alpha=1.0 if color == INK else 0.5)
        ax.plot([place - 0.25, place + 0.25], [np.mean(values)] * 2, color=color)
    ax.set_xticks(range(len(losses)), list(losses))
    ax.set_ylabel("log loss of the others")
    ax.spines[["top", "right"]].set_visible(False)
    return figure
