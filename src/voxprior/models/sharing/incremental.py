"""Feature sharing from class statistics: made of chunks, added to, and taken from.

The model is a function of the counts, means and sums of squares of the classes (see
`voxprior.models.sharing.statistics`), so that examples can be learned and forgotten exactly.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils.validation import check_is_fitted

from voxprior.errors import InputError, option
from voxprior.models.base import VoxelClassifier, check_two_classes
from voxprior.models.sharing.calibration import (
    Excerpt,
    excerpt_of,
    join_excerpts,
    remove_excerpt,
)
from voxprior.models.sharing.groups import refuse_without_scans
from voxprior.models.sharing.naive_bayes import SharingRules
from voxprior.models.sharing.statistics import ClassStatistics, class_statistics, merge, remove
from voxprior.models.sharing.variances import variances_exist


class FromStatistics(VoxelClassifier):
    """What `FeatureSharingNB` learns from class statistics rather than from all scans at once."""

    means: Any
    calibration: str | None
    _groups: Any
    _estimate: Any

    @abstractmethod
    def _rules(self) -> SharingRules:
        """How features share."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_statistics(self, statistics: ClassStatistics, classes, excerpt: Excerpt | None = None):
        """Fit from class statistics, made of chunks or of merged parts; no scan is needed.

        Parameters
        ----------
        statistics : ClassStatistics
            Of ``class_statistics``, ``from_chunks``, ``merge`` or ``remove``.
        classes : array of shape (C,)
            Labels in the order of the statistics, sorted.
        excerpt : Excerpt, optional
            ``excerpt_of`` the same examples; needed by ``calibration="effective"``.
        """
        refuse_without_scans(self.means)
        if excerpt is None and self.calibration is not None:
            raise InputError(
                f"{option('calibration', self.calibration)} needs an excerpt of the examples",
                remedy=f"Pass excerpt=excerpt_of(X, codes), or use {option('calibration', None)}",
            )
        self.classes_, self.n_features_in_ = np.unique(classes), statistics.mean.shape[1]
        if not len(classes) == len(self.classes_) == len(statistics.count):
            raise InputError(
                "classes do not name those of the statistics",
                expected=f"each of the {len(statistics.count)} classes once",
                got=f"{list(classes)}",
            )
        check_two_classes(self.classes_)
        groups = self._groups()
        self._remember(statistics, excerpt)
        self._estimate(groups)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, classes=None):
        """Add examples; the result is that of :meth:`fit` on all examples together.

        The first call must name all ``classes``. Until every class has enough examples for a
        variance the model does not predict.
        """
        refuse_without_scans(self.means)
        first = not hasattr(self, "class_count_")
        named = None if classes is None else np.unique(classes)
        if first:
            if named is None:
                raise InputError("classes must be passed on the first call to partial_fit")
            check_two_classes(named)
            self.classes_ = named
        elif named is not None and not np.array_equal(named, self.classes_):
            raise InputError(
                "classes are not the same as on the last call to partial_fit",
                expected=f"{self.classes_.tolist()}",
                got=f"{named.tolist()}",
            )
        X, y = self._scans_and_targets(X, y, reset=first)
        statistics, excerpt = self._learned(X, self._codes(y))
        if not first:
            statistics = merge(self._statistics(), statistics)
            if self.calibration is not None:
                excerpt = join_excerpts(self._excerpt(), excerpt)
        self._remember(statistics, excerpt)
        return self._estimate_if_ready()

    def forget(self, X, y):
        """Take examples out again, exactly; the result is that of a fit that never saw them."""
        refuse_without_scans(self.means)
        check_is_fitted(self, "class_count_")
        X, y = self._scans_and_targets(X, y, reset=False)
        statistics, excerpt = self._learned(X, self._codes(y))
        if self.calibration is not None:
            excerpt = remove_excerpt(self._excerpt(), excerpt)
        self._remember(remove(self._statistics(), statistics), excerpt)
        return self._estimate_if_ready()

    def _learned(self, X: np.ndarray, codes: np.ndarray) -> tuple[ClassStatistics, Excerpt]:
        return class_statistics(X, codes, len(self.classes_)), excerpt_of(X, codes)

    def _remember(self, statistics: ClassStatistics, excerpt: Excerpt | None) -> None:
        self.class_count_, self.mean_, self.m2_ = statistics
        if self.calibration is not None and excerpt is not None:
            self.excerpt_, self.excerpt_codes_ = excerpt

    def _statistics(self) -> ClassStatistics:
        return ClassStatistics(self.class_count_, self.mean_, self.m2_)

    def _excerpt(self) -> Excerpt:
        return Excerpt(self.excerpt_, self.excerpt_codes_)

    def _estimate_if_ready(self) -> Self:
        """Estimate where :meth:`fit` would work with the examples seen so far."""
        count, rules = self.class_count_, self._rules()
        rule, scope = rules.variances, rules.variance_scope
        if variances_exist(count, rule, scope, rules.ddof, rules.var_smoothing):
            self._estimate(self._groups())
        elif hasattr(self, "theta_"):
            del self.theta_, self.var_
        return self
