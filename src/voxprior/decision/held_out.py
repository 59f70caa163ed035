"""Held-out log-scores: what a classifier says about training scans it was not fitted on.

Calibration and weights of a combination are learned from these, so that they see neither a test
scan nor a scan that the classifier has memorised.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import (
    GroupKFold,
    LeaveOneGroupOut,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.utils import indexable
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params, column_or_1d

from voxprior.algebra import floored_log
from voxprior.errors import InputError, option
from voxprior.labels import encode


class HeldOut(NamedTuple):
    """Log-scores of scans outside the folds that were fitted."""

    log_scores: np.ndarray  # (m, C)
    code: np.ndarray  # (m,) index of the true class
    sample: np.ndarray  # (m,) index of the scan


def log_scores(estimator, X) -> np.ndarray:
    """Log-probabilities (else decision values, as log-odds) of a fitted classifier, (n, C)."""
    if hasattr(estimator, "predict_log_proba"):
        with np.errstate(divide="ignore"):
            scores = np.asarray(estimator.predict_log_proba(X), dtype=float)
        return np.where(np.isneginf(scores), floored_log(0.0), scores)
    if hasattr(estimator, "predict_proba"):
        return floored_log(estimator.predict_proba(X))
    values = np.asarray(estimator.decision_function(X), dtype=float)
    if values.ndim == 1:
        return np.column_stack([np.zeros(len(values)), values])
    return values


MOST_FOLDS = 5
# With this many groups per class, one more or less in training matters little.
MANY_GROUPS = 10


def groups_of_several(groups) -> np.ndarray | None:
    """Groups as an array; None where every scan is a group of its own, which divides nothing.

    >>> groups_of_several(["sub-1", "sub-2", "sub-3"]) is None
    True
    """
    groups = None if groups is None else np.asarray(groups)
    return None if groups is None or len(np.unique(groups)) == len(groups) else groups


def split_of_groups(y, groups, *, classes: bool = True):
    """Folds of whole groups: of every label where most hold one label, else one group at a time.

    Leaving one subject out leaves training with less of its class, and noise scores far below
    chance. Folds are as many as divide the groups of every class evenly, up to five; and five where
    every class has ten groups.

    >>> split_of_groups([0, 0, 0, 0, 1, 1, 1, 1], [1, 1, 2, 2, 3, 3, 4, 4])
    StratifiedGroupKFold(n_splits=2, random_state=None, shuffle=False)
    """
    pairs = {*zip(np.asarray(groups).tolist(), np.asarray(y).tolist())}
    held = Counter(group for group, _ in pairs)
    if 2 * sum(n == 1 for n in held.values()) <= len(held):
        return LeaveOneGroupOut()
    if not classes:
        return GroupKFold(min(MOST_FOLDS, len(held)))
    counts = Counter(label for _, label in pairs).values()
    if min(counts) < 2:
        return LeaveOneGroupOut()
    even = [k for k in range(2, MOST_FOLDS + 1) if all(count % k == 0 for count in counts)]
    if not even or min(counts) >= MANY_GROUPS:
        even = [min(MOST_FOLDS, *counts)]
    # In their order: shuffling, scikit-learn 1.6 leaves folds without a class.
    return StratifiedGroupKFold(max(even))


def inner_split(y, groups=None, cv=None):
    """Split inside the training data: `cv`, else by group, else stratified into up to 5 folds."""
    if cv is not None:
        return check_cv(cv, y, classifier=True)
    if groups is not None:
        return split_of_groups(y, groups)
    smallest = int(np.unique(y, return_counts=True)[1].min())
    if smallest < 2:
        raise InputError(
            "Scans cannot be held out inside the training data",
            expected="two scans of every class at least",
            got="a class with one",
        )
    return StratifiedKFold(min(MOST_FOLDS, smallest))


def held_out_log_scores(
    estimator, X, y, groups=None, cv=None, fit_params: dict[str, Any] | None = None
) -> HeldOut:
    """Log-scores of every scan by fits that did not see it (nor its group)."""
    y = column_or_1d(y, warn=True)
    X, y, groups = indexable(X, y, groups_of_several(groups) if cv is None else groups)
    classes, all_codes = encode(y)
    scores, codes, samples = [], [], []
    for train, test in inner_split(y, groups, cv).split(X, y, groups):
        missing = np.setdiff1d(classes, y[train])
        if len(missing):
            raise InputError(
                f"A fold inside the training data has no scan of class {missing.tolist()} to train "
                "on",
                remedy=f"Give a {option('cv')} that keeps every class, or more groups",
            )
        X_train, y_train = _safe_split(estimator, X, y, train)
        X_test, _ = _safe_split(estimator, X, y, test, train)
        params = _check_method_params(X, fit_params or {}, train)
        model = clone(estimator).fit(X_train, y_train, **params)
        scores.append(log_scores(model, X_test))
        codes.append(all_codes[test])
        samples.append(test)
    return HeldOut(np.concatenate(scores), np.concatenate(codes), np.concatenate(samples))
