"""What a trained field says about a scan: conditionals, partition function, likelihood ratio.

    log p(x|θ) = Σ_i log N(x_i; β_iᵀ G_i + b_i, σ_i) − log Z_θ                      (1.4), (1.17)
    Z_θ = ∫ Π_i N(x_i; β_iᵀ G_i + b_i, σ_i) dx = 1 / |det(I − B_θ)|

The product of conditionals of a linear-Gaussian field is a Gaussian in (I − B)x, so the constant
that in general "rarely can be computed" is one determinant. σ_i is a variance, and its factor
(2πσ_i)^(−1/2), hidden in the "∝" of (1.17), depends on the class; it is included unless
``normalize`` is false.

Over nodes the log-likelihood ratio is a sum of n terms. If nodes were alike and independent,

    (1/n) log l → +KL(p_0‖p_1) for a scan of class 0,  −KL(p_1‖p_0) for one of class 1       (A.15)

with fluctuations of order n^(−1/2). (The report prints (A.16) with both signs reversed, against its
own (A.14).)

======  ==========  =======  ===================================================
symbol  variable    shape    meaning
======  ==========  =======  ===================================================
x       X           (m, n)   scans at the nodes
B_θ     coef        (n, n)   row i predicts node i, zero diagonal
b       intercept   (n,)
σ       noise       (n,)     residual variances of one class
======  ==========  =======  ===================================================

References
----------
A. Carmi, G. Cecchi, D. Kanevsky, B. Ramabhadran and I. Rish. Classification via compressed random
fields. IBM Research Report, 2009. Sections 1.2 and A.3.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import lu_factor


class Trajectory(NamedTuple):
    """Running mean over nodes of log l (m, n), and the value (m,) it has in expectation."""

    running_mean: np.ndarray
    limit: np.ndarray


def node_log_likelihood(X, coef, intercept, noise, normalize: bool = True) -> np.ndarray:
    """Log p(x_i | G_i, θ) of every scan and node, (m, n)."""
    error = X - X @ coef.T - intercept
    log_p = -0.5 * error**2 / noise
    return log_p - 0.5 * np.log(2 * np.pi * noise) if normalize else log_p


def log_likelihood(X, coef, intercept, noise, normalize: bool = True) -> np.ndarray:
    """Log pseudo-likelihood of every scan under the field of one class, without log Z.

    Examples
    --------
    >>> import numpy as np
    >>> B = np.array([[0, .641392, .145673], [.645738, 0, -.133919], [.278035, -.253880, 0]])
    >>> noise = np.array([1.177306, 1.185532, 2.300119])
    >>> log_likelihood(np.ones((1, 3)), B, np.zeros(3), noise).round(4)
    array([-3.6668])
    """
    return node_log_likelihood(X, coef, intercept, noise, normalize).sum(axis=1)


def log_partition(coef: np.ndarray) -> float:
    """Log Z = −log|det(I − B)|; one work copy of B is made.

    Examples
    --------
    >>> import numpy as np
    >>> float(np.exp(log_partition(np.array([[0, 0.5], [0.4, 0]]))).round(6))
    1.25
    """
    work = -np.asarray(coef, dtype=float, order="C")
    work[np.diag_indices_from(work)] += 1.0
    # The transpose is in Fortran order, so LAPACK works in place; the determinant is the same.
    factor, _ = lu_factor(work.T, overwrite_a=True, check_finite=False)
    size = np.abs(np.diagonal(factor))
    if not size.min() > 0:
        raise ValueError(
            "The partition function is infinite: I - B is singular. Use threshold='tuned' or "
            "'zero', or a larger gamma."
        )
    return float(-np.log(size).sum())


def ratio_trajectory(X, coef, intercept, noise, own: int = 0) -> Trajectory:
    """Log-likelihood ratio of two classes as nodes are added, with its limit (A.13)-(A.18).

    Parameters
    ----------
    X : ndarray of shape (m, n)
        Scans at the nodes.
    coef, intercept, noise : ndarrays of shape (2, n, n), (2, n), (2, n)
        The fields of classes 0 and 1.
    own : {0, 1}
        The true class of the scans, which gives the limit its sign.

    Returns
    -------
    Trajectory
        ``running_mean`` (m, n): (1/i) Σ of the first i terms of log p_0 − log p_1; ``limit`` (m,):
        the mean over nodes of ±KL between the two conditionals given the scan's other nodes.
    """
    terms = [node_log_likelihood(X, coef[c], intercept[c], noise[c]) for c in (0, 1)]
    running = np.cumsum(terms[0] - terms[1], axis=1) / np.arange(1, X.shape[1] + 1)
    other = 1 - own
    gap = X @ (coef[0] - coef[1]).T + intercept[0] - intercept[1]
    ratio = noise[own] / noise[other]
    divergence = 0.5 * (ratio - 1.0 - np.log(ratio) + gap**2 / noise[other])
    return Trajectory(running, (1.0 if own == 0 else -1.0) * divergence.mean(axis=1))


def residual_variance(residual: np.ndarray) -> np.ndarray:
    """(1.22): summed squared residuals of the final coefficients over k − 1, no mean taken off."""
    return (residual**2).sum(axis=0) / (len(residual) - 1)
