"""Left-out folds of the training scans, always the same ones, and how many scans they count for.

Without groups, the j-th scan of class number c is left out in fold (j + r c) mod k of repeat r,
so that repeats pair the scans of the classes anew. Groups, runs or subjects, are left out whole:

    each has all classes, or there are fewer than 2C      group i in fold i mod min(G, 8)
    groups lie within classes                             j-th group of its class in fold j mod k

A fold whose training part lacks a class is dropped. Left-out scans count for n_eff scans:

    n         scans are free, or groups cross the classes
    n - G     scans were centred by group: of two scans of a group only one is free
    G         groups lie within classes: scans of a group are right or wrong together

Groups cross the classes if the shares of the classes in every group are those of all scans, up to
a total variation of .25.

| symbol | variable | shape |
|---|---|---|
| class of a scan | `codes` | (n,) |
| n_c, scans of a class | `counts` | (C,) |
| number of the group of a scan | `groups` | (n,) |
| n, C, G | `len(codes)`, `n_classes`, `n_groups` | scalars |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Design", "Folds", "design_of"]

MOST_FOLDS, MOST_GROUP_FOLDS = 5, 8
# Left out once with this many scans per class; several times with fewer.
ENOUGH = 10
MOST_REPEATS = 4
CROSSING = 0.25


# Training and test scans of each fold.
Folds = list[tuple[NDArray[np.intp], NDArray[np.intp]]]


class Design(NamedTuple):
    """Folds (train, test) of the training scans, what was left out, and n_eff."""

    folds: Folds
    unit: str
    n_effective: int
    why: str


def design_of(
    codes: NDArray, n_classes: int, groups: NDArray | None = None, centered: bool = False
) -> Design:
    """Folds and n_eff of training scans, from their class codes and group numbers.

    `centered` says that scans were centred by group.

    Examples
    --------
    >>> import numpy as np
    >>> design = design_of(np.array([0, 0, 1, 1]), 2)
    >>> [test.tolist() for _, test in design.folds], design.n_effective
    ([[0, 2], [1, 3], [0, 3], [1, 2]], 4)
    """
    labels = np.zeros((1, len(codes)), dtype=int)
    if groups is None:
        labels = _by_rank(codes, n_classes)
        worth, why, unit = len(codes), "", "scans of every class"
    else:
        table = np.zeros((int(groups.max()) + 1, n_classes))
        np.add.at(table, (groups, codes), 1)
        worth, why = _worth(table, centered)
        within = (table == 0).any() and len(table) >= 2 * n_classes
        labels = (_within_classes(table) if within else _group_folds(len(table)))[groups][None]
        unit = "groups"
    return Design(_usable(labels, codes, n_classes), unit, worth, why)


def _usable(labels: NDArray, codes: NDArray, n_classes: int) -> Folds:
    """Folds of every row of fold numbers whose training part has all classes."""
    folds = []
    for row in labels:
        for fold in range(int(row.max()) + 1):
            train, test = np.flatnonzero(row != fold), np.flatnonzero(row == fold)
            if len(test) and len(np.unique(codes[train])) == n_classes:
                folds.append((train, test))
    return folds


def _by_rank(codes: NDArray, n_classes: int) -> NDArray[np.intp]:
    """Fold numbers (repeats, n) of scans without groups."""
    fewest = int(np.bincount(codes, minlength=n_classes).min())
    k = min(fewest, MOST_FOLDS)
    repeats = 1 if fewest >= ENOUGH else 2 if k > MOST_REPEATS else min(k, MOST_REPEATS)
    rank = _ranks(codes)
    return np.array([(rank + r * codes) % k for r in range(repeats)])


def _ranks(codes: NDArray) -> NDArray[np.intp]:
    """Rank of each scan among those of its class, in order of appearance."""
    same = codes[:, None] == codes[None, :]
    return np.tril(same, -1).sum(axis=1)


def _group_folds(n_groups: int) -> NDArray[np.intp]:
    return np.arange(n_groups) % min(n_groups, MOST_GROUP_FOLDS)


def _within_classes(table: NDArray) -> NDArray[np.intp]:
    """Fold number of each group, by its rank among the groups of its majority class."""
    majority = table.argmax(axis=1)
    fewest = np.bincount(majority, minlength=table.shape[1])
    k = max(1, min(MOST_FOLDS, int(fewest.min())))
    return _ranks(majority) % k


def _worth(table: NDArray, centered: bool) -> tuple[int, str]:
    """n_eff and why it is not the number of scans, from the scans of groups by class (G, C)."""
    n, n_groups = int(table.sum()), len(table)
    if centered:
        return n - n_groups, f"scans were centred by {n_groups} groups"
    shares = table / table.sum(axis=1, keepdims=True)
    apart = 0.5 * np.abs(shares - table.sum(axis=0) / n).sum(axis=1)
    if apart.max() <= CROSSING or n == n_groups:
        return n, ""
    return n_groups, f"classes differ between groups, of which there are {n_groups}"
