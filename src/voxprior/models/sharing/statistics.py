"""Class statistics of every feature, from one pass over the data, that merge and un-merge exactly.

For class c with N_c examples and feature j

    X̄_j = (1/N_c) Σ_i x_ij        M2_j = Σ_i (x_ij − X̄_j)²        S_j² = M2_j / (N_c − ddof)

The whole feature-sharing model is a function of these numbers, so examples can be added, removed
or read in chunks (`voxprior.blocks.moments` has Chan's formulas for that) without the raw data ever
being visited twice.

| symbol | variable | shape |
|---|---|---|
| N_c, examples of each class | `count` | (C,) |
| X̄, class means | `mean` | (C, J) |
| M2, class sums of squared deviations | `m2` | (C, J) |
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numba import njit, prange

from voxprior.algebra import launch
from voxprior.blocks import BlockedScans, blocked
from voxprior.blocks.moments import ClassStatistics, class_moments, merge, remove
from voxprior.errors import InputError

__all__ = [
    "ClassStatistics",
    "class_statistics",
    "from_chunks",
    "merge",
    "pooled",
    "remove",
]

# Deviations, relative to their mean, that are no more than rounding.
ROUNDING = 1e-12
# Columns a thread handles at once: 40 float32 rows of 1024 columns stay in its second-level cache,
# so that the second look at them (for M2) does not read memory again.
_BLOCK = 1024


def class_statistics(
    X: Any, codes: np.ndarray, n_classes: int, rows: np.ndarray | None = None
) -> ClassStatistics:
    """Statistics of ``X`` (n, J) for classes coded 0 .. n_classes - 1.

    Parameters
    ----------
    X : numpy array, memory map, zarr or dask array, or BlockedScans, of shape (n, J)
        float32 and float64 are read as they are; nothing of the size of ``X`` is allocated.
    codes : integer array of shape (n,)
        The class of each row.
    n_classes : int
        The number C of classes; a class may have no rows.
    rows : integer array of shape (m,), optional
        Use these rows only; ``codes`` then has their m classes. Nothing is copied.

    Returns
    -------
    ClassStatistics
        ``count`` (C,), ``mean`` (C, J), ``m2`` (C, J).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 2.0], [3.0, 2.0], [5.0, 0.0]])
    >>> statistics = class_statistics(X, np.array([0, 0, 1]), n_classes=2)
    >>> statistics.mean
    array([[2., 2.],
           [5., 0.]])
    >>> statistics.m2
    array([[2., 0.],
           [0., 0.]])
    """
    codes = np.asarray(codes, dtype=np.int64)
    n = X.shape[0] if rows is None else len(rows)
    if len(codes) != n:
        raise InputError(
            "codes must hold one class per row of X",
            expected=f"{n} codes",
            got=f"{len(codes)}",
        )
    if len(codes) and (codes.min() < 0 or codes.max() >= n_classes):
        raise InputError(
            "codes must number the classes",
            expected=f"0 .. {n_classes - 1}",
            got=f"{codes.min()} .. {codes.max()}",
        )
    rows = np.arange(n) if rows is None else np.asarray(rows, dtype=np.int64)
    X = blocked(X)
    if isinstance(X, BlockedScans):
        return class_moments(X[rows], codes, n_classes, _of_values)
    return _of_array(_floating(X), rows, codes, n_classes)


def _of_values(values: np.ndarray, codes: np.ndarray, n_classes: int) -> ClassStatistics:
    """Statistics of all rows of an array."""
    return _of_array(_floating(values), np.arange(len(codes)), codes, n_classes)


def from_chunks(chunks: Iterable[tuple[np.ndarray, np.ndarray]], n_classes: int) -> ClassStatistics:
    """Merge the statistics of an iterable of ``(X, codes)`` row chunks, read one at a time.

    Examples
    --------
    >>> import numpy as np
    >>> X, codes = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])
    >>> from_chunks(((X[i : i + 1], codes[i : i + 1]) for i in range(4)), 2).mean
    array([[2., 3.],
           [4., 5.]])
    """
    total = None
    for X, codes in chunks:
        part = class_statistics(X, codes, n_classes)
        total = part if total is None else merge(total, part)
    if total is None:
        raise InputError("chunks must yield at least one (X, codes) pair", got="none")
    return total


def pooled(statistics: ClassStatistics) -> tuple[int, np.ndarray, np.ndarray]:
    """Count, mean (J,) and M2 (J,) of all examples together, whatever their class."""
    count = int(statistics.count.sum())
    weight = statistics.count[:, None] / max(count, 1)
    mean = (weight * statistics.mean).sum(axis=0)
    between = (statistics.count[:, None] * (statistics.mean - mean) ** 2).sum(axis=0)
    return count, mean, statistics.m2.sum(axis=0) + between


def _floating(X: Any) -> np.ndarray:
    """``X`` as a plain ndarray of float32 or float64, without a copy where it already is one."""
    X = np.asarray(X)
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def _of_array(
    X: np.ndarray, rows: np.ndarray, codes: np.ndarray, n_classes: int
) -> ClassStatistics:
    count = np.bincount(codes, minlength=n_classes).astype(np.int64)
    mean = np.zeros((n_classes, X.shape[1]))
    m2 = np.zeros((n_classes, X.shape[1]))
    launch(_accumulate, 2 * len(rows) * X.shape[1], X, rows, codes, count, mean, m2)
    # The last bit of a voxel that does not vary would else be its variance.
    m2[m2 <= count[:, None] * (ROUNDING * mean) ** 2] = 0.0
    return ClassStatistics(count, mean, m2)


def varying_voxels(statistics: ClassStatistics, n_voxels: int) -> np.ndarray:
    """Which voxels (n_voxels,) differ between scans, at some time, by more than rounding.

    >>> X = np.array([[1.0, 5.0, 0.3], [1.0, 6.0, 0.3], [1.0, 7.0, 0.3]])
    >>> varying_voxels(class_statistics(X, np.array([0, 0, 1]), 2), 3)
    array([False,  True, False])
    """
    count, mean, m2 = pooled(statistics)
    varies = m2 > count * (ROUNDING * mean) ** 2
    return np.any(varies.reshape(-1, n_voxels), axis=0)


@njit(cache=True, parallel=True)
def _accumulate(X, rows, codes, count, mean, m2):
    """Two looks at each block of columns, the second from cache: one pass over memory."""
    n, J = len(rows), X.shape[1]
    for block in prange((J + _BLOCK - 1) // _BLOCK):
        start = block * _BLOCK
        stop = min(J, start + _BLOCK)
        for i in range(n):
            # Slices: an index that starts at 0 needs no wrap-around test, so the loop vectorises.
            row, centre = X[rows[i], start:stop], mean[codes[i], start:stop]
            for j in range(stop - start):
                centre[j] += row[j]
        for c in range(mean.shape[0]):
            mean[c, start:stop] /= max(count[c], 1)
        for i in range(n):
            row, centre = X[rows[i], start:stop], mean[codes[i], start:stop]
            squares = m2[codes[i], start:stop]
            for j in range(stop - start):
                deviation = row[j] - centre[j]
                squares[j] += deviation * deviation
