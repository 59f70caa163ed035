"""RVMClassifier and RVMRegressor: weights on samples or voxels, their precisions by evidence."""

from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context, clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_consistent_length

from voxprior.algebra import blas_threads_for, floored_log
from voxprior.models.base import VoxelClassifier, VoxelRegressor
from voxprior.models.doubt import (
    MOST_FOLDS,
    Doubt,
    check_beta,
    doubted,
    learn_doubt,
    refit_without,
)
from voxprior.models.gaussian.base import against_rest
from voxprior.models.gaussian.laplace import SoftmaxPosterior, softmax_laplace, softmax_moments
from voxprior.models.gaussian.prediction import average_softmax, choose_rule, class_probabilities
from voxprior.models.gaussian.regression import noise_of_residuals
from voxprior.models.gaussian.relevance import RelevanceVectorMachine
from voxprior.models.gaussian.rvm_em import GaussianTargets, LogisticTargets, SoftmaxTargets
from voxprior.models.gaussian.rvm_tied import tied_moments
from voxprior.models.growth import RVM_CLASSES, RVM_NUMBERS, cubic, tell_if_long

# With fewer scans the fits without one of them have two or none: they cannot estimate noise.
FEWEST_HELD_OUT = 4


class RVMClassifier(VoxelClassifier, RelevanceVectorMachine):
    """Relevance vector classifier over training samples (kernel) or voxels (automatic relevance).

    f = Φw with w_i ~ N(0, 1/α_i); the α maximise the Laplace evidence. Weights on samples share one
    α by default and all samples are kept: with an α each, most become infinite and the few samples
    that remain make a map as noisy as if the others had not been measured.

    Parameters
    ----------
    basis : {"kernel", "voxels"}
        What a weight belongs to: a training sample, Φ = [K, 1], or a voxel, Φ = [X, 1].
    alpha : {"auto", "tied", "each"} or float
        One precision for all weights, or one each, which leaves few relevant samples or voxels; a
        number is the one for all. "auto" ties samples and not voxels: tied, these are the linear
        `GPClassifier`.
    solver : {"fast", "em", "mackay"}
        How precisions of their own are found: fast sequential marginal likelihood; EM; or MacKay's
        re-estimation.
    multiclass : {"ovr", "softmax"}
        Beyond two classes: one machine per class against the rest, or one softmax whose classes
        share their relevant columns.
    kernel : {"linear", "poly", "rbf", "precomputed"}
    length_scale : float
        ℓ of the RBF kernel, in units of the root mean squared norm of the scans if `normalize`.
    column_cost : "auto" or float
        Nats of evidence a column must earn (an α each, fast solver). "auto" is 0 for samples; for
        voxels it is 1 in classification and log(number of voxels), what naming one costs, in
        regression.
    center, normalize
        As in `GPClassifier`.
    offset, degree : float, int
        c and d of the polynomial kernel (c + g)^d; the bias of a linear kernel is a column of Φ.
    max_iter, tol : int, float or None
        Most moves or updates, and the gain in nats below which the search for an α each ends.
    doubt : (float, float) or None
        Beta prior (a, b) of the probability that the model has found anything. Probabilities are
        averaged over it and over a temperature, given training scans that were held out: at most 10
        more fits. None trusts the fit: faster, and overconfident on noise.
    n_draws, random_state
        Draws that average a softmax over more than three classes.

    Attributes
    ----------
    classes_ : array (C,)
    relevance_ : array (R,)
        Indices of the relevant samples or voxels; all of them where they share one precision.
    alpha_ : array (R,), or (C, R) one against the rest
        Precision of their weights; infinite where a class does not use a column.
    coef_ : array (K, R)
        Their weights, K outputs.
    intercept_ : array (K,)
    evidence_path_ : array, or list of one array per class
    log_evidence_ : float
        Log evidence of the labels (two classes, or a softmax).
    log_evidences_ : array (C,)
        One per class against the rest instead. They are not evidences of the labels as a whole:
        such models do not exclude that a scan belongs to two classes or to none.
    doubt_ : dict or None
        What the held-out scans showed, see `voxprior.models.doubt.Doubt`.

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
        "doubt": [tuple, list, None],
        "n_draws": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        basis="kernel",
        *,
        alpha="auto",
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
        doubt=(2, 1),
        n_draws=1024,
        random_state=0,
    ):
        self.basis = basis
        self.alpha = alpha
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
        self.doubt = doubt
        self.n_draws = n_draws
        self.random_state = random_state

    @classmethod
    def paper(cls) -> Self:
        """Tipping's original: a precision per sample, MacKay's updates, raw scale."""
        return cls(alpha="each", solver="mackay", normalize=False, doubt=None)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Find the weights of samples or voxels."""
        beta = check_beta(self.doubt)
        X, codes = self._read(X, reset=True), self._encode(y)
        check_consistent_length(X, codes)
        fits = 1 if beta is None else MOST_FOLDS + 1
        expected = cubic(RVM_CLASSES * fits / (MOST_FOLDS + 1), len(codes), len(self.classes_))
        tell_if_long(self, expected, len(codes))
        self._fit_weights(X, codes)
        self.doubt_ = None if beta is None else learn_doubt(self, X, codes, beta)._asdict()
        self._forget_gram()
        return self

    def _fit_weights(self, X: Any, codes: np.ndarray) -> None:
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

    @staticmethod
    def _voxel_cost(n_columns: int) -> float:
        # Labels carry at most log C nats per scan: log(n_columns) would leave no voxel at all.
        return 1.0

    @property
    def _softmax(self) -> bool:
        return len(self.classes_) > 2 and self.multiclass == "softmax"

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities, averaged over the posterior of the weights, and over doubt."""
        p = self._undoubted(self._features(self._new_scans(X)))
        return p if self.doubt_ is None else doubted(floored_log(p), Doubt(**self.doubt_))

    def _undoubted(self, Phi: np.ndarray) -> np.ndarray:
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

    A training scan has its own column in Φ, a new scan has none: the evidence takes noise for
    signal that no new scan can show, and its σ is far too small. The deviation of new measurements
    is therefore learned from held-out training scans.

    Parameters
    ----------
    basis, alpha, solver, kernel, length_scale, column_cost, center, normalize, offset, degree,
    max_iter, tol
        As in `RVMClassifier`.
    intervals : {"held_out", "evidence"}
        Where the noise in the deviation of a new measurement comes from: residuals of held-out
        training scans (at most 10 more fits; below 4 scans, the deviation of the targets), or the
        evidence.

    Attributes
    ----------
    relevance_, alpha_, coef_, intercept_, evidence_path_, log_evidence_
        As in `RVMClassifier`.
    noise_ : float
        Standard deviation σ of the noise, by the evidence.
    interval_noise_ : float
        Standard deviation of the noise of new measurements, by `intervals`.

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

    _parameter_constraints: ClassVar[dict] = RelevanceVectorMachine._parameter_constraints | {
        "intervals": [StrOptions({"held_out", "evidence"})],
    }

    def __init__(
        self,
        basis="kernel",
        *,
        alpha="auto",
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
        intervals="held_out",
    ):
        self.basis = basis
        self.alpha = alpha
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
        self.intervals = intervals

    @classmethod
    def paper(cls) -> Self:
        """Tipping's original: a precision per sample, MacKay's updates, raw scale."""
        return cls(alpha="each", solver="mackay", normalize=False, intervals="evidence")

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Find the weights of samples or voxels."""
        X, y = self._read(X, reset=True), self._targets(y)
        check_consistent_length(X, y)
        fits = 1 if self.intervals == "evidence" else MOST_FOLDS + 1
        tell_if_long(self, cubic(RVM_NUMBERS * fits / (MOST_FOLDS + 1), len(y)), len(y))
        # The column of ones has a prior of its own; removing the mean keeps it near zero.
        self.y_mean_ = float(y.mean())
        basis = self._basis(X)
        fit = self._solve(basis, GaussianTargets(y - self.y_mean_))
        self._keep(X, basis, [fit])
        self.noise_ = self.interval_noise_ = float(np.sqrt(fit.noise))
        if self.intervals == "held_out":
            self.interval_noise_ = float(np.sqrt(self._held_out_noise(X, y)))
        self._forget_gram()
        return self

    def _held_out_noise(self, X: Any, y: np.ndarray) -> float:
        """σ² of new measurements, from fits to the other scans of at most 10 folds."""
        if len(y) < FEWEST_HELD_OUT:
            return float(y.var(ddof=1))
        n_folds = min(len(y), MOST_FOLDS)
        like, X = self._to_refit(X)
        plain = clone(like).set_params(intervals="evidence")
        residual, variance = [], []
        for k in range(n_folds):
            test = np.arange(k, len(y), n_folds)
            mean, latent = plain._moments_without(X, y, test)
            residual.append(y[test] - mean)
            variance.append(latent)
        noise = noise_of_residuals(np.concatenate(residual), np.concatenate(variance))
        # A σ² known from n residuals makes new ones Student's, whose variance is larger.
        return noise * (len(y) - 1) / (len(y) - 3)

    def _moments_without(self, X: Any, y: np.ndarray, test: np.ndarray) -> tuple[Any, Any]:
        """Mean and latent variance of scans, from a fit to the others."""
        if not (self._tied and self._precomputed):
            fitted, X_test = refit_without(self, X, y, test)
            mean, variance = fitted._latent(fitted._features(X_test))
            return mean[:, 0] + fitted.y_mean_, variance[:, 0]
        train, like = np.setdiff1d(np.arange(len(y)), test), clone(self)
        gram = like._fit_gram(self._part(X, train, train))[0]
        like.relevance_, y_mean = np.arange(len(train)), float(y[train].mean())
        new = like._features(self._part(X, test, train))
        with blas_threads_for(len(train)):
            mean, variance = tied_moments(gram, y[train] - y_mean, new, *self._tied_search())
        return mean + y_mean, variance

    @staticmethod
    def _voxel_cost(n_columns: int) -> float:
        # Without it the evidence takes in chance columns one after the other as the noise shrinks.
        return float(np.log(n_columns))

    def predict(self, X: Any, return_std: bool = False):
        """Predicted mean, and with `return_std` the standard deviation of a new measurement."""
        mean, variance = self._latent(self._features(self._new_scans(X)))
        if not return_std:
            return mean[:, 0] + self.y_mean_
        return mean[:, 0] + self.y_mean_, np.sqrt(variance[:, 0] + self.interval_noise_**2)
