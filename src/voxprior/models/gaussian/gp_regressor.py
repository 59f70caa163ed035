"""GPRegressor: Gaussian process regression, scale and noise by evidence."""

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from voxprior.algebra import blas_threads_for
from voxprior.models.base import VoxelRegressor
from voxprior.models.gaussian.base import GaussianProcess
from voxprior.models.gaussian.covariance import inverse_from_factor, n_parameters
from voxprior.models.gaussian.evidence import RegressionEvidence
from voxprior.models.gaussian.regression import (
    LOG_2PI,
    Moments,
    Regression,
    best_scale_and_noise,
    leave_groups_out,
    leave_one_out,
    predict_latent,
    spectrum,
    without_mean,
)
from voxprior.models.growth import GP_NUMBERS, cubic, tell_if_long

# Times that a climb takes of the line search that serves a single kernel of fixed shape.
CLIMB = 4.0
# Noise-to-signal ratios searched: beyond these A is all kernel or all noise to double precision.
RATIOS = (1e-7, 1e7)


class GPRegressor(VoxelRegressor, GaussianProcess):
    """Gaussian process regression; scale and noise maximise the evidence, exactly and globally.

    y = f(x) + ε with f ~ GP(mean, k). One eigendecomposition of the Gram matrix serves all scales
    and noises of a single kernel of fixed shape; other kernels climb the gradient.

    Parameters
    ----------
    kernel : {"linear", "poly", "rbf", "precomputed"} or list of these
        As in `GPClassifier`, as are the parameters not listed here.
    theta : array, optional
        Log hyper-parameters to start from, the last one log σ.
    bounds : (float, float)
        Bounds of the log hyper-parameters, relative to log std(y).
    center_targets : bool
        Subtract the training mean of y (added back in predictions).

    Attributes
    ----------
    log_evidence_ : float
    latent_ : array (n, 1)
        Posterior mean of f at the training scans, without the target mean.
    theta_ : array
    noise_ : float
        σ, the standard deviation of the noise.
    dual_coef_ : array (n, 1)
    kernel_share_ : array (M,)
    left_out_log_score_ : float
        Log density of every target given the others, or those of other groups, summed.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior import GPRegressor
    >>> X = np.linspace(-1, 1, 9)[:, None]
    >>> gp = GPRegressor().fit(X, 2 * X[:, 0] + 1)
    >>> gp.predict(np.array([[0.5]])).round(3)
    array([2.])
    """

    _parameter_constraints: ClassVar[dict] = GaussianProcess._parameter_constraints | {
        "center_targets": ["boolean"],
    }

    def __init__(
        self,
        kernel="linear",
        *,
        optimize=True,
        regions=None,
        theta=None,
        n_restarts=0,
        max_evals=None,
        bounds=(-8.0, 8.0),
        hyperprior=None,
        center=True,
        normalize=True,
        center_targets=True,
        offset=1.0,
        degree=2,
        random_state=0,
        copy_X=False,
    ):
        self.kernel = kernel
        self.optimize = optimize
        self.regions = regions
        self.theta = theta
        self.n_restarts = n_restarts
        self.max_evals = max_evals
        self.bounds = bounds
        self.hyperprior = hyperprior
        self.center = center
        self.normalize = normalize
        self.center_targets = center_targets
        self.offset = offset
        self.degree = degree
        self.random_state = random_state
        self.copy_X = copy_X

    @classmethod
    def paper(cls) -> Self:
        """PRoNTo's settings: raw scale, start at log 1, 20 evaluations."""
        return cls(normalize=False, max_evals=20, bounds=(-20.0, 20.0))

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit by maximising the evidence; groups (n,) are left out together for the score."""
        X, y = self._read(X, reset=True), self._targets(y)
        check_consistent_length(X, y)
        searches = 1.0 if n_parameters(self._kernels()) == 1 else CLIMB
        tell_if_long(self, cubic(GP_NUMBERS * searches, len(y)), len(y))
        gram = self._fit_gram(X)
        self.y_mean_ = float(y.mean()) if self.center_targets else 0.0
        self.targets_ = y - self.y_mean_
        problem = RegressionEvidence(self._kernels(), gram, self.targets_)
        with blas_threads_for(len(y)):
            self.theta_, self.evidence_path_ = self._hyperparameters(problem)
            fit = problem.posterior(self.theta_)
        self.posterior_ = fit._asdict()
        self.log_evidence_, self.dual_coef_ = fit.log_evidence, fit.alpha[:, None]
        self.noise_ = float(np.exp(self.theta_[-1]))
        self.kernel_share_ = self._kernel_shares(self.theta_[:-1])
        self.latent_ = (self.targets_ - self.noise_**2 * fit.alpha)[:, None]
        self.left_out_log_score_ = self._left_out_log_score(fit, groups)
        return self

    def _left_out_log_score(self, fit: Regression, groups: Any) -> float:
        groups = self._group_labels(groups, len(self.targets_))
        if groups is None:
            left = leave_one_out(fit, self.targets_)
        else:
            left = leave_groups_out(fit, self.targets_, groups)
        squares = (self.targets_ - left.mean) ** 2 / left.variance
        return float(-0.5 * (squares + np.log(left.variance) + LOG_2PI).sum())

    def _hyperparameters(self, problem: RegressionEvidence) -> tuple[np.ndarray, np.ndarray]:
        """θ and the evaluations that led to it."""
        start = self._start(problem.n_parameters + 1)
        spread = float(self.targets_.std()) or 1.0
        if self.optimize and self.theta is None and self.max_evals is None:
            # One line search for the common scale and the noise: the answer for one kernel of fixed
            # shape, the start of the climb for all others.
            is_scale = problem.is_scale[:-1]
            K0 = problem.covariance(start[:-1])
            best = best_scale_and_noise(without_mean(spectrum(K0, self.targets_)), RATIOS)
            log_scale, log_noise = np.clip(best, *(self._limits() + np.log(spread)))
            start = np.append(log_scale * is_scale, log_noise)
            if problem.n_parameters == 1 and self.hyperprior is None:
                return start, np.array([problem.posterior(start).log_evidence])
        optimum = self._climb(problem, start, float(np.log(spread)))
        return optimum.theta, optimum.path

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        include_noise: bool = True,
        diagonal: np.ndarray | None = None,
    ):
        """Predicted mean, and with `return_std` the standard deviation of a new measurement.

        `include_noise=False` gives the deviation of the latent function instead. `diagonal` is
        k(x, x) of new scans for a precomputed kernel, by default the mean of the training diagonal.
        """
        cross, norms = self._cross_gram(self._new_scans(X), diagonal)
        K, k = self._covariance_to(self.theta_[:-1], cross, norms)
        if not return_std:
            return K @ self.dual_coef_[:, 0] + self.y_mean_
        latent = predict_latent(Regression(**self.posterior_), K, k)
        extra = self.noise_**2 if include_noise else 0.0
        return latent.mean + self.y_mean_, np.sqrt(latent.variance + extra)

    def leave_one_out(self) -> Moments:
        """Mean and variance of every training target given the others, hyper-parameters held."""
        check_is_fitted(self)
        left = leave_one_out(Regression(**self.posterior_), self.targets_)
        return Moments(left.mean + self.y_mean_, left.variance)

    def evidence_surface(self, first, second=None, parameters=(0, -1)) -> np.ndarray:
        """Log evidence over a grid of one or two log hyper-parameters (scale and noise)."""
        check_is_fitted(self)
        problem = RegressionEvidence(self._kernels(), self.gram_, self.targets_)
        return self._surface(problem, self.theta_, first, second, parameters)

    def voxel_maps(self) -> dict[str, np.ndarray]:
        """Maps "weight", "weight_sd" (linear kernels) and "pattern"."""
        check_is_fitted(self)
        precision = inverse_from_factor(self.posterior_["cholesky"])[None]
        prior = self._weight_prior(self.theta_[:-1])
        return self._voxel_maps(self.dual_coef_, precision, prior, self.latent_, [""])
