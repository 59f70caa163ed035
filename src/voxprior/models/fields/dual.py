"""All nodes of a Gaussian random field at once, from one system of the size of the scans.

**Plain.** Every node i is ridge regression on all the others. With X (k, n) the scans of one class,

    M = γ I + X Xᵀ,   A = M⁻¹ X,   h_i = x_iᵀ a_i
    M_i = M − x_i x_iᵀ,   α_i = M_i⁻¹ x_i = a_i / (1 − h_i)
    β_i = X_{−i}ᵀ α_i,   residuals of node i = γ α_i

so n regressions on n − 1 nodes cost O(k³ + k n²) instead of n Kalman filters of O(k n²) each, and
give the same numbers (:mod:`~voxprior.models.fields.kalman`). Where there are more scans than nodes
the same quantities come from Θ = (γ I + XᵀX)⁻¹, which loses no digits to 1 − h_i = γ Θ_ii.

The bias is one more column of ones. ``"penalized"`` shrinks it by γ as printed (1.29).
``"centered"`` leaves it free: the scans are centred by class, and the column of ones, then
orthogonal to X, only marks the direction that the free bias takes from the residuals. Leaving scan
j out, bias refitted, turns its residual into

    γ α_ij / f_ij,   f_ij = γ ([M_i⁻¹]_jj − [1/(k(γ + k)) if centred])

where f_ij is one minus the leverage of the scan in the regression of node i.

Where a node's whole block is left out of its regressors (1.23), the columns of the block leave the
system together (:mod:`~voxprior.models.fields.blocks`).

**Compressed.** After the scans the filter measures ‖β‖₁ = sᵀβ, s = sign(β), as zero N_τ times. Such
a pseudo-measurement leaves the information vector alone, P⁻¹β = Σ G x, and adds to the precision,
P⁻¹ = γI + Σ G Gᵀ + R_ε⁻¹ Σ s sᵀ. In dual form, with the earlier sign vectors as rows of S,

    v = X s,   z = M_i⁻¹ v,   T = γ R_ε I + S Sᵀ − V M_i⁻¹ Vᵀ,   T ω = −V α_i⁰
    α = α⁰ − Zᵀ ω,   β = Xᵀ α + Sᵀ ω

so P is never formed: two matrix products of (k, n) with all nodes, and a Cholesky factor of T that
grows by one row, per pseudo-measurement. Nodes go in batches, whose sign history (one byte per
entry) is what bounds memory. What matters is the dimensionless strength ρ = n/(γ R_ε), not R_ε: at
ρ ≫ 1 one step overshoots and the norm grows.

| symbol | variable | shape |
|---|---|---|
| X, scans of one class, centred if the bias is free | `X` | (k, n) |
| γ, prior precision of the coefficients | `gamma` | scalar |
| M⁻¹, with the ones of the bias | `inverse` | (k, k) |
| A = M⁻¹ X | `A` | (k, n) |
| α of the plain field, α_i⁰ below | `alpha` | (k, n) |
| J, block of every node | `block_of` | (n,) |
| Θ = (γ I + XᵀX)⁻¹ with the bias, where k ≥ n | `theta` | (p, p) |
| α, dual coefficients, row i of node i | `alpha` | (b, k) |
| s, S, sign vectors of a batch of b nodes | `signs` | (b, N_τ, n) |
| z, Z | `Z` | (b, N_τ, k) |
| Cholesky factor of T | `L` | (b, N_τ, N_τ) |
| ω, weights of the sign vectors | `omega` | (b, N_τ) |
| R_ε, N_τ, noise and number of pseudo-measurements | `r_eps`, `n_pseudo` | scalars |

References
----------
A. Carmi, G. Cecchi, D. Kanevsky, B. Ramabhadran and I. Rish. Classification via compressed random
fields. IBM Research Report, 2009. Sections 1.2.2, 1.3, 1.3.3 and chapter 2; the dual form, of all
nodes at once, is ours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import njit, prange
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from voxprior.algebra import in_this_process, kernel_threads
from voxprior.models.fields import blocks
from voxprior.models.fields.field import Field, Training, residual_variance
from voxprior.models.fields.kalman import norm_gradient, recursive_rows

# Sums may be reordered, which lets them use vector registers; the order is fixed, so results
# repeat.
_FAST = {"reassoc", "contract"}


class DualSystem(NamedTuple):
    """What the regressions of all nodes of one class share."""

    X: np.ndarray
    mean: np.ndarray
    gamma: float
    bias: str | None
    inverse: np.ndarray
    A: np.ndarray
    alpha: np.ndarray
    theta: np.ndarray | None
    block_of: np.ndarray | None


def solve_dual(X: np.ndarray, training: Training) -> tuple[Field, np.ndarray]:
    """The field of one class and its residual variances (n,): plain, or compressed at the end.

    Parameters
    ----------
    X : ndarray of shape (k, n)
        Scans of one class, columns are nodes.
    training : Training
        Prior, bias, pseudo-measurements and kind of variance; mode ``each`` only if plain.
    """
    kind = training.variance_kind
    system = dual_system(X, training.gamma, training.bias, training.block_of)
    if training.plain:
        field = plain_field(system)
    else:
        pseudo = (training.r_eps, training.n_pseudo, training.norm)
        field = compressed_field(system, *pseudo, training.memory)
    if kind == "loo":
        return field, (left_out_residuals(system) ** 2).mean(axis=0)
    if kind == "innovation":
        return field, innovation_variance(system)
    return field, residual_variance(field.residual)


def dual_system(
    X: np.ndarray,
    gamma: float,
    bias: str | None = "centered",
    block_of: np.ndarray | None = None,
) -> DualSystem:
    """Solve the one system that the regressions of all nodes share.

    Parameters
    ----------
    X : ndarray of shape (k, n)
        Scans of one class, columns are nodes.
    gamma : float
        Prior precision γ > 0.
    bias : {"centered", "penalized", None}
        A free bias, a bias shrunk by γ as printed, or none.
    block_of : ndarray of shape (n,), optional
        Block of every node; without it each node is a block of its own.
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
    else:
        precision = columns.T @ columns
        precision[np.diag_indices_from(precision)] += gamma
        theta = _inverse(precision)
        solved = columns @ theta
        A = np.ascontiguousarray(solved[:, :n])
        inverse = -(solved @ columns.T) / gamma
        inverse[np.diag_indices(k)] += 1.0 / gamma
    if block_of is not None:
        alpha = blocks.plain_alpha(X, A, gamma, theta, block_of)
    elif theta is None:
        alpha = A / (1.0 - np.einsum("ji,ji->i", X, A))
    else:
        alpha = A / (gamma * np.diagonal(theta)[:n])
    return DualSystem(X, mean, float(gamma), bias, inverse, A, alpha, theta, block_of)


def plain_field(system: DualSystem) -> Field:
    """The plain (uncompressed) field of one class: what n Kalman filters give.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[1, 2, 0], [0.5, 1, 1.5], [2, 1, -1], [1, -0.5, 2]])
    >>> plain_field(dual_system(rows, gamma=0.1, bias=None)).coef.round(6)
    array([[ 0.      ,  0.641392,  0.145673],
           [ 0.645738,  0.      , -0.133919],
           [ 0.278035, -0.25388 ,  0.      ]])
    """
    n = system.X.shape[1]
    if system.theta is None:
        coef = system.alpha.T @ system.X
    elif system.block_of is None:  # the same, −Θ_ij/Θ_ii, without the 1/γ that A/(1 − h) cancels
        coef = -system.theta[:n, :n] / np.diagonal(system.theta)[:n, None]
    else:
        coef = blocks.coefficients_of_theta(system.theta, system.block_of)
    blocks.clear_own(coef, system.block_of, np.arange(n))
    return _with_residuals(system, coef, system.alpha)


def _with_residuals(system: DualSystem, coef: np.ndarray, alpha: np.ndarray) -> Field:
    """Add intercepts and residuals γα to coefficients."""
    if system.bias == "centered":
        intercept = system.mean - coef @ system.mean
    else:
        intercept = alpha.sum(axis=0) if system.bias == "penalized" else np.zeros(len(coef))
    return Field(coef, intercept, system.gamma * alpha)


def left_out_residuals(system: DualSystem) -> np.ndarray:
    """Residuals (k, n) of the plain field, each of the fit without that scan, in closed form."""
    k, alpha = len(system.X), system.alpha
    free = 1.0 / (k * (system.gamma + k)) if system.bias == "centered" else 0.0
    downdate = system.A * alpha  # [α_J A_Jᵀ]_jj, summed over the nodes of the block
    if system.block_of is not None:
        downdate = blocks.sum_within(downdate, system.block_of)
    diagonal = np.diagonal(system.inverse)[:, None] - free + downdate
    return np.divide(alpha, diagonal, out=np.zeros_like(alpha), where=diagonal > 0)


def innovation_variance(system: DualSystem, block: int = 256) -> np.ndarray:
    """Mean squared one-step innovation of every node, scans in the order of the rows (1.21).

    With M_i = L Lᵀ the innovation of scan t is L_tt (L⁻¹ x_i)_t: one small Cholesky per node. A
    free bias turns the scans into their recursive residuals, of which the first is empty.
    """
    rows = recursive_rows(system.X) if system.bias == "centered" else system.X
    k, n = rows.shape
    M = rows @ rows.T + (1.0 if system.bias == "penalized" else 0.0)
    M[np.diag_indices(k)] += system.gamma
    variance = np.empty(n)
    if system.block_of is not None:
        for J in blocks.members(system.block_of):
            L = np.linalg.cholesky(M - rows[:, J] @ rows[:, J].T)
            innovation = np.diagonal(L)[:, None] * solve_triangular(L, rows[:, J], lower=True)
            variance[J] = (innovation**2).mean(axis=0)
        return variance
    for start in range(0, n, block):
        own = rows[:, start : start + block].T
        L = np.linalg.cholesky(M - own[:, :, None] * own[:, None, :])
        whitened = np.linalg.solve(L, own[:, :, None])[:, :, 0]
        innovation = whitened * np.diagonal(L, axis1=1, axis2=2)
        variance[start : start + block] = (innovation**2).mean(axis=1)
    return variance


def compressed_field(
    system: DualSystem,
    r_eps: float,
    n_pseudo: int = 40,
    norm: float = 1.0,
    memory: int = 1 << 28,
) -> Field:
    """Compress the fields of all nodes after all scans (mode ``end``).

    Parameters
    ----------
    system : DualSystem
        The system of one class from :func:`dual_system`.
    r_eps : float
        Pseudo-measurement noise R_ε; ``inf`` gives the plain field.
    n_pseudo : int
        Number N_τ of pseudo-measurements.
    norm : float
        1 for the l1 norm, below 1 for the quasi-norm.
    memory : int
        Bytes that the sign history may take; nodes are worked on in batches that fit.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[1, 2, 0], [0.5, 1, 1.5], [2, 1, -1], [1, -0.5, 2]])
    >>> system = dual_system(rows, gamma=0.1, bias=None)
    >>> compressed_field(system, r_eps=2.0, n_pseudo=3).coef[0].round(6)
    array([0.      , 0.506043, 0.027566])
    """
    k, n = system.X.shape
    coef, alpha = np.empty((n, n)), np.empty((k, n))
    for part in _batches(system, n_pseudo, norm, memory):
        with kernel_threads(_work(part, n)):
            steps = _pseudo_steps(system, part, r_eps, n_pseudo, norm)
            beta, weights = deque(steps, maxlen=1)[0]
        coef[part], alpha[:, part] = beta, weights.T
    return _with_residuals(system, coef, alpha)


def held_out_path(
    system: DualSystem,
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
    for part in _batches(system, n_pseudo, norm, memory):
        with kernel_threads(_work(part, n)):
            steps = _pseudo_steps(system, part, r_eps, n_pseudo, norm)
            for tau, (beta, alpha) in enumerate(steps):
                error = outside[:, part] - outside @ beta.T
                if system.bias == "penalized":
                    error -= alpha.sum(axis=1)
                path[tau, part] = (error**2).sum(axis=0)
    return path


def _batches(system: DualSystem, n_pseudo: int, norm: float, memory: int) -> Iterator[slice]:
    """Batches of nodes whose history fits into ``memory`` bytes."""
    k, n = system.X.shape
    entry = 1 if norm == 1.0 else 8
    per_node = n_pseudo * (entry * n + 8 * k + 8 * n_pseudo) + 32 * n
    block = int(np.clip(memory // per_node, 1, n))
    for start in range(0, n, block):
        yield slice(start, min(start + block, n))


def _work(part: slice, n_nodes: int) -> int:
    """Multiply-adds of the first pseudo-measurement of a batch, the shortest one."""
    return 2 * n_nodes * (part.stop - part.start)


def _pseudo_steps(system: DualSystem, part: slice, r_eps: float, n_pseudo: int, norm: float):
    """Yield β (b, n) and α (b, k) of the nodes ``part`` after 0 .. N_τ steps; buffers, reused."""
    X = system.X
    k, n = X.shape
    own = np.arange(part.start, part.stop)
    b = len(own)
    columns = np.ascontiguousarray(system.A[:, part].T)
    if system.block_of is not None:  # own columns leave the system in `leave_block`
        columns = np.zeros_like(columns)
    first = np.ascontiguousarray(system.alpha[:, part].T)  # α⁰
    alpha = first.copy()
    beta = alpha @ X
    blocks.clear_own(beta, system.block_of, own)
    yield beta, alpha
    signs = np.zeros((b, n_pseudo, n), dtype=np.int8 if norm == 1.0 else float)
    Z, L = np.zeros((b, n_pseudo, k)), np.zeros((b, n_pseudo, n_pseudo))
    weights, omega = np.zeros((b, n_pseudo)), np.zeros((b, n_pseudo))
    for tau in range(n_pseudo):
        s = norm_gradient(beta, norm)
        V = s @ X.T
        # With k >= n, M⁻¹ v loses digits that A s keeps.
        Z[:, tau] = V @ system.inverse if k < n else s @ system.A.T
        if system.block_of is not None:
            Z[:, tau] += blocks.leave_block(system.A, system.alpha, system.block_of, own, V)
        signs[:, tau] = s
        in_this_process(_measure)(
            tau, system.gamma * r_eps, signs, V, columns, first, Z, L, weights, omega, alpha
        )
        np.matmul(alpha, X, out=beta)
        in_this_process(_add_signs)(tau, signs, omega, beta)
        blocks.clear_own(beta, system.block_of, own)
        yield beta, alpha


def _inverse(positive: np.ndarray) -> np.ndarray:
    inverse = cho_solve(cho_factor(positive, lower=True), np.eye(len(positive)))
    return 0.5 * (inverse + inverse.T)


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


@njit(cache=True, fastmath=_FAST, parallel=True)
def _measure(tau, ridge, signs, V, columns, first, Z, L, weights, omega, alpha):
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


@njit(cache=True, fastmath=_FAST, parallel=True)
def _add_signs(tau, signs, omega, beta):
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
