"""The part that reads voxels: Gram matrices in one pass over them, and weight maps back to them.

    G = X Xᵀ                              summed over blocks of voxels, see `voxprior.blocks`
    Gc_ij  = G_ij − m_i − m_j + m̄         training scans, m_i = mean_j G_ij, m̄ = mean_i m_i
    Gc_*j  = G_*j − r_* − m_j + m̄         a new scan, r_* = mean_j G_*j
    gc_**  = g_** − 2 r_* + m̄             its squared norm

Centring the Gram matrix equals centring the voxels by the mean of the training scans. Maps of a
linear kernel are its weight-space view, K = X diag(ω) Xᵀ with f(x) = xᵀw, w ~ N(0, diag ω):

    E[w | y] = ω ∘ Xᵀa
    Var[w_j | y] = ω_j − ω_j² x_jᵀ R x_j      x_j = column j of the centred X, R = (K + W⁻¹)⁻¹
    pattern = cov(X, f) cov(f)⁺               what a voxel does when f rises by one

| symbol | variable | shape |
|---|---|---|
| X | `X`, `part` by blocks of voxels | (n, p), (n, block) |
| G | `gram` | (n, n) |
| m | `means` | (n,) |
| G_* | `Cross.gram` | (n_new, n) |
| g_** | `Cross.squared_norms` | (n_new,) |
| a | `dual` | (n, C) |
| R | `precision` | (C, n, n) |
| ω | `prior` | (p,) or (C, p) |
| f | `latent` | (n, C) |

Sums are float64 whatever X is; only one block is ever converted, so float32 arrays, and scans on
disk, are read once and never copied whole. Nothing of size p x p is formed.

Reference: C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, 2006,
chapter 2; centring as in B. Schoelkopf, A. Smola, K.-R. Mueller, Neural Computation 10 (1998)
1299-1319; patterns as in S. Haufe et al., NeuroImage 87 (2014) 96-110.
"""

from typing import Any, NamedTuple

import numpy as np

from voxprior.blocks import blocked, voxel_blocks
from voxprior.blocks.sums import all_rows, read_block, reading, shared_gram
from voxprior.blocks.threads import each_block, sum_over_blocks

# Rows of a matrix that are compared with its columns at a time.
ROWS = 128


class Cross(NamedTuple):
    """Inner products of new scans with the training scans, and with themselves."""

    gram: np.ndarray
    squared_norms: np.ndarray


def cross_gram(X_new: Any, X: Any, columns: np.ndarray | None = None) -> Cross:
    """X_new Xᵀ and the squared norms of the rows of X_new, streamed over blocks of voxels."""
    X_new, X = blocked(X_new), blocked(X)
    shared = shared_gram(X_new, X) if columns is None else None
    if shared is not None:
        new, old = all_rows(X_new), all_rows(X)
        return Cross(shared[np.ix_(new, old)], np.diag(shared)[new])

    def add(block: slice, gram: np.ndarray, norms: np.ndarray) -> None:
        part = read_block(X_new, block, columns)
        gram += part @ read_block(X, block, columns).T
        norms += np.einsum("ij,ij->i", part, part)

    n_new, n = X_new.shape[0], X.shape[0]
    blocks = voxel_blocks(n + n_new, X.shape[1] if columns is None else len(columns))
    with reading(X_new, X):
        return Cross(*sum_over_blocks(add, blocks, (n_new, n), (n_new,)))


def center_gram(gram: np.ndarray, out: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Gram matrix of the centred training scans, and the column means that later scans need.

    `out` is where to put it; that may be the given matrix itself.
    """
    means = gram.mean(axis=0)
    centered = np.subtract(gram, means[:, None], out=out)
    centered -= means
    centered += means.mean()
    return centered, means


def asymmetry(gram: np.ndarray) -> float:
    """Largest difference of a square matrix from its transpose.

    >>> asymmetry(np.array([[1.0, 2.0], [2.5, 0.0]]))
    0.5
    """
    starts = range(0, len(gram), ROWS)
    pairs = ((gram[i : i + ROWS, i:], gram[i:, i : i + ROWS]) for i in starts)
    return max(float(np.abs(upper - lower.T).max()) for upper, lower in pairs)


def center_cross(cross: Cross, means: np.ndarray) -> Cross:
    """The same after centring by the mean of the training scans."""
    rows = cross.gram.mean(axis=1)
    gram = cross.gram - rows[:, None] - means[None, :] + means.mean()
    # Rounding may leave a squared norm just below zero where a scan equals the mean scan.
    return Cross(gram, np.maximum(cross.squared_norms - 2.0 * rows + means.mean(), 0.0))


class WeightMaps(NamedTuple):
    """Posterior mean and deviation of the weights, and activation pattern, each (C, p)."""

    weight: np.ndarray
    deviation: np.ndarray
    pattern: np.ndarray


def weight_maps(
    X: Any,
    dual: np.ndarray,
    precision: np.ndarray,
    prior: np.ndarray,
    latent: np.ndarray,
    center: bool,
) -> WeightMaps:
    """Maps of all classes in one pass over the voxels.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> maps = weight_maps(X, np.array([[1.0], [2.0]]), np.zeros((1, 2, 2)), np.ones(2),
    ...                    np.array([[1.0], [2.0]]), center=False)
    >>> maps.weight, maps.deviation
    (array([[1., 2.]]), array([[1., 1.]]))
    """
    n, p = X.shape
    n_classes = dual.shape[1]
    prior = np.broadcast_to(prior, (n_classes, p))
    weight, deviation, pattern = (np.empty((n_classes, p)) for _ in range(3))
    centered = latent - latent.mean(axis=0)
    # Classes share one latent direction less than they are many: hence the pseudo-inverse.
    mixing = centered @ np.linalg.pinv(centered.T @ centered, hermitian=True, rcond=1e-10)

    def fill(block: slice) -> None:
        part = read_block(X, block)
        around_mean = part - part.mean(axis=0)
        part = around_mean if center else part
        weight[:, block] = prior[:, block] * (dual.T @ part)
        pattern[:, block] = mixing.T @ around_mean
        for c in range(n_classes):
            explained = np.einsum("ij,ij->j", part, precision[c] @ part)
            deviation[c, block] = prior[c, block] - prior[c, block] ** 2 * explained

    with reading(X):
        each_block(fill, voxel_blocks(n, p))
    return WeightMaps(weight, np.sqrt(np.maximum(deviation, 0.0)), pattern)
