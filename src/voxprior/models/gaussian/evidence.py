"""Hyper-parameters by their evidence: log p(y | θ) with its gradient, and the climb to its maximum.

    θ̂ = argmax_θ  log p(y | X, θ) − ½ Σ_k ((θ_k − θ⁰_k) / sd)²      (the second term is optional)

L-BFGS-B with analytic gradients, within bounds, from the best of a few starts; every evaluation is
remembered, so the best point ever seen is returned even where the number of evaluations is limited
(PRoNTo allows 20).

Each evidence class holds one training problem; calling it with θ returns (log evidence, gradient),
`.posterior(θ)` returns the fitted posterior. The latent values of one θ start the search for the
next: the modes are unique, so this saves iterations and changes nothing else.

| symbol | variable | shape |
|---|---|---|
| θ | `theta` | (P,); with kernels per class one after the other; regression (P + 1,), log σ last |
| G | `gram` | (M, n, n) |

Reference: Rasmussen & Williams 2006, section 5.4 (type-II maximum likelihood).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from voxprior.models.gaussian.covariance import (
    Kernel,
    covariance,
    derivatives,
    n_parameters,
    scale_positions,
)
from voxprior.models.gaussian.ep import (
    CLIMB_TOLERANCE,
    SITE_TOLERANCE,
    Sites,
    ep_gradient,
    expectation_propagation,
)
from voxprior.models.gaussian.ep_multinomial import MultinomialPosterior, multinomial_propagation
from voxprior.models.gaussian.laplace import (
    BinaryPosterior,
    Derivatives,
    SoftmaxPosterior,
    laplace,
    laplace_gradient,
    softmax_gradient,
    softmax_laplace,
)
from voxprior.models.gaussian.regression import Regression, evidence_gradient, regress

STRIDE = 2.0
# Where a scale e times larger would gain fewer nats, the climb has arrived.
ARRIVED = 1e-2
Evidence = Callable[[np.ndarray], tuple[float, np.ndarray]]


class KernelTerms:
    """A sum of kernels on the training Gram matrices (M, n, n)."""

    def __init__(self, kernels: Sequence[Kernel], gram: np.ndarray):
        self.kernels, self.gram = kernels, gram
        self.rows = np.einsum("mii->mi", gram)
        self.n_parameters = n_parameters(kernels)
        # 1 where θ holds a log scale, 0 at lengths (and at the noise of a regression).
        self.is_scale = np.zeros(self.n_parameters)
        self.is_scale[scale_positions(kernels)] = 1.0

    def covariance(self, theta: np.ndarray) -> np.ndarray:
        """K (n, n) at θ."""
        return covariance(self.kernels, theta, self.gram, self.rows, self.rows)

    def derivatives(self, theta: np.ndarray) -> np.ndarray:
        """∂K/∂θ (P, n, n) at θ."""
        return derivatives(self.kernels, theta, self.gram, self.rows)


class RegressionEvidence(KernelTerms):
    """Gaussian noise; the last entry of θ is log σ."""

    def __init__(self, kernels: Sequence[Kernel], gram: np.ndarray, y: np.ndarray):
        super().__init__(kernels, gram)
        self.is_scale = np.append(self.is_scale, 0.0)
        self.y = y

    def posterior(self, theta: np.ndarray) -> Regression:
        """Exact posterior at θ."""
        return regress(self.covariance(theta[:-1]), self.y, float(np.exp(2.0 * theta[-1])))

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log evidence and its gradient at θ."""
        fit = self.posterior(theta)
        noise = float(np.exp(2.0 * theta[-1]))
        return fit.log_evidence, evidence_gradient(fit, self.derivatives(theta[:-1]), noise)


class BinaryEvidence(KernelTerms):
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
        K, dK = self.covariance(theta), self.derivatives(theta)
        fit = self._approximate(K, CLIMB_TOLERANCE)
        if self.inference == "ep":
            return fit.log_evidence, ep_gradient(fit, dK)
        return fit.log_evidence, laplace_gradient(fit, K, self.sign, dK, self.likelihood)


class _ClassEvidence:
    """Kernels of C classes: one for all of them, or K = diag(K_1 .. K_C)."""

    def __init__(self, parts: Sequence[KernelTerms]):
        self.parts = parts
        self.ends = np.cumsum([part.n_parameters for part in parts])[:-1]
        self.n_parameters = sum(part.n_parameters for part in parts)
        self.is_scale = np.concatenate([part.is_scale for part in parts])

    def covariance(self, theta: np.ndarray) -> np.ndarray:
        """K (n, n), or (C, n, n) with one kernel per class."""
        if len(self.parts) == 1:
            return self.parts[0].covariance(theta)
        pairs = zip(self.parts, np.split(theta, self.ends))
        return np.array([part.covariance(own) for part, own in pairs])

    def _derivatives(self, theta: np.ndarray) -> Derivatives:
        if len(self.parts) == 1:
            return self.parts[0].derivatives(theta)
        pairs = zip(self.parts, np.split(theta, self.ends))
        return [part.derivatives(own) for part, own in pairs]


class SoftmaxEvidence(_ClassEvidence):
    """C classes by Laplace's method."""

    def __init__(self, parts: Sequence[KernelTerms], onehot: np.ndarray):
        super().__init__(parts)
        self.onehot = onehot
        self._latent: np.ndarray | None = None

    def posterior(self, theta: np.ndarray) -> SoftmaxPosterior:
        """Laplace approximation at θ."""
        fit = softmax_laplace(self.covariance(theta), self.onehot, self._latent)
        self._latent = fit.f
        return fit

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log evidence and its gradient at θ."""
        fit, dK = self.posterior(theta), self._derivatives(theta)
        return fit.log_evidence, softmax_gradient(fit, self.covariance(theta), self.onehot, dK)


class MultinomialEvidence(_ClassEvidence):
    """C classes behind one multinomial probit, by expectation propagation."""

    def __init__(self, parts: Sequence[KernelTerms], codes: np.ndarray):
        super().__init__(parts)
        self.codes = codes
        self._sites: Sites | None = None

    def posterior(self, theta: np.ndarray) -> MultinomialPosterior:
        """Gaussian approximation at θ."""
        return self._approximate(theta, SITE_TOLERANCE)

    def _approximate(self, theta: np.ndarray, tolerance: float) -> MultinomialPosterior:
        K = self.covariance(theta)
        fit, self._sites = multinomial_propagation(K, self.codes, self._sites, tolerance)
        return fit

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log evidence and its gradient at θ, which is that of fixed sites, class by class."""
        fit, dK = self._approximate(theta, CLIMB_TOLERANCE), self._derivatives(theta)
        if isinstance(dK, np.ndarray):
            return fit.log_evidence, np.sum([ep_gradient(own, dK) for own in fit.classes], axis=0)
        parts = [ep_gradient(own, each) for own, each in zip(fit.classes, dK)]
        return fit.log_evidence, np.concatenate(parts)


class Optimum(NamedTuple):
    """Maximiser, its value, and the values in the order in which they were evaluated."""

    theta: np.ndarray
    value: float
    path: np.ndarray


class _SpentError(Exception):
    """The allowed number of evaluations has been used."""


class _Recorder:
    """Counts evaluations, keeps the best, and adds the hyper-prior."""

    def __init__(self, evidence: Evidence, center: np.ndarray, sd: float | None, limit: int):
        self.evidence, self.center, self.sd, self.limit = evidence, center, sd, limit
        self.best, self.best_theta = -np.inf, center
        self.path: list[float] = []
        # The best start is climbed from, and so is the edge of a box: they are not computed again.
        self.seen: dict[bytes, tuple[float, np.ndarray]] = {}

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        if theta.tobytes() not in self.seen:
            self.seen[theta.tobytes()] = self._evaluate(theta)
        return self.seen[theta.tobytes()]

    def _evaluate(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        if len(self.path) >= self.limit:
            raise _SpentError
        value, gradient = self.evidence(theta)
        if self.sd is not None:
            away = (theta - self.center) / self.sd
            value, gradient = value - 0.5 * away @ away, gradient - away / self.sd
        self.path.append(value)
        if value > self.best:
            self.best, self.best_theta = value, theta.copy()
        return -value, -gradient


def maximize(
    evidence: Evidence,
    starts: Sequence[np.ndarray],
    bounds: np.ndarray,
    *,
    n_climbs: int = 1,
    max_evals: int | None = None,
    prior_sd: float | None = None,
) -> Optimum:
    """Climb from the best `n_climbs` of the starts; the first start is the centre of the prior.

    Parameters
    ----------
    evidence : callable
        θ -> (log evidence, gradient).
    starts : sequence of arrays (P,)
        All are evaluated, the best are climbed from.
    bounds : array (P, 2)
    n_climbs : int
    max_evals : int, optional
        Total number of evaluations allowed; no limit by default.
    prior_sd : float, optional
        Standard deviation of a normal hyper-prior on θ around the first start.

    Examples
    --------
    >>> import numpy as np
    >>> bowl = lambda t: (-float((t[0] - 1) ** 2), -2 * (t - 1))
    >>> maximize(bowl, [np.zeros(1)], np.array([[-5.0, 5.0]])).theta.round(2)
    array([1.])
    """
    limit = np.iinfo(np.int64).max if max_evals is None else max_evals
    record = _Recorder(evidence, np.asarray(starts[0], dtype=float), prior_sd, limit)
    try:
        # One start needs no scan: the climb evaluates it anyway.
        if len(starts) > n_climbs:
            values = [record(np.clip(start, bounds[:, 0], bounds[:, 1]))[0] for start in starts]
            starts = [starts[i] for i in np.argsort(values, kind="stable")[:n_climbs]]
        for start in starts:
            _climb(record, np.clip(start, bounds[:, 0], bounds[:, 1]), bounds)
    except _SpentError:
        pass
    # scipy may keep what it called in reference cycles: matrices must not wait for collection.
    del record.evidence
    return Optimum(record.best_theta, record.best, np.array(record.path))


def _climb(record: _Recorder, point: np.ndarray, bounds: np.ndarray) -> None:
    """L-BFGS-B in boxes of STRIDE nats around the point reached, until it stops inside one.

    Far from the maximum the gradient is of the order of n: a free line search would leap over the
    hill to the plateau of a vanishing kernel, where the evidence is flat and the climb would end.
    """
    inside = False
    while not inside:
        low, high = (
            np.maximum(bounds[:, 0], point - STRIDE),
            np.minimum(bounds[:, 1], point + STRIDE),
        )
        box = np.column_stack([low, high])
        options = {"ftol": 1e-6, "gtol": ARRIVED}
        found = minimize(record, point, jac=True, bounds=box, method="L-BFGS-B", options=options).x
        # The search may end a rounding before an edge that it was sent to.
        at_low, at_high = found <= low + ARRIVED, found >= high - ARRIVED
        stopped = at_low & (low > bounds[:, 0]) | at_high & (high < bounds[:, 1])
        inside = not stopped.any() or np.array_equal(found, point)
        point = found


def evidence_grid(evidence: Evidence, theta: np.ndarray, axes: dict[int, np.ndarray]) -> np.ndarray:
    """Log evidence over a grid of one or more hyper-parameters, the others held at θ.

    Parameters
    ----------
    axes : dict position in θ -> values
        The result has one dimension per entry, in this order.
    """
    grids = np.meshgrid(*axes.values(), indexing="ij")
    surface = np.empty(grids[0].shape)
    for index in np.ndindex(surface.shape):
        point = theta.copy()
        for position, grid in zip(axes, grids):
            point[position] = grid[index]
        surface[index] = evidence(point)[0]
    return surface
