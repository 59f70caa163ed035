"""A shrunk linear discriminant with James-Stein class means, all shrinkages from one Gram matrix.

    Σ = S_w + λ I,  λ = τ tr(W) / df²             Σ = I for τ = ∞
    s_c(x) = [(x - m)'Σ⁻¹u_c - (ρ/2) u_c'Σ⁻¹u_c] / D
    D = Σ_c 2 u_c'Σ⁻¹u_c / (C - 1)                mean squared distance between class means
    ρ = max(.05, 1 - (tr W / df) mean(1/n_c) / (tr(U'KU) / (C - 1)))        .3 where df = 0

By Woodbury, up to 1/λ, which cancels: with Q = (df λ I + W)⁻¹, P = HKU, b the mean column of M,

    s = (kA - b'KA - (ρ/2) diag B) / (2 tr B / (C - 1)),   A = U - H'QP,   B = U'KU - P'QP

One eigendecomposition of W serves all τ. Scores are divided by D because the best weight of
such a score is then δ²/v, the squared distance of the classes in units of the noise, whatever the
number of scans: a weight that is learned from fewer scans is right for all of them. Where
n is small |u_c|² is mostly noise, and ρ keeps classes of small norm from being preferred.

| symbol | variable | shape |
|---|---|---|
| K, k: inner products of training scans, of new scans with them | `gram` | (n, n), (m, n) |
| Z, class indicators; M = Z diag(1/n_c); H = I - ZM' | `Z`, `M`, by `_residual` | (n, C) |
| U, M less its row means: u_c = m_c - m | `U` | (n, C) |
| W = HKH', residuals; df = n - C | `W`, `df` | (n, n), scalar |
| A / D and the constant of s | `Path.dual`, `Path.offset` | (T, n, C), (T, C) |

Reference: shrunken discriminants as in J. H. Friedman, "Regularized discriminant analysis", JASA
1989; the factor as in W. James, C. Stein, 4th Berkeley Symposium 1961.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

__all__ = ["SHRINKAGES", "Path", "discriminant_path", "has_noise"]

# τ, in units of the mean non-zero eigenvalue of the covariance within classes.
SHRINKAGES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, np.inf)
# The factor of the class means where nothing tells how noisy they are, and the smallest.
RHO_UNKNOWN, RHO_LEAST = 0.3, 0.05
# Parts of a Gram matrix below this share of it are rounding.
ROUNDING = 1e-10


class Path(NamedTuple):
    """Scores s = k dual + offset for every shrinkage: (T, n, C) and (T, C)."""

    dual: NDArray[np.float64]
    offset: NDArray[np.float64]

    def scores(self, cross: NDArray) -> NDArray[np.float64]:
        """Scores (T, m, C) of new scans, given their inner products (m, n) with the training's."""
        return cross @ self.dual + self.offset[:, None, :]


def discriminant_path(
    gram: NDArray, codes: NDArray, n_classes: int, shrinkages: tuple[float, ...] = SHRINKAGES
) -> Path:
    """Discriminants of all shrinkages from a Gram matrix (n, n) and class codes (n,).

    Where class means do not differ at all, every score is 0.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[2.0, 0.0], [3.0, 1.0], [0.0, 2.0], [1.0, 3.0]])
    >>> path = discriminant_path(X @ X.T, np.array([0, 0, 1, 1]), 2, (1.0, np.inf))
    >>> path.scores(np.array([[2.0, 1.0]]) @ X.T).round(3).tolist()
    [[[0.016, -0.234]], [[0.016, -0.234]]]
    """
    counts = np.bincount(codes, minlength=n_classes)
    Z = np.eye(n_classes)[codes]
    M = Z / counts
    U = M - M.mean(axis=1, keepdims=True)
    KU = gram @ U
    between = U.T @ KU
    P = _residual(KU, Z, M)
    W = _residual(_residual(gram, Z, M).T, Z, M)
    within, df = float(np.trace(W)), len(codes) - n_classes
    path = Path(np.zeros((len(shrinkages), *U.shape)), np.zeros((len(shrinkages), n_classes)))
    if not np.trace(between) > ROUNDING * np.trace(gram):
        return path
    known = has_noise(gram, codes, n_classes)
    rho = _james_stein(within, df, counts, float(np.trace(between)))
    values, vectors = eigh(W) if known else (np.empty(0), np.empty((0, 0)))
    for t, tau in enumerate(shrinkages):
        A, B = U, between
        if known and np.isfinite(tau):
            Q = (vectors / (tau * within / df + np.maximum(values, 0))) @ vectors.T
            QP = Q @ P
            A, B = U - _residual(QP, M, Z), between - P.T @ QP
        D = 2 * np.trace(B) / (n_classes - 1)
        path.dual[t] = A / D
        path.offset[t] = (-M.mean(axis=1) @ (gram @ A) - rho / 2 * np.diag(B)) / D
    return path


def has_noise(gram: NDArray, codes: NDArray, n_classes: int) -> bool:
    """Whether scans of a class differ, so that there is a covariance within classes."""
    Z = np.eye(n_classes)[codes]
    explained = np.einsum("ic,ij,jc->c", Z, gram, Z) / np.maximum(Z.sum(axis=0), 1)
    total = float(np.trace(gram))
    return len(codes) > n_classes and total - explained.sum() > ROUNDING * total


def _residual(values: NDArray, Z: NDArray, M: NDArray) -> NDArray[np.float64]:
    """H values = (I - ZM') values; with Z and M exchanged, H' values."""
    return values - Z @ (M.T @ values)


def _james_stein(within: float, df: int, counts: NDArray, between: float) -> float:
    if df == 0:
        return RHO_UNKNOWN
    noise = within / df * np.mean(1 / counts)
    return max(RHO_LEAST, float(1 - noise / (between / (len(counts) - 1))))
