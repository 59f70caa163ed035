"""Families, the automatic default and stock decoders on the same scenes, over several seeds.

Every seed draws an experiment; a decoder learns from its first scans of each class and is tested on
later ones. Differences between decoders are paired by seed, and their 95 % intervals are Student's
over seeds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import t as student
from sklearn.neighbors import NearestCentroid

from voxprior import registry
from voxprior.decision import decide
from voxprior.decoder.stock import shrinkage_lda, tuned_logistic
from voxprior.images import Dataset
from voxprior.simulate import Scene, Simulated
from voxprior.validation.run import run_tasks

# Number of test scans per class.
N_TEST = 50
LEVEL = 0.95
# Log-loss counts probabilities below this as this.
SMALLEST = 1e-6
# Cost of an error, [action, true class]: missing the second class is expensive. And the cost of
# leaving a scan undecided.
COSTS, UNDECIDED = np.array([[0.0, 5.0], [1.0, 0.0]]), 0.5
STOCK: dict[str, Callable[[int], Any]] = {
    "logistic": lambda size: tuned_logistic(min(3, size)),
    "lda": lambda size: shrinkage_lda(),
    "centroid": lambda size: NearestCentroid(),
}
DEFAULT = registry.default_model()
# Pairs of conditions of real scans: one pair is easy to distinguish, the other is hard.
PAIRS = (("face", "house"), ("bottle", "shoe"))


def runners(scene: Scene) -> list[str]:
    """Names of the decoders of a scene: its families, the automatic default, stock decoders."""
    return list(dict.fromkeys([*scene.families, DEFAULT, *STOCK]))


def race(
    scenes: Sequence[Scene], n_seeds: int, *, n_jobs: int | None = None, progress: bool = False
) -> pd.DataFrame:
    """Fit every decoder at every size of every scene; one row per fit.

    Columns: scene, seed, size, decoder, accuracy, log_loss, seconds, and what decisions cost on
    average: ``cost`` by `COSTS` and `UNDECIDED`, ``open`` the share left undecided, and
    ``cost_of_likeliest``, where the likeliest class is answered.
    """
    tasks = [(number, seed) for seed in range(n_seeds) for number in range(len(scenes))]
    outcome = run_tasks(
        _run, tasks, (list(scenes),), n_jobs=n_jobs, progress=progress, name="experiments"
    )
    if not outcome.complete:
        raise KeyboardInterrupt  # seeds that only some decoders have seen cannot be paired
    return pd.DataFrame([row for rows in outcome.values for row in rows])


def warm_up(scenes: Sequence[Scene]) -> None:
    """Fit every family once, so that what has to be compiled is compiled."""
    for scene in scenes:
        data, size = scene.draw(0), scene.sizes[0]
        for name in (*scene.families, DEFAULT):
            fitted(name, data, rows_of(data, slice(size)), size).predict_proba(data.X[:1])


def _run(task: tuple[int, int], _, scenes: Sequence[Scene]) -> list[dict[str, Any]]:
    number, seed = task
    scene = scenes[number]
    data = scene.draw(seed)
    test = rows_of(data, slice(scene.sizes[-1], scene.sizes[-1] + N_TEST))
    rows = []
    for size in scene.sizes:
        train = rows_of(data, slice(size))
        for name in runners(scene):
            start = perf_counter()
            model = fitted(name, data, train, size)
            scores = _scores(name, model, data.X[test], data.y[test])
            where = {"scene": scene.title, "seed": seed, "size": size, "decoder": name}
            rows.append(where | scores | {"seconds": perf_counter() - start})
    return rows


def rows_of(data: Simulated, part: slice) -> np.ndarray:
    """The same part of the scans of each class."""
    return np.concatenate([np.flatnonzero(data.y == label)[part] for label in np.unique(data.y)])


def fitted(name: str, data: Simulated, train: np.ndarray, size: int) -> Any:
    """Fit a decoder, with its defaults, to some of the scans."""
    model = STOCK[name](size) if name in STOCK else registry.model(name).make(data.space)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence on handfuls
        return model.fit(data.X[train], data.y[train])


def _scores(name: str, model: Any, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    found = {"accuracy": float(np.mean(model.predict(X) == y))}
    if name == "centroid":  # its probabilities, where it has some, do not belong to its answers
        return found
    code, p = np.searchsorted(model.classes_, y), model.predict_proba(X)
    scans = np.arange(len(y))
    found["log_loss"] = float(-np.log(np.maximum(p[scans, code], SMALLEST)).mean())
    if len(model.classes_) == len(COSTS):
        action = decide(p, COSTS, abstain=UNDECIDED)
        found["cost"] = float(np.where(action < 0, UNDECIDED, COSTS[action, code]).mean())
        found["open"] = float(np.mean(action < 0))
        found["cost_of_likeliest"] = float(COSTS[p.argmax(axis=1), code].mean())
    return found


def real_scenes(read: Callable[[Sequence[str]], Dataset]) -> list[Scene]:
    """Scenes of real scans, by what reads two conditions, with one scan of each in every run.

    A seed draws which runs train, in which order, and which of the others test.
    """
    return [_of_runs(read(pair)) for pair in PAIRS]


def _of_runs(data: Dataset) -> Scene:
    groups = np.asarray(data.groups)
    runs = np.unique(groups)

    def draw(seed: int) -> Simulated:
        drawn = np.random.default_rng(seed).permutation(runs)
        order = np.concatenate([np.flatnonzero(groups == run) for run in drawn])
        return Simulated(data.X[order], np.asarray(data.y)[order], groups[order], data.space)

    return Scene(
        " and ".join(sorted(set(data.y))),
        f"real scans, {data.space.n_voxels} voxels, {len(runs)} runs",
        tuple(name for name in registry.models("classifier", "family") if name != DEFAULT),
        draw,
        sizes=(2, 4, len(runs) - 4),
        decisive=4,
        maps={
            DEFAULT: lambda model: model.voxel_maps()["pattern"],
            "sharing": lambda model: model.voxel_maps()["difference"],
        },
    )


# ---------------------------------------------------------------- what came out


class Verdict(NamedTuple):
    """How much better a decoder is than the best stock decoder, and what that means."""

    rival: str
    gain: float
    low: float
    high: float

    @property
    def word(self) -> str:
        """Whether it is better, worse, or the difference is inconclusive."""
        return "ahead" if self.low > 0 else "behind" if self.high < 0 else "not ahead"


def means(table: pd.DataFrame, scene: Scene, score: str | None = None) -> pd.DataFrame:
    """Mean score over seeds, decoders by sizes."""
    part = table[table["scene"] == scene.title]
    found = part.pivot_table(
        index="decoder", columns="size", values=score or scene.score, dropna=False
    )
    return found.loc[runners(scene)]


def spread(values: np.ndarray) -> float:
    """Half the width of the interval of a mean over seeds."""
    n = len(values)
    if n < 2:
        return float("nan")
    return float(student.ppf((1 + LEVEL) / 2, n - 1) * np.std(values, ddof=1) / np.sqrt(n))


def verdict(table: pd.DataFrame, scene: Scene, name: str, size: int | None = None) -> Verdict:
    """Compare a decoder with the stock decoder that is best in the same scene at the same size."""
    size = scene.decisive if size is None else size
    part = table[(table["scene"] == scene.title) & (table["size"] == size)]
    by_seed = part.pivot(index="seed", columns="decoder", values=scene.score)
    sign = -1.0 if scene.score == "log_loss" else 1.0
    rival = str((sign * by_seed[list(STOCK)].mean()).idxmax())
    gains = sign * (by_seed[name] - by_seed[rival]).to_numpy()
    gain, half = float(gains.mean()), spread(gains)
    return Verdict(rival, gain, gain - half, gain + half)
