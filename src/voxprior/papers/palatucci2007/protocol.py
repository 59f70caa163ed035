"""The paper's test method: half splits, n examples per class, repeated; and intervals by run.

    1. split the examples randomly in half, equal classes
    2. draw n examples per class from the training half
    3. train on them, test on the whole other half
    4. repeat ten times and average

Where examples come in runs, whole runs are split and drawn, so that train and test share none.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

Models = Mapping[str, Callable[[], Any]]


class Scores(NamedTuple):
    """Accuracy, log-loss and stated confidence of one fitted model on one test set."""

    accuracy: float
    log_loss: float
    confidence: float


def half_splits(
    y: np.ndarray, n: int, repeats: int, rng: np.random.Generator, runs: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Row numbers to train on (n per class, or n runs) and to test on, ``repeats`` times."""
    for _ in range(repeats):
        if runs is not None:
            order = rng.permutation(np.unique(runs))
            half = len(order) // 2
            yield (
                np.flatnonzero(np.isin(runs, order[:n])),
                np.flatnonzero(np.isin(runs, order[half:])),
            )
            continue
        train, test = [], []
        for label in np.unique(y):
            rows = rng.permutation(np.flatnonzero(y == label))
            train.append(rows[:n])
            test.append(rows[len(rows) // 2 :])
        yield np.concatenate(train), np.concatenate(test)


def score(model: Any, X: np.ndarray, y: np.ndarray) -> Scores:
    """Accuracy, log-loss (floored at e^-300, as no log-probability is -inf) and confidence."""
    if not hasattr(model, "predict_proba"):
        return Scores(float(np.mean(model.predict(X) == y)), float("nan"), float("nan"))
    with np.errstate(divide="ignore"):
        log_p = model.predict_log_proba(X)
    codes = np.searchsorted(model.classes_, y)
    truth = np.maximum(log_p[np.arange(len(y)), codes], -300.0)
    hit = model.classes_[log_p.argmax(axis=1)] == y
    return Scores(float(hit.mean()), float(-truth.mean()), float(np.exp(log_p.max(axis=1)).mean()))


def compare(
    X: np.ndarray,
    y: np.ndarray,
    models: Models,
    n: int,
    repeats: int,
    seed: int,
    runs: np.ndarray | None = None,
) -> dict[str, Scores]:
    """Average scores of every model on the same splits."""
    found: dict[str, list[Scores]] = {name: [] for name in models}
    for train, test in half_splits(y, n, repeats, np.random.default_rng(seed), runs):
        for name, make in models.items():
            model = make().fit(X[train], y[train])
            found[name].append(score(model, X[test], y[test]))
    return {name: Scores(*np.mean(values, axis=0)) for name, values in found.items()}


def interval(values: np.ndarray) -> str:
    """Mean and half width of the 95 % Student interval over runs or subjects."""
    values = np.asarray(values, dtype=float)
    half = student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():.3f} ± {half:.3f}"
