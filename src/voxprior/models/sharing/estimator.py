"""FeatureSharingNB: Gaussian naive Bayes whose features lend each other means and variances."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from scipy import sparse
from scipy.special import logsumexp
from sklearn.base import _fit_context
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.validation import check_is_fitted

from voxprior.models.base import ManyLabellings, check_times, class_prior
from voxprior.models.sharing.batch import ManySharers, can_batch
from voxprior.models.sharing.calibration import (
    Calibration,
    Excerpt,
    excerpt_features,
    tempered,
)
from voxprior.models.sharing.groups import (
    LEARNED,
    check_learnable,
    learned_groups,
    needs_scans,
)
from voxprior.models.sharing.incremental import FromStatistics
from voxprior.models.sharing.means import member_weights, voxel_groups
from voxprior.models.sharing.naive_bayes import (
    Prepared,
    SharingRules,
    check_rules,
    log_likelihood,
    share_features,
)
from voxprior.models.sharing.statistics import class_statistics
from voxprior.space import VoxelSpace


class FeatureSharingNB(FromStatistics, ManyLabellings):
    """Gaussian naive Bayes that shares means and variances between features.

    With two examples per class a sample variance is nearly worthless and a sample mean is mostly
    noise; what rescues them is that neighbouring voxels have similar mean time courses, and that
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
    means : {"neighbors", "metric", "correlated", "all", "none"} or sparse matrix of shape (V, V)
        The group whose mean courses a voxel is shrunk toward: its spatial neighbours; these,
        weighted by a metric learned from the training scans; the voxels that correlate most with
        it there, wherever they are; all features; no others; or the members of its row in a matrix
        of non-negative weights (the diagonal is ignored).
    mean_map : {"identity", "auto", "scale", "affine"}
        How a member's mean course predicts the voxel's: as it is, scaled (β through the origin,
        as published), or with an intercept. ``auto`` is ``scale`` with T >= 2 time points and
        ``identity`` at T = 1, where a scaled neighbour predicts any mean exactly.
    shrinkage : {"auto", "james-stein", None}
        ``james-stein`` draws all class means toward zero, the run mean of scans that were centred
        by run, as far as the noise of the examples suggests; with one example per class, toward
        their mean. Far from zero it does nothing. ``auto`` does it where there are no neighbours to
        share with, where scans were centred, and where there is one example per class.
    variances : {"moderated", "median", "mean", "neighbors", "none"}
        Each feature's own, drawn toward a common one as far as the data suggest; one for all
        features, their median (as published) or mean; the mean of the neighbours'; or each its own.
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
    group_size : int
        Members of a group of ``means="correlated"``.
    hyperparameters : {"estimated", "integrated"}
        Prior means and variances as point estimates of the group (empirical Bayes), as published;
        or under flat hyper-priors, integrated out.

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
        With ``calibration``, the nats of naive Bayes that count as one, and the degrees of
        freedom of the Student predictive.
    excerpt_, excerpt_codes_ : arrays of shape (n, at most 2048) and (n,)
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

    fit_many_words: ClassVar[str] = (
        "feature-sharing naive Bayes, whose margins are log-odds before calibration"
    )
    labels_at_once: ClassVar[int] = 512
    most_scans_at_once: ClassVar[float] = np.inf
    fit_many_in_memory: ClassVar[bool] = True

    _reads_blocks: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict] = {
        "space": [VoxelSpace, None],
        "means": [StrOptions({"neighbors", "all", "none", *LEARNED}), "sparse matrix"],
        "mean_map": [StrOptions({"auto", "identity", "scale", "affine"})],
        "shrinkage": [StrOptions({"auto", "james-stein"}), None],
        "variances": [StrOptions({"none", "neighbors", "mean", "median", "moderated"})],
        "variance_scope": [StrOptions({"shared", "class"})],
        "ddof": [Options(Integral, {0, 1})],
        "tau_ddof": [Options(Integral, {0, 1})],
        "tau_floor": [Interval(Real, 0, None, closed="left")],
        "beta": [StrOptions({"class", "pooled"})],
        "median_correction": ["boolean"],
        "var_smoothing": [Interval(Real, 0, None, closed="left")],
        "connectivity": [Options(Integral, {6, 18, 26})],
        "radius": [Interval(Real, 0, None, closed="neither"), None],
        "priors": ["array-like", None],
        "calibration": [StrOptions({"effective"}), None],
        "group_size": [Interval(Integral, 1, None, closed="left")],
        "hyperparameters": [StrOptions({"estimated", "integrated"})],
    }

    def __init__(
        self,
        space: VoxelSpace | None = None,
        means: Any = "neighbors",
        mean_map: str = "identity",
        shrinkage: str | None = "auto",
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
        group_size: int = 26,
        hyperparameters: str = "estimated",
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
        self.group_size = group_size
        self.hyperparameters = hyperparameters

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
            "shrinkage": None,
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
        X, codes = self._training_scans(X, y)
        groups = self._groups(X)
        self._remember(*self._learned(X, codes))
        self._estimate(groups)
        return self

    def prepare(self, X) -> Prepared:
        """Check scans (n, J) and find all that labels do not change, once for many fits.

        Examples
        --------
        >>> import numpy as np
        >>> from voxprior import FeatureSharingNB, VoxelSpace
        >>> X = np.random.default_rng(0).normal(size=(6, 8))
        >>> model = FeatureSharingNB(VoxelSpace.grid((8,)))
        >>> prepared, y, train = model.prepare(X), np.array([0, 1, 0, 1]), np.array([0, 2, 3, 5])
        >>> again = model.fit_prepared(prepared, train, y).theta_
        >>> np.array_equal(again, model.fit(X[train], y).theta_)
        True
        """
        self._validate_params()
        X = self._checked_scans(X)
        groups = member_weights(self._groups(X))
        features = excerpt_features(0 if self.calibration is None else X.shape[1])
        return Prepared(X, np.ascontiguousarray(X[:, features]), groups)

    def fit_prepared(self, prepared: Prepared, rows, y):
        """Fit to some rows of the prepared scans; the same model as ``fit(X[rows], y)``.

        Parameters
        ----------
        prepared : Prepared
            What :meth:`prepare` returned for an estimator of the same parameters.
        rows : integer array of shape (m,)
            Which scans train.
        y : array of shape (m,)
            Their labels.
        """
        rows, codes = np.asarray(rows), self._encode(y)
        self.n_features_in_ = prepared.scans.shape[1]
        statistics = class_statistics(prepared.scans, codes, len(self.classes_), rows)
        self._remember(statistics, Excerpt(prepared.examples[rows], codes))
        # Groups that are learned are learned from the training scans alone.
        learns = needs_scans(self.means)
        self._estimate(self._groups(prepared.scans[rows]) if learns else prepared.groups)
        return self

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

    def voxel_maps(self) -> dict[str, np.ndarray]:
        """What the model used: how classes differ, group sizes, class means before and after.

        For two classes ``difference`` (J,) is the second shared mean minus the first, in standard
        deviations. ``discriminability`` (J,) is the variance between the shared class means over
        the variance within; ``group_size`` (V,) how many voxels informed each voxel.
        """
        self._check_ready()
        prior = self.class_prior_[:, None]
        within = (prior * self.var_).sum(axis=0)
        between = (prior * (self.theta_ - (prior * self.theta_).sum(axis=0)) ** 2).sum(axis=0)
        maps = {"discriminability": between / within, "group_size": self.group_size_}
        if len(self.classes_) == 2:
            maps = {"difference": (self.theta_[1] - self.theta_[0]) / np.sqrt(within)} | maps
        for label, before, after in zip(self.classes_, self.mean_, self.theta_):
            maps[f"mean_before[{label}]"] = before
            maps[f"mean_after[{label}]"] = after
        return maps

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "theta_")

    def _validate_params(self) -> None:
        super()._validate_params()
        check_rules(self._rules())
        check_learnable(self.means, self.space)

    def _can_fit_many(self) -> bool:
        return can_batch(self._rules())

    def _fit_many(self, prepared: Prepared, rows: Any, Y: Any, n_classes: int) -> ManySharers:
        return ManySharers(prepared, rows, Y, n_classes, self._rules(), self.priors)

    def _rules(self) -> SharingRules:
        return SharingRules(**{name: getattr(self, name) for name in SharingRules._fields})

    def _groups(self, X: np.ndarray | None = None) -> sparse.csr_array:
        """Which voxels inform which, of `means`, `space` and scans; checked against the scans."""
        J = self.n_features_in_
        groups = voxel_groups(self.means, self.space, J, self.connectivity, self.radius)
        check_times(self, groups.shape[0], "means" if sparse.issparse(self.means) else "space")
        if X is not None and needs_scans(self.means):
            groups = learned_groups(self.means, np.asarray(X), groups, self.group_size)
        return groups

    def _estimate(self, groups: sparse.csr_array) -> None:
        """Means, variances and calibration from what is remembered of the examples."""
        self.class_prior_ = class_prior(self.priors, self.class_count_)
        excerpt = None if self.calibration is None else self._excerpt()
        shared = share_features(self._statistics(), groups, self._rules(), excerpt)
        self.theta_, self.var_, self.group_size_, worth = shared
        if worth is not None:
            self.temperature_, self.degrees_ = 1 / worth.kappa, worth.nu

    def _log_likelihood(self, X) -> np.ndarray:
        self._check_ready()
        return log_likelihood(self._new_scans(X), self.theta_, self.var_)

    def _check_ready(self) -> None:
        if hasattr(self, "class_count_") and not hasattr(self, "theta_"):
            seen = dict(zip(self.classes_.tolist(), self.class_count_.tolist()))
            raise NotFittedError(
                f"Too few examples to predict yet: per class {seen}. Add examples with partial_fit "
                "until every class has two, or with variance_scope='shared' one."
            )
        check_is_fitted(self)
