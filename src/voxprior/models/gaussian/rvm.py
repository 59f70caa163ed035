"""RVMClassifier and RVMRegressor: few relevant samples or voxels, chosen by evidence.

Only the relevant scans (or columns) and the mean scan survive the fit:

    kernel   φ_r(x) = k(x − x̄, x_r − x̄) from  x·x_r − x·x̄ − m_r + m̄,   m_r = x_r·x̄,  m̄ = x̄·x̄
    voxels   φ_j(x) = x_j − x̄_j
    latent   mean = φᵀμ,  variance = φᵀVφ − φᵀVΦᵀRΦVφ        (dual: no A x A matrix for A columns)

| symbol | variable | shape |
|---|---|---|
| x_r | `scans_` | (R, p) |
| x̄ | `mean_scan_` | (p,) |
| m_r, m̄ | `scan_means_`, `grand_mean_` | (R,), scalar |
| Φ | `design_` | (n, R + 1), ones last |
| V | `variances_` | (K, R + 1) |
| R | `precisions_` | (K, n, n) |
"""

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from voxprior.algebra import blas_threads_for
from voxprior.errors import InputError
from voxprior.models.base import VoxelClassifier, VoxelRegressor
from voxprior.models.gaussian.base import LINEAR, GramModel, against_rest
from voxprior.models.gaussian.covariance import KERNEL_NAMES, Kernel, covariance, slope_at_mean
from voxprior.models.gaussian.gram import cross_gram
from voxprior.models.gaussian.laplace import SoftmaxPosterior, softmax_laplace, softmax_moments
from voxprior.models.gaussian.prediction import average_softmax, choose_rule, class_probabilities
from voxprior.models.gaussian.rvm_em import (
    Basis,
    GaussianTargets,
    LogisticTargets,
    Relevance,
    SoftmaxTargets,
    Targets,
    reestimate,
)
from voxprior.models.gaussian.rvm_sequential import sequential


class RelevanceVectorMachine(GramModel):
    """Base with `basis`, `solver`, `kernel`, `length_scale`, `column_cost`, `max_iter`, `tol`."""

    # One kernel of all features; these parameters of the Gaussian processes do not apply.
    regions, copy_X = None, False
    _parameter_constraints: ClassVar[dict] = GramModel._parameter_constraints | {
        "basis": [StrOptions({"kernel", "voxels"})],
        "solver": [StrOptions({"fast", "em", "mackay"})],
        "kernel": [StrOptions(set(KERNEL_NAMES))],
        "length_scale": [Interval(Real, 0, None, closed="neither")],
        "column_cost": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither"), None],
    }

    @classmethod
    def paper(cls) -> Self:
        """Tipping's original: weights on samples and a bias, MacKay's updates, raw scale."""
        return cls(solver="mackay", normalize=False)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        return tags

    @property
    def _precomputed(self) -> bool:
        # Any symmetric matrix will do: its columns are regressors, it need not be a covariance.
        return self.basis == "kernel" and self.kernel == "precomputed"

    def _kernel(self) -> tuple[list[Kernel], np.ndarray]:
        """The one kernel and its hyper-parameters; the bias of a linear one is a column."""
        (kernel,) = self._kernels()
        if kernel.name in LINEAR:
            kernel = kernel._replace(offset=0.0)
        return [kernel], np.array([0.0, np.log(self.length_scale)])

    def _basis(self, X: Any) -> Basis:
        """Φ of the training scans."""
        if self.basis == "voxels":
            mean = np.asarray(X.mean(axis=0, dtype=np.float64))
            self._refuse_infinite(X, mean)
            return Basis(X, mean if self.center else None)
        gram = self._fit_gram(X)
        rows = np.einsum("mii->mi", gram)
        kernels, theta = self._kernel()
        return Basis(covariance(kernels, theta, gram, rows, rows))

    def _solve(self, basis: Basis, targets: Targets) -> Relevance:
        """Run the chosen solver."""
        tolerance = {} if self.tol is None else {"tol": self.tol}
        with blas_threads_for(basis.n_rows):
            if self.solver == "fast":
                cost = self._cost(basis.n_columns)
                return sequential(basis, targets, cost=cost, max_steps=self.max_iter, **tolerance)
            if tolerance:  # EM and MacKay's updates count nats per scan
                tolerance["tol"] /= basis.n_rows
            return reestimate(basis, targets, self.solver, max_iter=self.max_iter, **tolerance)

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
            self._refuse_infinite(X, np.asarray(X.sum(axis=0, dtype=np.float64)))
            part = np.asarray(X[:, self.relevance_], dtype=np.float64) - self.column_means_
        elif self._precomputed:
            part = self._given_columns(X) / self.gram_scale_[0]
        else:
            part = self._kernel_to_scans(X)
        return np.column_stack([part, np.ones(len(part))])

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
        maps = (self.coef_ * slope / self.gram_scale_[0]) @ (self.scans_ - self.mean_scan_)
        kind = "weight" if kernel.name == "linear" else "gradient"
        return {f"{kind}{name}": row for name, row in zip(names, maps)}


class RVMClassifier(VoxelClassifier, RelevanceVectorMachine):
    """Relevance vector classifier over training samples (kernel) or voxels (automatic relevance).

    f = Φw with w_i ~ N(0, 1/α_i); the α maximise the Laplace evidence and most become infinite,
    which leaves few relevant samples or voxels.

    Parameters
    ----------
    basis : {"kernel", "voxels"}
        What a weight belongs to: a training sample, Φ = [K, 1], or a voxel, Φ = [X, 1].
    solver : {"fast", "em", "mackay"}
        Fast sequential marginal likelihood; EM; or MacKay's re-estimation.
    multiclass : {"ovr", "softmax"}
        Beyond two classes: one machine per class against the rest, or one softmax whose classes
        share their relevant columns.
    kernel : {"linear", "poly", "rbf", "precomputed"}
    length_scale : float
        ℓ of the RBF kernel, in units of the root mean squared norm of the scans if `normalize`.
    column_cost : "auto" or float
        Nats of evidence a column must earn (fast solver). "auto" is 0 for samples; for voxels it is
        1 in classification and log(number of voxels), what naming one costs, in regression.
    center, normalize
        As in `GPClassifier`.
    offset, degree : float, int
        c and d of the polynomial kernel (c + g)^d; the bias of a linear kernel is a column of Φ.
    max_iter, tol : int, float or None
        Most moves or updates, and the gain in nats below which the search ends.
    n_draws, random_state
        Draws that average a softmax over more than three classes.

    Attributes
    ----------
    classes_ : array (C,)
    relevance_ : array (R,)
        Indices of the relevant samples or voxels.
    alpha_ : array (R,), or (C, R) one against the rest
        Precision of their weights; infinite where a class does not use a column.
    coef_ : array (K, R)
        Their weights, K outputs.
    intercept_ : array (K,)
    evidence_path_ : array, or list of one array per class
    log_evidence_ : float

    References
    ----------
    M. E. Tipping, Sparse Bayesian learning and the relevance vector machine, JMLR 1 (2001) 211-244.
    M. E. Tipping, A. C. Faul, Fast marginal likelihood maximisation for sparse Bayesian models,
    2003.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior import RVMClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 20))
    >>> rvm = RVMClassifier(basis="voxels").fit(X, X[:, 4] > 0)
    >>> rvm.relevance_
    array([4])
    """

    _parameter_constraints: ClassVar[dict] = RelevanceVectorMachine._parameter_constraints | {
        "multiclass": [StrOptions({"ovr", "softmax"})],
        "n_draws": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        basis="kernel",
        *,
        solver="fast",
        multiclass="ovr",
        kernel="linear",
        length_scale=1.0,
        column_cost="auto",
        center=True,
        normalize=True,
        offset=1.0,
        degree=2,
        max_iter=1000,
        tol=None,
        n_draws=1024,
        random_state=0,
    ):
        self.basis = basis
        self.solver = solver
        self.multiclass = multiclass
        self.kernel = kernel
        self.length_scale = length_scale
        self.column_cost = column_cost
        self.center = center
        self.normalize = normalize
        self.offset = offset
        self.degree = degree
        self.max_iter = max_iter
        self.tol = tol
        self.n_draws = n_draws
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Find the relevant samples or voxels."""
        X, codes = self._read(X, reset=True), self._encode(y)
        check_consistent_length(X, codes)
        n_classes = len(self.classes_)
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        basis = self._basis(X)
        if self._softmax:
            fits = [self._solve(basis, SoftmaxTargets(np.eye(n_classes)[codes]))]
        else:
            signs = against_rest(codes, n_classes)
            fits = [self._solve(basis, LogisticTargets(sign)) for sign in signs]
        self._keep(X, basis, fits)
        if self._softmax:
            K = basis.covariance(fits[0].v)
            self.softmax_ = softmax_laplace(
                K, np.eye(n_classes)[codes], fits[0].state.latent
            )._asdict()
        return self

    @staticmethod
    def _voxel_cost(n_columns: int) -> float:
        # Labels carry at most log C nats per scan: log(n_columns) would leave no voxel at all.
        return 1.0

    @property
    def _softmax(self) -> bool:
        return len(self.classes_) > 2 and self.multiclass == "softmax"

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities, averaged over the posterior of the weights."""
        Phi = self._features(self._new_scans(X))
        if self._softmax:
            K, k = self._covariance_to(Phi)
            moments = softmax_moments(SoftmaxPosterior(**self.softmax_), K, k)
            rule = choose_rule("auto", len(self.classes_), self.n_draws, self.seed_)
            return average_softmax(*moments, rule)
        mean, variance = self._latent(Phi)
        if len(self.classes_) == 2:
            mean, variance = mean[:, 0], variance[:, 0]
        return class_probabilities(mean, variance, "logistic")


class RVMRegressor(VoxelRegressor, RelevanceVectorMachine):
    """Relevance vector regression over training samples (kernel) or voxels (automatic relevance).

    Parameters
    ----------
    basis, solver, kernel, length_scale, column_cost, center, normalize, offset, degree, max_iter,
    tol
        As in `RVMClassifier`.

    Attributes
    ----------
    relevance_, alpha_, coef_, intercept_, evidence_path_, log_evidence_
        As in `RVMClassifier`.
    noise_ : float
        Standard deviation of the noise.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior import RVMRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(30, 50))
    >>> rvm = RVMRegressor(basis="voxels").fit(X, 3 * X[:, 7] + 0.1 * rng.normal(size=30))
    >>> rvm.relevance_
    array([7])
    """

    def __init__(
        self,
        basis="kernel",
        *,
        solver="fast",
        kernel="linear",
        length_scale=1.0,
        column_cost="auto",
        center=True,
        normalize=True,
        offset=1.0,
        degree=2,
        max_iter=1000,
        tol=None,
    ):
        self.basis = basis
        self.solver = solver
        self.kernel = kernel
        self.length_scale = length_scale
        self.column_cost = column_cost
        self.center = center
        self.normalize = normalize
        self.offset = offset
        self.degree = degree
        self.max_iter = max_iter
        self.tol = tol

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Find the relevant samples or voxels."""
        X, y = self._read(X, reset=True), self._targets(y)
        check_consistent_length(X, y)
        # The column of ones has a prior of its own; removing the mean keeps it near zero.
        self.y_mean_ = float(y.mean())
        basis = self._basis(X)
        fit = self._solve(basis, GaussianTargets(y - self.y_mean_))
        self._keep(X, basis, [fit])
        self.noise_ = float(np.sqrt(fit.noise))
        return self

    @staticmethod
    def _voxel_cost(n_columns: int) -> float:
        # Without it the evidence takes in chance columns one after the other as the noise shrinks.
        return float(np.log(n_columns))

    def predict(self, X: Any, return_std: bool = False):
        """Predicted mean, and with `return_std` the standard deviation of a new measurement."""
        mean, variance = self._latent(self._features(self._new_scans(X)))
        if not return_std:
            return mean[:, 0] + self.y_mean_
        return mean[:, 0] + self.y_mean_, np.sqrt(variance[:, 0] + self.noise_**2)
