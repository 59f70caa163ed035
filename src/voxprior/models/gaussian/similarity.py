"""From scans to centred, scaled Gram matrices: the part of an estimator that sees voxels.

One Gram matrix a kernel: all features, the features of one region, or a given matrix. Matrices are
centred by kernel algebra with training statistics and divided by the mean of their training
diagonal, so that hyper-parameters do not depend on the unit of X.

==========  ==================  ==============
symbol      variable            shape
==========  ==================  ==============
G           gram_               (M, n, n)
m           gram_means_         (M, n)
scale       gram_scale_         (M,)
==========  ==================  ==============
"""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import validate_data

from voxprior.models.gaussian.gram import (
    Cross,
    center_cross,
    center_gram,
    cross_gram,
    gram_matrix,
    is_dask,
    is_mapped,
)
from voxprior.models.gaussian.kernels import SHAPES, Kernel

# Kernels that are inner products of voxels, for which the span of the training scans has a meaning.
LINEAR = ("linear", "precomputed")


class GramEstimator(BaseEstimator):
    """Base of the estimators of this family.

    Subclasses have the parameters `kernel`, `regions`, `center`, `normalize`, `offset`, `degree`
    and `copy_X`.
    """

    _parameter_constraints: ClassVar[dict] = {
        "kernel": [str, list, tuple],
        "regions": ["array-like", None],
        "center": ["boolean"],
        "normalize": ["boolean"],
        "offset": [Interval(Real, 0, None, closed="left")],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "copy_X": ["boolean"],
        "random_state": ["random_state"],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _kernels(self) -> list[Kernel]:
        """The terms of the covariance, one a Gram matrix."""
        shapes = [self.kernel] if isinstance(self.kernel, str) else list(self.kernel)
        for shape in shapes:
            if shape not in SHAPES:
                raise ValueError(
                    f"The 'kernel' parameter of {type(self).__name__} must be one of "
                    f"{', '.join(SHAPES)}, or a list of these. Got {shape!r} instead."
                )
        if "precomputed" in shapes and set(shapes) != {"precomputed"}:
            raise ValueError(
                "Precomputed kernels cannot be mixed with kernels of voxels: give all Gram "
                "matrices side by side as X (n, M n) with kernel=['precomputed'] * M, or none."
            )
        if self.regions is not None:
            n_regions = len(np.unique(self.regions))
            shapes = shapes * n_regions if len(shapes) == 1 else shapes
            if len(shapes) != n_regions:
                raise ValueError(
                    f"'kernel' lists {len(shapes)} kernels for {n_regions} regions: give one "
                    "kernel for all regions or one for each, in the order of sorted labels."
                )
        return [Kernel(shape, float(self.offset), int(self.degree)) for shape in shapes]

    def _columns(self) -> list[np.ndarray | None]:
        """Features of each kernel; None is all of them."""
        if self.regions is None:
            return [None] * len(self._kernels())
        labels = np.asarray(self.regions)
        if labels.shape != (self.n_features_in_,):
            raise ValueError(
                f"'regions' must name the region of each of the {self.n_features_in_} features; "
                f"got an array of shape {labels.shape}."
            )
        return [np.flatnonzero(labels == label) for label in np.unique(labels)]

    @property
    def _precomputed(self) -> bool:
        return self._kernels()[0].shape == "precomputed"

    def _read(self, X: Any, *, reset: bool) -> Any:
        """Check X without converting it: dask and memory-mapped arrays stay where they are."""
        if is_dask(X):
            if X.ndim != 2:
                raise ValueError(f"Expected a 2-dimensional array, got {X.ndim} dimensions.")
            if reset:
                self.n_features_in_ = X.shape[1]
            elif X.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                    f"{self.n_features_in_} features as input."
                )
            return X
        # Finiteness is checked on the Gram diagonal, which saves a pass over the voxels.
        return validate_data(
            self,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            ensure_min_samples=2 if reset else 1,
        )

    def _fit_gram(self, X: Any) -> np.ndarray:
        """Gram matrices (M, n, n) of the training scans, centred and scaled."""
        kernels, n = self._kernels(), X.shape[0]
        if self._precomputed:
            if X.shape[1] != len(kernels) * n:
                raise ValueError(
                    f"Precomputed kernel matrix is a square matrix: expected shape "
                    f"({n}, {len(kernels) * n}) for {len(kernels)} kernel(s), got {X.shape}."
                )
            grams = [np.asarray(part, dtype=float) for part in np.split(X, len(kernels), axis=1)]
            self._refuse_impossible(grams)
        else:
            grams = [gram_matrix(X, columns) for columns in self._columns()]
        self._refuse_infinite(X, np.array([np.diag(gram) for gram in grams]))
        self.gram_means_ = np.array([gram.mean(axis=0) for gram in grams])
        if self.center:
            grams = [center_gram(gram)[0] for gram in grams]
        self.gram_scale_ = np.array([self._scale(gram) for gram in grams])
        self.gram_ = np.array([gram / scale for gram, scale in zip(grams, self.gram_scale_)])
        if not self._precomputed:
            keep = not self.copy_X or is_dask(X) or is_mapped(X)
            self.X_fit_ = X if keep else X.copy()
        return self.gram_

    def _scale(self, gram: np.ndarray) -> float:
        mean = float(np.trace(gram)) / len(gram)
        return mean if self.normalize and mean > 0 else 1.0

    def _cross_gram(self, X: Any, diagonal: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Similarity of new scans (M, n_new, n) and their squared norms (M, n_new)."""
        if self._precomputed:
            crosses = self._given_crosses(X, diagonal)
        else:
            crosses = [cross_gram(X, self.X_fit_, columns) for columns in self._columns()]
        self._refuse_infinite(X, np.array([cross.squared_norms for cross in crosses]))
        if self.center:
            crosses = [center_cross(c, means) for c, means in zip(crosses, self.gram_means_)]
        scale = self.gram_scale_
        gram = np.array([cross.gram / s for cross, s in zip(crosses, scale)])
        return gram, np.array([cross.squared_norms / s for cross, s in zip(crosses, scale)])

    def _given_crosses(self, X: np.ndarray, diagonal: np.ndarray | None) -> list[Cross]:
        parts = np.split(np.asarray(X, dtype=float), len(self._kernels()), axis=1)
        if diagonal is None:
            # Undo centring: g_ii = gc_ii + 2 m_i − m̄, averaged over the training scans is tr/n +
            # m̄.
            own = np.einsum("mii->m", self.gram_) / self.gram_.shape[1] * self.gram_scale_
            own = own + self.gram_means_.mean(axis=1) if self.center else own
            diagonal = np.repeat(own[:, None], len(X), axis=1)
        norms = np.asarray(diagonal, dtype=float).reshape(len(parts), -1)
        if norms.shape[1] != len(X):
            raise ValueError(
                f"'diagonal' must hold k(x, x) of each of the {len(X)} new scans for each of "
                f"{len(parts)} kernel(s); got shape {np.shape(diagonal)}."
            )
        return [Cross(part, norm) for part, norm in zip(parts, norms)]

    @staticmethod
    def _refuse_impossible(grams: list[np.ndarray]) -> None:
        for gram in grams:
            worst = np.abs(gram - gram.T).max()
            if worst > 1e-6 * max(np.abs(gram).max(), np.finfo(float).tiny):
                raise ValueError(
                    f"A precomputed training kernel must be symmetric; it differs from its "
                    f"transpose by up to {worst:.3g}. Pass K(train, train) to fit."
                )
            values = np.linalg.eigvalsh(gram)
            if values[0] < -1e-6 * max(np.abs(values).max(), np.finfo(float).tiny):
                raise ValueError(
                    "A precomputed training kernel must be positive semi-definite; its smallest "
                    f"eigenvalue is {values[0]:.3g}. Pass a covariance, not a distance."
                )

    def _refuse_infinite(self, X: Any, norms: np.ndarray) -> None:
        if np.isfinite(norms).all() and not self._precomputed:
            return
        if not is_dask(X):
            assert_all_finite(X, estimator_name=type(self).__name__, input_name="X")
        if not np.isfinite(norms).all():
            raise ValueError("Input X contains NaN, infinity or values too large to be squared.")
