"""Classes of unequal spread: what a test by relabelling takes for a difference of means.

Labels are exchanged as if classes did not differ at all, so a class that only spreads more is found
too. Two things are done about it.

**A check.** With e the scans without nuisance and without the means of their classes, h_u the
leverage of scan u, and σ²_v the mean square of voxel v, the energy of a scan is

    q_u = mean over v of  e²_uv / (σ²_v (1 − h_u))                                          (1)

and T = max_c log mean_{u in c} q_u − min_c of the same. Its p is the share of relabellings that
reach T: exchanged energies, not exchanged scans.

**Welch's t** does not pool the variances of two classes. With sums s and sums of squares q over the
scans that a relabelling puts into class 1 (and what is left in class 0), all by two products,

    t_W = (s₁/n₁ − s₀/n₀) / sqrt(v₁/n₁ + v₀/n₀),   v_c = (q_c − s_c²/n_c) / (n_c − 1)        (2)

Relabelled, it holds the level for means where both classes have `ENOUGH` scans; with fewer, the
variance of the smaller one is too unsure.

| symbol | variable | shape |
|---|---|---|
| scans without nuisance, each voxel of length one | `rows` | (U, V) |
| class 1 of every relabelling | `ones` | (U, B) |

Reference: A. Janssen, "Studentized permutation tests for non-i.i.d. hypotheses and the generalized
Behrens-Fisher problem", Statistics & Probability Letters 36, 1997.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxprior.errors import InputError, option
from voxprior.mapping.design import Design
from voxprior.mapping.exchange import Exchange
from voxprior.mapping.product import RELABELLINGS, ROUNDING, SLACK, VOXELS, Maxima

__all__ = ["ENOUGH", "refuse_welch", "spread_note", "welch_fits", "welch_maxima", "welch_t"]

# Scans, or whole groups, of the smaller class from which on variances need not be pooled.
ENOUGH = 20
# Of a class with fewer scans, nothing is known of its spread.
FEWEST = 3
# Relabellings of the check, and the p at which it warns.
LOOKED_AT, LEVEL = 1000, 0.05
# Share of a voxel's sum of squares below which what classes leave of it is rounding.
PERFECT = 1e-6


def welch_fits(exchange: Exchange) -> bool:
    """Whether two classes of enough units each are exchanged in one stratum."""
    if len(exchange.classes) != 2 or exchange.stratum.any():
        return False
    return bool(np.bincount(exchange.targets[0], minlength=2).min() >= ENOUGH)


def refuse_welch(exchange: Exchange) -> None:
    """Refuse a test by Welch's t where it would not hold the level."""
    if welch_fits(exchange):
        return
    counts: Any = np.bincount(exchange.targets[0]) if exchange.classes else []
    raise InputError(
        f"{option('statistic', 'welch')} does not fit these scans",
        expected=f"two classes of {ENOUGH} {exchange.units} or more, not exchanged within groups",
        got=", ".join(f"{n} of {label!r}" for label, n in zip(exchange.classes, counts)) or None,
        remedy=f"Take {option('statistic', 'auto')}",
    )


def spread_note(
    rows: NDArray, columns: NDArray, exchange: Exchange, design: Design, unpooled: bool
) -> str:
    """Report that the spread of classes differs, by (1); empty where it does not, or none are.

    Parameters
    ----------
    rows : array of shape (U, V)
        Scans without nuisance.
    columns : array of shape (U, k)
        Of the true labels, orthonormal and without nuisance.
    exchange, design : Exchange and Design
        How labels are exchanged, and what was removed.
    unpooled : bool
        Whether the statistic allows for unequal spread.
    """
    if not exchange.classes or np.bincount(exchange.targets[0]).min() < FEWEST:
        return ""
    energy = _energies(rows, columns, design)
    labels = exchange.targets[: 1 + LOOKED_AT]
    per_class = np.array(
        [[energy[one == c].mean() for c in range(len(exchange.classes))] for one in labels]
    )
    logs = np.log(np.maximum(per_class, 1e-300))
    T = logs.max(axis=1) - logs.min(axis=1)
    p = float((1 + np.sum(T[1:] >= T[0] * (1 - SLACK))) / len(T))
    if p > LEVEL:
        return ""
    wide, narrow = (exchange.classes[int(place)] for place in (logs[0].argmax(), logs[0].argmin()))
    text = (
        f"Maps of {wide!r} spread more than those of {narrow!r}: their variance is "
        f"{np.exp(T[0]):.2g} times as large (p = {p:.2g} by relabelling)."
    )
    if unpooled:
        return f"{text} Welch's t allows for that."
    return f"{text} A voxel may be significant for its spread alone."


def _energies(rows: NDArray, columns: NDArray, design: Design) -> NDArray:
    """(1) of every unit."""
    sums = np.zeros(len(rows))
    left = 1 - (design.Q**2).sum(axis=1) - (columns**2).sum(axis=1)
    for start in range(0, rows.shape[1], VOXELS):
        block = rows[:, start : start + VOXELS].astype(np.float64)
        e2 = (block - columns @ (columns.T @ block)) ** 2
        size = e2.mean(axis=0)
        sums += (e2[:, size > 0] / size[size > 0]).sum(axis=1)
    return sums / np.maximum(left, 1e-9)


def welch_t(rows: NDArray, ones: NDArray) -> NDArray:
    """(2) of voxels (U, V) of length one, or of zeros, for every relabelling: (V, B)."""
    n1, n0 = ones[:, 0].sum(), (1 - ones[:, 0]).sum()
    s1, q1 = rows.T @ ones, (rows * rows).T @ ones
    s0, q0 = rows.sum(axis=0)[:, None] - s1, (rows * rows).sum(axis=0)[:, None] - q1
    v1, v0 = (q1 - s1**2 / n1) / (n1 - 1), (q0 - s0**2 / n0) / (n0 - 1)
    variance = np.maximum(v1 / n1 + v0 / n0, PERFECT / len(rows) ** 2)
    return (s1 / n1 - s0 / n0) / np.sqrt(variance)


def welch_maxima(
    rows: NDArray, targets: NDArray, advance: Callable[[int], None] = lambda done: None
) -> tuple[NDArray, Maxima]:
    """T of the true labels (V,), the largest t² of every relabelling, and counts per voxel."""
    V, n_maps = rows.shape[1], len(targets)
    observed = np.concatenate(
        [
            welch_t(rows[:, start : start + VOXELS].astype(np.float64), _ones(targets[:1]))[:, 0]
            for start in range(0, V, VOXELS)
        ]
    )
    largest, counts = np.zeros(n_maps), np.zeros(V, dtype=np.int64)
    reached = np.maximum(np.abs(observed) * (1 - SLACK) - ROUNDING, 0.0)
    largest[0] = (observed**2).max()
    for start in range(1, n_maps, RELABELLINGS):
        ones = _ones(targets[start : start + RELABELLINGS]).astype(np.float32)
        stop = start + ones.shape[1]
        for first in range(0, V, VOXELS):
            here = slice(first, first + VOXELS)
            t = np.abs(welch_t(rows[:, here], ones))
            np.maximum(largest[start:stop], t.max(axis=0) ** 2, out=largest[start:stop])
            counts[here] += (t >= reached[here, None]).sum(axis=1)
        advance(stop - start)
    return observed, Maxima(largest, counts)


def _ones(targets: NDArray) -> NDArray:
    """Class 1 of relabelled codes (B, U) as numbers (U, B)."""
    return np.asarray(targets, dtype=np.float64).T
