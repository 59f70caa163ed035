"""Classifiers around a classifier: what is passed to the inner one, and what is read from it.

Scikit-learn's metadata (``sample_weight`` and the like) goes to the inner ``fit``: by request where
metadata routing is on, as it comes where it is off. ``groups`` go to estimators that can use them,
see `offer_groups`.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    get_routing_for_object,
    process_routing,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from voxprior.errors import InputTypeError

# Where scikit-learn's classifiers keep the class frequencies they were trained with.
PRIOR_ATTRIBUTES = ("class_prior_", "priors_")


class WrappedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier that holds another one, ``estimator``, and its fitted copy, ``estimator_``."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.pairwise = inner.input_tags.pairwise
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.classifier_tags.poor_score = inner.classifier_tags.poor_score
        return tags

    def get_metadata_routing(self):
        """Route the metadata of ``fit`` to the inner ``fit``."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=type(self).__name__)
        router.add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=mapping)

    # Groups reach `fit` by themselves where scikit-learn routes metadata.
    __metadata_request__fit = {"groups": True}  # noqa: RUF012

    def _inner_fit_params(self, fit_params: dict[str, Any], groups=None) -> dict[str, Any]:
        given = {name: value for name, value in fit_params.items() if value is not None}
        if not get_config()["enable_metadata_routing"]:
            return given | offer_groups(self.estimator, groups)
        if groups is not None:
            given["groups"] = groups
        return dict(process_routing(self, "fit", **given).estimator.fit)

    def _read_inner(self) -> None:
        """Take over what describes the input of the fitted inner classifier."""
        self.classes_ = self.estimator_.classes_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    @available_if(lambda self: hasattr(self.estimator_, "voxel_maps"))
    def voxel_maps(self) -> dict[str, np.ndarray]:
        """Maps of what the fitted inner classifier used."""
        return self.estimator_.voxel_maps()

    def _inner_probabilities(self, X) -> np.ndarray:
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)


def offer_groups(estimator, groups) -> dict[str, Any]:
    """Arguments of ``fit`` that hand over the groups, if the estimator can use them.

    It can if its ``fit`` names ``groups``, if it is a search (its split needs them), if it is a
    pipeline with a step that can, or if it has requested them where metadata routing is on.
    """
    if groups is None:
        return {}
    if get_config()["enable_metadata_routing"]:
        wanted = get_routing_for_object(estimator).consumes("fit", ["groups"])
        return {"groups": groups} if wanted else {}
    if isinstance(estimator, Pipeline):
        return {
            f"{name}__{argument}": value
            for name, step in estimator.steps
            if hasattr(step, "fit")
            for argument, value in offer_groups(step, groups).items()
        }
    named = "groups" in inspect.signature(estimator.fit).parameters
    search = isinstance(estimator, GridSearchCV | RandomizedSearchCV)
    return {"groups": groups} if named or search else {}


def require_probabilities(estimator, owner: str) -> None:
    """Refuse a classifier that gives no probabilities."""
    if not hasattr(estimator, "predict_proba"):
        raise InputTypeError(
            f"{owner} cannot use {type(estimator).__name__}",
            expected="a classifier with predict_proba",
            remedy="Wrap it in TemperatureCalibrated, or choose a setting that gives probabilities",
        )


def trained_prior(estimator) -> np.ndarray | None:
    """Class prior that a fitted classifier has inside, looked for in pipelines and searches too."""
    for name in PRIOR_ATTRIBUTES:
        if hasattr(estimator, name):
            return np.asarray(getattr(estimator, name), dtype=float)
    if hasattr(estimator, "class_log_prior_"):
        return np.exp(np.asarray(estimator.class_log_prior_, dtype=float))
    for name in ("best_estimator_", "estimator_"):
        if hasattr(estimator, name):
            return trained_prior(getattr(estimator, name))
    return trained_prior(estimator[-1]) if hasattr(estimator, "steps") else None
