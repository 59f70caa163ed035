"""What validation sees of a data set: the estimator that is fitted in every fold, and its rows.

Every way to a number goes through `prepared`: fitting, evaluation, permutation tests, learning
curves and comparisons, from Python and from the command line.
"""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline

from voxprior import modelfile, registry
from voxprior.decision.base import offer_groups
from voxprior.errors import InputError
from voxprior.images import Dataset, ImageSpace, scaled_by_training
from voxprior.images.trials import check_trials
from voxprior.validation.covariates import (
    CovariateCoding,
    CovariateRemoval,
    covariate_matrix,
    with_covariates,
)


class Prepared(NamedTuple):
    """An estimator and the rows it is fitted to."""

    estimator: Any
    X: np.ndarray

    def fit(self, data: Dataset) -> Any:
        """The estimator, fitted to all rows; groups go to one that can use them."""
        return self.estimator.fit(self.X, data.y, **offer_groups(self.estimator, data.groups))


def prepared(estimator: Any, data: Dataset) -> Prepared:
    """Copy of an estimator that does what the data ask for, and the rows it takes.

    It knows where the voxels are, scales them by the training scans unless runs were standardised
    or the estimator does it itself (``scales_voxels``), and takes out the effect of covariates,
    which are the last columns of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior import GPClassifier, VoxelSpace
    >>> from voxprior.decoder import prepared
    >>> from voxprior.images import Dataset
    >>> from voxprior.validation import cross_validate
    >>> X = np.random.default_rng(0).normal(size=(8, 27)).astype("f4")
    >>> data = Dataset(X, np.tile(["a", "b"], 4), VoxelSpace.grid((3, 3, 3)))
    >>> model, rows = prepared(GPClassifier(), data)
    >>> len(cross_validate(model, rows, data.y).scores)
    4
    """
    model = clone(named(estimator, data.y))
    if isinstance(estimator, str):
        registry.check_kind(model, data.y, estimator)
    unset = {
        name: data.space
        for name, value in model.get_params(deep=True).items()
        if value is None and name.split("__")[-1] == "space"
    }
    model.set_params(**unset)
    if data.standardize == "train" and not getattr(model, "scales_voxels", False):
        model = scaled_by_training(model)
    if data.covariates is None:
        return Prepared(model, data.X)
    removal = CovariateRemoval(len(CovariateCoding.of(data.covariates).columns))
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    rows = with_covariates(data.X, covariate_matrix(data.covariates)[0])
    return Prepared(make_pipeline(removal, *steps), rows)


def named(estimator: Any, y: Any = None) -> Any:
    """Estimator that a name stands for, or the default for such targets, or what is given."""
    if estimator is None or isinstance(estimator, str):
        return registry.model(estimator or registry.default_model(y)).make()
    return estimator


def name_of(estimator: Any, y: Any = None) -> str:
    """What users call an estimator: its name in the registry, else that of its class."""
    if estimator is None or isinstance(estimator, str):
        return estimator or registry.default_model(y)
    known = registry.model_of(estimator)
    return type(estimator).__name__ if known is None else known.name


def image_space(path: Any, state: dict[str, Any]) -> ImageSpace:
    """Build the reader of images again; its mask and affine must match their fingerprint."""
    try:
        images = ImageSpace.from_dict(state["images"])
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise InputError(f"{path}: holds images that are not what they should be") from error
    if images.space.digest != state["digest"]:
        raise InputError(f"{path}: holds a mask or affine that does not match its fingerprint")
    if state["trials"] is not None:
        cut = {"unit": "block", "window": None, "delay": 0.0} | state["trials"]
        with modelfile.naming(path):
            check_trials(cut["unit"], cut["window"], cut["delay"])
    return images


def same_setting(setting: Any, used: Any) -> bool:
    """Whether two settings are equal; images and meshes are not compared value by value."""
    if isinstance(setting, str | PurePath) and isinstance(used, str | PurePath):
        return str(setting) == str(used) or _is_one_file(setting, used)
    if isinstance(setting, bool | int | float):
        return type(setting) is type(used) and setting == used
    return setting is used


def _is_one_file(one: str | PurePath, other: str | PurePath) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # a word, such as "epi"
        return False
