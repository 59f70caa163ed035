"""The automatic regressor for many targets of the same scans, as a permutation test needs it.

Kernels and their eigenvectors do not depend on the targets. The mean of a mixture is linear in the
dual coefficients of its members: those of a kernel are averaged first, and predictions of all
targets are one product per kernel.

    mean(x) = ȳ + Σ_K k_K(x)'α_K,       α_K = Σ_t w_Kt h_t a_Kt

| symbol | variable | shape |
|---|---|---|
| k_K of m new scans | by `kernel_to` | (m, n) |
| α_K of B targets | `dual[K]` | (n, B) |
| ȳ | `center` | (B,) |
| w, weights of the mean alone and of K x T members | `weights` | (1 + K T,) |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from voxprior.auto.regression_kernels import ScanKernels, kernel_to
from voxprior.auto.student import TAUS, Fit
from voxprior.auto.views import crosses_of

# Members with less weight are left out of predictions.
NEGLIGIBLE_WEIGHT = 1e-4


class ManyRegressors(NamedTuple):
    """Automatic regressors of the same training scans, one per column of targets."""

    X: NDArray  # all scans
    scans: ScanKernels
    center: NDArray[np.float64]
    dual: list[NDArray[np.float64]]

    @classmethod
    def of(cls, X: NDArray, scans: ScanKernels, fits: Sequence[tuple]) -> ManyRegressors:
        """Join fits, each a mean, the members of every kernel, and the weights of all."""
        center = np.array([mean for mean, _, _ in fits])
        each = [_averaged(members, weights) for _, members, weights in fits]
        dual = [np.column_stack(columns) for columns in zip(*each)]
        return cls(X, scans, center, dual)

    def decision_function(self, rows: NDArray) -> NDArray[np.float64]:
        """Predicted means (m, B) of some of all scans."""
        total = np.tile(self.center, (len(rows), 1))
        new, voxels = self.X[rows], self.scans.voxels
        views = self.scans.views
        crosses = dict(zip(views, crosses_of(new, self.scans.X, voxels, views)))
        for kernel, dual in zip(self.scans.kernels, self.dual):
            total += kernel_to(kernel, crosses[kernel.view]).gram @ dual
        return total


def _averaged(members: Sequence[Fit], weights: NDArray) -> list[NDArray[np.float64]]:
    """α (n,) by kernel."""
    weights = np.where(weights >= NEGLIGIBLE_WEIGHT, weights, 0.0)
    by_kernel = (weights[1:] / weights.sum()).reshape(len(members), len(TAUS))
    return [(weight * fit.share) @ fit.dual for fit, weight in zip(members, by_kernel)]
