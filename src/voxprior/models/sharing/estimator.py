"""FeatureSharingNB: Gaussian naive Bayes whose features lend each other means and variances."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils._param_validation import Options as OneOf
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from voxprior.models.sharing.calibration import (
    Calibration,
    Sketch,
    joined,
    sketch,
    tempered,
    without,
)
from voxprior.models.sharing.groups import voxel_groups
from voxprior.models.sharing.model import Options, share
from voxprior.models.sharing.prepared import PreparedFit
from voxprior.models.sharing.scores import log_joint
from voxprior.models.sharing.statistics import ClassStatistics, class_statistics, merge, remove
from voxprior.space import VoxelSpace


class FeatureSharingNB(PreparedFit, ClassifierMixin, BaseEstimator):
    """Gaussian naive Bayes that shares means and variances between features.

    With two examples a class a sample variance is nearly worthless and a sample mean is mostly
    noise; what rescues them is that neighbouring voxels have mean time courses alike, and that
    all voxels have much the same noise. Class c and feature j = (voxel v, time t) have

        X_ij | c ~ N(θ_j, σ_j²),   θ_j ~ N(μ_j, τ_j²)

    where μ_j and τ_j² come from the voxels of a group through maps, and σ_j² from all features.
    ``means="none", variances="none"`` is Gaussian naive Bayes; ``means="all"`` the standard
    hierarchical model; :meth:`paper` the feature-sharing classifier as published.

    Parameters
    ----------
    space : VoxelSpace, optional
        Where the voxels are. With T time points a scan is time-major, ``(T, V)`` ravelled. Without
        a space every feature is a voxel of its own and has no neighbours.
    means : {"neighbors", "all", "none"} or sparse matrix of shape (V, V)
        The group whose mean courses a voxel is shrunk toward: its spatial neighbours, all
        features, nobody, or the members of its row in a matrix of non-negative weights (the
        diagonal is ignored).
    mean_map : {"identity", "auto", "scale", "affine"}
        How a member's mean course predicts the voxel's: as it is, scaled (β through the origin,
        as published), or with an intercept. ``auto`` is ``scale`` with T >= 2 time points and
        ``identity`` at T = 1, where a scaled neighbour predicts any mean exactly.
    shrinkage : {None, "james-stein"}
        ``james-stein`` draws all class means toward zero, the run mean of scans that were centred
        by run, as far as the noise of the examples says. It brings most where there are no
        neighbours to share with; far from zero it does nothing.
    variances : {"moderated", "median", "mean", "neighbors", "none"}
        Each feature's own, drawn toward a common one as far as the data say; one for all features,
        their median (as published) or mean; the mean of the neighbours'; or each its own.
    variance_scope : {"shared", "class"}
        Estimate variances from all classes' residuals, or class by class as published. With
        ``shared`` and ``median`` or ``mean`` the decision is the nearest (shared) class mean.
    ddof : {1, 0}
        Divisor N - ddof of a sample variance.
    tau_ddof : {0, 1}
        Divisor G - tau_ddof of τ².
    tau_floor : float
        Smallest τ², in units of the sample mean's variance σ²/N.
    beta : {"pooled", "class"}
        Fit the maps on all classes' mean courses joined, or class by class as published.
    median_correction : bool
        Divide the median variance by its expected value in units of σ² (.455 at N = 2).
    var_smoothing : float
        Fraction of the largest variance of any feature that is added to variances that features
        do not share (``none`` and ``neighbors``).
    connectivity : {26, 18, 6}
        Neighbours in a volume share a face, edge or corner; a face or edge; a face.
    radius : float, optional
        Neighbours are the voxels within this distance instead.
    priors : array of shape (C,), optional
        Class probabilities, in the order of ``classes_``; training frequencies by default.
    calibration : {"effective", None}
        ``effective`` weighs the evidence by what dependent features and few examples are really
        worth, so that probabilities can be believed; the order of the classes stays. None gives
        the probabilities of naive Bayes, which are 0 or 1 with many features.

    Attributes
    ----------
    classes_ : array of shape (C,)
    theta_, var_ : arrays of shape (C, J)
        Means and variances after sharing.
    class_prior_ : array of shape (C,)
    class_count_ : array of shape (C,)
    mean_, m2_ : arrays of shape (C, J)
        Class means, and sums of squared deviations, of the examples themselves.
    group_size_ : array of shape (V,)
        Voxels that informed each voxel's mean (the average over classes).
    temperature_, degrees_ : float
        With ``calibration``, the nats of naive Bayes that are worth one, and the degrees of
        freedom of the Student predictive.
    sketch_, sketch_codes_ : arrays of shape (n, at most 2048) and (n,)
        With ``calibration``, the examples at a sample of the features, and their class numbers.
    n_features_in_ : int

    References
    ----------
    M. Palatucci, T. M. Mitchell, "Classification in very high dimensional problems with handfuls
    of examples", ECML/PKDD 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior import FeatureSharingNB, VoxelSpace
    >>> rng = np.random.default_rng(0)
    >>> signal = np.outer(np.sin(np.arange(4)), np.linspace(-1, 1, 60)).ravel()
    >>> y = np.array(["rest", "task"] * 2)
    >>> X = rng.normal(size=(4, 240)) + np.where(y == "task", 1, -1)[:, None] * signal
    >>> model = FeatureSharingNB(space=VoxelSpace.grid((60,))).fit(X, y)
    >>> model.predict(np.stack([signal, -signal]))
    array(['task', 'rest'], dtype='<U4')
    """

    _parameter_constraints: ClassVar[dict] = {
        "space": [VoxelSpace, None],
        "means": [StrOptions({"neighbors", "all", "none"}), "sparse matrix"],
        "mean_map": [StrOptions({"auto", "identity", "scale", "affine"})],
        "shrinkage": [StrOptions({"james-stein"}), None],
        "variances": [StrOptions({"none", "neighbors", "mean", "median", "moderated"})],
        "variance_scope": [StrOptions({"shared", "class"})],
        "ddof": [OneOf(Integral, {0, 1})],
        "tau_ddof": [OneOf(Integral, {0, 1})],
        "tau_floor": [Interval(Real, 0, None, closed="left")],
        "beta": [StrOptions({"class", "pooled"})],
        "median_correction": ["boolean"],
        "var_smoothing": [Interval(Real, 0, None, closed="left")],
        "connectivity": [OneOf(Integral, {6, 18, 26})],
        "radius": [Interval(Real, 0, None, closed="neither"), None],
        "priors": ["array-like", None],
        "calibration": [StrOptions({"effective"}), None],
    }

    def __init__(
        self,
        space: VoxelSpace | None = None,
        means: Any = "neighbors",
        mean_map: str = "identity",
        shrinkage: str | None = None,
        variances: str = "moderated",
        variance_scope: str = "shared",
        ddof: int = 1,
        tau_ddof: int = 0,
        tau_floor: float = 0.0,
        beta: str = "pooled",
        median_correction: bool = False,
        var_smoothing: float = 1e-9,
        connectivity: Literal[6, 18, 26] = 26,
        radius: float | None = None,
        priors: Any = None,
        calibration: str | None = "effective",
    ):
        self.space = space
        self.means = means
        self.mean_map = mean_map
        self.shrinkage = shrinkage
        self.variances = variances
        self.variance_scope = variance_scope
        self.ddof = ddof
        self.tau_ddof = tau_ddof
        self.tau_floor = tau_floor
        self.beta = beta
        self.median_correction = median_correction
        self.var_smoothing = var_smoothing
        self.connectivity = connectivity
        self.radius = radius
        self.priors = priors
        self.calibration = calibration

    @classmethod
    def paper(cls, space: VoxelSpace | None = None, **changes: Any) -> FeatureSharingNB:
        """The classifier exactly as published: 26 neighbours, scale map, per-class median variance.

        Examples
        --------
        >>> FeatureSharingNB.paper().variance_scope
        'class'
        """
        printed = {
            "mean_map": "scale",
            "beta": "class",
            "variances": "median",
            "variance_scope": "class",
            "calibration": None,
        }
        return cls(space=space, **(printed | changes))

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Estimate shared means and variances.

        Parameters
        ----------
        X : array of shape (n, J)
            Scans, float32 or float64; with time, time-major.
        y : array of shape (n,)
            Labels.

        Returns
        -------
        FeatureSharingNB
        """
        X, y = self._validated(X, y, reset=True)
        codes = self._name_classes(y)
        self._remember(class_statistics(X, codes, len(self.classes_)), sketch(X, codes))
        self._settle()
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_statistics(self, statistics: ClassStatistics, classes, kept: Sketch | None = None):
        """Fit from class statistics, made of chunks or of merged parts; no scan is needed.

        Parameters
        ----------
        statistics : ClassStatistics
            Of ``class_statistics``, ``from_chunks``, ``merge`` or ``remove``.
        classes : array of shape (C,)
            Labels in the order of the statistics, sorted.
        kept : Sketch, optional
            ``sketch`` of the same examples; needed by ``calibration="effective"``.
        """
        if kept is None and self.calibration is not None:
            raise ValueError(
                "calibration='effective' needs a sketch of the examples: pass kept=sketch(X, codes)"
                ", or use calibration=None."
            )
        self.classes_, self.n_features_in_ = np.unique(classes), statistics.mean.shape[1]
        if not len(classes) == len(self.classes_) == len(statistics.count):
            raise ValueError(
                f"classes must name each of the {len(statistics.count)} classes once, got "
                f"{list(classes)}."
            )
        self._remember(statistics, kept)
        self._settle()
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, classes=None):
        """Add examples; the result is that of :meth:`fit` on all examples together.

        The first call must name all ``classes``. Until every class has enough examples for a
        variance the model does not predict.
        """
        first = not hasattr(self, "class_count_")
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        X, y = self._validated(X, y, reset=first)
        if first:
            self.classes_ = np.unique(classes)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes={classes!r} is not the same as on the last call to partial_fit: "
                f"{self.classes_!r}."
            )
        codes = self._codes(y)
        new, kept = class_statistics(X, codes, len(self.classes_)), sketch(X, codes)
        if not first:
            new = merge(self._statistics(), new)
            kept = kept if self.calibration is None else joined(self._sketch(), kept)
        self._remember(new, kept)
        return self._settle_if_ready()

    def forget(self, X, y):
        """Take examples out again, exactly; the result is that of a fit that never saw them."""
        check_is_fitted(self, "class_count_")
        X, y = self._validated(X, y, reset=False)
        codes = self._codes(y)
        gone, left = class_statistics(X, codes, len(self.classes_)), sketch(X, codes)
        if self.calibration is not None:
            left = without(self._sketch(), left)
        self._remember(remove(self._statistics(), gone), left)
        return self._settle_if_ready()

    def predict_joint_log_proba(self, X):
        """Log joint probabilities log P(c) + log p(x | c) of naive Bayes, uncalibrated, (n, C)."""
        with np.errstate(divide="ignore"):
            return self._log_likelihood(X) + np.log(self.class_prior_)

    def predict_log_proba(self, X):
        """Log class probabilities, an array (n, C)."""
        evidence = self._log_likelihood(X)
        if self.calibration is not None:
            nu, dimension = self.degrees_, len(self.classes_) - 1
            evidence = tempered(evidence, Calibration(1 / self.temperature_, nu, dimension))
        with np.errstate(divide="ignore"):
            scores = evidence + np.log(self.class_prior_)
        return scores - logsumexp(scores, axis=1, keepdims=True)

    def predict_proba(self, X):
        """Class probabilities, an array (n, C)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X):
        """The most probable class of each scan."""
        best = self.predict_log_proba(X).argmax(axis=1)
        return self.classes_[best]

    def voxel_maps(self) -> dict[str, np.ndarray]:
        """What the model used: how classes differ, group sizes, class means before and after.

        For two classes ``difference`` (J,) is the second shared mean minus the first, in standard
        deviations. ``discriminability`` (J,) is the variance between the shared class means over
        the variance within; ``group_size`` (V,) how many voxels informed each voxel.
        """
        self._check_ready()
        share = self.class_prior_[:, None]
        within = (share * self.var_).sum(axis=0)
        between = (share * (self.theta_ - (share * self.theta_).sum(axis=0)) ** 2).sum(axis=0)
        maps = {"discriminability": between / within, "group_size": self.group_size_}
        if len(self.classes_) == 2:
            maps = {"difference": (self.theta_[1] - self.theta_[0]) / np.sqrt(within)} | maps
        for label, before, after in zip(self.classes_, self.mean_, self.theta_):
            maps[f"mean_before[{label}]"] = before
            maps[f"mean_after[{label}]"] = after
        return maps

    def _log_likelihood(self, X) -> np.ndarray:
        self._check_ready()
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        return log_joint(X, self.theta_, self.var_, np.zeros(len(self.classes_)))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "theta_")

    def _validated(self, X, y, reset: bool):
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], reset=reset)
        check_classification_targets(y)
        return X, y

    def _name_classes(self, y) -> np.ndarray:
        """Class numbers of new labels, which name ``classes_``."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"At least 2 classes are needed, got 1 class: {self.classes_[0]!r} in all of "
                f"{len(y)} examples."
            )
        return codes

    def _codes(self, y) -> np.ndarray:
        unknown = np.setdiff1d(y, self.classes_)
        if unknown.size:
            raise ValueError(
                f"y contains labels {unknown.tolist()} that are not in classes "
                f"{self.classes_.tolist()}."
            )
        return np.searchsorted(self.classes_, y)

    def _statistics(self) -> ClassStatistics:
        return ClassStatistics(self.class_count_, self.mean_, self.m2_)

    def _sketch(self) -> Sketch:
        return Sketch(self.sketch_, self.sketch_codes_)

    def _remember(self, statistics: ClassStatistics, kept: Sketch | None) -> None:
        self.class_count_, self.mean_, self.m2_ = statistics
        if self.calibration is not None and kept is not None:
            self.sketch_, self.sketch_codes_ = kept

    def _settle_if_ready(self) -> FeatureSharingNB:
        count, shared = self.class_count_, self.variance_scope == "shared"
        enough = count.sum() > len(count) if shared else count.min() > self.ddof
        if count.min() > 0 and enough:
            self._settle()
        elif hasattr(self, "theta_"):
            del self.theta_, self.var_
        return self

    def _check_ready(self) -> None:
        if hasattr(self, "class_count_") and not hasattr(self, "theta_"):
            seen = dict(zip(self.classes_.tolist(), self.class_count_.tolist()))
            raise NotFittedError(
                f"Too few examples to predict yet: per class {seen}. Add examples with partial_fit "
                "until every class has one (variance_scope='shared') or two ('class')."
            )
        check_is_fitted(self)

    def _settle(self, groups=None) -> None:
        if groups is None:
            groups = voxel_groups(
                self.means, self.space, self.n_features_in_, self.connectivity, self.radius
            )
        options = Options(**{name: getattr(self, name) for name in Options._fields})
        kept = None if self.calibration is None else self._sketch()
        statistics = self._statistics()
        self.theta_, self.var_, self.group_size_, worth = share(statistics, groups, options, kept)
        self.class_prior_ = self._priors(statistics.count)
        if worth is not None:
            self.temperature_, self.degrees_ = 1 / worth.kappa, worth.nu

    def _priors(self, count: np.ndarray) -> np.ndarray:
        if self.priors is None:
            return count / count.sum()
        priors = np.asarray(self.priors, dtype=float)
        if priors.shape != count.shape:
            raise ValueError(
                f"priors must hold one probability a class: expected {len(count)}, got shape "
                f"{priors.shape}."
            )
        if priors.min() < 0 or not np.isclose(priors.sum(), 1.0):
            raise ValueError(f"priors must be probabilities that sum to 1, got {priors.tolist()}.")
        return priors
