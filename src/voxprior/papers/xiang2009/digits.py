"""Experiment 2: which pixels tell two composites of five digits apart.

Class A shows the digits 1 1 0 3 and any; class B has the 0 and the second 1 exchanged. True pixels
are those of a Bonferroni-corrected t-test between the noiseless images.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.stats import t as student_t
from sklearn.datasets import load_digits
from sklearn.metrics import average_precision_score, precision_recall_curve

from voxprior import VoxelSpace
from voxprior.papers.datasets import folder
from voxprior.papers.frame import Drawing, Part, Run, Table, drawing
from voxprior.papers.xiang2009.arms import arms, mean_sd
from voxprior.papers.xiang2009.rivals import RIVALS, t_map

N_TRAIN = N_TEST = 100  # a class
STAGES = (1, 10, 25, 50, 100, 200, -1)
RECALLS = np.linspace(0, 1, 41)


class Setting(NamedTuple):
    """Digits of one resolution, and noise that leaves something to find (no level is printed)."""

    digits: NDArray  # (n, side, side) in [0, 1]
    labels: NDArray
    noise_sd: float
    poisson: tuple[float, float]  # counts of mean base + gain × value
    n_iterations: int  # each selects one pixel at most, and there are 70 or 740 to find
    n_realizations: int


def small_digits() -> Setting:
    small = load_digits()
    return Setting(small.images / 16, small.target, 0.7, (1.0, 4.0), 200, 100)


def large_digits() -> Setting:
    with np.load(folder("optdigits") / "optdigits_orig_tra.npz") as data:
        return Setting(data["X"].astype(float), data["y"], 2.0, (4.0, 2.0), 800, 10)


def composites(setting: Setting, n: int, swapped: bool, rng) -> NDArray:
    """Draw n rows of five digits, (n, side, 5 side)."""
    wanted = [1, 0, 1, 3] if swapped else [1, 1, 0, 3]
    picks = [rng.choice(np.flatnonzero(setting.labels == d), n) for d in wanted]
    picks.append(rng.integers(len(setting.labels), size=n))
    return np.concatenate([setting.digits[pick] for pick in picks], axis=2)


def noisy(images: NDArray, kind: str, setting: Setting, rng) -> NDArray:
    if kind == "Poisson":
        base, gain = setting.poisson
        return rng.poisson(base + gain * images).astype(float)
    noise = rng.standard_normal(images.shape)
    if kind == "correlated":
        noise = gaussian_filter(noise, (0, 1, 1))
        noise /= noise.std()
    return images + setting.noise_sd * noise


class Draw(NamedTuple):
    """Noisy training and test images of both classes, and the pixels to find."""

    X: NDArray
    y: NDArray
    X_test: NDArray
    truth: NDArray[np.bool_]
    shape: tuple[int, int]


def realize(setting: Setting, kind: str, rng) -> Draw:
    clean, y = [], np.repeat([0, 1], N_TRAIN)
    for n in (N_TRAIN, N_TEST):
        clean.append(np.concatenate([composites(setting, n, swap, rng) for swap in (False, True)]))
    shape = clean[0].shape[1:]
    flat = clean[0].reshape(len(y), -1)
    p = 2 * student_t.sf(np.abs(t_map(flat, y)), len(y) - 2)
    truth = p < 0.05 / flat.shape[1]
    X, X_test = (noisy(images, kind, setting, rng) for images in clean)
    return Draw(X, y, X_test, truth, shape)


def smooth(images: NDArray) -> NDArray:
    return gaussian_filter(images, (0, 1, 1))


def boosted(draw: Draw, make, space, smoothing: bool) -> tuple[NDArray, NDArray, NDArray]:
    """Return the score of pixels by time of selection, by β, and the test accuracy by iteration."""
    X, X_test = (smooth(part) if smoothing else part for part in (draw.X, draw.X_test))
    model = make(space).fit(X.reshape(len(X), -1).astype(np.float32), draw.y)
    order = model.voxel_maps()["selection_order"]
    score = np.where(order > 0, 1.0 / np.maximum(order, 1), 0.0)
    flat = X_test.reshape(len(X_test), -1).astype(np.float32)
    stages = [np.mean(labels == draw.y) for labels in model.staged_predict(flat)]
    stages += [stages[-1]] * (model.n_iterations - len(stages))
    return score, model.importance_, np.array(stages)


class Scores(NamedTuple):
    """What one method reached, one value per realisation."""

    by_time: list  # average precision of pixels by time of selection, or by score
    by_size: list  # by β
    stages: list
    curves: list  # precision at RECALLS


def compare(setting: Setting, kind: str) -> dict[str, Scores]:
    results: dict[str, Scores] = {}
    for seed in range(setting.n_realizations):
        draw = realize(setting, kind, np.random.default_rng(seed))
        space = VoxelSpace.grid(draw.shape)
        methods = arms(0.5, 1.0, setting.n_iterations, seed)
        for name in ("SRB, backward", "SRB, rows equalised"):  # a grid's rows are nearly equal
            del methods[name]
        for smoothing in (False, True):
            for name, make in methods.items():
                if smoothing and name not in list(methods)[:2]:
                    continue
                found = boosted(draw, make, space, smoothing)
                keep(results, name, smoothing, draw.truth, *found)
            X = (smooth(draw.X) if smoothing else draw.X).reshape(len(draw.y), -1)
            for name, rival in RIVALS.items():
                keep(results, name, smoothing, draw.truth, rival(X, draw.y, draw.shape))
    return results


def keep(results, name, smoothing, truth, score, importance=None, stages=None) -> None:
    key = f"{name}, images smoothed" if smoothing else name
    kept = results.setdefault(key, Scores([], [], [], []))
    kept.by_time.append(average_precision_score(truth, score))
    precision, recall, _ = precision_recall_curve(truth, score)
    kept.curves.append(np.interp(RECALLS, recall[::-1], precision[::-1]))
    if importance is not None:
        kept.by_size.append(average_precision_score(truth, importance))
        kept.stages.append(stages)


def small(run: Run) -> Part:
    return experiment("8 x 8", small_digits(), run)


def large(run: Run) -> Part:
    return experiment("32 x 32", large_digits(), run)


def experiment(size: str, setting: Setting, run: Run) -> Part:
    """All methods under three kinds of noise."""
    tables, drawn = {}, {}
    if run.quick:
        setting = setting._replace(n_iterations=10, n_realizations=1)
    for kind in run.each(("Gaussian", "Poisson", "correlated")[: 1 if run.quick else 3]):
        drawn[kind] = compare(setting, kind)
        title = f"Digits {size}, {kind} noise, {setting.n_realizations} realisations"
        tables[title] = Table([table_row(name, scores) for name, scores in drawn[kind].items()])
    return Part(tables, {f"figure4_digits_{size.replace(' ', '')}": draw_curves(drawn)})


def table_row(name: str, scores: Scores) -> dict:
    row = {"method": name, "average precision": mean_sd(scores.by_time)}
    row["by β"] = mean_sd(scores.by_size) if scores.by_size else None
    for stage in STAGES:
        found = [s[min(stage, len(s)) - 1 if stage > 0 else -1] for s in scores.stages]
        name = f"accuracy, t = {stage}" if stage > 0 else "at the end"
        row[name] = float(np.mean(found)) if found else None
    return row


def draw_curves(drawn: dict[str, dict[str, Scores]]) -> Drawing:
    """Precision against recall of the pixels, by kind of noise."""
    from matplotlib.figure import Figure

    shown = ["AdaBoost (λ = 0)", "SRB, exact step (7)", "SRB, λ = 10, same r", *RIVALS]
    figure = Figure(figsize=(3.8 * len(drawn), 3.6), layout="constrained")
    for axis, (title, results) in zip(
        figure.subplots(1, len(drawn), squeeze=False)[0], drawn.items()
    ):
        for name in shown:
            axis.plot(RECALLS, np.mean(results[name].curves, axis=0), label=name, lw=1.3)
        axis.set(title=title, xlabel="recall", ylabel="precision", ylim=(0, 1.02))
    axis.legend(fontsize=6)
    return drawing(figure)
