"""Permutation tests in batch: held-out values of many relabellings from what is factorised once.

A family that can fit many labellings at once declares that by two methods and a few words:

* ``prepare(X)``, or ``prepare(X, groups)``, returns all that labels do not change;
* ``fit_many(prepared, rows, Y, n_classes)`` fits scans `rows` for every column of class codes Y
  (numbers, with ``n_classes=0``, for a regressor) and returns an object whose
  ``decision_function(rows)`` gives the values of other scans, (m, B) for numbers and two classes
  (class 1 where positive), (m, B, C) for more;
* ``fit_many_is_fit`` states that these are the models of ``fit``; else they stand in for them;
* ``fit_many_words`` describes what it fits, ``labels_at_once`` how many labellings it takes, and
  ``most_scans_at_once`` up to how many scans it is the better choice.

`EvidenceRidge` offers the same for scans of any kind. A test is valid for any statistic, provided
that the true labels go the same way as the relabelled ones; here they are one column of many. Its
p belongs to its own statistic and not to the decoder's accuracy; the result states that. Scores of
a column, of all held-out values p_i together (two classes: y_i = ±1, predicted by the sign):

* ``margin``: mean of y_i p_i; beyond two classes of the value for the true class minus the mean of
  the others. The highest of the others would not do: values that do not depend on the labels lie
  below it on average, the more so the larger they are. A decoder that finds nothing has values
  that are all alike, and would pass for better than one that finds a little
* ``accuracy``, ``balanced_accuracy``, ``auc``, ``r2``, ``mae``: as in `voxprior.validation.scores`
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata
from sklearn.base import clone, is_classifier
from sklearn.linear_model._base import LinearClassifierMixin, LinearModel
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.svm._base import BaseLibSVM
from sklearn.utils import get_tags

from voxprior.blocks import BlockedScans
from voxprior.errors import InputError, option
from voxprior.registry import splitter
from voxprior.validation.folds import groups_for, last_step, make_folds
from voxprior.validation.refit import Design, sign_of
from voxprior.validation.ridge import EvidenceRidge
from voxprior.validation.run import run_tasks

# Relabellings of a task where labels decide the folds: nothing is shared, and the bar moves.
FEW_LABELS = 8
TESTS = ("auto", "batch", "fast", "refit")
CLASS_SCORES = ("margin", "accuracy", "balanced_accuracy", "auc")
NUMBER_SCORES = ("r2", "mae")


# --- which way a decoder is tested ------------------------------------------------------------


def choose_test(test: str, estimator: Any, X: Any, score: str | None) -> str:
    """Make "auto" definite, and refuse what cannot be done.

    * "batch" for a family that can fit many labellings at once, up to its number of scans, if
      these are in memory or it needs no more than blocks of voxels (no ``fit_many_in_memory``);
    * "fast", a ridge decoder by evidence, for other linear models and kernel machines;
    * "refit" for all else: searches, scores of probabilities, families that prepare scans.
    """
    if test not in TESTS:
        raise InputError(f"{option('test', test)} is not known", expected=", ".join(TESTS))
    model, reason = last_step(estimator), _why_not(estimator, X, score)
    if test == "auto":
        if reason or isinstance(estimator, GridSearchCV | RandomizedSearchCV):
            return "refit"
        needs_memory = getattr(model, "fit_many_in_memory", False)
        if offers_many(model) and not (needs_memory and isinstance(X, BlockedScans)):
            return "batch" if len(X) <= model.most_scans_at_once else "fast"
        prepares = hasattr(model, "fit_prepared")
        return "fast" if reads_gram(model) and not prepares else "refit"
    if test == "batch" and not offers_many(model):
        reason = f"{type(model).__name__} does not fit many labellings at once"
    if test != "refit" and reason:
        raise InputError(
            f"{option('test', test)} cannot be used",
            got=reason,
            remedy=f"Take {option('test', 'refit')}",
        )
    return test


def _why_not(estimator, X, score: str | None) -> str:
    """Why held-out values of many labellings do not give this test, or nothing."""
    known = CLASS_SCORES if is_classifier(estimator) else NUMBER_SCORES
    if score is not None and score not in known:
        return f"the score {score!r}, which needs the decoder's own probabilities"
    if not isinstance(X, np.ndarray | BlockedScans) or X.ndim != 2 or X.dtype.kind not in "fiub":
        return "scans that are not an array of numbers"
    if steps_without_labels(estimator, X) is None:
        return "a pipeline with a step that needs labels"
    return ""


def offers_many(model: Any) -> bool:
    """Whether a model can fit many labellings at once."""
    return hasattr(model, "fit_many") and hasattr(model, "fit_many_words")


def reads_gram(model: Any) -> bool:
    """Whether scans enter a model through their inner products alone: linear, or a kernel's."""
    linear = isinstance(model, LinearClassifierMixin | LinearModel | BaseLibSVM)
    return linear or bool(getattr(model, "reads_gram", False))


def steps_without_labels(estimator: Any, rows: Any) -> Any:
    """Steps before the model, fitted to scans without labels: "" if none, None if they need them.

    What is not given labels cannot have used them.
    """
    if not isinstance(estimator, Pipeline) or len(estimator.steps) == 1:
        return ""
    try:
        return clone(estimator[:-1]).fit(rows)
    except (TypeError, ValueError, AttributeError):  # errors of steps differ
        return None


def folds_without_labels(folds: Sequence, X: Any, groups: Any, cv: Any, estimator: Any) -> bool:
    """Whether the folds are the same without labels, so that no relabelling changes them."""
    if isinstance(cv, str):
        cv = splitter(cv, classes=is_classifier(estimator), groups=groups is not None)
    if not hasattr(cv, "split"):
        return not isinstance(cv, int | np.integer) or not is_classifier(estimator)
    try:
        blind = list(cv.split(X, None, groups_for(cv, groups)))
    except Exception:  # each splitter raises a different error when it needs labels
        return False
    same = (np.array_equal(a, b) for one, other in zip(folds, blind) for a, b in zip(one, other))
    return len(blind) == len(folds) and all(same)


# --- the test ---------------------------------------------------------------------------------


class View(NamedTuple):
    """A fold, and what its decoder has prepared of the scans."""

    train: np.ndarray
    test: np.ndarray
    prepared: Any


class Batch(NamedTuple):
    """What every block of relabellings is tested with."""

    design: Design
    decoder: Any
    scores: tuple[str, ...]
    views: list[View] | None  # None where labels decide the folds


def batch_ranks(
    codes: Sequence[np.ndarray],
    folds: Sequence | None,
    design: Design,
    test: str,
    scores: tuple,
    options,
) -> tuple[np.ndarray, bool]:
    """Scores (m, number of scores) of all relabellings, large is good, and whether it is all.

    Without folds, labels decide them.
    """
    decoder = batch_decoder(test, design.estimator)
    views = None
    if folds is not None:
        views = fold_views(decoder, folds, design)
        design = design._replace(X=None)  # not sent to workers, who do not need the voxels
    elif not isinstance(design.estimator, Pipeline):
        design = design._replace(prepared=_prepare(decoder, design, design.X))
    size = labels_at_once(test, design.estimator, folds is not None)
    blocks = [np.stack(codes[start : start + size]) for start in range(0, len(codes), size)]
    found: dict[int, list] = {}
    outcome = run_tasks(
        rank_block,
        blocks,
        (Batch(design, decoder, scores, views),),
        name="blocks of relabellings",
        on_result=found.__setitem__,
        **options,
    )
    if 0 not in found:
        raise KeyboardInterrupt
    whole = next((index for index in range(len(blocks)) if index not in found), len(blocks))
    return np.concatenate([found[index] for index in range(whole)]), outcome.complete


def batch_decoder(test: str, estimator: Any) -> Any:
    """What fits many labellings: a copy of the model, or the ridge that stands in for it."""
    return clone(last_step(estimator)) if test == "batch" else EvidenceRidge()


def labels_at_once(test: str, estimator: Any, fixed: bool) -> int:
    """Relabellings of one task: a block, or a few where each has folds of its own."""
    return batch_decoder(test, estimator).labels_at_once if fixed else FEW_LABELS


def fold_views(decoder: Any, folds: Sequence, design: Design) -> list[View]:
    """What labels do not change, fold by fold; once for all where no step learns in the fold."""
    estimator, X = design.estimator, design.X
    if not isinstance(estimator, Pipeline):
        prepared = _prepare(decoder, design, X)
        return [View(train, test, prepared) for train, test in folds]
    return [
        View(train, test, _prepare(decoder, design, _in_fold(estimator, X, train)))
        for train, test in folds
    ]


def _in_fold(estimator: Any, X: np.ndarray, train: np.ndarray) -> np.ndarray:
    """All scans after the steps before the model, which have learned from training scans."""
    steps = steps_without_labels(estimator, X[train])
    return X if steps == "" else steps.transform(X)


def _prepare(decoder: Any, design: Design, X: np.ndarray) -> Any:
    if isinstance(decoder, EvidenceRidge) and get_tags(design.estimator).input_tags.pairwise:
        return np.asarray(X, dtype=float)  # the Gram matrix is given
    if "groups" in inspect.signature(decoder.prepare).parameters:
        return decoder.prepare(X, design.groups)
    return decoder.prepare(X)


def rank_block(block: np.ndarray, seed: Any, batch: Batch) -> list[list[float]]:
    """Scores of one block of relabellings, one row each, signed so that large is good."""
    design = batch.design
    Y = np.ascontiguousarray(block[:, design.structure.unit].T)
    if batch.views is not None:
        return _rows(batch, batch.views, Y)
    rows = []
    for column in Y.T:
        y = design.values[column]
        folds, _ = make_folds(design.estimator, design.X, y, design.groups, design.cv)
        if design.prepared is None:
            views = fold_views(batch.decoder, folds, design)
        else:
            views = [View(train, test, design.prepared) for train, test in folds]
        rows += _rows(batch, views, column[:, None])
    return rows


def _rows(batch: Batch, views: Sequence[View], Y: np.ndarray) -> list[list[float]]:
    n_classes = len(batch.design.classes)
    targets = Y if n_classes else batch.design.values[Y]
    parts = [
        batch.decoder.fit_many(
            view.prepared, view.train, targets[view.train], n_classes
        ).decision_function(view.test)
        for view in views
    ]
    truth = targets[np.concatenate([view.test for view in views])]
    values = np.concatenate(parts)
    found = [sign_of(name) * column_score(name, values, truth, n_classes) for name in batch.scores]
    return np.column_stack(found).tolist()


# --- scores of many columns -------------------------------------------------------------------


def column_score(name: str, values: np.ndarray, truth: np.ndarray, n_classes: int) -> np.ndarray:
    """Score of every labelling: values (m, B) or (m, B, C), and labels (m, B) that go with them.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.validation.batch import column_score
    >>> values = np.array([[0.5, -1.0], [-0.25, 2.0]])
    >>> column_score("margin", values, np.array([[1, 1], [0, 1]]), 2)
    array([0.375, 0.5  ])
    """
    if name == "r2":
        around = ((truth - truth.mean(axis=0)) ** 2).sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return 1 - ((truth - values) ** 2).sum(axis=0) / around
    if name == "mae":
        return np.abs(truth - values).mean(axis=0)
    if n_classes == 2:
        return _two_class_score(name, values, truth)
    if name == "auc":
        return np.mean([_area(values[..., c], truth == c) for c in range(n_classes)], axis=0)
    own = np.take_along_axis(values, truth[..., None], axis=-1)[..., 0]
    if name == "margin":
        return (n_classes * own - values.sum(axis=-1)).mean(axis=0) / (n_classes - 1)
    right = values.argmax(axis=-1) == truth
    return right.mean(axis=0) if name == "accuracy" else _balanced(right, truth, n_classes)


def _two_class_score(name: str, values: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The same for two classes: class 1 where the value (or the difference of two) is positive."""
    if values.ndim == 3:
        values = values[..., 1] - values[..., 0]
    positive = truth == 1
    if name == "auc":
        return _area(values, positive)
    if name == "margin":
        return (2.0 * np.where(positive, values, 0.0).sum(axis=0) - values.sum(axis=0)) / len(truth)
    right = (values > 0) == positive
    return right.mean(axis=0) if name == "accuracy" else _balanced(right, truth, 2)


def _balanced(right: np.ndarray, truth: np.ndarray, n_classes: int) -> np.ndarray:
    """Mean over the classes that were tested of the share labelled rightly."""
    members = np.stack([(truth == c).sum(axis=0) for c in range(n_classes)])
    hits = np.stack([(right & (truth == c)).sum(axis=0) for c in range(n_classes)])
    return (hits / np.maximum(members, 1)).sum(axis=0) / (members > 0).sum(axis=0)


def _area(value: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Mann-Whitney statistic of every column, from mid-ranks; NaN where a class is missing."""
    n, present = len(value), positive.sum(axis=0)
    above = np.where(positive, rankdata(value, axis=0), 0.0).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (above - present * (present + 1) / 2) / (present * (n - present))
