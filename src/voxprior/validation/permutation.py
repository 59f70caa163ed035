"""Permutation tests: how often would a score this good come about if labels meant nothing?

The whole validation is run again for relabelled data; with b of m relabellings scoring at least as
well as the true labels,

    p = (1 + b) / (1 + m)                                                                   (1)

* Scores that count scans tie often, which would make p too large where nothing is decoded. Results
  are therefore ordered by the score and, where it ties, by the mean log-probability that held-out
  scans give their own label (by the mean margin of decision values where there are no
  probabilities). Any fixed order keeps p valid; the score told is still the score.
* Labels are exchanged as the design allows, see `relabelling`; the result states how.
* Where there are no more distinct relabellings than were asked for, all are used and p is exact.
* The result states the smallest p that the design can give at all.
* Early stopping [1]_: once h relabellings have scored as well, after l of them, p = h / l and the
  rest is not run. The order is fixed by the seed, so the answer does not depend on the workers.
* Hyper-parameters that a search inside the estimator chooses are chosen again for every
  relabelling, or chosen once with the true labels and then fixed; that favours the true labels and
  is said.
* Scores are kept in a folder as they come, if one is given: a test that was stopped goes on, and
  ends in the same result as one that was not, early stopping included.
* What labels do not change is made once: Gram matrices (``kernel="precomputed"``), and whatever an
  estimator offers by ``prepare`` and ``fit_prepared``, see `voxprior.validation.folds`.

References
----------
.. [1] Besag & Clifford, "Sequential Monte Carlo p-values", Biometrika 78, 1991.
.. [2] Phipson & Smyth, "Permutation p-values should never be zero", 2010.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV

from voxprior.decision.base import offer_groups
from voxprior.errors import InputError, option
from voxprior.validation.audit import Finding
from voxprior.validation.folds import (
    audit_once,
    check_data,
    describe,
    fit_fold,
    fold_table,
    make_folds,
    prepare_for_labels,
)
from voxprior.validation.relabel import (
    Relabelling,
    every_relabelling,
    random_relabelling,
    relabelling,
)
from voxprior.validation.run import run_tasks
from voxprior.validation.scores import LOWER_IS_BETTER, TIE, margins_of, score_predictions
from voxprior.validation.store import TaskStore, settings_digest

# Scores that take few values, so that ties are broken.
COARSE = ("accuracy", "balanced_accuracy", "auc", "coverage", "selective_accuracy")
# Log-probabilities and margins closer than this, relative to their size, differ by rounding alone.
ROUNDING = 1e-7


class PermutationResult(NamedTuple):
    """Outcome of a permutation test."""

    score: str
    observed: float
    null: np.ndarray  # (m,) scores of the relabellings that count
    p_value: float
    smallest_p: float  # that the design and the number of relabellings can give
    scheme: str  # how labels were exchanged, in words
    n_distinct: int  # distinct relabellings of the design
    exact: bool  # whether all of them were used
    stopped_early: bool
    hyperparameters: str  # what was done about a search
    complete: bool  # False after Ctrl-C
    findings: tuple[Finding, ...] = ()  # what the audit found, allowed ones included

    def __repr__(self) -> str:
        number = f"all {len(self.null)}" if self.exact else f"{len(self.null)} random"
        how = [f"{number} relabellings", self.scheme]
        how += ["stopped early"] * self.stopped_early + ["interrupted"] * (not self.complete)
        return (
            f"Permutation test: {self.score.replace('_', ' ')} {self.observed:.3f}, "
            f"p = {self.p_value:.3g} (smallest possible {self.smallest_p:.3g}); {', '.join(how)}"
        )

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>"

    def summary(self) -> dict[str, Any]:
        """Plain dictionary for a report."""
        content = self._asdict() | {"n_relabellings": len(self.null)}
        content["null"] = self.null.tolist()
        content["findings"] = [finding.to_dict() for finding in self.findings]
        return content


def permutation_test(
    estimator,
    X,
    y,
    groups=None,
    cv=None,
    *,
    score: str | None = None,
    blocks=None,
    scheme: str = "auto",
    n_permutations: int = 1000,
    stop_after: int | None = 50,
    hyperparameters: str = "rechosen",
    n_jobs: int | None = None,
    random_state: int = 0,
    progress: bool = False,
    variables: Mapping[str, Any] | None = None,
    columns: Mapping[str, Any] | None = None,
    names: Sequence[str] = (),
    findings: Sequence[tuple[str, str]] = (),
    looked: Collection[str] = (),
    allow: Collection[str] = (),
    audited: Sequence[Finding] | None = None,
    folder: str | os.PathLike | None = None,
) -> PermutationResult:
    """Test a decoder's score against relabelled data, after the audit of the split.

    Parameters
    ----------
    estimator, X, y, groups, cv, n_jobs, random_state, progress
        As in `cross_validate`. An estimator on a Gram matrix (``kernel="precomputed"``) reuses it
        for every relabelling, and one that offers ``fit_prepared`` what it has prepared.
    variables, columns, names, findings, looked, allow, audited
        For the audit, as in `cross_validate`.
    score : str
        Score of all predictions taken together; default accuracy, balanced accuracy for unequal
        classes, R² for regression.
    blocks, scheme
        See `relabelling`.
    n_permutations : int
        Relabellings to draw; fewer if the design has fewer.
    stop_after : int or None
        Stop once so many score as well as the true labels; None never stops early.
    hyperparameters : {"rechosen", "fixed"}
        For a `GridSearchCV` or `RandomizedSearchCV`.
    folder : path
        Keep the scores of finished relabellings there; the same call goes on where it was stopped,
        and gives what it would have given without the stop.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from voxprior.validation import permutation_test
    >>> y, runs = np.tile([0, 1], 5), np.repeat(range(5), 2)
    >>> X = np.random.default_rng(0).normal(size=(10, 3)) + 5 * y[:, None]
    >>> test = permutation_test(GaussianNB(), X, y, runs, stop_after=None)
    >>> test
    Permutation test: accuracy 1.000, p = 0.0625 (smallest possible 0.0625);
    all 31 relabellings, labels exchanged among scans within each group
    """
    if n_permutations < 1:
        raise InputError(
            f"{option('n_permutations', n_permutations)} tests nothing", expected="1 or more"
        )
    y, groups, classes = check_data(estimator, X, y, groups)
    cv = list(cv) if isinstance(cv, Iterator) else cv  # every relabelling goes through it
    folds, _ = make_folds(estimator, X, y, groups, cv)
    known: dict[str, Any] = {"variables": variables, "columns": columns, "names": names}
    known |= {"findings": findings, "looked": looked, "allow": allow}
    found = audit_once(audited, estimator, X, y, groups, folds, **known)
    values = np.unique(y)
    score = _default_score(y, classes) if score is None else score
    structure = relabelling(y, groups, blocks, scheme=scheme, symmetric=bool(len(classes)))
    estimator, said = _settle_search(estimator, X, y, groups, hyperparameters)
    codes, exact = _draw(structure, n_permutations, random_state)
    sign = _sign(score)
    prepared = prepare_for_labels(estimator, X, groups)
    shared = (structure, values, estimator, X, groups, cv, classes, prepared, score)
    options: dict[str, Any] = {"n_jobs": n_jobs, "random_state": random_state, "progress": progress}
    if folder is not None:
        options["store"] = _score_store(folder, codes, y, folds, shared, random_state)
    ranks, complete = _run(codes, shared, stop_after, options)
    p, used, stopped = p_value(ranks[0], ranks[1:], stop_after, len(codes) - 1)
    observed, null = sign * ranks[0, 0], sign * ranks[1:, 0]
    smallest = max(1 / len(codes), structure.n_symmetric / structure.n_distinct)
    return PermutationResult(
        score,
        float(observed),
        null[:used],
        p,
        float(smallest),
        structure.statement,
        structure.n_distinct,
        exact and complete and not stopped,
        stopped,
        said,
        complete,
        tuple(found),
    )


def p_value(
    observed: Any, null: np.ndarray, stop_after: int | None = None, planned: int = 0
) -> tuple[float, int, bool]:
    """Return p of (1) or of the stopping rule, relabellings used, and whether it stopped early.

    The rule applies where it holds before the `planned` number of relabellings is reached.

    Parameters
    ----------
    observed : float or sequence
        A score, or a score and what breaks its ties; large is good.
    null : array of shape (m,) or (m, length of the sequence)
        The same of the relabellings.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.validation.permutation import p_value
    >>> p_value(0.9, np.array([0.5, 0.9, 0.4]))
    (0.5, 3, False)
    >>> p_value((0.75, -0.6), np.array([(0.75, -0.65), (0.75, -0.55), (0.5, -0.4), (0.875, -0.7)]))
    (0.6, 4, False)
    """
    counted = as_good(observed, null)
    reached = np.cumsum(counted)
    if stop_after is not None and len(null) and reached[-1] >= stop_after:
        used = int(np.searchsorted(reached, stop_after)) + 1
        if used < max(planned, len(null)):
            return stop_after / used, used, True
    return float((1 + counted.sum()) / (1 + len(null))), len(null), False


def as_good(observed: Any, null: np.ndarray) -> np.ndarray:
    """Which results are at least as good: by the score, and where it ties by what breaks ties."""
    columns = np.reshape(null, (len(null), np.size(observed))).T
    better, equal = np.zeros(len(null), dtype=bool), np.ones(len(null), dtype=bool)
    for place, (value, column) in enumerate(zip(np.atleast_1d(observed), columns)):
        slack = TIE if place == 0 else ROUNDING * max(1.0, abs(value))
        better |= equal & (column > value + slack)
        equal &= np.abs(column - value) <= slack
    return better | equal


def _sign(score: str) -> float:
    return -1.0 if score in LOWER_IS_BETTER else 1.0


def _default_score(y, classes) -> str:
    if len(classes) == 0:
        return "r2"
    counts = np.unique(y, return_counts=True)[1]
    return "accuracy" if counts.min() == counts.max() else "balanced_accuracy"


def _settle_search(estimator, X, y, groups, hyperparameters) -> tuple[Any, str]:
    if hyperparameters not in ("rechosen", "fixed"):
        raise InputError(
            f"{option('hyperparameters', hyperparameters)} is not known",
            expected="'rechosen' or 'fixed'",
        )
    if not isinstance(estimator, GridSearchCV | RandomizedSearchCV):
        return estimator, "what the estimator tunes in fit, if anything, is tuned anew each time"
    if hyperparameters == "rechosen":
        return estimator, "hyper-parameters chosen anew for every relabelling"
    search = clone(estimator).fit(X, y, **offer_groups(estimator, groups))
    fixed = clone(search.estimator).set_params(**search.best_params_)
    return fixed, (
        f"hyper-parameters fixed at {search.best_params_}, chosen with the true labels on all "
        "scans: p is somewhat too small"
    )


def _draw(structure: Relabelling, n_permutations: int, random_state) -> tuple[list, bool]:
    """Unit codes to score, the true ones first, and whether these are all there are."""
    if structure.n_distinct - 1 <= n_permutations:
        return list(every_relabelling(structure)), True
    seeds = np.random.SeedSequence((random_state, 1)).spawn(n_permutations)
    drawn = [random_relabelling(structure, np.random.default_rng(seed)) for seed in seeds]
    return [structure.code, *drawn], False


def _run(codes, shared, stop_after, options) -> tuple[np.ndarray, bool]:
    """Ranks in the order of the relabellings, as far as the stopping rule needs them."""
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
        shared,
        name="relabellings",
        on_result=keep,
        stop=enough,
        **options,
    )
    if not done[0]:
        raise KeyboardInterrupt
    if np.isnan(ranks[0, 0]):
        raise InputError(
            f"The score {shared[-1]!r} is not defined for this split",
            remedy=f"Choose another score or another {option('cv')}",
        )
    return ranks[: in_order()], outcome.complete or enough()


def _score_store(folder, codes, y, folds, shared, random_state) -> TaskStore:
    """Store of the scores; a rule that only says when to stop does not change them."""
    structure, values, estimator, X, groups, cv, classes, _, score = shared
    settings = describe(estimator, X, y, groups, classes) | {
        "score": score,
        "ties": "broken by log-probability or margin",
        "scheme": structure.statement,
        "n_relabellings": len(codes) - 1,
        "random_state": random_state,
    }
    # Labels decide the folds of some splitters, hence the splitter beside the folds of the true
    # labels; the drawn codes stand for blocks and scheme.
    arrays = (X, y, groups, values, structure, np.stack(codes))
    digest = settings_digest([estimator], arrays, (folds, cv), settings)
    return TaskStore(folder, "relabellings", digest, settings)


def rank_relabelled(
    codes, seed, structure, values, estimator, X, groups, cv, classes, prepared, score
) -> list[float]:
    """Score of the whole validation with the labels of one relabelling, and what breaks its ties.

    Both are signed so that large is good.
    """
    y = values[structure.labels(codes)]
    folds, _ = make_folds(estimator, X, y, groups, cv)
    outcomes = [
        fit_fold(fold, child, estimator, X, y, groups, {}, classes, False, prepared=prepared)
        for fold, child in zip(folds, seed.spawn(len(folds)))
    ]
    task = "classification" if is_classifier(estimator) else "regression"
    labels = tuple(classes.tolist())
    table = _joined_table(outcomes, y, groups, labels)
    scores = score_predictions(table, task, labels)
    tie_break = _tie_break(scores, outcomes, y, classes) if score in COARSE else 0.0
    return [_sign(score) * scores[score], tie_break]


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
