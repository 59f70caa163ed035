"""Relevance vectors that share one precision: no scan is thrown away.

    K = v ΦΦᵀ + v_b 11ᵀ                   every column has the variance v, the bias v_b
    (log v, log v_b[, log σ]) maximise the evidence, σ in regression

The evidence of one precision per scan prefers few scans: of 20 scans of two classes that a linear
map tells apart it keeps two or three. The map is then a mean over these, as noisy as if the others
had not been measured, and gets worse where more scans let the search be choosier. One shared
precision averages over all of them.

v is searched in units of the mean squared row of Φ, and of the variance of the targets.

| symbol | variable | shape |
|---|---|---|
| ΦΦᵀ without the bias | `product` | (n, n) |
| log v, log v_b, log σ | `theta` | (2,), regression (3,) |

Reference: M. E. Tipping, JMLR 1 (2001) 211-244 (the model, with one precision per column);
C. E. Rasmussen, J. Quiñonero-Candela, ICML 2005 (what sparsity costs).
"""

import numpy as np

from voxprior.models.gaussian.evidence import maximize
from voxprior.models.gaussian.laplace import (
    laplace,
    laplace_gradient,
    softmax_gradient,
    softmax_laplace,
)
from voxprior.models.gaussian.regression import evidence_gradient, regress
from voxprior.models.gaussian.rvm_em import (
    LEAST_NOISE,
    Basis,
    GaussianTargets,
    LogisticTargets,
    Relevance,
    Targets,
)

# Bounds of log v and log v_b, and where the search begins: the best of these is climbed from.
V_BOUNDS = (-12.0, 12.0)
BIAS_BOUNDS = (-9.0, 0.0)
V_STARTS = (-4.0, 0.0, 4.0)
BIAS_START = -4.0
# σ², as a part of the variance of the targets: most, and where the search begins.
MOST_NOISE = 2.0
NOISE_START = 0.5


class TiedEvidence:
    """Log evidence of one shared variance and its gradient."""

    def __init__(self, basis: Basis, targets: Targets):
        self.targets = targets
        self.product = basis.covariance(tied_variances(basis, 1.0, 0.0))
        self._latent: np.ndarray | None = None

    def covariance(self, theta: np.ndarray) -> np.ndarray:
        """K (n, n) at θ."""
        return np.exp(theta[0]) * self.product + np.exp(theta[1])

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log evidence and its gradient at θ."""
        K = self.covariance(theta)
        dK = np.array([np.exp(theta[0]) * self.product, np.full(K.shape, np.exp(theta[1]))])
        targets = self.targets
        if isinstance(targets, GaussianTargets):
            noise = float(np.exp(2.0 * theta[2]))
            exact = regress(K, targets.t, noise)
            return exact.log_evidence, evidence_gradient(exact, dK, noise)
        if isinstance(targets, LogisticTargets):
            fit = laplace(K, targets.sign, start=self._latent)
            self._latent = fit.f
            return fit.log_evidence, laplace_gradient(fit, K, targets.sign, dK)
        several = softmax_laplace(K, targets.onehot, self._latent)
        self._latent = several.f
        return several.log_evidence, softmax_gradient(several, K, targets.onehot, dK)


def tied_variances(basis: Basis, v: float, v_bias: float) -> np.ndarray:
    """One variance for all columns but the last, which is the bias."""
    return np.append(np.full(basis.n_columns - 1, v), v_bias)


def tied(
    basis: Basis, targets: Targets, v: float | None = None, max_evals: int | None = None
) -> Relevance:
    """Relevance vectors of one shared precision.

    Parameters
    ----------
    basis : Basis
        With a bias.
    targets : GaussianTargets, LogisticTargets or SoftmaxTargets
    v : float, optional
        The shared variance, where it is known.
    max_evals : int, optional
        Most evaluations of the evidence.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.models.gaussian.rvm_em import LogisticTargets
    >>> x = np.array([[-2.0, -1.0, 1.0, 2.0]])
    >>> fit = tied(Basis(x.T @ x), LogisticTargets(np.array([-1.0, -1.0, 1.0, 1.0])))
    >>> len(set(fit.v[:-1].tolist()))
    1
    """
    evidence = TiedEvidence(basis, targets)
    unit = np.log(targets.scale)
    energy = float(np.trace(evidence.product)) / basis.n_rows
    v_unit = unit - np.log(energy or 1.0)
    log_v = np.add(V_STARTS, v_unit) if v is None else np.log([v])
    v_bounds = np.add(V_BOUNDS, v_unit) if v is None else np.log([v, v])
    bounds = [v_bounds, np.add(BIAS_BOUNDS, unit)]
    rest = [BIAS_START + unit]
    if isinstance(targets, GaussianTargets):
        bounds.append(0.5 * (np.log([LEAST_NOISE, MOST_NOISE]) + unit))
        rest.append(0.5 * (np.log(NOISE_START) + unit))
    starts = [np.array([start, *rest]) for start in log_v]
    best = maximize(evidence, starts, np.array(bounds), max_evals=max_evals)
    if isinstance(targets, GaussianTargets):
        targets.noise = float(np.exp(2.0 * best.theta[2]))
    state = targets.state(evidence.covariance(best.theta), None)
    variances = tied_variances(basis, *np.exp(best.theta[:2]))
    return Relevance(variances, targets.noise, state, np.maximum.accumulate(best.path))
