"""Sums over blocks of voxels, for arrays in memory and `BlockedScans` alike.

    G = Σ_b X_b X_bᵀ                      b runs over blocks of voxels

The Gram matrix of blocked scans is made once, of all scans of their origin: that of a fold, and the
products of its test scans with its training scans, are parts of it.

| symbol | variable | shape |
|---|---|---|
| X, X_b | `X`, `part` | (n, p), (n, block) |
| G | `gram` | (n, n) |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk

from voxprior.blocks.memory import memory_limit
from voxprior.blocks.scans import BLOCK_SHARE, BlockedScans, blocked
from voxprior.blocks.threads import LANE_NUMBERS, block_threads, sum_over_blocks
from voxprior.errors import InputError

# Numbers in one converted block: 8 MB of float64, large enough for BLAS to run at full speed.
BLOCK_ELEMENTS = 2**20
NARROWEST = 256
# Rows of the lower half of a Gram matrix that are copied from the upper one at a time.
MIRRORED = 512
# Share of the limit that a Gram matrix may be.
GRAM_SHARE = 4


def voxel_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Consecutive column slices that hold about `BLOCK_ELEMENTS` numbers of n_rows rows.

    Blocks are narrower only where `max_memory` is small.

    >>> [block.stop for block in voxel_blocks(2**10, 2500)]
    [1024, 2048, 2500]
    """
    rows = max(n_rows, 1)
    width = max(NARROWEST, BLOCK_ELEMENTS // rows)
    width = min(width, max(1, memory_limit() // BLOCK_SHARE // rows))
    for start in range(0, n_columns, width):
        yield slice(start, min(start + width, n_columns))


def gram_matrix(X: Any, columns: NDArray | None = None) -> NDArray[np.float64]:
    """X Xᵀ in float64, streamed over blocks of voxels.

    Parameters
    ----------
    X : array of shape (n, p)
        numpy array of any float type and order, memory map, zarr or dask array, or BlockedScans.
    columns : array of int, optional
        Use these columns only (a region).

    Returns
    -------
    ndarray of shape (n, n)

    Examples
    --------
    >>> import numpy as np
    >>> gram_matrix(np.array([[1.0, 2.0], [0.0, 1.0]], dtype=np.float32))
    array([[5., 2.],
           [2., 1.]])
    """
    X = blocked(X)
    shared = shared_gram(X) if columns is None else None
    if shared is not None:
        return shared if X.rows is None else shared[np.ix_(X.rows, X.rows)]
    return _gram(X, columns)


def _gram(X: Any, columns: NDArray | None = None) -> NDArray[np.float64]:
    n = X.shape[0]
    blocks = voxel_blocks(n, X.shape[1] if columns is None else len(columns))
    if n * n > LANE_NUMBERS:
        return _large_gram(X, columns, blocks)

    def add(block: slice, total: NDArray) -> None:
        part = read_block(X, block, columns)
        total += part @ part.T

    with reading(X):
        return sum_over_blocks(add, blocks, (n, n))[0]


def _large_gram(X: Any, columns: NDArray | None, blocks: Iterable[slice]) -> NDArray[np.float64]:
    """The same for many scans, with a single matrix of their products in memory."""
    n = X.shape[0]
    total = np.zeros((n, n), order="F")
    for block in blocks:
        part = read_block(X, block, columns)
        # Added up in place, in one half: with thousands of scans a copy costs as much as the sums.
        total = dsyrk(1.0, part.T, beta=1.0, c=total, trans=1, overwrite_c=1)
    for start in range(0, n, MIRRORED):
        rest = slice(start + MIRRORED, None)
        corner = total[start : start + MIRRORED, start : start + MIRRORED]
        corner += np.triu(corner, 1).T
        total[rest, start : start + MIRRORED] = total[start : start + MIRRORED, rest].T
    return total.T


def shared_gram(X: Any, other: Any = None) -> NDArray[np.float64] | None:
    """Gram matrix of all scans that X (and `other`) are some of; None where they share none."""
    if not isinstance(X, BlockedScans):
        return None
    origin = X.origin
    if other is not None and not (isinstance(other, BlockedScans) and other.origin is origin):
        return None
    if origin.gram is None and 8 * origin.shape[0] ** 2 <= memory_limit() // GRAM_SHARE:
        origin.gram = _gram(BlockedScans(origin))
        origin.finite = origin.finite or bool(np.isfinite(np.diag(origin.gram)).all())
    return origin.gram


def all_rows(X: BlockedScans) -> NDArray[np.intp]:
    """Numbers of the scans among those of their origin."""
    return np.arange(len(X)) if X.rows is None else X.rows


@contextmanager
def reading(*arrays: Any) -> Iterator[None]:
    """Work on blocks of arrays: those of arrays on disk one after the other, as memory is short."""
    on_disk = any(isinstance(X, BlockedScans) for X in arrays)
    with block_threads(1) if on_disk else nullcontext():
        yield


def read_block(X: Any, block: slice, columns: NDArray | None = None) -> NDArray[np.float64]:
    """One block of X (or of its selected columns) as float64."""
    part = X[:, block] if columns is None else X[:, columns[block]]
    return np.asarray(part, dtype=np.float64)


def column_means(X: Any) -> NDArray[np.float64]:
    """Mean (p,) of every voxel over scans (n, p).

    >>> column_means(np.array([[1.0, 2.0], [3.0, 5.0]]))
    array([2. , 3.5])
    """
    if not isinstance(X, BlockedScans):
        return np.asarray(X.mean(axis=0, dtype=np.float64))
    blocks = voxel_blocks(*X.shape)
    return np.concatenate([X[:, block].mean(axis=0, dtype=np.float64) for block in blocks])


def refuse_infinite(X: BlockedScans, name: str = "the estimator") -> None:
    """Refuse scans with NaN or infinite values; what is known of all scans is not read again."""
    if X.origin.finite or X.dtype.kind != "f":
        return
    X.origin.finite = _first_infinite(BlockedScans(X.origin)) is None
    block = None if X.origin.finite else _first_infinite(X)
    if block is not None:
        raise InputError(
            f"X contains NaN or infinity, which {name} does not take",
            got=f"some between voxels {block.start} and {block.stop}",
            remedy="Leave these voxels out of the mask, or these scans out",
        )


def _first_infinite(X: BlockedScans) -> slice | None:
    """The first block with a value that is not finite."""
    for block in voxel_blocks(*X.shape):
        if not np.isfinite(X[:, block]).all():
            return block
    return None
