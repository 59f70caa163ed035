"""Which row of a table belongs to which file, by names; what is not certain is refused.

A row names a file (with or without folder and extension) or its subject (``sub-01``, ``01``; found
in the name of the file or its folders). Where names do not meet, SPM may have put letters before
them: files ``swsub-01.nii`` and rows ``sub-01``, or ``con_0001.nii`` and ``0001``, or the other way
round. One such prefix must then explain the files that are left, each with a row of its own that no
other file has by its plain name; two that explain equally many are refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from voxprior.errors import InputError, option
from voxprior.images.sources import stem
from voxprior.labels import refuse_alike

__all__ = ["check_entities", "check_subjects", "find_column", "match_rows", "volume_rows"]

# Realigned, slice-timed, unwarped, modulated, warped, smoothed (CAT12 says by how much: s6mwp1); a
# tissue of SPM or CAT12; a contrast or its beta.
SPM_PREFIX = re.compile(r"(?:[amrsuw]|s\d{1,2}(?=[mw])|m0(?=w)|[cp][1-6]|con_|beta_)+")
# BIDS entities that distinguish runs; a folder names the subject and the session.
ENTITY = re.compile(r"(?:^|_)(sub|ses|task|acq|ce|rec|dir|run)-([A-Za-z0-9]+)")
FOLDER = re.compile(r"^(sub|ses)-([A-Za-z0-9]+)$")
VOLUME_COLUMNS = ("volume", "volumes", "vol")


def find_column(frame: pd.DataFrame, name: str) -> str | None:
    """Find a column by its name, whatever its case; None where there is none.

    >>> find_column(pd.DataFrame(columns=["Subject", "Age"]), "age")
    'Age'
    """
    if name in frame.columns:
        return name
    alike = [c for c in frame.columns if str(c).strip().casefold() == name.strip().casefold()]
    if len(alike) > 1:
        raise InputError(
            f"{name!r} may be any of the columns {', '.join(map(repr, alike))}",
            remedy="Write the one that is meant as the table does",
        )
    return alike[0] if alike else None


def check_entities(image: str, table: Any) -> None:
    """Refuse a table for one run if its name says that it belongs to another.

    Entities that only one of the names has do not count: BIDS tables may belong to several runs.

    >>> check_entities("sub-01_task-x_run-1_bold.nii", "task-x_events.tsv")
    >>> check_entities("sub-01_run-1_bold.nii", "sub-01_run-2_events.tsv")
    Traceback (most recent call last):
    voxprior.errors.InputError: sub-01_run-2_events.tsv: is of run-2, but was given to
    sub-01_run-1_bold.nii. Give tables in the order of the runs, each its own.
    """
    if not isinstance(table, (str, os.PathLike)):
        return
    known, told = _entities(image), _entities(os.fspath(table))
    for key in known.keys() & told.keys():
        # Only runs are numbers, which may have zeros before them.
        alike = known[key].isdigit() and told[key].isdigit() and int(known[key]) == int(told[key])
        if known[key] != told[key] and not (key == "run" and alike):
            raise InputError(
                f"{os.fspath(table)}: is of {key}-{told[key]}, but was given to {image}",
                remedy="Give tables in the order of the runs, each its own",
            )


def check_subjects(files: Sequence[str], subjects: pd.Series, rows: np.ndarray, name: str) -> None:
    """Refuse rows whose ``sub-`` differs from that in the name of their file."""
    for file, row in zip(files, rows.tolist()):
        said = str(subjects.iloc[row]) if row >= 0 else ""
        known = _entities(file).get("sub")
        if said.startswith("sub-") and known is not None and said != f"sub-{known}":
            raise InputError(
                f"{name}: column {str(subjects.name)!r} says {said!r} of {file}",
                remedy="Correct the row: table and file must name one subject",
            )


def _entities(path: str) -> dict[str, str]:
    *folders, name = Path(path).parts or ("",)
    found = [pair for part in folders for pair in FOLDER.findall(part)]
    return dict([*found, *ENTITY.findall(name)])


# ---------------------------------------------------------------- one row per file


def match_rows(files: Sequence[Any], keys: pd.Series, name: str) -> np.ndarray:
    """Row of the table for each file, -1 where there is none; an error where there are several.

    Parameters
    ----------
    files : sequence of paths
    keys : Series
        Column that names files or subjects.
    name : str
        The table, for messages.
    """
    row_of = _rows_by_key(keys)
    rows = np.full(len(files), -1)
    for position, file in enumerate(files):
        found = next((row_of[k] for k in _keys_of(str(file)) if k in row_of), [])
        rows[position] = _only(found, file, keys, name)
    _check_named_again(files, row_of, rows, keys, name)
    left, taken = np.flatnonzero(rows < 0).tolist(), set(rows.tolist())
    free = {key: found for key, found in row_of.items() if not taken & set(found)}
    for position, found in _match_prefixed(files, left, free, name).items():
        rows[position] = _only(found, files[position], keys, name)
    return rows


def _check_named_again(
    files: Sequence[Any],
    row_of: Mapping[str, list[int]],
    rows: np.ndarray,
    keys: pd.Series,
    name: str,
) -> None:
    """Refuse a second row of a file that names it with more or fewer folders than the first."""
    taken = set(rows.tolist())
    for file, row in zip(files, rows.tolist()):
        others = [row_of[tail][0] for tail in _tails_of(str(file)) if tail in row_of]
        again = [other for other in others if row >= 0 and other not in taken]
        if again:
            raise InputError(
                f"{name}: {file} has several rows ({keys.iloc[row]!r} and {keys.iloc[again[0]]!r})",
                expected="one row per file",
                remedy="Remove the other rows",
            )


def _rows_by_key(keys: pd.Series) -> dict[str, list[int]]:
    refuse_alike("keys of the table", keys)
    row_of: dict[str, list[int]] = {}
    for row, value in enumerate(keys):
        if not pd.isna(value):
            row_of.setdefault(_plain(str(value)), []).append(row)
    return row_of


def _only(found: list[int], file: Any, keys: pd.Series, name: str) -> int:
    if len(found) > 1:
        raise InputError(
            f"{name}: {file} has {len(found)} rows ({keys.iloc[found[0]]!r})",
            expected="one row per file",
            remedy="Name the file in a column 'file', or remove the other rows",
        )
    return found[0] if found else -1


def _plain(value: str) -> str:
    """Strip extension and ``sub-`` from a key; folders in it stay, they may distinguish files."""
    *folders, _ = Path(value).parts
    return "/".join([*folders, stem(value)]).removeprefix("sub-")


def _keys_of(file: str) -> list[str]:
    """Keys that fit this file: its name with any folders, or the subject in either."""
    subjects = re.findall(r"(?:^|[/\\_])sub-([A-Za-z0-9]+)", file)
    return [*_tails_of(file), *reversed(subjects), *reversed(Path(file).parts[:-1])]


def _tails_of(file: str) -> list[str]:
    """A name with all its folders, with fewer, with none."""
    parts = Path(file).with_name(stem(file)).parts
    return ["/".join(parts[i:]).removeprefix("sub-") for i in range(len(parts))]


def _match_prefixed(
    files: Sequence[Any], left: Sequence[int], free: Mapping[str, list[int]], name: str
) -> dict[int, list[int]]:
    """Rows of the files that are left, by the one prefix of SPM that explains most of them.

    `free` are the rows that no file has yet, by their keys.
    """
    longer: dict[str, list[tuple[str, str]]] = {}
    for key in free:
        for prefix, rest in _splits(key):
            longer.setdefault(rest, []).append((prefix, key))
    explained: dict[tuple[str, str], dict[int, list[int]]] = {}
    for position in left:
        path = Path(str(files[position]))
        own = stem(path)
        for prefix, rest in _splits(own):
            found = next((k for k in _keys_of(str(path.with_name(rest))) if k in free), None)
            if found is not None:
                explained.setdefault(("files", prefix), {})[position] = free[found]
        for prefix, key in longer.get(own, []):
            explained.setdefault(("rows", prefix), {})[position] = free[key]
    ranked = sorted(explained, key=lambda one: -len(explained[one]))
    if len(ranked) > 1 and len(explained[ranked[0]]) == len(explained[ranked[1]]):
        told = " or ".join(f"{prefix!r} before the names of {side}" for side, prefix in ranked[:2])
        raise InputError(
            f"{name}: rows and files may belong together by {told}",
            remedy=f"Name the files in full, in the column that {option('key')} says",
        )
    return explained[ranked[0]] if ranked else {}


def _splits(name: str) -> list[tuple[str, str]]:
    """Ways to part a name into a prefix of SPM and a rest."""
    found = ((name[:i], name[i:]) for i in range(1, len(name)))
    return [(prefix, rest) for prefix, rest in found if SPM_PREFIX.fullmatch(prefix)]


# ---------------------------------------------------------------- one row per volume


def volume_rows(
    files: Sequence[Any], counts: Sequence[int], frame: pd.DataFrame, key: str | None, name: str
) -> np.ndarray:
    """Row of the table for each volume of each file, in the order of rows or of a volume column.

    Parameters
    ----------
    files : sequence of paths
    counts : sequence of int
        Volumes of each file.
    frame : DataFrame
        The table. Where there is one file, which no row names, its rows are all of them.
    key : str or None
        Column that names files or subjects; every row of a file is one of its volumes.
    name : str
        The table, for messages.

    Examples
    --------
    >>> table = pd.DataFrame({"volume": [2, 1, 3], "finger": ["a", "b", "c"]})
    >>> volume_rows(["betas.nii"], [3], table, None, "table.tsv")
    array([1, 0, 2])
    """
    row_of = {} if key is None else _rows_by_key(frame[key])
    rows: list[int] = []
    for file, count in zip(files, counts):
        mine = next((row_of[k] for k in _keys_of(str(file)) if k in row_of), [])
        if not mine and len(files) == 1:
            mine = list(range(len(frame)))
        if len(mine) != count:
            raise InputError(
                f"{file}: has {count} volumes, but {name} has {len(mine)} rows for it",
                expected="one row per volume",
                remedy=f"Say by {option('key')} which column names the file of each row, or give "
                f"one 3-D map per row, or a label per volume ({option('labels')})",
            )
        rows += _in_order(mine, frame, name)
    return np.array(rows)


def _in_order(rows: list[int], frame: pd.DataFrame, name: str) -> list[int]:
    """Rows of a file in the order of its volumes, which a column may give, from 0 or from 1."""
    found = [c for c in (find_column(frame, one) for one in VOLUME_COLUMNS) if c is not None]
    if not found:
        return rows
    told = pd.to_numeric(frame[found[0]].iloc[rows], errors="coerce").to_numpy(dtype=float)
    if not any(np.array_equal(np.sort(told), np.arange(len(rows)) + one) for one in (0, 1)):
        raise InputError(
            f"{name}: the column {found[0]!r} does not count the volumes of a file",
            expected=f"each number from 0 to {len(rows) - 1}, or from 1 to {len(rows)}, once",
        )
    return [rows[i] for i in np.argsort(told)]
