"""Binary voxels, packed: where each is cut, and 64 samples of a voxel in one machine word.

State 1 means x > cut. The cut of a voxel is its training median (``median``), the middle between
its lowest and its highest class mean (``class``), or a number given. Data that are 0 and 1 already
are cut at 1/2.

Sample i of voxel v is bit i mod 64 of `words[v, i // 64]`; the bits past the last sample are zero.
Samples are counted by population count, Σ_w popcount(words[v, w] & mask[w]): 119 subjects times 1.5
million voxels are 25 MB, and a count over all of them reads each word once.

| symbol | variable | shape |
|---|---|---|
| X, data | `X` | (n_samples, n_voxels) |
| cut of every voxel, or one for all | `cut` | (n_voxels,) or (1,) |
| packed states, voxel-major | `words` | (n_voxels, n_words), n_words = ⌈n_samples / 64⌉ |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import ArrayLike, NDArray

from voxprior.algebra import blas_threads_for
from voxprior.errors import InputError, InputTypeError

WORD = 64
# Differences from the first value of a voxel, relative to it, that count as rounding.
ROUNDING = 1e-12
# Features cut at a time, so that no temporary of the size of X is made.
BLOCK = 1 << 14
# Voxels packed at a time, so that temporaries stay in the cache whatever the size of the data.
STRIP = 8192
# Shape of the products that sum voxels by class.
ROWS, COLUMNS = 48, 512


def is_binary(X: np.ndarray) -> bool:
    """Whether all values are 0 or 1."""
    return X.dtype == bool or all(
        bool(np.all((part == 0) | (part == 1))) for part in (X[:, s] for s in blocks_of(X))
    )


def learn_cut(X: np.ndarray, y: np.ndarray, n_classes: int, cut: float | str) -> np.ndarray:
    """Cut of every voxel (n_features,), or one for all of them (1,).

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [1.0, 5.0], [5.0, 9.0]])
    >>> learn_cut(X, np.array([0, 0, 1]), 2, "median")
    array([1., 5.])
    >>> learn_cut(X, np.array([0, 0, 1]), 2, "class")
    array([2.75, 6.  ])
    """
    if not isinstance(cut, str):
        return np.array([float(cut)])
    if cut == "auto" and is_binary(X):
        return np.array([0.5])
    if cut != "median":
        cuts = [class_cuts(X[:, s], y[None], n_classes)[0] for s in blocks_of(X)]
        return np.concatenate(cuts)
    return np.concatenate([np.median(X[:, s].astype(np.float64), axis=0) for s in blocks_of(X)])


def class_cuts(X: np.ndarray, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Middle between the lowest and the highest class mean, of every labelling and voxel (P, v).

    A class without samples has mean 0; a voxel that does not vary is cut at its value, so that its
    state is 0. Products have one shape and one thread, so that the cuts of a labelling do not
    depend on its company: x > cut may depend on the last digit.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [1.0, 1.0], [5.0, 1.0]])
    >>> class_cuts(X, np.array([[0, 0, 1], [0, 1, 1]]), 2)
    array([[2.75, 1.  ],
           [1.5 , 1.  ]])
    """
    cuts = np.empty((len(labels), X.shape[1]))
    members, counts = class_members(labels, n_classes)
    for first in range(0, X.shape[1], COLUMNS):
        part = as_floats(X[:, first : first + COLUMNS])
        found = np.empty((len(labels), part.shape[1]))
        cut_between_means(part, class_sums(part, members), counts, 0, found)
        cuts[:, first : first + COLUMNS] = found
    return cuts


def class_members(labels: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows that sum voxels by class, and the samples (P, K) of every class.

    The first row sums all samples. For every labelling, the others sum those of every class but the
    first, which is what they leave. Rows of zeros fill the last product.
    """
    P, n = labels.shape
    of_class = labels[:, None, :] == np.arange(n_classes)[:, None]
    n_rows = 1 + P * (n_classes - 1)
    members = np.zeros((-(-n_rows // ROWS) * ROWS, n))
    members[0] = 1.0
    members[1:n_rows] = of_class[:, 1:].reshape(-1, n)
    return members, of_class.sum(axis=2)


def class_sums(X: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Sums (rows, at least v) of voxels by the rows of `class_members`, in double precision."""
    n, n_voxels = X.shape
    sums = np.empty((len(members), -(-n_voxels // COLUMNS) * COLUMNS))
    values = np.zeros((n, COLUMNS))
    with blas_threads_for(n_rows=1):
        for first in range(0, n_voxels, COLUMNS):
            part = X[:, first : first + COLUMNS]
            values[:, : part.shape[1]] = part
            for i in range(0, len(members), ROWS):
                out = sums[i : i + ROWS, first : first + COLUMNS]
                np.matmul(members[i : i + ROWS], values, out=out)
    return sums


def as_floats(X: np.ndarray) -> np.ndarray:
    """Contiguous data of single or double precision: what kernels are compiled for."""
    return np.ascontiguousarray(X, dtype=np.float32 if X.dtype == np.float32 else np.float64)


@njit(cache=True)
def cut_between_means(X, sums, counts, first, cuts):  # pragma: no cover - compiled
    """Write cuts (P, v) of the v voxels of X from ``first`` on, with the given sums by class."""
    P, K = counts.shape
    size = cuts.shape[1]
    lowest, highest = np.empty(size), np.empty(size)
    # Voxels are the inner loops, so that these become vector instructions.
    for p in range(P):
        row, samples = 1 + p * (K - 1), float(max(counts[p, 0], 1))
        lowest[:] = sums[row, first : first + size]
        for c in range(1, K - 1):
            for v in range(size):
                lowest[v] += sums[row + c, first + v]
        for v in range(size):
            lowest[v] = highest[v] = (sums[0, first + v] - lowest[v]) / samples
        for c in range(1, K):
            samples = float(max(counts[p, c], 1))
            for v in range(size):
                mean = sums[row + c - 1, first + v] / samples
                lowest[v] = mean if mean < lowest[v] else lowest[v]
                highest[v] = mean if mean > highest[v] else highest[v]
        for v in range(size):
            cuts[p, v] = (lowest[v] + highest[v]) / 2
    for v in range(first, first + size):
        i, top, rounding = 1, X[0, v], ROUNDING * abs(X[0, v])
        while i < len(X) and abs(X[i, v] - X[0, v]) <= rounding:
            top = max(top, X[i, v])
            i += 1
        if i == len(X):
            cuts[:, v - first] = top


def above(X: np.ndarray, cut: np.ndarray, features: np.ndarray | slice) -> np.ndarray:
    """State of some features: x > cut."""
    return X[:, features] > (cut if len(cut) == 1 else cut[features])


def blocks_of(X: np.ndarray) -> Iterator[slice]:
    """Features in pieces that are worked on one after the other."""
    for first in range(0, X.shape[1], BLOCK):
        yield slice(first, first + BLOCK)


def pack(X: ArrayLike) -> NDArray[np.uint64]:
    """Pack a binary matrix along its samples.

    Parameters
    ----------
    X : array of shape (n_samples, n_voxels)
        Booleans, or numbers that are all 0 or 1. May be memory-mapped, read-only and of any order;
        no copy of it is made.

    Returns
    -------
    words : ndarray of uint64, shape (n_voxels, n_words)

    Examples
    --------
    >>> words = pack([[1, 0, 1], [1, 1, 0]])
    >>> words.ravel().tolist()
    [3, 2, 1]
    >>> unpack(words, n_samples=2).astype(int).tolist()
    [[1, 0, 1], [1, 1, 0]]
    """
    X = np.asarray(X)
    if X.ndim != 2 or X.shape[0] == 0:
        raise InputError(
            "A binary matrix cannot be packed",
            expected="shape (n_samples, n_voxels) with n_samples > 0",
            got=f"shape {X.shape}",
        )
    if X.dtype.kind not in "buif":
        raise InputTypeError(
            "A binary matrix cannot be packed",
            expected="booleans or numbers",
            got=f"dtype {X.dtype}",
        )
    n_voxels = X.shape[1]
    octets = np.zeros((n_voxels, n_words(X.shape[0]) * (WORD // 8)), dtype=np.uint8)
    for start in range(0, n_voxels, STRIP):
        packed = np.packbits(_ones(X[:, start : start + STRIP]), axis=0, bitorder="little")
        octets[start : start + STRIP, : len(packed)] = packed.T
    return octets.view("<u8").astype(np.uint64, copy=False)


def pack_blocks(blocks: Iterable[ArrayLike]) -> NDArray[np.uint64]:
    """Pack a binary matrix that comes as blocks of columns (n_samples, any number of voxels).

    Only one block is unpacked at a time, so data that do not fit in memory can be read, thresholded
    and packed piece by piece.
    """
    packed, lengths = [], set()
    for block in blocks:
        block = np.asarray(block)
        packed.append(pack(block))
        lengths.add(len(block))
    if len(lengths) != 1:
        raise InputError(
            "Blocks cannot be packed side by side",
            expected="one or more blocks with the same number of samples",
            got=f"{len(packed)} blocks with {sorted(lengths)} samples",
        )
    return np.concatenate(packed)


def unpack(words: NDArray[np.uint64], n_samples: int) -> NDArray[np.bool_]:
    """Return packed words as booleans, shape (n_samples, n_voxels)."""
    _check_words(words, n_samples)
    rows = np.ascontiguousarray(words).astype("<u8", copy=False).view(np.uint8)
    bits = np.unpackbits(rows, axis=1, count=n_samples, bitorder="little")
    return bits.view(bool).T


def n_words(n_samples: int) -> int:
    """Return how many words hold `n_samples` bits."""
    return -(-n_samples // WORD)


def _ones(X: NDArray) -> NDArray[np.bool_]:
    """Return where X is 1, having checked that it is 0 everywhere else."""
    if X.dtype == bool:
        return X
    ones = X == 1
    if not np.array_equal(ones, X != 0):
        raise InputError(
            "A binary matrix holds only 0 and 1",
            got="other values, or NaN",
            remedy="Threshold the data first, for instance X > 0",
        )
    return ones


def _check_words(words: NDArray[np.uint64], n_samples: int) -> None:
    if words.dtype != np.uint64 or words.ndim != 2 or words.shape[1] != n_words(n_samples):
        raise InputError(
            f"Words do not hold {n_samples} samples",
            expected=f"uint64 of shape (n_voxels, {n_words(n_samples)})",
            got=f"{words.dtype} of shape {words.shape}",
        )


@intrinsic
def popcount(typingctx, word):
    """Count the ones of a uint64 inside compiled code, as an int64: one machine instruction."""
    if word not in (types.uint64, types.int64):
        return None

    def codegen(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(word), codegen
