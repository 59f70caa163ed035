"""Labels, groups and covariates of maps: given one by one, or joined from a table by file names."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from voxprior.errors import InputError, InputWarning, in_python, option
from voxprior.images.findings import volume_names
from voxprior.images.matching import find_column
from voxprior.images.sources import Source, single_volumes, stem
from voxprior.images.tables import check_join, join_table, repeated_subject
from voxprior.images.trials import RUN_COLUMNS
from voxprior.labels import refuse_unclear


class LabeledMaps(NamedTuple):
    """Images that have a label, with labels, covariates, groups, and what was left out.

    `columns` are the rows of the table, `label` the one of the labels; `files` says which image a
    volume is of.
    """

    sources: list[Source]
    y: np.ndarray | None
    covariates: pd.DataFrame | None
    groups: np.ndarray | None
    dropped: tuple[str, ...] = ()
    columns: pd.DataFrame | None = None
    files: np.ndarray | None = None
    label: str | None = None

    def beside_label(self) -> pd.DataFrame | None:
        """The other columns of the table, for each image."""
        if self.columns is None or self.label is None:
            return self.columns
        return self.columns.drop(columns=self.label)


class FoundLabels(NamedTuple):
    """Maps with what is known of them: names, groups, a note on the groups, and decisions."""

    maps: LabeledMaps
    names: list[str]
    groups: np.ndarray | None
    said: tuple[str, ...]
    decided: tuple[str, ...]


def find_labels(
    sources: list[Source],
    counts: Sequence[int],
    y: Any = None,
    *,
    table: Any = None,
    label: str | None = None,
    key: str | None = None,
    covariates: Any = None,
    groups: Any = None,
    unmatched: str = "raise",
    new: bool = False,
) -> FoundLabels:
    """Collect labels and the like of maps, as given or from a table; see `load_maps`.

    `counts` are the volumes of every image; `new` maps are to be predicted, and get no groups by
    default.
    """
    check_labels(y, table, label, covariates, groups, unmatched)
    if table is None:
        found = labeled_by_hand(sources, counts, y, covariates, groups)
        names = names_of(sources, counts)
    else:
        several = counts if max(counts) > 1 else None
        join = {"label": label, "key": key, "unmatched": unmatched, "volumes": several}
        found = labeled_by_table(sources, table, covariates, groups, join)
        names = [source.name for source in found.sources]
    if not new:  # to learn from; new scans may be of no group
        for name, values in (("y", found.y), ("groups", found.groups)):
            if values is not None:
                refuse_unclear(name, values)
    given = new or found.groups is not None
    by, said, decided = (found.groups, (), ()) if given else default_groups(found)
    return FoundLabels(found, names, found.files if by is None else by, said, decided)


def names_of(sources: Sequence[Source], counts: Sequence[int]) -> list[str]:
    """Names of the volumes of images."""
    return [name for s, n in zip(sources, counts) for name in volume_names(s.name, n)]


Told = tuple[str, ...]


def default_groups(found: LabeledMaps) -> tuple[np.ndarray | None, Told, Told]:
    """Groups where none are given, a note on them, and a decision: subjects, else runs."""
    if found.columns is None and found.files is not None:
        return found.files, (), ()
    groups, said = subjects_together(found)
    column = None if groups is not None else _run_column(found)
    if column is None or found.columns is None:
        return groups, said, ()
    decided = f"Scans were grouped by the column {column!r}."
    return found.columns[column].to_numpy(), (), (decided,)


def _run_column(found: LabeledMaps) -> str | None:
    """Column that names the run of every scan, if there is one that has no other role."""
    table = pd.DataFrame() if found.columns is None else found.columns
    runs = [c for c in (find_column(table, name) for name in RUN_COLUMNS) if c is not None]
    if len(runs) != 1:
        return None
    used = found.covariates is not None and runs[0] in found.covariates
    decoded = found.y is not None and (found.y.astype(str) == table[runs[0]].astype(str)).all()
    parts = 1 < table[runs[0]].nunique() < len(table)
    if not parts or used or decoded:
        return None
    missing = int(table[runs[0]].isna().sum())
    if missing:
        raise InputError(
            f"The column {runs[0]!r} has no run for {missing} of {len(table)} scans",
            remedy=f"Fill it in, or say what keeps scans together by {option('groups')}",
        )
    return runs[0]


def subjects_together(found: LabeledMaps) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Groups that keep the maps of a subject together, and a note on them."""
    repeated = repeated_subject([s.name for s in found.sources], found.columns, found.y)
    if repeated is None:
        return None, ()
    name, groups = repeated
    said = (
        f"maps of one subject are kept together ({name}: {len(set(groups))} subjects, "
        f"{len(groups)} maps), as nothing else was given as {option('groups')}"
    )
    warnings.warn(InputWarning(said[0].upper() + said[1:]), stacklevel=4)
    return groups, (in_python(said),)


def check_labels(
    y: Any, table: Any, label: str | None, covariates: Any, groups: Any, unmatched: str
) -> None:
    """Refuse parameters that contradict each other, before anything is read."""
    if table is None:
        if label is not None or isinstance(groups, str):
            named = "label" if label is not None else "groups"
            raise InputError(
                f"{option(named)} names a column of a table, and there is none",
                remedy=f"Give {option('table')} too",
            )
        check_join(None, None, unmatched)
        return
    if y is not None:
        raise InputError(
            f"Labels are given twice, as y and by {option('table')}",
            remedy="Give one of them",
        )
    check_join(label, covariates, unmatched)


def labeled_by_hand(
    sources: list[Source], counts: Sequence[int], y: Any, covariates: Any, groups: Any
) -> LabeledMaps:
    """Give every image, or every volume of 4-D images, the label at its place."""
    names = names_of(sources, counts)
    y = None if y is None else np.asarray(y)
    frame = None if covariates is None else pd.DataFrame(covariates).reset_index(drop=True)
    groups = None if groups is None else np.asarray(groups)
    check_join(None, () if frame is None else frame.columns)
    for what, values in (("labels", y), ("covariates", frame), ("groups", groups)):
        _check_length(what, values, names)
    return LabeledMaps(sources, y, frame, groups, files=_groups_of_files(sources, counts))


def labeled_by_table(
    sources: list[Source], table: Any, covariates: Any, groups: Any, join: dict[str, Any]
) -> LabeledMaps:
    """Give every image, or every volume of 4-D images, its row in a table."""
    columns = [covariates] if isinstance(covariates, str) else list(covariates or ())
    by_column = groups if isinstance(groups, str) else None
    volumes = join.get("volumes")
    files = [source.name for source in sources]
    joined = join_table(files, table, covariates=columns, groups=by_column, **join)
    by_file = None if volumes is None else _groups_of_files(sources, volumes)
    if volumes is not None:
        sources = [volume for source in sources for volume in single_volumes(source)]
    by = groups if by_column is None else joined.table[by_column].to_numpy()
    if by is not None and by_column is None:
        _check_length("groups", by, [source.name for source in sources])
        by = np.asarray(by)[joined.positions]
    chosen = [sources[p] for p in joined.positions]
    by_file = None if by_file is None else by_file[joined.positions]
    told = (joined.dropped, joined.table, by_file, join.get("label"))
    return LabeledMaps(chosen, joined.y, joined.covariates, by, *told)


def _groups_of_files(sources: Sequence[Source], counts: Sequence[int]) -> np.ndarray | None:
    """Name the image that each volume is of, where several images have several volumes."""
    if max(counts) == 1 or len(sources) == 1:
        return None
    stems = [stem(source.name) for source in sources]
    unique = len(set(stems)) == len(stems)
    return np.repeat(np.array(stems) if unique else np.arange(len(stems)), counts)


def _check_length(what: str, values: Any, names: Sequence[str]) -> None:
    if values is None or len(values) == len(names):
        return
    if len(values) < len(names):
        told = f"images without {what}, from {names[len(values)]} on"
    else:
        told = f"{what} without images"
    raise InputError(f"{len(names)} images but {len(values)} {what}: {told}")
