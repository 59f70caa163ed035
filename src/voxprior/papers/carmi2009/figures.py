"""Figures 2.1, 3.1 and 3.3, and how the ratio of likelihoods settles (A.15)."""

from __future__ import annotations

import numpy as np

from voxprior import RandomFieldClassifier
from voxprior.models.fields.nodes import signed_correlation
from voxprior.papers import datasets
from voxprior.papers.carmi2009 import arms
from voxprior.papers.frame import Drawing, Part, Run, drawing
from voxprior.report.figures import panels
from voxprior.report.pictures.fields import ratio_trajectories, stem_plot, two_circles
from voxprior.simulate import chains

SECTIONS = 4


def of_fields(run: Run) -> Part:
    """Both fields of one simulated data set of the Princeton size."""
    n, k = (30, 12) if run.quick else (100, 41)
    data = chains(n_per_class=k + 20, n_nodes=n, coupling=0.5, random_state=0)
    new = np.concatenate([np.flatnonzero(data.y == c)[k:] for c in (0, 1)])
    train = np.setdiff1d(np.arange(len(data.y)), new)
    pair = {name: arms.fields(n)[name] for name in (arms.PRINTED[0], arms.CHOSEN[1])}
    for model in pair.values():
        model.fit(data.X[train], data.y[train])
    first = {name: model.coef_[0] for name, model in pair.items()}
    order = data.truth["order"][0]
    figures = {
        "figure2.1_two_circles": drawing(
            two_circles(first),
            "Published: fields of the ordinary (left) and the compressed filter (right), nodes on "
            "two circles. Differs: simulated chains; compressed with our chosen strength.",
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
    mask = data.space.mask
    volumes = [data.space.unmask(values) for values in (data.X[part].mean(axis=0), rho)]
    best = np.sort(np.argsort(-mask.sum(axis=(0, 1)))[:SECTIONS])
    figure, axes = panels(2 * SECTIONS, 1.8, 1.8, across=SECTIONS, margin=0.4)
    for row, (volume, colors) in enumerate(zip(volumes, ("gray", "coolwarm"))):
        limits = (None, None) if row == 0 else (-np.abs(rho).max(), np.abs(rho).max())
        for axis, z in zip(axes[row * SECTIONS :], best):
            shown = np.where(mask[:, :, z], volume[:, :, z], np.nan)
            inside = np.flatnonzero(mask.any(axis=(1, 2))), np.flatnonzero(mask.any(axis=(0, 2)))
            shown = shown[inside[0][0] : inside[0][-1] + 1, inside[1][0] : inside[1][-1] + 1]
            axis.imshow(shown.T, origin="lower", cmap=colors, vmin=limits[0], vmax=limits[1])
            axis.set_title(f"z = {z}", fontsize=8)
            axis.set_axis_off()
    caption = (
        "Published: sections of the Princeton scans (above) and their correlation maps (below). "
        "Differs: Haxby, ventral temporal voxels only, faces (red) against houses (blue)."
    )
    return Part(figures={"figure3.1_sections_and_correlations": drawing(figure, caption)})
