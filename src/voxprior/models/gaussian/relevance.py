"""What relevance vector classifiers and regressors share: bases, solvers, what a fit keeps.

A kernel matrix is made once: it is the Φ of a fit in which all scans have a weight, and fits
without some scans take parts of it. Only the relevant scans (or columns) and the mean scan survive:

    kernel   φ_r(x) = k(x − x̄, x_r − x̄) from  x·x_r − x·x̄ − m_r + m̄,   m_r = x_r·x̄,  m̄ = x̄·x̄
    voxels   φ_j(x) = x_j − x̄_j
    latent   mean = φᵀμ,  variance = φᵀVφ − φᵀVΦᵀRΦVφ        (dual: no A x A matrix for A columns)

| symbol | variable | shape |
|---|---|---|
| x_r | `scans_` | (R, p) |
| x̄ | `mean_scan_` | (p,) |
| m_r, m̄ | `scan_means_`, `grand_mean_` | (R,), scalar |
| Φ without its ones | `design_` | (n, R) |
| V | `variances_` | (K, R + 1) |
| R | `precisions_` | list of K (n, n) |
"""

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from voxprior.algebra import blas_threads_for
from voxprior.blocks import column_means, gram_matrix, voxel_blocks
from voxprior.errors import InputError
from voxprior.models.gaussian.base import LINEAR, GramModel
from voxprior.models.gaussian.covariance import KERNEL_NAMES, Kernel, covariance, slope_at_mean
from voxprior.models.gaussian.gram import cross_gram
from voxprior.models.gaussian.rvm_em import Basis, Relevance, Targets, reestimate
from voxprior.models.gaussian.rvm_sequential import sequential, sequential_above_tied
from voxprior.models.gaussian.rvm_tied import tied


class RelevanceVectorMachine(GramModel):
    """Base with the parameters that `RVMClassifier` and `RVMRegressor` have in common."""

    # One kernel of all features; these parameters of the Gaussian processes do not apply.
    regions, copy_X = None, False
    _parameter_constraints: ClassVar[dict] = GramModel._parameter_constraints | {
        "basis": [StrOptions({"kernel", "voxels"})],
        "alpha": [StrOptions({"auto", "tied", "each"}), Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions({"fast", "em", "mackay"})],
        "kernel": [StrOptions(set(KERNEL_NAMES))],
        "length_scale": [Interval(Real, 0, None, closed="neither")],
        "column_cost": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither"), None],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        return tags

    @property
    def _precomputed(self) -> bool:
        # Any symmetric matrix will do: its columns are regressors, it need not be a covariance.
        return self.basis == "kernel" and self.kernel == "precomputed"

    @property
    def reads_gram(self) -> bool:
        """Whether scans enter through their inner products alone."""
        return self.basis == "kernel"

    def _to_refit(self, X: Any) -> tuple[Self, Any]:
        """Inner products are all that weights on samples need: voxels are read once for all."""
        if self.basis == "voxels" or self.kernel != "linear":
            return self, X
        # The kernel of a running fit is centred and scaled already; its parts are centred and
        # scaled again.
        gram = self.gram_[0] if hasattr(self, "gram_") else gram_matrix(X)
        return clone(self).set_params(kernel="precomputed"), gram

    def _kernel(self) -> tuple[list[Kernel], np.ndarray]:
        """The one kernel and its hyper-parameters; the bias of a linear one is a column."""
        (kernel,) = self._kernels()
        if kernel.name in LINEAR:
            kernel = kernel._replace(offset=0.0)
        return [kernel], np.array([0.0, np.log(self.length_scale)])

    def _basis(self, X: Any) -> Basis:
        """Φ of the training scans."""
        if self.basis == "voxels":
            mean = column_means(X)
            self._refuse_infinite(X, mean)
            return Basis(X, mean if self.center else None)
        gram = self._fit_gram(X)
        kernels, theta = self._kernel()
        if kernels[0].name in LINEAR:  # without a bias, of scale 1: the Gram matrix itself
            return Basis(gram[0], symmetric=True)
        rows = np.einsum("mii->mi", gram)
        return Basis(covariance(kernels, theta, gram, rows, rows), symmetric=True)

    def _solve(self, basis: Basis, targets: Targets) -> Relevance:
        """Run the chosen solver."""
        tolerance = {} if self.tol is None else {"tol": self.tol}
        with blas_threads_for(basis.n_rows):
            if self._tied:
                return tied(basis, targets, *self._tied_search())
            if self.solver == "fast":
                cost = self._cost(basis.n_columns)
                # Columns of voxels are too many, and pay too much, to be in the model all at once.
                search = sequential if self.basis == "voxels" else sequential_above_tied
                return search(basis, targets, cost=cost, max_steps=self.max_iter, **tolerance)
            if tolerance:  # EM and MacKay's updates count nats per scan
                tolerance["tol"] /= basis.n_rows
            return reestimate(basis, targets, self.solver, max_iter=self.max_iter, **tolerance)

    def _tied_search(self) -> tuple[float | None, int]:
        """The shared variance, where it is given, and the most evaluations."""
        v = None if isinstance(self.alpha, str) else 1.0 / float(self.alpha)
        return v, max(self.max_iter, 1)

    @property
    def _tied(self) -> bool:
        # Voxels that share a variance are the linear Gaussian process, which has its own estimator.
        if self.alpha == "auto":
            return self.basis == "kernel"
        return self.alpha != "each"

    def _cost(self, n_columns: int) -> float:
        """Nats of evidence that a column must earn."""
        if self.column_cost != "auto":
            return float(self.column_cost)
        return self._voxel_cost(n_columns) if self.basis == "voxels" else 0.0

    def _keep(self, X: Any, basis: Basis, fits: list[Relevance]) -> None:
        """Store relevant columns only, in the order of their indices, the bias last."""
        v = np.array([fit.v for fit in fits])
        last = basis.n_columns - 1
        self.relevance_ = np.flatnonzero(v[:, :last].any(axis=0))
        self.variances_ = v[:, np.append(self.relevance_, last)]
        everything = basis.symmetric and len(self.relevance_) == last
        self.design_ = basis.X if everything else basis.columns(self.relevance_)
        residual = [fit.state.residual for fit in fits]
        pairs = list(zip(residual, self.variances_))
        self.coef_ = np.concatenate([(self.design_.T @ r).T * row[:-1] for r, row in pairs])
        self.intercept_ = np.concatenate([r.sum(axis=0) * row[-1] for r, row in pairs])
        self.precisions_ = [R for fit in fits for R in fit.state.precision]
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
        self._keep_evidence([fit.state.log_evidence for fit in fits])
        self._keep_scans(X, basis)

    def _keep_scans(self, X: Any, basis: Basis) -> None:
        if self.basis == "voxels":
            self.column_means_ = np.zeros(len(self.relevance_))
            if basis.means is not None:
                self.column_means_ = basis.means[self.relevance_]
            return
        if not self._precomputed:
            mean = column_means(X)
            self.mean_scan_ = mean if self.center else np.zeros_like(mean)
            self.scans_ = X[self.relevance_]
            means = self.gram_means_[0] if self.center else np.zeros(basis.n_rows)
            self.scan_means_, self.grand_mean_ = means[self.relevance_], float(means.mean())
            self.scan_norms_ = np.diag(self.gram_[0])[self.relevance_]
            del self.X_fit_

    def _forget_gram(self) -> None:
        """Drop what is needed only by fits without some of the scans."""
        self.__dict__.pop("gram_", None)

    def _features(self, X: Any) -> np.ndarray:
        """Relevant columns (n_new, R) of new scans."""
        if self.basis == "voxels":
            self._refuse_infinite(X, column_means(X))
            part = np.asarray(X[:, self.relevance_], dtype=np.float64) - self.column_means_
        elif self._precomputed:
            part = self._given_columns(X) / self.gram_scale_[0]
        else:
            part = self._kernel_to_scans(X)
        return part

    def _given_columns(self, X: Any) -> np.ndarray:
        """Relevant columns of a precomputed kernel, centred as in training."""
        gram = np.asarray(X, dtype=np.float64)
        self._refuse_infinite(X, gram)
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
        v, v_bias = self.variances_[output, :-1], self.variances_[output, -1]
        return (Phi * v) @ self.design_.T + v_bias, (Phi**2) @ v + v_bias

    def _latent(self, Phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n_new, K) of the latent functions."""
        mean = Phi @ self.coef_.T + self.intercept_
        variance = np.empty_like(mean)
        for k, R in enumerate(self.precisions_):
            K, own = self._covariance_to(Phi, k)
            variance[:, k] = own - np.einsum("ij,ij->i", K @ R, K)
        return mean, np.maximum(variance, 0.0)

    def voxel_maps(self) -> dict[str, np.ndarray]:
        """Maps "weight" (voxels, linear kernel), or "gradient" at the mean scan.

        Beyond two classes there is one map per class, with ":class" added to its name.
        """
        check_is_fitted(self)
        names = [f":{label}" for label in self.classes_] if len(self.coef_) > 1 else [""]
        if self.basis == "voxels":
            maps = np.zeros((len(self.coef_), self.n_features_in_))
            maps[:, self.relevance_] = self.coef_
            return {f"weight{name}": row for name, row in zip(names, maps)}
        if self._precomputed:
            raise InputError(
                "A model of a precomputed kernel has seen no voxels", remedy="Fit on voxels"
            )
        (kernel,) = self._kernels()
        slope = slope_at_mean(kernel, self.length_scale, self.scan_norms_)
        weights, parts = self.coef_ * slope / self.gram_scale_[0], []
        for block in voxel_blocks(*self.scans_.shape):
            parts.append(weights @ (self.scans_[:, block] - self.mean_scan_[block]))
        maps = np.hstack(parts)
        kind = "weight" if kernel.name == "linear" else "gradient"
        return {f"{kind}{name}": row for name, row in zip(names, maps)}
