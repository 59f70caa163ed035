"""Scans that are alike because of when or of whom they were taken, on both sides of a split.

Likeness is what is left of scans once the target is taken out: residuals of the class means (of the
straight line, where the target is a number), rows at length 1,

    K_ij = u_i · u_j,    u_i = residual_i / |residual_i|                                    (1)
    T(π) = Σ_k w_k K[π(a_k), π(b_k)]                                                        (2)

T is the mean likeness of chosen pairs (a_k, b_k): scans next to each other, or scans with one level
of a column. If order or column mean nothing, scans can be exchanged within their class, because
residuals of one class are related to each other but not to those of another; the share of exchanges
π with T(π) at least T is a p-value. Found is p ≤ .001 of 1,999 exchanges, and of course only where
enough test scans have such a partner in training.

* **Neighbours** are scans i and i + 1; where groups are given, of the same group. Where file names
  show that every scan is of another subject there are none: a list of people may be sorted by what
  they have in common.
* **Levels** are those of a column of the table, or of ``sub-``, ``ses-`` and ``run-`` in file names
  (a session is one of a subject, a run one of a session). Scans of the same group cannot straddle
  folds by group, so with groups only pairs of different ones count. Where a group has one level,
  whole groups are exchanged; else scans within class and group.
* Numbers with more than five values may be a quantity, such as age, in which scans of near values
  are alike too. A name has no near ones, so w is negative for pairs of adjacent values.
* Two levels, such as sex, cannot be left out one by one, and a column of which each group has every
  level is a factor of the design; both are left alone unless the column is called a subject,
  session or run.

Once more than one exchange reaches T, p cannot be .001 any more and no further ones are made.

| symbol | variable | shape |
|---|---|---|
| K | `K` | (n, n) |
| a, b, w | `pairs.a`, `pairs.b`, `pairs.w` | (P,) |
| π | `order` | (n,) |
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pandas as pd

from voxprior.errors import option
from voxprior.validation.audit.duplicates import comparable_rows, unit_rows
from voxprior.validation.audit.finding import Answer, NotChecked
from voxprior.validation.audit.folds import NO_FOLDS
from voxprior.validation.audit.scans import AuditedScans

EXCHANGES = 1999
LEVEL = 0.001
NEIGHBORS_MET = 0.3
LEVELS_MET = 0.2
MOST_PAIRS = 20_000
# Numbers with more values than this may be a quantity.
FEW_VALUES = 5
UNIT = re.compile(r"^(sub|subj|subject|participant|patient|person|ses|session|visit|run|block)"
                  r"([_ -]?(id|no|nr|number|code|label))?$", re.IGNORECASE)  # fmt: skip


class Pairs(NamedTuple):
    """Pairs of scans and what each counts in (2)."""

    a: np.ndarray
    b: np.ndarray
    w: np.ndarray


class Exchange(NamedTuple):
    """Similarities of units that can be exchanged within strata."""

    K: np.ndarray
    strata: np.ndarray


# --- the exchange test --------------------------------------------------------------------------


def likeness(rows: np.ndarray, y: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """K of (1), in float32; `codes` are classes, or all 0 where y are numbers."""
    counts = np.bincount(codes)
    sums = np.zeros((len(counts), rows.shape[1]))
    np.add.at(sums, codes, rows)
    residual = rows - (sums / counts[:, None])[codes]
    if len(counts) == 1:
        slope = y - y.mean()
        residual -= np.outer(slope, slope @ residual / max(slope @ slope, np.finfo(float).tiny))
    unit = unit_rows(residual).astype(np.float32)
    return unit @ unit.T


def exchange_p(exchange: Exchange, pairs: Pairs, seed: int = 0) -> float:
    """Share of exchanges with T at least that observed; a bound above .001 once it is passed."""
    rng, (K, strata) = np.random.default_rng(seed), exchange
    pairs = _at_most(pairs, MOST_PAIRS, rng)
    observed = (pairs.w * K[pairs.a, pairs.b]).sum()
    sorted_by_stratum = np.argsort(strata, kind="stable")
    reached = 1
    for done in range(EXCHANGES):
        shuffled = np.lexsort((rng.random(len(strata)), strata))
        order = np.empty(len(strata), dtype=int)
        order[sorted_by_stratum] = shuffled
        reached += (pairs.w * K[order[pairs.a], order[pairs.b]]).sum() >= observed - 1e-9
        if reached > LEVEL * (1 + EXCHANGES):
            return float(reached / (done + 2))
    return float(reached / (1 + EXCHANGES))


def _at_most(pairs: Pairs, most: int, rng: np.random.Generator) -> Pairs:
    """Take a random part of pairs of equal weight, drawn before anything about them is known."""
    kept = []
    for w in np.unique(pairs.w):
        members = np.flatnonzero(pairs.w == w)
        chosen = members if len(members) <= most else rng.choice(members, most, replace=False)
        kept.append((chosen, w * len(members) / len(chosen)))
    rows = np.concatenate([chosen for chosen, _ in kept])
    w = np.concatenate([np.full(len(chosen), w) for chosen, w in kept])
    return Pairs(pairs.a[rows], pairs.b[rows], w)


# --- neighbours in time ---------------------------------------------------------------------------


def serial_neighbors(scans: AuditedScans) -> Answer:
    """Scans next to each other are alike, and folds divide them."""
    if not scans.folds:
        return NO_FOLDS
    rows = comparable_rows(scans)
    if isinstance(rows, NotChecked):
        return rows
    if scans.each_of_another_subject:
        return NotChecked("every scan is of another subject, so that their order is no time")
    first = np.arange(len(rows) - 1)
    if scans.group_codes is not None:
        first = first[scans.group_codes[first] == scans.group_codes[first + 1]]
    share = _neighbors_met(first, len(rows), scans.judged_folds)
    if share <= NEIGHBORS_MET:
        return []
    pairs = Pairs(first, first + 1, np.full(len(first), 1 / len(first)))
    K = likeness(rows, scans.y, scans.codes)
    if exchange_p(Exchange(K, scans.codes), pairs) > LEVEL:
        return []
    return [
        f"Scans next to each other are more alike than others (p <= {LEVEL:g}), and {share:.0%} of "
        "test scans have a neighbour in training: their noise is shared, which flatters the "
        f"score. Give the runs as {option('groups')}, or folds of scans far apart."
    ]


def _neighbors_met(first: np.ndarray, n: int, folds: list) -> float:
    """Share of test scans that have a neighbour, i with i + 1 for i in `first`, in training."""
    met = total = 0
    for train, test in folds:
        training = np.zeros(n + 1, dtype=bool)
        training[train] = True
        near = np.zeros(n + 1, dtype=bool)
        near[first] |= training[first + 1]
        near[first + 1] |= training[first]
        met, total = met + near[test].sum(), total + len(test)
    return float(met / total)


# --- levels of columns ----------------------------------------------------------------------------


def column_straddles(scans: AuditedScans) -> Answer:
    """Scans with one level of a column are alike, and folds divide them."""
    if not scans.folds:
        return NO_FOLDS
    columns = {**scans.entities, **scans.columns}
    if not columns:
        return NotChecked("no table is given, and file names have no sub-, ses- or run-", True)
    rows = comparable_rows(scans)
    if isinstance(rows, NotChecked):
        return rows
    K, found = None, {}
    for name, values in columns.items():
        if name in scans.variables and not _is_unit(name):
            continue  # a covariate: other checks look at those
        level = level_codes(name, values, scans)
        share = 0.0 if level is None else scans.straddling(level)
        if level is None or share <= LEVELS_MET:
            continue
        K = likeness(rows, scans.y, scans.codes) if K is None else K
        if column_p(K, level, _is_quantity(name, values), scans) <= LEVEL:
            found[name] = share
    if not found:
        return []
    told = ", ".join(f"'{name}' ({share:.0%} of test scans)" for name, share in found.items())
    return [
        f"Scans with the same level of {told} are more alike than others (p <= {LEVEL:g}), and "
        "folds have the level in training and in test: the score is that of new scans of known "
        f"ones. Keep them together, {option('groups', next(iter(found)))}, or allow it if that is "
        "what you ask."
    ]


def level_codes(name: str, values, scans: AuditedScans) -> np.ndarray | None:
    """Levels as numbers; None for a column that cannot be kept together."""
    values = np.asarray(values)
    code, levels = pd.factorize(values, sort=values.dtype.kind in "fiu")
    # Missing values are a separate level, which has no neighbours.
    code = np.where(code < 0, 2 * (len(levels) + np.arange(len(code))), code)
    n_levels = len(levels)
    if n_levels < 2 or n_levels == len(code):
        return None
    if _is_unit(name):
        return code
    groups = scans.group_codes
    crossed = groups is not None and _is_factor(code, groups)
    return None if n_levels == 2 or crossed else code


def _is_factor(code: np.ndarray, groups: np.ndarray) -> bool:
    """Whether every group has every level."""
    cells = np.unique(np.column_stack([groups, code]), axis=0)
    return len(cells) == len(np.unique(groups)) * len(np.unique(code))


def _is_unit(name: str) -> bool:
    return name in ("sub-", "ses-", "run-") or bool(UNIT.match(str(name)))


def _is_quantity(name: str, values) -> bool:
    values = np.asarray(values)
    many = values.dtype.kind in "fiu" and len(np.unique(values)) > FEW_VALUES
    return bool(many and not _is_unit(name))


def column_p(K: np.ndarray, level: np.ndarray, quantity: bool, scans: AuditedScans) -> float:
    """p-value that scans of one level are no more alike than others."""
    exchange, level, apart = _exchangeable(K, level, scans)
    a, b = np.triu_indices(len(level), 1)
    different = apart[a] != apart[b]
    a, b = a[different], b[different]
    same = level[a] == level[b]
    if not same.any():
        return 1.0
    w = same / same.sum()
    if quantity:
        next_to = np.abs(level[a] - level[b]) == 1
        w = w - next_to / max(next_to.sum(), 1)
    counted = w != 0
    return exchange_p(exchange, Pairs(a[counted], b[counted], w[counted]))


def _exchangeable(K, level, scans: AuditedScans) -> tuple[Exchange, np.ndarray, np.ndarray]:
    """What is exchanged within what, its levels, and what two of a pair must differ in."""
    groups = scans.group_codes
    if groups is None:
        return Exchange(K, scans.codes), level, np.arange(len(level))
    first = np.unique(groups, return_index=True)[1]
    if np.any(level != level[first][groups]):
        within = np.unique(np.column_stack([scans.codes, groups]), axis=0, return_inverse=True)[1]
        return Exchange(K, within.ravel()), level, groups
    member = np.zeros((len(first), len(groups)), dtype=np.float32)
    member[groups, np.arange(len(groups))] = 1
    size = member.sum(axis=1)
    classes = np.eye(scans.codes.max() + 1)[scans.codes]
    composition = np.round(member @ classes / size[:, None], 6)
    strata = np.unique(composition, axis=0, return_inverse=True)[1].ravel()
    between = member @ K @ member.T / np.outer(size, size)
    return Exchange(between, strata), level[first], np.arange(len(first))
