"""Packed binary matrices: 64 samples of a voxel in one machine word, counted by population count.

    counts[v, m] = #{i : X[i, v] = 1 and M[m, i] = 1} = Σ_w popcount(words[v, w] & masks[m, w])

Sample i of voxel v is bit i mod 64 of `words[v, i // 64]`; the bits past the last sample are zero.
119 subjects times 1.5 million voxels are 25 MB, and a count over all of them reads each word once.

| symbol | variable | shape |
|---|---|---|
| X, binary data | `X` | (n_samples, n_voxels) |
| packed X, voxel-major | `words` | (n_voxels, n_words), n_words = ⌈n_samples / 64⌉ |
| packed M, selections of samples | `masks` | (n_masks, n_words) |
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numba import njit, prange, types
from numba.extending import intrinsic
from numpy.typing import ArrayLike, NDArray

__all__ = ["counts", "pack", "pack_blocks", "popcount", "unpack"]

WORD = 64
# Voxels packed at a time, so that temporaries stay in the cache whatever the size of the data.
STRIP = 8192


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
    >>> from voxprior.bits import counts, pack, unpack
    >>> words = pack([[1, 0, 1], [1, 1, 0]])
    >>> words.ravel().tolist()
    [3, 2, 1]
    >>> first_sample, all_samples = [1, 0], [1, 1]
    >>> counts(words, pack(list(zip(first_sample, all_samples)))).tolist()
    [[1, 2], [0, 1], [1, 1]]
    >>> unpack(words, n_samples=2).astype(int).tolist()
    [[1, 0, 1], [1, 1, 0]]
    """
    X = np.asarray(X)
    if X.ndim != 2 or X.shape[0] == 0:
        raise ValueError(
            "A binary matrix must have shape (n_samples, n_voxels) with n_samples > 0. "
            f"Got shape {X.shape} instead."
        )
    if X.dtype.kind not in "buif":
        raise TypeError(f"A binary matrix holds booleans or numbers. Got dtype {X.dtype} instead.")
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
        raise ValueError(
            "Blocks to pack must be one or more and have the same number of samples. "
            f"Got {len(packed)} blocks with {sorted(lengths)} samples instead."
        )
    return np.concatenate(packed)


def unpack(words: NDArray[np.uint64], n_samples: int) -> NDArray[np.bool_]:
    """Return packed words as booleans, shape (n_samples, n_voxels)."""
    _check_words(words, n_samples)
    rows = np.ascontiguousarray(words).astype("<u8", copy=False).view(np.uint8)
    bits = np.unpackbits(rows, axis=1, count=n_samples, bitorder="little")
    return bits.view(bool).T


def counts(words: NDArray[np.uint64], masks: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Count the ones of each voxel among the samples that each mask selects.

    Parameters
    ----------
    words : ndarray of uint64, shape (n_voxels, n_words)
        Packed data.
    masks : ndarray of uint64, shape (n_masks, n_words)
        Packed selections of samples, `pack(selection.T)` of booleans (n_masks, n_samples).

    Returns
    -------
    ndarray of int32, shape (n_voxels, n_masks)
    """
    if words.ndim != 2 or masks.ndim != 2 or words.shape[1] != masks.shape[1]:
        raise ValueError(
            "Data and masks must be packed over the same samples, (n_voxels, n_words) and "
            f"(n_masks, n_words). Got shapes {words.shape} and {masks.shape} instead."
        )
    out = np.empty((len(words), len(masks)), dtype=np.int32)
    _count(words, masks, out)
    return out


def n_words(n_samples: int) -> int:
    """Return how many words hold `n_samples` bits."""
    return -(-n_samples // WORD)


def _ones(X: NDArray) -> NDArray[np.bool_]:
    """Return where X is 1, having checked that it is 0 everywhere else."""
    if X.dtype == bool:
        return X
    ones = X == 1
    if not np.array_equal(ones, X != 0):
        raise ValueError(
            "A binary matrix holds only 0 and 1. Other values (or NaN) were found; threshold the "
            "data first, for instance X > 0."
        )
    return ones


def _check_words(words: NDArray[np.uint64], n_samples: int) -> None:
    if words.dtype != np.uint64 or words.ndim != 2 or words.shape[1] != n_words(n_samples):
        raise ValueError(
            f"{n_samples} samples are packed as uint64 of shape (n_voxels, {n_words(n_samples)}). "
            f"Got {words.dtype} of shape {words.shape} instead."
        )


@intrinsic
def popcount(typingctx, word):
    """Count the ones of a uint64 inside compiled code, as an int64: one machine instruction."""
    if word not in (types.uint64, types.int64):
        return None

    def codegen(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(word), codegen


@njit(cache=True, parallel=True)
def _count(words, masks, out):
    """Write popcounts of every row of words under every row of masks."""
    for v in prange(words.shape[0]):
        for m in range(masks.shape[0]):
            total = 0
            for w in range(words.shape[1]):
                total += popcount(words[v, w] & masks[m, w])  # type: ignore[call-arg]
            out[v, m] = total
