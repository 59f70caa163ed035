"""Rows of new images for a fitted decoder: read, prepared and with covariates as in training."""

from __future__ import annotations

from typing import Any

import numpy as np

from voxprior.errors import InputError, option
from voxprior.images import Dataset, ImageSpace
from voxprior.validation.covariates import CovariateCoding, with_covariates


def new_rows(
    masker: ImageSpace,
    coding: CovariateCoding | None,
    images: Any,
    groups: Any = None,
    covariates: Any = None,
    mesh: Any = None,
) -> np.ndarray:
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
        X = images.X
    else:
        X = masker.transform(images, mesh=mesh, groups=groups)
    if coding is None:
        return X
    if covariates is None:
        raise InputError(
            f"The decoder was fitted with covariates, {', '.join(coding.levels)}",
            remedy=f"Give those of the new images too, {option('covariates')}",
        )
    return with_covariates(X, coding.matrix(covariates))


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
