"""Gaussian process classifiers of many labellings at once, for permutation tests.

Logistic likelihood, labels y in {0, 1}, one labelling per column. The mode of the latent values

    f = argmin Σ_i log(1 + e^{-(2y_i - 1) f_i}) + ½ fᵀK⁻¹f

comes for all columns from proximal steps, which share one matrix per kernel (the logistic loss has
curvature at most ¼, hence steps of 4),

    F ← H (Z + 4 (Y - σ(Z))),   H = K (K + 4I)⁻¹                                             (1)
    Z = F + momentum,  begun anew in columns where (Z - F_new)·(F_new - F) > 0

and Laplace's evidence, with a = Y - σ(F) and W = σ(F)(1 - σ(F)), is

    log q(y) = Σ log p(y_i | f_i) - ½ fᵀa - ½ log|I + W^½ K W^½|                             (2)

The kernel is s² K₁; every column keeps the s of highest evidence among a few, and new scans have
the latent mean K_* a. Classes beyond two are fitted one against the rest.

| symbol | variable | shape |
|---|---|---|
| K, H | `K`, `H` | (k, k) |
| Y | `Y` | (k, B) of 0 and 1 |
| F, Z | `F`, `Z` | (k, B) |
| a | `dual` | (k, B) |
| W | `W` | (k, B) |

References: C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, 2006,
section 3.4; A. Beck, M. Teboulle, SIAM Journal on Imaging Sciences 2 (2009) 183-202;
B. O'Donoghue, E. Candès, Foundations of Computational Mathematics 15 (2015) 715-732 (restarts).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np
from scipy.special import expit, log_expit

from voxprior.models.gaussian.covariance import Kernel, covariance
from voxprior.models.gaussian.gram import Cross, center_cross, center_gram

# Log scales s that are tried, and steps (1) after which the mode is known to some 1e-3.
LOG_SCALES = (-1.0, 0.0, 1.0, 2.0, 3.0)
STEPS = (10, 10, 10, 30, 80)
# Labellings whose determinants are computed side by side, as many as a vector register holds.
LANES = 8


class ScaledGram(NamedTuple):
    """Gram matrix of some scans: how it was centred and scaled, for scans to come."""

    gram: np.ndarray
    means: np.ndarray
    scale: float


class ManyProcesses(NamedTuple):
    """Gaussian processes of one training set, one per labelling (and class beyond two)."""

    kernel: Kernel
    raw: np.ndarray  # (n, n) Gram matrix of all scans
    rows: np.ndarray  # (k,) training scans
    fitted: ScaledGram
    centered: bool
    dual: np.ndarray  # (k, B C) times s² of its column
    n_classes: int

    def decision_function(self, rows: np.ndarray) -> np.ndarray:
        """Latent means of other scans: (m, B) for two classes, (m, B, C) for more."""
        cross = Cross(self.raw[np.ix_(rows, self.rows)], np.diag(self.raw)[rows])
        if self.centered:
            cross = center_cross(cross, self.fitted.means)
        gram = cross.gram / self.fitted.scale
        values = _unit_covariance(self.kernel, gram) @ self.dual
        return values if self.n_classes == 2 else values.reshape(len(rows), -1, self.n_classes)


def fit_processes(
    kernel: Kernel,
    raw: np.ndarray,
    rows: np.ndarray,
    Y: np.ndarray,
    n_classes: int,
    *,
    center: bool,
    normalize: bool,
    log_scales: Sequence[float] = LOG_SCALES,
    steps: Sequence[int] = STEPS,
) -> ManyProcesses:
    """Fit one process per column of class codes Y (k, B), each with its best scale.

    Parameters
    ----------
    kernel : Kernel
        Linear or polynomial (of a given Gram matrix too), of one scale.
    raw : array (n, n)
        Gram matrix of all scans.
    rows : array (k,)
        Scans that train.
    Y : array (k, B)
        Their class codes, one labelling per column.
    n_classes : int
    center, normalize : bool
        As in `GPClassifier`.
    log_scales, steps : sequences
        Scales tried, in ascending order, and how many steps (1) each gets.
    """
    fitted = scaled_gram(raw[np.ix_(rows, rows)], center, normalize)
    columns = against_rest_columns(Y, n_classes)
    unit = _unit_covariance(kernel, fitted.gram)
    F, best = np.zeros_like(columns), np.full(columns.shape[1], -np.inf)
    dual = np.zeros_like(columns)
    for log_scale, n_steps in zip(log_scales, steps):
        s2 = np.exp(2.0 * log_scale)
        F = modes(s2 * unit, columns, n_steps, F)
        value = log_evidence(s2 * unit, columns, F)
        better = value > best
        best[better] = value[better]
        dual[:, better] = s2 * (columns[:, better] - expit(F[:, better]))
    return ManyProcesses(kernel, raw, rows, fitted, center, dual, n_classes)


def scaled_gram(gram: np.ndarray, center: bool, normalize: bool) -> ScaledGram:
    """Centre a Gram matrix and divide it by the mean of its diagonal, as asked."""
    means = gram.mean(axis=0)
    if center:
        gram, means = center_gram(gram)
    scale = float(np.trace(gram)) / len(gram) if normalize else 1.0
    scale = scale if scale > 0 else 1.0
    return ScaledGram(gram / scale, means, scale)


def _unit_covariance(kernel: Kernel, gram: np.ndarray) -> np.ndarray:
    """K₁ of scans whose inner products are `gram`; norms do not enter these kernels."""
    unused = np.zeros((1, 1))
    return covariance([kernel], np.zeros(1), gram[None], unused, unused)


def against_rest_columns(Y: np.ndarray, n_classes: int) -> np.ndarray:
    """Labels 0 and 1: one column per labelling for two classes, C per labelling beyond.

    >>> against_rest_columns(np.array([[0, 1], [1, 0]]), 2)
    array([[0., 1.],
           [1., 0.]])
    """
    if n_classes == 2:
        return (np.asarray(Y) == 1).astype(float)
    return np.eye(n_classes)[Y].reshape(len(Y), -1)


def modes(K: np.ndarray, Y: np.ndarray, n_steps: int, start: np.ndarray) -> np.ndarray:
    """Latent modes of all columns after some steps (1).

    Examples
    --------
    >>> import numpy as np
    >>> K, Y = np.array([[2.0, 0.5], [0.5, 2.0]]), np.array([[1.0], [0.0]])
    >>> modes(K, Y, 60, np.zeros((2, 1))).ravel().round(6)
    array([ 0.549107, -0.549107])
    """
    H = np.linalg.solve(K + 4.0 * np.eye(len(K)), K).T
    F, Z, momentum = start, start, np.ones(Y.shape[1])
    for _ in range(n_steps):
        new = H @ (Z + 4.0 * (Y - expit(Z)))
        change = new - F
        momentum[np.einsum("ij,ij->j", Z - new, change) > 0] = 1.0
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        Z = new + (momentum - 1.0) / faster * change
        F, momentum = new, faster
    return F


def log_evidence(K: np.ndarray, Y: np.ndarray, F: np.ndarray) -> np.ndarray:
    """Laplace's evidence (2) of every column."""
    p = expit(F)
    likelihood = log_expit((2.0 * Y - 1.0) * F).sum(axis=0)
    fit = 0.5 * (F * (Y - p)).sum(axis=0)
    return likelihood - fit - half_log_determinants(K, p * (1.0 - p))


def half_log_determinants(K: np.ndarray, W: np.ndarray) -> np.ndarray:
    """½ log|I + W^½ K W^½| for every column of W.

    >>> half_log_determinants(np.array([[3.0]]), np.array([[1.0, 0.0]])).round(6)
    array([0.693147, 0.      ])
    """
    out = np.empty(W.shape[1])
    _half_log_determinants(np.ascontiguousarray(K), np.sqrt(W), out)
    return out


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def _half_log_determinants(K, root, out):  # pragma: no cover - compiled
    """Sum of log L_ii with L Lᵀ = I + root K root, `LANES` columns of `root` side by side."""
    k, n_columns = root.shape
    L = np.empty((k, k, LANES))
    entry, scale = np.empty(LANES), np.empty((k, LANES))
    for first in range(0, n_columns, LANES):
        width = min(LANES, n_columns - first)
        for i in range(k):
            for lane in range(LANES):
                scale[i, lane] = root[i, first + lane] if lane < width else 0.0
        total = np.zeros(LANES)
        for i in range(k):
            for j in range(i + 1):
                for lane in range(LANES):
                    entry[lane] = K[i, j] * scale[i, lane] * scale[j, lane]
                for p in range(j):
                    for lane in range(LANES):
                        entry[lane] -= L[i, p, lane] * L[j, p, lane]
                if i > j:
                    for lane in range(LANES):
                        L[i, j, lane] = entry[lane] * L[j, j, lane]
                else:
                    for lane in range(LANES):
                        pivot = entry[lane] + 1.0
                        total[lane] += np.log(pivot)
                        # Kept as its inverse: divisions are slow, and each is needed often.
                        L[i, i, lane] = 1.0 / np.sqrt(pivot)
        for lane in range(width):
            out[first + lane] = 0.5 * total[lane]
