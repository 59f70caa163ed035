"""Text of a table to columns of cells, and cells to numbers where nothing is lost.

Every cell is text. A column becomes numbers as a whole or not at all, and names (of classes, runs,
subjects) only where no two texts are one number: 01 and 1 stay two names. A column that occurs
twice must have the same cells. A cell ends with its line, so a stray quotation mark swallows no
rows, unless all cells of the file are quoted; nothing starts a comment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd

from voxprior.labels import refuse_alike

__all__ = ["MISSING", "as_text", "cells_of", "numbers", "settled", "typed"]

# What stands for a missing value: n/a of BIDS, and what pandas writes or reads as one.
MISSING = frozenset(["", "n/a", "NA", "N/A", "#N/A", "#NA", "#N/A N/A", "<NA>", "None"])
MISSING |= frozenset(["NULL", "null", "nan", "NaN", "-nan", "-NaN"])
MISSING |= frozenset(["1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"])
TRUTH = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}
# Parsed, a cell takes up to 130 bytes; of studies with a thousand columns 2000 rows fit.
MOST_CELLS = 2**21
MOST_COLUMNS = 20_000


# ---------------------------------------------------------------- text to cells


def cells_of(text: str, sep: str | None, names: Collection[str] | None = None) -> pd.DataFrame:
    r"""Cells of a table as text, "" where there is none.

    Parameters
    ----------
    text : str
    sep : str or None
        What parts cells; None: blanks and tabs, one or more.
    names : collection of str, optional
        The first line is a header, in any case, only where its first cell is one of these; else
        columns are numbered. By default it always is.

    Examples
    --------
    >>> cells_of('file,run,run\na.nii,"01",01\n', ",")
        file run
    0  a.nii  01
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    _check_cells(text.count("\n") + text.count(sep or " "))
    rows = _rows(text, sep)
    if not rows:
        raise ValueError("it has no line with text")
    width = len(rows[0])
    _check_cells(len(rows) * width)
    if width > MOST_COLUMNS:
        raise ValueError(f"it has more than {MOST_COLUMNS:,} columns")
    for row in rows:
        if len(row) != width:
            _fit(row, width)
    if names is None:
        header, rows = rows[0], rows[1:]
    elif rows[0][0].lower() in names:
        header, rows = [name.lower() for name in rows[0]], rows[1:]
    else:
        return pd.DataFrame(dict(enumerate(zip(*rows))), dtype=object)
    columns = list(zip(*rows)) or [()] * width
    return pd.DataFrame(_named(header, columns), index=range(len(rows)), dtype=object)


def _check_cells(count: int) -> None:
    if count > MOST_CELLS:
        raise ValueError(f"it has more than {MOST_CELLS:,} cells")


def _rows(text: str, sep: str | None) -> list[list[str]]:
    """Lists of cells, without the blanks around them; lines without text are none."""
    if text.startswith('"'):
        rows = _quoted_throughout(text, sep)
        if rows is not None:
            return rows
    blank = " \t" if sep is None else " \t".replace(sep, "")
    pattern = _cell_pattern(sep)
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip(blank)
        if not line:
            continue
        if '"' in line:
            cells = _unquoted(line, pattern, number)
            if rows and len(cells) < len(rows[0]):
                raise ValueError(
                    f"line {number} has {len(cells)} cells of {len(rows[0])}; look at its "
                    "quotation marks, inside which nothing parts cells"
                )
        else:
            cells = line.split(sep) if sep else re.split("[ \t]+", line)
        rows.append([cell.strip(blank) for cell in cells])
    return rows


def _cell_pattern(sep: str | None) -> re.Pattern:
    """A cell in quotation marks or without, and what ends it."""
    if sep is None:
        return re.compile(r'(?:"((?:[^"]|"")*)"|([^ \t]+))([ \t]+|$)')
    by = re.escape(sep)
    return re.compile(rf'(?: *"((?:[^"]|"")*)" *|([^{by}]*))({by}|$)')


def _unquoted(line: str, pattern: re.Pattern, number: int) -> list[str]:
    """Cells of a line that has quotation marks."""
    cells, at = [], 0
    while True:
        found = pattern.match(line, at)
        quoted, plain, end = found.groups() if found else (None, '"', "")
        if found is None or (quoted is None and plain.lstrip(" ").startswith('"')):
            raise ValueError(
                f"line {number}: a cell begins with a quotation mark that does not end it"
            )
        cells.append(plain if quoted is None else quoted.replace('""', '"'))
        if not end:
            return cells
        at = found.end()


def _quoted_throughout(text: str, sep: str | None) -> list[list[str]] | None:
    """Cells of a file that quotes all of them, where lines may end inside; None for others."""
    by = "[ \t]+" if sep is None else re.escape(sep)
    pattern = re.compile(rf'"([^"]*+(?:""[^"]*+)*+)" *({by}|\n+|\Z)')
    rows: list[list[str]] = [[]]
    at = 0
    while at < len(text):
        found = pattern.match(text, at)
        if found is None:
            return None
        rows[-1].append(found[1].replace('""', '"').strip(" \t"))
        at = found.end()
        if found[2].startswith("\n") and at < len(text):
            rows.append([])
    return rows


def _fit(row: list[str], width: int) -> None:
    """Give a row as many cells as the first has; what it has beyond them must be empty."""
    if any(row[width:]):
        raise ValueError(f"rows have {len(row)} cells, but the header names {width} columns")
    row[width:] = [""] * (width - len(row))


def _named(header: Sequence[str], columns: Sequence[tuple[str, ...]]) -> dict[str, tuple]:
    """Columns by their names; a name that stands twice must have the same cells twice."""
    refuse_alike("columns", header)
    found: dict[str, tuple] = {}
    for i, (name, cells) in enumerate(zip(header, columns)):
        if not name and not any(cells):
            continue  # spreadsheets leave empty columns at the end
        name = name or f"Unnamed: {i}"
        if found.setdefault(name, cells) != cells:
            row, one, other = next(
                (row, *both)
                for row, both in enumerate(zip(found[name], cells), 1)
                if len({*both}) > 1
            )
            raise ValueError(
                f"column {name!r} stands there twice, with different cells: {one!r} and {other!r} "
                f"in row {row}"
            )
    return found


# ---------------------------------------------------------------- cells to numbers


def numbers(cells: pd.Series) -> pd.Series | None:
    """Cells as numbers, missing ones NaN; None where one is neither a number nor missing.

    >>> numbers(pd.Series(["1.50", "n/a", "2"])).tolist()
    [1.5, nan, 2.0]
    """
    missing = _missing(cells)
    values = _parsed(cells.to_numpy(dtype=object)[~missing], pd.to_numeric)
    return None if values is None else _with_missing(values, missing, cells.index)


def typed(cells: pd.Series, names: bool = False) -> pd.Series:
    """Numbers or truth values where all cells are some and no two texts are one; else text.

    Whole numbers stay whole where some are missing. Where some have a fraction they are measured
    and no names, unless `names` says so: 1.5 and 1.50 are one number then.

    >>> typed(pd.Series(["1", "n/a", "2"])).tolist(), typed(pd.Series(["1", "01"])).tolist()
    ([1, <NA>, 2], ['1', '01'])
    """
    missing = _missing(cells)
    there = cells.to_numpy(dtype=object)[~missing]
    for parse in (pd.to_numeric, _as_truth):
        values = _parsed(there, parse)
        if values is None:
            continue
        measured = (
            not names and values.dtype.kind == "f" and bool((np.floor(values) != values).any())
        )
        if not measured and len(pd.unique(values)) < len({*there}):
            break
        kind = {"i": "Int64", "u": "UInt64", "b": "boolean"}.get(values.dtype.kind)
        return _with_missing(values, missing, cells.index, kind)
    return as_text(cells)


def as_text(cells: pd.Series) -> pd.Series:
    """Cells as they are; missing ones are NaN."""
    return pd.Series([np.nan if c in MISSING else c for c in cells], cells.index)


def settled(column: pd.Series) -> pd.Series:
    """A column of `typed` as numpy has it: whole numbers stay so where none is missing."""
    kind = {"Int64": "int64", "UInt64": "uint64", "boolean": "bool"}.get(str(column.dtype))
    if kind is None:
        return column
    if column.isna().any():
        return column.astype(object if kind == "bool" else "float64")
    return column.astype(kind)  # type: ignore[call-overload]


def _missing(cells: pd.Series) -> np.ndarray:
    return np.array([cell in MISSING for cell in cells], dtype=bool)


def _with_missing(
    values: np.ndarray, missing: np.ndarray, index: pd.Index, kind: str | None = None
) -> pd.Series:
    """All cells of a column; where some are missing, of a pandas type that allows that."""
    if not missing.any():
        return pd.Series(values, index)
    found = pd.Series(np.nan if kind is None else pd.NA, index, dtype=kind or float)
    found[~missing] = values
    return found


def _parsed(there: np.ndarray, parse: Callable[[np.ndarray], Any]) -> np.ndarray | None:
    if not len(there):
        return None
    try:
        values = np.asarray(parse(there))
        if values.dtype.kind == "f":  # older pandas rounds the last digit of very small numbers
            values = np.array([float(cell) for cell in there])
    except (ValueError, TypeError, KeyError, OverflowError):
        return None
    return values if values.dtype.kind in "iufb" else None


def _as_truth(there: np.ndarray) -> list[bool]:
    return [TRUTH[cell] for cell in there]
