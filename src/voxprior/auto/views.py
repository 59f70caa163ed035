"""Views of the same scans, and their inner products by passes over the voxels; no label is seen.

Scans are centred by the mean of the training scans and divided by one number u, the largest
deviation, so that squares neither overflow nor vanish. A view is a matrix A_v on voxels:

    raw       A = I
    z         A = diag(s),      s_j = 1 / √Ṽ_j,   Ṽ_j = (d V_j + 4 V̄) / (d + 4)
    smooth    A = S diag(s),    S_ij ∝ exp(-h_ij² / 2) for h_ij <= 1.8 voxels, rows sum to 1
    K_v = X A_v'A_v X'

V_j = Σ_i x_ij² / d is the variance of voxel j, moderated toward the mean V̄ of all that vary: with
few scans the variance of one voxel is mostly noise. d is n - 1, and n - G where scans were centred
by G groups. Voxels that do not vary have s_j = 0. With several time points S acts within each of
them. Any linear score in a view is one in voxels: with dual coefficients a its weights are
A_v'A_v X'a, so that no view is computed for a new scan.

Scans of any type are read by blocks of voxels and never copied whole; sums are float64.

| symbol | variable | shape |
|---|---|---|
| X, centred and in units of u | by `Voxels.read` | (n, some voxels) |
| mean, u | `mean`, `unit` | (p,), scalar |
| d, degrees of freedom of a variance | `degrees` | scalar |
| s | `scale` | (p,) |
| S | `smoother` | (V, V) sparse, or None |
| K_v | `grams[v]` | (n, n) |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from voxprior.auto.smoothing import neighborhood
from voxprior.blocks import BlockedScans, gram_matrix, voxel_blocks
from voxprior.blocks.sums import reading, shared_gram
from voxprior.blocks.threads import each_block, side_by_side, sum_over_blocks
from voxprior.errors import InputError
from voxprior.models.gaussian.gram import Cross, center_gram

__all__ = [
    "VIEWS",
    "Views",
    "Voxels",
    "combined",
    "crosses_of",
    "grams_of",
    "lifted",
    "refuse_infinite",
    "views_of",
]

VIEWS = ("raw", "z", "smooth")
# Number of scans that the mean variance of all voxels counts for, next to a voxel's own.
PRIOR_DEGREES = 4.0
# Voxels whose variance is below this share of the largest do not vary.
CONSTANT = 1e-12
# Deviations below this are none: what they are divided by must have an inverse.
SMALLEST = 1e-290
# Scans are centred by group where less than this share of their squares lies between groups.
CENTERED = 1e-6


class Voxels(NamedTuple):
    """What the training scans show of each voxel, and how it is smoothed over its neighbours."""

    mean: NDArray[np.float64]
    unit: float
    scale: NDArray[np.float64]
    smoother: csr_array | None = None

    def read(self, X: Any, columns: slice | NDArray) -> NDArray[np.float64]:
        """Some columns of scans, centred and in units, as float64."""
        return self.applied(X[:, columns], columns)

    def at(self, columns: slice) -> Voxels:
        """What is known of some columns, without their neighbours."""
        return Voxels(self.mean[columns], self.unit, self.scale[columns])

    def applied(self, values: NDArray, columns: slice | NDArray) -> NDArray[np.float64]:
        """Values of some columns, centred and in units, as float64."""
        centered = np.subtract(values, self.mean[columns], dtype=np.float64)
        centered /= self.unit
        return centered


class Views(NamedTuple):
    """Gram matrices (n, n) of the training scans by view, and what they were made with."""

    names: tuple[str, ...]
    grams: list[NDArray[np.float64]]
    voxels: Voxels
    centered: bool  # whether every group has the mean of all scans


def views_of(
    X: Any,
    groups: NDArray | None = None,
    smoother: csr_array | None = None,
    names: Sequence[str] = VIEWS,
) -> Views:
    """Views of training scans (n, p) of numbered groups: `smooth` only where there is a smoother.

    Examples
    --------
    >>> import numpy as np
    >>> views = views_of(np.array([[1.0, 0.0, 7.0], [3.0, 1.0, 7.0], [2.0, 5.0, 7.0]]))
    >>> views.names, views.grams[0].round(2).tolist()[0]
    (('raw', 'z'), [0.56, 0.11, -0.67])
    """
    n, p = X.shape
    voxels, squares, known = _unscaled(X, smoother), np.empty(p), _gram_of_all(X)

    def add(block: slice, total: NDArray) -> None:
        part = voxels.read(X, block)
        if known is None:
            total += part @ part.T
        squares[block] = np.einsum("ij,ij->j", part, part)

    with reading(X):
        (raw,) = sum_over_blocks(add, voxel_blocks(n, p), (n, n))
    if known is not None:
        raw = center_gram(known)[0] / voxels.unit**2
    centered = groups is not None and _is_centered(raw, groups)
    degrees = n - (int(groups.max()) + 1 if groups is not None and centered else 1)
    voxels = voxels._replace(scale=_inverse_deviations(squares, max(degrees, 1)))
    named = tuple(name for name in names if name != "smooth" or smoother is not None)
    scaled = [name for name in named if name != "raw"]
    grams = {"raw": raw} | dict(zip(scaled, grams_of(X, voxels, scaled)))
    return Views(named, [grams[name] for name in named], voxels, centered)


def _gram_of_all(X: Any) -> NDArray[np.float64] | None:
    """Inner products of blocked scans, from the one Gram matrix that serves all folds.

    None for arrays in memory, and for float64: its squares may overflow before they have a unit.
    """
    if not isinstance(X, BlockedScans) or X.dtype != np.float32 or shared_gram(X) is None:
        return None
    return gram_matrix(X)


def _unscaled(X: Any, smoother: csr_array | None) -> Voxels:
    """Mean and unit of training scans."""
    mean, reach = np.empty((2, X.shape[1]))

    def fill(block: slice) -> None:
        part = X[:, block]
        with np.errstate(over="ignore", invalid="ignore"):
            mean[block] = center = part.mean(axis=0, dtype=np.float64)
            reach[block] = np.maximum(part.max(axis=0) - center, center - part.min(axis=0))

    with reading(X):
        each_block(fill, voxel_blocks(*X.shape))
    unit = float(reach.max(initial=0.0))
    refuse_infinite(unit)
    return Voxels(mean, unit if unit > SMALLEST else 1.0, np.ones(len(mean)), smoother)


def refuse_infinite(numbers: Any) -> None:
    """Refuse scans that are too large to be computed with."""
    if not np.isfinite(numbers).all():
        raise InputError("X contains infinity or values too large to be squared")


def _is_centered(gram: NDArray, groups: NDArray) -> bool:
    """Whether next to nothing of the centred scans lies between groups."""
    Z = np.eye(int(groups.max()) + 1)[groups]
    between = np.einsum("ig,ij,jg->g", Z, gram, Z) / Z.sum(axis=0)
    return bool(between.sum() <= CENTERED * np.trace(gram))


def _inverse_deviations(squares: NDArray, degrees: int) -> NDArray[np.float64]:
    """S (p,) of sums of squares (p,); 0 for voxels that do not vary."""
    varies = squares > CONSTANT * squares.max()
    shared = squares[varies].sum() / max(varies.sum(), 1) / degrees
    moderated = (squares[varies] + PRIOR_DEGREES * shared) / (degrees + PRIOR_DEGREES)
    scale = np.zeros(len(squares))
    scale[varies] = moderated**-0.5
    return scale


# ---------------------------------------------------------------- inner products


def grams_of(X: Any, voxels: Voxels, views: Sequence[str]) -> list[NDArray[np.float64]]:
    """Inner products (n, n) of scans in some views; a block of voxels is read once for all.

    >>> voxels = Voxels(np.array([2.0, 5.0]), 1.0, np.ones(2))
    >>> grams_of(np.array([[1.0, 5.0], [3.0, 5.0]]), voxels, ["z"])
    [array([[ 1., -1.],
           [-1.,  1.]])]
    """

    def add(block: slice, *grams: NDArray) -> None:
        for part, gram in zip(_viewed(X, block, voxels, views), grams):
            gram += part @ part.T

    n = len(X)
    with reading(X):
        return sum_over_blocks(add, _blocks(n, voxels), *[(n, n)] * len(views)) if views else []


def crosses_of(X_new: Any, X: Any, voxels: Voxels, views: Sequence[str]) -> list[Cross]:
    """Inner products (n_new, n) of new scans with training scans, and with themselves, by view."""

    def add(block: slice, *totals: NDArray) -> None:
        known = zip(totals[::2], totals[1::2], _viewed(X_new, block, voxels, views))
        for (gram, norms, part), trained in zip(known, _viewed(X, block, voxels, views)):
            gram += part @ trained.T
            norms += np.einsum("ij,ij->i", part, part)

    n_new, n = len(X_new), len(X)
    shapes = [(n_new, n), (n_new,)] * len(views)
    with reading(X_new, X):
        totals = sum_over_blocks(add, _blocks(n + n_new, voxels), *shapes)
    return list(map(Cross, totals[::2], totals[1::2]))


def _viewed(X: Any, block: slice, voxels: Voxels, views: Sequence[str]) -> list[NDArray]:
    """Scans (n, block) in some views at a block of voxels of one time point."""
    if voxels.smoother is None or "smooth" not in views:
        raw = voxels.read(X, block)
        return [raw if view == "raw" else raw * voxels.scale[block] for view in views]
    rows, columns, inside = neighborhood(voxels.smoother, block)
    # The scans of a voxel lie side by side here, as the sparse product wants them.
    around = np.subtract(X[:, columns].T, voxels.mean[columns, None], dtype=float, order="C")
    found = {"raw": around[inside] / voxels.unit} if "raw" in views else {}
    around *= voxels.scale[columns, None] / voxels.unit
    found |= {"z": around[inside], "smooth": rows @ around}
    return [found[view].T for view in views]


def _blocks(n_rows: int, voxels: Voxels) -> Iterator[slice]:
    """Blocks of features; where voxels have neighbours, each of one time point."""
    n_features = len(voxels.mean)
    n_voxels = n_features if voxels.smoother is None else voxels.smoother.shape[0]
    for start in range(0, n_features, n_voxels):
        for block in voxel_blocks(n_rows, n_voxels):
            yield slice(start + block.start, start + block.stop)


# ---------------------------------------------------------------- back to voxels


def combined(X: Any, voxels: Voxels, rows: NDArray) -> NDArray[np.float64]:
    """Combinations `rows` (r, n) of the centred scans in units, (r, p)."""
    total = np.empty((len(rows), X.shape[1]))

    def fill(block: slice) -> None:
        total[:, block] = rows @ voxels.read(X, block)

    with reading(X):
        each_block(fill, voxel_blocks(*X.shape))
    return total


def lifted(view: str, rows: NDArray, voxels: Voxels) -> NDArray[np.float64]:
    """A_v'A_v applied to weights, rows (r, p), in place: what they are on centred voxels."""
    if view == "raw":
        return rows
    rows *= voxels.scale
    S = voxels.smoother
    if view == "smooth" and S is not None:
        n_times = rows.shape[1] // S.shape[0]  # not -1: there may be no row at all

        def smooth_twice(times: NDArray) -> None:
            times[:] = (S.T @ (S @ times.T)).T

        side_by_side(smooth_twice, rows.reshape(len(rows), n_times, S.shape[0]))
    rows *= voxels.scale
    return rows
