"""Several classifiers, one posterior: mean, product with the prior counted once, learned weights.

    mean       π_c = Σ_k w_k π_kc,   Σ_k w_k = 1                                           (1)
    product    π_c ∝ p_c Π_k (π_kc / p_c)^{w_k}                                            (2)

With w_k = 1, (2) is Bayes' rule for K classifiers that look at independent data: the likelihoods
multiply, and the prior p, which every π_k contains, counts once instead of K times. Weights:

    evidence   w_k ∝ exp(log evidence of model k)                                          (3)
    log-loss   w_k ∝ exp(Σ_i log π_k(y_i)), i over scans held out in training              (4)
    left out   the same sum, where a model has it from its own posterior without a refit

so that (1) with (3) is Bayesian model averaging and with (4) its held-out counterpart. All sum
to 1. An evidence is the probability of all labels, so the model must be one of the labels as a
whole: classes fitted each against the rest are C models of yes and no, which give probability to
scans of two classes and of none, and the sum of their log-evidences weighs nothing.

| symbol | variable | shape |
|---|---|---|
| π_k | `probabilities` | (K, n, C) |
| p | `prior` | (C,) |
| w | `weights` | (K,) |

References
----------
Kittler, Hatef, Duin & Matas, "On combining classifiers", IEEE TPAMI 20, 1998.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn import get_config
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from voxprior.algebra import floored_log
from voxprior.decision.base import offer_groups, require_probabilities
from voxprior.decision.held_out import held_out_log_scores
from voxprior.errors import InputError, option


def combine_mean(probabilities, weights=None) -> np.ndarray:
    """Weighted mean of posteriors, equation (1).

    Examples
    --------
    >>> from voxprior.decision import combine_mean
    >>> combine_mean([[[0.9, 0.1]], [[0.5, 0.5]]]).round(2).tolist()
    [[0.7, 0.3]]
    """
    p = np.asarray(probabilities, dtype=float)
    w = np.ones(len(p)) if weights is None else np.asarray(weights, dtype=float)
    return np.tensordot(w / w.sum(), p, axes=1)


def combine_product(probabilities, prior, weights=None) -> np.ndarray:
    """Product of posteriors with the shared prior counted once, equation (2).

    Examples
    --------
    >>> from voxprior.decision import combine_product
    >>> combine_product([[[0.8, 0.2]], [[0.8, 0.2]]], prior=[0.8, 0.2]).round(2).tolist()
    [[0.8, 0.2]]
    """
    log_p = floored_log(probabilities)
    w = np.ones(len(log_p)) if weights is None else np.asarray(weights, dtype=float)
    log_prior = np.log(np.asarray(prior, dtype=float))
    return softmax(log_prior + np.tensordot(w, log_p - log_prior, axes=1), axis=1)


def evidence_weights(log_evidence) -> np.ndarray:
    """Posterior probabilities of the models at equal priors, equation (3)."""
    return softmax(np.asarray(log_evidence, dtype=float))


def log_loss_weights(log_losses, n_scans) -> np.ndarray:
    """Weights from mean held-out log-losses over n scans, equation (4)."""
    return softmax(-n_scans * np.asarray(log_losses, dtype=float))


class CombinedClassifier(ClassifierMixin, _BaseComposition):
    """Classifiers fitted to the same scans, combined into one posterior.

    Parameters
    ----------
    estimators : list of (name, classifier)
        What to combine; all with predict_proba.
    rule : {"mean", "product"}, default="mean"
        Equation (1) or (2).
    weights : None, array of shape (K,), "evidence", "left_out" or "log_loss", default=None
        None: equal (1/K for the mean, 1 for the product). "evidence" reads ``log_evidence_`` of the
        fitted classifiers, "left_out" their ``left_out_log_score_``, "log_loss" holds scans out
        inside the training data.
    cv : int, splitter or None, default=None
        Split for "log_loss", as in `TemperatureCalibrated`.

    Attributes
    ----------
    estimators_ : list
        Fitted classifiers.
    weights_ : array of shape (K,)
        Weights used.
    class_prior_ : array of shape (C,)
        Training frequencies, the prior of the product.
    classes_ : array of shape (C,)
        Labels.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from voxprior.decision import CombinedClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> both = [("nb", GaussianNB()), ("logistic", LogisticRegression(max_iter=500))]
    >>> CombinedClassifier(both, weights="log_loss").fit(X, y).weights_.round(2).tolist()
    [0.66, 0.34]
    """

    def __init__(self, estimators, *, rule="mean", weights=None, cv=None):
        self.estimators = estimators
        self.rule = rule
        self.weights = weights
        self.cv = cv

    def get_params(self, deep=True) -> dict[str, Any]:
        """Parameters, those of the classifiers as ``name__parameter``."""
        return self._get_params("estimators", deep=deep)

    def set_params(self, **params):
        """Set parameters, those of the classifiers as ``name__parameter``."""
        return self._set_params("estimators", **params)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = [get_tags(model).input_tags for _, model in self.estimators]
        tags.input_tags.sparse = all(tag.sparse for tag in inner)
        tags.input_tags.allow_nan = all(tag.allow_nan for tag in inner)
        tags.input_tags.pairwise = all(tag.pairwise for tag in inner)
        return tags

    def get_metadata_routing(self):
        """Route the metadata of ``fit`` to every classifier's ``fit``."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        return router.add(**dict(self.estimators), method_mapping=mapping)

    def fit(self, X, y, groups=None, **fit_params):
        """Fit every classifier, and learn the weights where they are to be learned."""
        self._check_parameters()
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, counts = np.unique(y, return_counts=True)
        self.class_prior_ = counts / counts.sum()
        self.estimators_ = []
        for name, model in self.estimators:
            params = self._params_of(name, model, groups, fit_params)
            self.estimators_.append(clone(model).fit(X, y, **params))
            require_probabilities(self.estimators_[-1], type(self).__name__)
        self.weights_ = self._learn_weights(X, y, groups, fit_params)
        first = self.estimators_[0]
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(first, name):
                setattr(self, name, getattr(first, name))
        return self

    # Groups reach `fit` by themselves where scikit-learn routes metadata.
    __metadata_request__fit = {"groups": True}  # noqa: RUF012

    def _params_of(self, name, model, groups, fit_params) -> dict[str, Any]:
        given = {key: value for key, value in fit_params.items() if value is not None}
        if not get_config()["enable_metadata_routing"]:
            return given | offer_groups(model, groups)
        if groups is not None:
            given["groups"] = groups
        return dict(process_routing(self, "fit", **given)[name].fit)

    def _check_parameters(self) -> None:
        if not self.estimators:
            raise InputError(
                f"{option('estimators')} are empty", expected="at least one (name, classifier)"
            )
        self._validate_names([name for name, _ in self.estimators])
        if self.rule not in ("mean", "product"):
            raise InputError(
                f"{option('rule', self.rule)} is not known", expected="'mean' or 'product'"
            )

    def _learn_weights(self, X, y, groups, fit_params) -> np.ndarray:
        n_models = len(self.estimators_)
        if self.weights is None:
            return np.full(n_models, 1.0 if self.rule == "product" else 1.0 / n_models)
        if not isinstance(self.weights, str):
            return _check_weights(self.weights, n_models)
        if self.weights == "evidence":
            return evidence_weights([_evidence(m) for m in self.estimators_])
        if self.weights == "left_out":
            return evidence_weights([_left_out_score(m) for m in self.estimators_])
        if self.weights == "log_loss":
            losses = [
                held_out_log_loss(
                    model,
                    X,
                    y,
                    groups,
                    self.cv,
                    self._params_of(name, model, groups, fit_params),
                )
                for name, model in self.estimators
            ]
            return log_loss_weights(losses, len(y))
        raise InputError(
            f"{option('weights', self.weights)} is not known",
            expected="None, numbers, 'evidence', 'left_out' or 'log_loss'",
        )

    def predict_proba(self, X) -> np.ndarray:
        """Combined posteriors, (n, C)."""
        check_is_fitted(self)
        p = np.stack([model.predict_proba(X) for model in self.estimators_])
        if self.rule == "mean":
            return combine_mean(p, self.weights_)
        return combine_product(p, self.class_prior_, self.weights_)

    def predict(self, X) -> np.ndarray:
        """Most probable class."""
        posteriors = self.predict_proba(X)
        return self.classes_[posteriors.argmax(axis=1)]


def held_out_log_loss(estimator, X, y, groups=None, cv=None, fit_params=None) -> float:
    """Mean log-loss of a classifier on scans held out inside the training data."""
    held_out = held_out_log_scores(estimator, X, y, groups, cv, fit_params)
    log_p = log_softmax(held_out.log_scores, axis=1)
    return float(-log_p[np.arange(len(log_p)), held_out.code].mean())


def _evidence(model) -> float:
    """Log evidence of the labels as a whole; several numbers, or one per class, are not that."""
    value = getattr(model, "log_evidence_", None)
    if value is not None and np.ndim(value) == 0 and np.isfinite(value):
        return float(value)
    got = "none" if value is None else repr(value)
    if hasattr(model, "log_evidences_"):
        got = "one for each class against the rest"
    raise InputError(
        f"{option('weights', 'evidence')} cannot be used",
        expected="classifiers with an evidence of the labels as a whole, log_evidence_",
        got=f"{type(model).__name__} with {got}",
        remedy=f"Use {option('weights', 'left_out')} or {option('weights', 'log_loss')}",
    )


def _left_out_score(model) -> float:
    value = getattr(model, "left_out_log_score_", None)
    if value is None:
        raise InputError(
            f"{option('weights', 'left_out')} cannot be used",
            expected="classifiers with left_out_log_score_",
            got=f"{type(model).__name__}, which has none",
            remedy=f"Use {option('weights', 'log_loss')}",
        )
    return float(value)


def _check_weights(weights: Sequence, n_models: int) -> np.ndarray:
    vector = np.asarray(weights, dtype=float)
    valid = vector.shape == (n_models,) and np.all(np.isfinite(vector)) and np.all(vector >= 0)
    if not valid or vector.sum() == 0:
        raise InputError(
            f"{option('weights')} cannot be used",
            expected=f"{n_models} numbers of at least 0, one per classifier, not all 0",
            got=repr(weights),
        )
    return vector
