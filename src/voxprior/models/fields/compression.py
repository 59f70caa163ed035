"""Compressed fields: pseudo-measurements that shrink the l1 norm, for all nodes at once.

After the scans the filter is told, N_τ times, that ‖β‖₁ is zero up to a noise of variance R_ε. With
s = sign(β), ‖β‖₁ = sᵀβ is linear in β, so each telling is one more Kalman update:

    K = P s / (sᵀ P s + R_ε),   β ← (I − K sᵀ) β,   P ← (I − K sᵀ) P

A zero measurement leaves the information vector alone, P⁻¹β = Σ G x, and adds to the precision,
P⁻¹ = γI + Σ G Gᵀ + R_ε⁻¹ Σ s sᵀ. In dual form, with the earlier sign vectors as rows of S,

    v = X s,   z = M_i⁻¹ v,   T = γ R_ε I + S Sᵀ − V M_i⁻¹ Vᵀ,   T ω = −V α_i⁰
    α = α⁰ − Zᵀ ω,   β = Xᵀ α + Sᵀ ω

so P is never formed: two matrix products of (k, n) with all nodes, and a Cholesky factor of T that
grows by one row, per pseudo-measurement. Nodes go in blocks, whose sign history (one byte an entry)
is what bounds memory.

What matters is the dimensionless strength ρ = n/(γ R_ε), not R_ε: at ρ ≫ 1 one step overshoots and
the norm grows.

The quasi-norm (Σ|β|^p)^(1/p), 0 < p < 1, is of degree one, so its gradient s has sᵀβ = the
quasi-norm too (Euler), and the extended Kalman filter for it is the same recursion with that s.

======  ==========  ============  ===================================================
symbol  variable    shape         meaning
======  ==========  ============  ===================================================
s, S    signs       (b, N_τ, n)   sign vectors of a block of b nodes
z       Z           (b, N_τ, k)
T       L           (b, N_τ, N_τ) Cholesky factor of T
ω       omega       (b, N_τ)      weights of the sign vectors
R_ε     r_eps       scalar        pseudo-measurement noise
N_τ     n_pseudo    scalar        pseudo-measurements
======  ==========  ============  ===================================================

References
----------
A. Carmi, P. Gurfil and D. Kanevsky. Methods for sparse signal recovery using Kalman filtering with
embedded pseudo-measurement norms and quasi-norms. IEEE Transactions on Signal Processing 58(4),
2010.

A. Carmi, G. Cecchi, D. Kanevsky, B. Ramabhadran and I. Rish. Classification via compressed random
fields. IBM Research Report, 2009. Chapter 2. The all-nodes form is ours.
"""

from collections import deque
from collections.abc import Iterator

import numpy as np
from numba import njit, prange

from voxprior.models.fields.dual import Dual, Field, finish_field

# A quasi-norm's gradient is infinite at zero: coefficients below this part of the largest count as
# this large.
QUASI_NORM_FLOOR = 1e-2
# Entries of work beyond which a second thread pays for itself.
PARALLEL_WORK = 1 << 20
# Sums may be reordered, which lets them use vector registers; the order is fixed, so results
# repeat.
_FAST = {"reassoc", "contract"}


def noise_from_strength(rho: float, n_nodes: int, gamma: float) -> float:
    """R_ε of the dimensionless strength ρ = n/(γ R_ε)."""
    return n_nodes / (gamma * rho)


def norm_gradient(beta: np.ndarray, norm: float) -> np.ndarray:
    """The gradient s of the (quasi-)norm of every row, so that sᵀβ is the norm; sign(0) = 0."""
    signs = np.sign(beta)
    if norm == 1.0:
        return signs
    size = np.abs(beta)
    largest = size.max(axis=1, keepdims=True)
    size = np.maximum(size, QUASI_NORM_FLOOR * np.where(largest > 0, largest, 1.0))
    total = ((size**norm) * np.abs(signs)).sum(axis=1, keepdims=True)
    scale = np.where(total > 0, total, 1.0) ** (1.0 / norm - 1.0)
    return signs * scale * size ** (norm - 1.0)


def compress_field(
    system: Dual,
    r_eps: float,
    n_pseudo: int = 40,
    norm: float = 1.0,
    memory: int = 1 << 28,
) -> Field:
    """Compress the fields of all nodes after all scans (mode ``end``).

    Parameters
    ----------
    system : Dual
        The system of one class from :func:`~voxprior.models.fields.dual.dual_system`.
    r_eps : float
        Pseudo-measurement noise R_ε; ``inf`` gives the plain field.
    n_pseudo : int
        Number N_τ of pseudo-measurements.
    norm : float
        1 for the l1 norm, below 1 for the quasi-norm.
    memory : int
        Bytes that the sign history may take; nodes are worked on in blocks that fit.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.models.fields.dual import dual_system
    >>> rows = np.array([[1, 2, 0], [0.5, 1, 1.5], [2, 1, -1], [1, -0.5, 2]])
    >>> system = dual_system(rows, gamma=0.1, bias=None)
    >>> compress_field(system, r_eps=2.0, n_pseudo=3).coef[0].round(6)
    array([0.      , 0.506043, 0.027566])
    """
    k, n = system.X.shape
    coef, alpha = np.empty((n, n)), np.empty((k, n))
    for part in _blocks(system, n_pseudo, norm, memory):
        steps = _pseudo_steps(system, part, r_eps, n_pseudo, norm)
        beta, weights = deque(steps, maxlen=1)[0]
        coef[part], alpha[:, part] = beta, weights.T
    return finish_field(system, coef, alpha)


def held_out_path(
    system: Dual,
    held_out: np.ndarray,
    r_eps: float,
    n_pseudo: int = 40,
    norm: float = 1.0,
    memory: int = 1 << 28,
) -> np.ndarray:
    """Summed squared errors (N_τ + 1, n) on other scans after 0 .. N_τ pseudo-measurements.

    A field with fewer pseudo-measurements is a stop on the way to one with more, so all strengths
    up to N_τ/R_ε cost one fit.
    """
    n = system.X.shape[1]
    path = np.empty((n_pseudo + 1, n))
    outside = held_out - system.mean
    for part in _blocks(system, n_pseudo, norm, memory):
        steps = _pseudo_steps(system, part, r_eps, n_pseudo, norm)
        for tau, (beta, alpha) in enumerate(steps):
            error = outside[:, part] - outside @ beta.T
            if system.bias == "penalized":
                error -= alpha.sum(axis=1)
            path[tau, part] = (error**2).sum(axis=0)
    return path


def _blocks(system: Dual, n_pseudo: int, norm: float, memory: int) -> Iterator[slice]:
    """Blocks of nodes whose history fits into ``memory`` bytes."""
    k, n = system.X.shape
    entry = 1 if norm == 1.0 else 8
    per_node = n_pseudo * (entry * n + 8 * k + 8 * n_pseudo) + 32 * n
    block = int(np.clip(memory // per_node, 1, n))
    for start in range(0, n, block):
        yield slice(start, min(start + block, n))


def _pseudo_steps(system: Dual, part: slice, r_eps: float, n_pseudo: int, norm: float):
    """Yield β (b, n) and α (b, k) of the nodes ``part`` after 0 .. N_τ steps; buffers, reused."""
    X = system.X
    k, n = X.shape
    own = np.arange(part.start, part.stop)
    b = len(own)
    columns = np.ascontiguousarray(system.A[:, part].T)
    first = columns / system.slack[part, None]  # α⁰
    alpha = first.copy()
    beta = alpha @ X
    beta[np.arange(b), own] = 0.0
    yield beta, alpha
    signs = np.zeros((b, n_pseudo, n), dtype=np.int8 if norm == 1.0 else float)
    Z, L = np.zeros((b, n_pseudo, k)), np.zeros((b, n_pseudo, n_pseudo))
    weights, omega = np.zeros((b, n_pseudo)), np.zeros((b, n_pseudo))
    parallel = b * n > PARALLEL_WORK
    measure = _measure_parallel if parallel else _measure
    add_signs = _add_signs_parallel if parallel else _add_signs
    for tau in range(n_pseudo):
        s = norm_gradient(beta, norm)
        V = s @ X.T
        # With k >= n, M⁻¹ v loses digits that A s keeps.
        Z[:, tau] = V @ system.inverse if k < n else s @ system.A.T
        signs[:, tau] = s
        measure(tau, system.gamma * r_eps, signs, V, columns, first, Z, L, weights, omega, alpha)
        np.matmul(alpha, X, out=beta)
        add_signs(tau, signs, omega, beta)
        beta[np.arange(b), own] = 0.0
        yield beta, alpha


@njit(cache=True, fastmath=_FAST)
def _inner(a, b, length):
    total = 0.0
    for j in range(length):
        total += a[j] * b[j]
    return total


@njit(cache=True)
def _agreement(a, b, length):
    """Inner product of two vectors of signs; 32-bit integers fill twice the lanes of floats."""
    total = np.int32(0)
    for j in range(length):
        total = np.int32(total + np.int32(np.int32(a[j]) * np.int32(b[j])))
    return total


def _measure_nodes(tau, ridge, signs, V, columns, first, Z, L, weights, omega, alpha):
    """One pseudo-measurement of every node: grow L by a row, solve T ω = −V α⁰, α = α⁰ − Zᵀ ω."""
    b, k = V.shape
    n = signs.shape[2]
    whole = signs.itemsize == 1
    for i in prange(b):
        v, z, newest, row = V[i], Z[i, tau], signs[i, tau], L[i, tau]
        along = _inner(columns[i], v, k)
        right = -_inner(first[i], v, k)
        for j in range(k):  # own column leaves the system: M_i⁻¹ = M⁻¹ + α⁰ aᵀ
            z[j] += first[i, j] * along
        for t in range(tau):
            earlier = signs[i, t]
            same = _agreement(earlier, newest, n) if whole else _inner(earlier, newest, n)
            inner = same - _inner(v, Z[i, t], k) - _inner(row, L[i, t], t)
            row[t] = inner / L[i, t, t]
            right -= row[t] * weights[i, t]
        inner = _inner(newest, newest, n) - _inner(v, z, k) + ridge - _inner(row, row, tau)
        row[tau] = np.sqrt(max(inner, 1e-300))
        weights[i, tau] = right / row[tau]
        for t in range(tau, -1, -1):
            value = weights[i, t]
            for u in range(t + 1, tau + 1):
                value -= L[i, u, t] * omega[i, u]
            omega[i, t] = value / L[i, t, t]
        new = alpha[i]
        for j in range(k):
            new[j] = first[i, j]
        for t in range(tau + 1):
            weight, before = omega[i, t], Z[i, t]
            for j in range(k):
                new[j] -= weight * before[j]


def _add_sign_vectors(tau, signs, omega, beta):
    """β ← β + Sᵀ ω, in stretches of nodes that stay in the cache."""
    b, n = beta.shape
    for i in prange(b):
        for start in range(0, n, 1024):
            stop = min(start + 1024, n)
            piece = beta[i, start:stop]
            for t in range(tau + 1):
                weight = omega[i, t]
                sign = signs[i, t, start:stop]
                for j in range(len(piece)):
                    piece[j] += weight * sign[j]


_measure = njit(cache=True, fastmath=_FAST)(_measure_nodes)
_measure_parallel = njit(cache=True, fastmath=_FAST, parallel=True)(_measure_nodes)
_add_signs = njit(cache=True, fastmath=_FAST)(_add_sign_vectors)
_add_signs_parallel = njit(cache=True, fastmath=_FAST, parallel=True)(_add_sign_vectors)
