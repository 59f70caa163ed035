"""Which relabellings a map is tested against: how labels may be exchanged, and how far p can fall.

The unit of a map test is what may be exchanged: a scan, a block of volumes with one label, or a
whole subject. Scans of one unit are averaged, so that degrees of freedom count units, not volumes.
Labels move as `voxprior.validation.relabelling` says (free, within groups, whole groups). Maps
without labels, one per subject, are tested against zero by flipping the signs of whole subjects:

    N = 2^G sign flips of G subjects, of which the S = 2 that flip all or none give the same |t|

**Floor.** No p falls below S / N, the share of relabellings that give the same |t| in every voxel
as the true labels: five runs of one scan per class have N = 2^5 and floor 2/32, whatever the
number of relabellings. `enough` says with how many units the floor would reach a level.

| symbol | variable | shape |
|---|---|---|
| U, units; n, scans | `len(stratum)`, `len(unit)` | |
| y_b, relabelled targets, the true ones first | `targets[b]` | (1 + B, U) |
| N, S | `n_distinct`, `n_symmetric` | |

References
----------
Winkler, Ridgway, Webster, Smith & Nichols, "Permutation inference for the general linear model",
NeuroImage 92, 2014.
"""

from __future__ import annotations

from itertools import islice
from math import ceil, log
from typing import Any, NamedTuple

import numpy as np

from voxprior.errors import InputError, option
from voxprior.labels import check_two_classes
from voxprior.registry import kind_of
from voxprior.validation.relabel import (
    Relabelling,
    arrangements,
    every_relabelling,
    random_relabellings,
    relabelling,
    renamings,
)

__all__ = ["Exchange", "choose_exchange", "enough", "unit_means"]

SCHEMES = ("auto", "free", "within", "whole", "signs")
# All relabellings are used where there are at most this many times as many as were asked for.
ALL_UP_TO = 2
# More units than anybody would scan: then no number is named.
MOST_UNITS = 10_000


class Exchange(NamedTuple):
    """Relabellings of a design, and what they allow."""

    scheme: str  # "free", "within", "whole" or "signs"
    statement: str  # the scheme in words
    unit: np.ndarray  # (n,) unit of each scan
    stratum: np.ndarray  # (U,) labels move inside strata
    targets: np.ndarray  # (1 + B, U) codes of classes, numbers, or signs; the true ones first
    classes: tuple  # names of the classes; empty for numbers and signs
    n_distinct: int  # N
    n_symmetric: int  # S
    exact: bool  # whether `targets` are all N
    units: str  # what is exchanged, in words

    @property
    def smallest_p(self) -> float:
        """The smallest p that the design and the number of relabellings can give."""
        return max(1 / len(self.targets), self.n_symmetric / self.n_distinct)


def choose_exchange(
    y: Any,
    groups: Any = None,
    blocks: Any = None,
    *,
    n: int,
    scheme: str = "auto",
    n_permutations: int = 10_000,
    random_state: int = 0,
) -> Exchange:
    """Choose how labels may be exchanged, and draw the relabellings, or list them all.

    Parameters
    ----------
    y : array of shape (n,) or None
        Labels or numbers; None for maps that are tested against zero.
    groups, blocks : arrays of shape (n,) or None
        Runs or subjects; scans that carry one label together.
    n : int
        Number of scans.
    scheme : {"auto", "free", "within", "whole", "signs"}
        See `voxprior.validation.relabelling`; "signs" is for y=None and then the only one.
    n_permutations : int
        Relabellings to draw. Where the design has at most twice as many, all are used.
    random_state : int
        Seed.

    Examples
    --------
    >>> import numpy as np
    >>> found = choose_exchange(np.tile(["a", "b"], 5), np.repeat(range(5), 2), n=10)
    >>> found.scheme, len(found.targets), found.smallest_p
    ('within', 32, 0.0625)
    >>> choose_exchange(None, n=12).smallest_p
    0.00048828125
    """
    if scheme not in SCHEMES:
        raise InputError(
            f"{option('scheme', scheme)} is not known", expected=f"one of {', '.join(SCHEMES)}"
        )
    if isinstance(n_permutations, bool) or int(n_permutations) != n_permutations:
        raise InputError(f"{option('n_permutations', n_permutations)} is not a whole number")
    if n_permutations < 1:
        raise InputError(f"{option('n_permutations', n_permutations)} tests nothing")
    rng = np.random.default_rng(random_state)
    if y is None:
        return _sign_flips(groups, n, scheme, int(n_permutations), rng)
    if scheme == "signs":
        raise InputError(
            f"{option('scheme', scheme)} tests maps against zero, without labels",
            remedy="Give no labels (y=None), or another scheme",
        )
    return _label_exchange(np.asarray(y), groups, blocks, scheme, int(n_permutations), rng)


# ---------------------------------------------------------------- sign flips


def _sign_flips(groups, n: int, scheme: str, n_permutations: int, rng) -> Exchange:
    if scheme not in ("auto", "signs"):
        raise InputError(
            f"{option('scheme', scheme)} needs labels", remedy="Give labels, or no scheme"
        )
    unit = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1].ravel()
    U = int(unit.max()) + 1
    if U < 2:
        raise InputError(
            "Signs of one map cannot be flipped", expected="maps of 2 subjects or more", got="1"
        )
    exact = U < 63 and ALL_UP_TO * n_permutations >= 2**U
    if exact:
        bits = np.arange(2**U)[:, None] >> np.arange(U) & 1
    else:
        bits = np.vstack([np.zeros((1, U), int), rng.integers(0, 2, (n_permutations, U))])
    name = "maps" if groups is None else "groups"
    return Exchange(
        "signs",
        f"signs flipped of whole {name}",
        unit,
        np.zeros(U, int),
        (1 - 2 * bits).astype(np.int8),
        (),
        2**U,
        2,
        exact,
        name,
    )


# ---------------------------------------------------------------- labels


def _label_exchange(y, groups, blocks, scheme, n_permutations: int, rng) -> Exchange:
    numbers = kind_of(y) == "regressor"
    values = np.unique(y)
    check_two_classes(values)
    _refuse_nested(y, groups, scheme)
    structure = relabelling(y, groups, blocks, scheme=scheme, symmetric=not numbers)
    if structure.n_distinct == 1:
        raise InputError(
            "No labels can be exchanged",
            expected="groups that hold several labels, or several groups of each label",
            got=f"one arrangement, with {structure.statement}",
        )
    exact = structure.n_distinct <= ALL_UP_TO * n_permutations
    if exact:
        codes = np.array(list(islice(every_relabelling(structure), structure.n_distinct)))
    else:
        codes = random_relabellings(structure, n_permutations, rng)
        codes = np.vstack([structure.code[None], codes])
    return Exchange(
        structure.scheme,
        structure.statement,
        structure.unit,
        structure.stratum,
        values[codes].astype(float) if numbers else codes,
        () if numbers else tuple(values.tolist()),
        structure.n_distinct,
        _mirrored(values[structure.code], structure.stratum) if numbers else structure.n_symmetric,
        exact,
        _units(structure, blocks),
    )


def _mirrored(numbers: np.ndarray, stratum: np.ndarray) -> int:
    """S of numbers: 2 where some exchange turns all signs about the strata's means, else 1."""
    for s in np.unique(stratum):
        centered = np.sort(numbers[stratum == s] - np.mean(numbers[stratum == s]))
        if not np.allclose(centered, -centered[::-1], rtol=1e-9, atol=1e-12 * np.ptp(numbers)):
            return 1
    return 2


def _units(structure: Relabelling, blocks: Any) -> str:
    if structure.scheme == "whole":
        return "groups"
    return "scans" if blocks is None else "blocks"


def _refuse_nested(y: np.ndarray, groups: Any, scheme: str) -> None:
    """Refuse to exchange scans freely that share a group and its label: they are not exchangeable.

    Whatever the group's scans have in common would be taken for the label.
    """
    if scheme != "free" or groups is None:
        return
    group = np.unique(groups, return_inverse=True)[1].ravel()
    for g in range(group.max() + 1):
        held = y[group == g]
        if len(held) > 1 and len(np.unique(held)) == 1:
            raise InputError(
                f"{option('scheme', 'free')} cannot be used: labels are nested in groups",
                expected="groups that hold several labels each",
                got=f"{len(held)} scans of one label in a group",
                remedy=f"Exchange whole groups or within groups: {option('scheme', 'auto')}",
            )


# ---------------------------------------------------------------- units and floors


def unit_means(values: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Average the rows of each unit: (n, ...) to (U, ...).

    >>> unit_means(np.array([[1.0], [3.0], [5.0]]), np.array([0, 0, 1]))
    array([[2.],
           [5.]])
    """
    if np.array_equal(unit, np.arange(len(values))):
        return values
    sums = np.zeros((int(unit.max()) + 1, *values.shape[1:]))
    for row, u in zip(values, unit):
        sums[u] += row
    counts = np.bincount(unit).reshape(-1, *[1] * (values.ndim - 1))
    return sums / counts


def enough(exchange: Exchange, level: float) -> int | None:
    """Count the units (groups; scans per class without groups) at which the floor reaches a level.

    Further units are taken to be like those there are: groups that hold as much as the present
    ones on average, or one more unit of each class at a time. None where no number is enough.

    Examples
    --------
    >>> five = choose_exchange(np.tile(["a", "b"], 5), np.repeat(range(5), 2), n=10)
    >>> enough(five, 0.05)
    6
    """
    if exchange.scheme in ("within", "signs"):
        groups = exchange.targets.shape[1]
        if exchange.scheme == "within":
            groups = int(exchange.stratum.max()) + 1
        gain = log(exchange.n_distinct) / groups
        return ceil(log(exchange.n_symmetric / level) / gain - 1e-9)
    counts = np.unique(exchange.targets[0], return_counts=True)[1]
    numbers = not exchange.classes
    while counts.sum() < MOST_UNITS:
        alike = 1 if numbers else renamings(counts[None])
        if alike <= level * arrangements(counts):
            return int(counts.sum())
        counts = counts + 1
    return None
