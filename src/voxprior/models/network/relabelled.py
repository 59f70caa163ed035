"""Continuous voxels under many labellings: cut, compared and packed in one pass over the data.

Where voxels are cut between their class means, every permuted labelling cuts them anew. The class
means of all labellings are one matrix product (`bits.class_cuts`); states x > cut of 64 samples are
one comparison of vectors, whose signs are the bits of a word. Blocks of voxels go to the scan as
they come, so that nothing of the size labellings x voxels is kept.

Values of single precision are compared as such: with cut' the largest float32 that is not above
the cut, x > cut exactly where x > cut'.

| symbol | variable | shape |
|---|---|---|
| X, data | `X` | (n_samples, n_voxels) |
| class codes, one labelling per row | `labels` | (P, n_samples) |
| cuts of a block of v voxels | `cuts` | (P, v) |
| packed states of a block | `words` | (P, v, W) |
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.extending import intrinsic

from voxprior.algebra import launch
from voxprior.models.network.bits import (
    BLOCK,
    COLUMNS,
    WORD,
    above,
    as_floats,
    blocks_of,
    class_members,
    class_sums,
    cut_between_means,
    n_words,
    pack_blocks,
)

# Voxels transposed at a time, so that their samples stay in the second cache.
TILE = 64
# Bytes of packed states that a block may take, of all labellings: it is scanned while in the cache.
BLOCK_BYTES = 1 << 22


def cut_and_pack(X: np.ndarray, cut: np.ndarray) -> np.ndarray:
    """All features (n_features, W) in their states x > cut.

    Examples
    --------
    >>> cut_and_pack(np.array([[0.1, 3.0], [0.7, 2.0]]), np.array([0.5])).tolist()
    [[2], [3]]
    """
    if X.dtype.kind != "f":
        return pack_blocks(above(X, cut, s) for s in blocks_of(X))
    words = np.empty((X.shape[1], n_words(len(X))), dtype=np.uint64)
    for s in blocks_of(X):
        block = as_floats(X[:, s])
        cuts = np.broadcast_to(cut if len(cut) == 1 else cut[s], (1, block.shape[1]))
        launch(_pack_above, block.size, block, not_above(cuts, block.dtype), words[None, s])
    return words


def cut_and_pack_many(X: np.ndarray, labels: np.ndarray, n_classes: int) -> Iterator[np.ndarray]:
    """Packed states (P, v, W) of one block of voxels after the other, in order.

    Examples
    --------
    >>> X = np.array([[0.1], [0.25], [0.3], [0.7]], dtype=np.float32)
    >>> [block.tolist() for block in cut_and_pack_many(X, np.array([[0, 0, 1, 1]]), 2)]
    [[[[8]]]]
    """
    n, n_voxels = X.shape
    members, counts = class_members(labels, n_classes)
    each = BLOCK_BYTES // (8 * len(labels) * n_words(n))
    size = min(BLOCK, max(each // COLUMNS, 1) * COLUMNS)
    for first in range(0, n_voxels, size):
        block = as_floats(X[:, first : first + size])
        words = np.empty((len(labels), block.shape[1], n_words(n)), dtype=np.uint64)
        sums = class_sums(block, members)
        launch(_cut_and_pack, words.size * WORD, block, sums, counts, words)
        yield words


def not_above(cuts: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the largest numbers of a float type that are not above the cuts.

    >>> not_above(np.array([0.1, 0.5]), np.dtype(np.float32)) <= np.array([0.1, 0.5])
    array([ True,  True])
    """
    near = cuts.astype(dtype)
    return np.where(near > cuts, np.nextafter(near, near.dtype.type(-np.inf)), near)


@intrinsic
def _signs(typingctx, values, first, cut):
    """Word whose bit i says whether values[first + i] > cut, of 64 contiguous values."""
    if not isinstance(values, types.Array) or values.dtype not in (types.float32, types.float64):
        return None

    def codegen(context, builder, signature, arguments):
        array_type = signature.args[0]
        data = context.make_array(array_type)(context, builder, arguments[0]).data
        kind = context.get_data_type(array_type.dtype)
        vector = ir.VectorType(kind, WORD)
        place = builder.gep(data, [arguments[1]])
        loaded = builder.load(builder.bitcast(place, vector.as_pointer()), align=kind_bytes)
        # The cut in every lane: put into the first one, then shuffled.
        lane = ir.Constant(ir.IntType(32), 0)
        one = builder.insert_element(ir.Constant(vector, ir.Undefined), arguments[2], lane)
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), WORD), [0] * WORD)
        every = builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), lanes)
        return builder.bitcast(builder.fcmp_ordered(">", loaded, every), ir.IntType(WORD))

    kind_bytes = values.dtype.bitwidth // 8
    return types.uint64(values, types.int64, values.dtype), codegen


@njit(cache=True, parallel=True)
def _pack_above(X, cuts, words):  # pragma: no cover - compiled
    """Write the packed states X > cuts."""
    n_voxels = X.shape[1]
    for tile in prange((n_voxels + TILE - 1) // TILE):
        first = tile * TILE
        _pack_tile(X, first, cuts[:, first : first + TILE].copy(), words)


@njit(cache=True, parallel=True)
def _cut_and_pack(X, sums, counts, words):  # pragma: no cover - compiled
    """Write the packed states of every labelling, cut between the means that sums by class give."""
    n_voxels = X.shape[1]
    for tile in prange((n_voxels + TILE - 1) // TILE):
        first = tile * TILE
        cuts = np.empty((len(counts), min(TILE, n_voxels - first)))
        cut_between_means(X, sums, counts, first, cuts)
        near, below_all = cuts.astype(X.dtype), np.full(1, -np.inf, X.dtype)[0]
        for p in range(len(counts)):
            for v in range(cuts.shape[1]):
                if near[p, v] > cuts[p, v]:
                    near[p, v] = np.nextafter(near[p, v], below_all)
        _pack_tile(X, first, near, words)


@njit(cache=True)
def _pack_tile(X, first, cuts, words):  # pragma: no cover - compiled
    n, (P, size), W = len(X), cuts.shape, words.shape[2]
    # Samples past the last are never above.
    values = np.full(TILE * W * WORD, -np.inf, X.dtype)
    for i in range(n):
        for v in range(size):
            values[v * W * WORD + i] = X[i, first + v]
    # Labelling by labelling within a voxel, whose samples stay in the first cache.
    for v in range(size):
        for p in range(P):
            for w in range(W):
                begin = (v * W + w) * WORD
                words[p, first + v, w] = _signs(values, begin, cuts[p, v])  # type: ignore[call-arg]
