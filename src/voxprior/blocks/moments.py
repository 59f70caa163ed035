"""Class means and squares of every voxel; those of a fold by reading no more than it leaves out.

For class c with N_c scans and voxel j

    X̄_j = (1/N_c) Σ_i x_ij        M2_j = Σ_i (x_ij − X̄_j)²

Chan's formulas join two disjoint sets A, B and take B out of A ∪ B again. With δ = X̄_B − X̄_A:

    N = N_A + N_B      X̄ = X̄_A + δ N_B/N      M2 = M2_A + M2_B + δ² N_A N_B/N

The statistics U of all scans that were seen under the same labels stay with the origin of blocked
scans. A fold adds to U what U lacks, and takes out of it what the fold leaves out: all folds of a
leave-one-run-out together read every scan twice, however many they are. A voxel that keeps less
than `LOST` of its M2, say one that varies only in the scans left out, is read again: subtraction
would leave little but rounding.

| symbol | variable | shape |
|---|---|---|
| N_c, scans of each class | `count` | (C,) |
| X̄, class means | `mean` | (C, p) |
| M2, class sums of squared deviations | `m2` | (C, p) |

Reference: T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for
computing sample variances", COMPSTAT 1982.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from voxprior.blocks.memory import memory_limit
from voxprior.blocks.scans import BlockedScans
from voxprior.blocks.sums import all_rows, voxel_blocks
from voxprior.errors import InputError

# Share of M2 that must remain where scans are taken out: half of the digits of a float64.
LOST = 1e-8
# Share of the limit that kept statistics may take, as that of a Gram matrix.
KEPT_SHARE = 4


class ClassStatistics(NamedTuple):
    """Counts, means and sums of squared deviations, float64, one row per class."""

    count: NDArray  # type: ignore[assignment]  # tuple.count is not used here
    mean: NDArray
    m2: NDArray

    def at(self, block: slice) -> ClassStatistics:
        """Statistics of some voxels."""
        return ClassStatistics(self.count, self.mean[:, block], self.m2[:, block])


class Seen(NamedTuple):
    """Class of every scan of an origin, -1 where it was not seen, and statistics of all seen."""

    labels: NDArray[np.intp]
    statistics: ClassStatistics


# What makes statistics of an array: (values, codes, n_classes) -> count, mean, m2.
Compute = Callable[[NDArray, NDArray, int], Any]


def merge(a: ClassStatistics, b: ClassStatistics) -> ClassStatistics:
    """Statistics of the union of two disjoint sets of examples (Chan's formula).

    Examples
    --------
    >>> import numpy as np
    >>> one, many = np.array([1]), np.array([3])
    >>> a = ClassStatistics(many, np.array([[2.0]]), np.array([[2.0]]))  # of 1, 2, 3
    >>> merge(a, ClassStatistics(one, np.array([[6.0]]), np.array([[0.0]]))).m2
    array([[14.]])
    """
    count = a.count + b.count
    safe = np.maximum(count, 1)
    delta = b.mean - a.mean
    mean = a.mean + delta * (b.count / safe)[:, None]
    m2 = a.m2 + b.m2 + delta**2 * (a.count * b.count / safe)[:, None]
    return ClassStatistics(count, mean, m2)


def remove(whole: ClassStatistics, part: ClassStatistics) -> ClassStatistics:
    """Statistics of ``whole`` without the examples of ``part``: the inverse of :func:`merge`.

    Examples
    --------
    >>> import numpy as np
    >>> one, many = np.array([1]), np.array([4])
    >>> whole = ClassStatistics(many, np.array([[3.0]]), np.array([[14.0]]))  # of 1, 2, 3, 6
    >>> remove(whole, ClassStatistics(one, np.array([[6.0]]), np.array([[0.0]]))).mean
    array([[2.]])
    """
    count = whole.count - part.count
    if np.any(count < 0):
        raise InputError(
            "Cannot remove more examples than there are",
            expected=f"at most {whole.count.tolist()} per class",
            got=f"{part.count.tolist()}",
        )
    safe = np.maximum(count, 1)
    delta = part.mean - whole.mean
    mean = whole.mean - delta * (part.count / safe)[:, None]
    m2 = whole.m2 - part.m2 - delta**2 * (part.count * whole.count / safe)[:, None]
    empty = (count == 0)[:, None]
    # A sum of squares cannot be negative: only rounding makes it so.
    return ClassStatistics(count, np.where(empty, 0.0, mean), np.where(empty, 0.0, m2).clip(0.0))


def class_moments(
    X: BlockedScans, codes: NDArray, n_classes: int, compute: Compute
) -> ClassStatistics:
    """Statistics of blocked scans (n, p) of classes 0 .. n_classes - 1.

    Parameters
    ----------
    X : BlockedScans
    codes : array of int, shape (n,)
        Class of each scan.
    n_classes : int
    compute : callable
        ``compute(values, codes, n_classes)`` gives count, mean and m2 of an array of scans.

    Returns
    -------
    ClassStatistics
        Not to be changed in place: later folds are made from it.
    """
    rows = all_rows(X)
    labels = np.full(X.origin.shape[0], -1)
    labels[rows] = codes
    drawn_once = np.count_nonzero(labels >= 0) == len(rows)
    if not drawn_once or 16 * n_classes * X.shape[1] > memory_limit() // KEPT_SHARE:
        return _read(X, codes, n_classes, compute)
    seen = _completed(X, labels, n_classes, compute)
    if seen is None:
        found = _read(X, codes, n_classes, compute)
        X.origin.seen = Seen(labels, found)
        return found
    X.origin.seen = seen
    surplus = np.flatnonzero((seen.labels >= 0) & (labels < 0))
    if not len(surplus):
        return seen.statistics
    left_out = BlockedScans(X.origin, surplus, X.dtype)
    rest = _joined(seen.statistics, left_out, seen.labels[surplus], compute, remove)
    return _mended(rest, seen.statistics, X, codes, compute)


def _completed(X: BlockedScans, labels: NDArray, n_classes: int, compute: Compute) -> Seen | None:
    """What was seen, with the scans that it lacks; None where reading X itself is less work."""
    seen: Seen | None = X.origin.seen
    if seen is None or len(seen.statistics.count) != n_classes:
        return None
    wanted, known = labels >= 0, seen.labels >= 0
    if np.any(labels[wanted & known] != seen.labels[wanted & known]):
        return None  # other labels: a relabelling, or classes that are numbered otherwise
    if np.count_nonzero(wanted != known) >= np.count_nonzero(wanted):
        return None
    lacking = np.flatnonzero(wanted & ~known)
    if not len(lacking):
        return seen
    new = BlockedScans(X.origin, lacking, X.dtype)
    found = _joined(seen.statistics, new, labels[lacking], compute, merge)
    return Seen(np.maximum(labels, seen.labels), found)


def _read(X: BlockedScans, codes: NDArray, n_classes: int, compute: Compute) -> ClassStatistics:
    """Statistics of all scans, by blocks of voxels."""
    mean, m2 = np.empty((2, n_classes, X.shape[1]))
    for block in voxel_blocks(*X.shape):
        _, mean[:, block], m2[:, block] = compute(X[:, block], codes, n_classes)
    return ClassStatistics(np.bincount(codes, minlength=n_classes), mean, m2)


def _joined(
    known: ClassStatistics, X: BlockedScans, codes: NDArray, compute: Compute, join: Callable
) -> ClassStatistics:
    """Known statistics, to which scans are joined, or from which they are taken."""
    mean, m2 = np.empty_like(known.mean), np.empty_like(known.m2)
    count = np.bincount(codes, minlength=len(mean))
    for block in voxel_blocks(*X.shape):
        _, *part = compute(X[:, block], codes, len(mean))
        joined = join(known.at(block), ClassStatistics(count, *part))
        mean[:, block], m2[:, block] = joined.mean, joined.m2
    return ClassStatistics(joined.count, mean, m2)


def _mended(
    rest: ClassStatistics, whole: ClassStatistics, X: BlockedScans, codes: NDArray, compute: Compute
) -> ClassStatistics:
    """Statistics after a removal; voxels that lost their digits by it are read again."""
    lost = np.zeros(X.shape[1], dtype=bool)
    for c, left in enumerate(rest.count):
        if left > 1:
            lost |= rest.m2[c] < LOST * whole.m2[c]
        elif left == 1:  # the scan is its own mean
            rest.mean[c], rest.m2[c] = X[int(np.flatnonzero(codes == c)[0])], 0.0
    voxels = np.flatnonzero(lost)
    for block in voxel_blocks(len(X), len(voxels)):
        at = voxels[block]
        _, rest.mean[:, at], rest.m2[:, at] = compute(X[:, at], codes, len(rest.mean))
    return rest
