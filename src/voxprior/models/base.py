"""The contract of a family: what its estimators share, whatever their mathematics.

A family is a folder of algorithm files and `estimator.py` (or several files, where it has several
estimators), whose classes inherit `VoxelClassifier` or `VoxelRegressor` and define

* ``__init__`` and ``_parameter_constraints``, in scikit-learn's manner;
* ``fit``, which starts with `_training_scans` (or `_encode`, where X is not an array in memory);
* ``predict_proba``, or ``predict_log_proba`` and ``predict_proba`` where the logarithm comes first;
* ``voxel_maps``, what the fitted model used, by name;
* ``paper``, the estimator exactly as published.

Validation of scans, priors and space is here, and that of labels in `voxprior.labels`, once, with
their error messages. The guard against answers that are not finite is here too: scans whose squares
overflow double precision are refused before a fit, and the answers of every method in `ANSWERS` are
checked, whichever family defines it.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.utils import assert_all_finite, check_consistent_length
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from voxprior.algebra import finite_or_refused, floored_log
from voxprior.blocks import BlockedScans, blocked, refuse_infinite
from voxprior.errors import InputError, option
from voxprior.labels import check_two_classes, encode, known_codes

__all__ = [
    "FLOATS",
    "ManyLabellings",
    "VoxelClassifier",
    "VoxelEstimator",
    "VoxelModel",
    "VoxelRegressor",
    "VoxelTransformer",
    "check_times",
    "check_two_classes",
    "class_prior",
    "class_values",
    "known_codes",
]

# Scans are read as they are, and summed in float64.
FLOATS = (np.float64, np.float32)
# Methods whose answers must be finite.
ANSWERS = {"predict", "predict_proba", "predict_log_proba", "predict_joint_log_proba"}
ANSWERS |= {"decision_function", "predict_latent", "predict_interval", "predict_quantile"}
ANSWERS |= {"predict_cdf", "predict_with_proba"}
# Numbers to predict: squares of the differences of larger ones would not be finite.
LARGEST_TARGET = 1e150


def _finite_or_refused(method: Callable) -> Callable:
    """The method, with an error where its answers are not finite."""
    impossible = -np.inf if "log" in method.__name__ else 0.0  # log p of a class of prior 0

    @wraps(method)
    def answer(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = method(self, *args, **kwargs)
        first, *others = given if isinstance(given, tuple) else (given,)
        finite_or_refused(first, type(self).__name__, impossible)
        for deviation in others:  # a t distribution of few degrees of freedom has none
            finite_or_refused(deviation, type(self).__name__, np.inf)
        return given

    return answer


class VoxelEstimator(BaseEstimator):
    """An estimator whose features are voxels, or voxels at several times."""

    # What scans are read as; "numeric" leaves bytes and booleans as they are.
    _scan_dtype: ClassVar[Any] = FLOATS
    # Whether scans that do not fit into memory are read a block of voxels at a time.
    _reads_blocks: ClassVar[bool] = False
    # Range of the largest value in which sums of squares, and their inverses, keep their digits.
    _scan_range: ClassVar[tuple[float, float]] = (1e-140, 1e140)

    def _checked_scans(self, X: Any, reset: bool = True, **checks: Any) -> Any:
        """Scans (n, J) as an array, or `BlockedScans` where they do not fit into memory."""
        X = blocked(X)
        if not (isinstance(X, BlockedScans) and self._reads_blocks):
            X = validate_data(self, X, dtype=self._scan_dtype, reset=reset, **checks)
            return self._in_range(X, reset)
        if len(X) < checks.get("ensure_min_samples", 1):
            few = f"{checks['ensure_min_samples']} scans or more"
            raise InputError("There are too few scans", expected=few, got=str(len(X)))
        if reset:
            self.n_features_in_ = X.shape[1]
        elif X.shape[1] != self.n_features_in_:
            raise InputError(
                f"X does not fit this {type(self).__name__}",
                expected=f"{self.n_features_in_} features, as in fit",
                got=str(X.shape[1]),
            )
        if self._scan_dtype is FLOATS and X.dtype not in FLOATS:
            X = X.as_type(np.float64)
        if checks.get("ensure_all_finite", True):
            refuse_infinite(X, type(self).__name__)
        return X

    def _scans_and_targets(
        self, X: Any, y: Any, reset: bool = True, y_numeric: bool = False, **checks: Any
    ) -> tuple[Any, NDArray]:
        """Scans as in `_checked_scans`, and as many labels or targets."""
        X = blocked(X)
        if not isinstance(X, BlockedScans):
            checks |= {"y_numeric": y_numeric, "dtype": self._scan_dtype}
            X, y = validate_data(self, X, y, reset=reset, **checks)
            return self._in_range(X, reset), y
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        if y.dtype.kind == "f":
            assert_all_finite(y, estimator_name=type(self).__name__, input_name="y")
        return self._checked_scans(X, reset, **checks), y

    def _in_range(self, X: NDArray, learns: bool) -> NDArray:
        """Scans, unless they are too large to be squared, or too small to learn from."""
        if X.dtype != np.float64 or not X.size:  # squares of single precision are within range
            return X
        least, most = self._scan_range
        largest = max(float(X.max()), -float(X.min()))
        if largest > most or (learns and 0 < largest < least):
            raise InputError(
                f"The scans are too {'large' if largest > most else 'small'} for double precision "
                f"to hold the squares that {type(self).__name__} takes of them",
                expected=f"a largest value between {least:g} and {most:g}",
                got=f"{largest:.3g}",
                remedy="Give them in another unit, or leave out the voxels that are out of range",
            )
        return X

    def _new_scans(self, X: Any) -> Any:
        """Scans to predict, with the features of those in `fit`."""
        check_is_fitted(self)
        return self._checked_scans(X, reset=False)

    def _to_refit(self, X: Any) -> tuple[Self, Any]:
        """A model like this one, and X in the form in which it is quickly fitted to parts."""
        return self, X

    def _part(self, X: Any, rows: NDArray, trained: NDArray) -> Any:
        """Scans `rows` of X as a model trained on the scans `trained` takes them."""
        return X[rows]

    def _n_voxels(self) -> int:
        """V, the voxels of the space; without one every feature is a voxel of its own."""
        space = getattr(self, "space", None)
        return self.n_features_in_ if space is None else check_times(self, space.n_voxels)


class VoxelTransformer(TransformerMixin, VoxelEstimator):
    """A `VoxelEstimator` that prepares scans for a model.

    ``words`` says what it does, for a methods section: "after ...".
    """

    words: ClassVar[str] = ""


class VoxelModel(VoxelEstimator, metaclass=ABCMeta):
    """A `VoxelEstimator` that predicts, with maps of what it used."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ANSWERS & vars(cls).keys():
            if callable(vars(cls)[name]):
                setattr(cls, name, _finite_or_refused(vars(cls)[name]))

    @abstractmethod
    def voxel_maps(self) -> dict[str, NDArray]:
        """Maps of what the fitted model used, (n_voxels,) or (n_features,), most useful first."""


class VoxelRegressor(RegressorMixin, VoxelModel):
    """A `VoxelModel` that predicts a number."""

    def _targets(self, y: Any) -> NDArray[np.float64]:
        """Finite numbers (n,) to learn."""
        y = column_or_1d(y, warn=True).astype(float)
        assert_all_finite(y, estimator_name=type(self).__name__, input_name="y")
        largest = np.abs(y).max(initial=0.0)
        if largest > LARGEST_TARGET:
            raise InputError(
                "The numbers to predict are too large to be squared",
                expected=f"up to {LARGEST_TARGET:g}",
                got=f"{largest:g}",
                remedy="Give them in another unit",
            )
        return y


class VoxelClassifier(ClassifierMixin, VoxelModel):
    """A `VoxelModel` that predicts classes; `classes_` are sorted, codes number them."""

    def _training_scans(self, X: Any, y: Any, **checks: Any) -> tuple[NDArray, NDArray[np.intp]]:
        """Scans (n, J) and class codes (n,) to learn from; sets `classes_`, two at least."""
        X, y = self._scans_and_targets(X, y, **checks)
        return X, self._encode(y)

    def _encode(self, y: Any) -> NDArray[np.intp]:
        """Class codes of labels that name `classes_`."""
        self.classes_, codes = encode(y)
        return codes

    def _labeled_scans(self, X: Any, y: Any) -> tuple[NDArray, NDArray[np.intp]]:
        """Scans (n, J) and codes (n,) of labels that `fit` has seen."""
        check_is_fitted(self)
        X, y = self._scans_and_targets(X, y, reset=False)
        return X, self._codes(y)

    def _codes(self, y: Any) -> NDArray[np.intp]:
        """Class codes of labels that `fit` has seen."""
        return known_codes(y, self.classes_)

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Logarithm of `predict_proba`, (n, n_classes)."""
        return floored_log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray:
        """Most probable class of each scan; the first of equals."""
        best = self.predict_log_proba(X).argmax(axis=1)
        return self.classes_[best]

    def _predicts_by_proba(self) -> bool:
        """Whether `predict` is what this class makes of `predict_proba`."""
        kind = type(self)
        own = (kind.predict, kind.predict_log_proba)
        return own == (VoxelClassifier.predict, VoxelClassifier.predict_log_proba)

    @available_if(_predicts_by_proba)
    def predict_with_proba(self, X: Any) -> tuple[NDArray, NDArray[np.float64]]:
        """What `predict` and `predict_proba` return, from one pass over the scans."""
        p = self.predict_proba(X)
        return self.classes_[floored_log(p).argmax(axis=1)], p


class ManyLabellings(VoxelClassifier):
    """A `VoxelClassifier` that fits many labellings of the same scans at once.

    That is for permutation tests, and `voxprior.validation.batch` says what they ask. A family
    defines ``prepare``, `_fit_many` and the words of what that fits.
    """

    fit_many_words: ClassVar[str]
    labels_at_once: ClassVar[int] = 64
    most_scans_at_once: ClassVar[float] = 1000

    def _can_fit_many(self) -> bool:
        """Whether the parameters allow it."""
        return True

    @abstractmethod
    def _fit_many(self, prepared: Any, rows: NDArray, Y: NDArray, n_classes: int) -> Any:
        """Do what `fit_many` says."""

    @available_if(lambda self: self._can_fit_many())
    def fit_many(self, prepared: Any, rows: Any, Y: Any, n_classes: int) -> Any:
        """Fit many labellings of some of the prepared scans.

        ``fit_many_words`` says what is fitted, where it is not what ``fit`` does.

        Parameters
        ----------
        prepared : object
            What ``prepare`` returned for an estimator of the same parameters.
        rows : integer array of shape (k,)
            Which scans train.
        Y : integer array of shape (k, B)
            Their class codes, one labelling per column.
        n_classes : int

        Returns
        -------
        object
            Its ``decision_function(rows)`` gives the values of other scans: (m, B) for two classes,
            positive for the second, and (m, B, C) for more.

        Examples
        --------
        >>> import numpy as np
        >>> from voxprior import RandomFieldClassifier
        >>> X = np.random.default_rng(0).normal(size=(24, 20))
        >>> y = np.tile([0, 1], 12)
        >>> X[:, 3] += 8 * y
        >>> field, train = RandomFieldClassifier(n_nodes=2), np.arange(20)
        >>> many = field.fit_many(field.prepare(X), train, np.column_stack([y, 1 - y])[train], 2)
        >>> (many.decision_function(np.arange(20, 24)) > 0).T.astype(int)
        array([[0, 1, 0, 1],
               [1, 0, 1, 0]])
        """
        return self._fit_many(prepared, np.asarray(rows), np.asarray(Y), n_classes)


def class_values(values: NDArray) -> NDArray:
    """Values of each class (..., C), as one number where there are two: the second less the first.

    >>> class_values(np.array([[1.0, 3.0], [2.0, 0.5]]))
    array([ 2. , -1.5])
    """
    return values[..., 1] - values[..., 0] if values.shape[-1] == 2 else values


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


def check_times(model: VoxelEstimator, n_voxels: int, parameter: str = "space") -> int:
    """Refuse scans that are not one or more values per voxel; returns `n_voxels`.

    `parameter` is where the number of voxels comes from.
    """
    if model.n_features_in_ % n_voxels:
        raise InputError(
            f"Scans do not fit the {option(parameter)} of {type(model).__name__}",
            expected=f"a multiple of its {n_voxels} voxels as features",
            got=f"{model.n_features_in_} features",
            remedy=f"Build the {option(parameter)} from the mask that the scans were read with",
        )
    return n_voxels
