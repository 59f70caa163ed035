"""Class labels and their codes 0, 1, ...: checked and numbered here, whoever is given them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from voxprior.errors import InputError, option

__all__ = ["Encoded", "check_two_classes", "encode", "kind_of", "known_codes", "refuse_missing"]


class Encoded(NamedTuple):
    """Sorted classes (C,), and the number of the class of each label (n,)."""

    classes: NDArray
    codes: NDArray[np.intp]


def encode(y: Any) -> Encoded:
    """Classes of labels to learn from, two at least, and their codes.

    >>> encode(["b", "a", "b"]).codes
    array([1, 0, 1])
    """
    y = column_or_1d(y, warn=True)
    refuse_missing("y", y)
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    check_two_classes(classes)
    return Encoded(classes, codes)


def refuse_missing(name: str, values: Any) -> None:
    """Refuse labels or groups of which some are None or NaN.

    >>> refuse_missing("y", ["a", None, "b"])
    Traceback (most recent call last):
    voxprior.errors.InputError: y is missing for 1 of 3 scans, the first is scan 1. Leave these
    scans out, or give what is missing.
    """
    missing = np.flatnonzero(pd.isna(np.asarray(values)).reshape(-1))
    if len(missing):
        raise InputError(
            f"{option(name)} is missing for {len(missing)} of {len(values)} scans, the first is "
            f"scan {missing[0]}",
            remedy="Leave these scans out, or give what is missing",
        )


def check_two_classes(classes: NDArray) -> None:
    """Refuse labels that leave nothing to tell apart."""
    if len(classes) < 2:
        raise InputError(
            "There is nothing to tell apart",
            expected="labels of at least 2 classes",
            got=f"1 class, {classes.tolist()[0]!r}" if len(classes) else "none",
            remedy="Check the labels; if only some folds have one class, take a split that keeps "
            "all classes in training",
        )


def known_codes(y: Any, classes: NDArray) -> NDArray[np.intp]:
    """Codes of labels among classes in any order; a label that is not among them is an error.

    >>> known_codes(["b", "a"], np.array(["a", "b"]))
    array([1, 0])
    """
    unknown = np.setdiff1d(y, classes)
    if unknown.size:
        raise InputError(
            "y has unknown labels",
            expected=f"labels among {np.asarray(classes).tolist()}",
            got=f"{unknown.tolist()} too",
        )
    order = np.argsort(classes, kind="stable")
    return order[np.searchsorted(classes, y, sorter=order)]


def kind_of(y: Any) -> str:
    """Tell what a target asks for: "classifier" for classes, "regressor" for numbers.

    Whole numbers are classes where there are at most 10 of them, or each has two scans.

    >>> kind_of(["face", "house"]), kind_of([1, 2, 1]), kind_of([61.5, 74.2])
    ('classifier', 'classifier', 'regressor')
    """
    y = np.asarray(y)
    if y.dtype.kind not in "fiu":
        return "classifier"
    values, counts = np.unique(y, return_counts=True)
    whole = bool(np.all(values == np.round(values)))
    return "classifier" if whole and (len(values) <= 10 or counts.min() > 1) else "regressor"
