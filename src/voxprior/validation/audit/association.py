"""Whether columns of a table go along with the target: one permutation test for all of them [1]_.

The target and every column are written as matrices with centred columns: one per level, divided by
the root of its count, for words; ranks of length 1 for numbers. With Y that of the target and Z_j
that of column j, n rows,

    T_j = (n - 1) |Z_j' Y|²                                                                 (1)

is the chi-square of a table of counts (words by words, times (n - 1) / n), Kruskal and Wallis's H
(words by numbers) or n - 1 times Spearman's correlation squared (numbers by numbers). All become
comparable as tails P_j of the chi-square distribution with their degrees of freedom, and

    p_j = (1 + #{b : min_k P_k(π_b) <= P_j}) / (1 + B)                                      (2)

over B exchanges π of the target is valid for any number of scans, and corrected for the number of
columns. Labels are exchanged within groups that hold several; where most groups hold one label, one
row stands for each of these. A missing word is a separate level. A missing number counts as an
average one, and whether it is missing is a further column.

| symbol | variable | shape |
|---|---|---|
| Z_j side by side | `Z` | (n, L) |
| Y | `Y` | (n, K) |
| T_j, degrees of freedom | `T`, `df` | (m,) |

References
----------
.. [1] Westfall & Young, "Resampling-based multiple testing", 1993.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import special, stats

EXCHANGES, AT_ONCE = 1999, 250
# Numbers with more values than this are a quantity, others are levels.
FEW_VALUES = 5
# Further levels of a column, the rarest, count as one.
MOST_LEVELS = 50
# A tail above this cannot become a finding by exchanges.
HOPELESS = 0.2


class Column(NamedTuple):
    """One thing known of each row: words or numbers, or whether a value is missing."""

    values: pd.Series
    missing: bool

    @property
    def quantity(self) -> bool:
        """Whether it holds numbers that have an order."""
        return self.values.dtype.kind in "fiu" and self.values.nunique() > FEW_VALUES


class Rows(NamedTuple):
    """What is exchanged: the row of each scan (-1: left out), and the stratum of each row."""

    of_scan: np.ndarray
    stratum: np.ndarray


def as_series(values: Any) -> pd.Series:
    """Values as numbers or words; dates in words become numbers, which have an order.

    >>> as_series(["2021-03-04", None, "2021-03-05"]).tolist()
    [737853.0, nan, 737854.0]
    """
    series = pd.Series(list(values)).infer_objects()
    if series.dtype.kind in "biufM":
        return series.astype(object) if series.dtype.kind == "b" else series
    words = series.dropna().astype(str)
    if len(words) and words.str.match(r"\d{4}-\d\d-\d\d").all():
        days = pd.to_datetime(words.str[:10], format="%Y-%m-%d", errors="coerce")
        if days.notna().all():
            return days.map(pd.Timestamp.toordinal).reindex(series.index).astype(float)
    return series.astype(object)


def rows_of(y: np.ndarray, groups: np.ndarray | None) -> Rows:
    """Rows to exchange: scans, scans within groups, or groups where most hold one label."""
    n = len(y)
    codes = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1].ravel()
    n_groups = int(codes.max()) + 1
    if n_groups == n:
        return Rows(np.arange(n), np.zeros(n, dtype=int))
    single = pd.Series(y).groupby(codes).nunique().to_numpy() == 1
    if 2 * single.sum() <= n_groups:
        return Rows(np.arange(n), codes)
    row = np.where(single, np.cumsum(single) - 1, -1)
    return Rows(row[codes], np.zeros(single.sum(), dtype=int))


def columns_by_row(values: pd.Series, rows: Rows) -> list[Column]:
    """A column with one value per row, and a second one where some are missing."""
    kept = values[rows.of_scan >= 0]
    parts = kept.groupby(rows.of_scan[rows.of_scan >= 0])
    if len(parts) == len(values):
        one = values
    elif Column(values, False).quantity:
        one = parts.mean()
    else:
        one = parts.agg(lambda part: next(iter(part.mode()), None))
    found = [Column(one.reset_index(drop=True), False)]
    if found[0].quantity and one.isna().any():
        found.append(Column(one.isna().astype(object).reset_index(drop=True), True))
    return found


def matrix_of(values: pd.Series, quantity: bool) -> np.ndarray:
    """Z or Y of (1); without columns where nothing varies."""
    if quantity:
        rank = values.rank()
        centered = (rank - rank.mean()).fillna(0.0).to_numpy(dtype=float)
        length = np.linalg.norm(centered)
        return centered[:, None] / length if length else np.empty((len(values), 0))
    codes = pd.factorize(values, use_na_sentinel=False)[0]
    place = np.argsort(np.argsort(-np.bincount(codes), kind="stable"), kind="stable")
    codes = np.minimum(place[codes], MOST_LEVELS)
    counts = np.bincount(codes)
    if len(counts) < 2:
        return np.empty((len(values), 0))
    return (np.eye(len(counts))[codes] - counts / len(codes)) / np.sqrt(counts)


def adjusted_p(y: pd.Series, classes: bool, columns: Mapping[Any, Column], stratum) -> dict:
    """Return p of (2) by the names of columns; 1 for a column that does not vary.

    >>> y, age = pd.Series(list("ab") * 8), pd.Series(np.tile([20.0, 60.0], 8) + np.arange(16))
    >>> adjusted_p(y, True, {"age": Column(age, False)}, np.zeros(16, dtype=int))
    {'age': 0.0005}
    """
    Y = matrix_of(y, not classes)
    parts = {name: matrix_of(c.values, c.quantity) for name, c in columns.items()}
    found = dict.fromkeys(parts, 1.0)
    parts = {name: part for name, part in parts.items() if part.shape[1]}
    if not parts or not Y.shape[1]:
        return found
    Z = np.hstack(list(parts.values()))
    widths = np.array([part.shape[1] for part in parts.values()])
    df = np.maximum(widths - 1, 1) * max(Y.shape[1] - 1, 1)
    starts = np.cumsum(widths) - widths

    def tails(labels: np.ndarray) -> np.ndarray:
        power = ((Z.T @ labels) ** 2).sum(axis=-1)
        return special.chdtrc(df, (len(y) - 1) * np.add.reduceat(power, starts, axis=-1))

    observed = tails(Y)
    if observed.min() > HOPELESS:
        return found
    reached = np.ones(len(observed))
    rng = np.random.default_rng(0)
    for start in range(0, EXCHANGES, AT_ONCE):
        order = _orders(rng, min(AT_ONCE, EXCHANGES - start), np.asarray(stratum))
        least = tails(Y[order]).min(axis=1, keepdims=True)
        reached += (least <= observed * (1 + 1e-7)).sum(axis=0)
    return found | dict(zip(parts, (reached / (1 + EXCHANGES)).tolist()))


def _orders(rng: np.random.Generator, n: int, stratum: np.ndarray) -> np.ndarray:
    """Random orders (n, rows) that stay within strata."""
    order = np.tile(np.arange(len(stratum)), (n, 1))
    for s in np.unique(stratum):
        members = np.flatnonzero(stratum == s)
        order[:, members] = rng.permuted(order[:, members], axis=1)
    return order


def rank_correlation(a: pd.Series, b: pd.Series) -> float:
    """Spearman's correlation over the rows that have both."""
    both = a.notna() & b.notna()
    return float(stats.spearmanr(a[both], b[both])[0])
