"""Maps to a Dataset: one map per subject, beta series, GLM maps, and differences of two maps.

Labels are given, or come from a table that is joined by the names of the files.

**Differences** of two time points keep the sign:

    state = 1  iff  t1 - t2 > 0,   the voxel lost volume between the first and the second scan;
    state = 0  otherwise, no difference at all included.

The convention is explicit because the literature is not: "t1 subtracted from t2, positive = loss"
in the reference contradicts itself. ``sign="t2-t1"`` marks gain instead. Thresholds learnt from
data do not belong here but into the estimator, inside the training fold.

Reference: R. Chen and E. H. Herskovits, A Bayesian network classifier with inverse tree structure
for voxelwise magnetic resonance image analysis, KDD 2005.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from voxprior.errors import InputError, InputWarning, in_python, option
from voxprior.images.dataset import Dataset
from voxprior.images.findings import scan_findings, scan_scale, volume_names
from voxprior.images.fitting import check_fitting, fit_image_space, read_where_finite
from voxprior.images.imagespace import ImageSpace, warn_constant
from voxprior.images.matching import find_column
from voxprior.images.preparation import prepare_scans
from voxprior.images.sources import Source, find_sources, n_volumes, single_volumes, stem
from voxprior.images.tables import check_join, join_table, repeated_subject
from voxprior.images.trials import RUN_COLUMNS
from voxprior.labels import refuse_missing

__all__ = ["load_differences", "load_maps"]

SIGNS = {"t1-t2": 1.0, "t2-t1": -1.0}


class LabeledMaps(NamedTuple):
    """Images that have a label, with labels, covariates, groups, and what was left out.

    `columns` are the rows of the table; `files` says which image a volume is of.
    """

    sources: list[Source]
    y: np.ndarray | None
    covariates: pd.DataFrame | None
    groups: np.ndarray | None
    dropped: tuple[str, ...] = ()
    columns: pd.DataFrame | None = None
    files: np.ndarray | None = None


def load_maps(
    maps: Any,
    y: Any = None,
    *,
    table: Any = None,
    label: str | None = None,
    key: str | None = None,
    covariates: Any = None,
    groups: Any = None,
    unmatched: str = "raise",
    images: ImageSpace | None = None,
    **settings: Any,
) -> Dataset:
    """Read maps, one per sample: structural maps, contrasts, or the volumes of 4-D beta series.

    Parameters
    ----------
    maps : path, glob, image, SurfaceImage or list of these
        All 3-D, or all 4-D; each volume of a 4-D image is a sample, and the image their run unless
        `groups` says otherwise.
    y : sequence, optional
        A label for each sample.
    table : path or DataFrame, optional
        In place of `y`: a table joined by file name, see `join_table`. It has one row per image;
        where images are 4-D, one row per volume.
    label, key : str, optional
        Columns of labels and of file or subject names in `table`.
    covariates : DataFrame, or names of columns of `table`, optional
    groups : sequence, or name of a column of `table`, optional
        What training and test sets must not share. By default the subject where some have several
        maps (a column such as ``Subject`` or ``participant_id``, or ``sub-`` in file names), else
        the column ``run`` of the table, else the image, for 4-D images. Maps with groups may be
        centred by them, see `voxprior.images.preparation`.
    unmatched : {"raise", "drop"}
        What to do with images without a row and rows without an image.
    images : ImageSpace, optional
        Read with these fitted settings instead of fitting new ones.
    **settings
        Parameters of `fit_image_space`: mask, mesh, smoothing_fwhm, standardize, resample, ...

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import nibabel, numpy as np
    >>> from voxprior.images import load_maps
    >>> values = np.random.default_rng(0).normal(size=(4, 3, 3, 2))
    >>> maps = [nibabel.Nifti1Image(v, np.eye(4)) for v in values]
    >>> load_maps(maps, ["patient", "patient", "control", "control"])
    Dataset(4 samples, 18 voxels, labels control: 2, patient: 2)
    """
    check_fitting(images, settings)
    _check_labels(y, table, label, covariates, groups, unmatched)
    sources = find_sources(maps, settings.get("mesh"))
    counts = [n_volumes(source.load()) for source in sources]
    if table is None:
        found = _labeled_by_hand(sources, counts, y, covariates, groups)
    else:
        several = counts if max(counts) > 1 else None
        join = {"label": label, "key": key, "unmatched": unmatched, "volumes": several}
        found = _labeled_by_table(sources, table, covariates, groups, join)
    if images is None:  # to learn from; new scans may be of no group
        for name, values in (("y", found.y), ("groups", found.groups)):
            if values is not None:
                refuse_missing(name, values)
    given = images is not None or found.groups is not None
    by, said, decided = (found.groups, (), ()) if given else _default_groups(found)
    by = found.files if by is None else by
    names = _names(sources, counts) if table is None else [source.name for source in found.sources]
    if images is not None:
        X, findings = images.read_new(found.sources, groups=by)
        maps = ReadMaps(images, X, tuple(findings), ())
    else:
        maps = _read_to_learn(found, by, names, settings)
    if not maps.images.by_run and len(maps.X) > 1:
        warn_constant(maps.X, f"{len(maps.X)} maps, {found.sources[0].name} the first")
    return Dataset(
        X=maps.X,
        y=found.y,
        space=maps.images.space,
        groups=by,
        covariates=found.covariates,
        names=tuple(names),
        images=maps.images,
        standardize=maps.images.standardize,
        dropped=found.dropped,
        notes=(*maps.images.notes, *said),
        findings=maps.findings,
        decisions=(*decided, *maps.decisions),
        columns=found.columns,
    )


class ReadMaps(NamedTuple):
    """How maps were read, their rows, what cannot be right in them, and automatic choices."""

    images: ImageSpace
    X: np.ndarray
    findings: tuple[tuple[str, str], ...]
    decisions: tuple[str, ...]


def _read_to_learn(
    found: LabeledMaps, groups: np.ndarray | None, names: Sequence[str], settings: dict[str, Any]
) -> ReadMaps:
    """Read maps to learn from: find the mask, then what else is done to every map."""
    mode, scale = settings.get("standardize", "auto"), settings.get("scale", "auto")
    given = {"mask": "data"} if settings.get("mask") is None else {}  # betas are not an EPI run
    if mode == "auto" and found.groups is not None:
        given["standardize"] = "train"  # volumes whose groups are given are maps, not a run
    images = fit_image_space(found.sources, **settings | given)
    runs = found.groups if images.by_run else None
    images, (X, findings) = read_where_finite(
        lambda images: images.read_all(found.sources, runs), images, found.sources
    )
    if images.by_run:
        return ReadMaps(images, X, tuple(findings), ())
    scales = [scan_scale(x) for x in X]
    done = prepare_scans(
        X,
        found.y,
        groups,
        scale="none" if scale == "global" else scale,  # which was done in reading
        standardize=mode if mode in ("auto", "group") else "none",
        names=names,
    )
    if done.scale == "global":
        images = replace(images, scale="global")
    if done.standardize == "group":
        images = replace(images, standardize="group", center=done.center)
        findings += scan_findings(scales, names)  # of which centred maps show nothing any more
    return ReadMaps(images, done.X, tuple(findings), done.decisions)


def _names(sources: Sequence[Source], counts: Sequence[int]) -> list[str]:
    return [name for s, n in zip(sources, counts) for name in volume_names(s.name, n)]


Told = tuple[str, ...]


def _default_groups(found: LabeledMaps) -> tuple[np.ndarray | None, Told, Told]:
    """Groups where none are given, a word about it, and a decision: subjects, else runs."""
    if found.columns is None and found.files is not None:
        return found.files, (), ()
    groups, said = _subjects_together(found)
    column = None if groups is not None else _run_column(found)
    if column is None or found.columns is None:
        return groups, said, ()
    decided = f"Scans were grouped by the column {column!r}."
    return found.columns[column].to_numpy(), (), (decided,)


def _run_column(found: LabeledMaps) -> str | None:
    """Column that names the run of every scan, where there is one that is nothing else too."""
    table = pd.DataFrame() if found.columns is None else found.columns
    runs = [c for c in (find_column(table, name) for name in RUN_COLUMNS) if c is not None]
    if len(runs) != 1 or table[runs[0]].isna().any():
        return None
    used = found.covariates is not None and runs[0] in found.covariates
    decoded = found.y is not None and (found.y.astype(str) == table[runs[0]].astype(str)).all()
    parts = 1 < table[runs[0]].nunique() < len(table)
    return runs[0] if parts and not used and not decoded else None


def _subjects_together(found: LabeledMaps) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Groups that keep the maps of a subject together, and a word about it."""
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


def _check_labels(
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


def _labeled_by_hand(
    sources: list[Source], counts: Sequence[int], y: Any, covariates: Any, groups: Any
) -> LabeledMaps:
    """Give every image, or every volume of 4-D images, the label at its place."""
    names = _names(sources, counts)
    y = None if y is None else np.asarray(y)
    frame = None if covariates is None else pd.DataFrame(covariates).reset_index(drop=True)
    groups = None if groups is None else np.asarray(groups)
    check_join(None, () if frame is None else frame.columns)
    for what, values in (("labels", y), ("covariates", frame), ("groups", groups)):
        _check_length(what, values, names)
    return LabeledMaps(sources, y, frame, groups, files=_groups_of_files(sources, counts))


def _labeled_by_table(
    sources: list[Source], table: Any, covariates: Any, groups: Any, join: dict[str, Any]
) -> LabeledMaps:
    """Give every image, or every volume of 4-D images, its row in a table."""
    columns = [covariates] if isinstance(covariates, str) else list(covariates or ())
    extra = [groups] if isinstance(groups, str) else []
    volumes = join.get("volumes")
    files = [source.name for source in sources]
    joined = join_table(files, table, covariates=columns + extra, **join)
    by_file = None if volumes is None else _groups_of_files(sources, volumes)
    if volumes is not None:
        sources = [volume for source in sources for volume in single_volumes(source)]
    by = joined.table[groups].to_numpy() if isinstance(groups, str) else groups
    if by is not None and not extra:
        _check_length("groups", by, [source.name for source in sources])
        by = np.asarray(by)[joined.positions]
    frame = joined.covariates[columns] if columns and joined.covariates is not None else None
    chosen = [sources[p] for p in joined.positions]
    by_file = None if by_file is None else by_file[joined.positions]
    return LabeledMaps(chosen, joined.y, frame, by, joined.dropped, joined.table, by_file)


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


# ---------------------------------------------------------------- differences of two time points


def load_differences(
    first: Any,
    second: Any,
    y: Any = None,
    *,
    sign: str = "t1-t2",
    binary: bool = True,
    table: Any = None,
    label: str | None = None,
    key: str | None = None,
    covariates: Any = None,
    groups: Any = None,
    unmatched: str = "raise",
    images: ImageSpace | None = None,
    **settings: Any,
) -> Dataset:
    """Read two maps per subject and return the sign of their difference in every voxel.

    Parameters
    ----------
    first, second : path, glob, image or list of these
        The maps at both times, in the same order of subjects; ``sub-`` in the names is checked.
    y, table, label, key, covariates, groups, unmatched
        Labels and covariates as in `load_maps`; tables are joined by the name of the first map.
    sign : {"t1-t2", "t2-t1"}
        State 1 where this difference is positive: loss, or gain.
    binary : bool
        States 0 and 1 (float32), or the differences themselves.
    images : ImageSpace, optional
        Fitted settings, for new subjects.
    **settings
        Parameters of `fit_image_space`, mask and smoothing_fwhm above all.

    Returns
    -------
    Dataset
        With `standardize` "none" for states and "train" for differences.

    Examples
    --------
    >>> import nibabel, numpy as np
    >>> from voxprior.images import load_differences
    >>> before = nibabel.Nifti1Image(np.array([[[3.0, 2.0]]]), np.eye(4))
    >>> after = nibabel.Nifti1Image(np.array([[[2.0, 1.0]]]), np.eye(4))
    >>> load_differences([before], [after], mask=np.ones((1, 1, 2), bool)).X
    array([[1., 1.]], dtype=float32)
    """
    if sign not in SIGNS:
        raise InputError(
            f"{option('sign', sign)} is not a choice", expected=f"one of {', '.join(SIGNS)}"
        )
    check_fitting(images, settings)
    _check_labels(y, table, label, covariates, groups, unmatched)
    mesh = settings.get("mesh")
    pairs = _pairs(find_sources(first, mesh), find_sources(second, mesh))
    sources = [before for before, _ in pairs]
    if table is None:
        found = _labeled_by_hand(sources, [1] * len(sources), y, covariates, groups)
    else:
        join = {"label": label, "key": key, "unmatched": unmatched}
        found = _labeled_by_table(sources, table, covariates, groups, join)
    kept = {source.name: position for position, source in enumerate(found.sources)}
    pairs = [pair for pair in pairs if pair[0].name in kept]
    everything = [source for pair in pairs for source in pair]

    def read(images: ImageSpace) -> tuple[np.ndarray, list[float]]:
        return _differences(pairs, images, sign, binary)

    if images is not None:
        X, scales = read(images)
    else:
        settings = {"standardize": "none" if binary else "train"} | settings
        images = fit_image_space(everything, **settings)
        images, (X, scales) = read_where_finite(read, images, everything)
    groups, said = (found.groups, ()) if found.groups is not None else _subjects_together(found)
    state = f"state 1 iff {sign.replace('-', ' - ')} > 0" if binary else f"difference {sign}"
    return Dataset(
        X=X,
        y=found.y,
        space=images.space,
        groups=groups,
        covariates=found.covariates,
        names=tuple(before.name for before, _ in pairs),
        images=images,
        standardize=images.standardize,
        dropped=found.dropped,
        notes=(*images.notes, state, *said),
        findings=tuple(scan_findings(scales, [source.name for source in everything])),
        columns=found.columns,
    )


def _differences(
    pairs: list[tuple[Source, Source]], images: ImageSpace, sign: str, binary: bool
) -> tuple[np.ndarray, list[float]]:
    """Differences or states of all pairs, and the scale of every map."""
    X = np.empty((len(pairs), images.space.n_voxels), dtype=np.float32)
    scales = []
    for row, pair in zip(X, pairs):
        before, after = (images.read(source)[0] for source in pair)
        scales += [scan_scale(before), scan_scale(after)]
        difference = SIGNS[sign] * (before - after)
        row[:] = difference > 0 if binary else difference
    return X, scales


def _pairs(first: list[Source], second: list[Source]) -> list[tuple[Source, Source]]:
    if len(first) != len(second):
        longer, shorter = (first, second) if len(first) > len(second) else (second, first)
        raise InputError(
            f"{len(first)} first and {len(second)} second maps: {longer[len(shorter)].name} has no "
            "partner"
        )
    for before, after in zip(first, second):
        for source in (before, after):
            if n_volumes(source.load()) > 1:
                raise InputError(f"{source.name}: is 4-D", expected="one 3-D map per time point")
        subjects = {tuple(re.findall(r"sub-[A-Za-z0-9]+", s.name)[-1:]) for s in (before, after)}
        if len(subjects) > 1 and () not in subjects:
            raise InputError(
                f"{before.name} and {after.name}: are of different subjects",
                remedy="Give both lists in the same order",
            )
    return list(zip(first, second))
