"""The contract of a family: what its estimators share, whatever their mathematics.

A family is a folder of algorithm files and one `estimator.py`, whose classes inherit
`VoxelClassifier` or `VoxelRegressor` and define

* ``__init__`` and ``_parameter_constraints``, in scikit-learn's manner;
* ``fit``, which starts with `_training_scans` (or `_encode`, where X is not an array in memory);
* ``predict_proba``, or ``predict_log_proba`` and ``predict_proba`` where the logarithm comes first;
* ``voxel_maps``, what the fitted model used, by name;
* ``paper``, the estimator exactly as published.

Validation of scans, labels, priors and space is here, once, with its error messages.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from voxprior.errors import InputError, option

# Scans are read as they are, and summed in float64.
FLOATS = (np.float64, np.float32)


class VoxelModel(BaseEstimator, metaclass=ABCMeta):
    """An estimator whose features are voxels, or voxels at several times."""

    # What scans are read as; "numeric" leaves bytes and booleans as they are.
    _scan_dtype: ClassVar[Any] = FLOATS

    @abstractmethod
    def voxel_maps(self) -> dict[str, NDArray]:
        """Maps of what the fitted model used, (n_voxels,) or (n_features,), most telling first."""

    def _new_scans(self, X: Any) -> NDArray:
        """Scans to predict, with the features of those in `fit`."""
        check_is_fitted(self)
        return validate_data(self, X, dtype=self._scan_dtype, reset=False)

    def _n_voxels(self) -> int:
        """V, the voxels of the space; without one every feature is a voxel of its own."""
        space = getattr(self, "space", None)
        return self.n_features_in_ if space is None else check_times(self, space.n_voxels)


class VoxelRegressor(RegressorMixin, VoxelModel):
    """A `VoxelModel` that predicts a number."""


class VoxelClassifier(ClassifierMixin, VoxelModel):
    """A `VoxelModel` that tells classes apart; `classes_` are sorted, codes number them."""

    def _training_scans(self, X: Any, y: Any, **checks: Any) -> tuple[NDArray, NDArray[np.intp]]:
        """Scans (n, J) and class codes (n,) to learn from; sets `classes_`, two at least."""
        X, y = validate_data(self, X, y, dtype=self._scan_dtype, **checks)
        return X, self._encode(y)

    def _encode(self, y: Any) -> NDArray[np.intp]:
        """Class codes of labels that name `classes_`."""
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        check_two_classes(classes)
        self.classes_ = classes
        return codes

    def _labelled_scans(self, X: Any, y: Any) -> tuple[NDArray, NDArray[np.intp]]:
        """Scans (n, J) and codes (n,) of labels that `fit` has seen."""
        check_is_fitted(self)
        X, y = validate_data(self, X, y, dtype=self._scan_dtype, reset=False)
        return X, self._codes(y)

    def _codes(self, y: Any) -> NDArray[np.intp]:
        """Class codes of labels that `fit` has seen."""
        return known_codes(y, self.classes_)

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Logarithm of `predict_proba`, (n, n_classes)."""
        return np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny))

    def predict(self, X: Any) -> NDArray:
        """Most probable class of each scan; the first of equals."""
        best = self.predict_log_proba(X).argmax(axis=1)
        return self.classes_[best]


def check_two_classes(classes: NDArray) -> None:
    """Refuse labels that leave nothing to tell apart."""
    if len(classes) < 2:
        raise InputError(
            "There is nothing to tell apart",
            expected="labels of at least 2 classes",
            got=f"1 class, {classes[0]!r}",
            remedy="Check the labels, or stratify the folds",
        )


def known_codes(y: Any, classes: NDArray) -> NDArray[np.intp]:
    """Codes of labels in sorted classes; a label that is not among them is an error.

    >>> known_codes(["b", "a"], np.array(["a", "b"]))
    array([1, 0])
    """
    unknown = np.setdiff1d(y, classes)
    if unknown.size:
        raise InputError(
            "y has labels that the model was not fitted with",
            expected=f"labels among {classes.tolist()}",
            got=f"{unknown.tolist()} too",
        )
    return np.searchsorted(classes, y)


def class_prior(priors: Any, counts: NDArray, positive: bool = False) -> NDArray[np.float64]:
    """Prior probabilities (C,): training frequencies for None, equal for "uniform", or as given.

    With ``positive`` a prior of zero is an error too.

    >>> class_prior(None, np.array([1, 3]))
    array([0.25, 0.75])
    """
    if priors is None:
        return counts / counts.sum()
    if isinstance(priors, str):
        return np.full(len(counts), 1 / len(counts))
    given = np.asarray(priors, dtype=float)
    usable = given > 0 if positive else given >= 0
    if given.shape != (len(counts),) or not usable.all() or not np.isclose(given.sum(), 1):
        kind = "positive probabilities" if positive else "probabilities"
        raise InputError(
            f"{option('priors')} cannot be used",
            expected=f"{len(counts)} {kind} that sum to 1, one per class",
            got=str(priors),
        )
    return given


def check_times(model: VoxelModel, n_voxels: int) -> int:
    """Refuse scans that are not one or more values per voxel of the space; returns `n_voxels`."""
    if model.n_features_in_ % n_voxels:
        raise InputError(
            f"Scans do not fit the {option('space')} of {type(model).__name__}",
            expected=f"a multiple of its {n_voxels} voxels as features",
            got=f"{model.n_features_in_} features",
            remedy="Build the space from the mask that the scans were read with",
        )
    return n_voxels
