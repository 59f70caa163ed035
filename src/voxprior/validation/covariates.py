"""Covariates (age, sex, head size, site): taken out of the images inside the fold, and alone.

    X_vox = mean + (Z - mean Z) B + residual,   B = least squares on the training scans     (1)

Residuals of test scans use the training fold's B and means, so nothing is learned from them. The
covariates are the last columns of X (`with_covariates`), which every splitter, search and
permutation then moves together with the scans; `CovariateRemoval`, first in a pipeline, takes them
off again. A level that a training fold does not have (a site left out) gets coefficient 0.

| symbol | variable | shape |
|---|---|---|
| Z | `covariates` | (n, q) |
| B | `coef_` | (q, V) |

A score is believed to come from the images only if the covariates alone score less: see
`compare_with_covariates`.

References
----------
Snoek, Miletić & Scholte, "How to control for confounds in decoding analyses of neuroimaging data",
NeuroImage 184, 2019.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, is_classifier
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from voxprior.blocks import BlockedScans, blocked, refuse_infinite, voxel_blocks, with_columns
from voxprior.errors import InputError, option
from voxprior.validation.folds import make_folds
from voxprior.validation.result import Result
from voxprior.validation.run import cross_validate


class CovariateCoding(NamedTuple):
    """How a table of covariates becomes numbers: learned on training scans, the same for new ones.

    A number is a column as it is; text, booleans and categories are one column per level but the
    first.

    Examples
    --------
    >>> import pandas as pd
    >>> from voxprior.validation import CovariateCoding
    >>> table = pd.DataFrame({"age": [31.0, 54.0, 40.0], "site": ["A", "B", "C"]})
    >>> coding = CovariateCoding.of(table)
    >>> coding.columns, coding.matrix(table[1:2]).tolist()
    (['age', 'site=B', 'site=C'], [[54.0, 1.0, 0.0]])
    """

    levels: dict[str, list]  # of each covariate; empty for numbers

    @classmethod
    def of(cls, covariates) -> CovariateCoding:
        """Learn names and levels from a table (or array) of training scans."""
        table = _table(covariates)
        coding = cls(
            {
                str(name): [] if column.dtype.kind in "iuf" else sorted(column.unique(), key=str)
                for name, column in table.items()
            }
        )
        if not coding.columns:
            raise InputError(
                f"None of {option('covariates')} varies",
                expected="two levels or more",
                got="one of each",
            )
        return coding

    @property
    def columns(self) -> list[str]:
        """Names of the columns of numbers."""
        return [
            column
            for name, levels in self.levels.items()
            for column in ([f"{name}={level}" for level in levels[1:]] if levels else [name])
        ]

    def matrix(self, covariates) -> np.ndarray:
        """Numbers (n, q) of any table with these covariates."""
        table = _table(covariates)
        missing = [name for name in self.levels if name not in table]
        if missing:
            raise InputError(
                f"{option('covariates')} lack {', '.join(missing)}",
                expected=", ".join(self.levels),
                got=", ".join(map(str, table)),
            )
        numbers = []
        for name, levels in self.levels.items():
            strange = sorted(set(table[name]) - set(levels), key=str) if levels else []
            if strange:
                raise InputError(
                    f"Covariate '{name}' had the levels {levels} in training",
                    got=repr(strange[0]),
                )
            coded = [table[name] == level for level in levels[1:]] if levels else [table[name]]
            numbers += [column.to_numpy(dtype=float) for column in coded]
        return np.column_stack(numbers)


def _table(covariates) -> pd.DataFrame:
    table = pd.DataFrame(covariates)
    table = table.set_axis([str(name) for name in table.columns], axis=1)
    if table.isna().to_numpy().any():
        missing = table.columns[table.isna().any()].tolist()
        raise InputError(
            f"Covariates {', '.join(missing)} have missing values",
            remedy="Fill them, or drop those scans",
        )
    return table


def covariate_matrix(covariates) -> tuple[np.ndarray, list[str]]:
    """Numbers from a table of covariates and the names of their columns, see `CovariateCoding`.

    Parameters
    ----------
    covariates : DataFrame, or array of shape (n, q)
        Text, booleans and categories become indicator columns.

    Returns
    -------
    Z : array of shape (n, q')
    names : list of str

    Examples
    --------
    >>> import pandas as pd
    >>> from voxprior.validation import covariate_matrix
    >>> Z, names = covariate_matrix(pd.DataFrame({"age": [31.0, 54.0], "site": ["A", "B"]}))
    >>> names, Z.tolist()
    (['age', 'site=B'], [[31.0, 0.0], [54.0, 1.0]])
    """
    coding = CovariateCoding.of(covariates)
    return coding.matrix(covariates), coding.columns


def with_covariates(X, Z) -> Any:
    """Images with their covariates as the last columns, for `CovariateRemoval`."""
    check_consistent_length(X, Z)
    X = blocked(X)
    if isinstance(X, BlockedScans):
        return with_columns(X if X.dtype.kind == "f" else X.as_type(float), Z)
    X = np.asarray(X)
    kind = X.dtype if X.dtype.kind == "f" else np.dtype(float)
    return np.concatenate([X.astype(kind, copy=False), np.asarray(Z, dtype=kind)], axis=1)


class Residuals(NamedTuple):
    """Voxels without the effect of covariates; means were subtracted from the covariates."""

    covariates: np.ndarray
    coef: np.ndarray

    def of(self, values: np.ndarray, columns: Any) -> np.ndarray:
        """Values (n, some voxels) without what covariates (n, q) explain of them."""
        fitted = self.covariates @ self.coef[:, columns]
        return values - fitted.astype(values.dtype, copy=False)


class CovariateRemoval(TransformerMixin, BaseEstimator):
    """Take off the last columns of X and regress them out of the others.

    Parameters
    ----------
    n_covariates : int, default=0
        How many of the last columns are covariates.

    Attributes
    ----------
    coef_ : array of shape (q, V)
        B of (1).
    covariate_mean_ : array of shape (q,)
        Means of the covariates in training.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.validation import CovariateRemoval, with_covariates
    >>> age = np.array([[20.0], [30.0], [40.0], [50.0]])
    >>> X = with_covariates(2 * age + [[1.0], [-1.0], [-1.0], [1.0]], age)
    >>> CovariateRemoval(1).fit_transform(X).ravel().round(6).tolist()
    [71.0, 69.0, 69.0, 71.0]
    """

    def __init__(self, n_covariates=0):
        self.n_covariates = n_covariates

    def fit(self, X, y=None):
        """Estimate the coefficients on training scans."""
        X = self._checked(X, reset=True)
        if not 0 <= self.n_covariates < X.shape[1]:
            raise InputError(
                f"{option('n_covariates', self.n_covariates)} cannot be used",
                expected=f"0 to {X.shape[1] - 1}, because X has {X.shape[1]} columns",
            )
        V = X.shape[1] - self.n_covariates
        Z = X[:, V:].astype(float)
        self.covariate_mean_ = Z.mean(axis=0)
        centred = Z - self.covariate_mean_
        # Of minimal norm: a covariate that does not vary in this fold gets coefficient 0.
        inverse = np.linalg.pinv(centred) if self.n_covariates else np.zeros((0, len(X)))
        # The rows of the pseudo-inverse sum to 0, so X needs no centring.
        if isinstance(X, BlockedScans):
            blocks = voxel_blocks(len(X), V)
            self.coef_ = np.hstack([inverse @ X[:, block] for block in blocks])
        else:
            self.coef_ = inverse @ X[:, :V]
        return self

    def _checked(self, X, reset):
        X = blocked(X)
        if not isinstance(X, BlockedScans):
            return validate_data(self, X, dtype=(np.float64, np.float32), reset=reset)
        refuse_infinite(X, type(self).__name__)
        if reset:
            self.n_features_in_ = X.shape[1]
        elif X.shape[1] != self.n_features_in_:
            raise InputError(
                "X does not fit these covariates",
                expected=f"{self.n_features_in_} columns, as in fit",
                got=str(X.shape[1]),
            )
        return X

    def transform(self, X):
        """Residuals, with the training mean kept."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        V = X.shape[1] - self.n_covariates
        residuals = Residuals(X[:, V:] - self.covariate_mean_, self.coef_)
        if isinstance(X, BlockedScans):
            return X.changed(residuals.of, V)
        return residuals.of(X[:, :V], slice(V))

    def get_feature_names_out(self, input_features=None):
        """Names of the columns that stay."""
        names = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        return names[: self.n_features_in_ - self.n_covariates]


class CovariateComparison(NamedTuple):
    """The same folds decoded from images, from images without covariates, from covariates alone."""

    images: Result
    adjusted: Result
    covariates: Result

    @property
    def table(self) -> pd.DataFrame:
        """One row per decoder, the one of the covariates alone included; one column per score."""
        rows = {
            "images": self.images,
            "images, covariates regressed out": self.adjusted,
            "covariates alone": self.covariates,
        }
        return pd.DataFrame({name: result.pooled() for name, result in rows.items()}).T


def compare_with_covariates(
    estimator, X, y, covariates, groups=None, cv=None, *, variables=None, allow=(), **options
) -> CovariateComparison:
    """Decode images as they are, images with covariates regressed out, and covariates alone.

    The audit gets the covariates, and checks whether labels correlate with them; that is reported
    once, for the images as they are.

    Parameters
    ----------
    estimator, X, y, groups, cv, variables, allow, **options
        As in `cross_validate`. For leave-one-site-out give the sites as groups.
    covariates : DataFrame or array of shape (n, q)
        See `covariate_matrix`.

    Returns
    -------
    CovariateComparison
        Covariates are decoded by logistic regression, or by ridge regression.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from voxprior.validation import compare_with_covariates
    >>> rng, y = np.random.default_rng(0), np.tile([0, 1], 20)
    >>> age = 30 + 8 * y + rng.normal(size=40)
    >>> X = age[:, None] + rng.normal(size=(40, 5))  # the images show age and nothing else
    >>> known = ["labels-confounded"]
    >>> found = compare_with_covariates(LogisticRegression(), X, y, age[:, None], cv=4, allow=known)
    >>> [round(result.pooled()["accuracy"], 2) for result in found]
    [1.0, 0.45, 1.0]
    """
    Z, _ = covariate_matrix(covariates)
    known = {str(name): column.to_numpy() for name, column in _table(covariates).items()}
    known |= dict(variables or {})
    # Regressed out, or decoded on purpose: their correlation with labels was reported before.
    said = {*allow, "labels-confounded"}
    folds, _ = make_folds(estimator, X, y, groups, cv)
    baseline = LogisticRegression() if is_classifier(estimator) else RidgeCV(np.logspace(-3, 3, 7))
    adjusted = make_pipeline(CovariateRemoval(Z.shape[1]), estimator)
    return CovariateComparison(
        cross_validate(estimator, X, y, groups, folds, variables=known, allow=allow, **options),
        *(
            cross_validate(model, data, y, groups, folds, variables=known, allow=said, **options)
            for model, data in (
                (adjusted, with_covariates(X, Z)),
                (make_pipeline(StandardScaler(), baseline), Z),
            )
        ),
    )
