"""Relevance vector machines: the model in its dual form, and EM and MacKay re-estimation.

    f = Φw,  w_i ~ N(0, v_i),  v_i = 1/α_i          a weight of every sample or voxel, most v_i → 0
    regression      t = f + ε:  C = σ²I + ΦVΦᵀ,  R = C⁻¹,          r = C⁻¹t
    classification  Laplace:    K = ΦVΦᵀ,        R = (K + W⁻¹)⁻¹,  r = y − π   at the mode
    Q_i = φ_iᵀr,  S_i = φ_iᵀRφ_i,   μ_i = v_iQ_i,  Σ_ii = v_i − v_i²S_i,  γ_i = v_iS_i

    EM       1/α_i ← μ_i² + Σ_ii = v_i + v_i²(Q_i² − S_i),   σ² ← (‖t − Φμ‖² + σ²Σγ)/N
    MacKay   1/α_i ← μ_i²/γ_i = v_iQ_i²/S_i,                 σ² ← ‖t − Φμ‖²/(N − Σγ)

with t − Φμ = σ²r. EM never lowers the evidence. Written in v a pruned weight is simply v_i = 0;
for M ≫ n (voxels) the M x M posterior never exists, and X is read block by block and never copied
whole. With a softmax the C weights of one column share v_i, and Q_i², S_i are means over the C − 1
classes that are free.

| symbol | variable | shape |
|---|---|---|
| Φ = [X − x̄, 1] or [K, 1] | `Basis` | (n, M) |
| v | `v` | (M,) |
| r | `residual` | (n, K), K = 1 or C |
| R | `precision` | (K, n, n) |
| σ² | `noise` | scalar |

Reference: M. E. Tipping, JMLR 1 (2001) 211-244; D. J. C. MacKay, Neural Computation 4 (1992)
415-447.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from voxprior.blocks import voxel_blocks
from voxprior.blocks.sums import read_block
from voxprior.models.gaussian.covariance import cholesky_factor, inverse_from_factor
from voxprior.models.gaussian.laplace import (
    class_precision,
    laplace,
    logistic,
    site_matrix,
    softmax_laplace,
)
from voxprior.models.gaussian.regression import LOG_2PI

# Part of the variance below which a column is dropped; free of the units of Φ and t.
PRUNED_PART = 1e-6
# Least noise, as a part of the variance of t: with more columns than scans the evidence grows
# without end as σ → 0, so that its maximum is not an answer.
LEAST_NOISE = 1e-3


class Basis:
    """Columns of X (or of a kernel matrix), optionally centred, and a last column of ones.

    Parameters
    ----------
    X : array (n, m), BlockedScans
    means : array (m,), optional
        Subtracted from the columns.
    bias : bool
        Append a column of ones.
    symmetric : bool
        X is a symmetric matrix in float64, as a kernel is, and `means` are not given.

    Examples
    --------
    >>> import numpy as np
    >>> basis = Basis(np.array([[1.0, 2.0], [3.0, 5.0]]))
    >>> basis.project(np.ones(2))
    array([4., 7., 2.])
    """

    def __init__(
        self,
        X: Any,
        means: np.ndarray | None = None,
        bias: bool = True,
        symmetric: bool = False,
    ):
        self.X, self.means, self.bias, self.symmetric = X, means, bias, symmetric
        self.n_rows = X.shape[0]
        self.n_columns = X.shape[1] + int(bias)

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Consecutive column blocks as float64."""
        for block in voxel_blocks(self.n_rows, self.X.shape[1]):
            part = read_block(self.X, block)
            yield block, part if self.means is None else part - self.means[block]
        if self.bias:
            yield slice(self.n_columns - 1, self.n_columns), np.ones((self.n_rows, 1))

    def columns(self, index: np.ndarray) -> np.ndarray:
        """Φ[:, index] as float64."""
        index = np.asarray(index, dtype=int)
        out = np.ones((self.n_rows, len(index)))
        inside = index < self.X.shape[1]
        part = np.asarray(self.X[:, index[inside]], dtype=np.float64)
        out[:, inside] = part if self.means is None else part - self.means[index[inside]]
        return out

    def project(self, u: np.ndarray) -> np.ndarray:
        """Φᵀu for a vector or a matrix u."""
        out = np.empty((self.n_columns, *u.shape[1:]))
        for block, part in self.blocks():
            out[block] = part.T @ u
        return out

    def energy(self, R: np.ndarray) -> np.ndarray:
        """Diagonal of ΦᵀRΦ for a matrix R (n, n) or a diagonal R (n,)."""
        out = np.empty(self.n_columns)
        for block, part in self.blocks():
            moved = R[:, None] * part if R.ndim == 1 else R @ part
            out[block] = np.einsum("ij,ij->j", part, moved)
        return out

    def product(self) -> np.ndarray:
        """ΦΦᵀ without the bias; a kernel matrix is read in place."""
        if self.means is None and isinstance(self.X, np.ndarray) and self.X.dtype == np.float64:
            return self.X @ self.X.T
        return self.covariance(np.append(np.ones(self.X.shape[1]), np.zeros(int(self.bias))))

    def covariance(self, v: np.ndarray) -> np.ndarray:
        """Φ diag(v) Φᵀ, reading only columns with v > 0."""
        used = np.flatnonzero(v)
        if len(used) <= 4 * self.n_rows:
            part = self.columns(used)
            return (part * v[used]) @ part.T
        total = np.zeros((self.n_rows, self.n_rows))
        for block, part in self.blocks():
            total += (part * v[block]) @ part.T
        return total


class State(NamedTuple):
    """What the data say at one v: residual, precision, evidence, latent values to start from."""

    residual: np.ndarray
    precision: np.ndarray
    log_evidence: float
    latent: np.ndarray


class Relevance(NamedTuple):
    """A fitted relevance vector machine."""

    v: np.ndarray
    noise: float
    state: State
    path: np.ndarray


class GaussianTargets:
    """Targets with Gaussian noise, learned unless given."""

    def __init__(self, t: np.ndarray, noise: float | None = None):
        self.t, self.learn = t, noise is None
        self.scale = float(t @ t) / len(t) or 1.0
        self.noise = 0.1 * self.scale if noise is None else noise
        self.n_outputs = 1

    def state(self, K: np.ndarray, latent: np.ndarray | None, overwrite: bool = False) -> State:
        """Exact posterior for the covariance K = ΦVΦᵀ, whose memory R takes if `overwrite`."""
        n = len(self.t)
        C = K if overwrite else K.copy()
        C.flat[:: n + 1] += self.noise
        L = cholesky_factor(C, overwrite=True)
        half_determinant = np.log(np.diag(L)).sum()
        R = inverse_from_factor(L, overwrite=True)
        r = R @ self.t
        evidence = -0.5 * self.t @ r - half_determinant - 0.5 * n * LOG_2PI
        return State(r[:, None], R[None], float(evidence), (self.t - self.noise * r)[:, None])

    def update_noise(self, residual: np.ndarray, gamma: float, rule: str) -> None:
        """EM or MacKay update of σ²."""
        n, squares = len(self.t), self.noise**2 * float(residual[:, 0] @ residual[:, 0])
        if rule == "em":
            new = (squares + self.noise * gamma) / n
        else:
            new = squares / max(n - gamma, 1e-3)
        self.noise = max(new, LEAST_NOISE * self.scale)


class LogisticTargets:
    """Labels −1 and +1, logistic likelihood by Laplace's method."""

    learn, noise, scale, n_outputs = False, 0.0, 1.0, 1

    def __init__(self, sign: np.ndarray):
        self.sign = sign

    def state(self, K: np.ndarray, latent: np.ndarray | None) -> State:
        """Laplace approximation for the covariance K = ΦVΦᵀ."""
        fit = laplace(K, self.sign, start=None if latent is None else latent[:, 0])
        residual = logistic(self.sign, fit.f).d1
        R = site_matrix(fit, overwrite=True)
        return State(residual[:, None], R[None], fit.log_evidence, fit.f[:, None])


class SoftmaxTargets:
    """One-hot labels of C classes, softmax likelihood by Laplace's method."""

    learn, noise, scale = False, 0.0, 1.0

    def __init__(self, onehot: np.ndarray):
        self.onehot = onehot
        self.n_outputs = onehot.shape[1] - 1

    def state(self, K: np.ndarray, latent: np.ndarray | None) -> State:
        """Laplace approximation for the covariance K = ΦVΦᵀ shared by all classes."""
        fit = softmax_laplace(K, self.onehot, latent)
        classes = range(self.onehot.shape[1])
        R = np.array([class_precision(fit, c) for c in classes])
        return State(fit.a, R, fit.log_evidence, fit.f)


Targets = GaussianTargets | LogisticTargets | SoftmaxTargets


def sufficiency(basis: Basis, state: State, n_outputs: int) -> tuple[np.ndarray, np.ndarray]:
    """Q² and S of every column (means over the outputs that are free)."""
    Q2 = (basis.project(state.residual) ** 2).sum(axis=1) / n_outputs
    S = sum(basis.energy(R) for R in state.precision) / n_outputs
    return Q2, np.maximum(S, 0.0)


def update_variances(v: np.ndarray, Q2: np.ndarray, S: np.ndarray, rule: str) -> np.ndarray:
    """One EM or MacKay update of v = 1/α."""
    if rule == "em":
        return np.maximum(v + v**2 * (Q2 - S), 0.0)
    return np.where(S > 0, v * Q2 / np.where(S > 0, S, 1.0), 0.0)


def reestimate(
    basis: Basis,
    targets: Targets,
    rule: str = "em",
    *,
    v: np.ndarray | None = None,
    max_iter: int = 500,
    tol: float = 1e-5,
) -> Relevance:
    """Repeat EM or MacKay updates until the evidence settles.

    Parameters
    ----------
    basis : Basis
    targets : GaussianTargets, LogisticTargets or SoftmaxTargets
    rule : {"em", "mackay"}
    v : array (M,), optional
        Variances to start from; by default all columns share the variance of the targets equally.
    max_iter, tol : int, float
        Stop when the evidence changes by less than `tol` nats per scan, or after `max_iter`
        updates.
    """
    power = basis.energy(np.full(basis.n_rows, 1.0 / basis.n_rows))
    safe = np.where(power > 0, power, 1.0)
    if v is None:
        v = np.where(power > 0, targets.scale / (safe * basis.n_columns), 0.0)
    state = targets.state(basis.covariance(v), None)
    path = [state.log_evidence]
    for _ in range(max_iter):
        Q2, S = sufficiency(basis, state, targets.n_outputs)
        if isinstance(targets, GaussianTargets) and targets.learn:
            targets.update_noise(state.residual, float(v @ S), rule)
        v = update_variances(v, Q2, S, rule)
        v = np.where(v * power < PRUNED_PART * targets.scale, 0.0, v)
        state = targets.state(basis.covariance(v), state.latent)
        path.append(state.log_evidence)
        if abs(path[-1] - path[-2]) < tol * basis.n_rows:
            break
    return Relevance(v, targets.noise, state, np.array(path))
