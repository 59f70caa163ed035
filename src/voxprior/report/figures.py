"""Figures of a Result: what the scores, probabilities and errors look like.

Each function takes plain numbers and returns a matplotlib Figure that belongs to no window;
`as_image` turns one into text that a page can hold. All figures of a report are made by `blank`
or `panels`.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from voxprior.report.scores import score_name

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from voxprior.decision.curves import Reliability

SIZE = (4.4, 3.5)
# On the page, pixels per inch; and the width in inches above which a figure gets a row of its own.
PIXELS, WIDE = 88, 6.0


def as_image(figure: Figure, dpi: int = 150) -> dict[str, Any]:
    """PNG of a figure as a data URI, and how much room it takes on a page.

    Its texts are drawn as they are: a label with dollar signs is not a formula.
    """
    from matplotlib import rc_context
    from matplotlib.text import Text

    buffer = io.BytesIO()
    for written in figure.findobj(Text):
        written.set_parse_math(False)
    with rc_context({"text.parse_math": False}):  # for texts made while drawing, as of ticks
        figure.savefig(buffer, format="png", dpi=dpi)
    text = base64.b64encode(buffer.getvalue()).decode("ascii")
    inches = figure.get_figwidth()
    return {
        "image": f"data:image/png;base64,{text}",
        "width": round(PIXELS * inches),
        "wide": inches > WIDE,
    }


def blank(width: float, height: float) -> Figure:
    """Make an empty figure of a size in inches that belongs to no window."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def panels(
    count: int, width: float, height: float, *, across: int | None = None, margin: float = 0.0
) -> tuple[Figure, list[Axes]]:
    """Make panels side by side, and below each other where there are more than fit across.

    Parameters
    ----------
    count : int
        How many.
    width, height : float
        Of each, in inches.
    across : int, optional
        Most of them in a row; without it they are all in one.
    margin : float
        Width to add to the figure, for instance for a colour bar.

    Examples
    --------
    >>> figure, axes = panels(5, 3.0, 2.0, across=4)
    >>> len(axes), figure.get_size_inches()
    (5, array([12.,  4.]))
    """
    columns = count if across is None else min(count, across)
    rows = -(-count // columns)
    figure = blank(width * columns + margin, height * rows)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for spare in grid[count:]:
        spare.set_axis_off()
    return figure, list(grid[:count])


def _axes(xlabel: str, ylabel: str, size: tuple[float, float] = SIZE) -> tuple[Figure, Axes]:
    figure = blank(*size)
    ax = figure.add_subplot()
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.spines[["top", "right"]].set_visible(False)
    return figure, ax


def fold_scores(scores: pd.DataFrame, name: str, chance: float | None) -> Figure:
    """One dot per fold, and the mean."""
    from matplotlib.ticker import MaxNLocator

    figure, ax = _axes("fold", score_name(name))
    values = scores[name].to_numpy(dtype=float)
    ax.plot(scores["fold"], values, "o", color="C0", clip_on=False)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.axhline(np.nanmean(values), color="C0", label="mean")
    if chance is not None:
        ax.axhline(chance, color="0.5", linestyle="--", label="chance")
    ax.legend(frameon=False)
    return figure


def roc(code: np.ndarray, probabilities: np.ndarray, classes: Sequence) -> Figure:
    """ROC of each class against the rest; of two classes only that of the second, with thresholds.

    ``code`` (n,) is the index of each scan's true class in ``classes``.
    """
    from sklearn.metrics import auc, roc_curve

    figure, ax = _axes("false positive rate", "true positive rate")
    ax.plot([0, 1], [0, 1], color="0.7", linestyle="--")
    for c in range(1, 2) if len(classes) == 2 else range(len(classes)):
        positive = code == c
        if positive.all() or not positive.any():
            continue
        false, true, thresholds = roc_curve(positive, probabilities[:, c])
        ax.plot(false, true, label=f"{classes[c]}: {auc(false, true):.2f}")
        if len(classes) == 2:
            _write_thresholds(ax, false, true, thresholds)
    ax.legend(title="area", frameon=False)
    return figure


def _write_thresholds(
    ax: Axes, false: np.ndarray, true: np.ndarray, thresholds: np.ndarray
) -> None:
    """Write thresholds along a curve, except where they would be printed on each other."""
    written = np.empty((0, 2))
    for x, y, threshold in zip(false, true, thresholds):
        near = np.abs(written - [x, y]) < [0.14, 0.07]
        if np.isfinite(threshold) and not near.all(axis=1).any():
            ax.annotate(f"{threshold:.2f}", (x, y), (4, -9), textcoords="offset points", fontsize=7)
            ax.plot(x, y, ".", color="C0")
            written = np.vstack([written, [x, y]])


def reliability(bins: Reliability) -> Figure:
    """Share of right answers against stated confidence, dots sized by scans."""
    figure, ax = _axes("stated confidence", "share right")
    ax.plot([0, 1], [0, 1], color="0.7", linestyle="--")
    filled = bins.n_scans > 0
    x, y = bins.confidence[filled], bins.frequency[filled]
    ax.plot(x, y, color="C0")
    ax.scatter(x, y, s=10 + 4 * np.sqrt(bins.n_scans[filled]), color="C0")
    if bins.band is not None:
        ax.vlines(x, bins.band.low[filled], bins.band.high[filled], color="C0", alpha=0.5)
    ax.set(xlim=(0, 1.03), ylim=(0, 1.03))
    return figure


def risk_coverage(coverage: np.ndarray, risk: np.ndarray) -> Figure:
    """Error rate among the scans decided, as the least certain are left undecided."""
    figure, ax = _axes("coverage (share decided)", "error rate among decided")
    ax.plot(coverage, risk, drawstyle="steps-pre", clip_on=False)
    ax.set(xlim=(0, 1), ylim=(0, max(0.05, 1.05 * float(np.max(risk)))))
    if not np.any(risk):
        ax.text(0.5, 0.5, "no errors", transform=ax.transAxes, ha="center", color="0.4")
    return figure


def predicted_against_true(truth: np.ndarray, predicted: np.ndarray) -> Figure:
    """Scatter of a regression with the diagonal."""
    figure, ax = _axes("true", "predicted")
    ends = [min(truth.min(), predicted.min()), max(truth.max(), predicted.max())]
    ax.plot(ends, ends, color="0.7", linestyle="--")
    ax.plot(truth, predicted, "o", alpha=0.7)
    return figure


def null_distribution(null: np.ndarray, observed: float, p: float, name: str) -> Figure:
    """Scores under relabelling, and the score that was observed."""
    figure, ax = _axes(score_name(name), "relabellings")
    ax.hist(null, bins=min(30, max(5, len(np.unique(null)))), color="0.75")
    ax.axvline(observed, color="C3", label=f"observed {observed:.3f}, p = {p:.3g}")
    ax.legend(frameon=False)
    return figure


def scores_by_size(table: pd.DataFrame, score: str, chance: float | None) -> Figure:
    """Score by training scans per class, one line per decoder."""
    figure, ax = _axes("training scans per class", score_name(score), size=(6.2, 4))
    for model, part in table.groupby("estimator", sort=False):
        line = part.groupby("n_per_class")[score].agg(["mean", "sem"])
        ax.errorbar(
            line.index, line["mean"], line["sem"].fillna(0), marker="o", label=model, capsize=2
        )
    if chance is not None:
        ax.axhline(chance, color="0.5", linestyle="--")
    ax.legend(frameon=False, fontsize="small")
    return figure
