"""Tables of labels and covariates (participants.tsv, CSV), joined to image files by their names."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from voxprior.errors import InputError, nearest, nearest_file, option
from voxprior.images import bounds
from voxprior.images.cells import as_text, cells_of, settled, typed
from voxprior.images.findings import NAMED, volume_names
from voxprior.images.formats import format_of
from voxprior.images.matching import check_subjects, find_column, match_rows, volume_rows
from voxprior.images.sources import stem

__all__ = ["Joined", "check_join", "join_table", "read_cells", "read_table", "repeated_subject"]

# Far more than studies of thousands, or fMRIPrep's confounds of an hour, have.
TABLE_BYTES = 2**26
LINE_BYTES = 2**20
# A column holds numbers where this share of its cells are, more different ones than classes have.
MOSTLY, MOST_CLASSES = 0.8, 10
# What cells may be parted by instead, as words.
SEPARATORS = {";": "semicolons", "\t": "tabs", ",": "commas"}
# A key column is looked for in this order; the first four hold file names, the others subjects.
FILE_KEYS = ("file", "filename", "path", "image")
SUBJECT_KEYS = ("participant_id", "subject_id", "subject", "id")
# What columns of subjects are called, whatever their case.
SUBJECT = re.compile(
    r"(sub|subj|subject|participant|patient|person)([_ .-]?(id|no|nr|number|code|label))?|id",
    re.IGNORECASE,
)
# What names a group, and so stays text where two texts are one number.
NAMING = re.compile(rf"({SUBJECT.pattern}|(run|chunk|group|session|site|block)s?)", re.IGNORECASE)


class Joined(NamedTuple):
    """Which scans have a row (their positions), their labels, covariates and what was left out."""

    positions: np.ndarray
    y: np.ndarray | None
    covariates: pd.DataFrame | None
    table: pd.DataFrame
    dropped: tuple[str, ...]


def read_table(table: Any, key: str | None = None) -> pd.DataFrame:
    r"""Read a TSV or CSV file (``n/a`` is missing); a DataFrame is returned as it is.

    Parameters
    ----------
    table : path or DataFrame
        ``.csv`` is comma-separated, anything else tab-separated. Subject columns stay text, so that
        ``01`` does not become ``1``, and so does a column in which two texts are one number.
    key : str, optional
        A further column that stays text.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from voxprior.images import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "participants.tsv")
    ...     _ = path.write_text("participant_id\tage\n01\t61\n02\tn/a\n")
    ...     read_table(path)
      participant_id   age
    0             01  61.0
    1             02   NaN
    """
    return _settled(_typed_table(table, key))


def _typed_table(table: Any, key: str | None, groups: str | None = None) -> pd.DataFrame:
    """Read a table with whole numbers that stay so where others are missing."""
    if isinstance(table, pd.DataFrame):
        _check_repeats(table)
        return table
    cells = read_cells(table, "table")
    keys = {find_column(cells, name) for name in FILE_KEYS + SUBJECT_KEYS + (key or "",)}
    own = None if groups is None else find_column(cells, groups)
    columns = {}
    for name in cells:
        naming = name == own or NAMING.fullmatch(str(name)) is not None
        columns[name] = as_text(cells[name]) if name in keys else typed(cells[name], naming)
    return pd.DataFrame(columns, index=cells.index)


def _settled(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({name: settled(frame[name]) for name in frame}, index=frame.index)


def _check_repeats(table: pd.DataFrame) -> None:
    """Refuse a DataFrame with two columns of one name."""
    again = table.columns[table.columns.duplicated()]
    if len(again):
        raise InputError(
            f"The table has several columns {str(again[0])!r}",
            remedy="Remove all but the one that is meant",
        )


def read_cells(
    table: Any, what: str, sep: str | None = "", names: Collection[str] | None = None
) -> pd.DataFrame:
    """Read a text file of bounded size as text; any error takes one line.

    Parameters
    ----------
    table : path
        A name that ends in ``.gz`` is expanded, as far as a table may reach.
    what : str
        What the file is, for error messages.
    sep : str or None
        By default a comma for ``.csv`` and a tab for anything else; None: any blanks.
    names : collection of str, optional
        What the first cell of a header may be, where there may be none; see `cells_of`.
    """
    path = Path(os.fspath(table))
    if not path.is_file():
        there = f"is a folder, not a {what}" if path.is_dir() else f"no such {what}"
        near = "" if path.exists() else nearest_file(path)
        raise FileNotFoundError(f"{path}: {there}{near}.")
    by = sep if sep != "" else "," if path.suffix.lower() == ".csv" else "\t"
    try:
        with bounds.opened(str(path)) as stream:
            content = stream.read(TABLE_BYTES + 1)
        found = format_of(content)
        if found is None:
            _check_text(content)
            return cells_of(content.decode("utf-8-sig"), by, names)
    except (ValueError, OSError, EOFError, OverflowError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read as a {what} ({error})") from error

    raise InputError(f"{path}: is {found[0]}, not a {what}", remedy=found[1])


def _check_text(content: bytes) -> None:
    """Refuse what pandas would take for a table, and perhaps fill the memory with."""
    if len(content) > TABLE_BYTES:
        raise ValueError(f"it has more than {TABLE_BYTES // 2**20} MB")
    if b"\0" in content:
        raise ValueError("it holds zero bytes, so it is not text")
    longest = max(map(len, BytesIO(content)), default=0)
    if longest > LINE_BYTES:
        raise ValueError(f"a line has {longest} characters")


def join_table(
    files: Sequence[Any],
    table: Any,
    *,
    label: str | None = None,
    covariates: Sequence[str] = (),
    key: str | None = None,
    unmatched: str = "raise",
    volumes: Sequence[int] | None = None,
    groups: str | None = None,
) -> Joined:
    """Find each file's row in a table, and with it its label and covariates.

    Columns are found whatever their case.

    Parameters
    ----------
    files : sequence of paths
    table : path or DataFrame
    label : str, optional
        Column of the labels.
    covariates : sequence of str
        Columns of the covariates.
    key : str, optional
        Column that names the file (a file name, with or without folder, extension and prefixes of
        SPM) or the subject (``sub-01``, or ``01``; found in the file name or its folders). By
        default the first there is of file, filename, path, image, participant_id, subject_id,
        subject, id.
    unmatched : {"raise", "drop"}
        What to do with files without a row, rows without a file, and missing values.
    volumes : sequence of int, optional
        Volumes of each file, where some have several: each volume has a row then, in the order of
        the rows or of a column ``volume``.
    groups : str, optional
        Column of the groups, a value of which every file must have too.

    Returns
    -------
    Joined

    Examples
    --------
    >>> import pandas as pd
    >>> from voxprior.images import join_table
    >>> people = pd.DataFrame({"participant_id": ["sub-01", "sub-02"], "Age": [61, 74]})
    >>> join_table(["b/sub-02_T1w.nii.gz", "a/sub-01_T1w.nii.gz"], people, label="age").y
    array([74, 61])
    """
    check_join(label, covariates, unmatched)
    name = "the table" if isinstance(table, pd.DataFrame) else str(table)
    frame = _typed_table(table, key, groups)
    if key is None and (volumes is None or len(frame) != sum(volumes)):
        _refuse_events(frame, name)
    measured = [*([] if label is None else [label]), *covariates]
    columns = _columns(frame, measured + ([] if groups is None else [groups]), name)
    for asked in measured:
        _check_numbers(frame[columns[asked]], asked, name, is_label=asked == label)
    key = _key_column(frame, key, name, needed=volumes is None or len(files) > 1)
    if volumes is None:
        rows = match_rows(files, frame[key], name)
        names = [str(file) for file in files]
    else:
        rows = volume_rows(files, volumes, frame, key, name)
        names = [one for file, n in zip(files, volumes) for one in volume_names(str(file), n)]
    for subjects in {find_column(frame, one) for one in SUBJECT_KEYS} - {None, key}:
        check_subjects(names, frame[subjects], rows, name)
    problems = _problems(names, frame, key, rows, columns, name)
    if problems and unmatched == "raise":
        raise InputError(
            "; ".join(problems[:3]) + _more(problems),
            remedy=f"Mend the table, or leave these out by {option('unmatched', 'drop')}",
        )
    complete = [r >= 0 and not frame.iloc[r][list(columns.values())].isna().any() for r in rows]
    positions = np.flatnonzero(complete)
    if len(positions) == 0:
        raise InputError(
            f"{name}: no file has a complete row. The first file is {files[0]}",
            remedy=f"Check which column names the files ({option('key')})",
        )
    chosen = frame.iloc[rows[positions]].reset_index(drop=True)
    # Columns are called as they were asked for, and so in the model.
    chosen = chosen.rename(columns={actual: asked for asked, actual in columns.items()})
    chosen = _settled(chosen)
    return Joined(
        positions,
        None if label is None else _labels(chosen[label]),
        chosen[list(covariates)] if covariates else None,
        chosen,
        tuple(problems),
    )


def _refuse_events(frame: pd.DataFrame, name: str) -> None:
    """Refuse a table with a row per event, which belongs to a run and not to images."""
    names = {str(column).strip().casefold() for column in frame}
    if {"onset", "duration"} <= names and not names & {*FILE_KEYS, *SUBJECT_KEYS}:
        raise InputError(
            f"{name}: is an events table, with a row per event and none per image",
            remedy=f"Give it as {option('events')}, one per 4-D run",
        )


def repeated_subject(
    files: Sequence[Any], table: pd.DataFrame | None, y: Any
) -> tuple[str, np.ndarray] | None:
    """Who has several scans: a column of the table, else ``sub-`` in the names of the files.

    None where nobody has, all scans are of one subject, or subjects are what is decoded. Where
    somebody has and the subject of others is not known, that is refused.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"file": ["a", "b", "c"], "Subject": [1, 1, 2]})
    >>> repeated_subject(["a", "b", "c"], table, ["x", "y", "x"])
    ('Subject', array([1, 1, 2]))
    """
    named = [] if table is None else [c for c in table if SUBJECT.fullmatch(str(c))]
    gaps: dict[str, int] = {}
    told = [re.findall(r"(?:^|[/\\_])sub-([A-Za-z0-9]+)", str(file)) for file in files]
    found = [(str(c), table[c]) for c in named if table is not None]
    if told and all(told):
        found.append(("sub-", pd.Series([one[-1] for one in told])))
    for name, column in found:
        n_subjects = column.nunique()
        there = column.notna().to_numpy()
        of = None if y is None else set(zip(column[there], np.asarray(y)[there]))
        decoded = of is not None and len(of) == n_subjects == len(set(y))
        if not 1 < n_subjects < there.sum() or decoded:
            continue
        if there.all():
            return name, column.to_numpy()
        gaps[name] = int((~there).sum())
    for name, missing in gaps.items():
        raise InputError(
            f"The column {name!r} has no subject for {missing} of {len(files)} scans, and others "
            "have several",
            remedy=f"Fill it in, or say what keeps scans together by {option('groups')}",
        )
    return None


def _columns(frame: pd.DataFrame, wanted: list[str], name: str) -> dict[str, str]:
    """Columns of the table by the names that were asked for."""
    found = {asked: find_column(frame, asked) for asked in wanted}
    missing = [asked for asked, column in found.items() if column is None]
    if missing:
        alone = str(frame.columns[0]) if len(frame.columns) == 1 else ""
        others = [shown for by, shown in SEPARATORS.items() if by in alone]
        remedy = None
        if others:
            remedy = f"Its cells seem to be parted by {others[0]}: save it with commas as .csv, or "
            remedy += "with tabs as .tsv"
        raise InputError(
            f"{name}: has no column {', '.join(map(repr, missing))}",
            got=_listed(frame),
            remedy=remedy,
        )
    asked_of: dict[str, str] = {}
    for asked, column in found.items():
        if column is not None and asked_of.setdefault(column, asked) != asked:
            raise InputError(
                f"{name}: {asked_of[column]!r} and {asked!r} are one column, {column!r}",
                remedy="Write its name in one way; a label cannot be a covariate too",
            )
    return {asked: column for asked, column in found.items() if column is not None}


def _check_numbers(column: pd.Series, asked: str, name: str, is_label: bool) -> None:
    """Refuse infinite numbers, and numbers that stay words because of a few cells.

    Such cells are not numbers, or write a number differently from another cell, as 01 and 1 do: a
    few classes may be called that, but not measurements.
    """
    if pd.api.types.is_numeric_dtype(column):
        if np.isinf(column.astype(float)).any():
            raise InputError(
                f"{name}: column {asked!r} holds an infinite number",
                remedy="Mend the cell, or write n/a where the value is not known",
            )
        return
    cells = column.dropna().astype(str).drop_duplicates()
    values = pd.to_numeric(cells, errors="coerce")
    again = values[values.duplicated(keep=False)]
    if values.notna().all() and len(again) and not (is_label and values.nunique() <= MOST_CLASSES):
        one, other = cells[again[again == again.iloc[0]].index[:2]]
        raise InputError(
            f"{name}: column {asked!r} writes a number in two ways, {one!r} and {other!r}",
            remedy="Write it in one; where these are names, give them letters",
        )
    cells = column.dropna().astype(str)
    numbers = pd.to_numeric(cells.str.replace(",", ".", regex=False), errors="coerce")
    words = cells[pd.to_numeric(cells, errors="coerce").isna()]
    if len(words) and numbers.notna().mean() >= MOSTLY and cells.nunique() > MOST_CLASSES:
        raise InputError(
            f"{name}: column {asked!r} holds numbers, but is read as words because of "
            f"{words.iloc[0]!r}",
            remedy="Write numbers with a point, and n/a where one is not known",
        )


def _key_column(frame: pd.DataFrame, key: str | None, name: str, needed: bool) -> str | None:
    """Find the column that names files or subjects."""
    if key is not None:
        return _columns(frame, [key], name)[key]
    known = (find_column(frame, one) for one in FILE_KEYS + SUBJECT_KEYS)
    found = next((column for column in known if column is not None), None)
    if found is None and needed:
        raise InputError(
            f"{name}: has no column that names the file or the subject",
            expected=f"one of {', '.join(FILE_KEYS + SUBJECT_KEYS)}",
            got=_listed(frame),
            remedy=f"Say which column does by {option('key')}",
        )
    return found


def _listed(frame: pd.DataFrame) -> str:
    return ", ".join(map(repr, frame.columns))


def check_join(
    label: str | None, covariates: str | Iterable[Any] | None, unmatched: str = "raise"
) -> None:
    """Refuse parameters of `join_table`: a covariate named twice, or one that is the label."""
    if unmatched not in ("raise", "drop"):
        raise InputError(
            f"{option('unmatched', unmatched)} is not a choice", expected="'raise' or 'drop'"
        )
    several = () if covariates is None else covariates
    given = [several] if isinstance(several, str) else list(several)
    twice = sorted({str(name) for name in given if given.count(name) > 1})
    if twice:
        raise InputError(
            f"{option('covariates')} names {', '.join(map(repr, twice))} more than once",
            remedy="Name each covariate once",
        )
    if label is not None and label in given:
        raise InputError(
            f"{option('covariates')} names {label!r}, which is the label",
            remedy="What is to be predicted cannot be regressed out",
        )


def _labels(column: pd.Series) -> np.ndarray:
    numeric = pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)
    return column.to_numpy() if numeric else column.astype(str).to_numpy(dtype=str)


def _more(problems: list[str]) -> str:
    return f"; and {len(problems) - 3} more" if len(problems) > 3 else ""


def _problems(
    scans: Sequence[str],
    frame: pd.DataFrame,
    key: str | None,
    rows: np.ndarray,
    columns: Mapping[str, str],
    name: str,
) -> list[str]:
    """Report scans without a row, rows without a scan, and missing values."""
    without = [scan for scan, row in zip(scans, rows) if row < 0]
    unused = sorted(set(range(len(frame))) - set(rows.tolist()))
    keys = [str(frame.index[row] if key is None else frame[key].iloc[row]) for row in unused]
    problems = [
        f"{scan}: has no row in {name}{near}"
        for scan, near in zip(without, _nearest_each([stem(scan) for scan in without], keys))
    ]
    others = [stem(scan) for scan in without or scans]
    problems += [
        f"{name}: {one!r} has no image{near}"
        for one, near in zip(keys, _nearest_each(keys, others))
    ]
    for scan, row in zip(scans, rows):
        holes = [c for c in columns.values() if row >= 0 and pd.isna(frame[c].iloc[row])]
        if holes:
            problems.append(f"{scan}: no value of {', '.join(map(repr, holes))} in {name}")
    return problems


def _nearest_each(names: Sequence[str], others: Sequence[str]) -> list[str]:
    """Suggest what the first names may have meant; more are never shown, and many take long."""
    return [nearest(one, others) if i < NAMED else "" for i, one in enumerate(names)]
