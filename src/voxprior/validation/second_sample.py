"""A fitted model on a second sample: one test set that no training scan is in."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from voxprior.validation.audit import Finding
from voxprior.validation.folds import (
    FoldOutcome,
    build_result,
    describe,
    interval_values,
    predicted,
)
from voxprior.validation.result import Result
from voxprior.validation.run import Outcome

SECOND_SAMPLE = "second sample"
SPLIT = "a second sample, on which the saved model was tested as it is"


def score_fitted(
    model: Any,
    X: Any,
    y: np.ndarray,
    groups: np.ndarray | None = None,
    *,
    n_train: int,
    findings: Sequence[Finding] = (),
    settings: Mapping[str, Any] | None = None,
) -> Result:
    """Test a fitted model on scans that it has not seen.

    Parameters
    ----------
    model : fitted classifier or regressor
    X, y, groups
        The second sample. Labels are classes of the model.
    n_train : int
        Number of scans that the model was fitted to.
    findings : Audit or sequence of Finding
        What was found before.
    settings : mapping, optional
        Further settings for the result.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from voxprior.validation.second_sample import score_fitted
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GaussianNB().fit(X[::2], y[::2])
    >>> result = score_fitted(model, X[1::2], y[1::2], n_train=75)
    >>> bool(result.scores["accuracy"][0] > 0.9)
    True
    """
    classes = np.asarray(getattr(model, "classes_", []))
    start = time.perf_counter()
    y_pred, values, kind = predicted(model, X, classes)
    if len(classes) == 0:
        values = interval_values(model, X, y)
        kind = "" if values is None else "interval"
    seconds = time.perf_counter() - start
    fold = FoldOutcome(np.arange(len(y)), n_train, y_pred, values, kind, 0.0, seconds, None)
    known = describe(model, X, y, groups, classes)
    known |= {"cv": SECOND_SAMPLE, "split": SPLIT, "n_folds": 1, "n_train": n_train}
    outcome = Outcome([0], [fold], True)
    return build_result(outcome, y, groups, classes, known | dict(settings or {}), findings)
