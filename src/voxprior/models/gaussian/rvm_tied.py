"""Relevance vectors that share one precision: no scan is thrown away.

    K = v ΦΦᵀ + v_b 11ᵀ                   every column has the variance v, the bias v_b
    (log v, log v_b[, log σ]) maximise the evidence, σ in regression

The evidence of one precision per scan prefers few scans: of 20 scans of two classes that a linear
map tells apart it keeps two or three. The map is then a mean over these, as noisy as if the others
had not been measured, and gets worse where more scans let the search be choosier. One shared
precision averages over all of them.

v is searched in units of the mean squared row of Φ, and of the variance of the targets.

In regression one decomposition ΦΦᵀ = UΛUᵀ serves all θ. With D = vΛ + σ²I, z = Uᵀt and o = Uᵀ1 the
covariance of the targets is U(D + v_b ooᵀ)Uᵀ, so that with κ = v_b/(1 + v_b oᵀD⁻¹o)

    tᵀC⁻¹t = zᵀD⁻¹z − κ(oᵀD⁻¹z)²,   log|C| = Σ log D + log(1 + v_b oᵀD⁻¹o)
    UᵀC⁻¹t = a = D⁻¹z − κ(oᵀD⁻¹z) D⁻¹o,   tr C⁻¹ = Σ 1/D − κ Σ o²/D²

and the evidence and its gradient cost O(n).

| symbol | variable | shape |
|---|---|---|
| ΦΦᵀ without the bias | `product` | (n, n) |
| Λ, z, o | `values`, `rotated`, `ones` | (n,) |
| log v, log v_b, log σ | `theta` | (2,), regression (3,) |

Reference: M. E. Tipping, JMLR 1 (2001) 211-244 (the model, with one precision per column);
C. E. Rasmussen, J. Quiñonero-Candela, ICML 2005 (what sparsity costs).
"""

import numpy as np
from scipy.linalg import eigh

from voxprior.models.gaussian.evidence import maximize
from voxprior.models.gaussian.laplace import (
    laplace,
    laplace_gradient,
    softmax_gradient,
    softmax_laplace,
)
from voxprior.models.gaussian.regression import LOG_2PI
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
        self.product = basis.product()
        self._latent: np.ndarray | None = None
        if isinstance(targets, GaussianTargets):
            values, U = eigh(self.product)
            self.values, self.rotated = np.maximum(values, 0.0), U.T @ targets.t
            self.ones = U.sum(axis=0)

    def covariance(self, theta: np.ndarray) -> np.ndarray:
        """K (n, n) at θ."""
        return np.exp(theta[0]) * self.product + np.exp(theta[1])

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log evidence and its gradient at θ."""
        targets = self.targets
        if isinstance(targets, GaussianTargets):
            return self._of_numbers(*np.exp(theta * [1.0, 1.0, 2.0]))
        K = self.covariance(theta)
        dK = np.array([np.exp(theta[0]) * self.product, np.full(K.shape, np.exp(theta[1]))])
        if isinstance(targets, LogisticTargets):
            fit = laplace(K, targets.sign, start=self._latent)
            self._latent = fit.f
            return fit.log_evidence, laplace_gradient(fit, K, targets.sign, dK)
        several = softmax_laplace(K, targets.onehot, self._latent)
        self._latent = several.f
        return several.log_evidence, softmax_gradient(several, K, targets.onehot, dK)

    def _of_numbers(self, v: float, v_bias: float, noise: float) -> tuple[float, np.ndarray]:
        """The same in regression, from the decomposition; gradient by log v, log v_b, log σ."""
        z, o, D = self.rotated, self.ones, v * self.values + noise
        ones, mixed = float(o @ (o / D)), float(o @ (z / D))
        kappa = v_bias / (1.0 + v_bias * ones)
        a = (z - kappa * mixed * o) / D
        fit = float(z @ (z / D)) - kappa * mixed**2
        determinant = float(np.log(D).sum()) + np.log1p(v_bias * ones)
        inverse = 1.0 / D - kappa * (o / D) ** 2  # diagonal of C⁻¹ in the eigenvectors
        gradient = [
            0.5 * v * float(self.values @ (a**2 - inverse)),
            0.5 * v_bias * (float(o @ a) ** 2 - ones * (1.0 - kappa * ones)),
            noise * float((a**2 - inverse).sum()),
        ]
        return -0.5 * (fit + determinant + len(z) * LOG_2PI), np.array(gradient)


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
