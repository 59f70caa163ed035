"""All relabellings of a map by one product, in blocks: the largest value of each, counts per voxel.

With X~ the scans and y_b the b-th relabelling, both without their nuisance (basis Q), every voxel a
row of length one and every relabelling a column of length one, the correlation of all of them is

    x^_v = x~_v / ρ_v,   a^_b = a_b / |a_b|,   r_vb = x^_v' a^_b                              (1)

ρ_v = |x~_v| gives t = r sqrt(df / (1 - r²)), and other ρ other statistics of the same form. More
than two classes have K - 1 columns each, an orthonormal basis of their indicators without nuisance,
and the statistic is R² = Σ_j r²_vbj. What is kept is

    M_b = max_v R²_vb,   c_v = #{b >= 1 : R²_vb >= R²_v0}                                     (2)

from one matrix product per block of voxels and relabellings in single precision: memory for the
scans, one block, and V + B numbers. Values of |R| count as equal within 1e-5 of their size plus
1e-6, so that a relabelling equal to the true one always counts.

| symbol | variable | shape |
|---|---|---|
| X~ / ρ | `rows` | (U, V) |
| a^_b, k columns each | `columns` | (U, B k) |
| R²_v0 | `observed` | (V,) |
| M, c | `Maxima.largest`, `Maxima.counts` | (B,), (V,) |

Reference: Freedman & Lane, "A nonstochastic interpretation of reported significance levels", 1983;
Nichols & Holmes, "Nonparametric permutation tests for functional neuroimaging", 2002 (maxima).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["SLACK", "Maxima", "Residuals", "basis", "label_columns", "maxima", "residuals"]

# Voxels and relabellings of one product: its block of single precision stays in the cache.
VOXELS, RELABELLINGS = 2048, 512
# Relative difference of R² up to which two are equal: single precision, twice.
SLACK = 2e-5
# The same of |R| near 0, where its digits are those of the products that cancel.
ROUNDING = 1e-6
# Share of a voxel's sum of squares below which what nuisance leaves of it is rounding.
CONSTANT = 1e-24


class Residuals(NamedTuple):
    """Scans without nuisance."""

    rows: NDArray  # (U, V) float32
    squares: NDArray  # (V,) S, 0 in voxels that do not vary
    first: NDArray  # (k, V) x~'a^ of the true labels


class Maxima(NamedTuple):
    """What the relabellings left: see (2). The true labels are the first of `largest`."""

    largest: NDArray  # (1 + B,)
    counts: NDArray  # (V,)


def basis(columns: NDArray) -> NDArray:
    """Orthonormal basis of the space that columns (U, q) span.

    >>> basis(np.ones((4, 2))).shape
    (4, 1)
    """
    if columns.shape[1] == 0:
        return np.zeros(columns.shape)
    scale = np.linalg.norm(columns, axis=0)
    u, s, _ = np.linalg.svd(columns / np.where(scale > 0, scale, 1.0), full_matrices=False)
    return u[:, s > 1e-10 * max(1.0, s[0])]


def residuals(X: NDArray, Q: NDArray, first: NDArray) -> Residuals:
    """Remove nuisance of basis Q from the scans X (U, V), block by block.

    `first` (U, k) are the columns of the true labels.
    """
    n, V = X.shape
    rows = np.empty((n, V), dtype=np.float32)
    squares, product = np.empty(V), np.empty((first.shape[1], V))
    for start in range(0, V, VOXELS):
        here = slice(start, start + VOXELS)
        block = np.asarray(X[:, here], dtype=np.float64)
        left = block - Q @ (Q.T @ block)
        S = np.einsum("nv,nv->v", left, left)
        rounding = CONSTANT * np.einsum("nv,nv->v", block, block)
        varies = rounding < S
        S *= varies
        left *= varies
        rows[:, here], squares[here], product[:, here] = left, S, first.T @ left
    return Residuals(rows, squares, product)


def label_columns(targets: NDArray, Q: NDArray, n_classes: int = 0) -> NDArray:
    """Columns a^ of relabelled targets (B, U): (U, B) or, of K > 2 classes, (U, B (K - 1)).

    Without classes the targets are numbers or signs; of two classes they are the codes 0 and 1.
    """
    if n_classes <= 2:
        A = np.asarray(targets, dtype=np.float64).T
        size = np.linalg.norm(A, axis=0)
        A = A - Q @ (Q.T @ A)
        length = np.linalg.norm(A, axis=0)
        return A * np.where(length > 1e-10 * size, 1 / np.maximum(length, 1e-300), 0.0)
    indicators = (targets[:, :, None] == np.arange(n_classes)).astype(np.float64)
    return orthonormal(indicators - Q @ (Q.T @ indicators), n_classes - 1)


def orthonormal(A: NDArray, k: int) -> NDArray:
    """Orthonormal bases, of k columns each, of B matrices (B, U, K) of rank k: (U, B k).

    By the eigenvectors of A'A; columns beyond the rank are zero.
    """
    values, vectors = np.linalg.eigh(np.swapaxes(A, 1, 2) @ A)
    values, vectors = values[:, -k:], vectors[:, :, -k:]
    kept = values > 1e-10 * np.maximum(values[:, -1:], 1e-300)
    scale = np.where(kept, 1 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    bases = (A @ vectors) * scale[:, None, :]
    return np.moveaxis(bases, 1, 0).reshape(A.shape[1], -1)


def maxima(
    rows: NDArray,
    observed: NDArray,
    columns: Callable[[int, int], NDArray],
    n_relabellings: int,
    k: int = 1,
    advance: Callable[[int], None] = lambda done: None,
) -> Maxima:
    """Take the maxima and counts of (2) over all relabellings after the true labels.

    Parameters
    ----------
    rows : array of shape (U, V), float32
        Scans without nuisance, scaled by 1/ρ.
    observed : array of shape (V,)
        R² of the true labels.
    columns : callable
        ``columns(start, stop)`` makes those of the relabellings start to stop - 1; 0 is the true.
    n_relabellings : int
        B.
    k : int
        Columns of a relabelling.
    advance : callable
        Called with the number of relabellings done, block by block.
    """
    V = rows.shape[1]
    largest = np.zeros(1 + n_relabellings, dtype=np.float32)
    counts = np.zeros(V, dtype=np.int64)
    least = np.sqrt(np.asarray(observed)) * (1 - SLACK / 2) - ROUNDING
    reached = (np.maximum(least, 0.0) ** 2).astype(np.float32)
    for start in range(1, 1 + n_relabellings, RELABELLINGS):
        stop = min(start + RELABELLINGS, 1 + n_relabellings)
        block = np.ascontiguousarray(columns(start, stop), dtype=np.float32)
        product = np.empty((VOXELS, block.shape[1]), dtype=np.float32)
        for first in range(0, V, VOXELS):
            here = slice(first, min(first + VOXELS, V))
            values = product[: here.stop - here.start]
            np.matmul(rows[:, here].T, block, out=values)
            _update(values, k, reached[here], largest[start:stop], counts[here])
        advance(stop - start)
    largest = largest.astype(np.float64)
    largest[0] = observed.max()
    return Maxima(largest, counts)


@njit(cache=True)
def _update(values, k, reached, largest, counts):
    for v in range(values.shape[0]):
        limit, count = reached[v], 0
        if k == 1:
            for b in range(largest.shape[0]):
                square = values[v, b] * values[v, b]
                largest[b] = max(largest[b], square)
                count += square >= limit
        else:
            for b in range(largest.shape[0]):
                square = values[v, b * k] * values[v, b * k]
                for j in range(1, k):
                    square += values[v, b * k + j] * values[v, b * k + j]
                largest[b] = max(largest[b], square)
                count += square >= limit
        counts[v] += count
