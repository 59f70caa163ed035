"""Log evidence as a function of the hyper-parameters, with its gradient and a warm start.

Each class holds one training problem; calling it with θ returns (log evidence, gradient) as the
climber wants it, `.posterior(θ)` returns the fitted posterior. The latent values of one θ start
the search for the next: the modes are unique, so this saves iterations and changes nothing else.

==========  ==================  ==================================================
symbol      variable            shape
==========  ==================  ==================================================
θ           theta               (P,); per class (C P,); regression (P + 1,), log σ last
G           gram                (M, n, n)
==========  ==================  ==================================================
"""

from collections.abc import Sequence

import numpy as np

from voxprior.models.gaussian.binary import BinaryPosterior
from voxprior.models.gaussian.ep import (
    CLIMB_TOLERANCE,
    SITE_TOLERANCE,
    Sites,
    ep_gradient,
    expectation_propagation,
)
from voxprior.models.gaussian.kernels import Kernel, covariance, derivatives, n_parameters
from voxprior.models.gaussian.laplace import laplace, laplace_gradient
from voxprior.models.gaussian.multiclass import (
    SoftmaxPosterior,
    softmax_gradient,
    softmax_laplace,
)
from voxprior.models.gaussian.regression import Regression, evidence_gradient, regress


class _Problem:
    """Kernels on one training Gram matrix."""

    def __init__(self, kernels: Sequence[Kernel], gram: np.ndarray):
        self.kernels, self.gram = kernels, gram
        self.rows = np.einsum("mii->mi", gram)
        self.n_parameters = n_parameters(kernels)

    def covariance(self, theta: np.ndarray) -> np.ndarray:
        """K (n, n) at θ."""
        return covariance(self.kernels, theta, self.gram, self.rows, self.rows)

    def _derivatives(self, theta: np.ndarray) -> np.ndarray:
        return derivatives(self.kernels, theta, self.gram, self.rows)


class RegressionEvidence(_Problem):
    """Gaussian noise; the last entry of θ is log σ."""

    def __init__(self, kernels: Sequence[Kernel], gram: np.ndarray, y: np.ndarray):
        super().__init__(kernels, gram)
        self.y = y

    def posterior(self, theta: np.ndarray) -> Regression:
        """Exact posterior at θ."""
        return regress(self.covariance(theta[:-1]), self.y, float(np.exp(2.0 * theta[-1])))

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log evidence and its gradient at θ."""
        fit = self.posterior(theta)
        noise = float(np.exp(2.0 * theta[-1]))
        return fit.log_evidence, evidence_gradient(fit, self._derivatives(theta[:-1]), noise)


class BinaryEvidence(_Problem):
    """Labels −1 and +1, by Laplace's method or expectation propagation."""

    def __init__(
        self,
        kernels: Sequence[Kernel],
        gram: np.ndarray,
        sign: np.ndarray,
        likelihood: str,
        inference: str,
    ):
        super().__init__(kernels, gram)
        self.sign, self.likelihood, self.inference = sign, likelihood, inference
        self._latent: np.ndarray | None = None
        self._sites: Sites | None = None

    def posterior(self, theta: np.ndarray) -> BinaryPosterior:
        """Gaussian approximation at θ."""
        return self._approximate(self.covariance(theta), SITE_TOLERANCE)

    def _approximate(self, K: np.ndarray, tolerance: float) -> BinaryPosterior:
        if self.inference == "ep":
            fit, self._sites = expectation_propagation(K, self.sign, self._sites, tolerance)
        else:
            fit = laplace(K, self.sign, self.likelihood, self._latent)
        self._latent = fit.f
        return fit

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log evidence and its gradient at θ."""
        K, dK = self.covariance(theta), self._derivatives(theta)
        fit = self._approximate(K, CLIMB_TOLERANCE)
        if self.inference == "ep":
            return fit.log_evidence, ep_gradient(fit, dK)
        return fit.log_evidence, laplace_gradient(fit, K, self.sign, dK, self.likelihood)


class SoftmaxEvidence(_Problem):
    """C classes by Laplace's method, one kernel for all of them or one for each."""

    def __init__(
        self, kernels: Sequence[Kernel], gram: np.ndarray, onehot: np.ndarray, per_class: bool
    ):
        super().__init__(kernels, gram)
        self.onehot, self.per_class = onehot, per_class
        self._latent: np.ndarray | None = None

    def covariance(self, theta: np.ndarray) -> np.ndarray:
        """K (n, n), or (C, n, n) with one kernel a class."""
        if not self.per_class:
            return super().covariance(theta)
        parts = theta.reshape(self.onehot.shape[1], -1)
        return np.array([super(SoftmaxEvidence, self).covariance(part) for part in parts])

    def posterior(self, theta: np.ndarray) -> SoftmaxPosterior:
        """Laplace approximation at θ."""
        fit = softmax_laplace(self.covariance(theta), self.onehot, self._latent)
        self._latent = fit.f
        return fit

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log evidence and its gradient at θ."""
        fit = self.posterior(theta)
        parts = theta.reshape(self.onehot.shape[1], -1) if self.per_class else None
        if parts is None:
            dK = self._derivatives(theta)
        else:
            dK = np.array([self._derivatives(part) for part in parts])
        gradient = softmax_gradient(fit, self.covariance(theta), self.onehot, dK)
        return fit.log_evidence, gradient.ravel()
