"""All nodes of a Gaussian random field at once, from one system of the size of the scans.

Every node i is ridge regression on all the others. With X (k, n) the scans of one class,

    M = γ I + X Xᵀ,   A = M⁻¹ X,   h_i = x_iᵀ a_i
    M_i = M − x_i x_iᵀ,   α_i = M_i⁻¹ x_i = a_i / (1 − h_i)
    β_i = X_{−i}ᵀ α_i,   residuals of node i = γ α_i

so n regressions on n − 1 nodes cost O(k³ + k n²) instead of n Kalman filters of O(k n²) each, and
give the same numbers. Where there are more scans than nodes the same quantities come from Θ = (γ I
+ XᵀX)⁻¹, which loses no digits to 1 − h_i = γ Θ_ii.

The bias is one more column of ones. ``"penalized"`` shrinks it by γ as printed (1.29).
``"centered"`` leaves it free: the scans are centred by class, and the column of ones, then
orthogonal to X, only marks the direction that the free bias takes from the residuals. Leaving scan
j out, bias refitted, turns its residual into

    γ α_ij / f_ij,   f_ij = γ ([M_i⁻¹]_jj − [1/(k(γ + k)) if centred])

where f_ij is one minus the leverage of the scan in the regression of node i.

======  ==========  =======  ====================================================
symbol  variable    shape    meaning
======  ==========  =======  ====================================================
X       X           (k, n)   scans of one class, centred if the bias is free
γ       gamma       scalar   prior precision of the coefficients
M⁻¹     inverse     (k, k)   with the ones of the bias
A       A           (k, n)   M⁻¹ X
1 − h   slack       (n,)
Θ       theta       (p, p)   (γ I + XᵀX)⁻¹ with the bias, where k ≥ n
α       alpha       (k, n)   dual coefficients, column i of node i
f       fraction    (k, n)   one minus leverage
======  ==========  =======  ====================================================

References
----------
A. Carmi, G. Cecchi, D. Kanevsky, B. Ramabhadran and I. Rish. Classification via compressed random
fields. IBM Research Report, 2009. Sections 1.2.2, 1.3 and 1.3.3; the dual form is ours.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve


class Dual(NamedTuple):
    """What the regressions of all nodes of one class share."""

    X: np.ndarray
    mean: np.ndarray
    gamma: float
    bias: str | None
    inverse: np.ndarray
    A: np.ndarray
    slack: np.ndarray
    theta: np.ndarray | None


class Field(NamedTuple):
    """A field of one class: coefficients (n, n), intercepts (n,), residuals of its scans (k, n)."""

    coef: np.ndarray
    intercept: np.ndarray
    residual: np.ndarray


def dual_system(X: np.ndarray, gamma: float, bias: str | None = "centered") -> Dual:
    """Solve the one system that the regressions of all nodes share.

    Parameters
    ----------
    X : ndarray of shape (k, n)
        Scans of one class, columns are nodes.
    gamma : float
        Prior precision γ > 0.
    bias : {"centered", "penalized", None}
        A free bias, a bias shrunk by γ as printed, or none.
    """
    X = np.ascontiguousarray(X, dtype=float)
    k, n = X.shape
    mean = X.mean(axis=0) if bias == "centered" else np.zeros(n)
    X = X - mean
    columns = X if bias is None else np.column_stack([X, np.ones(k)])
    theta = None
    if k < n:
        M = columns @ columns.T
        M[np.diag_indices(k)] += gamma
        inverse = _inverse(M)
        A = inverse @ X
        slack = 1.0 - np.einsum("ji,ji->i", X, A)
    else:
        precision = columns.T @ columns
        precision[np.diag_indices_from(precision)] += gamma
        theta = _inverse(precision)
        spread = columns @ theta
        A = np.ascontiguousarray(spread[:, :n])
        inverse = -(spread @ columns.T) / gamma
        inverse[np.diag_indices(k)] += 1.0 / gamma
        slack = gamma * np.diagonal(theta)[:n]
    return Dual(X, mean, float(gamma), bias, inverse, A, slack, theta)


def solve_field(system: Dual) -> Field:
    """The plain (uncompressed) field of one class: what n Kalman filters give.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[1, 2, 0], [0.5, 1, 1.5], [2, 1, -1], [1, -0.5, 2]])
    >>> solve_field(dual_system(rows, gamma=0.1, bias=None)).coef.round(6)
    array([[ 0.      ,  0.641392,  0.145673],
           [ 0.645738,  0.      , -0.133919],
           [ 0.278035, -0.25388 ,  0.      ]])
    """
    alpha = system.A / system.slack
    if system.theta is None:
        coef = alpha.T @ system.X
    else:  # the same, −Θ_ij/Θ_ii, without the 1/γ that A/(1 − h) cancels
        n = system.X.shape[1]
        coef = -system.theta[:n, :n] / np.diagonal(system.theta)[:n, None]
    np.fill_diagonal(coef, 0.0)
    return finish_field(system, coef, alpha)


def finish_field(system: Dual, coef: np.ndarray, alpha: np.ndarray) -> Field:
    """Add intercepts and residuals γα to coefficients."""
    if system.bias == "centered":
        intercept = system.mean - coef @ system.mean
    else:
        intercept = alpha.sum(axis=0) if system.bias == "penalized" else np.zeros(len(coef))
    return Field(coef, intercept, system.gamma * alpha)


def left_out_residuals(system: Dual) -> np.ndarray:
    """Residuals (k, n) of the plain field, each of the fit without that scan, in closed form."""
    X, _, gamma, bias, inverse, A, slack, _ = system
    k = len(X)
    free = 1.0 / (k * (gamma + k)) if bias == "centered" else 0.0
    diagonal = np.diagonal(inverse)[:, None] - free + A**2 / slack
    alpha = A / slack
    return np.divide(alpha, diagonal, out=np.zeros_like(alpha), where=diagonal > 0)


def innovation_variance(system: Dual, block: int = 256) -> np.ndarray:
    """Mean squared one-step innovation of every node, scans in the order of the rows (1.21).

    With M_i = L Lᵀ the innovation of scan t is L_tt (L⁻¹ x_i)_t: one small Cholesky a node. A free
    bias turns the scans into their recursive residuals, of which the first is empty.
    """
    rows = recursive_rows(system.X) if system.bias == "centered" else system.X
    k, n = rows.shape
    M = rows @ rows.T + (1.0 if system.bias == "penalized" else 0.0)
    M[np.diag_indices(k)] += system.gamma
    variance = np.empty(n)
    for start in range(0, n, block):
        own = rows[:, start : start + block].T
        L = np.linalg.cholesky(M - own[:, :, None] * own[:, None, :])
        whitened = np.linalg.solve(L, own[:, :, None])[:, :, 0]
        innovation = whitened * np.diagonal(L, axis1=1, axis2=2)
        variance[start : start + block] = (innovation**2).mean(axis=1)
    return variance


def recursive_rows(X: np.ndarray) -> np.ndarray:
    """Scan t minus the mean of those before it, times √((t−1)/t): a free bias, one scan at a time.

    The k − 1 rows have the scatter of the centred scans, so a filter without bias on them equals a
    filter with a bias of infinite prior variance on the scans.
    """
    t = np.arange(1, len(X))[:, None]
    before = np.cumsum(X, axis=0)[:-1] / t
    return np.sqrt(t / (t + 1.0)) * (X[1:] - before)


def _inverse(positive: np.ndarray) -> np.ndarray:
    inverse = cho_solve(cho_factor(positive, lower=True), np.eye(len(positive)))
    return 0.5 * (inverse + inverse.T)
