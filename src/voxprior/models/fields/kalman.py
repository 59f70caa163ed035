"""The Kalman filter that trains a Gaussian random field node by node and scan by scan, as printed.

Model of node i in one class, with G_i(t) all other nodes of scan t:

    x_i(t) = β_iᵀ G_i(t) + w(t),   w ~ N(0, 1)                                   (1.12)
    P_0 = I/γ,  β_0 = 0                                                          (1.19)
    K = P G / (Gᵀ P G + 1)                                                       (1.20a)
    β ← β + K (x_i − Gᵀ β)                                                       (1.20b)
    P ← (I − K Gᵀ) P                                                             (1.20c)

The result is ridge regression with penalty γ, whatever the order of the scans.

Blocks. The r nodes of one block are predicted together by the m nodes of all others,

    G_i = β_ij G_j + W = (G_jᵀ ⊗ I_r) vec(β_ij) + W                              (1.23), (1.24)

The filter of vec(β_ij) starts from a covariance P ⊗ I_r and keeps that form, so every row of β_ij
is the recursion above with G_j in the place of G_i: a node's own block is left out of its
regressors, and that is all. (Compression measures the norm of each row; from then on every row has
its own P.)

Time. Before each update the coefficients may move, β ← A β + v, v ~ N(0, Q), with A = a I, Q = q I:

    β ← a β,   P ← a² P + q I

so that earlier scans count less. Scans of a class must then be in the order of time.

Compression gives the filter N_τ pseudo-measurements, after all scans or after each of them: ‖β‖₁ is
zero up to a noise of variance R_ε. With s = sign(β), ‖β‖₁ = sᵀβ is linear in β, so each of them is
one more update, with the measurement 0 = sᵀβ + ε:

    K = P s / (sᵀ P s + R_ε),   β ← (I − K sᵀ) β,   P ← (I − K sᵀ) P

The quasi-norm (Σ|β|^p)^(1/p), 0 < p < 1, is of degree one, so its gradient s has sᵀβ = the
quasi-norm too (Euler), and the extended Kalman filter for it is the same recursion with that s.

A bias is one more column of ones, which is never compressed (``"penalized"``), or free
(``"centered"``): scan t then becomes √((t−1)/t) (x(t) − mean of scans before t), and the filter
without bias on these rows equals the filter whose bias has infinite prior variance.

| symbol | variable | shape |
|---|---|---|
| G, regressors, one row per scan | `G` | (k, p) |
| x_i, the node to be predicted | `x` | (k,) |
| γ, prior precision of every coefficient | `gamma` | scalar |
| β, coefficients | `beta` | (p,) |
| P, posterior covariance (unit noise) | `P`, `covariance` | (p, p) |
| s, gradient of the norm | `s` | (p,) |
| R_ε, N_τ, noise and number of pseudo-measurements | `r_eps`, `n_pseudo` | scalars |

This file is the reference to read, and ``RandomFieldClassifier(solver="kalman")`` runs it.
:mod:`~voxprior.models.fields.kalman_compiled` is the same recursion, compiled;
:mod:`~voxprior.models.fields.dual` gives the same numbers for all nodes at once and is the one to
use when γ is below about 1e-6, where P loses the digits that 1/γ takes.

References
----------
A. Carmi, G. Cecchi, D. Kanevsky, B. Ramabhadran and I. Rish. Classification via compressed random
fields. IBM Research Report, 2009. Sections 1.3 and 1.3.1, and chapter 2.

A. Carmi, P. Gurfil and D. Kanevsky. Methods for sparse signal recovery using Kalman filtering with
embedded pseudo-measurement norms and quasi-norms. IEEE Transactions on Signal Processing 58(4),
2010.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from voxprior.models.fields.blocks import regressor_blocks
from voxprior.models.fields.field import Field, Training, residual_variance

# A quasi-norm's gradient is infinite at zero: coefficients below this part of the largest count as
# this large.
QUASI_NORM_FLOOR = 1e-2


class Filtered(NamedTuple):
    """State after the last scan, and what every scan added to the state before it."""

    beta: np.ndarray
    covariance: np.ndarray
    innovation: np.ndarray
    innovation_variance: np.ndarray


def kalman_filter(
    G: np.ndarray,
    x: np.ndarray,
    gamma: float,
    r_eps: float = np.inf,
    n_pseudo: int = 0,
    mode: str = "end",
    norm: float = 1.0,
    n_free: int = 0,
    transition: float = 1.0,
    drift: float = 0.0,
) -> Filtered:
    """Train one node scan by scan, equations (1.19)-(1.21), with pseudo-measurements if asked.

    Parameters
    ----------
    G : ndarray of shape (k, p)
        The other nodes, one row per scan.
    x : ndarray of shape (k,)
        The node.
    gamma : float
        Prior precision γ > 0.
    r_eps, n_pseudo : float, int
        Noise R_ε and number N_τ of pseudo-measurements; none of them is the plain filter.
    mode : {"end", "each"}
        Pseudo-measurements after all scans or after each.
    norm : float
        1 for the l1 norm, below 1 for the quasi-norm.
    n_free : int
        How many of the last coefficients are never compressed (a bias).
    transition, drift : float
        a and q of the move in time before each scan.

    Returns
    -------
    Filtered
        ``beta``, ``covariance``, and for every scan its ``innovation`` and the variance (1.21) of
        it.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[1, 2, 0], [0.5, 1, 1.5], [2, 1, -1], [1, -0.5, 2]])
    >>> kalman_filter(rows[:, 1:], rows[:, 0], gamma=0.1).beta.round(6)
    array([0.641392, 0.145673])
    >>> kalman_filter(rows[:, 1:], rows[:, 0], 0.1, r_eps=2.0, n_pseudo=3).beta.round(6)
    array([0.506043, 0.027566])
    """
    k, p = G.shape
    beta, P = np.zeros(p), np.eye(p) / gamma  # (1.19)
    innovation, variance = np.empty(k), np.empty(k)
    for t in range(k):
        beta, P = transition * beta, transition**2 * P + drift * np.eye(p)
        beta, P, innovation[t], variance[t] = update(beta, P, G[t], x[t], noise=1.0)
        if mode == "each" or t == k - 1:
            for _ in range(n_pseudo):
                s = np.zeros(p)
                s[: p - n_free] = norm_gradient(beta[None, : p - n_free], norm)[0]
                beta, P, _, _ = update(beta, P, s, 0.0, noise=r_eps)
    return Filtered(beta, P, innovation, variance)


def update(beta: np.ndarray, P: np.ndarray, g: np.ndarray, x: float, noise: float):
    """β and P after the measurement x = gᵀβ + noise, its innovation and the variance of that."""
    Pg = P @ g
    variance = g @ Pg + noise  # (1.21)
    innovation = x - g @ beta
    gain = Pg / variance  # (1.20a)
    beta = beta + gain * innovation  # (1.20b)
    P = P - np.outer(gain, Pg)  # (1.20c), symmetric as written
    return beta, P, innovation, variance


def norm_gradient(beta: np.ndarray, norm: float) -> np.ndarray:
    """The gradient s of the (quasi-)norm of every row, so that sᵀβ is the norm; sign(0) = 0."""
    signs = np.sign(beta)
    if norm == 1.0:
        return signs
    size = np.abs(beta)
    largest = size.max(axis=1, keepdims=True, initial=0.0)
    size = np.maximum(size, QUASI_NORM_FLOOR * np.where(largest > 0, largest, 1.0))
    total = ((size**norm) * np.abs(signs)).sum(axis=1, keepdims=True)
    scale = np.where(total > 0, total, 1.0) ** (1.0 / norm - 1.0)
    return signs * scale * size ** (norm - 1.0)


def solve_kalman(X: np.ndarray, training: Training) -> tuple[Field, np.ndarray]:
    """The field of one class and its residual variances (n,): one filter per node.

    Parameters
    ----------
    X : ndarray of shape (k, n)
        Scans of one class in their order, columns are nodes.
    training : Training
        Prior, bias, pseudo-measurements and kind of variance.
    """
    X = np.asarray(X, dtype=float)
    rows, regressors = filter_rows(X, training.bias), leverage_rows(X, training.bias)
    k, n = X.shape
    p = rows.shape[1]
    n_pseudo = 0 if training.plain else training.n_pseudo
    coef, squares, leverage = np.zeros((n, p)), np.zeros(n), np.zeros((k, n))
    block = regressor_blocks(training.block_of, n, p)
    for i in range(n):
        others = block != block[i]
        node = kalman_filter(
            rows[:, others], rows[:, i], training.gamma, training.r_eps, n_pseudo,
            training.mode, training.norm, p - n, training.transition, training.drift,
        )  # fmt: skip
        coef[i, others] = node.beta
        squares[i] = (node.innovation**2).sum()
        g = regressors[:, others]
        leverage[:, i] = np.einsum("ja,ab,jb->j", g, node.covariance, g)
    field = assemble_field(X, coef, X.mean(axis=0), training.bias)
    return field, filtered_variance(field, squares, leverage, training)


def filter_rows(X: np.ndarray, bias: str | None) -> np.ndarray:
    """The rows that a filter of the bias is given, (k, p) or (k − 1, p)."""
    if bias == "centered":
        return np.ascontiguousarray(recursive_rows(X))
    return leverage_rows(X, bias)


def leverage_rows(X: np.ndarray, bias: str | None) -> np.ndarray:
    """The regressors (k, p) of all scans, after the last of them."""
    if bias == "centered":
        return X - X.mean(axis=0)
    if bias == "penalized":
        return np.column_stack([X, np.ones(len(X))])
    return np.ascontiguousarray(X)


def recursive_rows(X: np.ndarray) -> np.ndarray:
    """Scan t minus the mean of those before it, times √((t−1)/t): a free bias, one scan at a time.

    The k − 1 rows have the scatter of the centred scans, so a filter without bias on them equals a
    filter with a bias of infinite prior variance on the scans.
    """
    t = np.arange(1, len(X))[:, None]
    before = np.cumsum(X, axis=0)[:-1] / t
    return np.sqrt(t / (t + 1.0)) * (X[1:] - before)


def assemble_field(X: np.ndarray, coef: np.ndarray, mean: np.ndarray, bias: str | None) -> Field:
    """Split the bias off coefficients (n, p) and add the residuals of scans X (k, n)."""
    n = X.shape[1]
    weights = np.ascontiguousarray(coef[:, :n])
    if bias == "centered":
        intercept = mean - weights @ mean
    else:
        intercept = coef[:, n].copy() if bias == "penalized" else np.zeros(n)
    return Field(weights, intercept, X - X @ weights.T - intercept)


def filtered_variance(
    field: Field, squares: np.ndarray, leverage: np.ndarray, training: Training
) -> np.ndarray:
    """Residual variances (n,) of a filtered class, by the kind that is asked for.

    ``squares`` (n,) are summed squared innovations; ``leverage`` (k, n) is Gᵀ P G of every scan and
    node, to which a free bias adds 1/k.
    """
    if training.variance_kind == "residual":
        return residual_variance(field.residual)
    k = len(field.residual)
    free = training.bias == "centered"
    if training.variance_kind == "innovation":
        return squares / max(k - free, 1)
    rest = 1.0 - leverage - free / k
    left_out = np.divide(field.residual, rest, out=np.zeros_like(rest), where=rest > 0)
    return (left_out**2).mean(axis=0)
