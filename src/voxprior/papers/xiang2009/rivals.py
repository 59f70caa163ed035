"""Pixel selection without boosting: t-test, components, naive Bayes, smoothed |t|, level sets.

Each takes images X (n, V) of labels y in {0, 1} and returns a score per pixel, high where selected.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter


def t_map(X: NDArray, y: NDArray) -> NDArray:
    """Two-sample t of every pixel, pooled variance; 0 where a pixel never varies."""
    one, other = X[y == 1], X[y == 0]
    pooled = (one.var(axis=0) * len(one) + other.var(axis=0) * len(other)) / (len(X) - 2)
    error = np.sqrt(pooled * (1 / len(one) + 1 / len(other)))
    difference = one.mean(axis=0) - other.mean(axis=0)
    return np.divide(difference, error, out=np.zeros_like(error), where=error > 1e-12)


def t_test(X, y, shape):
    return np.abs(t_map(X, y))


def one_component(X, y, shape):
    return np.abs(_components(X, 1)[0])


def two_components(X, y, shape):
    return np.abs(_components(X, 2)).max(axis=0)


def naive_bayes(X, y, shape):
    """Coefficients of linear discriminant analysis with a diagonal covariance."""
    difference = X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0)
    variance = 0.5 * (X[y == 1].var(axis=0) + X[y == 0].var(axis=0))
    return np.abs(difference) / np.maximum(variance, 1e-12)


def smoothed_t(X, y, shape):
    return gaussian_filter(t_test(X, y, shape).reshape(shape), 1.0).ravel()


def level_set(X, y, shape, n_levels: int = 16, n_shifts: int = 8):
    """Tree-regularised level sets of |t|, averaged over levels and over shifts of the tree.

    At level c a dyadic tree of squares is pruned to minimise Σ over leaves of -|Σ (|t| - c)| + √n,
    n the pixels of the leaf and √n the noise of its sum; a leaf is inside where its sum is
    positive (Willett & Nowak 2007 in spirit). Averaging over shifts is cycle spinning.
    """
    t = t_test(X, y, shape).reshape(shape)
    block = shape[0]
    rng = np.random.default_rng(0)
    score = np.zeros(shape)
    for level in np.quantile(t, np.linspace(0.02, 0.98, n_levels)):
        for shift in rng.integers(0, block, (n_shifts, 2)):
            moved = np.roll(t - level, shift, axis=(0, 1))
            score += np.roll(_pruned_tree(moved, block), -shift, axis=(0, 1))
    return score.ravel()


def _pruned_tree(field: NDArray, block: int) -> NDArray[np.bool_]:
    """Return which pixels lie in positive leaves of the best dyadic tree of each square block."""
    sums, cost, inside, size = field, -np.abs(field) + 1.0, field > 0, 1
    while size < block:
        size *= 2
        sums, split = _fold(sums), _fold(cost)
        whole = -np.abs(sums) + size
        merge = whole <= split
        cost = np.where(merge, whole, split)
        spread = np.ones((size, size), dtype=bool)
        inside = np.where(np.kron(merge, spread), np.kron(sums > 0, spread), inside)
    return inside


def _fold(values: NDArray) -> NDArray:
    """Add the four children of each square."""
    rows, columns = values.shape
    return values.reshape(rows // 2, 2, columns // 2, 2).sum(axis=(1, 3))


def _components(X: NDArray, n: int) -> NDArray:
    """Return the first principal directions (n, V), by the smaller Gram matrix."""
    centered = X - X.mean(axis=0)
    values, vectors = np.linalg.eigh(centered @ centered.T)
    order = np.argsort(values)[::-1][:n]
    return (vectors[:, order].T @ centered) / np.sqrt(np.maximum(values[order], 1e-12))[:, None]


RIVALS = {
    "t-test": t_test,
    "one principal component": one_component,
    "two principal components": two_components,
    "naive Bayes coefficients": naive_bayes,
    "smoothed map of abs t (not in the paper)": smoothed_t,
    "level set of abs t": level_set,
}
IN_PAPER = tuple(name for name in RIVALS if "not in the paper" not in name)
