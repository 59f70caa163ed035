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
from numba import types
from numba.extending import intrinsic
from numpy.typing import ArrayLike, NDArray

from voxprior.algebra import blas_threads_for
from voxprior.errors import InputError, InputTypeError

WORD = 64
# Features cut at a time, so that no temporary of the size of X is made.
BLOCK = 1 << 14
# Voxels packed at a time, so that temporaries stay in the cache whatever the size of the data.
STRIP = 8192
# Shape of the products that sum voxels by class.
ROWS, COLUMNS = 48, 512


def is_binary(X: np.ndarray) -> bool:
    """Whether all values are 0 or 1."""
    return X.dtype == bool or all(
        bool(np.all((part == 0) | (part == 1))) for part in (X[:, s] for s in _blocks(X))
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
        cuts = [class_cuts(X[:, s], y[None], n_classes)[0] for s in _blocks(X)]
        return np.concatenate(cuts)
    return np.concatenate([np.median(X[:, s].astype(np.float64), axis=0) for s in _blocks(X)])


def class_cuts(X: np.ndarray, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Middle between the lowest and the highest class mean, of every labelling and voxel (P, v).

    A class without samples has mean 0; a voxel that does not vary is cut at its value, so that its
    state is 0. Products have one shape and one thread, so that the cuts of a labelling do not
    depend on its company: x > cut may hang on the last digit.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [1.0, 1.0], [5.0, 1.0]])
    >>> class_cuts(X, np.array([[0, 0, 1], [0, 1, 1]]), 2)
    array([[2.75, 1.  ],
           [1.5 , 1.  ]])
    """
    (n, n_voxels), P = X.shape, len(labels)
    # The first class is what the others leave of the sum over all samples.
    others = labels[:, None, :] == np.arange(1, n_classes)[:, None]
    members = np.zeros((-(-(1 + P * (n_classes - 1)) // ROWS) * ROWS, n))
    members[0] = 1.0
    members[1 : 1 + P * (n_classes - 1)] = others.reshape(-1, n)
    counts = (labels[:, None, :] == np.arange(n_classes)[:, None]).sum(axis=2)
    cuts = np.empty((P, n_voxels))
    with blas_threads_for(n_rows=1):
        for first in range(0, n_voxels, COLUMNS):
            part = X[:, first : first + COLUMNS]
            values = np.zeros((n, COLUMNS))
            values[:, : part.shape[1]] = part
            sums = np.concatenate(
                [members[i : i + ROWS] @ values for i in range(0, len(members), ROWS)]
            )
            rest = sums[1 : 1 + P * (n_classes - 1)].reshape(P, n_classes - 1, COLUMNS)
            lowest = highest = (sums[0] - rest.sum(axis=1)) / np.maximum(counts[:, :1], 1)
            for c in range(1, n_classes):
                mean = rest[:, c - 1] / np.maximum(counts[:, c, None], 1)
                lowest, highest = np.minimum(lowest, mean), np.maximum(highest, mean)
            middle = (lowest + highest) / 2
            constant = values.min(axis=0) == values.max(axis=0)
            middle[:, constant] = values[0, constant]
            cuts[:, first : first + COLUMNS] = middle[:, : part.shape[1]]
    return cuts


def above(X: np.ndarray, cut: np.ndarray, features: np.ndarray | slice) -> np.ndarray:
    """State of some features: x > cut."""
    return X[:, features] > (cut if len(cut) == 1 else cut[features])


def cut_and_pack(X: np.ndarray, cut: np.ndarray) -> np.ndarray:
    """All features cut and packed (n_features, W)."""
    return pack_blocks(above(X, cut, s) for s in _blocks(X))


def _blocks(X: np.ndarray) -> Iterator[slice]:
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
