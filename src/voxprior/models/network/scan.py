r"""Passes over all packed voxels: the gain of each, or only which of them can reach a bar.

The gain of a voxel is Σ_l values[start_l + place_l], place_l = Σ_t popcount(v ∧ mask_t) << shift_t
(`split_tables`). Voxels are taken in strips, so that the loops over a strip become vector
instructions.

To find the voxels above a bar, look-ups are taken one by one; those still to come add at most the
sum of their largest values. A voxel that cannot reach the bar any more is out; where only a few of
a strip are left, they are finished one at a time. The short tables that bound the gain come first,
the exact ones after. The result is exact: only voxels that provably stay below are given up.

A voxel that splits no configuration (constant, or a copy of a parent) says nothing about the class.
With α = 1 its gain is 0; with α = 1/(Kq) it would be rewarded for halving α, so its gain is set to
0 under every prior. Its sum of look-ups is exactly 0; only where that is so, its counts are looked
at again.

======== ============ =====================================================================
symbol   variable     shape and meaning
======== ============ =====================================================================
V        `words`      (V, W) uint64, packed voxels
m_t      `masks`      (T, W) uint64, samples counted by each term of a program
m_j      `rows`       (J, W) uint64, samples of each configuration
         `base`       gain of a voxel whose look-ups are 0: what the change of α alone brings
         `rest`       (L,) sum of the largest values of the look-ups that follow
======== ============ =====================================================================
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numba import njit, prange

from voxprior.bits import popcount
from voxprior.models.network.split_tables import LookUps

# Voxels whose counts are taken together.
STRIP = 1024
# Voxels a thread takes at a time.
CHUNK = 1 << 14
# Waking threads costs more than scoring fewer voxels than this.
PARALLEL = 1 << 15
# So many voxels of a strip, or fewer, are finished one at a time.
FEW = STRIP // 10


class Program(NamedTuple):
    """The look-ups of one or more families end to end, as in `split_tables.LookUps`.

    Family f has the look-ups `first[f]` .. `first[f + 1]` − 1, and the configurations likewise.
    """

    masks: np.ndarray
    shift: np.ndarray
    begin: np.ndarray
    start: np.ndarray
    values: np.ndarray
    rest: np.ndarray
    first: np.ndarray
    rows: np.ndarray
    first_row: np.ndarray


def program(tables: Sequence[LookUps], masks: Sequence[np.ndarray]) -> Program:
    """Look-ups of several families, with the masks (J, K, B, W) of each."""

    def ends(lengths: Iterable[int]) -> np.ndarray:
        return np.cumsum([0, *lengths], dtype=np.int64)

    term = ends(len(t.term) for t in tables)
    value = ends(len(t.values) for t in tables)
    flat = [m.reshape(-1, m.shape[-1]) for m in masks]
    rows = [np.bitwise_or.reduce(m, axis=(1, 2)) for m in masks]
    return Program(
        np.concatenate([m[t.term] for m, t in zip(flat, tables)]),
        np.concatenate([t.shift for t in tables]),
        np.concatenate([*(t.begin[:-1] + n for t, n in zip(tables, term)), term[-1:]]),
        np.concatenate([t.start + n for t, n in zip(tables, value)]),
        np.concatenate([t.values for t in tables]),
        np.concatenate([np.cumsum(t.most[::-1])[::-1] - t.most for t in tables]),
        ends(len(t.start) for t in tables),
        np.concatenate(rows),
        ends(map(len, rows)),
    )


@njit(cache=True)
def gain_pass(words, exact, base, delta):
    """Write the gain of every voxel, for one family."""
    _gain_chunk(words, 0, len(words), exact, base, delta)


@njit(cache=True, parallel=True)
def gain_pass_parallel(words, exact, base, delta):
    """Write the gain of every voxel, for one family, with all threads."""
    V = len(words)
    for chunk in prange((V + CHUNK - 1) // CHUNK):
        _gain_chunk(words, chunk * CHUNK, min((chunk + 1) * CHUNK, V), exact, base, delta)


@njit(cache=True)
def _gain_chunk(words, begin, end, exact, base, delta):
    block = np.zeros((words.shape[1], STRIP), np.uint64)
    place, total = np.empty(STRIP, np.uint64), np.empty(STRIP)
    masks, shift, term, start, values = exact[:5]
    for first in range(begin, end, STRIP):
        size = min(end - first, STRIP)
        _load(words, first, size, block)
        total[:] = 0.0
        for look in range(len(start)):
            _look_up(block, look, masks, shift, term, start, values, place, total)
        n_zero = 0
        for i in range(size):
            delta[first + i] = total[i] + base
            n_zero += total[i] == 0.0
        for i in range(size if n_zero else 0):
            if total[i] == 0.0 and not _splits(words[first + i], exact, 0):
                delta[first + i] = 0.0


@njit(cache=True)
def screen_pass(words, bounds, exact, bars, near):
    """Write which voxels reach the bar of each family."""
    _screen_chunk(words, 0, len(words), bounds, exact, bars, near)


@njit(cache=True, parallel=True)
def screen_pass_parallel(words, bounds, exact, bars, near):
    """Write which voxels reach the bar of each family, with all threads."""
    V = len(words)
    for chunk in prange((V + CHUNK - 1) // CHUNK):
        begin, end = chunk * CHUNK, min((chunk + 1) * CHUNK, V)
        _screen_chunk(words, begin, end, bounds, exact, bars, near)


@njit(cache=True)
def _screen_chunk(words, begin, end, bounds, exact, bars, near):
    block = np.zeros((words.shape[1], STRIP), np.uint64)
    place, total = np.empty(STRIP, np.uint64), np.empty(STRIP)
    for first in range(begin, end, STRIP):
        size = min(end - first, STRIP)
        _load(words, first, size, block)
        for f in range(len(bars)):
            near[f, first : first + size] = False
            done, (_, least, alive) = -1, _sieve(block, bounds, f, bars[f], place, total)
            if alive > FEW:
                done, least, alive = _sieve(block, exact, f, bars[f], place, total)
            if alive > 0:
                for i in range(size):
                    if total[i] > least:
                        so_far = total[i] if done >= 0 else 0.0
                        reaches = _reaches(words[first + i], exact, f, bars[f], done, so_far)
                        near[f, first + i] = reaches


@njit(cache=True)
def _sieve(block, program, f, bar, place, total):
    """Sum look-ups over a strip while more than a few voxels can reach the bar.

    Returns the look-up to come, the sum above which a voxel can, and how many voxels do.
    """
    total[:] = 0.0
    masks, shift, begin, start, values, rest, first = program[:7]
    look, least, alive = first[f], -np.inf, STRIP
    while look < first[f + 1] and alive > FEW:
        _look_up(block, look, masks, shift, begin, start, values, place, total)
        least = bar - rest[look]
        alive = 0
        for i in range(STRIP):
            alive += total[i] > least
        look += 1
    return look, least, alive


@njit(cache=True)
def _load(words, first, size, block):
    """Transpose a strip of voxels; what is left of the last strip stays as it was."""
    for w in range(words.shape[1]):
        for i in range(size):
            block[w, i] = words[first + i, w]


@njit(cache=True)
def _look_up(block, look, masks, shift, begin, start, values, place, total):
    # Arrays are passed one by one: taking them out of a tuple here would cost as much as the work.
    place[:] = np.uint64(start[look])
    last = begin[look + 1] - 1
    # Two terms at a time: half as many trips to the voxels and to their places.
    for t in range(begin[look], last, 2):
        _add_two(block, masks, t, np.uint64(shift[t]), np.uint64(shift[t + 1]), place)
    if (last - begin[look]) % 2 == 0:
        _add_one(block, masks, last, np.uint64(shift[last]), place)
    for i in range(STRIP):
        total[i] += values[place[i]]


@njit(cache=True)
def _add_two(block, masks, t, shift, other, place):
    """Add to each voxel's place its numbers of samples in masks t and t + 1, shifted."""
    W = masks.shape[1]
    for w in range(0, W - 1, 2):
        a, b, c, d = masks[t, w], masks[t, w + 1], masks[t + 1, w], masks[t + 1, w + 1]
        for i in range(STRIP):
            x, y = block[w, i], block[w + 1, i]
            one = np.uint64(popcount(x & a) + popcount(y & b))  # type: ignore[call-arg]
            two = np.uint64(popcount(x & c) + popcount(y & d))  # type: ignore[call-arg]
            place[i] += (one << shift) + (two << other)
    if W % 2:
        a, c = masks[t, W - 1], masks[t + 1, W - 1]
        for i in range(STRIP):
            one = np.uint64(popcount(block[W - 1, i] & a))  # type: ignore[call-arg]
            two = np.uint64(popcount(block[W - 1, i] & c))  # type: ignore[call-arg]
            place[i] += (one << shift) + (two << other)


@njit(cache=True)
def _add_one(block, masks, t, shift, place):
    for w in range(masks.shape[1]):
        a = masks[t, w]
        for i in range(STRIP):
            place[i] += np.uint64(popcount(block[w, i] & a)) << shift  # type: ignore[call-arg]


@njit(cache=True)
def _reaches(word, exact, f, bar, look, total):
    """Whether one voxel reaches the bar, with the look-ups before ``look`` (−1: none) summed up."""
    look = max(look, exact.first[f])
    while look < exact.first[f + 1]:
        place = exact.start[look]
        for t in range(exact.begin[look], exact.begin[look + 1]):
            count = 0
            for w in range(len(word)):
                count += popcount(word[w] & exact.masks[t, w])  # type: ignore[call-arg]
            place += count << exact.shift[t]
        total += exact.values[place]
        if not total > bar - exact.rest[look]:
            return False
        look += 1
    return total > bar and (total != 0.0 or _splits(word, exact, f))


@njit(cache=True)
def _splits(word, exact, f):
    """Whether both states of a voxel occur within some configuration."""
    for j in range(exact.first_row[f], exact.first_row[f + 1]):
        on, off = False, False
        for w in range(len(word)):
            on |= (word[w] & exact.rows[j, w]) != 0
            off |= (~word[w] & exact.rows[j, w]) != 0
        if on and off:
            return True
    return False
