"""SpatialBoostingClassifier: the scikit-learn face of spatially regularised boosting.

    minimise   Σ_i exp(-y_i F(x_i)) + λ β'Kβ,   F = Σ_j α_j h_j,   α ≥ 0

| symbol | variable | shape |
|---|---|---|
| h_j, α_j | `stumps_` | structured, one row per stump |
| β, component importance | `importance_` | (V,) |
| the objective | `objective_` | (iterations + 1,) |
| λ, r, as given or chosen | `regularization_`, `radius_` | scalars |
| a, slope of the link | `slope_` | scalar |

Reference: Xiang, Xi, Hasson & Ramadge, Boosting with spatial regularization, NIPS 2009.
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from voxprior.errors import InputError, option
from voxprior.models.base import check_times
from voxprior.models.boosting.batch import BoostingInBatch
from voxprior.models.boosting.controls import Controls, control_maps, selection_frequency
from voxprior.models.boosting.coordinate_descent import Settings
from voxprior.models.boosting.cross_validation import choose, grid_of, inner_folds, loss_table
from voxprior.models.boosting.ensemble import (
    EXPONENTIAL_SLOPE,
    Ensemble,
    TrainingSet,
    ensemble_values,
    fit_problems,
    join_problems,
    leading_class,
    location_maps,
    log_probabilities,
    staged_ensemble_values,
    training_set,
    without_weightless,
)
from voxprior.models.boosting.penalty import Penalty, make_penalty
from voxprior.space import VoxelSpace

POSITIVE = Interval(Real, 0, None, closed="neither")
NON_NEGATIVE = Interval(Real, 0, None, closed="left")
COUNT = Interval(Integral, 1, None, closed="left")


class SpatialBoostingClassifier(BoostingInBatch):
    """Boosted decision stumps whose importance map is spatially compact.

    Minimises Σ_i exp(-y_i F(x_i)) + λ β'Kβ over sums F of decision stumps, where β_k is the total
    weight of the stumps that look at location k and K = μ I - G with a Gaussian kernel G between
    locations. λ = 0 is AdaBoost with stumps of least weighted error. Binary by nature; more classes
    are handled one against the rest.

    Parameters
    ----------
    space : VoxelSpace, optional
        Where the locations are. With several features per location (time points, components),
        they are location-fastest: feature t V + v. Without a space there are no neighbours and
        K is the identity.
    regularization : float, sequence of float, or "auto"
        λ. A sequence, or "auto" for (1, 10, 100), is searched by inner cross-validation. The
        default is far above the paper's 0.1 to 0.5: it was more accurate on two runs of Haxby pairs
        and found more of simulated blobs; with a dozen runs it makes little difference.
    radius : float, sequence of float, or "auto"
        Radius r of G_ij = exp(-|v_i - v_j|² / (2 r²)). Searched likewise; "auto" is (1, 2).
    kernel : {"gaussian", "equalized", "identity"}, matrix or operator
        K: as above; with the rows of G scaled to equal sums, so that places with many neighbours
        are not cheaper than others; a plain ridge; or a positive semi-definite matrix (V, V) of
        your own, dense, sparse or an operator with `shape`, `@` and `column(k)`.
    mu : float, at least 1
        μ as a multiple of the largest row sum of G; 1 is the paper's. More is stronger grouping.
    units : {"voxel", "mm"}
        Unit of `radius` in a volume.
    n_iterations : int
        Number of iterations T.
    step : {"exact", "conservative"} or float
        How far a step goes: to the minimum (7), the provably decreasing (8), or a fixed length.
    backward : bool
        Follow each step with a backward one (Algorithm 2).
    thresholds : "all" or int
        Thresholds of a feature: between all distinct values, or at this many quantiles.
    loss_scale : {"sum", "mean"}
        Whether the loss is summed over samples, as in the paper, or averaged, so that λ keeps its
        meaning when their number changes.
    tol : float
        Stop where no stump's score exceeds this fraction of the total sample weight.
    early_stopping : bool
        Choose the number of iterations, up to `n_iterations`, by inner cross-validation.
    calibrate : bool
        Fit the slope of the probabilities to held-out values instead of the exponential loss's own,
        2.
    cv : int, splitter or iterable of splits
        Inner folds. A number means that many, stratified, never through one of the `groups` given
        to `fit`, and fewer where the rarest class has fewer samples or groups.
    warm_start : bool
        Continue from the stumps of the previous fit until there were `n_iterations`.
    random_state : int, RandomState or None, default=0
        Shuffles the inner folds; nothing else is random.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    stumps_ : structured ndarray
        Fields `problem` (0, or the class of a one-vs-rest problem), `feature`, `threshold`, `sign`,
        `weight`.
    steps_ : structured ndarray
        Every step: `problem`, `iteration`, `stump` (within the problem) and `change` of its weight.
    importance_ : ndarray of shape (V,)
        Component importance β, summed over the problems.
    importances_ : ndarray of shape (n_problems, V)
        β of each problem.
    smoothed_ : ndarray of shape (V,)
        G β, or β where there is no G.
    objective_ : ndarray of shape (iterations + 1,), or (n_classes, iterations + 1)
        The objective, the start first.
    n_iter_ : int
        Iterations made.
    regularization_, radius_ : float
        λ and r used.
    slope_ : float
        Slope a in p = 1 / (1 + exp(-a F)).
    selection_losses_ : structured ndarray
        Held-out log-loss of each `regularization` and `radius`; empty without inner
        cross-validation.

    References
    ----------
    Xiang, Xi, Hasson & Ramadge, Boosting with spatial regularization, NIPS 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior import SpatialBoostingClassifier, VoxelSpace
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["face", "house"], 20)
    >>> X = rng.standard_normal((40, 12 * 12))
    >>> X.reshape(40, 12, 12)[y == "face", 3:6, 3:6] += 1.0
    >>> model = SpatialBoostingClassifier(space=VoxelSpace.grid((12, 12))).fit(X, y)
    >>> int(model.importance_.argmax()) in np.ravel_multi_index(np.mgrid[3:6, 3:6], (12, 12))
    True
    """

    _scan_range: ClassVar[tuple[float, float]] = (0.0, np.inf)  # values are only compared
    _parameter_constraints: ClassVar[dict] = {
        "space": [VoxelSpace, None],
        "regularization": [NON_NEGATIVE, "array-like", StrOptions({"auto"})],
        "radius": [POSITIVE, "array-like", StrOptions({"auto"})],
        "kernel": [
            StrOptions({"gaussian", "equalized", "identity"}),
            np.ndarray,
            "sparse matrix",
            HasMethods(["column", "__matmul__"]),
        ],
        "mu": [Interval(Real, 1, None, closed="left")],
        "units": [StrOptions({"voxel", "mm"})],
        "n_iterations": [COUNT],
        "step": [StrOptions({"exact", "conservative"}), POSITIVE],
        "backward": ["boolean"],
        "thresholds": [StrOptions({"all"}), COUNT],
        "loss_scale": [StrOptions({"sum", "mean"})],
        "tol": [NON_NEGATIVE],
        "early_stopping": ["boolean"],
        "calibrate": ["boolean"],
        "cv": ["cv_object"],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        space=None,
        *,
        regularization=10.0,
        radius=1.0,
        kernel="gaussian",
        mu=1.0,
        units="voxel",
        n_iterations=100,
        step="exact",
        backward=False,
        thresholds="all",
        loss_scale="sum",
        tol=1e-6,
        early_stopping=False,
        calibrate=False,
        cv=5,
        warm_start=False,
        random_state=0,
    ):
        self.space = space
        self.regularization = regularization
        self.radius = radius
        self.kernel = kernel
        self.mu = mu
        self.units = units
        self.n_iterations = n_iterations
        self.step = step
        self.backward = backward
        self.thresholds = thresholds
        self.loss_scale = loss_scale
        self.tol = tol
        self.early_stopping = early_stopping
        self.calibrate = calibrate
        self.cv = cv
        self.warm_start = warm_start
        self.random_state = random_state

    @classmethod
    def paper(cls, space=None, **changes) -> SpatialBoostingClassifier:
        """Return the estimator as the paper ran it on fMRI; `changes` are other parameters.

        Algorithm 1 with the step (8), λ = 0.1, r = 5 voxels, T = 100, μ the largest row sum.
        """
        printed = {"regularization": 0.1, "radius": 5.0, "step": "conservative", "tol": 0.0}
        return cls(space, **{**printed, "n_iterations": 100, **changes})

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight=None, groups=None):
        """Fit to samples X (n, n_features) and labels y (n,).

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Samples; float32 is kept.
        y : array-like of shape (n,)
            Labels of any kind, two classes or more.
        sample_weight : array-like of shape (n,), optional
            Weight of each sample's loss; a sample of weight zero takes no part.
        groups : array-like of shape (n,), optional
            Runs or subjects that inner cross-validation must not split.
        """
        X, y = self._scans_and_targets(X, y)
        previous = self._previous(np.unique(y))
        codes = self._encode(y)
        candidates = self._candidates(self._grid())
        training = self._training_set(X, codes, sample_weight)
        penalty, settings = self._choose(training, groups, candidates)
        training = without_weightless(training)
        starts = None
        if previous is not None:
            starts = [previous.problem(c)[0] for c in range(len(training.Y))]
            more = max(settings.n_iterations - previous.n_iterations, 0)
            settings = settings._replace(n_iterations=more)
        fitted = fit_problems(training, penalty, settings, starts)
        del training  # its orders are the largest thing in memory
        self._store(join_problems(fitted, previous), penalty)
        return self

    def _validate_params(self) -> None:
        super()._validate_params()
        self._grid()

    def _previous(self, classes: NDArray) -> Ensemble | None:
        """Return what a warm start continues from."""
        if not (self.warm_start and hasattr(self, "stumps_")):
            return None
        if not np.array_equal(classes, self.classes_):
            raise InputError(
                f"{option('warm_start', True)} continues with the same classes",
                expected=f"{self.classes_.tolist()}",
                got=f"{classes.tolist()}",
                remedy=f"Set {option('warm_start', False)} to start anew",
            )
        if self.n_iterations < self.n_iter_:
            raise InputError(
                f"{option('warm_start', True)} cannot take iterations back",
                expected=f"{option('n_iterations')} of at least the {self.n_iter_} already made",
                got=f"{self.n_iterations}",
            )
        return self._ensemble()

    def _training_set(self, X: Any, codes: NDArray, sample_weight: Any) -> TrainingSet:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        how = (self._n_thresholds(), self.loss_scale == "mean")
        return training_set(X, codes, len(self.classes_), weights, *how)

    def _grid(self) -> list[tuple[float, float]]:
        """Return the pairs (r, λ) to try; a kernel without a radius has one r only."""
        gaussian = isinstance(self.kernel, str) and self.kernel != "identity"
        spatial = gaussian and self.space is not None
        return grid_of(self.radius, self.regularization, every_radius=spatial)

    def _choose(
        self, training: TrainingSet, groups: Any, candidates: list[tuple[Penalty, Settings]]
    ) -> tuple[Penalty, Settings]:
        """Find λ, r, T and the slope of the link, by inner cross-validation where asked."""
        grid = self._grid()
        best, self.slope_, self.selection_losses_ = 0, EXPONENTIAL_SLOPE, loss_table([], [])
        n_iterations, Y = self.n_iterations, training.Y
        if len(grid) > 1 or self.early_stopping or self.calibrate:
            labels = np.argmax(Y, axis=0) if len(Y) > 1 else Y[0]
            folds = inner_folds(labels, groups, self.cv, check_random_state(self.random_state))
            best, n_iterations, slope, losses = choose(
                training, candidates, folds, self.early_stopping
            )
            self.slope_ = slope if self.calibrate else EXPONENTIAL_SLOPE
            self.selection_losses_ = loss_table(grid, losses)
        self.radius_, self.regularization_ = grid[best]
        penalty, settings = candidates[best]
        return penalty, settings._replace(n_iterations=n_iterations)

    def _candidates(self, grid: list[tuple[float, float]]) -> list[tuple[Penalty, Settings]]:
        n_locations = self._n_voxels()
        penalties = {
            r: make_penalty(self.kernel, self.space, n_locations, r, self.mu, self.units)
            for r in dict.fromkeys(r for r, _ in grid)
        }
        settings = Settings(0.0, self.n_iterations, self.step, self.backward, self.tol)
        return [(penalties[r], settings._replace(regularization=lam)) for r, lam in grid]

    def _n_voxels(self) -> int:
        """V: of the space, else of an own kernel, else one location per feature."""
        if self.space is None and hasattr(self.kernel, "shape"):
            return check_times(self, self.kernel.shape[0], "kernel")
        return super()._n_voxels()

    def _store(self, ensemble: Ensemble, penalty: Penalty) -> None:
        self.stumps_, self.steps_, objective, self.importances_ = ensemble
        self.objective_ = objective[0] if len(objective) == 1 else objective
        self.n_iter_ = ensemble.n_iterations
        self.importance_ = self.importances_.sum(axis=0)
        self.smoothed_ = penalty.smooth(self.importance_)

    def _ensemble(self) -> Ensemble:
        objective = np.atleast_2d(self.objective_)
        return Ensemble(self.stumps_, self.steps_, objective, self.importances_)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return F(x): (n,) for two classes, positive for `classes_[1]`, else (n, n_classes)."""
        F = self._values(X)
        return F[:, 0] if F.shape[1] == 1 else F

    def predict_log_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return log p of each class, (n, n_classes)."""
        return log_probabilities(self._values(X), self.slope_)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return p of each class, (n, n_classes)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: ArrayLike) -> NDArray:
        """Return the most probable label of each sample, (n,)."""
        best = leading_class(self._values(X))
        return self.classes_[best]

    def staged_decision_function(self, X: ArrayLike) -> Iterator[NDArray[np.float64]]:
        """Yield `decision_function(X)` after each iteration."""
        for F in self._staged(X):
            yield F[:, 0] if F.shape[1] == 1 else F

    def staged_predict_proba(self, X: ArrayLike) -> Iterator[NDArray[np.float64]]:
        """Yield `predict_proba(X)` after each iteration."""
        for F in self._staged(X):
            yield np.exp(log_probabilities(F, self.slope_))

    def staged_predict(self, X: ArrayLike) -> Iterator[NDArray]:
        """Yield `predict(X)` after each iteration."""
        for F in self._staged(X):
            yield self.classes_[leading_class(F)]

    def _values(self, X: ArrayLike) -> NDArray[np.float64]:
        return ensemble_values(self._new_scans(X), self._ensemble())

    def _staged(self, X: ArrayLike) -> NDArray[np.float64]:
        return staged_ensemble_values(self._new_scans(X), self._ensemble())

    def voxel_maps(self) -> dict[str, NDArray]:
        """Return what the classifier relies on.

        Returns
        -------
        dict
            `importance`, β (V,); `smoothed`, Gβ (V,); `direction`, the part of β that speaks for
            the last class where values are high, less the part that speaks against it (V,);
            `selection_order` (V,), 1 for the location chosen first and 0 for those never chosen.
            With several features per location, `feature_importance` (n_features,). With more than
            two classes, `importance_<label>` of each, and `direction` is left out. Compare them
            with their `controls`.
        """
        check_is_fitted(self)
        return location_maps(self._ensemble(), self.smoothed_, self.classes_, self.n_features_in_)

    def controls(
        self, X: ArrayLike, y: ArrayLike, n_shuffles: int = 20, groups=None, random_state=None
    ) -> Controls:
        """Refit with one thing removed at a time: the maps to compare an importance map with.

        Parameters
        ----------
        X, y : array-like
            The training data; they are sorted once for all refits.
        n_shuffles : int
            Number of refits with permuted labels.
        groups : array-like of shape (n,), optional
            Permute labels within groups only.
        random_state : int, Generator or None
            Source of the permutations.

        Returns
        -------
        Controls
            Maps `importance`, `permuted` (coordinates shuffled), `ridge` (K = I), `diagonal` (K
            without neighbours), all (V,), and `shuffled` labels (n_shuffles, V).
        """
        rng = np.random.default_rng(random_state)
        return control_maps(*self._refit(X, y), n_shuffles, rng, groups)

    def selection_frequency(
        self,
        X: ArrayLike,
        y: ArrayLike,
        n_bootstraps: int = 50,
        size: int | None = None,
        random_state=None,
    ) -> NDArray[np.float64]:
        """Return the share of bootstrap refits that select each location, (V,).

        Parameters
        ----------
        X, y : array-like
            The training data; they are sorted once for all refits.
        n_bootstraps : int
            Number of refits.
        size : int, optional
            Count a location where it is among this many highest; by default wherever β > 0, which
            at convergence may be nearly everywhere.
        random_state : int, Generator or None
            Source of the draws.
        """
        rng = np.random.default_rng(random_state)
        return selection_frequency(*self._refit(X, y), n_bootstraps, size, rng)

    def _refit(self, X: ArrayLike, y: ArrayLike) -> tuple[TrainingSet, Penalty, Settings]:
        """Return what the fit was made of, for refits with one thing changed."""
        check_is_fitted(self)
        X, y = self._scans_and_targets(X, y, reset=False)
        training = self._training_set(X, self._codes(y), None)
        ((penalty, settings),) = self._candidates([(self.radius_, self.regularization_)])
        return training, penalty, settings._replace(n_iterations=self.n_iter_)
