"""Longitudinal difference maps: smooth both time points, subtract, and keep the sign.

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
from typing import Any

import numpy as np

from voxprior.images.cleaning import check_settings
from voxprior.images.dataset import Dataset
from voxprior.images.findings import scan_findings, scan_scale
from voxprior.images.finite import read_where_finite
from voxprior.images.imagespace import ImageSpace, fit_image_space
from voxprior.images.maps import label_sources
from voxprior.images.reading import Source, find_sources, n_volumes
from voxprior.images.tables import check_columns

__all__ = ["load_differences"]

SIGNS = {"t1-t2": 1.0, "t2-t1": -1.0}


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
    """Read two maps a subject and return the sign of their difference in every voxel.

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
        raise ValueError(f"sign must be 't1-t2' or 't2-t1'. Got {sign!r} instead.")
    if images is not None and settings:
        raise ValueError(f"images= is already fitted; leave out {', '.join(sorted(settings))}.")
    check_settings(**settings)
    if table is not None:
        check_columns(label, covariates)
    pairs = _pairs(find_sources(first), find_sources(second))
    names = [before.name for before, _ in pairs]
    sources = [before for before, _ in pairs]
    found = label_sources(sources, names, y, table, label, key, covariates, groups, unmatched)
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
    state = f"state 1 iff {sign.replace('-', ' - ')} > 0" if binary else f"difference {sign}"
    return Dataset(
        X=X,
        y=found.y,
        space=images.space,
        groups=found.groups,
        covariates=found.covariates,
        names=tuple(before.name for before, _ in pairs),
        images=images,
        standardize=images.standardize,
        dropped=found.dropped,
        notes=(*images.notes, state),
        findings=tuple(scan_findings(scales, [source.name for source in everything])),
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
        raise ValueError(
            f"{len(first)} first and {len(second)} second maps; "
            f"{longer[len(shorter)].name} has no partner."
        )
    for before, after in zip(first, second):
        for source in (before, after):
            if n_volumes(source.load()) > 1:
                raise ValueError(f"{source.name}: one 3-D map a time point is due, this is 4-D.")
        subjects = {tuple(re.findall(r"sub-[A-Za-z0-9]+", s.name)[-1:]) for s in (before, after)}
        if len(subjects) > 1 and () not in subjects:
            raise ValueError(
                f"{before.name} and {after.name}: are of different subjects. "
                "Give both lists in the same order."
            )
    return list(zip(first, second))
