"""Variables that go along with the target: groups, covariates, and the other columns of a table.

Covariates and columns are tested together, see `association`, so that a table with many columns is
not warned of one that goes along by chance. What names a scan, a file or a person is not tested.
Regressing out what names the scans would remove all of their signal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from voxprior.errors import option
from voxprior.images.tables import FILE_KEYS, SUBJECT
from voxprior.validation.audit.association import (
    FEW_VALUES,
    Column,
    adjusted_p,
    as_series,
    columns_by_row,
    rank_correlation,
    rows_of,
)
from voxprior.validation.audit.finding import Answer, NotChecked
from voxprior.validation.audit.scans import AuditedScans

NO_COVARIATES = NotChecked("no covariates are given")
# Of the finding in all, and the part of it that groups take where they cross the classes.
LEVEL, GROUPS_LEVEL = 0.05, 0.01
# Of more classes, medians are not listed.
MOST_LISTED = 4


def identifier_covariate(scans: AuditedScans) -> Answer:
    """A covariate in words has another level for every scan."""
    if not scans.variables:
        return NO_COVARIATES
    return [
        f"'{name}' has another level for each of the {len(scans.y)} scans: it names them, and "
        "regressing it out leaves nothing of the images. Leave it out, or take the variable that "
        "was meant."
        for name, values in scans.variables.items()
        if _is_identifier(np.asarray(values))
    ]


class Followed(NamedTuple):
    """A column, the target in the same rows, and the p-value that they are unrelated."""

    column: Column
    y: pd.Series
    p: float


def labels_confounded(scans: AuditedScans) -> Answer:
    """The target goes along with the groups, a covariate or a column of the table."""
    by_groups = scans.groups is not None and scans.classifying
    known = tested_columns(scans)
    if not by_groups and not known:
        return NotChecked(
            "no groups of classes, no covariates and no table are given", askable=True
        )
    found = _confounded_groups(scans.y, scans.groups) if by_groups else []
    crossed = by_groups and not _mostly_of_one_class(_counts(scans.y, scans.groups))
    level = LEVEL - GROUPS_LEVEL if crossed else LEVEL
    followed = [(name, one) for name, one in _followed(scans, known) if one.p < level]
    return found + [f"{_how(name, one, scans)}{_consequence(name, one, scans)}"
                    for name, one in sorted(followed, key=lambda pair: pair[1].p)]  # fmt: skip


def tested_columns(scans: AuditedScans) -> dict[str, pd.Series]:
    """Covariates, and columns that name no scan and are neither the groups nor the target."""
    found = {name: as_series(values) for name, values in scans.variables.items()}
    for name, values in scans.columns.items():
        series = as_series(values)
        if name not in found and not _is_known(series, scans) and not _is_name(name):
            found[name] = series
    return {name: v for name, v in found.items() if not _numbers_scans(v, scans.names)}


def _is_name(name: str) -> bool:
    return bool(SUBJECT.fullmatch(str(name))) or str(name).casefold() in (*FILE_KEYS, "volume")


def _is_known(values: pd.Series, scans: AuditedScans) -> bool:
    """Whether a column is that of the groups or of the target: few numbers can agree by chance."""
    known = [scans.y] if scans.groups is None else [scans.y, scans.groups]
    many = values.dtype.kind not in "biuf" or values.nunique() > FEW_VALUES
    return any((many or other is not scans.y) and np.array_equal(values, other) for other in known)


def _numbers_scans(values: pd.Series, names) -> bool:
    """Whether values are all different words, consecutive numbers, or parts of the names."""
    kinds = values.nunique()
    if kinds == len(values):
        whole = values.dtype.kind in "iu" and values.max() - values.min() == len(values) - 1
        if whole or values.dtype.kind not in "iuf":
            return True
    named = bool(names) and 2 * kinds > len(values)
    return named and all(str(value) in name for value, name in zip(values, names))


def _followed(scans: AuditedScans, known: dict[str, pd.Series]) -> list[tuple[str, Followed]]:
    """Every column, and the missing values of those that lack some, with its p-value."""
    rows = rows_of(scans.y, scans.groups)
    y = pd.Series(scans.y)[rows.of_scan >= 0]
    first = np.unique(rows.of_scan[rows.of_scan >= 0], return_index=True)[1]
    y = y.iloc[first].reset_index(drop=True)
    columns = {
        (name, column.missing): column
        for name, values in known.items()
        for column in columns_by_row(values, rows)
    }
    p = adjusted_p(y, scans.classifying, columns, rows.stratum)
    return [(key[0], Followed(column, y, p[key])) for key, column in columns.items()]


def _how(name: str, one: Followed, scans: AuditedScans) -> str:
    """How strongly a column goes along with the target."""
    called = f"Whether '{name}' is missing" if one.column.missing else f"'{name}'"
    if _is_exact(one, scans.classifying):
        return f"{called} follows the label exactly: "
    strength = ""
    values, y = one.column.values, one.y
    if scans.classifying and one.column.quantity:
        if y.nunique() <= MOST_LISTED:
            medians = values.groupby(y).median()
            strength = ", ".join(f"{m:.3g} for {label}" for label, m in medians.items())
            strength = f"median {strength}; "
    elif scans.classifying:
        table = pd.crosstab(values.astype(str), y).to_numpy()
        right, most = table.max(axis=1).sum() / len(y), table.sum(axis=0).max() / len(y)
        strength = f"alone it guesses {right:.0%} right, chance is {most:.0%}; "
    elif one.column.quantity:
        strength = f"rank correlation {rank_correlation(values, y):.2f}; "
    return f"{called} goes along with the label ({strength}p = {one.p:.2g}): "


def _is_exact(one: Followed, classifying: bool) -> bool:
    """Whether the column leaves no doubt about the target."""
    values, y = one.column.values, one.y
    if not one.column.quantity:
        return bool((y.groupby(values.astype(str)).nunique() == 1).all())
    if not classifying:
        return abs(rank_correlation(values, y)) > 1 - 1e-9
    if values.isna().any():
        return False
    ends = values.groupby(y).agg(["min", "max"]).sort_values("min")
    return bool((ends["max"].to_numpy()[:-1] < ends["min"].to_numpy()[1:]).all())


def _consequence(name: str, one: Followed, scans: AuditedScans) -> str:
    """What a column does that goes along with the target."""
    exact = _is_exact(one, scans.classifying)
    if name in scans.variables and scans.regresses:
        if exact:
            return (
                "regressing it out takes all that images could tell, and a score without it is "
                f"that of '{name}'. Take scans with '{name}' balanced."
            )
        return (
            f"regressing '{name}' out takes what the labels share with it too, so that the score "
            "is of the rest. Balance it."
        )
    if exact:
        return (
            "the score cannot tell them apart. Take scans in which it is balanced; allow the "
            "finding if it is the label in other words."
        )
    if one.column.missing:
        return "those who lack it may differ in more. Find out why it is missing."
    levels = "" if one.column.quantity else "hold its levels out one at a time, "
    return (
        f"the decoder may read '{name}' instead. Balance it, {levels}or regress it out in the "
        f"fold, {option('covariates', name)}."
    )


def _confounded_groups(y, groups) -> list[str]:
    """Runs should hold all classes alike; groups of one class, as subjects are, must be many."""
    table = _counts(y, groups)
    if _mostly_of_one_class(table):
        fewest = int((table > 0).sum(axis=0).min())
        if fewest >= 3:
            return []
        return [
            f"Groups are of one class each, and some class has only {fewest} groups: the class "
            "cannot be separated from its groups. Take more groups, or groups with all classes."
        ]
    if stats.chi2_contingency(table)[1] >= GROUPS_LEVEL:
        return []
    return [
        "Classes are not alike over the groups (chi-square p < .01): the decoder may read the "
        "run instead. Balance classes in each run."
    ]


def _mostly_of_one_class(table: np.ndarray) -> bool:
    """Whether most groups hold one class, from scans by group and class."""
    return bool(((table > 0).sum(axis=1) == 1).mean() > 0.5)


def _is_identifier(values: np.ndarray) -> bool:
    """Whether words are all different; numbers are regressed out as one column."""
    return values.dtype.kind not in "fiu" and len({*values.tolist()}) == len(values)


def _counts(a, b) -> np.ndarray:
    """Contingency table, (values of b, values of a)."""
    rows, row = np.unique(b, return_inverse=True)
    columns, column = np.unique(a, return_inverse=True)
    table = np.zeros((len(rows), len(columns)))
    np.add.at(table, (row, column), 1)
    return table
