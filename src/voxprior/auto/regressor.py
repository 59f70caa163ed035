"""AutoRegressor: numbers from scans without a choice to make, with intervals that hold."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from voxprior.algebra import blas_threads_for
from voxprior.auto import student_mixture as mixture
from voxprior.auto.many_regressors import NEGLIGIBLE_WEIGHT, ManyRegressors
from voxprior.auto.regression_decisions import decisions_of
from voxprior.auto.regression_kernels import (
    SHAPES,
    Kernel,
    ScanKernels,
    kernel_to,
    scan_kernels,
)
from voxprior.auto.smoothing import smoother_of
from voxprior.auto.student import (
    SHARES,
    STRETCHES,
    TAUS,
    Fit,
    Targets,
    all_left_out,
    describe_targets,
    effective_scans,
    fit_members,
    left_out_scores,
    member_weights,
    predictive,
    spectral_weights,
)
from voxprior.auto.views import (
    SMALLEST,
    VIEWS,
    Voxels,
    combined,
    crosses_of,
    lifted,
    refuse_infinite,
)
from voxprior.errors import InputError, InputWarning, option
from voxprior.labels import refuse_unclear
from voxprior.models.base import VoxelRegressor
from voxprior.models.gaussian.gram import Cross
from voxprior.models.growth import AUTO_NUMBERS, cubic, tell_if_long
from voxprior.space import VoxelSpace

# Parts of prepared scans whose kernels are kept: the folds of a split.
MOST_KNOWN = 50


class PreparedScans(NamedTuple):
    """Scans to be fitted in part, many times; kernels of the parts seen are kept in `known`."""

    X: NDArray
    groups: NDArray | None
    known: dict[bytes, ScanKernels]


class AutoRegressor(VoxelRegressor):
    """Predict a number from scans, with nothing to set and an interval to go with it.

    Gaussian process regression with the noise variance integrated out, so that predictions are
    Student distributions, read in several views of the scans (as they are, every voxel on its own
    scale, smoothed), each with a linear and a radial kernel and at eleven noise ratios; and the
    mean alone. All of them are mixed by how well they predict training scans, or whole groups of
    them, that they have not seen. It uses no random numbers.

    Parameters
    ----------
    space : VoxelSpace, optional
        Where the voxels are; without one there is no smoothed view. With time, features are
        time-major.
    views : "auto" or list of {"raw", "z", "smooth"}
        Which views of the scans to read. "auto" takes all that are available.

    Attributes
    ----------
    decisions_ : list of str
        What was decided, one sentence each with the number that decided it.
    views_ : list of str
    kernel_names_ : list of str
        The K kernels: "raw linear", "raw radial", ...
    member_weights_ : array (K, 11)
        Weight of every kernel at every noise ratio, from .001 to 100.
    mean_weight_ : float
        Weight of the mean alone, which with high noise ratios says that nothing was found.
    stretch_posterior_ : array (4,)
        Probability that intervals must be .7, 1, 1.4 or 2 times as wide as the model says.
    left_out_log_density_ : float
        Mean log density of left-out training scans; NaN where there were too few.
    left_out_r2_ : float
        Share by which the mixture reduces the squared error of the mean on left-out scans.
    n_eff_ : float
        Effective number of independent training scans.
    degrees_of_freedom_ : float
    linear_weight_ : float
        Weight of the members that `voxel_maps` shows.
    X_fit_ : array (n, n_features)
        The training scans, not copied.

    Notes
    -----
    Intervals (`predict_interval`) are read from the mixture, and `return_std` is its standard
    deviation, which does not exist with two degrees of freedom or fewer (three scans).

    Gains of scans and means of runs are not removed here: see ``scale`` and ``standardize`` of
    `Decoder`. Targets are not transformed.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior import AutoRegressor
    >>> rng = np.random.default_rng(0)
    >>> age = rng.uniform(20, 80, size=40)
    >>> X = rng.normal(size=(40, 300)) + 0.02 * age[:, None] * rng.normal(size=300)
    >>> model = AutoRegressor().fit(X[:30], age[:30])
    >>> inside = model.predict_interval(X[30:], level=0.9)
    >>> int(((inside[:, 0] <= age[30:]) & (age[30:] <= inside[:, 1])).sum())
    10
    """

    _reads_blocks: ClassVar[bool] = True
    # Scans are put into units of their own before they are squared.
    _scan_range: ClassVar[tuple[float, float]] = (SMALLEST, np.inf)
    # For tests in batch, see `voxprior.validation.batch`.
    fit_many_is_fit: ClassVar[bool] = True
    fit_many_words: ClassVar[str] = (
        "the automatic regressor, learned anew in every fold and relabelling"
    )
    labels_at_once: ClassVar[int] = 256
    most_scans_at_once: ClassVar[int] = 1000

    # Views scale voxels themselves, so that nothing needs to be scaled in advance.
    scales_voxels: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict] = {
        "space": [VoxelSpace, None],
        "views": [StrOptions({"auto"}), list, tuple],
    }

    def __init__(self, space: VoxelSpace | None = None, *, views: Any = "auto"):
        self.space = space
        self.views = views

    # ---------------------------------------------------------------- fitting

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Weigh the members by the training scans.

        Parameters
        ----------
        X : array (n, n_features)
            Two scans or more.
        y : array (n,)
            Numbers.
        groups : array (n,), optional
            Run, subject or site of each scan: whole groups are left out, and scans whose targets
            are alike within groups count for less. Groups of one scan each count as none.
        """
        X, y = self._scans_and_targets(X, y, y_numeric=True, ensure_min_samples=2)
        groups = _checked_groups(groups, X)
        return self._learn(self._scan_kernels(X, groups), self._targets(y))

    def prepare(self, X: Any, groups: Any = None) -> PreparedScans:
        """Check scans once for many fits to parts of them, or to many targets."""
        self._validate_params()
        X = self._checked_scans(X, ensure_min_samples=2)
        return PreparedScans(X, _checked_groups(groups, X), {})

    def fit_prepared(self, prepared: PreparedScans, rows: Any, y: Any) -> Self:
        """Fit to some rows of the prepared scans; the same model as ``fit(X[rows], y)``.

        The kernels of the rows are found once, whatever the targets.

        Examples
        --------
        >>> import numpy as np
        >>> from voxprior import AutoRegressor
        >>> X, y = np.random.default_rng(0).normal(size=(8, 20)), np.arange(6.0)
        >>> model, rows = AutoRegressor(), np.arange(6)
        >>> again = model.fit_prepared(model.prepare(X), rows, y).predict(X)
        >>> np.array_equal(again, model.fit(X[rows], y).predict(X))
        True
        """
        return self._learn(self._prepared_kernels(prepared, np.asarray(rows)), self._targets(y))

    def fit_many(
        self, prepared: PreparedScans, rows: Any, Y: Any, n_classes: int = 0
    ) -> ManyRegressors:
        """Fit to some rows of the prepared scans for many targets (m, B), one per column.

        The same models as `fit` gives one by one; see `voxprior.validation.batch` for its contract.
        Returns an object whose ``decision_function(rows)`` gives the predicted means (n_new, B) of
        other rows. `n_classes` is 0, because targets are numbers.

        Examples
        --------
        >>> import numpy as np
        >>> from voxprior import AutoRegressor
        >>> X, Y = np.random.default_rng(0).normal(size=(8, 20)), np.arange(12.0).reshape(6, 2)
        >>> model, rows = AutoRegressor(), np.arange(6)
        >>> many = model.fit_many(model.prepare(X), rows, Y)
        >>> one = model.fit(X[:6], Y[:, 1]).predict(X[6:])
        >>> np.allclose(many.decision_function(np.array([6, 7]))[:, 1], one)
        True
        """
        scans = self._prepared_kernels(prepared, np.asarray(rows))
        learned = [_learned(scans, self._targets(y)) for y in np.asarray(Y).T]
        fits = [(one.targets.center, one.fits, one.weights.sum(axis=1)) for one in learned]
        return ManyRegressors.of(prepared.X, scans, fits)

    def _prepared_kernels(self, prepared: PreparedScans, rows: NDArray) -> ScanKernels:
        """Kernels of some rows, found once."""
        self.n_features_in_ = prepared.X.shape[1]
        X, known, key = prepared.X[rows], prepared.known, rows.tobytes()
        if key not in known:
            if len(known) == MOST_KNOWN:
                known.clear()
            groups = None if prepared.groups is None else prepared.groups[rows]
            known[key] = self._scan_kernels(X, groups)._replace(X=X[:0])  # kernels, not scans
        return known[key]._replace(X=X)

    def _scan_kernels(self, X: NDArray, groups: NDArray | None) -> ScanKernels:
        self._n_voxels()  # refuses scans that are not of the space
        views = self._chosen_views()
        expected = cubic(AUTO_NUMBERS * len(views), len(X))
        tell_if_long(self, expected, len(X), less="one of its views")
        return scan_kernels(X, groups, views, smoother_of(self.space))

    def _chosen_views(self) -> list[str]:
        known = VIEWS[:2] if smoother_of(self.space) is None else VIEWS
        if isinstance(self.views, str):
            return list(known)
        chosen = list(dict.fromkeys(self.views))
        if not chosen or not set(chosen) <= set(known):
            needs = f"'smooth' needs a {option('space')} with neighbours"
            raise InputError(
                f"{option('views', self.views)} cannot be used",
                expected=f"'auto', or some of {', '.join(VIEWS)}",
                remedy=needs if "smooth" in chosen else None,
            )
        return chosen

    def _learn(self, scans: ScanKernels, y: NDArray[np.float64]) -> Self:
        found = _learned(scans, y)
        self._remember(scans, found.targets, found.fits, found.weights)
        self.left_out_log_density_, self.left_out_r2_ = found.scores
        self.decisions_ = decisions_of(self, scans, found.icc)
        return self

    def _remember(self, scans: ScanKernels, targets: Targets, fits: list[Fit], weights) -> None:
        """What predictions and maps need, as plain arrays."""
        self.X_fit_, self.views_ = scans.X, scans.views
        self.voxel_mean_, self.voxel_unit_, self.voxel_scale_ = scans.voxels[:3]
        self.kernels_ = [kernel._asdict() for kernel in scans.kernels]
        self.kernel_names_ = [kernel.name for kernel in scans.kernels]
        self.dual_coef_ = np.array([fit.dual for fit in fits])
        self.power_ = np.array([fit.power for fit in fits])
        self.y_mean_, self.n_eff_ = targets.center, targets.n_effective
        self.mean_power_ = float(targets.residual @ targets.residual)
        self.smallest_variance_ = targets.floor
        self.weights_ = weights
        self.mean_weight_ = float(weights[0].sum())
        self.member_weights_ = weights[1:].sum(axis=1).reshape(len(fits), len(TAUS))
        self.stretch_posterior_ = weights.sum(axis=0)
        self.degrees_of_freedom_ = targets.nu
        linear = [kernel.shape == SHAPES[0] for kernel in scans.kernels]
        self.linear_weight_ = float(self.member_weights_[linear].sum())

    # ---------------------------------------------------------------- prediction

    def predict(self, X: Any, return_std: bool = False):
        """Mean of the mixture, and with `return_std` its standard deviation, each (n_new,).

        With two degrees of freedom or fewer there is no standard deviation: it is infinite, with a
        warning. Intervals always exist.
        """
        predicted = self._mixture(X)
        if not return_std:
            return mixture.mean(predicted)
        if predicted.nu <= 2:
            warnings.warn(
                InputWarning(
                    f"A prediction with {predicted.nu:.3g} degrees of freedom has no standard "
                    "deviation: it is infinite. Use predict_interval."
                ),
                stacklevel=2,
            )
        return mixture.mean(predicted), mixture.standard_deviation(predicted)

    def predict_interval(self, X: Any, level: float = 0.9) -> NDArray[np.float64]:
        """Central interval (n_new, 2) that holds a new value with probability `level`."""
        tail = (1.0 - _checked_share(level, "level")) / 2.0
        predicted = self._mixture(X)
        ends = [mixture.quantile(predicted, tail), mixture.quantile(predicted, 1.0 - tail)]
        return np.column_stack(ends)

    def predict_quantile(self, X: Any, q: float) -> NDArray[np.float64]:
        """The value (n_new,) below which a new one is with probability `q`."""
        return mixture.quantile(self._mixture(X), _checked_share(q, "q"))

    def log_density(self, X: Any, y: Any) -> NDArray[np.float64]:
        """Log density (n_new,) of the values y; their mean is what good predictions raise."""
        return mixture.log_density(self._mixture(X), self._new_targets(X, y))

    def predict_cdf(self, X: Any, y: Any) -> NDArray[np.float64]:
        """Probability (n_new,) of a value up to y."""
        return mixture.distribution(self._mixture(X), self._new_targets(X, y))

    def _new_targets(self, X: Any, y: Any) -> NDArray[np.float64]:
        y = self._targets(y)
        check_consistent_length(X, y)
        return y

    def _mixture(self, X: Any) -> mixture.StudentMixture:
        """The Student mixture of each scan: members of some weight, times stretches."""
        X = self._new_scans(X)
        kept = self.weights_.sum(axis=1) >= NEGLIGIBLE_WEIGHT
        of_kernel = kept[1:].reshape(-1, len(TAUS))
        numbers = np.flatnonzero(of_kernel.any(axis=1)).tolist()
        kernels = [Kernel(**self.kernels_[number]) for number in numbers]
        crosses = self._crosses(X, {kernel.view for kernel in kernels})
        parts = [self._mean_alone(len(X))] if kept[0] else []
        for number, kernel in zip(numbers, kernels):
            k = kernel_to(kernel, crosses[kernel.view])
            fit = self._members(number, kernel, of_kernel[number])
            parts.append(predictive(fit, self._fitted_targets(), kernel.vectors, *k))
        location, scale = (np.hstack([part[i] for part in parts]) for i in range(2))
        weight = (self.weights_[kept] / self.weights_[kept].sum()).ravel()
        scale = (scale[:, :, None] * STRETCHES).reshape(len(X), -1)
        location = np.repeat(location, len(STRETCHES), axis=1)
        return mixture.StudentMixture(location, scale, weight, self.degrees_of_freedom_)

    def _mean_alone(self, n_new: int) -> tuple[NDArray, NDArray]:
        n, ones = len(self.X_fit_), np.ones((n_new, 1))
        variance = max(self.mean_power_ / (n - 1), self.smallest_variance_) * (1 + 1 / n)
        return self.y_mean_ * ones, np.sqrt(variance) * ones

    def _members(self, number: int, kernel: Kernel, which: NDArray[np.bool_]) -> Fit:
        share = SHARES[which]
        dual, power = self.dual_coef_[number][which], self.power_[number][which]
        return Fit(share, spectral_weights(kernel.values, share), dual, power)

    def _crosses(self, X: NDArray, needed: Collection[str]) -> dict[str, Cross]:
        """Inner products with the training scans, by view."""
        views = [view for view in VIEWS if view in needed]
        with np.errstate(over="ignore", invalid="ignore"):
            crosses = crosses_of(X, self.X_fit_, self._voxels(), views)
        for cross in crosses:
            refuse_infinite(cross.squared_norms)
        return dict(zip(views, crosses))

    def _voxels(self) -> Voxels:
        known = (self.voxel_mean_, self.voxel_unit_, self.voxel_scale_)
        return Voxels(*known, smoother_of(self.space))

    def _fitted_targets(self) -> Targets:
        return Targets(self.y_mean_, np.zeros(0), self.n_eff_, self.smallest_variance_)

    # ---------------------------------------------------------------- maps

    def voxel_maps(self) -> dict[str, NDArray[np.float64]]:
        """Map "weight" (n_features,): what the linear members add per unit of each voxel.

        It is their average; `linear_weight_` is how much of the mixture they are.
        """
        check_is_fitted(self)
        voxels = self._voxels()
        total = np.zeros(self.n_features_in_)
        for i, stored in enumerate(self.kernels_):
            kernel = Kernel(**stored)
            if kernel.shape == SHAPES[0]:
                dual = (self.member_weights_[i] * SHARES) @ self.dual_coef_[i] / kernel.scale
                rows = combined(self.X_fit_, voxels, dual[None])
                total += lifted(kernel.view, rows, voxels)[0] / voxels.unit
        return {"weight": total / (self.linear_weight_ or 1.0)}


class Learned(NamedTuple):
    """What a mixture has learned of its targets."""

    targets: Targets
    fits: list[Fit]
    weights: NDArray[np.float64]  # (members, stretches)
    scores: tuple[float, float]
    icc: float


def _learned(scans: ScanKernels, y: NDArray[np.float64]) -> Learned:
    """Fit all members to targets and weigh them by left-out scans."""
    check_consistent_length(scans.X, y)
    n_effective, icc = effective_scans(y, scans.groups, scans.centered)
    targets = describe_targets(y, n_effective)
    with blas_threads_for(len(y)):
        fits = [
            fit_members(kernel.values, kernel.vectors, targets.residual, SHARES)
            for kernel in scans.kernels
        ]
        out = all_left_out(scans.kernels, fits, targets, scans.groups)
        weights, density = member_weights(out, n_effective)
    return Learned(targets, fits, weights, left_out_scores(out, weights, density), icc)


def _checked_groups(groups: Any, X: NDArray) -> NDArray | None:
    if groups is None:
        return None
    groups = column_or_1d(groups)
    check_consistent_length(X, groups)
    refuse_unclear("groups", groups)
    return groups


def _checked_share(value: Any, name: str) -> float:
    if not isinstance(value, Real) or not 0 < float(value) < 1:
        raise InputError(
            f"{option(name, value)} cannot be used", expected="a number between 0 and 1"
        )
    return float(value)
