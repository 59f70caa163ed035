"""What a random field classifier does with more scans: stream, adapt, tune its threshold."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from voxprior.models.fields.adaptation import adapt_fields
from voxprior.models.fields.nodes import Nodes, rank_features
from voxprior.models.fields.streaming import absorb_scans, empty_stream, stream_fields
from voxprior.models.fields.threshold import tune_offsets
from voxprior.models.fields.training import Recipe, class_scores, log_partitions


def _can_stream(self) -> bool:
    """Whether fitting scan by scan can equal fitting at once; says why not."""
    wants = []
    if self.nodes is None:
        wants.append("nodes given (ranking needs all scans)")
    if self.standardize:
        wants.append("standardize=False (statistics need all scans; standardise beforehand)")
    if self.gamma == "auto" or (self.r_eps is None and self.compression == "auto"):
        wants.append("gamma and compression as numbers (choosing them needs all scans)")
    if wants:
        raise AttributeError(f"partial_fit needs {'; '.join(wants)}.")
    return True


class Continuation:
    """The methods of ``RandomFieldClassifier`` that take further scans."""

    @available_if(_can_stream)
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self: Any, X, y, classes=None):
        """Go on with more scans; the result equals one fit to all of them, in the same order.

        Available with ``nodes`` given, ``standardize=False`` and numbers for ``gamma`` and
        ``compression``. The fitted attributes appear once every class has two scans.

        Parameters
        ----------
        X : array-like of shape (m, n_features)
            New scans.
        y : array-like of shape (m,)
            Their labels.
        classes : array-like of shape (C,), optional
            All labels that will come; required in the first call.

        Returns
        -------
        self
        """
        first = not hasattr(self, "stream_")
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], reset=first)
        check_classification_targets(y)
        if first:
            if classes is None:
                raise ValueError(
                    "The first call of partial_fit needs classes=, all labels to come."
                )
            self.classes_ = np.unique(classes)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y has labels {list(unknown)} that are not in {list(self.classes_)}.")
        codes = np.searchsorted(self.classes_, y)
        given = self._given_nodes()
        nodes = Nodes(given, np.zeros(len(given)), np.ones(len(given)))
        recipe = self._recipe(len(given))
        if first:
            self.stream_ = empty_stream(len(given), len(self.classes_), recipe)
        self.stream_ = absorb_scans(self.stream_, nodes.take(X), codes, recipe)
        seen = self.stream_["codes"]
        if np.bincount(seen, minlength=len(self.classes_)).min() >= 2:
            self._settle_stream(nodes, recipe)
        return self

    def _settle_stream(self: Any, nodes: Nodes, recipe: Recipe) -> None:
        Z, codes = self.stream_["scans"], self.stream_["codes"]
        fields = stream_fields(self.stream_, recipe)
        self.class_prior_ = self._class_prior(codes)
        self.ranking_ = np.zeros(self.n_features_in_)
        self.ranking_[nodes.features] = rank_features(Z, codes, self.ranking)
        self._keep(nodes, recipe, fields, self._offsets(fields, Z, codes, recipe))
        at_nodes = np.zeros((len(Z), self.n_features_in_))
        at_nodes[:, nodes.features] = Z
        self.temperature_ = self._learn_temperature(at_nodes, codes, recipe)
        if self.adaptation != "none":
            self.scans_, self.scan_codes_ = Z, codes

    def adapt(self: Any, X):
        """A copy of the classifier, adapted to scans without labels as ``adaptation`` says.

        Prediction never adapts by itself, so it does not depend on which scans come together.

        Parameters
        ----------
        X : array-like of shape (m, n_features)
            Unlabelled scans.

        Returns
        -------
        RandomFieldClassifier
            The adapted classifier; this one is unchanged.
        """
        check_is_fitted(self, "coef_")
        if self.adaptation == "none":
            raise ValueError(
                "adapt needs adaptation='literal', 'assigned' or 'sigma' at fitting, so that the "
                "training scans at the nodes are kept. Got 'none'."
            )
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        new = self._nodes().take(X)
        assigned = self._scores(X).argmax(axis=1)
        recipe = self._fitted_recipe()
        adapted = copy.deepcopy(self)
        adapted.coef_, adapted.intercept_, adapted.noise_ = adapt_fields(
            self._fields(),
            self.scans_,
            self.scan_codes_,
            new,
            assigned,
            recipe,
            self.adaptation,
            self.damping,
        )
        if self.threshold == "exact":
            adapted.threshold_ = log_partitions(adapted._fields())
        return adapted

    def tune_threshold(self: Any, X, y):
        """Set the threshold by (A.2) on development scans, in place of what training gave.

        Parameters
        ----------
        X : array-like of shape (m, n_features)
            Development scans, not those of the training.
        y : array-like of shape (m,)
            Their labels.

        Returns
        -------
        self
        """
        check_is_fitted(self, "coef_")
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], reset=False)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y has labels {list(unknown)} that are not in {list(self.classes_)}.")
        scores = class_scores(self._nodes().take(X), self._fields(), self.normalize)
        scores += np.log(self.class_prior_)
        self.threshold_ = tune_offsets(scores, np.searchsorted(self.classes_, y))
        return self

    def _fitted_recipe(self: Any) -> Recipe:
        return Recipe(
            gamma=self.gamma_,
            r_eps=self.r_eps_,
            n_pseudo=self.n_pseudo_,
            mode=self.mode,
            norm=self.norm,
            bias=self.bias,
        )
