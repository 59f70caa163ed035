"""Figures 2.1, 3.1 and 3.3, and how the ratio of likelihoods settles (A.15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from voxprior import RandomFieldClassifier, VoxelSpace
from voxprior.models.fields.nodes import signed_correlation
from voxprior.papers import datasets
from voxprior.papers.carmi2009 import arms
from voxprior.papers.frame import Drawing, Part, Run, drawing
from voxprior.report.figures import panels
from voxprior.report.pictures.fields import ratio_trajectories, stem_plot, two_circles
from voxprior.simulate import chains

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SECTIONS = 4


def of_fields(run: Run) -> Part:
    """Both fields of one simulated data set of the Princeton size."""
    n, k = (30, 12) if run.quick else (100, 41)
    data = chains(n_per_class=k + 20, n_nodes=n, coupling=0.5, random_state=0)
    new = np.concatenate([np.flatnonzero(data.y == c)[k:] for c in (0, 1)])
    train = np.setdiff1d(np.arange(len(data.y)), new)
    pair = arms.some(n, *arms.CHOSEN)
    for model in pair.values():
        model.fit(data.X[train], data.y[train])
    first = {name: model.coef_[0] for name, model in pair.items()}
    order = data.truth["order"][0]
    relative = {name: coef / np.abs(coef).max() for name, coef in first.items()}
    figures = {
        "figure2.1_two_circles": drawing(
            two_circles(relative, tolerance=0.1, n_edges=n * n),
            "Published: fields of the ordinary (left) and the compressed filter (right), nodes on "
            "two circles. Differs: simulated chains; strengths chosen in training; connections "
            "above a tenth of the field's strongest.",
        )
    }
    for number, node in enumerate((order[n // 3], order[2 * n // 3]), start=1):
        figures[f"figure3.3_connections_of_node_{number}"] = drawing(
            stem_plot(first, int(node)),
            "Published: coefficients of two nodes, ordinary in red, compressed in black. Differs: "
            "beside each other; two of the coefficients are true here.",
        )
    figures |= _ratios(pair[arms.CHOSEN[1]], data, new)
    return Part(figures=figures)


def _ratios(model: RandomFieldClassifier, data, new) -> dict[str, Drawing]:
    path = model.trajectory(data.X[new][data.y[new] == 0], 0, 1)
    settle = drawing(
        ratio_trajectories(path.running_mean, path.limit),
        "Equation (A.15), not drawn in the report: the mean log-likelihood ratio of new scans as "
        "nodes are added.",
    )
    figure, (axis,) = panels(1, 4.5, 3.0, across=1, margin=1.0)
    ratio = -model.decision_function(data.X[new])
    for label in (0, 1):
        axis.hist(ratio[data.y[new] == label], bins=15, alpha=0.6, label=f"class {label}")
    axis.axvline(0.0, color="black", linewidth=0.8)
    axis.set_xlabel("log-likelihood ratio of new scans, less c")
    axis.set_ylabel("scans")
    axis.legend()
    caption = "Equation (1.10), not drawn in the report: the ratio that decides, by true class."
    return {"ratio_trajectories": settle, "ratio_histograms": drawing(figure, caption)}


def of_scans(run: Run) -> Part:
    """Figure 3.1: sections of a scan, and the correlation of every voxel with the class."""
    data = datasets.haxby_vt(volumes=False)
    part = np.isin(data.y, ("face", "house"))
    X = datasets.standardize_by(data.X, data.run)[part]
    rho = signed_correlation(X, (data.y[part] == "face").astype(np.int64))
    rows = {"mean scan": data.X[part].mean(axis=0), "correlation": rho}
    figure = _sections(data.space, rows)
    caption = (
        "Published: sections of the Princeton scans (above) and their correlation maps (below). "
        "Differs: Haxby, ventral temporal voxels only, faces (red) against houses (blue)."
    )
    return Part(figures={"figure3.1_sections_and_correlations": drawing(figure, caption)})


def _sections(space: VoxelSpace, rows: dict[str, np.ndarray]) -> Figure:
    """Maps below each other in the sections that hold most voxels; the last one has signs."""
    mask = space.mask
    x, y = (np.flatnonzero(mask.any(axis=other)) for other in ((1, 2), (0, 2)))
    best = np.sort(np.argsort(-mask.sum(axis=(0, 1)))[:SECTIONS])
    figure, axes = panels(len(rows) * SECTIONS, 2.0, 1.25, across=SECTIONS, margin=1.0)
    for row, (name, values) in enumerate(rows.items()):
        signed = row == len(rows) - 1
        bound = np.abs(values).max()
        limits = (-bound, bound) if signed else (values.min(), values.max())
        across = axes[row * SECTIONS : (row + 1) * SECTIONS]
        volume = np.where(mask, space.unmask(values), np.nan)
        for axis, z in zip(across, best):
            axis.set_facecolor("0.93")
            axis.set(xticks=[], yticks=[])
            shown = volume[x[0] : x[-1] + 1, y[0] : y[-1] + 1, z].T
            colors = "RdBu_r" if signed else "gray"
            drawn = axis.imshow(shown, origin="lower", cmap=colors, vmin=limits[0], vmax=limits[1])
            if row == 0:
                axis.set_title(f"z = {z}", fontsize=9)
        across[0].set_ylabel(name, fontsize=9)
        figure.colorbar(drawn, ax=across, fraction=0.02)
    return figure
