"""The compressed Kalman filter of :mod:`~voxprior.models.fields.kalman`, compiled, for all nodes.

What ``solver="compiled"`` runs, and ``solver="auto"`` where pseudo-measurements come after *each*
scan: the history of sign vectors is then longer than the field is wide, so P (n, n) is held for the
node at work rather than worked around as in :mod:`~voxprior.models.fields.dual`. Its state can go
on with later scans, in a stream or in adaptation:

    scan:    K = P g / (gᵀPg + 1),    β ← β + d K (x − gᵀβ),   P ← (I − d K gᵀ) P    (1.20, 1.26)
    pseudo:  K = P s / (sᵀPs + R_ε),  β ← (I − K sᵀ) β,        P ← (I − K sᵀ) P

with damping d = 1 in training, and before each scan β ← a β, P ← a² P + q I where the coefficients
move in time. d K is the gain of a scan whose noise is larger, so P stays a
covariance.

| symbol | variable | shape |
|---|---|---|
| β, row i predicts node i; p = n, or n + 1 with ones | `coef` | (n, p) |
| P, rows and columns of the node's own block are zero | `covariance` | (n, p, p) |
| block of every regressor | `block` | (p,) |
| a, q, move in time before each scan | `transition`, `drift` | scalars |
| mean of the scans so far (free bias) | `mean` | (n,) |
| d, part of the gain that is used | `damping` | scalar |

References
----------
A. Carmi, P. Gurfil and D. Kanevsky. Methods for sparse signal recovery using Kalman filtering with
embedded pseudo-measurement norms and quasi-norms. IEEE Transactions on Signal Processing 58(4),
2010.

A. Carmi, G. Cecchi, D. Kanevsky, B. Ramabhadran and I. Rish. Classification via compressed random
fields. IBM Research Report, 2009. Sections 1.3.2 and 2.3.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, prange

from voxprior.algebra import launch
from voxprior.models.fields.blocks import regressor_blocks
from voxprior.models.fields.field import Field, Training
from voxprior.models.fields.kalman import (
    QUASI_NORM_FLOOR,
    assemble_field,
    filter_rows,
    filtered_variance,
    leverage_rows,
)


class FilterState(NamedTuple):
    """Where the filters of all nodes of one class stand after ``n_seen`` scans."""

    coef: np.ndarray
    covariance: np.ndarray
    mean: np.ndarray
    n_seen: int
    innovation: np.ndarray  # sum of squared one-step innovations so far


def solve_compiled(X: np.ndarray, training: Training) -> tuple[Field, np.ndarray]:
    """The field of one class and its residual variances (n,); P lives while its node is at work.

    Parameters
    ----------
    X : ndarray of shape (k, n)
        Scans of one class in their order, columns are nodes.
    training : Training
        Prior, bias, pseudo-measurements and kind of variance.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[1, 2, 0], [0.5, 1, 1.5], [2, 1, -1], [1, -0.5, 2]])
    >>> each = Training(gamma=0.1, bias=None, r_eps=2.0, n_pseudo=3, mode="each")
    >>> solve_compiled(rows, each)[0].coef[0].round(6)
    array([0.      , 0.323887, 0.063291])
    """
    X = np.ascontiguousarray(X, dtype=float)
    rows = filter_rows(X, training.bias)
    k, n = X.shape
    regressors = leverage_rows(X, training.bias)[: k if training.variance_kind == "loo" else 0]
    coef, squares = np.zeros((n, rows.shape[1])), np.zeros(n)
    leverage = np.zeros((len(regressors), n))
    n_pseudo = _n_pseudo(training)
    launch(
        _filter_all, _work(coef.shape, len(rows), n_pseudo), rows, regressors,
        regressor_blocks(training.block_of, n, rows.shape[1]), training.gamma,
        training.transition, training.drift, training.r_eps, n_pseudo, training.mode == "each",
        training.norm, coef, squares, leverage,
    )  # fmt: skip
    mean = X.mean(axis=0) if training.bias == "centered" else np.zeros(n)
    field = assemble_field(X, coef, mean, training.bias)
    return field, filtered_variance(field, squares, leverage, training)


def initial_state(n_nodes: int, training: Training) -> FilterState:
    """The state before the first scan; P of all nodes takes 8 n³ bytes."""
    p = n_nodes + (training.bias == "penalized")
    P = np.zeros((n_nodes, p, p))
    block = regressor_blocks(training.block_of, n_nodes, p)
    P[:, np.arange(p), np.arange(p)] = (block != block[:n_nodes, None]) / training.gamma
    return FilterState(np.zeros((n_nodes, p)), P, np.zeros(n_nodes), 0, np.zeros(n_nodes))


def filter_more(
    state: FilterState, X: np.ndarray, training: Training, damping: float = 1.0
) -> FilterState:
    """Go on with more scans: streaming (damping 1) or adaptation, equation (1.26).

    Pseudo-measurements follow every scan in mode ``each``; in mode ``end`` see
    :func:`compress_state`.
    """
    coef, covariance = state.coef.copy(), state.covariance.copy()
    squares, mean, count = state.innovation.copy(), state.mean.copy(), state.n_seen
    n_pseudo = _n_pseudo(training) if training.mode == "each" else 0
    work = _work(coef.shape, 1, n_pseudo)
    block = regressor_blocks(training.block_of, *coef.shape)
    move = (block, training.transition, training.drift)
    for x in np.asarray(X, dtype=float):
        row = x
        if training.bias == "centered":
            row = np.sqrt(count / (count + 1.0)) * (x - mean)
            mean += (damping if count else 1.0) * (x - mean) / (count + 1.0)
        elif training.bias == "penalized":
            row = np.append(x, 1.0)
        count += 1
        if training.bias != "centered" or count > 1:
            pseudo = (training.r_eps, n_pseudo, training.norm)
            launch(_one_scan, work, row, coef, covariance, *move, damping, *pseudo, squares)
    return FilterState(coef, covariance, mean, count, squares)


def compress_state(state: FilterState, training: Training) -> FilterState:
    """The N_τ pseudo-measurements that mode ``end`` runs once, after the training scans."""
    coef, covariance = state.coef.copy(), state.covariance.copy()
    pseudo = (training.r_eps, _n_pseudo(training), training.norm)
    launch(_pseudo_all, _work(coef.shape, 1, pseudo[1]), coef, covariance, *pseudo)
    return state._replace(coef=coef, covariance=covariance)


def field_of_state(state: FilterState, X: np.ndarray, bias: str | None) -> Field:
    """The field of a state; ``X`` are the scans it has seen, for their residuals."""
    return assemble_field(X, state.coef, state.mean, bias)


def _n_pseudo(training: Training) -> int:
    return 0 if training.plain else training.n_pseudo


def _work(shape: tuple[int, ...], n_scans: int, n_pseudo: int) -> int:
    """Multiply-adds of filters (n, p) over scans that are each followed by pseudo-measurements."""
    n, p = shape
    return 2 * n * p * p * n_scans * (1 + n_pseudo)


@njit(cache=True, fastmath={"reassoc", "contract"})
def _absorb(P, beta, g, target, noise, damping, work):
    """Update one node with the measurement target = gᵀβ + noise; return the innovation."""
    p = len(beta)
    variance = noise
    innovation = target
    for a in range(p):
        row = P[a]
        total = 0.0
        for c in range(p):
            total += row[c] * g[c]
        work[a] = total
        variance += g[a] * total
        innovation -= g[a] * beta[a]
    step = damping / variance
    for a in range(p):
        beta[a] += step * work[a] * innovation
        row = P[a]
        scaled = step * work[a]
        for c in range(p):
            row[c] -= scaled * work[c]
    return innovation


@njit(cache=True)
def _gradient(beta, n, norm, s):
    """S with sᵀβ = ‖β‖ over the first n entries; the bias, if any, keeps s = 0."""
    largest = 0.0
    for a in range(n):
        largest = max(largest, abs(beta[a]))
        s[a] = np.sign(beta[a])
    if norm == 1.0 or largest == 0.0:
        return
    total = 0.0
    for a in range(n):
        if s[a] != 0.0:
            total += max(abs(beta[a]), QUASI_NORM_FLOOR * largest) ** norm
    scale = total ** (1.0 / norm - 1.0)
    for a in range(n):
        s[a] *= scale * max(abs(beta[a]), QUASI_NORM_FLOOR * largest) ** (norm - 1.0)


@njit(cache=True)
def _pseudo(P, beta, n, r_eps, n_pseudo, norm, s, work):
    for _ in range(n_pseudo):
        _gradient(beta, n, norm, s)
        _absorb(P, beta, s, 0.0, r_eps, 1.0, work)


@njit(cache=True)
def _move(P, beta, block, own, transition, drift):
    """β ← a β, P ← a² P + q I over the regressors of a node, those outside its block."""
    if transition == 1.0 and drift == 0.0:
        return
    for a in range(len(beta)):
        beta[a] *= transition
        for c in range(len(beta)):
            P[a, c] *= transition**2
        if block[a] != own:
            P[a, a] += drift


@njit(cache=True, parallel=True)
def _filter_all(
    rows, regressors, block, gamma, transition, drift, r_eps, n_pseudo, each, norm,
    coef, squares, leverage,
):  # fmt: skip
    """Write coefficients (n, p), summed squared innovations (n,), leverages of regressors."""
    k, p = rows.shape
    n = len(coef)
    for i in prange(n):
        P = np.zeros((p, p))
        for a in range(p):
            if block[a] != block[i]:
                P[a, a] = 1.0 / gamma
        s, work, beta = np.zeros(p), np.zeros(p), np.zeros(p)
        for t in range(k):
            _move(P, beta, block, block[i], transition, drift)
            squares[i] += _absorb(P, beta, rows[t], rows[t, i], 1.0, 1.0, work) ** 2
            if each or t == k - 1:
                _pseudo(P, beta, n, r_eps, n_pseudo, norm, s, work)
        coef[i] = beta
        for j in range(len(regressors)):
            g = regressors[j]
            for a in range(p):
                for c in range(p):
                    leverage[j, i] += g[a] * P[a, c] * g[c]


@njit(cache=True, parallel=True)
def _one_scan(
    row, coef, covariance, block, transition, drift, damping, r_eps, n_pseudo, norm, squares
):
    n, p = coef.shape
    for i in prange(n):
        s, work = np.zeros(p), np.zeros(p)
        _move(covariance[i], coef[i], block, block[i], transition, drift)
        innovation = _absorb(covariance[i], coef[i], row, row[i], 1.0, damping, work)
        squares[i] += innovation**2
        _pseudo(covariance[i], coef[i], n, r_eps, n_pseudo, norm, s, work)


@njit(cache=True, parallel=True)
def _pseudo_all(coef, covariance, r_eps, n_pseudo, norm):
    n, p = coef.shape
    for i in prange(n):
        s, work = np.zeros(p), np.zeros(p)
        _pseudo(covariance[i], coef[i], n, r_eps, n_pseudo, norm, s, work)
