"""The sequential Kalman filter that trains one node of a Gaussian random field, scan by scan.

Model of node i in one class, with G_i(t) all other nodes of scan t:

    x_i(t) = β_iᵀ G_i(t) + w(t),   w ~ N(0, 1)                                   (1.12)
    P_0 = I/γ,  β_0 = 0                                                          (1.19)
    K = P G / (Gᵀ P G + 1)                                                       (1.20a)
    β ← β + K (x_i − Gᵀ β)                                                       (1.20b)
    P ← (I − K Gᵀ) P                                                             (1.20c)

Before an update the state may move in time: β ← A β, P ← A P Aᵀ + Q; A = I, Q = q I is a filter
that forgets. Without it the result is ridge regression with penalty γ, whatever the order of the
scans.

======  =============  ==========  ==========================================
symbol  variable       shape       meaning
======  =============  ==========  ==========================================
G       G              (k, p)      regressors, one row a scan
x_i     x              (k,)        the node to be predicted
γ       gamma          scalar      prior precision of every coefficient
β       beta           (p,)        coefficients
P       covariance     (p, p)      posterior covariance (unit noise)
A, Q    transition,    (p, p)      time propagation
        drift
======  =============  ==========  ==========================================

This file is the reference to read; :mod:`voxprior.models.fields.dual` gives the same numbers for
all nodes at once, is what the classifier runs, and is the one to use when γ is below about 1e-6,
where P loses the digits that 1/γ takes.

References
----------
A. Carmi, G. Cecchi, D. Kanevsky, B. Ramabhadran and I. Rish. Classification via compressed random
fields. IBM Research Report, 2009. Sections 1.3 and 1.3.1.
"""

from typing import NamedTuple

import numpy as np


class Filtered(NamedTuple):
    """State after the last scan, and what every scan said beyond the state before it."""

    beta: np.ndarray
    covariance: np.ndarray
    innovation: np.ndarray
    innovation_variance: np.ndarray


class BlockFiltered(NamedTuple):
    """Coefficients (r, m) of a block of nodes and the covariance (m, m) its r rows share."""

    beta: np.ndarray
    covariance: np.ndarray


def kalman_filter(
    G: np.ndarray,
    x: np.ndarray,
    gamma: float,
    transition: np.ndarray | None = None,
    drift: np.ndarray | None = None,
) -> Filtered:
    """Train one node scan by scan, equations (1.19)-(1.21).

    Parameters
    ----------
    G : ndarray of shape (k, p)
        The other nodes, one row a scan.
    x : ndarray of shape (k,)
        The node.
    gamma : float
        Prior precision γ > 0.
    transition, drift : ndarray of shape (p, p), optional
        A and Q of the time propagation before every update; identity and zero if not given.

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
    """
    k, p = G.shape
    beta, P = np.zeros(p), np.eye(p) / gamma  # (1.19)
    innovation, variance = np.empty(k), np.empty(k)
    for t in range(k):
        beta, P = _propagate(beta, P, transition, drift)
        g = np.asarray(G[t], dtype=float)
        Pg = P @ g
        variance[t] = g @ Pg + 1.0  # (1.21)
        innovation[t] = x[t] - g @ beta
        gain = Pg / variance[t]  # (1.20a)
        beta = beta + gain * innovation[t]  # (1.20b)
        P = P - np.outer(gain, Pg)  # (1.20c), symmetric as written
    return Filtered(beta, P, innovation, variance)


def kalman_block(targets: np.ndarray, sources: np.ndarray, gamma: float) -> BlockFiltered:
    """Train the connections between two sets of nodes, equations (1.23)-(1.25).

    G_i = β_ij G_j + W with β_ij (r, m). In vec form the state has r·m entries, but its covariance
    is P ⊗ I_r with one P (m, m) for all r rows: the block costs one filter, not r.

    Parameters
    ----------
    targets : ndarray of shape (k, r)
        G_i, the nodes to be predicted.
    sources : ndarray of shape (k, m)
        G_j, the nodes that predict.
    gamma : float
        Prior precision γ > 0.

    Returns
    -------
    BlockFiltered
        ``beta`` (r, m) and the shared ``covariance`` (m, m).

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[1, 2, 0], [0.5, 1, 1.5], [2, 1, -1], [1, -0.5, 2]])
    >>> kalman_block(rows[:, :1], rows[:, 1:], gamma=0.1).beta.round(6)
    array([[0.641392, 0.145673]])
    """
    m = sources.shape[1]
    beta, P = np.zeros((targets.shape[1], m)), np.eye(m) / gamma
    for target, g in zip(targets, sources, strict=True):
        Pg = P @ g
        gain = Pg / (g @ Pg + 1.0)
        beta = beta + np.outer(target - beta @ g, gain)
        P = P - np.outer(gain, Pg)
    return BlockFiltered(beta, P)


def _propagate(beta, P, transition, drift):
    if transition is not None:
        beta, P = transition @ beta, transition @ P @ transition.T
    if drift is not None:
        P = P + drift
    return beta, P
