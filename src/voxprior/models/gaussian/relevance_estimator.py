"""RVMClassifier and RVMRegressor: few relevant samples or voxels, chosen by evidence."""

from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from voxprior.models.gaussian.averaging import (
    average_softmax,
    choose_rule,
    class_probabilities,
)
from voxprior.models.gaussian.basis import Basis
from voxprior.models.gaussian.multiclass import SoftmaxPosterior, softmax_laplace, softmax_moments
from voxprior.models.gaussian.relevance import (
    GaussianTargets,
    LogisticTargets,
    Relevance,
    SoftmaxTargets,
)
from voxprior.models.gaussian.relevant_features import RelevanceEstimator
from voxprior.models.gaussian.sequential import (
    sequential_logistic,
    sequential_regression,
    sequential_softmax,
)


class RVMClassifier(ClassifierMixin, RelevanceEstimator):
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
        Beyond two classes: one machine a class against the rest, or one softmax whose classes share
        their relevant columns.
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
    evidence_path_ : array, or list of one array a class
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

    _parameter_constraints: ClassVar[dict] = RelevanceEstimator._parameter_constraints | {
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

    @classmethod
    def paper(cls) -> Self:
        """Tipping's original: weights on samples and a bias, MacKay's updates, raw scale."""
        return cls(solver="mackay", normalize=False)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Find the relevant samples or voxels."""
        X = self._read(X, reset=True)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        n_classes = len(self.classes_)
        if n_classes < 2:
            raise ValueError(
                f"{type(self).__name__} needs scans of at least 2 classes to learn from; got 1 "
                f"class ({self.classes_[0]!r}). Check the labels, or stratify the folds."
            )
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        basis = self._basis(X)
        if self._softmax:
            fits = [self._solve(basis, SoftmaxTargets(np.eye(n_classes)[codes]))]
        else:
            positives = [1] if n_classes == 2 else range(n_classes)
            signs = [np.where(codes == c, 1.0, -1.0) for c in positives]
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
        # Labels carry at most log C nats a scan: log(n_columns) would leave no voxel at all.
        return 1.0

    @property
    def _softmax(self) -> bool:
        return len(self.classes_) > 2 and self.multiclass == "softmax"

    def _sequential(self, basis: Basis, targets: Any, options: dict) -> Relevance:
        if isinstance(targets, SoftmaxTargets):
            return sequential_softmax(basis, targets.onehot, **options)
        return sequential_logistic(basis, (targets.sign + 1.0) / 2.0, **options)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities, averaged over the posterior of the weights."""
        check_is_fitted(self)
        Phi = self._features(self._read(X, reset=False))
        if self._softmax:
            K, k = self._covariance_to(Phi)
            moments = softmax_moments(SoftmaxPosterior(**self.softmax_), K, k)
            rule = choose_rule("auto", len(self.classes_), self.n_draws, self.seed_)
            return average_softmax(*moments, rule)
        mean, variance = self._latent(Phi)
        if len(self.classes_) == 2:
            mean, variance = mean[:, 0], variance[:, 0]
        return class_probabilities(mean, variance, "logistic")

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithm of `predict_proba`."""
        return np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny))

    def predict(self, X: Any) -> np.ndarray:
        """Most probable class; ties go to the first."""
        check_is_fitted(self)
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]

    def voxel_maps(self) -> dict[str, np.ndarray]:
        """Maps "weight" (linear) or "gradient" at the mean scan, ":class" beyond two classes."""
        check_is_fitted(self)
        several = len(self.coef_) > 1
        names = [f":{label}" for label in self.classes_] if several else [""]
        return self._maps(names)


class RVMRegressor(RegressorMixin, RelevanceEstimator):
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

    @classmethod
    def paper(cls) -> Self:
        """Tipping's original: weights on samples and a bias, MacKay's updates, raw scale."""
        return cls(solver="mackay", normalize=False)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Find the relevant samples or voxels."""
        X = self._read(X, reset=True)
        y = column_or_1d(y, warn=True).astype(float)
        check_consistent_length(X, y)
        if not np.isfinite(y).all():
            raise ValueError("Input y contains NaN or infinity: remove these scans.")
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

    def _sequential(self, basis: Basis, targets: Any, options: dict) -> Relevance:
        return sequential_regression(basis, targets.t, **options)

    def predict(self, X: Any, return_std: bool = False):
        """Predicted mean, and with `return_std` the standard deviation of a new measurement."""
        check_is_fitted(self)
        mean, variance = self._latent(self._features(self._read(X, reset=False)))
        if not return_std:
            return mean[:, 0] + self.y_mean_
        return mean[:, 0] + self.y_mean_, np.sqrt(variance[:, 0] + self.noise_**2)

    def voxel_maps(self) -> dict[str, np.ndarray]:
        """Map "weight" (voxels, linear kernel), or "gradient" at the mean scan."""
        check_is_fitted(self)
        return self._maps([""])
