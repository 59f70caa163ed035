"""Learning curves from two scans per class to all: which prior pays, and when it stops paying.

Every decoder is trained and tested on the same splits (`FewShotSplit`); the training scans of a
repeat grow, so those of a smaller size are among those of a larger one. Differences between
decoders are therefore paired, scan by scan and repeat by repeat.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier

from voxprior.blocks import blocked
from voxprior.errors import InputError, InputTypeError
from voxprior.validation.audit import Audit, Finding, audit, heed
from voxprior.validation.folds import (
    build_result,
    check_data,
    describe,
    fit_fold,
    fold_codec,
    split_settings,
)
from voxprior.validation.intervals import difference_interval
from voxprior.validation.result import Result, html_table
from voxprior.validation.run import Outcome, run_tasks
from voxprior.validation.splits import FewShotSplit
from voxprior.validation.store import TaskStore

STEPS = (2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 300, 500, 800)


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Scores by decoder and training size.

    Attributes
    ----------
    results : dict
        ``(name, n_per_class)`` to `Result`.
    complete : bool
        False after Ctrl-C; sizes that no fold has finished are absent.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from voxprior.validation import learning_curve
    >>> y = np.tile([0, 1], 20)
    >>> X = np.random.default_rng(0).normal(size=(40, 10)) + y[:, None]
    >>> learning_curve({"naive Bayes": GaussianNB()}, X, y, sizes=[2, 5, 10])
    Learning curve: mean accuracy over 10 random splits, by training scans or groups per class
    per class  naive Bayes
    2                0.630
    5                0.805
    10               0.880
    """

    results: dict[tuple[str, int], Result]
    complete: bool = True

    @property
    def table(self) -> pd.DataFrame:
        """One row per decoder, size and repeat, with the scores of `Result.scores`."""
        parts = [
            result.scores.assign(estimator=name, n_per_class=size)
            for (name, size), result in self.results.items()
        ]
        table = pd.concat(parts, ignore_index=True)
        first = ["estimator", "n_per_class", "fold"]
        return table[first + [c for c in table.columns if c not in first]]

    def summary(self, score: str = "accuracy") -> pd.DataFrame:
        """Mean and standard deviation of a score over repeats, by decoder and size."""
        grouped = self.table.groupby(["estimator", "n_per_class"], sort=False)[score]
        return grouped.agg(["mean", "std", "count"]).reset_index()

    def differences(
        self, baseline: str, score: str = "accuracy", level: float = 0.95
    ) -> pd.DataFrame:
        """How much each decoder scores above the baseline, on the same splits.

        The interval is that of paired differences, see `difference_interval`; NaN where there are
        too few groups for one.
        """
        names = {name for name, _ in self.results}
        if baseline not in names:
            raise InputError(
                f"There is no decoder {baseline!r} to compare with",
                expected=f"one of {', '.join(sorted(names))}",
            )
        rows = []
        for (name, size), result in self.results.items():
            if name == baseline or (baseline, size) not in self.results:
                continue
            pair = _same_folds(result, self.results[baseline, size])
            found = difference_interval(*pair, score, level=level)
            rows.append((name, size, found.estimate, found.low, found.high))
        return pd.DataFrame(rows, columns=["estimator", "n_per_class", "difference", "low", "high"])

    def __repr__(self) -> str:
        return f"{self._title()}\n{self._means().to_string(float_format='{:.3f}'.format)}"

    def _repr_html_(self) -> str:
        return html_table(self._title(), self._means().map("{:.3f}".format))

    def _title(self) -> str:
        n = len(next(iter(self.results.values())).scores)
        stopped = "" if self.complete else " (interrupted)"
        return (
            f"Learning curve{stopped}: mean {self._score().replace('_', ' ')} over {n} random "
            "splits, by training scans or groups per class"
        )

    def _score(self) -> str:
        """The most informative score, judged by all scans: test scans vary with the size."""
        counts = next(iter(self.results.values())).settings.get("class_counts", {})
        return "accuracy" if len({*counts.values()}) < 2 else "balanced_accuracy"

    def _means(self) -> pd.DataFrame:
        """Mean of the most informative score, sizes by decoders."""
        score, columns = self._score(), dict[str, dict[int, float]]()
        for (name, size), result in self.results.items():
            columns.setdefault(name, {})[size] = float(result.scores[score].mean())
        return pd.DataFrame(columns).rename_axis(columns="per class")

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold; `from_dict` reads it back."""
        parts = [
            {"estimator": name, "n_per_class": size, "result": result.to_dict()}
            for (name, size), result in self.results.items()
        ]
        return {"complete": self.complete, "results": parts}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> LearningCurve:
        """Read what `to_dict` returned."""
        results = {
            (part["estimator"], part["n_per_class"]): Result.from_dict(part["result"])
            for part in content["results"]
        }
        return cls(results, content["complete"])


def _same_folds(first: Result, second: Result) -> tuple[Result, Result]:
    """Two results with the folds that both have finished."""
    common = np.intersect1d(first.scores["fold"], second.scores["fold"])
    return _only_folds(first, common), _only_folds(second, common)


def _only_folds(result: Result, folds: np.ndarray) -> Result:
    tables = {name: getattr(result, name) for name in ("predictions", "scores", "timings")}
    kept = {name: table[table["fold"].isin(folds)] for name, table in tables.items()}
    return replace(result, **{n: t.reset_index(drop=True) for n, t in kept.items()})


def learning_curve(
    estimators: Mapping[str, Any],
    X,
    y,
    groups=None,
    *,
    sizes: Sequence[int] | None = None,
    n_repeats: int = 10,
    pool: float | None = 0.5,
    draw: str = "sample",
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
) -> LearningCurve:
    """Score several decoders at growing numbers of training scans per class, after the audit.

    Parameters
    ----------
    estimators : dict of str to classifier
        Decoders by name.
    X, y, groups, n_jobs, random_state, progress
        As in `cross_validate`.
    variables, columns, names, findings, looked, allow, audited
        For the audit, as in `cross_validate`; each `Result` keeps the findings of its decoder.
    sizes : sequence of int
        Scans per class (units, with ``draw="group"``); default 2, 3, 5, 8, 12, ... up to all that
        the training pool has.
    n_repeats, pool, draw
        See `FewShotSplit`.
    folder : path
        Keep finished fits there; the same call goes on where it was stopped.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from voxprior.validation import learning_curve
    >>> rng, y = np.random.default_rng(0), np.tile([0, 1], 20)
    >>> X = rng.normal(size=(40, 10)) + 0.5 * y[:, None]
    >>> curve = learning_curve({"nb": GaussianNB(), "logistic": LogisticRegression()}, X, y)
    >>> curve.summary()["n_per_class"].unique().tolist()
    [2, 3, 5, 8, 10]
    """
    for name, model in estimators.items():
        if not is_classifier(model):
            raise InputTypeError(
                f"{name!r} has no learning curve", expected="a classifier", got=type(model).__name__
            )
    X = blocked(X)
    y, groups, classes = check_data(next(iter(estimators.values())), X, y, groups)
    options = {"n_repeats": n_repeats, "pool": pool, "draw": draw, "random_state": random_state}
    sizes = usable_sizes(y, groups, options) if sizes is None else list(sizes)
    splitters = {size: FewShotSplit(size, **options) for size in sizes}
    folds = {size: list(cv.split(X, y, groups)) for size, cv in splitters.items()}
    every = [fold for size in sizes for fold in folds[size]]
    known: dict[str, Any] = {"variables": variables, "columns": columns, "names": names}
    known |= {"findings": findings, "looked": looked}
    found = {
        name: audit(model, X, y, groups, every, allow=allow, **known)
        if audited is None
        else Audit(tuple(audited), getattr(audited, "checks", ()))
        for name, model in estimators.items()
    }
    if audited is None:
        heed(list(dict.fromkeys(one for of_model in found.values() for one in of_model)))
    tasks = [
        (name, size, number)
        for size in sizes
        for name in estimators
        for number in range(len(folds[size]))
    ]
    shared = (dict(estimators), folds, X, y, groups, classes)
    outcome = run_tasks(
        _fit_one,
        tasks,
        shared,
        n_jobs=n_jobs,
        random_state=random_state,
        progress=progress,
        name="fits",
        store=_fit_store(folder, tasks, shared, random_state),
    )
    results = {}
    for (name, size), part in _by_curve_point(tasks, outcome, n_repeats).items():
        settings = describe(estimators[name], X, y, groups, classes) | {
            **split_settings(splitters[size]),
            "n_folds": n_repeats,
            "random_state": random_state,
        }
        results[name, size] = build_result(part, y, groups, classes, settings, found[name])
    return LearningCurve(results, outcome.complete)


def _fit_store(folder, tasks, shared, random_state) -> TaskStore | None:
    estimators, folds, X, y, groups, classes = shared
    settings = {
        "estimators": {
            name: describe(model, X, y, groups, classes) for name, model in estimators.items()
        },
        "sizes": list(folds),
        "random_state": random_state,
    }
    codec = fold_codec(lambda task: folds[task[1]][task[2]], classes)
    arrays, which = (X, y, groups), (tasks, folds)
    return TaskStore.of(folder, "fits", estimators.values(), arrays, which, settings, **codec)


def _by_curve_point(tasks, outcome: Outcome, n_repeats: int) -> dict[tuple[str, int], Outcome]:
    """Finished fits by decoder and size."""
    points: dict[tuple[str, int], dict[int, Any]] = {}
    for index, value in zip(outcome.indices, outcome.values):
        name, size, number = tasks[index]
        points.setdefault((name, size), {})[number] = value
    return {
        point: Outcome(list(kept), list(kept.values()), len(kept) == n_repeats)
        for point, kept in points.items()
    }


def _fit_one(task, seed, estimators, folds, X, y, groups, classes):
    name, size, number = task
    return fit_fold(
        folds[size][number], seed, estimators[name], X, y, groups, {}, classes, keep_model=False
    )


def usable_sizes(y, groups, options: Mapping[str, Any]) -> list[int]:
    """Training sizes from 2 to all: the largest that every repeat's pool can give."""
    counts = np.unique(y, return_counts=True)[1]
    if options["draw"] == "group" and groups is not None:
        held = [len(np.unique(groups[y == label])) for label in np.unique(y)]
        counts = np.array(held)
    largest = int(counts.min())
    while largest >= 2:
        try:
            list(FewShotSplit(largest, **options).split(y, y, groups))
        except ValueError:
            largest -= 1
        else:
            return [step for step in STEPS if step < largest] + [largest]
    raise InputError(
        "There are too few scans for a learning curve",
        expected="two of every class to train on, besides those that test",
        got=f"{', '.join(map(str, counts))} per class",
    )
