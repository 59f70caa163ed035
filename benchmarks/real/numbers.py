"""Numbers from images: AutoRegressor beside tuned ridge, kernel ridge, GPRegressor and the mean.

Real tasks are targets that pictures hold: the slant of written digits, the direction a face looks
and the width of its mouth. Simulated ones have a known share of signal, low-rank noise, or none.
Every model gets the same scans (groups centred beforehand for all of them, where there are groups;
rivals get voxels scaled by the training scans on top, as `Decoder` would) and the same draws. Of a
draw are kept

    R²             1 - Σ (y - ŷ)² / Σ (y - ȳ_train)²
    log density    mean log p(y), above that of a Gaussian with the test targets' mean and spread
    inside         share of targets in the 90 % interval

Models without a distribution get a Gaussian with their error in five folds of the training scans,
whole groups where there are groups; tuned on the same folds, which flatters them a little.
Paired: the mean over draws of the difference to AutoRegressor,
with its standard error.

    python -m benchmarks.real.numbers [--quick]        writes benchmarks/real/numbers.md
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from voxprior import AutoRegressor, GPRegressor, VoxelSpace
from voxprior.papers.datasets import folder
from voxprior.papers.tables import machine, save
from voxprior.simulate import smooth_maps

HERE = Path(__file__).parent
LEVEL, N_TEST = 0.9, 100
PENALTIES = np.logspace(-2, 6, 17)
FEW_VOXELS = 1000  # about as many as the tasks have: squared distances are twice that, scaled
FACE = (40, 30)  # pixels of a face


class Task(NamedTuple):
    """Scans with a number each, and the sizes of training sets: scans, or groups where given."""

    X: np.ndarray
    y: np.ndarray
    space: VoxelSpace
    groups: np.ndarray | None
    sizes: tuple[int, ...]


class Draw(NamedTuple):
    """One training and test set."""

    train: np.ndarray
    test: np.ndarray


# ---------------------------------------------------------------- tasks


def maps(r2: float, seed: int) -> Task:
    data = smooth_maps((12, 12, 8), 260, task="regression", r2=r2, random_state=seed)
    return Task(data.X, data.y, data.space, None, (10, 30, 100))


def low_rank(signal: float, seed: int) -> Task:
    """Fifteen strong noise components, unequal voxels, one pattern that follows the number."""
    rng = np.random.default_rng(seed)
    space = VoxelSpace.grid((10, 10, 8))
    y = rng.normal(size=260)
    X = rng.normal(size=(260, 15)) @ rng.normal(size=(15, 800)) + rng.normal(size=(260, 800))
    X += signal * np.outer(y, rng.normal(size=800))
    return Task(X * rng.uniform(0.3, 3, 800), y, space, None, (10, 30, 100))


def noise(seed: int) -> Task:
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(260, 500)), rng.normal(size=260)
    return Task(X, y, VoxelSpace.grid((10, 10, 5)), None, (10, 30, 100))


def digit_slant(_seed: int) -> Task:
    """Slope of ink over height, of every digit."""
    with np.load(folder("optdigits") / "optdigits_orig_tra.npz") as file:
        X = file["X"].astype(np.float64)
    row, column = np.indices(X.shape[1:])
    ink = X / X.sum(axis=(1, 2), keepdims=True)
    y0, x0 = ((ink * part).sum(axis=(1, 2), keepdims=True) for part in (row, column))
    slope = (ink * (row - y0) * (column - x0)).sum(axis=(1, 2))
    slope /= (ink * (row - y0) ** 2).sum(axis=(1, 2))
    return Task(X.reshape(len(X), -1), slope, VoxelSpace.grid((32, 32)), None, (10, 30, 100))


def faces(target: Callable[[np.ndarray], np.ndarray]) -> Task:
    """Faces of persons, six each, every person's mean face taken out."""
    from PIL import Image

    root = folder("imm_faces")
    with np.load(root / "landmarks.npz") as file:
        points, person = file["points"], file["person"]
        names = [f"{p:02d}-{t}{g}" for p, t, g in zip(person, file["image_type"], file["gender"])]
    size = FACE[::-1]
    X = np.array(
        [np.asarray(Image.open(root / f"{n}.jpg").convert("L").resize(size)) for n in names], float
    ).reshape(len(names), -1)
    for p in np.unique(person):
        X[person == p] -= X[person == p].mean(axis=0)
    return Task(X, target(points), VoxelSpace.grid(FACE), person, (5, 10, 20))


def looking(points: np.ndarray) -> np.ndarray:
    """Where the middle of the nose is between the ends of the jaw."""
    left, right = points[:, 0, 0], points[:, 12, 0]
    return (points[:, 47:58, 0].mean(axis=1) - left) / (right - left)


def mouth(points: np.ndarray) -> np.ndarray:
    """Width of the mouth over the distance of the eyes."""
    across = np.ptp(points[:, 39:47, 0], axis=1)
    eyes = points[:, 21:29, 0].mean(axis=1) - points[:, 13:21, 0].mean(axis=1)
    return across / np.abs(eyes)


TASKS: dict[str, Callable[[int], Task]] = {
    "maps, 70 % signal": lambda seed: maps(0.7, seed),
    "maps, 30 % signal": lambda seed: maps(0.3, seed),
    "low-rank noise": lambda seed: low_rank(0.5, seed),
    "white noise alone": noise,
    "low-rank noise alone": lambda seed: low_rank(0.0, seed),
    "digit slant": digit_slant,
    "face direction (persons)": lambda _: faces(looking),
    "mouth width (persons)": lambda _: faces(mouth),
}


def draws(task: Task, n: int, n_draws: int) -> Iterator[Draw]:
    """Training scans (or groups) and up to 100 test scans of others, at random."""
    units = np.arange(len(task.y)) if task.groups is None else task.groups
    for seed in range(n_draws):
        rng = np.random.default_rng([seed, n])
        order = rng.permutation(np.unique(units))
        train, rest = np.isin(units, order[:n]), np.isin(units, order[n:])
        yield Draw(np.flatnonzero(train), rng.permutation(np.flatnonzero(rest))[:N_TEST])


# ---------------------------------------------------------------- models


class Told(NamedTuple):
    """What a model says of test scans."""

    mean: np.ndarray
    log_density: np.ndarray
    inside: np.ndarray


def gaussian(mean: np.ndarray, sd: Any, y: np.ndarray) -> Told:
    half = norm.ppf((1 + LEVEL) / 2) * sd
    return Told(mean, norm.logpdf(y, mean, sd), np.abs(y - mean) <= half)


def auto(task: Task, draw: Draw) -> Told:
    groups = None if task.groups is None else task.groups[draw.train]
    model = AutoRegressor(task.space).fit(task.X[draw.train], task.y[draw.train], groups)
    X, y = task.X[draw.test], task.y[draw.test]
    low, high = model.predict_interval(X, LEVEL).T
    return Told(model.predict(X), model.log_density(X, y), (low <= y) & (y <= high))


def process(task: Task, draw: Draw) -> Told:
    model = make_pipeline(StandardScaler(), GPRegressor())
    model.fit(task.X[draw.train], task.y[draw.train])
    return gaussian(*model.predict(task.X[draw.test], return_std=True), task.y[draw.test])


def rival(build: Callable[[list], Any]) -> Callable[[Task, Draw], Told]:
    """A model that has no distribution: its error comes from five folds."""

    def tell(task: Task, draw: Draw) -> Told:
        X, y = task.X[draw.train], task.y[draw.train]
        if task.groups is None:
            folds = list(KFold(5, shuffle=True, random_state=0).split(X))
        else:
            folds = list(GroupKFold(5).split(X, y, task.groups[draw.train]))
        model = build(folds).fit(X, y)
        settled = getattr(model, "best_estimator_", model)
        errors = y - cross_val_predict(settled, X, y, cv=folds)
        mean = model.predict(task.X[draw.test])
        return gaussian(mean, np.sqrt(np.mean(errors**2)), task.y[draw.test])

    return tell


def ridge(_folds: list) -> Any:
    return make_pipeline(StandardScaler(), RidgeCV(PENALTIES))


def kernel_ridge(folds: list) -> Any:
    steps = make_pipeline(StandardScaler(), CenteredKernelRidge())
    grid = {
        "centeredkernelridge__alpha": np.logspace(-3, 1, 5),
        "centeredkernelridge__gamma": [0.1 / FEW_VOXELS, 1 / FEW_VOXELS],
    }
    return GridSearchCV(steps, grid, cv=folds)


class CenteredKernelRidge(KernelRidge):
    """Radial kernel ridge regression of centred targets; scikit-learn's has no intercept."""

    def __init__(self, alpha: float = 1.0, gamma: float | None = None):
        super().__init__(alpha, kernel="rbf", gamma=gamma)

    def fit(self, X, y, sample_weight=None):
        """Centre the targets, then fit."""
        self.center_ = float(np.mean(y))
        return super().fit(X, y - self.center_, sample_weight)

    def predict(self, X):
        """Add the centre back."""
        return self.center_ + super().predict(X)


MODELS: dict[str, Callable[[Task, Draw], Told]] = {
    "auto": auto,
    "ridge, tuned": rival(ridge),
    "kernel ridge, tuned": rival(kernel_ridge),
    "GPRegressor": process,
    "mean": rival(lambda _: DummyRegressor()),
}


# ---------------------------------------------------------------- tables


def scored(task: Task, draw: Draw, told: Told) -> np.ndarray:
    """R², log density against a Gaussian of the test targets, share inside the interval."""
    y = task.y[draw.test]
    error = np.square(y - told.mean).sum() / np.square(y - task.y[draw.train].mean()).sum()
    base = norm.logpdf(y, y.mean(), y.std()).mean()
    return np.array([1 - error, told.log_density.mean() - base, told.inside.mean()])


def measure(n_draws: int, tasks: dict) -> dict[tuple[str, int, str], np.ndarray]:
    """Scores (draws, 3) by task, size and model; each draw of a simulated task is another set."""
    found: dict[tuple[str, int, str], list] = {}
    for name, build in tasks.items():
        for seed in range(n_draws):
            task = build(seed)
            for n in task.sizes:
                draw = list(draws(task, n, seed + 1))[-1]
                for model, tell in MODELS.items():
                    row = scored(task, draw, tell(task, draw))
                    found.setdefault((name, n, model), []).append(row)
        print(name, "done", flush=True)
    return {key: np.array(rows) for key, rows in found.items()}


def cells(found: dict) -> list[dict[str, object]]:
    """One row per task and size: R² / log density / percent inside."""
    rows = []
    for name, n in dict.fromkeys((name, n) for name, n, _ in found):
        row: dict[str, object] = {"task": name, "n": n}
        for model in MODELS:
            r2, density, inside = found[name, n, model].mean(axis=0)
            row[model] = f"{r2:.2f} / {max(density, -9):.2f} / {100 * inside:.0f}"
        rows.append(row)
    return rows


def paired(found: dict, with_signal: bool) -> list[dict[str, object]]:
    """How far AutoRegressor is ahead of each rival, over all draws of such tasks."""
    rows = []
    for model in [name for name in MODELS if name != "auto"]:
        ahead = np.vstack([
            (found[name, n, "auto"] - scores)[:, :2]
            for (name, n, other), scores in found.items()
            if other == model and name.endswith("alone") != with_signal
        ])  # fmt: skip
        error = ahead.std(axis=0, ddof=1) / np.sqrt(len(ahead))
        better = (ahead > 0).mean(axis=0)
        rows.append(
            {
                "auto ahead of": model,
                "R²": f"{ahead[:, 0].mean():+.3f} ± {error[0]:.3f}",
                "median R²": f"{np.median(ahead[:, 0]):+.3f}",
                "higher R² in": f"{100 * better[0]:.0f} %",
                "higher log density in": f"{100 * better[1]:.0f} %",
                "draws": len(ahead),
            }
        )
    return rows


def coverage(found: dict) -> list[dict[str, object]]:
    """How far the share inside the 90 % interval is from .9, mean over tasks and sizes."""
    rows = []
    for model in MODELS:
        inside = [scores[:, 2].mean() for (_, _, other), scores in found.items() if other == model]
        rows.append(
            {
                "model": model,
                "inside 90 %": float(np.mean(inside)),
                "distance from .9": float(np.mean(np.abs(np.array(inside) - LEVEL))),
                "worst cell": float(min(inside)),
            }
        )
    return rows


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two simulated tasks, two draws")
    quick = parser.parse_args(argv).quick
    warnings.simplefilter("ignore", ConvergenceWarning)
    tasks = dict(list(TASKS.items())[:1]) | {"white noise alone": noise} if quick else TASKS
    found = measure(2 if quick else 4, tasks)
    sections = {
        "R² / log density / percent inside the 90 % interval": cells(found),
        "Paired, tasks with signal": paired(found, True),
        "Paired, noise alone": paired(found, False),
        "Intervals": coverage(found),
    }
    note = (
        "Made by `python -m benchmarks.real.numbers`. n counts training scans, persons where there "
        "are groups. Log density is against a Gaussian with the test targets' mean and spread, cut "
        f"at -9; four draws per cell. {machine('scipy')}."
    )
    save(None if quick else HERE / "numbers.md", "Numbers from images", sections, note)


if __name__ == "__main__":
    main()
