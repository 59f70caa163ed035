"""One picture of several experiments: maps of each, and what decoders learn with more scans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from voxprior.report.colors import colors_of
from voxprior.report.figures import SOFT, blank
from voxprior.report.maps import common_slices
from voxprior.report.slices import axial, draw_slice, silhouette, slice_name
from voxprior.space import VoxelSpace
from voxprior.validation.scores import score_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Lines that matter are coloured, lines to compare them with are grey; inches of a map and a curve.
STRONG = ("#c0392b", "#d68910", "#7d3c98", "#16a085", "#5d6d7e", "#a04000")
DEFAULT_COLOR, DASHES = "#1f618d", ("--", ":", "-.")
MAP_WIDTH, CURVE_WIDTH, HEIGHT = 2.8, 3.6, 2.2
# Of each map: what is true may lie in places far from each other.
N_SLICES = 2


class Curve(NamedTuple):
    """Scores of a decoder by training scans per class, and half the width of their band."""

    sizes: Sequence[int]
    mean: Sequence[float]
    half: Sequence[float]


class Strip(NamedTuple):
    """A row of the picture: an experiment.

    ``maps`` are (V,) or, for connections, (n, n), by what stands above them; ``curves`` are those
    of families, of the automatic default, and of stock decoders, by name.
    """

    title: str
    claim: str
    score: str
    chance: float
    space: VoxelSpace
    maps: Mapping[str, np.ndarray]
    families: Mapping[str, Curve]
    default: Mapping[str, Curve]
    stock: Mapping[str, Curve]


def draw_strips(strips: Sequence[Strip]) -> Figure:
    """Draw experiments below each other: maps on the left, learning curves on the right."""
    columns = max(len(strip.maps) for strip in strips)
    figure = blank(columns * MAP_WIDTH + CURVE_WIDTH, HEIGHT * len(strips))
    rows = figure.subfigures(len(strips), 1, squeeze=False)[:, 0]
    for row, strip in zip(rows, strips):
        row.suptitle(f"{strip.title}: {strip.claim}", fontsize="medium", ha="left", x=0.01)
        each = 1 if any(values.ndim == 2 for values in strip.maps.values()) else N_SLICES
        ratios = [MAP_WIDTH / each] * (columns * each) + [CURVE_WIDTH]
        axes = row.subplots(1, len(ratios), width_ratios=ratios)
        _draw_maps(axes[:-1], strip, each)
        _draw_curves(axes[-1], strip)
    return figure


def _draw_maps(axes: Sequence[Axes], strip: Strip, each: int) -> None:
    for ax in axes[len(strip.maps) * each :]:
        ax.set_axis_off()
    volumes = [values for values in strip.maps.values() if values.ndim == 1]
    chosen = common_slices(strip.space, volumes, each) if volumes else []
    for number, (name, values) in enumerate(strip.maps.items()):
        colors, own = colors_of(values), axes[number * each : (number + 1) * each]
        if values.ndim == 2:
            own[0].imshow(values, cmap=colors.cmap, norm=colors.norm, interpolation="none")
            own[0].set(xticks=[], yticks=[])
            own[0].set_title(name, fontsize="small")
            continue
        volume = axial(strip.space, values, fill=np.nan)
        for ax in own[len(chosen) :]:
            ax.set_axis_off()
        for ax, z in zip(own, chosen):
            draw_slice(ax, silhouette(strip.space), volume, z, colors)
            ax.set_title(f"{name}\n{slice_name(volume, z)}", fontsize="small")


def _draw_curves(ax: Axes, strip: Strip) -> None:
    looks: list[tuple[Mapping[str, Curve], list[dict[str, Any]]]] = [
        (strip.stock, [{"color": SOFT, "linestyle": dash} for dash in DASHES]),
        (strip.default, [{"color": DEFAULT_COLOR}]),
        (strip.families, [{"color": color, "linewidth": 2.0} for color in STRONG]),
    ]
    most = np.inf if strip.score == "log_loss" else 1.0
    for curves, styles in looks:
        for (name, curve), style in zip(curves.items(), styles):
            mean, half = np.array(curve.mean), np.array(curve.half)
            ax.plot(curve.sizes, mean, marker="o", markersize=3, label=name, **style)
            low, high = np.maximum(mean - half, 0.0), np.minimum(mean + half, most)
            band = {"color": style["color"], "alpha": 0.13, "linewidth": 0}
            ax.fill_between(curve.sizes, low, high, **band)
    ax.axhline(strip.chance, color=SOFT, linewidth=0.6)
    ax.set_xlabel("training scans per class", fontsize="small")
    ax.set_ylabel(score_name(strip.score), fontsize="small")
    ax.set_xticks(next(iter(strip.stock.values())).sizes)
    ax.tick_params(labelsize="small")
    ax.spines[["top", "right"]].set_visible(False)
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(
        handles[::-1],
        labels[::-1],
        frameon=False,
        fontsize="x-small",
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
    )
