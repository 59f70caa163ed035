"""Folds: the split of a data set into them, one fold fitted and tested, and the tables of many.

**Seeds of estimators.** In every fold each ``random_state`` parameter (nested ones too) whose value
is None is set from the fold's seed. A value that the user has set is kept: the same in every fold.
"""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import KFold, StratifiedGroupKFold, StratifiedKFold, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import check_consistent_length
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params, column_or_1d

from voxprior.algebra import finite_or_refused
from voxprior.blocks import BlockedScans
from voxprior.decision.base import offer_groups
from voxprior.decision.held_out import MOST_FOLDS, groups_of_several, split_of_groups
from voxprior.errors import InputError, InputTypeError, option
from voxprior.labels import check_two_classes, refuse_single_scans, refuse_unclear
from voxprior.registry import split_words, splitter
from voxprior.validation.audit import Audit, Finding, audit, heed
from voxprior.validation.result import Result, plain
from voxprior.validation.scores import (
    CLASSIFICATION_SCORES,
    DISTRIBUTION_SCORES,
    INTERVAL_COLUMNS,
    INTERVAL_LEVEL,
    REGRESSION_SCORES,
    score_predictions,
)

# Use of scans that cannot be divided: a single one per class, with a prior from others.
UNTESTED = "to fit without a test, use Decoder.fit in Python"

# --- the split of a data set ------------------------------------------------------------------


def check_data(estimator, X, y, groups) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Labels, groups and classes (none for regression) as arrays, or an error with the reason."""
    check_consistent_length(X, y, groups)
    y = column_or_1d(y)
    groups = None if groups is None else column_or_1d(groups)
    refuse_unclear("y", y)
    if groups is not None:
        refuse_unclear("groups", groups)
    if is_classifier(estimator):
        classes = np.unique(y)
        check_two_classes(classes)
        return y, groups, classes
    if not is_regressor(estimator):
        raise InputTypeError(
            f"{type(estimator).__name__} cannot be validated",
            expected="a classifier or a regressor",
            got="an estimator whose tags say neither",
            remedy="Inherit from ClassifierMixin or RegressorMixin",
        )
    numbers = y.astype(float)
    if len(numbers) > 1 and np.all(numbers == numbers[0]):
        raise InputError("There is nothing to predict", got=f"{numbers[0]:g} as every number")
    return numbers, groups, np.array([])


def audit_once(audited: Sequence[Finding] | None, *arguments: Any, **known: Any) -> Audit:
    """Make an audit and heed it; or take over the findings of one that was heeded before."""
    if audited is not None:
        return Audit(tuple(audited), getattr(audited, "checks", ()))
    found = audit(*arguments, **known)
    heed(found, stacklevel=4)
    return found


def make_folds(estimator, X, y, groups, cv) -> tuple[list, dict[str, str]]:
    """List of the (train, test) folds of a split, and what the split is, as code and in words."""
    if isinstance(cv, str):
        cv = splitter(cv, classes=is_classifier(estimator), groups=groups is not None)
    few = ""
    if cv is None:
        cv = default_split(estimator, y, groups)
        few = why_so_few_folds(y, groups, cv)
    elif not hasattr(cv, "split"):
        if not isinstance(cv, int | np.integer):
            cv = list(cv)
            folds = [(np.asarray(train), np.asarray(test)) for train, test in cv]
            given = f"{len(folds)} given folds"
            one = "one given division into training and test scans"
            return _check_folds(folds), {"cv": given, "split": one if len(folds) == 1 else given}
        cv = check_cv(int(cv), y, classifier=is_classifier(estimator))
    settings = split_settings(cv)
    return _check_folds(_divided(cv, X, y, groups)), settings | {"split": settings["split"] + few}


def _divided(cv, X, y, groups) -> list:
    try:
        return list(cv.split(X, y, groups_for(cv, groups)))
    except ValueError as error:
        if "n_splits" not in str(error):
            raise
        members = f"{len(y)} scans" if groups is None else f"{len(np.unique(groups))} groups"
        raise InputError(
            f"There are too few scans for {split_words(cv)}",
            expected="no more folds than groups, or than scans of the largest class",
            got=members,
            remedy=f"Take fewer folds, or another {option('cv')}",
        ) from error


def groups_for(cv, groups):
    """Groups, or None for a split of scans, where scikit-learn warns of groups."""
    return None if isinstance(cv, KFold | StratifiedKFold) else groups


def split_settings(cv) -> dict[str, str]:
    """What a splitter is, as code and in words."""
    return {"cv": str(cv), "split": split_words(cv)}


def _check_folds(folds: list) -> list:
    if not folds:
        raise InputError(f"The split, {option('cv')}, has no folds")
    for number, (train, test) in enumerate(folds):
        if len(train) == 0 or len(test) == 0:
            raise InputError(
                f"Fold {number} of the split cannot be used",
                expected="scans to train and scans to test",
                got=f"{len(train)} and {len(test)}",
                remedy=f"Choose another {option('cv')}",
            )
    return folds


def refuse_what_memory_cannot_hold(estimator, X, folds) -> None:
    """Refuse a family that reads no blocks of voxels at once, not after an audit of all scans."""
    reads_blocks = getattr(last_step(estimator), "_reads_blocks", True)
    if isinstance(X, BlockedScans) and not reads_blocks:
        X[max((train for train, _ in folds), key=len)].refuse_too_large()


def default_split(estimator, y, groups):
    """Folds of whole groups, see `split_of_groups`; of scans where none has a group with others."""
    classes = is_classifier(estimator)
    if groups is not None and len(np.unique(groups)) < 2:
        raise InputError(
            "All scans are of one group, so none can be held out",
            remedy=f"Give scans of more groups, or no groups; {UNTESTED}",
        )
    if groups_of_several(groups) is not None:
        return split_of_groups(y, groups, classes=classes)
    if not classes:
        if len(y) < 2:
            raise InputError("A single scan cannot both train and test", remedy="Add scans")
        return KFold(min(MOST_FOLDS, len(y)), shuffle=True, random_state=0)
    refuse_single_scans(y, remedy=f"Add scans of it, or leave the class out; {UNTESTED}")
    smallest = int(np.unique(y, return_counts=True)[1].min())
    return StratifiedKFold(min(MOST_FOLDS, smallest), shuffle=True, random_state=0)


def why_so_few_folds(y: np.ndarray, groups: np.ndarray | None, cv: Any) -> str:
    """Clause that names the class for which the default split has fewer than five folds."""
    if not isinstance(cv, StratifiedKFold | StratifiedGroupKFold):
        return ""
    smallest = Counter(np.asarray(y).tolist()).most_common()[-1]
    unit = "scans"
    if isinstance(cv, StratifiedGroupKFold):
        pairs = {*zip(np.asarray(groups).tolist(), np.asarray(y).tolist())}
        smallest, unit = Counter(label for _, label in pairs).most_common()[-1], "groups"
    label, count = smallest
    if cv.get_n_splits() >= MOST_FOLDS or count >= MOST_FOLDS:
        return ""
    return f" (fewer than {MOST_FOLDS} folds, because '{label!s}' has {count} {unit})"


def describe(estimator, X, y, groups, classes) -> dict[str, Any]:
    """Settings that describe what was run, in JSON's types."""
    params = {name: _short(value) for name, value in estimator.get_params(deep=True).items()}
    counts = {str(label): int(np.sum(y == label)) for label in classes}
    return {
        "estimator": type(estimator).__name__,
        "parameters": params,
        "n_samples": len(y),
        "n_features": int(X.shape[1]) if getattr(X, "ndim", 0) == 2 else None,
        "n_groups": None if groups is None else len(np.unique(groups)),
        "class_counts": counts,
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
        },
    }


def _short(value):
    """Return a parameter as JSON can hold it; objects by their representation."""
    value = plain(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return " ".join(repr(value).split())[:500]


# --- one fold ---------------------------------------------------------------------------------


class FoldOutcome(NamedTuple):
    """Predictions of one fold for its test scans, in the order of `test`."""

    test: np.ndarray  # (m,) indices into X
    n_train: int
    y_pred: np.ndarray  # (m,)
    values: np.ndarray | None  # (m, C) probabilities or decision values; (m, 3) of a number
    kind: str  # "p", "d", "interval" (its ends and the log density), "" where there are no values
    fit_seconds: float
    predict_seconds: float
    model: Any

    def to_plain(self) -> dict[str, Any]:
        """Return what JSON can hold, every number kept, infinities too; models are left out."""
        content = self._replace(model=None)._asdict()
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in content.items()}

    @classmethod
    def from_plain(cls, content: dict[str, Any]) -> FoldOutcome:
        """Read what `to_plain` returned."""
        values = content["values"]
        return cls(
            **content
            | {
                "test": np.array(content["test"]),
                "y_pred": np.array(content["y_pred"]),
                "values": None if values is None else np.array(values, dtype=float),
            }
        )

    def is_of(self, train: np.ndarray, test: np.ndarray, n_classes: int) -> bool:
        """Whether this can be the outcome of a fold; a file may hold that of another."""
        width = len(INTERVAL_COLUMNS) if self.kind == "interval" else n_classes
        seconds = (self.fit_seconds, self.predict_seconds)
        return (
            np.array_equal(self.test, test)
            and self.n_train == len(train)
            and self.y_pred.shape == (len(test),)
            and self.y_pred.dtype.kind in "biufU"
            and (self.values is None) == (self.kind == "")
            and self.kind in ("", "interval", *("pd" if n_classes else ""))
            and (self.values is None or self.values.shape == (len(test), width))
            and (self.kind != "p" or _are_shares(np.asarray(self.values)))
            and all(isinstance(one, float) and one >= 0 for one in seconds)
        )


def _are_shares(values: np.ndarray) -> bool:
    return bool(np.all((values >= 0) & (values <= 1 + 1e-6)))


def fold_codec(fold_of: Callable[[Any], tuple], classes: np.ndarray) -> dict[str, Any]:
    """Keywords by which a store keeps folds; `fold_of` gives the (train, test) of a task."""
    return {
        "encode": FoldOutcome.to_plain,
        "decode": FoldOutcome.from_plain,
        "fits": lambda task, outcome: outcome.is_of(*fold_of(task), len(classes)),
    }


def seeded(estimator, seed: np.random.SeedSequence):
    """Copy an estimator with every ``random_state`` that is None set from the seed."""
    copy = clone(estimator)
    unset = sorted(
        name
        for name, value in copy.get_params(deep=True).items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    )
    drawn = [int(word) % (2**31 - 1) for word in seed.generate_state(max(1, len(unset)))]
    return copy.set_params(**dict(zip(unset, drawn)))


def fit_fold(
    fold,
    seed,
    estimator,
    X,
    y,
    groups,
    fit_params,
    classes,
    keep_model,
    *,
    prepared=None,
    with_intervals=True,
) -> FoldOutcome:
    """Fit on the training scans of a fold and predict its test scans.

    `prepared` is what an estimator that offers it made of the scans, see `prepare_for_labels`.
    Without `with_intervals` a number is predicted and no distribution of it.
    """
    train, test = fold
    X_test, _ = _safe_split(estimator, X, y, test, train)  # of a Gram matrix, rows and columns
    model = seeded(estimator, seed)
    if prepared is None:
        X_train, y_train = _safe_split(estimator, X, y, train)
        params = _check_method_params(X, offer_groups(estimator, groups) | fit_params, train)
        start = time.perf_counter()
        model.fit(X_train, y_train, **params)
    else:
        start = time.perf_counter()
        model.fit_prepared(prepared, train, y[train])
    fitted = time.perf_counter()
    y_pred, values, kind = predicted(model, X_test, classes)
    if len(classes) == 0 and with_intervals:
        values = interval_values(model, X_test, y[test])
        kind = "" if values is None else "interval"
    end = time.perf_counter()
    kept = model if keep_model else None
    return FoldOutcome(test, len(train), y_pred, values, kind, fitted - start, end - fitted, kept)


def prepare_for_labels(estimator, X, groups=None) -> Any:
    """What an estimator can make of the scans once for many labellings, or None.

    An estimator offers it by two methods: ``prepare(X)`` returns all that labels do not change,
    and ``fit_prepared(prepared, rows, y)`` gives the same model as ``fit(X[rows], y)``. One that
    takes groups in ``fit`` takes them in ``prepare``.
    """
    offers = hasattr(estimator, "prepare") and hasattr(estimator, "fit_prepared")
    # Tables go the ordinary way, by which their column names are learned and checked.
    if not offers or not isinstance(X, np.ndarray | BlockedScans):
        return None
    return clone(estimator).prepare(X, **offer_groups(estimator, groups))


def predicted(model, X_test, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray | None, str]:
    """Answers; probabilities (else decision values) by class, if any; and which of them."""
    if len(classes) and hasattr(last_step(model), "predict_with_proba"):
        final, seen = led_to_last_step(model, X_test)
        y_pred, given = final.predict_with_proba(seen)
        return y_pred, *_by_class(model, given, classes, "p")
    y_pred = finite_or_refused(model.predict(X_test), type(last_step(model)).__name__)
    if len(classes) and hasattr(model, "predict_proba"):
        return y_pred, *_by_class(model, np.asarray(model.predict_proba(X_test)), classes, "p")
    if len(classes) and hasattr(model, "decision_function"):
        given = np.asarray(model.decision_function(X_test))
        given = np.column_stack([-given, given]) if given.ndim == 1 else given
        return y_pred, *_by_class(model, given, classes, "d")
    return y_pred, None, ""


def _by_class(
    model, given: np.ndarray, classes: np.ndarray, kind: str
) -> tuple[np.ndarray | None, str]:
    """Values in the order of all classes; one not trained on has the lowest there is."""
    finite_or_refused(given, type(last_step(model)).__name__)
    if given.shape[1] != len(model.classes_):  # one-vs-one decisions are not one per class
        return None, ""
    values = np.full((len(given), len(classes)), 0.0 if kind == "p" else -np.inf)
    values[:, np.searchsorted(classes, model.classes_)] = given
    return values, kind


def last_step(estimator: Any) -> Any:
    """The model at the end of a pipeline, or the estimator itself."""
    return last_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def led_to_last_step(model: Any, X: Any) -> tuple[Any, Any]:
    """Model at the end of a fitted pipeline, which hands on no distributions, and what it sees."""
    while isinstance(model, Pipeline):
        X, model = model[:-1].transform(X) if len(model) > 1 else X, model[-1]
    return model, X


def interval_values(model, X_test, y_test) -> np.ndarray | None:
    """Ends of the 90 % interval of each number, and the log density of what it was, if given."""
    if not hasattr(last_step(model), "predict_interval"):
        return None
    model, X_test = led_to_last_step(model, X_test)
    ends = np.asarray(model.predict_interval(X_test, level=INTERVAL_LEVEL))
    return np.column_stack([ends, model.log_density(X_test, y_test)])


def build_result(outcome, y, groups, classes, settings, findings=()) -> Result:
    """Put the finished folds (their numbers and values) into the tables of a `Result`."""
    task = "classification" if len(classes) else "regression"
    labels = tuple(classes.tolist())
    tables = [
        fold_table(index, fold, y, groups, labels)
        for index, fold in zip(outcome.indices, outcome.values)
    ]
    scores = _score_table(outcome, tables, task, labels)
    timings = pd.DataFrame(
        {
            "fold": outcome.indices,
            "fit_seconds": [fold.fit_seconds for fold in outcome.values],
            "predict_seconds": [fold.predict_seconds for fold in outcome.values],
        }
    )
    models = tuple(fold.model for fold in outcome.values if fold.model is not None)
    predictions = pd.concat(tables, ignore_index=True)
    return Result(
        task,
        predictions,
        scores,
        timings,
        labels,
        plain(settings),
        tuple(findings),
        outcome.complete,
        models,
        getattr(findings, "checks", ()),
    )


def fold_table(index: int, fold: FoldOutcome, y, groups, labels: tuple) -> pd.DataFrame:
    """Tidy predictions of one fold."""
    group = fold.test if groups is None else groups[fold.test]
    columns = {
        "fold": np.full(len(fold.test), index),
        "sample": np.asarray(fold.test, dtype=int),
        "group": group.tolist(),
        "y_true": y[fold.test].tolist(),
        "y_pred": fold.y_pred.tolist(),
    }
    if fold.values is not None and fold.kind == "interval":
        columns |= dict(zip(INTERVAL_COLUMNS, fold.values.T))
    elif fold.values is not None:
        columns |= {f"{fold.kind}_{label}": fold.values[:, c] for c, label in enumerate(labels)}
    return pd.DataFrame(columns)


def _score_table(outcome, tables, task, labels) -> pd.DataFrame:
    names = list(REGRESSION_SCORES if task == "regression" else CLASSIFICATION_SCORES)
    rows = [score_predictions(table, task, labels) for table in tables]
    if task == "regression" and all(column in tables[0] for column in INTERVAL_COLUMNS):
        names += DISTRIBUTION_SCORES
    if task == "classification" and any(row["coverage"] < 1 for row in rows):
        names += ["coverage", "selective_accuracy"]
    sizes = {
        "fold": outcome.indices,
        "n_train": [fold.n_train for fold in outcome.values],
        "n_test": [len(fold.test) for fold in outcome.values],
    }
    return pd.DataFrame(sizes | {name: [row[name] for row in rows] for name in names})
