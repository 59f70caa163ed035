"""Plots of a Result: what the scores, probabilities and errors look like.

Each function takes plain numbers and returns a matplotlib Figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from voxprior.report.figures import SOFT, blank
from voxprior.validation.scores import score_name

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from voxprior.decision.curves import Reliability
    from voxprior.validation import Interval

SIZE = (4.4, 3.5)
# Of scans: the share of right answers among fewer is 0, a half or 1.
FEWEST_IN_BIN = 3


def _axes(xlabel: str, ylabel: str, size: tuple[float, float] = SIZE) -> tuple[Figure, Axes]:
    figure = blank(*size)
    ax = figure.add_subplot()
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.spines[["top", "right"]].set_visible(False)
    return figure, ax


def standing(
    rows: Sequence[tuple[str, Interval]],
    name: str,
    chance: float | None = None,
    null: np.ndarray | None = None,
) -> Figure:
    """Draw the score of several decoders with their intervals, the first one at the top.

    Chance is a line, and what exchanged labels give, the middle 95 %, a shade.
    """
    figure, ax = _axes(score_name(name), "", size=(6.0, 1.1 + 0.42 * len(rows)))
    if null is not None:
        low, high = np.quantile(null, [0.025, 0.975])
        ax.axvspan(low, high, color="0.5", alpha=0.2, linewidth=0, label="exchanged labels (95 %)")
    if chance is not None:
        ax.axvline(chance, color=SOFT, linestyle="--", label="chance")
    for place, (_, one) in enumerate(rows):
        color = "C0" if place == 0 else SOFT
        ax.plot(one.estimate, -place, "o", color=color)
        if np.isfinite(one.low):
            ax.plot([one.low, one.high], [-place, -place], color=color)
    ax.set_yticks([-place for place in range(len(rows))], [label for label, _ in rows])
    ax.set_ylim(0.5 - len(rows), 0.5)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return figure


def participants(
    columns: Mapping[str, Sequence[float]],
    limits: Mapping[str, tuple[float, float] | None],
    name: str,
    chance: float | None,
) -> Figure:
    """Draw a dot per participant and column, lines between the scores of one, and the means."""
    figure, ax = _axes("", name)
    values = np.array(list(columns.values()), dtype=float)
    ax.plot(range(len(values)), values, color=SOFT, alpha=0.5, linewidth=0.8)
    for place, (column, scores) in enumerate(zip(columns, values)):
        known = scores[np.isfinite(scores)]
        ax.plot(np.full(len(known), place), known, "o", color="C0", alpha=0.7, clip_on=False)
        if not len(known):
            continue
        ax.plot([place + 0.12, place + 0.28], 2 * [known.mean()], color="C1", linewidth=2)
        around = limits.get(column)
        if around is not None:
            ax.plot(2 * [place + 0.2], around, color="C1")
    if chance is not None:
        ax.axhline(chance, color=SOFT, linestyle="--", label="chance")
        ax.legend(frameon=False, fontsize="small")
    ax.set_xticks(range(len(values)), list(columns))
    ax.set_xlim(-0.5, len(values) - 0.5)
    return figure


def fold_scores(scores: pd.DataFrame, name: str, chance: float | None) -> Figure:
    """One dot per fold, and the mean."""
    from matplotlib.ticker import MaxNLocator

    figure, ax = _axes("fold", score_name(name))
    values = scores[name].to_numpy(dtype=float)
    ax.plot(scores["fold"], values, "o", color="C0", clip_on=False)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.axhline(np.nanmean(values), color="C0", label="mean")
    if chance is not None:
        ax.axhline(chance, color=SOFT, linestyle="--", label="chance")
    ax.legend(frameon=False)
    return figure


def roc(
    code: np.ndarray, probabilities: np.ndarray, classes: Sequence, positive: int | None = None
) -> Figure:
    """ROC of each class against the rest, or of the ``positive`` one alone, with thresholds.

    ``code`` (n,) is the index of each scan's true class in ``classes``.
    """
    from sklearn.metrics import auc, roc_curve

    figure, ax = _axes("false positive rate", "true positive rate")
    ax.plot([0, 1], [0, 1], color=SOFT, linestyle="--")
    for c in range(len(classes)) if positive is None else [positive]:
        is_c = code == c
        if is_c.all() or not is_c.any():
            continue
        false, true, thresholds = roc_curve(is_c, probabilities[:, c])
        ax.plot(false, true, label=f"{classes[c]}: {auc(false, true):.2f}")
        if positive is not None:
            _write_thresholds(ax, false, true, thresholds)
    many = len(classes) > 5
    ax.legend(title="area", frameon=False, fontsize="x-small" if many else "medium")
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
    """Share of right answers against stated confidence, dots sized by scans.

    Bins of fewer scans than `FEWEST_IN_BIN` are left out: their shares are too noisy.
    """
    figure, ax = _axes("stated confidence", "share right")
    ax.plot([0, 1], [0, 1], color=SOFT, linestyle="--")
    filled = bins.n_scans >= FEWEST_IN_BIN
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
        ax.text(0.5, 0.5, "no errors", transform=ax.transAxes, ha="center", color=SOFT)
    return figure


def predicted_against_true(truth: np.ndarray, predicted: np.ndarray) -> Figure:
    """Scatter of a regression with the diagonal."""
    figure, ax = _axes("true", "predicted")
    ends = [min(truth.min(), predicted.min()), max(truth.max(), predicted.max())]
    ax.plot(ends, ends, color=SOFT, linestyle="--")
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
        ax.axhline(chance, color=SOFT, linestyle="--")
    ax.legend(frameon=False, fontsize="small")
    return figure
