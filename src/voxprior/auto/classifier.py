"""AutoClassifier: the default classifier, which leaves no choice to the user."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from voxprior.algebra import blas_threads_for
from voxprior.auto.basis import basis_of, maps_of, projected
from voxprior.auto.discriminant import SHRINKAGES, spectrum_of
from voxprior.auto.folds import design_of
from voxprior.auto.many import ManyClassifiers, Prepared, group_numbers, known_groups
from voxprior.auto.members import (
    Members,
    centered_scans,
    fit_discriminants,
    sharing_scores,
    sharing_weights,
    with_nothing,
    with_sharing,
)
from voxprior.auto.smoothing import smoother_of
from voxprior.auto.views import SMALLEST, Views, Voxels, views_of
from voxprior.auto.weights import (
    DISCRIMINANT,
    NOTHING,
    PROBABILITIES,
    Grid,
    mixture,
    posterior_of,
)
from voxprior.auto.words import decisions
from voxprior.models.base import VoxelClassifier
from voxprior.models.growth import AUTO, cubic, tell_if_long
from voxprior.models.sharing import FeatureSharingNB
from voxprior.space import VoxelSpace


class AutoClassifier(VoxelClassifier):
    """Linear discriminants of several views and shrinkages, averaged by what left-out scans say.

    From one scan per class to hundreds, with or without coordinates, no parameter needs a choice.
    Scans are read in two or three views (as they are, each voxel in units of its standard
    deviation, and smoothed over neighbours where there is a `space`); in each a path of shrunk
    linear discriminants with James-Stein class means gives scores

        s_c(x) = [(x - m)'Σ⁻¹u_c - (ρ/2) u_c'Σ⁻¹u_c] / D

    "Nothing there" joins them, at even odds. One posterior over members and over the weight w
    of their scores comes from fixed left-out folds of the training scans, and is averaged over:

        p(c | x) = (1 - ε) Σ_mw π(m, w) softmax_c(log(n_c/n) + w s^m(x)) + ε n_c/n

    It uses no random numbers, and keeps no scan. Scaling of whole scans and centring by
    run or subject come before it, see `voxprior.Decoder`.

    Parameters
    ----------
    space : VoxelSpace, optional
        Where the voxels are. With T time points a scan is time-major, ``(T, V)`` ravelled, and
        smoothing acts within each of them. Without a space there is no smooth view.
    sharing : bool
        Whether feature sharing is a member too. It takes about as long as everything else together,
        and did not pay over all the tasks tried.

    Attributes
    ----------
    classes_ : array of shape (C,)
    class_prior_ : array of shape (C,)
        n_c/n, the frequencies in training.
    decisions_ : list of str
        Every automatic choice in a sentence, with the number that made it.
    views_ : list of str
        Names of the views.
    shrinkages_ : array of shape (T,)
        Shrinkages τ of the path, in units of the mean eigenvalue of the covariance within classes.
    member_weights_ : array of shape (n_views, T)
        Posterior mass of each discriminant.
    sharing_weight_, nothing_weight_ : float
        Posterior mass of feature sharing, and of "nothing there".
    log_weights_ : array of shape (Q,)
        Grid of log w of the discriminants.
    weight_posterior_ : array of shape (n_views, T, Q)
        Posterior π of discriminants and weights.
    left_out_log_loss_ : float
        Mean log-loss of the mixture on left-out training scans, by which its weights were
        learned; NaN where no scan could be left out.
    n_effective_ : int
        Number of scans that the left-out ones count for.
    basis_, dual_, offset_ : arrays of shape (R, p), (M, R, C) and (M, C)
        Scores of discriminant m are ``(x - mean_) / unit_ @ basis_.T @ dual_[m] + offset_[m]``.
    mean_, unit_ : array of shape (p,), float
        Mean of the training scans, and the largest deviation from it.
    pattern_ : array of shape (1 or C, p)
        How voxels rise with the log-odds, or with the logit of each class.
    sharing_ : FeatureSharingNB or None
        The member that shares features, fitted to ``(X - mean_) / unit_``.
    sharing_posterior_ : array
        Posterior of its weights.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior import AutoClassifier
    >>> X = [[2, 0, 1, 0], [3, 1, 0, 1], [2, 1, 2, 0], [0, 2, 1, 1], [1, 3, 0, 0], [0, 2, 2, 2]]
    >>> model = AutoClassifier().fit(X, ["cat"] * 3 + ["dog"] * 3)
    >>> model.predict_proba([[2, 1, 1, 1]]).round(3)
    array([[0.939, 0.061]])
    >>> print(model.decisions_[2])
    The hypothesis "no class information" keeps 2 % of the weight (prior: 50 %).
    """

    _parameter_constraints: ClassVar[dict] = {
        "space": [VoxelSpace, None],
        "sharing": ["boolean"],
    }

    _reads_blocks: ClassVar[bool] = True
    # Scans are put into units of their own before they are squared.
    _scan_range: ClassVar[tuple[float, float]] = (SMALLEST, np.inf)

    # Voxels are scaled inside, and one view is not: scans need no scaling of voxels before.
    scales_voxels: ClassVar[bool] = True

    # For tests in batch, see `voxprior.validation.batch`.
    fit_many_is_fit: ClassVar[bool] = True
    fit_many_words: ClassVar[str] = (
        "the log-odds of the automatic classifier, learned anew in every fold and relabelling"
    )
    labels_at_once: ClassVar[int] = 256
    most_scans_at_once: ClassVar[int] = 1000

    # Groups reach `fit` by themselves where scikit-learn routes metadata.
    __metadata_request__fit = {"groups": True}  # noqa: RUF012

    def __init__(self, space: VoxelSpace | None = None, *, sharing: bool = False):
        self.space = space
        self.sharing = sharing

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, groups=None):
        """Learn members and weights.

        Parameters
        ----------
        X : array of shape (n, p)
            Scans, float32 or float64; with time, time-major.
        y : array of shape (n,)
            Labels.
        groups : array of shape (n,), optional
            Run or subject of each scan; its scans are left out together in the inner folds.

        Returns
        -------
        AutoClassifier
        """
        X, codes = self._training_scans(X, y)
        self._n_voxels()
        groups = known_groups(X, groups)
        return self._learn(X, codes, groups, views_of(X, groups, smoother_of(self.space)))

    def prepare(self, X, groups=None) -> Prepared:
        """Check scans (n, p) and find all that labels do not change, once for many fits.

        Examples
        --------
        >>> import numpy as np
        >>> from voxprior import AutoClassifier
        >>> X = np.random.default_rng(0).normal(size=(6, 8))
        >>> model, y, train = AutoClassifier(), np.array([0, 1, 0, 1]), np.array([0, 2, 3, 5])
        >>> again = model.fit_prepared(model.prepare(X), train, y).predict_proba(X)
        >>> np.array_equal(again, model.fit(X[train], y).predict_proba(X))
        True
        """
        self._validate_params()
        X = self._checked_scans(X)
        self._n_voxels()
        return Prepared(X, known_groups(X, groups), smoother_of(self.space), {})

    def fit_prepared(self, prepared: Prepared, rows, y):
        """Fit to some rows of the prepared scans: ``fit(X[rows], y, groups[rows])``.

        The Gram matrices of a set of rows are kept in `prepared`, so that other labels of the same
        rows need no further pass over the voxels.

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
        groups = group_numbers(prepared.groups, rows)
        return self._learn(prepared.scans[rows], codes, groups, prepared.views_of(rows))

    @available_if(lambda self: not self.sharing)
    def fit_many(self, prepared: Prepared, rows, Y, n_classes: int) -> ManyClassifiers:
        """Fit to some rows of the prepared scans for many labellings at once.

        The same models as `fit` gives one by one; see `voxprior.validation.batch` for its contract
        and `voxprior.auto.many` for the method. Not with ``sharing=True``.

        Parameters
        ----------
        prepared : Prepared
            What :meth:`prepare` returned.
        rows : integer array of shape (m,)
            Which scans train.
        Y : array of shape (m, B)
            Class codes from 0, one labelling per column.
        n_classes : int

        Returns
        -------
        ManyClassifiers
            Its ``decision_function(rows)`` gives log-odds, or log-probabilities beyond two classes.

        Examples
        --------
        >>> import numpy as np
        >>> from voxprior import AutoClassifier
        >>> y, rng = np.tile([0, 1], 8), np.random.default_rng(0)
        >>> X = rng.normal(size=(16, 4)) + 6 * y[:, None]
        >>> model, train = AutoClassifier(), np.arange(12)
        >>> many = model.fit_many(model.prepare(X), train, np.column_stack([y, 1 - y])[train], 2)
        >>> (many.decision_function(np.arange(12, 16)) > 0).T.astype(int)
        array([[0, 1, 0, 1],
               [1, 0, 1, 0]])
        """
        with blas_threads_for(len(rows)):
            return ManyClassifiers.fitted(prepared, np.asarray(rows), np.asarray(Y), n_classes)

    def predict_proba(self, X):
        """Class probabilities, an array (n, C)."""
        X = self._new_scans(X)
        scores = [member[:, None] for member in self._scores(X)]
        posterior = [weight[:, None] for weight in self._posterior()]
        return mixture(scores, self._grids(), posterior, *self._prior_knowledge())[:, 0]

    def voxel_maps(self) -> dict[str, np.ndarray]:
        """What each voxel adds to the answer, and how it follows the answer.

        ``weights`` (p,), for two classes, is what a voxel adds to the log-odds of the second, per
        unit of its value, averaged over members and weights; ``pattern`` (p,) how the voxel rises
        with these log-odds over the training scans (Haufe et al. 2014), which shows where the
        signal is. With more classes there is ``weights[c]`` for each, the logit of class c less the
        mean of all: the weights between two classes are the difference of theirs.
        """
        check_is_fitted(self)
        weights = self._average_weights() / self.unit_
        names = [""] if len(weights) == 1 else [f"[{label}]" for label in self.classes_]
        maps = {f"weights{name}": one for name, one in zip(names, weights)}
        return maps | {f"pattern{name}": one for name, one in zip(names, self.pattern_)}

    # ------------------------------------------------------------------ fitting

    def _learn(self, X, codes, groups, views: Views) -> AutoClassifier:
        n_classes = len(self.classes_)
        tell_if_long(self, cubic(AUTO, len(codes)), len(codes), less="the model sharing")
        design = design_of(codes, n_classes, groups, views.centered)
        self.class_prior_ = np.bincount(codes, minlength=n_classes) / len(codes)
        self.n_effective_ = design.n_effective
        with blas_threads_for(len(X)):
            spectra = [spectrum_of(gram) for gram in views.grams]
            members = fit_discriminants(views, spectra, codes[:, None], n_classes, design.folds)
            if self.sharing:
                known = (X, views, codes, n_classes, design.folds, self.space)
                members = with_sharing(members, *known)
            members = with_nothing(members)
            self._weigh(members)
            self._keep(X, members, views)
        self.decisions_ = decisions(self, design, len(members.codes))
        return self

    def _prior_knowledge(self) -> tuple[NDArray, NDArray]:
        """Log class frequencies (1, C), and how many scans count, (1,)."""
        return np.log(self.class_prior_)[None], np.array([self.n_effective_])

    def _weigh(self, members: Members) -> None:
        """Posterior of members and weights, and what it makes of the left-out scans."""
        known = (members.left_out, members.grids)
        posterior = posterior_of(*known, members.mass, members.codes, *self._prior_knowledge())
        p = mixture(*known, posterior, *self._prior_knowledge())
        p = np.take_along_axis(p, members.codes[..., None], 2)
        self.left_out_log_loss_ = float(-np.log(p).mean()) if len(p) else float("nan")
        posterior = [weight[:, 0] for weight in posterior]
        n_views, T = len(members.paths), len(SHRINKAGES)
        self.shrinkages_ = np.array(SHRINKAGES)
        self.log_weights_ = members.grids[0].log_weight.copy()
        self.weight_posterior_ = np.array(posterior[: n_views * T]).reshape(n_views, T, -1)
        self.member_weights_ = self.weight_posterior_.sum(axis=2)
        shared = members.sharing is not None
        self.sharing_ = members.sharing
        self.sharing_posterior_ = posterior[n_views * T] if shared else np.zeros(0)
        self.sharing_weight_ = float(self.sharing_posterior_.sum())
        self.nothing_weight_ = float(posterior[-1].sum()) if len(members.codes) else 0.0

    def _keep(self, X, members: Members, views: Views) -> None:
        """What prediction and maps need; no scan."""
        voxels = views.voxels
        self.views_ = list(views.names)
        self.mean_, self.unit_ = voxels.mean, voxels.unit
        duals, offsets = zip(*(paths.of_scans() for paths in members.paths))
        basis = basis_of(duals)
        self.dual_, self.offset_ = basis.dual, np.concatenate(offsets)
        latent = _against(self._average_dual().T @ basis.features(views.grams).T)
        if self.sharing_ is not None:
            shared = _against(self._sharing_weights(self.sharing_))
            latent = latent + projected(X, voxels, shared).T
        self.basis_, self.pattern_ = maps_of(X, views, basis, latent.T)

    # ------------------------------------------------------------------ prediction

    def _voxels(self) -> Voxels:
        return Voxels(self.mean_, self.unit_, np.ones(0))

    def _scores(self, X) -> list[NDArray[np.float64]]:
        """Scores (m, C) of new scans by member, in the order of `_posterior`."""
        features = projected(X, self._voxels(), self.basis_)
        scores = list(features @ self.dual_ + self.offset_[:, None, :])
        if self.sharing_ is not None:
            scores.append(sharing_scores(self.sharing_, centered_scans(X, self._voxels())))
        return [*scores, np.zeros((len(X), len(self.classes_)))]

    def _posterior(self) -> list[NDArray[np.float64]]:
        members = list(self.weight_posterior_.reshape(len(self.dual_), -1))
        shared = [] if self.sharing_ is None else [self.sharing_posterior_]
        return [*members, *shared, np.array([self.nothing_weight_])]

    def _grids(self) -> list[Grid]:
        shared = [] if self.sharing_ is None else [PROBABILITIES]
        return [DISCRIMINANT] * len(self.dual_) + [*shared, NOTHING]

    def _average_dual(self) -> NDArray[np.float64]:
        """What makes the average score of the discriminants of features, (R, C)."""
        expected = (self.weight_posterior_ @ np.exp(self.log_weights_)).ravel()
        return np.tensordot(expected, self.dual_, 1)

    def _sharing_weights(self, model: FeatureSharingNB) -> NDArray[np.float64]:
        """What feature sharing adds to the average score, (C, p) on centred voxels."""
        strength = float(self.sharing_posterior_ @ np.exp(PROBABILITIES.log_weight))
        return strength * sharing_weights(model)

    def _average_weights(self) -> NDArray[np.float64]:
        """Weights of the average score on centred voxels: (1, p) log-odds, or (C, p) by class."""
        weights = self._average_dual().T @ self.basis_
        if self.sharing_ is not None:
            weights = weights + self._sharing_weights(self.sharing_)
        return _against(weights)


def _against(scores: NDArray) -> NDArray[np.float64]:
    """Scores (C, ...) of the second class against the first of two, or each against the mean."""
    return scores[1:] - scores[:1] if len(scores) == 2 else scores - scores.mean(axis=0)
