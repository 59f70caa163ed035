"""The page of the race: what it means in all, a table and a picture per data set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from benchmarks.real.decoders import FAMILIES, STOCK
from benchmarks.real.notes import WHY
from benchmarks.real.race import OURS
from voxprior.papers.tables import machine

# Behind by more than this, beyond one standard error, the page must say why.
ACCURACY, LOG_LOSS = 0.02, 0.05
COLORS = {
    "auto": "#c0392b",
    "logistic": "#2c3e50",
    "LDA": "#2980b9",
    "SVM (Platt)": "#8e44ad",
    "centroid": "#7f8c8d",
    "GPC (sklearn)": "#16a085",
    "gp": "#27ae60",
    "sharing": "#e67e22",
}
INTRODUCTION = Path(__file__).with_name("introduction.md")


def write_page(scores: pd.DataFrame, out: Path) -> None:
    """Write README.md and one picture per data set into a folder."""
    order = list(dict.fromkeys(scores["data"]))
    introduction = INTRODUCTION.read_text().strip().format(machine=machine())
    parts = [introduction, _summary(scores), _behind(scores)]
    for data in order:
        part = scores[scores["data"] == data]
        _picture(part).savefig(out / f"{data}.png", dpi=70)
        parts += [f"## {data}", _table(part), f"![{data}]({data}.png)"]
    (out / "README.md").write_text("\n\n".join(parts) + "\n")


# ---------------------------------------------------------------- tables


def _mean(part: pd.DataFrame) -> pd.DataFrame:
    return part.groupby(["task", "decoder"], sort=False)[["accuracy", "log_loss"]].mean()


def _summary(scores: pd.DataFrame) -> str:
    """Means over tasks, by half, signal and null."""
    means = _mean(scores).join(scores.drop_duplicates("task").set_index("task")[["half", "null"]])
    means = means.reset_index()
    n_tasks = scores.loc[~scores["null"], "task"].nunique()
    lines = [
        "| decoder | tasks with signal | accuracy | log-loss | half A | half B | nothing there |"
    ]
    lines += ["|---|---|---|---|---|---|---|"]
    for name in _entrants(scores):
        own = means[means["decoder"] == name]
        signal, null = own[~own["null"]], own[own["null"]]
        halves = [signal.loc[signal["half"] == h, "log_loss"].mean() for h in "AB"]
        numbers = [
            signal["accuracy"].mean(),
            signal["log_loss"].mean(),
            *halves,
            null["log_loss"].mean(),
        ]
        shown = " | ".join("-" if np.isnan(v) else f"{v:.3f}" for v in numbers)
        lines.append(f"| {name} | {len(signal)} of {n_tasks} | {shown} |")
    return "\n".join(lines)


def _entrants(scores: pd.DataFrame) -> list[str]:
    """Decoders in the order of the tables; those with our preparation where it changed a score."""
    wide = scores.pivot(index=["task", "draw"], columns="decoder", values="log_loss")
    told = [name for name in (*FAMILIES, *STOCK) if name in wide]
    both = [name for name in STOCK if name + OURS in wide]
    return told + [name + OURS for name in both if not wide[name].equals(wide[name + OURS])]


def _behind(scores: pd.DataFrame) -> str:
    """Tasks in which a stock decoder is ahead of auto by more than the goal, and why."""
    lines = []
    for task, part in scores[~scores["null"]].groupby("task", sort=False):
        for score, goal, sign in (("accuracy", ACCURACY, 1), ("log_loss", LOG_LOSS, -1)):
            best, gap, error = _best_stock(part, score, sign)
            if best and gap - error > goal:
                why = WHY.get(str(task), "")
                lines.append(f"- {task}: {best} is ahead in {score.replace('_', '-')} by {gap:.3f} "
                             f"(standard error {error:.3f}). {why}".rstrip())  # fmt: skip
    if not lines:
        return "In no task with signal is a stock decoder ahead beyond the goal."
    return "Where a stock decoder is ahead beyond the goal:\n\n" + "\n".join(lines)


def _best_stock(part: pd.DataFrame, score: str, sign: int) -> tuple[str, float, float]:
    """The best stock decoder, how far it is ahead of auto, and the error of that over draws."""
    wide = part.pivot(index="draw", columns="decoder", values=score)
    stock = [name for name in STOCK if name in wide]
    if not stock:
        return "", 0.0, 0.0
    best = max(stock, key=lambda name: sign * wide[name].mean())
    ahead = sign * (wide[best] - wide["auto"])
    return best, float(ahead.mean()), float(ahead.sem()) if len(ahead) > 1 else np.inf


def _table(part: pd.DataFrame) -> str:
    """Accuracy / log-loss by decoder and n, and the paired gain over the best stock decoder."""
    names, sizes = _entrants(part), list(dict.fromkeys(part["n"]))
    lines = ["| decoder | " + " | ".join(f"n = {n}" for n in sizes) + " |"]
    lines.append("|---|" + "---|" * len(sizes))
    for name in names:
        cells = [_cell(part[(part["n"] == n) & (part["decoder"] == name)]) for n in sizes]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    gains = [_gain(part[part["n"] == n]) for n in sizes]
    lines.append("| *auto less the best stock decoder, log-loss* | " + " | ".join(gains) + " |")
    return "\n".join(lines)


def _cell(own: pd.DataFrame) -> str:
    if not len(own):
        return "-"
    return f"{own['accuracy'].mean():.3f} / {own['log_loss'].mean():.3f}"


def _gain(part: pd.DataFrame) -> str:
    best, ahead, error = _best_stock(part, "log_loss", -1)
    if not best:
        return "-"
    low, high = ahead - 1.96 * error, ahead + 1.96 * error
    return f"{ahead:+.3f} [{low:+.3f}, {high:+.3f}] {best}"


# ---------------------------------------------------------------- pictures


def _picture(part: pd.DataFrame) -> Figure:
    """Accuracy and log-loss over the number of training scans."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    sizes = list(dict.fromkeys(part["n"]))
    for axes, score in zip(figure.subplots(1, 2), ("accuracy", "log_loss")):
        wide = part.groupby(["n", "decoder"], sort=False)[score].mean().unstack().loc[sizes]
        for name in [n for n in COLORS if n in wide]:
            width = 2.5 if name == "auto" else 1.2
            axes.plot(sizes, wide[name], "o-", color=COLORS[name], lw=width, ms=4, label=name)
        axes.set_xlabel("n")
        axes.set_ylabel(score.replace("_", "-"))
        axes.spines[["top", "right"]].set_visible(False)
        if score == "log_loss":
            axes.set_ylim(0, min(axes.get_ylim()[1], 1.6 * np.nanmax(wide["auto"]) + 0.2))
    figure.axes[1].legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
