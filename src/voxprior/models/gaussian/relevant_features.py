"""What relevance vector estimators share: the basis, what is kept of it, and new features.

Only the relevant scans (or columns) and the mean scan survive the fit:

    kernel   φ_r(x) = k(x − x̄, x_r − x̄) from  x·x_r − x·x̄ − m_r + m̄,   m_r = x_r·x̄,  m̄ = x̄·x̄
    voxels   φ_j(x) = x_j − x̄_j
    latent   mean = φᵀμ,  variance = φᵀVφ − φᵀVΦᵀRΦVφ        (dual: no A x A matrix for A columns)

==========  ==================  ============
symbol      variable            shape
==========  ==================  ============
x_r         scans_              (R, p)
x̄           mean_scan_          (p,)
m_r, m̄      scan_means_,        (R,), scalar
            grand_mean_
Φ           design_             (n, R + 1), ones last
V           variances_          (K, R + 1)
R           precisions_         (K, n, n)
==========  ==================  ============
"""

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import assert_all_finite
from sklearn.utils._param_validation import Interval, StrOptions

from voxprior.algebra import blas_threads_for
from voxprior.models.gaussian.basis import Basis
from voxprior.models.gaussian.gram import cross_gram, is_dask
from voxprior.models.gaussian.kernels import SHAPES, Kernel, covariance
from voxprior.models.gaussian.relevance import Relevance, Targets, reestimate
from voxprior.models.gaussian.similarity import LINEAR, GramEstimator


class RelevanceEstimator(GramEstimator):
    """Base with `basis`, `solver`, `kernel`, `length_scale`, `column_cost`, `max_iter`, `tol`."""

    # One kernel of all features; these parameters of the Gaussian processes do not apply.
    regions, copy_X = None, False
    _parameter_constraints: ClassVar[dict] = GramEstimator._parameter_constraints | {
        "basis": [StrOptions({"kernel", "voxels"})],
        "solver": [StrOptions({"fast", "em", "mackay"})],
        "kernel": [StrOptions(set(SHAPES))],
        "length_scale": [Interval(Real, 0, None, closed="neither")],
        "column_cost": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither"), None],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.basis == "kernel" and self.kernel == "precomputed"
        return tags

    def _kernel(self) -> tuple[list[Kernel], np.ndarray]:
        """The one kernel and its hyper-parameters; the bias of a linear one is a column."""
        (kernel,) = self._kernels()
        if kernel.shape in LINEAR:
            kernel = kernel._replace(offset=0.0)
        return [kernel], np.array([0.0, np.log(self.length_scale)])

    def _basis(self, X: Any) -> Basis:
        """Φ of the training scans."""
        if self.basis == "voxels":
            mean = np.asarray(X.mean(axis=0, dtype=np.float64))
            self._refuse_infinite_voxels(X)
            return Basis(X, mean if self.center else None)
        gram = self._fit_gram(X)
        rows = np.einsum("mii->mi", gram)
        kernels, theta = self._kernel()
        return Basis(covariance(kernels, theta, gram, rows, rows))

    def _solve(self, basis: Basis, targets: Targets) -> Relevance:
        """Run the chosen solver."""
        with blas_threads_for(basis.n_rows):
            return self._run(basis, targets)

    def _run(self, basis: Basis, targets: Targets) -> Relevance:
        if self.solver != "fast":
            options = {} if self.tol is None else {"tol": self.tol / basis.n_rows}
            return reestimate(basis, targets, self.solver, max_iter=self.max_iter, **options)
        cost = self.column_cost
        if cost == "auto":
            cost = self._voxel_cost(basis.n_columns) if self.basis == "voxels" else 0.0
        options = {"cost": float(cost), "max_steps": self.max_iter}
        options |= {} if self.tol is None else {"tol": self.tol}
        return self._sequential(basis, targets, options)

    def _keep(self, X: Any, basis: Basis, fits: list[Relevance]) -> None:
        """Store relevant columns only, in the order of their indices, the bias last."""
        v = np.array([fit.v for fit in fits])
        last = basis.n_columns - 1
        self.relevance_ = np.flatnonzero(v[:, :last].any(axis=0))
        columns = np.append(self.relevance_, last)
        self.variances_ = v[:, columns]
        self.design_ = basis.columns(columns)
        residual = [fit.state.residual for fit in fits]
        pairs = zip(residual, self.variances_)
        weights = np.concatenate([(self.design_.T @ r).T * row for r, row in pairs])
        self.coef_, self.intercept_ = weights[:, :-1], weights[:, -1]
        self.precisions_ = np.concatenate([fit.state.precision for fit in fits])
        used = self.variances_[:, :-1]
        alpha = np.where(used > 0, 1.0 / np.where(used > 0, used, 1.0), np.inf)
        self.alpha_ = alpha[0] if len(fits) == 1 else alpha
        paths = [fit.path for fit in fits]
        self.n_iter_ = max(len(path) for path in paths)
        if self.n_iter_ >= max(self.max_iter, 1):
            warnings.warn(
                f"{type(self).__name__} stopped after max_iter={self.max_iter} steps before the "
                "evidence settled: raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.evidence_path_ = paths[0] if len(fits) == 1 else paths
        self.log_evidence_ = float(sum(fit.state.log_evidence for fit in fits))
        self._keep_scans(X, basis)

    def _keep_scans(self, X: Any, basis: Basis) -> None:
        if self.basis == "voxels":
            self.column_means_ = np.zeros(len(self.relevance_))
            if basis.means is not None:
                self.column_means_ = basis.means[self.relevance_]
            return
        if not self._precomputed:
            mean = np.asarray(X.mean(axis=0, dtype=np.float64))
            self.mean_scan_ = mean if self.center else np.zeros_like(mean)
            self.scans_ = np.asarray(X[self.relevance_])
            means = self.gram_means_[0] if self.center else np.zeros(basis.n_rows)
            self.scan_means_, self.grand_mean_ = means[self.relevance_], float(means.mean())
            self.scan_norms_ = np.diag(self.gram_[0])[self.relevance_]
            del self.X_fit_
        del self.gram_

    def _features(self, X: Any) -> np.ndarray:
        """Relevant columns (n_new, R + 1) of new scans, ones last."""
        if self.basis == "voxels":
            self._refuse_infinite_voxels(X)
            part = np.asarray(X[:, self.relevance_], dtype=np.float64) - self.column_means_
        elif self._precomputed:
            gram = self._centred(X)
            part = gram / self.gram_scale_[0]
        else:
            part = self._kernel_to_scans(X)
        return np.column_stack([part, np.ones(len(part))])

    def _refuse_infinite_voxels(self, X: Any) -> None:
        if is_dask(X):
            self._refuse_infinite(X, np.asarray(X.sum(axis=0, dtype=np.float64)))
        else:
            assert_all_finite(X, estimator_name=type(self).__name__, input_name="X")

    def _centred(self, X: np.ndarray) -> np.ndarray:
        self._refuse_infinite(X, X)
        gram = np.asarray(X, dtype=np.float64)
        if self.center:
            means = self.gram_means_[0]
            gram = gram - gram.mean(axis=1, keepdims=True) - means + means.mean()
        return gram[:, self.relevance_]

    def _kernel_to_scans(self, X: Any) -> np.ndarray:
        cross = cross_gram(X, self.scans_)
        self._refuse_infinite(X, cross.squared_norms)
        to_mean = cross_gram(X, self.mean_scan_[None]).gram
        gram = cross.gram - to_mean - self.scan_means_ + self.grand_mean_
        rows = cross.squared_norms - 2.0 * to_mean[:, 0] + self.grand_mean_
        kernels, theta = self._kernel()
        gram, rows = gram / self.gram_scale_[0], rows / self.gram_scale_[0]
        return covariance(kernels, theta, gram[None], rows[None], self.scan_norms_[None])

    def _covariance_to(self, Phi: np.ndarray, output: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """ΦVΦᵀ between new and training scans, and its diagonal for new scans."""
        v = self.variances_[output]
        return (Phi * v) @ self.design_.T, (Phi**2) @ v

    def _latent(self, Phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n_new, K) of the latent functions."""
        mean = Phi[:, :-1] @ self.coef_.T + self.intercept_
        variance = np.empty_like(mean)
        for k, R in enumerate(self.precisions_):
            K, own = self._covariance_to(Phi, k)
            variance[:, k] = own - np.einsum("ij,ij->i", K @ R, K)
        return mean, np.maximum(variance, 0.0)

    def _maps(self, names: list[str]) -> dict[str, np.ndarray]:
        if self.basis == "voxels":
            maps = np.zeros((len(self.coef_), self.n_features_in_))
            maps[:, self.relevance_] = self.coef_
            return {f"weight{name}": row for name, row in zip(names, maps)}
        if self._precomputed:
            raise ValueError(
                "A model of a precomputed kernel has seen no voxels: fit on voxels to map them."
            )
        scans = self.scans_ - self.mean_scan_
        shape = self.kernel if self.kernel in ("poly", "rbf") else "linear"
        slope = self.coef_ * self._slope(shape) / self.gram_scale_[0]
        kind = "weight" if shape == "linear" else "gradient"
        return {f"{kind}{name}": row for name, row in zip(names, slope @ scans)}

    def _slope(self, shape: str) -> np.ndarray | float:
        """∂k(x, x_r)/∂(x·x_r) at the mean scan x = 0."""
        if shape == "poly":
            return self.degree * self.offset ** (self.degree - 1)
        if shape == "rbf":
            l2 = self.length_scale**2
            return np.exp(-0.5 * self.scan_norms_ / l2) / l2
        return 1.0
