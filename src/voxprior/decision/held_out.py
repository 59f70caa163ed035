"""Held-out log-scores: what a classifier says about training scans it was not fitted on.

Calibration and weights of a combination are learned from these, so that they see neither a test
scan nor a scan that the classifier has memorised.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import LeaveOneGroupOut, StratifiedKFold, check_cv
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


def inner_split(y, groups=None, cv=None):
    """Split inside the training data: `cv`, else by group, else stratified into up to 5 folds."""
    if cv is not None:
        return check_cv(cv, y, classifier=True)
    if groups is not None:
        return LeaveOneGroupOut()
    smallest = int(np.unique(y, return_counts=True)[1].min())
    if smallest < 2:
        raise InputError(
            "Scans cannot be held out inside the training data",
            expected="two scans of every class at least",
            got="a class with one",
        )
    return StratifiedKFold(min(5, smallest))


def held_out_log_scores(
    estimator, X, y, groups=None, cv=None, fit_params: dict[str, Any] | None = None
) -> HeldOut:
    """Log-scores of every scan by fits that did not see it (nor its group)."""
    y = column_or_1d(y, warn=True)
    X, y, groups = indexable(X, y, groups)
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
