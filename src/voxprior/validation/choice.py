"""How well the best of several models scores: each run scores the model that the others choose.

The model that scores best on some runs is partly the luckiest one. Choosing on runs other than g
and scoring on g is not enough, as run g has trained the folds that test the others: the two scores
share the pair. So the choice for g is made by fits that have not seen g either:

    a(m,g)      score of model m on run g, trained without g
    b(m,g,h)    its score on run h, trained without g and h
    M_g = all m that maximise the mean over h ≠ g of b(m,g,h)
    score = mean over g of the mean over m in M_g of a(m,g)                                 (1)

One fit without {g, h} serves both, which makes G(G-1)/2 more fits per model. Above twenty groups
`score_after_choice` draws groups of finished predictions instead, which flatters slightly.
``benchmarks/choice.py`` compares both with the truth.

| symbol | variable | shape |
|---|---|---|
| a | `alone` | (M, G) |
| b | `without` | (M, G, G), the diagonal is not read |
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np

from voxprior.validation.comparison import model_scores
from voxprior.validation.folds import FoldOutcome, check_data, describe, fit_fold, fold_codec
from voxprior.validation.result import Result
from voxprior.validation.run import run_tasks
from voxprior.validation.scores import TIE
from voxprior.validation.store import TaskStore

MOST_GROUPS = 20
FEWEST_GROUPS = 3


def nested_score(alone: np.ndarray, without: np.ndarray) -> float:
    """(1).

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.validation.choice import nested_score
    >>> a = np.array([[1, 0.5, 0.75], [0.75, 0.75, 0.5]])
    >>> b = np.array([[0.5, 0.875, 0.625], [0.625, 0.625, 0.625]])[:, :, None].repeat(3, axis=2)
    >>> nested_score(a, b)  # the best model's own score is .75
    0.625
    """
    M, G = alone.shape
    others = ~np.eye(G, dtype=bool)
    judged = np.array([[without[m, g, others[g]].mean() for g in range(G)] for m in range(M)])
    chosen = judged >= judged.max(axis=0) - TIE
    return float((np.where(chosen, alone, 0).sum(axis=0) / chosen.sum(axis=0)).mean())


def why_not_nested(results: Mapping[str, Result]) -> str:
    """Why the choice cannot be made anew for every group; empty where it can."""
    first = next(iter(results.values()))
    table = first.predictions
    n_groups = table["group"].nunique()
    if first.task == "regression":
        return "R² of a single group says little"
    if not FEWEST_GROUPS <= n_groups <= MOST_GROUPS:
        return f"there are not {FEWEST_GROUPS} to {MOST_GROUPS} groups"
    pairs = table[["fold", "group"]].drop_duplicates()
    if (
        len(pairs) != n_groups
        or len(first.scores) != n_groups
        or table["sample"].duplicated().any()
    ):
        return "the folds do not leave one group out at a time"
    held = table.groupby("group")["y_true"].nunique()
    if first.score_names[0] != "accuracy" and held.min() < len(first.classes):
        return "classes are unequal, and groups do not have all"
    return ""


def score_after_nested_choice(
    estimators: Mapping[str, Any],
    X,
    y,
    groups,
    results: Mapping[str, Result],
    *,
    n_jobs: int | None = None,
    random_state: int = 0,
    progress: bool = False,
    folder: str | os.PathLike | None = None,
) -> float | None:
    """Score (1) that the choice of the best model leads to; None where it cannot be computed.

    Parameters
    ----------
    estimators : dict of str to classifier
        The models to choose from.
    X, y, groups
        As in `cross_validate`.
    results : dict of str to Result
        Of the same models, leaving one group out at a time.
    n_jobs, random_state, progress
        See `run_tasks`.
    folder : path
        Keep finished fits there; the same call goes on where it was stopped.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from voxprior.validation import cross_validate
    >>> from voxprior.validation.choice import score_after_nested_choice
    >>> rng, runs = np.random.default_rng(5), np.repeat(range(6), 8)
    >>> X, y = rng.normal(size=(48, 30)), np.tile([0, 1], 24)
    >>> models = {f"{k} neighbours": KNeighborsClassifier(k) for k in (1, 3, 5, 7)}
    >>> results = {name: cross_validate(model, X, y, runs) for name, model in models.items()}
    >>> best = max(result.pooled()["accuracy"] for result in results.values())
    >>> round(best, 2), round(score_after_nested_choice(models, X, y, runs, results), 2)
    (0.54, 0.5)
    """
    if len(results) < 2 or why_not_nested(results):
        return None
    y, groups, classes = check_data(next(iter(estimators.values())), X, y, groups)
    names, codes = np.unique(groups, return_inverse=True)
    pairs = list(combinations(range(len(names)), 2))
    rows = {pair: np.flatnonzero(~np.isin(codes, pair)) for pair in pairs}
    if any(len(np.unique(y[kept])) < len(classes) for kept in rows.values()):
        return None
    chosen = {name: estimators[name] for name in results}
    tasks = [(name, pair) for name in chosen for pair in pairs]
    shared = (chosen, rows, X, y, groups, codes, classes)
    outcome = run_tasks(
        _fit_without_two,
        tasks,
        shared,
        n_jobs=n_jobs,
        random_state=random_state,
        progress=progress,
        name="choices",
        store=_pair_store(folder, tasks, shared, random_state),
    )
    if not outcome.complete:
        raise KeyboardInterrupt
    score = next(iter(results.values())).score_names[0]
    order = {name: m for m, name in enumerate(chosen)}
    without = np.full((len(chosen), len(names), len(names)), np.nan)
    for (name, (g, h)), fold in zip(tasks, outcome.values):
        for left_out, tested in ((g, h), (h, g)):
            part = codes[fold.test] == tested
            guess = fold.y_pred[part, None]
            without[order[name], left_out, tested] = model_scores(y[fold.test][part], guess, score)[
                0
            ]
    return nested_score(_alone(results, score), without)


def _alone(results: Mapping[str, Result], score: str) -> np.ndarray:
    """Return a(m, g), groups in order."""
    rows = []
    for result in results.values():
        parts = [part for _, part in result.predictions.groupby("group", sort=True)]
        truth_and_guess = [(p["y_true"].to_numpy(), p["y_pred"].to_numpy()) for p in parts]
        rows.append([model_scores(t, guess[:, None], score)[0] for t, guess in truth_and_guess])
    return np.array(rows)


def _fit_without_two(task, seed, estimators, rows, X, y, groups, codes, classes) -> FoldOutcome:
    name, pair = task
    fold = _fold_without(pair, rows, codes)
    return fit_fold(fold, seed, estimators[name], X, y, groups, {}, classes, keep_model=False)


def _fold_without(pair, rows, codes) -> tuple[np.ndarray, np.ndarray]:
    return rows[pair], np.flatnonzero(np.isin(codes, pair))


def _pair_store(folder, tasks, shared, random_state) -> TaskStore | None:
    estimators, rows, X, y, groups, codes, classes = shared
    settings = {
        "estimators": {n: describe(m, X, y, groups, classes) for n, m in estimators.items()},
        "random_state": random_state,
    }
    codec = fold_codec(lambda task: _fold_without(task[1], rows, codes), classes)
    arrays = (X, y, groups)
    return TaskStore.of(folder, "choices", estimators.values(), arrays, tasks, settings, **codec)
