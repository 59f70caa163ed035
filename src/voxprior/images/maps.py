"""Maps to a Dataset: one map a subject, beta series, GLM maps; labels given or from a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from voxprior.images.cleaning import check_settings
from voxprior.images.dataset import Dataset
from voxprior.images.findings import volume_names
from voxprior.images.finite import read_where_finite
from voxprior.images.imagespace import ImageSpace, fit_image_space, warn_constant
from voxprior.images.reading import Source, find_sources, n_volumes, stem
from voxprior.images.tables import check_columns, join_table

__all__ = ["Labelled", "label_sources", "load_maps"]


class Labelled(NamedTuple):
    """Images that have a label, with labels, covariates, groups, and what was left out."""

    sources: list[Source]
    y: np.ndarray | None
    covariates: pd.DataFrame | None
    groups: np.ndarray | None
    dropped: tuple[str, ...]


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
    """Read maps, one a sample: structural maps, contrasts, or the volumes of 4-D beta series.

    Parameters
    ----------
    maps : path, glob, image, SurfaceImage or list of these
        All 3-D, or all 4-D; each volume of a 4-D image is a sample and the image their run.
    y : sequence, optional
        A label for each sample.
    table : path or DataFrame, optional
        In place of `y`: a table joined by file name, see `join_table`.
    label, key : str, optional
        Columns of labels and of file or subject names in `table`.
    covariates : DataFrame, or names of columns of `table`, optional
    groups : sequence, or name of a column of `table`, optional
        What training and test sets must not share. For 4-D images the image, by default.
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
    if images is not None and set(settings) - {"mesh"}:
        raise ValueError(f"images= is already fitted; leave out {', '.join(sorted(settings))}.")
    check_settings(**settings)
    if table is not None:
        check_columns(label, covariates)
    sources = find_sources(maps, settings.get("mesh"))
    counts = [n_volumes(source.load()) for source in sources]
    if table is not None and max(counts) > 1:
        raise ValueError(
            f"{sources[int(np.argmax(counts))].name}: has {max(counts)} volumes, but a table "
            "has one row a file. Give y, a label for each volume, instead."
        )
    names = [name for s, n in zip(sources, counts) for name in volume_names(s.name, n)]
    found = label_sources(sources, names, y, table, label, key, covariates, groups, unmatched)
    if images is not None:
        X, findings = images.read_new(found.sources)
    else:
        if settings.get("mask") is None:
            settings["mask"] = "data"  # a 4-D beta series is no EPI run
        images = fit_image_space(found.sources, **settings)
        images, (X, findings) = read_where_finite(
            lambda images: images.read_all(found.sources), images, found.sources
        )
    by = found.groups
    if by is None and max(counts) > 1 and len(sources) > 1:
        stems = [stem(source.name) for source in sources]
        unique = len(set(stems)) == len(stems)
        by = np.repeat(np.array(stems) if unique else np.arange(len(stems)), counts)
    if max(counts) == 1 and len(X) > 1:
        warn_constant(X, f"{len(X)} maps, {found.sources[0].name} the first")
    return Dataset(
        X=X,
        y=found.y,
        space=images.space,
        groups=by,
        covariates=found.covariates,
        names=tuple(names if table is None else [source.name for source in found.sources]),
        images=images,
        standardize=images.standardize,
        dropped=found.dropped,
        notes=images.notes,
        findings=tuple(findings),
    )


def label_sources(
    sources: list[Source],
    names: Sequence[str],
    y: Any,
    table: Any,
    label: str | None,
    key: str | None,
    covariates: Any,
    groups: Any,
    unmatched: str,
) -> Labelled:
    """Give every image its label, from `y` or from a table."""
    if table is None:
        if label is not None or isinstance(groups, str):
            raise ValueError("label= and groups= name columns of a table; give table= too.")
        y = None if y is None else np.asarray(y)
        frame = None if covariates is None else pd.DataFrame(covariates).reset_index(drop=True)
        groups = None if groups is None else np.asarray(groups)
        check_columns(None, () if frame is None else frame.columns)
        for what, values in (("labels", y), ("covariates", frame), ("groups", groups)):
            _check_length(what, values, names)
        return Labelled(sources, y, frame, groups, ())
    if y is not None:
        raise ValueError("Give y or table, not both.")
    columns = [covariates] if isinstance(covariates, str) else list(covariates or ())
    extra = [groups] if isinstance(groups, str) else []
    joined = join_table(
        names, table, label=label, covariates=columns + extra, key=key, unmatched=unmatched
    )
    by = joined.table[groups].to_numpy() if isinstance(groups, str) else groups
    if by is not None and not extra:
        _check_length("groups", by, names)
        by = np.asarray(by)[joined.positions]
    frame = joined.covariates[columns] if columns and joined.covariates is not None else None
    chosen = [sources[p] for p in joined.positions]
    return Labelled(chosen, joined.y, frame, by, joined.dropped)


def _check_length(what: str, values: Any, names: Sequence[str]) -> None:
    if values is None or len(values) == len(names):
        return
    if len(values) < len(names):
        raise ValueError(
            f"{len(names)} images but {len(values)} {what}: images without {what}, from "
            f"{names[len(values)]} on."
        )
    raise ValueError(f"{len(names)} images but {len(values)} {what}: {what} without images.")
