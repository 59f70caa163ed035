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

from voxprior.errors import InputError, InputTypeError

WORD = 64
# Features cut at a time, so that no temporary of the size of X is made.
BLOCK = 1 << 14
# Voxels packed at a time, so that temporaries stay in the cache whatever the size of the data.
STRIP = 8192


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
        weight = np.eye(n_classes)[y].T / np.maximum(
            np.bincount(y, minlength=n_classes)[:, None], 1
        )
        means = np.hstack([weight @ X[:, s].astype(np.float64) for s in _blocks(X)])
        return (means.min(axis=0) + means.max(axis=0)) / 2
    return np.concatenate([np.median(X[:, s].astype(np.float64), axis=0) for s in _blocks(X)])


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
