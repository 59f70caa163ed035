"""Rows of new images for a fitted decoder: read, prepared and with covariates as in training.

Where maps are centred by group, the mean of a group must hold no class: a new group of one class
only loses its class with its mean. `voxprior.decoder.one_class` detects that in the scans, whatever
the model; and the probabilities p_i of the scans of such a group hardly differ. Their information
about which scan is of which class is

    I = H(mean_i p_i) - mean_i H(p_i),    H(p) = -Σ_c p_c log p_c,    at most log C,        (1)

and groups with I < .1 log C are warned about too: nothing can be decoded in them. A model that is
sure of noise escapes that limit; benchmarks/preparation.md counts both.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import entr

from voxprior.decoder.one_class import ClassSpread
from voxprior.errors import InputError, InputWarning, option
from voxprior.images import Dataset, ImageSpace
from voxprior.images.findings import listed
from voxprior.images.sources import find_sources
from voxprior.validation.covariates import CovariateCoding, with_covariates

TOLD_APART = 0.1  # share of log C in (1)


class NewRows(NamedTuple):
    """Rows of new images, and their groups where they were centred by them."""

    X: np.ndarray
    groups: Any = None


def new_rows(
    masker: ImageSpace,
    coding: CovariateCoding | None,
    images: Any,
    groups: Any = None,
    covariates: Any = None,
    mesh: Any = None,
) -> NewRows:
    """Turn new images, or a Dataset of them, into the rows that a fitted estimator takes.

    Parameters
    ----------
    masker : ImageSpace
        Fitted on the training images.
    coding : CovariateCoding or None
        Of the covariates of the training images, if there were any.
    images : path, glob, image, SurfaceImage, list of these, or Dataset
    groups : sequence, optional
        Group of each image.
    covariates : DataFrame, optional
    mesh : optional
        Mesh of GIFTI files.
    """
    if isinstance(images, Dataset):
        _check_read_alike(images, masker, groups)
        covariates = images.covariates if covariates is None else covariates
        X, groups = images.X, images.groups
    else:
        sources = find_sources(images, mesh)
        groups = masker.groups_of(sources) if groups is None else groups
        X = masker.read_new(sources, groups=groups)[0]
    groups = groups if masker.standardize == "group" else None
    if coding is None:
        return NewRows(X, groups)
    if covariates is None:
        raise InputError(
            f"The decoder was fitted with covariates, {', '.join(coding.levels)}",
            remedy=f"Give those of the new images too, {option('covariates')}",
        )
    return NewRows(with_covariates(X, coding.matrix(covariates)), groups)


def told_apart(P: np.ndarray) -> float:
    """Information of probabilities (n, C) on which scan has which class, as a share of log C (1).

    >>> import numpy as np
    >>> told_apart(np.array([[0.5, 0.5], [0.5, 0.5]])), told_apart(np.eye(2))
    (0.0, 1.0)
    """
    known = entr(P.mean(axis=0)).sum() - entr(P).sum(axis=1).mean()
    return float(known / np.log(P.shape[1]))


def warn_of_alike(estimator: Any, rows: NewRows, known: ClassSpread | None = None) -> None:
    """Warn of centred groups that spread like one class, or whose information (1) is low."""
    if rows.groups is None or not hasattr(estimator, "predict_proba"):
        return
    codes, names = pd.factorize(np.asarray(rows.groups, dtype=object))
    members = {str(name): np.flatnonzero(codes == g) for g, name in enumerate(names)}
    single = []
    if known is not None:
        scans = rows.X[:, : known.means.shape[1]]  # covariates are the last columns
        single = [name for name, own in members.items() if known.is_one_class(scans[own])]
    if single:
        text = (
            f"The scans of {listed(single)} differ along the class means no more than scans of one "
            "class do. If such a group holds one class only, it is lost where scans are centred "
            f"by group: give its scans no group then, see {option('groups')}."
        )
        warnings.warn(InputWarning(text), stacklevel=3)
    P = estimator.predict_proba(rows.X)
    alike = [
        name
        for name, own in members.items()
        if name not in single and len(own) > 1 and told_apart(P[own]) < TOLD_APART
    ]
    if alike:
        text = (
            f"The probabilities hardly tell the scans of {listed(alike)} apart. Either nothing can "
            "be decoded there, or such a group holds one class only, which is lost where scans are "
            f"centred by group: give its scans no group then, see {option('groups')}."
        )
        warnings.warn(InputWarning(text), stacklevel=3)


def _check_read_alike(data: Dataset, masker: ImageSpace, groups: Any) -> None:
    """Refuse a Dataset whose rows are not what the decoder has learned from."""
    remedy = "Read it with images=decoder.masker_"
    if groups is not None:
        raise InputError(
            "A Dataset is already read, so groups would have no effect",
            remedy=f"{remedy} and these groups",
        )
    if data.space != masker.space:
        raise InputError(
            "The dataset was read in another space than the decoder was fitted in",
            expected=repr(masker.space),
            got=repr(data.space),
            remedy=remedy,
        )
    if data.images is not None and _preparation(data.images) != _preparation(masker):
        raise InputError(
            "The dataset was prepared otherwise than the scans that the decoder was fitted on",
            expected=_preparation(masker),
            got=_preparation(data.images),
            remedy=remedy,
        )


def _preparation(images: ImageSpace) -> str:
    return f"standardize={images.standardize!r}, scale={images.scale!r}"
