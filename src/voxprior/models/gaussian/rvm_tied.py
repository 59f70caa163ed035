"""Relevance vectors that share one precision: no scan is thrown away.

    K = v ΦΦᵀ + v_b 11ᵀ                   every column has the variance v, the bias v_b
    (log v, log v_b[, log σ]) maximise the evidence, σ in regression

The evidence of one precision per scan prefers few scans: of 20 scans of two classes that a linear
map separates, it keeps two or three. The map is then a mean over these, as noisy as if the others
had not been measured, and gets worse where more scans let the search be choosier. One shared
precision averages over all of them.

v is searched in units of the mean squared row of Φ, and of the variance of the targets.

In regression one tridiagonal form serves all θ: P = ΦΦᵀ = QTQᵀ, or P = QT²Qᵀ where Φ is a kernel
matrix K = QTQᵀ, which is squared only in the end. With z = Qᵀt, o = Qᵀ1 and C₀ = vQᵀPQ + σ²I the
covariance of the targets is Q(C₀ + v_b ooᵀ)Qᵀ, so that with κ = v_b/(1 + v_b oᵀC₀⁻¹o)

    tᵀC⁻¹t = zᵀC₀⁻¹z − κ(oᵀC₀⁻¹z)²,   log|C| = Σ log(vλ + σ²) + log(1 + v_b oᵀC₀⁻¹o)
    QᵀC⁻¹t = a = C₀⁻¹z − κ(oᵀC₀⁻¹z) C₀⁻¹o,   tr C⁻¹ = Σ 1/(vλ + σ²) − κ|C₀⁻¹o|²

for the eigenvalues λ of P, which come from T alone. C₀⁻¹z is the solution of a tridiagonal system,
for a kernel matrix  C₀⁻¹ = −Im (√v T + iσI)⁻¹ / σ.  The evidence and its gradient cost O(n), and T
costs 4/3 n³: a third of what eigenvectors do. New scans of features k, which Qᵀ rotates with the
targets, have the covariance c = vTQᵀk + v_b o with the training scans: held-out scans need no
further matrix,

    mean = cᵀa,   variance = v|k|² + v_b − cᵀC₀⁻¹c + κ(oᵀC₀⁻¹c)²

| symbol | variable | shape |
|---|---|---|
| ΦΦᵀ without the bias | `product` | (n, n) |
| T, below and on its diagonal | `Tridiagonal` | (n,), (n - 1,) |
| z, o | `rotated` | (n, 2) |
| λ | `values` | (n,) |
| log v, log v_b, log σ | `theta` | (2,), regression (3,) |

Reference: M. E. Tipping, JMLR 1 (2001) 211-244 (the model, with one precision per column);
C. E. Rasmussen, J. Quiñonero-Candela, ICML 2005 (what sparsity costs).
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal, solve_banded
from scipy.linalg.lapack import dormqr, dsytrd, dsytrd_lwork

from voxprior.models.gaussian.evidence import Optimum, maximize
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


class Tridiagonal(NamedTuple):
    """A symmetric matrix A = QTQᵀ by its tridiagonal form."""

    diagonal: np.ndarray
    below: np.ndarray

    def __matmul__(self, x: np.ndarray) -> np.ndarray:
        """Tx."""
        out = self.diagonal * x
        out[1:] += self.below * x[:-1]
        out[:-1] += self.below * x[1:]
        return out

    def solve(self, scale: float, shift: complex, right: np.ndarray) -> np.ndarray:
        """(scale T + shift I)⁻¹ right."""
        bands = np.zeros((3, len(self.diagonal)), dtype=np.result_type(shift, float))
        bands[0, 1:] = bands[2, :-1] = scale * self.below
        bands[1] = scale * self.diagonal + shift
        return solve_banded((1, 1), bands, right, overwrite_ab=True, check_finite=False)


def tridiagonal(A: np.ndarray, right: np.ndarray) -> tuple[Tridiagonal, np.ndarray]:
    """T, and Qᵀright, of a symmetric matrix with A = QTQᵀ; A is overwritten.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([[2.0, 3.0, 4.0], [3.0, 1.0, 0.0], [4.0, 0.0, 1.0]])
    >>> T, rotated = tridiagonal(A, np.array([[1.0], [3.0], [4.0]]))
    >>> T.diagonal, abs(T.below).round(8), abs(rotated[:, 0]).round(8)
    (array([2., 1., 1.]), array([5., 0.]), array([1., 5., 0.]))
    """
    n = len(A)
    columns = A if A.flags.f_contiguous else A.T  # as LAPACK has them; A is symmetric
    reflectors, diagonal, below, tau, _ = dsytrd(
        columns, lower=1, lwork=int(dsytrd_lwork(n)[0]), overwrite_a=1
    )
    # Below the diagonal stand the reflectors of 1 ⊕ Q: columns of n - 1 numbers, n apart. Read as
    # columns of n they end in the first number of the next column, which is free to be zero.
    reflectors[0, 1:] = 0.0
    shifted = reflectors.ravel(order="K")[1 : 1 + n * (n - 1)].reshape(n, n - 1, order="F")
    rest = np.zeros((n, right.shape[1]), order="F")
    rest[:-1] = right[1:]
    work = 64 * (right.shape[1] + 65)  # what LAPACK needs to go by blocks of 64
    rest = dormqr("L", "T", shifted, tau, rest, work, overwrite_c=1)[0]
    return Tridiagonal(diagonal, below), np.vstack([right[:1], rest[:-1]])


class TiedEvidence:
    """Log evidence of one shared variance and its gradient."""

    def __init__(self, basis: Basis, targets: Targets, new: np.ndarray | None = None):
        self.basis, self.targets = basis, targets
        self._latent: np.ndarray | None = None
        if not isinstance(targets, GaussianTargets):
            self.product = basis.product()
            self.energy = float(np.trace(self.product))
            return
        right = [targets.t, np.ones(basis.n_rows)]
        if new is not None:  # these alone are asked for in the end: the kernel is not needed again
            self.T, rotated = tridiagonal(basis.X, np.column_stack([*right, new.T]))
            self.rotated, self.new = rotated[:, :2], rotated[:, 2:]
        else:
            A = basis.X.copy() if basis.symmetric else basis.product()
            self.T, self.rotated = tridiagonal(A, np.column_stack(right))
        values = eigvalsh_tridiagonal(*self.T, check_finite=False, lapack_driver="sterf")
        self.values = values**2 if basis.symmetric else np.maximum(values, 0.0)
        self.energy = float(self.values.sum())

    def covariance(self, theta: np.ndarray) -> np.ndarray:
        """K (n, n) at θ."""
        if isinstance(self.targets, GaussianTargets):
            K = self.basis.product()
            K *= np.exp(theta[0])
        else:
            K = np.exp(theta[0]) * self.product
        K += np.exp(theta[1])
        return K

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log evidence and its gradient at θ."""
        targets = self.targets
        if isinstance(targets, GaussianTargets):
            return self._of_numbers(*np.exp(theta * [1.0, 1.0, 2.0]))
        K, v_bias = self.covariance(theta), np.exp(theta[1])
        # K = vP + v_b 11ᵀ: what K itself changes less what its bias does is what v changes. A
        # matrix of ones that has one number in memory will do.
        dK = [K, np.broadcast_to(v_bias, K.shape)]
        if isinstance(targets, LogisticTargets):
            fit = laplace(K, targets.sign, start=self._latent)
            value, self._latent = fit.log_evidence, fit.f
            slopes = laplace_gradient(fit, K, targets.sign, dK, overwrite=True)
        else:
            several = softmax_laplace(K, targets.onehot, self._latent)
            value, self._latent = several.log_evidence, several.f
            slopes = softmax_gradient(several, K, targets.onehot, np.array(dK))
        return value, np.array([slopes[0] - slopes[1], slopes[1]])

    def moments_of_new(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (m,) of the latent values of the new scans at θ."""
        v, v_bias, noise = np.exp(theta * [1.0, 1.0, 2.0])
        o = self.rotated[:, 1]
        C = v * np.transpose([self.T @ k for k in self.new.T]) + v_bias * o[:, None]
        from_C, (from_z, from_o) = self._solve(v, noise, C), self._solve(v, noise).T
        kappa = v_bias / (1.0 + v_bias * float(o @ from_o))
        mean = C.T @ (from_z - kappa * float(o @ from_z) * from_o)
        own = v * (self.new**2).sum(axis=0) + v_bias
        variance = own - (C * from_C).sum(axis=0) + kappa * (from_o @ C) ** 2
        return mean, np.maximum(variance, 0.0)

    def _solve(self, v: float, noise: float, right: np.ndarray | None = None) -> np.ndarray:
        """C₀⁻¹ of columns, by default of the targets and of ones."""
        right = self.rotated if right is None else right
        if not self.basis.symmetric:
            return self.T.solve(v, noise, right)
        sigma = np.sqrt(noise)
        return -self.T.solve(np.sqrt(v), 1j * sigma, right).imag / sigma

    def _power(self, x: np.ndarray) -> float:
        """Quadratic form xᵀPx."""
        moved = self.T @ x
        return float(moved @ moved) if self.basis.symmetric else float(x @ moved)

    def _of_numbers(self, v: float, v_bias: float, noise: float) -> tuple[float, np.ndarray]:
        """The same in regression, from the decomposition; gradient by log v, log v_b, log σ."""
        (z, o), D = self.rotated.T, v * self.values + noise
        from_z, from_o = self._solve(v, noise).T
        ones, mixed = float(o @ from_o), float(o @ from_z)
        kappa = v_bias / (1.0 + v_bias * ones)
        a = from_z - kappa * mixed * from_o
        fit = float(z @ from_z) - kappa * mixed**2
        determinant = float(np.log(D).sum()) + np.log1p(v_bias * ones)
        trace = float((1.0 / D).sum()) - kappa * float(from_o @ from_o)
        trace_of_product = float((self.values / D).sum()) - kappa * self._power(from_o)
        gradient = [
            0.5 * v * (self._power(a) - trace_of_product),
            0.5 * v_bias * (float(o @ a) ** 2 - ones * (1.0 - kappa * ones)),
            noise * (float(a @ a) - trace),
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
    best = _climb(evidence, v, max_evals)
    K = evidence.covariance(best.theta)
    if isinstance(targets, GaussianTargets):
        targets.noise = float(np.exp(2.0 * best.theta[2]))
        state = targets.state(K, None, overwrite=True)
    else:
        state = targets.state(K, None)
    variances = tied_variances(basis, *np.exp(best.theta[:2]))
    return Relevance(variances, targets.noise, state, np.maximum.accumulate(best.path))


def tied_moments(
    K: np.ndarray,
    t: np.ndarray,
    new: np.ndarray,
    v: float | None = None,
    max_evals: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the latent values of new scans: from a fit that is not kept.

    Parameters
    ----------
    K : array (n, n)
        Kernel of the training scans, which is overwritten.
    t : array (n,)
        Their targets.
    new : array (m, n)
        Kernel between new scans and training scans.
    v, max_evals
        As in `tied`.
    """
    evidence = TiedEvidence(Basis(K, symmetric=True), GaussianTargets(t), new)
    return evidence.moments_of_new(_climb(evidence, v, max_evals).theta)


def _climb(evidence: TiedEvidence, v: float | None, max_evals: int | None) -> Optimum:
    """θ of the highest evidence, in units of the data."""
    basis, targets = evidence.basis, evidence.targets
    unit = np.log(targets.scale)
    v_unit = unit - np.log(evidence.energy / basis.n_rows or 1.0)
    log_v = np.add(V_STARTS, v_unit) if v is None else np.log([v])
    v_bounds = np.add(V_BOUNDS, v_unit) if v is None else np.log([v, v])
    bounds = [v_bounds, np.add(BIAS_BOUNDS, unit)]
    rest = [BIAS_START + unit]
    if isinstance(targets, GaussianTargets):
        bounds.append(0.5 * (np.log([LEAST_NOISE, MOST_NOISE]) + unit))
        rest.append(0.5 * (np.log(NOISE_START) + unit))
    starts = [np.array([start, *rest]) for start in log_v]
    return maximize(evidence, starts, np.array(bounds), max_evals=max_evals)
