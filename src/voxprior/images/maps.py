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
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from voxprior.errors import InputError, option
from voxprior.images.dataset import Dataset
from voxprior.images.findings import (
    mask_findings,
    scan_findings,
    scan_scale,
    scan_scales,
    warn_constant_voxels,
)
from voxprior.images.fitting import check_fitting, fit_image_space, read_where_finite
from voxprior.images.imagespace import ImageSpace
from voxprior.images.labelling import (
    FoundLabels,
    LabeledMaps,
    check_labels,
    find_labels,
    labeled_by_hand,
    labeled_by_table,
    subjects_together,
)
from voxprior.images.packed import PackedMaps, is_packed, open_packed, refuse_reading_settings
from voxprior.images.preparation import prepare_scans
from voxprior.images.sources import Source, find_sources, n_volumes
from voxprior.images.tables import check_join
from voxprior.images.volumes import VOLUMES_COMPARED, refuse_lost_differences
from voxprior.labels import refuse_unclear

__all__ = ["load_differences", "load_maps"]

SIGNS = {"t1-t2": 1.0, "t2-t1": -1.0}


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
    maps : path, glob, image, SurfaceImage or list of these, or a packed study
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
    labels: dict[str, Any] = {"table": table, "label": label, "key": key, "covariates": covariates}
    labels |= {"groups": groups, "unmatched": unmatched, "new": images is not None}
    if is_packed(maps):
        packed = open_packed(maps)
        found = _packed_labels(packed, y, labels)
        read = _read_packed(packed, found, images, settings)
    else:
        # Options are refused before files are read.
        check_labels(y, table, label, covariates, groups, unmatched)
        sources = find_sources(maps, settings.get("mesh"))
        counts = [n_volumes(source.load()) for source in sources]
        found = find_labels(sources, counts, y, **labels)
        if images is None:
            read = _read_to_learn(found, settings)
        else:
            X, findings = images.read_new(found.maps.sources, groups=found.groups)
            read = ReadMaps(images, X, tuple(findings), ())
    if images is None and not read.images.by_run and len(read.X) > 1:
        warn_constant_voxels(read.X, f"{len(read.X)} maps, {found.names[0]} the first")
    return Dataset(
        X=read.X,
        y=found.maps.y,
        space=read.images.space,
        groups=found.groups,
        covariates=found.maps.covariates,
        names=tuple(found.names),
        images=read.images,
        standardize=read.images.standardize,
        dropped=found.maps.dropped,
        notes=(*read.images.notes, *found.said),
        findings=(*read.findings, *mask_findings(read.images.space)),
        looked=("mask-size",),
        settings=dict(settings),
        decisions=(*found.decided, *read.decisions),
        columns=found.maps.beside_label(),
    )


class ReadMaps(NamedTuple):
    """How maps were read, their rows, what cannot be right in them, and automatic choices."""

    images: ImageSpace
    X: np.ndarray
    findings: tuple[tuple[str, str], ...]
    decisions: tuple[str, ...]


def _read_to_learn(found: FoundLabels, settings: dict[str, Any]) -> ReadMaps:
    """Read maps to learn from: find the mask, then what else is done to every map."""
    given = {"mask": "auto"} if settings.get("mask") is None else {}  # betas are not an EPI run
    if settings.get("standardize", "auto") == "auto" and found.maps.groups is not None:
        given["standardize"] = "train"  # volumes whose groups are given are maps, not a run
    images, sources = fit_image_space(found.maps.sources, **settings | given), found.maps.sources
    runs = found.maps.groups if images.by_run else None
    images, (X, findings) = read_where_finite(
        lambda images: images.read_all(sources, runs), images, sources
    )
    if images.by_run:
        return ReadMaps(images, X, tuple(findings), ())
    if images.parts is None:
        first = [source.load() for source in sources[:VOLUMES_COMPARED]]
        refuse_lost_differences(X, first, images.space.mask, sources[0].name)
    return _prepared(ReadMaps(images, X, tuple(findings), ()), found, settings)


def _prepared(read: ReadMaps, found: FoundLabels, settings: dict[str, Any]) -> ReadMaps:
    """Divide maps by their means and centre them by group, where settings or rules say so."""
    mode, scale = settings.get("standardize", "auto"), settings.get("scale", "auto")
    images, findings, scales = read.images, read.findings, scan_scales(read.X)
    done = prepare_scans(
        read.X,
        found.maps.y,
        found.groups,
        # What was asked for was done in reading.
        scale="none" if images.scale == "global" else scale,
        standardize=mode if mode in ("auto", "group") else "none",
        names=found.names,
    )
    if done.scale == "global":
        images = replace(images, scale="global")
    if done.standardize == "group":
        images = replace(images, standardize="group", center=done.center)
        # Centred maps no longer show it.
        findings = (*findings, *scan_findings(scales, found.names))
    return ReadMaps(images, done.X, findings, done.decisions)


# ---------------------------------------------------------------- a packed study


def _packed_labels(packed: PackedMaps, y: Any, labels: dict[str, Any]) -> FoundLabels:
    """What a store holds on its scans; another table, or labels one by one, take precedence."""
    sources = packed.sources
    if y is not None or labels["table"] is not None or packed.table is None:
        found = find_labels(sources, [1] * len(sources), y, **labels)
        kept = [source.item for source in found.maps.sources]
        if labels["groups"] is not None or packed.groups is None:
            return found
        return found._replace(groups=packed.groups[kept])
    table, label, by = packed.table, labels["label"] or packed.label, labels["groups"]
    given = labels["covariates"]
    columns = packed.covariates if given is None else given
    columns = [columns] if isinstance(columns, str) else list(columns)
    named = [label] * (label is not None) + columns + [by] * isinstance(by, str)
    unknown = [name for name in named if name not in table]
    if unknown:
        raise InputError(
            f"{packed.path}: the store has no column {unknown[0]!r}",
            expected=f"one of {', '.join(map(str, table))}" if len(table.columns) else None,
            remedy=f"Give the table that has it by {option('table')}",
        )
    check_join(label, columns)
    groups = table[by].to_numpy() if isinstance(by, str) else by
    groups = packed.groups if groups is None else np.asarray(groups)
    if label is not None and not labels["new"]:
        refuse_unclear("y", table[label])
    maps = LabeledMaps(
        sources,
        None if label is None else np.array(table[label].tolist()),
        table[columns] if columns else None,
        groups,
        tuple(packed.said["dropped"]),
        table,
        label=label,
    )
    said, decided = (tuple(packed.said[name]) for name in ("notes", "decisions"))
    return FoundLabels(maps, packed.names, groups, said, decided)


def _read_packed(
    packed: PackedMaps, found: FoundLabels, images: ImageSpace | None, settings: dict[str, Any]
) -> ReadMaps:
    """Scans of a store, prepared to learn from, or as those that a fitted space has learned from.

    Reading decided the mask and smoothing; what is done to whole scans is decided here.
    """
    X = packed.read(np.array([source.item for source in found.maps.sources]))
    if images is None:
        refuse_reading_settings(packed, settings)
        mode = "none" if settings.get("standardize") == "none" else "train"
        read = ReadMaps(replace(packed.images, standardize=mode), X, (), ())
        return _prepared(read, found, settings)
    for what in ("space", "smoothing_fwhm"):
        own, wanted = getattr(packed.images, what), getattr(images, what)
        if own != wanted:
            raise InputError(
                f"{packed.path}: is of another study than the decoder",
                expected=f"{wanted!r}",
                got=f"{own!r}",
                remedy="Pack these images with the mask and smoothing of that study",
            )
    return ReadMaps(images, images.prepare_new(X, found.names, found.groups), (), ())


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
    check_labels(y, table, label, covariates, groups, unmatched)
    mesh = settings.get("mesh")
    pairs = _pairs(find_sources(first, mesh), find_sources(second, mesh))
    sources = [before for before, _ in pairs]
    if table is None:
        found = labeled_by_hand(sources, [1] * len(sources), y, covariates, groups)
    else:
        join = {"label": label, "key": key, "unmatched": unmatched}
        found = labeled_by_table(sources, table, covariates, groups, join)
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
    groups, said = (found.groups, ()) if found.groups is not None else subjects_together(found)
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
        findings=(
            *scan_findings(scales, [source.name for source in everything]),
            *mask_findings(images.space),
        ),
        looked=("mask-size",),
        columns=found.beside_label(),
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
