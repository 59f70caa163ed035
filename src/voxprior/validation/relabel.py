"""Relabellings: which exchanges of labels a design allows, and how many there are.

A permutation test may exchange labels only where they are exchangeable. *Blocks* are scans that
carry one label together (volumes of one stimulus block); *groups* are runs or subjects.

* **free**, no groups: block labels are exchanged among all blocks;
* **within**, groups hold several labels (conditions in runs): exchanged inside each group;
* **whole**, every group holds one label (a subject's diagnosis): exchanged among groups;
* **folds**, no groups, and labels decide the folds (stratified ones): exchanged inside each fold.
  Where labels mean nothing, scans are exchangeable with labels and folds held, so the scans of a
  fold are exchangeable too: the folds stay, and what they learn of the scans is learned once.

Labels move inside *strata* (everything; a group each; everything; a fold each) of *units* (blocks;
blocks; groups; scans). With m_sc units of label c in stratum s there are

    N = Π_s (m_s! / Π_c m_sc!)                                                             (1)

distinct relabellings. Renaming the classes by a permutation σ with m_sσ(c) = m_sc in every stratum
turns a relabelling into another one that a decoder which treats classes alike scores the same. With
S such renamings, at least S relabellings score as high as the true one:

    smallest attainable p = S / N                                                           (2)

Five runs of one scan per condition have N = 32, S = 2, and cannot give p below 1/16.

References
----------
Winkler, Webster, Vidaurre, Nichols & Smith, "Multi-level block permutation", NeuroImage 123, 2015.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from math import factorial, prod
from typing import NamedTuple

import numpy as np

from voxprior.errors import InputError, option

WORDS = {
    "free": "labels exchanged among all {unit}",
    "within": "labels exchanged among {unit} within each group",
    "whole": "labels exchanged among whole groups",
}
FOLDS = "labels exchanged among scans within each fold"


class Relabelling(NamedTuple):
    """How labels may be exchanged."""

    scheme: str  # "free", "within", "whole" or "folds"
    statement: str  # the scheme in words
    unit: np.ndarray  # (n,) unit of each scan
    code: np.ndarray  # (U,) label of each unit
    stratum: np.ndarray  # (U,) stratum of each unit
    n_labels: int
    n_distinct: int  # N of (1)
    n_symmetric: int  # S of (2)

    def labels(self, unit_codes: np.ndarray) -> np.ndarray:
        """Label codes of the scans from those of the units."""
        return unit_codes[self.unit]


def relabelling(y, groups=None, blocks=None, *, scheme="auto", symmetric=True) -> Relabelling:
    """Choose how labels may be exchanged, from the data or as asked.

    Parameters
    ----------
    y : array of shape (n,)
        Labels or targets.
    groups : array of shape (n,) or None
        Runs or subjects.
    blocks : array of shape (n,) or None
        Scans with the same block (of the same group) carry one label and move together; None:
        every scan for itself.
    scheme : {"auto", "free", "within", "whole"}
        "auto": "whole" where every group holds one label, "within" where some hold several, "free"
        without groups.
    symmetric : bool
        Whether classes can be renamed without changing a score; False for regression.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.validation import relabelling
    >>> found = relabelling(np.tile(["face", "house"], 5), groups=np.repeat(range(5), 2))
    >>> found.scheme, found.n_distinct, found.n_symmetric
    ('within', 32, 2)
    """
    code = np.unique(np.asarray(y), return_inverse=True)[1]
    n = len(code)
    group = np.zeros(n, dtype=int)
    if groups is not None:
        group = np.unique(np.asarray(groups), return_inverse=True)[1]
    block = _blocks(code, group, blocks)
    scheme = _choose(scheme, code, group, groups is not None)
    unit = group if scheme == "whole" else block
    first = np.unique(unit, return_index=True)[1]
    stratum = group[first] if scheme == "within" else np.zeros(len(first), dtype=int)
    table = _table(code[first], stratum, code.max() + 1)
    name = "scans" if blocks is None else "blocks"
    return Relabelling(
        scheme,
        WORDS[scheme].format(unit=name),
        unit,
        code[first],
        stratum,
        int(code.max()) + 1,
        prod(arrangements(row) for row in table),
        renamings(table) if symmetric else 1,
    )


def within_folds(y, folds, *, symmetric=True) -> Relabelling | None:
    """Exchange labels inside the test sets of folds; None where these do not part the scans.

    >>> halves = [(np.array([2, 3]), np.array([0, 1])), (np.array([0, 1]), np.array([2, 3]))]
    >>> within_folds(["a", "b", "a", "b"], halves).n_distinct
    4
    """
    fold = np.full(len(y), -1)
    for number, (train, test) in enumerate(folds):
        if np.any(fold[test] >= 0) or len(train) + len(test) != len(y):
            return None
        fold[test] = number
    if np.any(fold < 0):
        return None
    found = relabelling(y, fold, scheme="within", symmetric=symmetric)
    return found._replace(scheme="folds", statement=FOLDS)


def _blocks(code, group, blocks) -> np.ndarray:
    if blocks is None:
        return np.arange(len(code))
    pair = np.stack([group, np.unique(np.asarray(blocks), return_inverse=True)[1]])
    block = np.unique(pair, axis=1, return_inverse=True)[1].ravel()
    for b in range(block.max() + 1):
        if len(np.unique(code[block == b])) > 1:
            raise InputError(
                f"{option('blocks')} cannot be used",
                expected="blocks of one label each",
                got="a block with several",
            )
    return block


def _choose(scheme, code, group, grouped: bool) -> str:
    if scheme not in ("auto", *WORDS):
        raise InputError(
            f"{option('scheme', scheme)} is not known",
            expected=f"one of {', '.join(('auto', *WORDS))}",
        )
    if scheme != "free" and not grouped:
        if scheme != "auto":
            raise InputError(f"{option('scheme', scheme)} needs {option('groups')}")
        return "free"
    held = [len(np.unique(code[group == g])) for g in range(group.max() + 1)]
    if scheme == "whole" and max(held) > 1:
        raise InputError(
            f"{option('scheme', scheme)} cannot be used",
            expected="one label per group",
            got="groups with several",
        )
    if scheme != "auto":
        return scheme
    return "whole" if max(held) == 1 else "within"


def _table(code, stratum, n_labels) -> np.ndarray:
    """m_sc: units by stratum and label."""
    table = np.zeros((stratum.max() + 1, n_labels), dtype=int)
    np.add.at(table, (stratum, code), 1)
    return table


def arrangements(counts) -> int:
    """How many orders a multiset has, by the counts of its values."""
    return factorial(int(sum(counts))) // prod(factorial(int(m)) for m in counts)


def renamings(table: np.ndarray) -> int:
    """S: renamings of the classes that keep every count; classes with equal columns are alike."""
    _, sizes = np.unique(table, axis=1, return_counts=True)
    return prod(factorial(int(size)) for size in sizes)


def every_relabelling(structure: Relabelling) -> Iterator[np.ndarray]:
    """All N distinct unit codes, the true one first."""
    strata = [np.flatnonzero(structure.stratum == s) for s in np.unique(structure.stratum)]
    yield structure.code
    for parts in product(*(_orders(structure.code[units]) for units in strata)):
        codes = structure.code.copy()
        for units, part in zip(strata, parts):
            codes[units] = part
        if not np.array_equal(codes, structure.code):
            yield codes


def _orders(codes: np.ndarray) -> list[tuple[int, ...]]:
    """Distinct orders of a multiset, smallest first."""
    values, counts = np.unique(codes, return_counts=True)
    if len(codes) <= 6:
        return sorted(set(permutations(codes.tolist())))
    found: list[tuple[int, ...]] = []

    def extend(prefix: list[int], left: list[int]) -> None:
        if len(prefix) == len(codes):
            found.append(tuple(prefix))
            return
        for k, value in enumerate(values.tolist()):
            if left[k]:
                remaining = left.copy()
                remaining[k] -= 1
                extend([*prefix, value], remaining)

    extend([], counts.tolist())
    return found


def random_relabelling(structure: Relabelling, rng: np.random.Generator) -> np.ndarray:
    """Draw one of the N relabellings, all equally likely (the true one too)."""
    codes = structure.code.copy()
    for s in np.unique(structure.stratum):
        units = np.flatnonzero(structure.stratum == s)
        codes[units] = rng.permutation(codes[units])
    return codes


def random_relabellings(structure: Relabelling, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw n relabellings at once, (n, U), each as `random_relabelling` draws one."""
    codes = np.tile(structure.code, (n, 1))
    for s in np.unique(structure.stratum):
        units = np.flatnonzero(structure.stratum == s)
        codes[:, units] = rng.permuted(codes[:, units], axis=1)
    return codes
