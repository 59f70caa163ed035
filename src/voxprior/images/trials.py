"""Trials: from the timing of a run (events table, or a label for every volume) to samples.

    volume i is acquired at i * t_r; a block with onset o and duration d, seen with delay h,
    owns the volumes with  o + h <= i * t_r < o + d + h.

| unit | a sample is | features |
|---|---|---|
| ``block`` | the mean over the block's volumes | V |
| ``volume`` | one volume of a block; samples of a block share its number | V |
| ``window`` | T volumes from the delayed onset on, whatever the duration | T * V, time-major |

A trial that loses a volume (scrubbed, or past the end of the run) is dropped and counted; with
``volume`` each volume stands for itself.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from voxprior.errors import InputError, option
from voxprior.images.cells import as_text, typed
from voxprior.images.tables import read_cells

__all__ = ["UNITS", "Block", "Event", "Samples", "TrialPlan", "VolumeLabels"]
__all__ += ["blocks_of_events", "blocks_of_labels", "check_trials", "cut_trials"]
__all__ += ["read_volume_labels", "repeated_events", "rest_volumes"]

UNITS = ("block", "volume", "window")
LABEL_COLUMNS = ("labels", "label", "targets", "target", "trial_type", "condition")
RUN_COLUMNS = ("chunks", "chunk", "runs", "run")
# Onsets are rounded in tables: a volume that starts this little before the onset still counts.
SLACK = 1e-3
# An event may reach past a run that was stopped, but not this many times its length.
LONGEST_EVENT = 10
LONGEST_DELAY = 3600  # seconds; a response lags by some


class Block(NamedTuple):
    """Volumes [first, stop) of a run, delay included, and their label (None where unknown)."""

    label: str | None
    first: int
    stop: int


class Event(NamedTuple):
    """A row of an events table: its label and its onset in seconds."""

    label: str
    onset: float


class VolumeLabels(NamedTuple):
    """A label for every volume of a file, and the run of every volume (None: one run)."""

    labels: np.ndarray
    runs: np.ndarray | None


class TrialPlan(NamedTuple):
    """How runs are cut into samples; the parameters of `load_runs` of these names."""

    unit: str
    window: int | None
    delay: float
    conditions: list[str] | None
    rest: list[str]
    label_column: str | None

    def wants(self, label: str | None) -> bool:
        """Whether blocks of this label become samples."""
        if self.conditions is not None and label is not None:
            return label in self.conditions
        return label not in self.rest


class Samples(NamedTuple):
    """Samples of one run: rows (n, T * V), labels, number of the block, names, dropped.

    `findings` are (name, message) of volumes that cannot be right.
    """

    rows: np.ndarray
    labels: list[str | None]
    blocks: list[int]
    names: list[str]
    dropped: list[str]
    findings: list[tuple[str, str]]


def check_trials(unit: Any, window: Any, delay: Any) -> None:
    """Refuse parameters by which no run can be cut."""
    if not isinstance(unit, str) or unit not in UNITS:
        raise InputError(
            f"{option('unit', unit)} is not a choice", expected=f"one of {', '.join(UNITS)}"
        )
    if window is not None and (
        not isinstance(window, Integral) or isinstance(window, bool) or window < 1
    ):
        raise InputError(
            f"{option('window', window)} cannot be used", expected="a number of volumes, 1 or more"
        )
    if unit == "window" and window is None:
        raise InputError(
            f"{option('unit', 'window')} needs a number of volumes",
            remedy=f"Give {option('window')}",
        )
    if unit != "window" and window is not None:
        raise InputError(
            f"{option('window', window)} has no effect with {option('unit', unit)}",
            remedy=f"Set {option('unit', 'window')}, or leave {option('window')} out",
        )
    if (
        not isinstance(delay, Real)
        or isinstance(delay, bool)
        or not abs(float(delay)) <= LONGEST_DELAY
    ):
        raise InputError(
            f"{option('delay', delay)} cannot be used",
            expected=f"seconds from -{LONGEST_DELAY} to {LONGEST_DELAY}",
        )


# ------------------------------------------------------------------------- timing of a run


def blocks_of_events(
    events: Any,
    n_volumes: int,
    t_r: float,
    delay: float = 0.0,
    label_column: str | None = "trial_type",
    name: str = "run",
) -> list[Block]:
    """Turn a BIDS events table (path or DataFrame; onset, duration in seconds) into blocks.

    >>> import pandas as pd
    >>> events = pd.DataFrame({"onset": [4.0], "duration": [6.0], "trial_type": ["face"]})
    >>> blocks_of_events(events, n_volumes=10, t_r=2.0, delay=2.0)
    [Block(label='face', first=3, stop=6)]
    """
    table, table_name = _events_table(events, name)
    needed = ["onset", "duration"] + ([label_column] if label_column else [])
    missing = [column for column in needed if column not in table.columns]
    if missing:
        raise InputError(
            f"{table_name}: the events table has no column {', '.join(map(repr, missing))}",
            got=", ".join(map(repr, table.columns)),
        )
    onsets = _seconds(table["onset"], "onset", table_name)
    durations = _seconds(table["duration"], "duration", table_name)
    late = onsets >= n_volumes * t_r
    if late.any():
        raise InputError(
            f"{table_name}: an event starts at {onsets[late][0]:g} s, but {name} ends at "
            f"{n_volumes * t_r:g} s ({n_volumes} volumes every {t_r:g} s)",
            remedy=f"Check that events and run belong together, and {option('t_r')}",
        )
    _check_span(onsets, durations, n_volumes * t_r, table_name, name)
    firsts = np.ceil((onsets + delay) / t_r - SLACK).astype(int)
    stops = np.ceil((onsets + durations + delay) / t_r - SLACK).astype(int)
    labels = [None] * len(table) if label_column is None else _event_labels(table, label_column)
    # An event shorter than a volume still has the volume it falls on.
    return [
        Block(*block)
        for block in zip(labels, firsts.tolist(), np.maximum(stops, firsts + 1).tolist())
    ]


def _check_span(
    onsets: np.ndarray, durations: np.ndarray, length: float, table_name: str, name: str
) -> None:
    """Refuse times so far outside the run that they cannot be seconds of it."""
    absurd = (onsets < -LONGEST_EVENT * length) | (durations > LONGEST_EVENT * length)
    if absurd.any():
        row = int(np.flatnonzero(absurd)[0])
        raise InputError(
            f"{table_name}: the event in row {row + 1} starts at {onsets[row]:g} s and lasts "
            f"{durations[row]:g} s, but {name} has {length:g} s",
            remedy="Check that onsets and durations are in seconds",
        )


def repeated_events(events: Any, label_column: str, name: str = "run") -> list[Event]:
    """Find events that lie on an earlier one of their label: same onset, or mostly inside it.

    Less overlap is common, because durations are nominal and onsets jitter.

    >>> import pandas as pd
    >>> events = pd.DataFrame({"onset": [4.0, 4.0], "duration": 6.0, "trial_type": "face"})
    >>> repeated_events(events, "trial_type")
    [Event(label='face', onset=4.0)]
    """
    table, table_name = _events_table(events, name)
    onsets = _seconds(table["onset"], "onset", table_name)
    durations = _seconds(table["duration"], "duration", table_name)
    labels = np.array(_event_labels(table, label_column), dtype=object)
    found = []
    for label in dict.fromkeys(label for label in labels if label is not None):
        rows = np.flatnonzero(labels == label)
        rows = rows[np.argsort(onsets[rows], kind="stable")]
        first, length = onsets[rows], durations[rows]
        last_end = np.maximum.accumulate(first + length)[:-1]
        inside = first[1:] + length[1:] / 2 < last_end - SLACK
        again = np.diff(first) < SLACK
        found += [Event(label, float(onset)) for onset in first[1:][inside | again]]
    return found


def _events_table(events: Any, name: str) -> tuple[pd.DataFrame, str]:
    if isinstance(events, pd.DataFrame):
        return events, f"events of {name}"
    cells = read_cells(events, f"table of events (wanted for {name})")
    return cells.apply(as_text), str(events)


def _seconds(column: pd.Series, what: str, name: str) -> np.ndarray:
    values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=float)
    if not np.isfinite(values).all() or (what == "duration" and (values < 0).any()):
        row = int(
            np.flatnonzero(~(np.isfinite(values) & ((what != "duration") | (values >= 0))))[0]
        )
        raise InputError(
            f"{name}: {what} must be a number of seconds in every row",
            got=f"{column.iloc[row]!r} in row {row + 1}",
        )
    return values


def _event_labels(table: pd.DataFrame, column: str) -> list[str | None]:
    # An event without a type (n/a) has no label, so it is not a sample.
    return [None if pd.isna(value) else str(value) for value in table[column]]


def read_volume_labels(labels: Any, n_volumes: int, name: str = "run") -> VolumeLabels:
    """Read a label for every volume, and its run where given.

    Parameters
    ----------
    labels : path, DataFrame or sequence
        A text file of two columns (label, run), with or without header, as PyMVPA writes; or a
        DataFrame with a column labels / label / targets / trial_type and perhaps chunks / run.
    n_volumes : int
        Volumes of the image, to be matched.
    name : str
        The image, for error messages.
    """
    if isinstance(labels, (str, os.PathLike)):
        table, table_name = _attributes(Path(labels), name), str(labels)
    elif isinstance(labels, pd.DataFrame):
        table, table_name = labels, f"labels of {name}"
    else:
        table, table_name = pd.DataFrame({"labels": np.asarray(labels)}), f"labels of {name}"
    column = next((c for c in LABEL_COLUMNS if c in table.columns), None)
    if column is None:
        raise InputError(
            f"{table_name}: has no column of labels",
            expected=f"one of {', '.join(LABEL_COLUMNS)}",
            got=", ".join(map(str, table.columns)),
        )
    if len(table) != n_volumes:
        more = "labels without images" if len(table) > n_volumes else "images without labels"
        raise InputError(
            f"{table_name}: has {len(table)} labels but {name} has {n_volumes} volumes: {more}"
        )
    run = next((c for c in RUN_COLUMNS if c in table.columns), None)
    for what, where in (("label", column), ("run", run)):
        missing = [] if where is None else np.flatnonzero(table[where].isna()).tolist()
        if missing:
            raise InputError(
                f"{table_name}: {len(missing)} volumes have no {what}, the first is volume "
                f"{missing[0] + 1}",
                remedy="Give every volume one",
            )
    return VolumeLabels(
        table[column].astype(str).to_numpy(dtype=str),
        None if run is None else table[run].to_numpy(),
    )


def _attributes(path: Path, name: str) -> pd.DataFrame:
    sep = "," if path.suffix.lower() == ".csv" else None
    what = f"label file (wanted for {name})"
    table = read_cells(path, what, sep, LABEL_COLUMNS + RUN_COLUMNS)
    if all(isinstance(column, str) for column in table.columns):
        pass
    elif table.shape[1] <= 2:
        table.columns = ["labels", "runs"][: table.shape[1]]
    else:
        raise InputError(
            f"{path}: is not a file of labels",
            expected="one or two columns (label, run), or a header that names them",
            got=f"{table.shape[1]} columns",
        )
    for column in table:
        runs = column in RUN_COLUMNS
        cells = table[column]
        table[column] = typed(cells, names=True) if runs else cells.where(cells != "")
    return table


def blocks_of_labels(labels: np.ndarray, delay_volumes: int = 0) -> list[Block]:
    """Turn a label for every volume of one run into blocks: stretches of one label.

    >>> blocks_of_labels(["rest", "face", "face", "rest"])[1]
    Block(label='face', first=1, stop=3)
    """
    labels = np.asarray(labels)
    starts = np.flatnonzero(np.r_[True, labels[1:] != labels[:-1]])
    stops = np.r_[starts[1:], len(labels)]
    return [
        Block(str(labels[a]), int(a) + delay_volumes, int(b) + delay_volumes)
        for a, b in zip(starts, stops)
    ]


def rest_volumes(blocks: list[Block], n_volumes: int, rest: Sequence[str]) -> np.ndarray:
    """Mark the volumes outside every block that is not rest: the baseline, boolean (n_volumes,)."""
    quiet = np.ones(n_volumes, dtype=bool)
    for block in blocks:
        if block.label not in rest:
            quiet[max(block.first, 0) : max(block.stop, 0)] = False
    return quiet


# ------------------------------------------------------------------------- cutting a run


def cut_trials(
    values: np.ndarray,
    kept: np.ndarray,
    blocks: list[Block],
    unit: str = "block",
    window: int | None = None,
    name: str = "run",
) -> Samples:
    """Cut a run's kept volumes (n_kept, V) into samples, one or more for each block.

    >>> import numpy as np
    >>> run = np.arange(8.0, dtype=np.float32).reshape(4, 2)
    >>> blocks = [Block("a", 0, 2), Block("b", 2, 4)]
    >>> cut_trials(run, np.ones(4, bool), blocks).rows
    array([[1., 2.],
           [5., 6.]], dtype=float32)
    >>> cut_trials(run, np.ones(4, bool), blocks, unit="window", window=2).rows.shape
    (2, 4)
    """
    # Row of each volume among the kept ones; -1 where it was scrubbed.
    row_of = np.full(len(kept), -1)
    row_of[kept] = np.arange(kept.sum())
    out = Samples(np.empty(0), [], [], [], [], [])
    rows: list[np.ndarray] = []
    for number, block in enumerate(blocks):
        stop = block.first + window if unit == "window" and window else block.stop
        stretches = [(block.first, stop)]
        if unit == "volume":
            stretches = [(v, v + 1) for v in range(block.first, stop)]
        for first, end in stretches:
            label = f"{name}, volumes {first} to {end - 1}" + (
                f", {block.label}" if block.label else ""
            )
            reason = _loss(row_of, first, end)
            if reason:
                out.dropped.append(f"{label}: {reason}")
                continue
            part = values[row_of[first:end]]
            rows.append(part.ravel() if unit == "window" else part.mean(axis=0, dtype=np.float64))
            out.labels.append(block.label)
            out.blocks.append(number)
            out.names.append(label)
    n_features = values.shape[1] * (window if unit == "window" and window else 1)
    stacked = np.asarray(rows, dtype=np.float32).reshape(len(rows), n_features)
    return out._replace(rows=stacked)


def _loss(row_of: np.ndarray, first: int, stop: int) -> str | None:
    """The reason why a stretch of volumes is incomplete, or None."""
    if first < 0:
        return "starts before the run"
    if stop > len(row_of):
        return f"{stop - max(first, len(row_of))} volumes past the end of the run"
    lost = int((row_of[first:stop] < 0).sum())
    return f"{lost} volumes scrubbed" if lost else None
