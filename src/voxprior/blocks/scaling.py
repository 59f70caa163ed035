"""VoxelScaler: every voxel by its mean and standard deviation over the training scans."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from voxprior.blocks.scans import BlockedScans, Columns, blocked
from voxprior.blocks.sums import refuse_infinite, voxel_blocks
from voxprior.errors import InputError


class VoxelScaler(StandardScaler):
    """scikit-learn's `StandardScaler`, also for scans that do not fit into memory.

    These are read a block of voxels at a time in `fit`; `transform` reads nothing, and scales
    blocks when they are asked for.

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
        if not isinstance(X, BlockedScans):
            return super().fit(X, y, sample_weight)
        refuse_infinite(X, type(self).__name__)
        parts = [
            StandardScaler().fit(X[:, block].astype(np.float64)) for block in voxel_blocks(*X.shape)
        ]
        for name in ("mean_", "var_", "scale_"):
            setattr(self, name, np.concatenate([getattr(part, name) for part in parts]))
        self.n_features_in_, self.n_samples_seen_ = X.shape[1], parts[0].n_samples_seen_
        return self

    def transform(self, X: Any, copy: bool | None = None) -> Any:
        """Scans (m, p) in standard deviations from the mean."""
        X = blocked(X)
        if not isinstance(X, BlockedScans):
            return super().transform(X, copy)
        check_is_fitted(self)
        if X.shape[1] != self.n_features_in_:
            raise InputError(
                "X does not fit this VoxelScaler",
                expected=f"{self.n_features_in_} features, as in fit",
                got=str(X.shape[1]),
            )
        return X.changed(self._scaled)

    def _scaled(self, values: NDArray, columns: Columns) -> NDArray:
        centered = values.astype(np.float64) - self.mean_[columns]
        return (centered / self.scale_[columns]).astype(values.dtype, copy=False)
