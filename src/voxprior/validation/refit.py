"""Permutation tests that run the whole validation again for every relabelling.

What labels do not change is made once: Gram matrices (``kernel="precomputed"``), and whatever an
estimator offers by ``prepare`` and ``fit_prepared``, see `voxprior.validation.folds`. Scores that
count scans tie often, so results are ordered by the score and, where it ties, by the mean
log-probability of the true labels of held-out scans (by the mean margin of decision values
where there are no probabilities).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV

from voxprior.decision.base import offer_groups
from voxprior.errors import InputError, option
from voxprior.validation.folds import describe, fit_fold, fold_table, make_folds
from voxprior.validation.ranks import as_good
from voxprior.validation.relabel import Relabelling
from voxprior.validation.run import run_tasks
from voxprior.validation.scores import (
    DISTRIBUTION_SCORES,
    LOWER_IS_BETTER,
    margins_of,
    score_predictions,
)
from voxprior.validation.store import TaskStore

# Scores that take few values, so that ties are broken.
COARSE = ("accuracy", "balanced_accuracy", "auc", "coverage", "selective_accuracy")


class Design(NamedTuple):
    """What every relabelling is tested with; the fields are what a task is handed."""

    structure: Relabelling
    values: np.ndarray  # labels or targets by their codes
    estimator: Any
    X: Any
    groups: np.ndarray | None
    cv: Any
    classes: np.ndarray
    prepared: Any


def settle_search(estimator, X, y, groups, hyperparameters: str) -> tuple[Any, str]:
    """Estimator to be tested, and what is done about its hyper-parameters, in words."""
    if hyperparameters not in ("rechosen", "fixed"):
        raise InputError(
            f"{option('hyperparameters', hyperparameters)} is not known",
            expected="'rechosen' or 'fixed'",
        )
    if not isinstance(estimator, GridSearchCV | RandomizedSearchCV):
        return estimator, "what the estimator tunes in fit, if anything, was tuned anew each time"
    if hyperparameters == "rechosen":
        return estimator, "hyper-parameters were chosen anew for every relabelling"
    search = clone(estimator).fit(X, y, **offer_groups(estimator, groups))
    fixed = clone(search.estimator).set_params(**search.best_params_)
    return fixed, (
        f"hyper-parameters were fixed at {search.best_params_}, chosen with the true labels on all "
        "scans: p was somewhat too small"
    )


def refit_ranks(
    codes: Sequence[np.ndarray], design: Design, score: str, stop_after: int | None, options: Any
) -> tuple[np.ndarray, bool]:
    """Score and tie-break (m, 2) in the order of the relabellings, as far as they are needed.

    Returns them, and whether that is all.
    """
    ranks, done = np.full((len(codes), 2), np.nan), np.zeros(len(codes), dtype=bool)

    def keep(index: int, rank: Sequence[float]) -> None:
        ranks[index], done[index] = rank, True

    def in_order() -> int:
        return len(done) if done.all() else int(np.argmin(done))

    def enough() -> bool:
        # Judged on the relabellings in their order, whichever worker was faster.
        if stop_after is None or not done[0]:
            return False
        return int(as_good(ranks[0], ranks[1 : in_order()]).sum()) >= stop_after

    outcome = run_tasks(
        rank_relabelled,
        codes,
        (*design, score),
        name="relabellings",
        on_result=keep,
        stop=enough,
        **options,
    )
    if not done[0]:
        raise KeyboardInterrupt
    return ranks[: in_order()], outcome.complete or enough()


def score_store(
    folder, codes, y, folds, design: Design, random_state, said: Mapping[str, Any]
) -> TaskStore | None:
    """Store of the scores; a rule that only says when to stop does not change them."""
    if folder is None:
        return None
    structure, values, estimator, X, groups, cv, classes, _ = design
    settings = describe(estimator, X, y, groups, classes) | {
        "ties": "broken by log-probability or margin",
        "scheme": structure.statement,
        "n_relabellings": len(codes) - 1,
        "random_state": random_state,
        **said,
    }
    # Labels decide the folds of some splitters, hence the splitter next to the folds of the true
    # labels; the drawn codes stand for blocks and scheme.
    arrays = (X, y, groups, values, structure, np.stack(codes))
    in_batch = len(said["scores"]) if "labels_at_once" in said else None
    return TaskStore.of(
        folder,
        "relabellings",
        [estimator],
        arrays,
        (folds, cv),
        settings,
        fits=lambda codes, value: are_scores(codes, value, in_batch),
    )


def are_scores(codes: np.ndarray, value: Any, in_batch: int | None) -> bool:
    """Whether these can be score and tie-break of a relabelling, or the scores of a batch."""
    rows, width = ([value], 2) if in_batch is None else (value, in_batch)
    return len(rows) == (1 if in_batch is None else len(codes)) and all(
        isinstance(row, list) and len(row) == width and all(type(x) in (int, float) for x in row)
        for row in rows
    )


def rank_relabelled(
    codes, seed, structure, values, estimator, X, groups, cv, classes, prepared, score
) -> list[float]:
    """Score of the whole validation with the labels of one relabelling, and what breaks its ties.

    Both are signed so that large is good.
    """
    y = values[structure.labels(codes)]
    folds, _ = make_folds(estimator, X, y, groups, cv)
    options = {"prepared": prepared, "with_intervals": score in DISTRIBUTION_SCORES}
    outcomes = [
        fit_fold(fold, child, estimator, X, y, groups, {}, classes, False, **options)
        for fold, child in zip(folds, seed.spawn(len(folds)))
    ]
    task = "classification" if is_classifier(estimator) else "regression"
    labels = tuple(classes.tolist())
    table = _joined_table(outcomes, y, groups, labels)
    scores = score_predictions(table, task, labels)
    tie_break = _tie_break(scores, outcomes, y, classes) if score in COARSE else 0.0
    return [sign_of(score) * scores[score], tie_break]


def sign_of(score: str) -> float:
    """-1 for scores where small is good, else 1."""
    return -1.0 if score in LOWER_IS_BETTER else 1.0


def _tie_break(scores: Mapping[str, float], outcomes, y, classes) -> float:
    """Mean log-probability of the true labels; without probabilities the mean margin, or 0."""
    if np.isfinite(scores["log_loss"]):
        return -scores["log_loss"]
    if outcomes[0].values is None:
        return 0.0
    values, test = _joined(outcomes, "values"), _joined(outcomes, "test")
    margins = margins_of(values, np.searchsorted(classes, y[test]))
    return float(np.nan_to_num(margins.mean(), nan=0.0))


def _joined(outcomes, name: str) -> np.ndarray:
    return np.concatenate([getattr(outcome, name) for outcome in outcomes])


def _joined_table(outcomes, y, groups, labels) -> pd.DataFrame:
    """Predictions of all folds in one table: of many small ones the making would cost more."""
    parts = {name: _joined(outcomes, name) for name in ("test", "y_pred")}
    if outcomes[0].values is not None:
        parts["values"] = _joined(outcomes, "values")
    return fold_table(0, outcomes[0]._replace(**parts), y, groups, labels)
