"""The compressed Kalman filter one scan after the other, compiled, for all nodes of a class.

Where :mod:`~voxprior.models.fields.compression` waits for all scans, the filter as published runs
its N_τ pseudo-measurements after *each* scan, and adaptation goes on with scans that have no label.
Then the history of sign vectors is longer than the field is wide, so P (n, n) is held for the node
at work:

    scan:    K = P g / (gᵀPg + 1),    β ← β + d K (x − gᵀβ),   P ← (I − d K gᵀ) P    (1.20, 1.26)
    pseudo:  K = P s / (sᵀPs + R_ε),  β ← (I − K sᵀ) β,        P ← (I − K sᵀ) P

with damping d = 1 in training. d K is the gain of a scan whose noise is larger, so P stays a
covariance.

A free bias is worked in by recursive residuals: scan t becomes √((t−1)/t) (x(t) − mean of scans
before t), and the filter without bias on these equals the filter whose bias has infinite prior
variance. A penalised bias is one more column of ones, never shrunk by the pseudo-measurements.

======  ===========  ==========  ==============================================
symbol  variable     shape       meaning
======  ===========  ==========  ==============================================
β       coef         (n, p)      row i predicts node i; p = n, or n + 1 with ones
P       covariance   (n, p, p)   row and column i of node i are zero
        mean         (n,)        of the scans so far (free bias)
d       damping      scalar      part of the gain that is used
======  ===========  ==========  ==============================================

References
----------
A. Carmi, P. Gurfil and D. Kanevsky. Methods for sparse signal recovery using Kalman filtering with
embedded pseudo-measurement norms and quasi-norms. IEEE Transactions on Signal Processing 58(4),
2010.

A. Carmi, G. Cecchi, D. Kanevsky, B. Ramabhadran and I. Rish. Classification via compressed random
fields. IBM Research Report, 2009. Sections 1.3.2 and 2.3.
"""

from typing import NamedTuple

import numpy as np
from numba import njit, prange

from voxprior.models.fields.compression import QUASI_NORM_FLOOR
from voxprior.models.fields.dual import Field, recursive_rows


class Schedule(NamedTuple):
    """Prior, bias and pseudo-measurements; ``n_pseudo=0`` is the plain filter."""

    gamma: float
    bias: str | None = "centered"
    r_eps: float = np.inf
    n_pseudo: int = 0
    each: bool = True
    norm: float = 1.0


class State(NamedTuple):
    """Where the filters of all nodes of one class stand after ``n_seen`` scans."""

    coef: np.ndarray
    covariance: np.ndarray
    mean: np.ndarray
    n_seen: int
    innovation: np.ndarray  # sum of squared one-step innovations so far


def filter_scans(X: np.ndarray, schedule: Schedule) -> tuple[Field, np.ndarray]:
    """Train all nodes on the scans in their order; P lives only while its node is at work.

    Parameters
    ----------
    X : ndarray of shape (k, n)
        Scans of one class.
    schedule : Schedule
        Prior, bias and pseudo-measurements.

    Returns
    -------
    field : Field
        Coefficients, intercepts and residuals.
    innovation : ndarray of shape (n,)
        Mean squared one-step innovation.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[1, 2, 0], [0.5, 1, 1.5], [2, 1, -1], [1, -0.5, 2]])
    >>> field, _ = filter_scans(rows, Schedule(0.1, bias=None, r_eps=2.0, n_pseudo=3))
    >>> field.coef[0].round(6)
    array([0.      , 0.323887, 0.063291])
    """
    X = np.ascontiguousarray(X, dtype=float)
    rows = _rows(X, schedule.bias)
    coef, squares = _filter_all(
        rows,
        X.shape[1],
        schedule.gamma,
        schedule.r_eps,
        schedule.n_pseudo,
        schedule.each,
        schedule.norm,
    )
    mean = X.mean(axis=0) if schedule.bias == "centered" else np.zeros(X.shape[1])
    return _field(X, coef, mean, schedule.bias), squares / max(len(rows), 1)


def start(n_nodes: int, schedule: Schedule) -> State:
    """The state before the first scan; P of all nodes takes 8 n³ bytes."""
    p = n_nodes + (schedule.bias == "penalized")
    P = np.zeros((n_nodes, p, p))
    P[:, np.arange(p), np.arange(p)] = 1.0 / schedule.gamma
    own = np.arange(n_nodes)
    P[own, own, own] = 0.0
    return State(np.zeros((n_nodes, p)), P, np.zeros(n_nodes), 0, np.zeros(n_nodes))


def proceed(state: State, X: np.ndarray, schedule: Schedule, damping: float = 1.0) -> State:
    """Go on with more scans: streaming (damping 1) or adaptation, equation (1.26).

    Pseudo-measurements follow every scan in mode ``each``; in mode ``end`` see
    :func:`compress_state`.
    """
    coef, covariance = state.coef.copy(), state.covariance.copy()
    squares, mean, count = state.innovation.copy(), state.mean.copy(), state.n_seen
    n_pseudo = schedule.n_pseudo if schedule.each else 0
    for x in np.asarray(X, dtype=float):
        row = x
        if schedule.bias == "centered":
            row = np.sqrt(count / (count + 1.0)) * (x - mean)
            mean += (damping if count else 1.0) * (x - mean) / (count + 1.0)
        elif schedule.bias == "penalized":
            row = np.append(x, 1.0)
        count += 1
        if schedule.bias != "centered" or count > 1:
            _one_scan(
                row, coef, covariance, damping, schedule.r_eps, n_pseudo, schedule.norm, squares
            )
    return State(coef, covariance, mean, count, squares)


def compress_state(state: State, schedule: Schedule) -> State:
    """The N_τ pseudo-measurements that mode ``end`` runs once, after the training scans."""
    coef, covariance = state.coef.copy(), state.covariance.copy()
    _pseudo_all(coef, covariance, schedule.r_eps, schedule.n_pseudo, schedule.norm)
    return state._replace(coef=coef, covariance=covariance)


def field_of_state(state: State, X: np.ndarray, bias: str | None) -> Field:
    """The field of a state; ``X`` are the scans it has seen, for their residuals."""
    return _field(X, state.coef, state.mean, bias)


def _field(X, coef, mean, bias) -> Field:
    """Split the bias off the coefficients and add residuals."""
    n = X.shape[1]
    weights = np.ascontiguousarray(coef[:, :n])
    if bias == "centered":
        intercept = mean - weights @ mean
    else:
        intercept = coef[:, n].copy() if bias == "penalized" else np.zeros(n)
    return Field(weights, intercept, X - X @ weights.T - intercept)


def _rows(X: np.ndarray, bias: str | None) -> np.ndarray:
    if bias == "centered":
        return np.ascontiguousarray(recursive_rows(X))
    if bias == "penalized":
        return np.column_stack([X, np.ones(len(X))])
    return np.ascontiguousarray(X)


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


@njit(cache=True, parallel=True)
def _filter_all(rows, n, gamma, r_eps, n_pseudo, each, norm):
    """Coefficients (n, p) and summed squared innovations (n,)."""
    k, p = rows.shape
    coef, squares = np.zeros((n, p)), np.zeros(n)
    for i in prange(n):
        P = np.zeros((p, p))
        for a in range(p):
            if a != i:
                P[a, a] = 1.0 / gamma
        s, work, beta = np.zeros(p), np.zeros(p), np.zeros(p)
        for t in range(k):
            squares[i] += _absorb(P, beta, rows[t], rows[t, i], 1.0, 1.0, work) ** 2
            if each or t == k - 1:
                _pseudo(P, beta, n, r_eps, n_pseudo, norm, s, work)
        coef[i] = beta
    return coef, squares


@njit(cache=True, parallel=True)
def _one_scan(row, coef, covariance, damping, r_eps, n_pseudo, norm, squares):
    n, p = coef.shape
    for i in prange(n):
        s, work = np.zeros(p), np.zeros(p)
        innovation = _absorb(covariance[i], coef[i], row, row[i], 1.0, damping, work)
        squares[i] += innovation**2
        _pseudo(covariance[i], coef[i], n, r_eps, n_pseudo, norm, s, work)


@njit(cache=True, parallel=True)
def _pseudo_all(coef, covariance, r_eps, n_pseudo, norm):
    n, p = coef.shape
    for i in prange(n):
        s, work = np.zeros(p), np.zeros(p)
        _pseudo(covariance[i], coef[i], n, r_eps, n_pseudo, norm, s, work)
