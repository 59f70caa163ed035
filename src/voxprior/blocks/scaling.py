"""VoxelScaler: every voxel by its mean and standard deviation over the training scans."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from voxprior.blocks.scans import BlockedScans, Columns, blocked
from voxprior.blocks.sums import BLOCK_ELEMENTS, refuse_infinite, voxel_blocks
from voxprior.blocks.threads import side_by_side, sum_over_blocks
from voxprior.errors import InputError


class VoxelScaler(StandardScaler):
    """scikit-learn's `StandardScaler`, a block of voxels at a time: nothing is copied whole.

    Of scans that do not fit into memory `transform` reads nothing, and scales blocks when they are
    asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.blocks import VoxelScaler
    >>> VoxelScaler().fit_transform(np.array([[1.0, 7.0], [3.0, 7.0]]))
    array([[-1.,  0.],
           [ 1.,  0.]])
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> VoxelScaler:
        """Learn mean and standard deviation of every voxel of training scans (n, p)."""
        X = blocked(X)
        if isinstance(X, BlockedScans):
            refuse_infinite(X, type(self).__name__)
            self._join([self._of(X[:, block]) for block in voxel_blocks(*X.shape)])
        elif sample_weight is None and _is_large(X):
            self._join(side_by_side(lambda at: self._of(X[:, at]), voxel_blocks(*X.shape)))
        else:
            super().fit(X, y, sample_weight)
        return self

    def gram_by(self, X: NDArray, train: NDArray[np.intp]) -> NDArray[np.float64]:
        """Inner products (n, n) of all scans, scaled by some of them; neither are copied whole.

        >>> X = np.array([[1.0, 7.0], [3.0, 7.0], [5.0, 7.0]])
        >>> VoxelScaler().gram_by(X, np.array([0, 1]))
        array([[ 1., -1., -3.],
               [-1.,  1.,  3.],
               [-3.,  3.,  9.]])
        """

        def add(block: slice, total: NDArray) -> None:
            values = X[:, block]
            known = self._of(values[train])
            scaled = values.astype(np.float64)
            scaled -= known.mean_ if self.with_mean else 0.0
            scaled /= known.scale_ if self.with_std else 1.0
            total += scaled @ scaled.T

        n = len(X)
        return sum_over_blocks(add, voxel_blocks(*X.shape), (n, n))[0]

    def _of(self, values: NDArray) -> StandardScaler:
        """Statistics of some voxels."""
        own = StandardScaler(with_mean=self.with_mean, with_std=self.with_std)
        n, mean = len(values), values.mean(axis=0, dtype=np.float64)
        if not (self.with_mean and self.with_std and np.isfinite(mean).all()):
            return own.fit(values.astype(np.float64, copy=False))
        # The formulas of scikit-learn, without its copies of the values.
        centered = np.subtract(values, mean, dtype=np.float64)
        squares = np.einsum("ij,ij->j", centered, centered)
        var = (squares - centered.sum(axis=0) ** 2 / n) / n
        eps = np.finfo(np.float64).eps
        constant = var <= n * eps * var + (n * mean * eps) ** 2
        own.mean_, own.var_, own.scale_ = mean, var, np.where(constant, 1.0, np.sqrt(var))
        own.n_samples_seen_, own.n_features_in_ = n, len(mean)
        return own

    def _join(self, parts: list[StandardScaler]) -> None:
        """Take the statistics of all voxels from those of their blocks."""
        for name in ("mean_", "var_", "scale_"):
            found = [getattr(part, name) for part in parts]
            setattr(self, name, None if found[0] is None else np.concatenate(found))
        seen = [part.n_samples_seen_ for part in parts]  # of every voxel where some lack values
        counts = [np.broadcast_to(n, part.n_features_in_) for n, part in zip(seen, parts)]
        self.n_samples_seen_ = np.concatenate(counts) if any(map(np.ndim, seen)) else seen[0]
        self.n_features_in_ = sum(part.n_features_in_ for part in parts)

    def transform(self, X: Any, copy: bool | None = None) -> Any:
        """Scans (m, p) in standard deviations from the mean."""
        X = blocked(X)
        if not isinstance(X, BlockedScans):
            scaled = self._scaled_copy(X) if self._copies(X, copy) else None
            return super().transform(X, copy) if scaled is None else scaled
        check_is_fitted(self)
        if X.shape[1] != self.n_features_in_:
            raise InputError(
                "X does not fit this VoxelScaler",
                expected=f"{self.n_features_in_} features, as in fit",
                got=str(X.shape[1]),
            )
        return (X if X.dtype.kind == "f" else X.as_type(np.float64)).changed(self._scaled)

    def _copies(self, X: Any, copy: bool | None) -> bool:
        """Whether these are scans that fit, to be scaled in a copy; all else is scikit-learn's."""
        scales = self.with_mean and self.with_std and (self.copy if copy is None else copy)
        return bool(
            scales
            and _is_large(X)
            and getattr(self, "n_features_in_", None) == X.shape[1]
            and not hasattr(self, "feature_names_in_")
        )

    def _scaled_copy(self, X: NDArray) -> NDArray | None:
        """What scikit-learn makes of them, block by block; None of NaN or infinite values."""
        found = np.empty_like(X)

        def scale(block: slice) -> bool:
            part = found[:, block]
            part[:] = X[:, block]
            part -= self.mean_[block].astype(X.dtype)
            part /= self.scale_[block].astype(X.dtype)
            return bool(np.isfinite(part.sum(dtype=np.float64)))

        return found if all(side_by_side(scale, voxel_blocks(*X.shape))) else None

    def _scaled(self, values: NDArray, columns: Columns) -> NDArray:
        # As scans in memory are scaled, in their own precision.
        scaled = values - self.mean_[columns].astype(values.dtype)
        scaled /= self.scale_[columns].astype(values.dtype)
        return scaled


def _is_large(X: Any) -> bool:
    """Whether a copy of this array in double precision costs more than a pass over it."""
    plain = type(X) is np.ndarray and X.ndim == 2 and X.dtype in (np.float32, np.float64)
    return plain and X.size > BLOCK_ELEMENTS
