r"""All packed voxels scored in one pass: tables of the gain, and the look-ups that read them.

**Tables.** A candidate voxel v splits configuration j of the present parents in two. With c_k =
|v ∧ m_jk|, g(c) = log Γ(α+c) − log Γ(α) and h(t) = log Γ(Kα+t) − log Γ(Kα), the split changes the
score by::

    G_j(c) = Σ_k F_jk[c_k] + H_j[Σ_k c_k]
    F_jk[c] = g(c) + g(N_jk − c) − g(N_jk),        H_j[t] = h(N_j) − h(t) − h(N_j − t)

which is exactly 0 where v does not split j. What is done to keep a pass over the voxels short:

* The K + 1 tables of a configuration become one, read at the counts written side by side in binary
  (its axes padded to powers of two). Without samples a cell needs no bits and no count; a
  configuration of one sample cannot be split and needs no table at all.
* Small configurations share a table, Σ_j G_j, read at all their counts side by side.
* The tables come in falling order of what a typical candidate loses in them against the best
  conceivable one, so that hopeless candidates show early.

A second, shorter set of tables bounds the gain from above by the counts of the largest class of
each configuration alone, `max G_j over the other counts`: a candidate that cuts the majority in
halves is hopeless wherever the minority goes.

**Passes.** The gain of a voxel is Σ_l values[start_l + place_l], place_l = Σ_t popcount(v ∧ mask_t)
<< shift_t. Voxels are taken in strips, so that the loops over a strip become vector instructions.

To find the voxels above a bar, look-ups are taken one by one; those still to come add at most the
sum of their largest values. A voxel that cannot reach the bar any more is out; where only a few of
a strip are left, they are finished one at a time. The short tables that bound the gain come first,
the exact ones after. The result is exact: only voxels that provably stay below are given up.

A voxel that splits no configuration (constant, or a copy of a parent) has no information about the
class. With α = 1 its gain is 0; with α = 1/(Kq) it would be rewarded for halving α, so its gain is
set to 0 under every prior. Its sum of look-ups is exactly 0; only where that is so are its counts
checked again.

| symbol | variable | shape |
|---|---|---|
| G, all tables end to end; look-up l begins at `start[l]` | `values` | (total,) |
| max G, the largest value of each table | `most` | (L,) |
| c, cell and bit plane counted, (j K + k) B + b | `term` | (T,) |
| look-up l has the terms `begin[l]` .. `begin[l + 1]` − 1 | `begin` | (L + 1,) |
| by which a count is shifted: place = Σ_t count_t << shift_t | `shift` | (T,) |
| the sum for a candidate that cuts every cell in halves | `typical` | scalar |
| V, packed voxels | `words` | (V, W) uint64 |
| m_t, samples counted by each term of a program | `masks` | (T, W) uint64 |
| m_j, samples of each configuration | `rows` | (J, W) uint64 |
| gain of a voxel whose look-ups are 0: what the change of α alone brings | `base` | scalar |
| sum of the largest values of the look-ups that follow | `rest` | (L,) |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numba import njit, prange
from scipy.special import gammaln

from voxprior.models.network.bits import popcount

# One table per configuration only while all of them stay in the second cache.
FUSED = 1 << 16
# Bits of a place up to which configurations share a table, so that most stay in the first cache.
SHARED = 12
# Voxels whose counts are taken together.
STRIP = 1024
# Voxels that a thread takes at a time.
CHUNK = 1 << 14
# Measured cost of a voxel in multiply-adds: threads pay from about 2^15 voxels.
VOXEL_WORK = 64
# This many voxels of a strip, or fewer, are finished one at a time.
FEW = STRIP // 10


class LookUps(NamedTuple):
    """What to count and where to read it off, see the head of the file."""

    values: np.ndarray
    start: np.ndarray
    most: np.ndarray
    begin: np.ndarray
    term: np.ndarray
    shift: np.ndarray
    typical: float


class Piece(NamedTuple):
    """One table, its cells with the place of their counts, and how far the best beats the usual."""

    table: np.ndarray
    cells: list[int]
    shifts: list[int]
    drop: float


def look_ups(counts: np.ndarray, alpha: float, n_planes: int) -> tuple[LookUps, LookUps]:
    """Tables of all configurations with ``counts`` (J, K) for one more parent with prior α.

    Returns the exact tables, and those that bound the gain from above; the latter are empty where
    there are too many classes or samples for one table per configuration.
    """
    K = counts.shape[1]
    top = int(counts.sum(axis=1).max(initial=0)) + 1
    g = gammaln(alpha + np.arange(top)) - gammaln(alpha)
    h = gammaln(K * alpha + np.arange(top)) - gammaln(K * alpha)
    rows = [(N, j * K) for j, N in enumerate(counts) if N.sum() > 1]
    if sum(2.0 ** sum(int(c).bit_length() for c in N) for N, _ in rows) > FUSED:
        separate = [piece for N, first in rows for piece in _separate(N, first, g, h)]
        return _end_to_end(separate, n_planes), NO_TABLES
    both = [_fused(N, first, g, h) for N, first in rows]
    exact, bounds = [piece for piece, _ in both], [piece for _, piece in both]
    return _end_to_end(exact, n_planes), _end_to_end(bounds, n_planes)


def _fused(N: np.ndarray, first: int, g: np.ndarray, h: np.ndarray) -> tuple[Piece, Piece]:
    """G_j as one table over the classes that occur, the last in the lowest bits; and its bound."""
    n, present = int(N.sum()), np.flatnonzero(N).tolist()
    N = N[present]
    table, total = np.zeros(()), np.zeros((), dtype=np.int64)
    for c in N:
        # Places past N_k are never read; they must not be taken for the largest value.
        F = np.full(1 << int(c).bit_length(), -np.inf)
        F[: c + 1] = g[: c + 1] + g[c::-1] - g[c]
        table = np.add.outer(table, F)
        total = np.add.outer(total, np.arange(len(F)))
    H = h[n] - h[: n + 1] - h[n::-1]
    table = table + H[np.minimum(total, n)]
    widths = [int(c).bit_length() for c in N]
    shifts = [sum(widths[k + 1 :]) for k in range(len(N))]
    cells = [first + k for k in present]
    exact = Piece(table.ravel(), cells, shifts, table.max() - table[tuple(N // 2)])
    if len(N) == 1:
        return exact, exact
    most = int(np.argmax(N))
    bound = table.max(axis=tuple(k for k in range(len(N)) if k != most))
    return exact, Piece(bound, [cells[most]], [0], bound.max() - bound[N[most] // 2])


def _separate(N: np.ndarray, first: int, g: np.ndarray, h: np.ndarray) -> list[Piece]:
    """F_jk of every class that occurs, and H_j."""
    n, present = int(N.sum()), np.flatnonzero(N)
    cells = [first + int(k) for k in present]
    tables = [g[: c + 1] + g[c::-1] - g[c] for c in N[present]]
    pieces = [Piece(_padded(F), [c], [0], -F.min()) for F, c in zip(tables, cells)]
    H = h[n] - h[: n + 1] - h[n::-1]
    return [*pieces, Piece(_padded(H), cells, [0] * len(cells), H.max())]


def _padded(table: np.ndarray) -> np.ndarray:
    width = int(len(table) - 1).bit_length()
    return np.append(table, np.full((1 << width) - len(table), -np.inf))


def _side_by_side(one: Piece, two: Piece) -> Piece:
    by = len(two.table).bit_length() - 1
    table = np.add.outer(one.table, two.table).ravel()
    shifts = [s + by for s in one.shifts] + two.shifts
    return Piece(table, one.cells + two.cells, shifts, one.drop + two.drop)


def _end_to_end(pieces: list[Piece], n_planes: int) -> LookUps:
    shared: list[Piece] = []
    for piece in sorted(pieces, key=lambda p: -p.drop):
        if shared and len(shared[-1].table) * len(piece.table) <= 1 << SHARED:
            shared[-1] = _side_by_side(shared[-1], piece)
        else:
            shared.append(piece)
    b = np.arange(n_planes)
    cells = np.array([c for p in shared for c in p.cells], dtype=np.int64)
    shifts = np.array([s for p in shared for s in p.shifts], dtype=np.int64)
    return LookUps(
        np.concatenate([p.table for p in shared] or [np.zeros(1)]),
        np.cumsum([0, *(len(p.table) for p in shared)], dtype=np.int64)[:-1],
        np.array([p.table.max() for p in shared]),
        np.cumsum([0, *(len(p.cells) * n_planes for p in shared)], dtype=np.int64),
        (cells[:, None] * n_planes + b).ravel(),
        (shifts[:, None] + b).ravel(),
        float(sum(p.table.max() - p.drop for p in pieces)),
    )


NO_TABLES = _end_to_end([], 1)


class Program(NamedTuple):
    """The look-ups of one or more sets of parents end to end.

    Set f has the look-ups `first[f]` .. `first[f + 1]` − 1, and the configurations likewise.
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
    """Look-ups of several sets of parents, with the masks (J, K, B, W) of each.

    Tables that sets have in common are held once.
    """

    def ends(lengths: Iterable[int]) -> np.ndarray:
        return np.cumsum([0, *lengths], dtype=np.int64)

    term = ends(len(t.term) for t in tables)
    distinct = {id(t.values): t.values for t in tables}
    value = dict(zip(distinct, ends(map(len, distinct.values())).tolist()))
    flat = [m.reshape(-1, m.shape[-1]) for m in masks]
    rows = [np.bitwise_or.reduce(m, axis=(1, 2)) for m in masks]
    return Program(
        np.concatenate([m[t.term] for m, t in zip(flat, tables)]),
        np.concatenate([t.shift for t in tables]),
        np.concatenate([*(t.begin[:-1] + n for t, n in zip(tables, term)), term[-1:]]),
        np.concatenate([t.start + value[id(t.values)] for t in tables]),
        np.concatenate(list(distinct.values())),
        np.concatenate([np.cumsum(t.most[::-1])[::-1] - t.most for t in tables]),
        ends(len(t.start) for t in tables),
        np.concatenate(rows),
        ends(map(len, rows)),
    )


@njit(cache=True, parallel=True)
def gain_pass(words, exact, base, delta):
    """Write the gain of every voxel, for one set of parents."""
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


@njit(cache=True, parallel=True)
def screen_pass(words, bounds, exact, bars, near):
    """Write which voxels reach the bar of each set of parents."""
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
            _screen_strip(words, first, size, block, bounds, exact, f, bars[f], place, total, near)


@njit(cache=True, parallel=True)
def best_each_pass(words, bounds, exact, base, slack, tops):
    """Raise the largest gain of each set of parents, where it has voxels (F, V, W) of its own.

    A voxel is given up where rounding by up to ``slack`` cannot bring it above the largest so far.
    """
    V = words.shape[1]
    for f in prange(len(tops)):
        block = np.zeros((words.shape[2], STRIP), np.uint64)
        place, total = np.empty(STRIP, np.uint64), np.empty(STRIP)
        own, top = words[f], tops[f]
        for first in range(0, V, STRIP):
            size = min(V - first, STRIP)
            _load(own, first, size, block)
            bar = top - base[f] - slack
            done, least, alive = _sieve_twice(block, bounds, exact, f, bar, place, total)
            for i in range(size if alive > 0 else 0):
                if total[i] > least:
                    so_far = total[i] if done >= 0 else 0.0
                    whole = _finished(own[first + i], exact, f, bar, done, so_far)
                    top = max(top, whole + base[f])
        tops[f] = top


@njit(cache=True)
def _screen_strip(words, first, size, block, bounds, exact, f, bar, place, total, near):
    near[f, first : first + size] = False
    done, least, alive = _sieve_twice(block, bounds, exact, f, bar, place, total)
    for i in range(size if alive > 0 else 0):
        if total[i] > least:
            so_far = total[i] if done >= 0 else 0.0
            near[f, first + i] = _finished(words[first + i], exact, f, bar, done, so_far) > -np.inf


@njit(cache=True)
def _sieve_twice(block, bounds, exact, f, bar, place, total):
    """Give up voxels of a strip by bounds, and by exact look-ups where many are left.

    Returns the exact look-up to come (−1: all), the sum above which a voxel is left, and how many
    are.
    """
    done, (_, least, alive) = -1, _sieve(block, bounds, f, bar, place, total)
    if alive > FEW:
        done, least, alive = _sieve(block, exact, f, bar, place, total)
    return done, least, alive


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
def _finished(word, exact, f, bar, look, total):
    """Sum of all look-ups of one voxel, −∞ where it is not above the bar or splits nothing.

    Look-ups before ``look`` (−1: none) are summed up in ``total`` already.
    """
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
            return -np.inf
        look += 1
    counts = total > bar and (total != 0.0 or _splits(word, exact, f))
    return total if counts else -np.inf


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
