r"""Tables that turn a candidate's counts into its gain, few and small enough for the caches.

A candidate voxel v splits configuration j of the present parents in two. With c_k = |v ∧ m_jk|,
g(c) = log Γ(α+c) − log Γ(α) and h(t) = log Γ(Kα+t) − log Γ(Kα), the split changes the score by::

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

======== ============ =====================================================================
symbol   variable     shape and meaning
======== ============ =====================================================================
G        `values`     all tables end to end; that of look-up l begins at `start[l]`
max G    `most`       (L,) the largest value of each table
c        `term`       (T,) cell and bit plane counted, (j K + k) B + b; look-up l has the
                      terms `begin[l]` .. `begin[l + 1]` − 1
         `shift`      (T,) by which the count is shifted: place = Σ_t count_t << shift_t
         `typical`    the sum for a candidate that cuts every cell in halves
======== ============ =====================================================================
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

# One table a configuration only while all of them stay in the second cache.
FUSED = 1 << 16
# Bits of a place up to which configurations share a table, so that most stay in the first cache.
SHARED = 12


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
    """One table, its cells with the place of their counts, and how far apart good and usual are."""

    table: np.ndarray
    cells: list[int]
    shifts: list[int]
    drop: float


def look_ups(counts: np.ndarray, alpha: float, n_planes: int) -> tuple[LookUps, LookUps]:
    """Tables of all configurations with ``counts`` (J, K) for one more parent with prior α.

    Returns the exact tables, and those that bound the gain from above; the latter are empty where
    there are too many classes or samples for one table a configuration.
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
