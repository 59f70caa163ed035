"""AutoClassifier: the default classifier, which leaves no choice to the user."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from voxprior.algebra import blas_threads_for
from voxprior.auto.basis import basis_of, patterns, projected
from voxprior.auto.discriminant import SHRINKAGES
from voxprior.auto.folds import design_of
from voxprior.auto.members import (
    Members,
    centered_scans,
    fit_members,
    sharing_scores,
    sharing_weights,
)
from voxprior.auto.views import Standard, Views, smoother_of, views_of
from voxprior.auto.weights import (
    DISCRIMINANT,
    NOTHING,
    PROBABILITIES,
    Grid,
    mixture,
    posterior_of,
)
from voxprior.auto.words import decisions
from voxprior.models.base import FLOATS, VoxelClassifier
from voxprior.space import VoxelSpace


class Prepared(NamedTuple):
    """Checked scans (n, p), group numbers, the smoother, and views by training rows."""

    scans: NDArray
    groups: NDArray | None
    smoother: sparse.csr_array | None
    views: dict[bytes, Views]


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

    There is no random number in it, and no scan is kept. Scaling of whole scans and centring by
    run or subject come before it, see `voxprior.Decoder`.

    Parameters
    ----------
    space : VoxelSpace, optional
        Where the voxels are. With T time points a scan is time-major, ``(T, V)`` ravelled, and
        smoothing acts within each of them. Without a space there is no smooth view.
    sharing : bool
        Whether feature sharing is a member too. It takes about as long as all else together, and
        did not pay over all tasks it was tried on.

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
        Scans that the left-out ones count for.
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
    That scans say nothing about the classes has 2 % of the weight (50 % beforehand).
    """

    _parameter_constraints: ClassVar[dict] = {
        "space": [VoxelSpace, None],
        "sharing": ["boolean"],
    }

    # Voxels are scaled inside, and one view is not: whoever prepares scans need not do it.
    scales_voxels: ClassVar[bool] = True

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
            Run or subject of each scan: what is left out together inside.

        Returns
        -------
        AutoClassifier
        """
        X, codes = self._training_scans(X, y)
        self._n_voxels()
        groups = _group_numbers(X, groups)
        smoother = smoother_of(self.space)
        return self._learn(X, codes, groups, smoother, views_of(X, groups, smoother))

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
        X = validate_data(self, X, dtype=FLOATS)
        self._n_voxels()
        return Prepared(X, _group_numbers(X, groups), smoother_of(self.space), {})

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
        X = prepared.scans[rows]
        groups = None if prepared.groups is None else _numbered(prepared.groups[rows])
        key = np.ascontiguousarray(rows).tobytes()
        if key not in prepared.views:
            prepared.views[key] = views_of(X, groups, prepared.smoother)
        return self._learn(X, codes, groups, prepared.smoother, prepared.views[key])

    def predict_proba(self, X):
        """Class probabilities, an array (n, C)."""
        X = self._new_scans(X)
        log_prior = np.log(self.class_prior_)
        return mixture(
            self._scores(X), self._grids(), self._posterior(), log_prior, self.n_effective_
        )

    def voxel_maps(self) -> dict[str, np.ndarray]:
        """What each voxel adds to the answer, and how it follows the answer.

        ``weights`` (p,), for two classes, is what a voxel adds to the log-odds of the second, per
        unit of its value, averaged over members and weights; ``pattern`` (p,) how the voxel rises
        with these log-odds over the training scans (Haufe et al. 2014), which tells where the
        signal is. With more classes there is ``weights[c]`` for each, the logit of class c less
        the mean of all: the weights between two classes are the difference of theirs.
        """
        check_is_fitted(self)
        weights = self._average_weights() / self.unit_
        names = [""] if len(weights) == 1 else [f"[{label}]" for label in self.classes_]
        maps = {f"weights{name}": one for name, one in zip(names, weights)}
        return maps | {f"pattern{name}": one for name, one in zip(names, self.pattern_)}

    # ------------------------------------------------------------------ fitting

    def _learn(self, X, codes, groups, smoother, views: Views) -> AutoClassifier:
        n_classes = len(self.classes_)
        design = design_of(codes, n_classes, groups, views.centered)
        self.class_prior_ = np.bincount(codes, minlength=n_classes) / len(codes)
        self.n_effective_ = design.n_effective
        with blas_threads_for(len(X)):
            members = fit_members(X, views, codes, n_classes, design, self.space, self.sharing)
            self._weigh(members)
            self._keep(X, members, views, smoother)
        self.decisions_ = decisions(self, design, len(members.codes))
        return self

    def _weigh(self, members: Members) -> None:
        """Posterior of members and weights, and what it makes of the left-out scans."""
        log_prior, worth = np.log(self.class_prior_), self.n_effective_
        known = (members.left_out, members.grids)
        posterior = posterior_of(*known, members.mass, members.codes, log_prior, worth)
        p = mixture(*known, posterior, log_prior, worth)[
            np.arange(len(members.codes)), members.codes
        ]
        self.left_out_log_loss_ = float(-np.log(p).mean()) if len(p) else float("nan")
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

    def _keep(self, X, members: Members, views: Views, smoother) -> None:
        """What prediction and maps need; no scan."""
        standard = views.standard
        self.views_ = list(views.names)
        self.mean_, self.unit_ = standard.mean, standard.unit
        self.basis_, self.dual_ = basis_of(X, views, members.paths, smoother)
        self.offset_ = np.concatenate([path.offset for path in members.paths])
        latent = projected(X, standard, self._average_weights())
        self.pattern_ = patterns(X, standard, latent)

    # ------------------------------------------------------------------ prediction

    def _standard(self) -> Standard:
        return Standard(self.mean_, self.unit_, np.ones(0))

    def _scores(self, X) -> list[NDArray[np.float64]]:
        """Scores (m, C) of new scans by member, in the order of `_posterior`."""
        features = projected(X, self._standard(), self.basis_)
        scores = list(features @ self.dual_ + self.offset_[:, None, :])
        if self.sharing_ is not None:
            scores.append(sharing_scores(self.sharing_, centered_scans(X, self._standard())))
        return [*scores, np.zeros((len(X), len(self.classes_)))]

    def _posterior(self) -> list[NDArray[np.float64]]:
        members = list(self.weight_posterior_.reshape(len(self.dual_), -1))
        shared = [] if self.sharing_ is None else [self.sharing_posterior_]
        return [*members, *shared, np.array([self.nothing_weight_])]

    def _grids(self) -> list[Grid]:
        shared = [] if self.sharing_ is None else [PROBABILITIES]
        return [DISCRIMINANT] * len(self.dual_) + [*shared, NOTHING]

    def _average_weights(self) -> NDArray[np.float64]:
        """Weights of the average score on centred voxels: (1, p) log-odds, or (C, p) by class."""
        expected = (self.weight_posterior_ @ np.exp(self.log_weights_)).ravel()
        weights = np.tensordot(expected, self.dual_, 1).T @ self.basis_
        if self.sharing_ is not None:
            strength = self.sharing_posterior_ @ np.exp(PROBABILITIES.log_weight)
            weights = weights + strength * sharing_weights(self.sharing_)
        return weights[1:] - weights[:1] if len(weights) == 2 else weights - weights.mean(axis=0)


def _group_numbers(X: NDArray, groups: Any) -> NDArray[np.intp] | None:
    """Groups by number in sorted order, or None where there are none."""
    if groups is None:
        return None
    groups = column_or_1d(groups)
    check_consistent_length(X, groups)
    return _numbered(groups)


def _numbered(groups: NDArray) -> NDArray[np.intp] | None:
    """Groups by number; None for a single one, which tells nothing."""
    known, numbers = np.unique(groups, return_inverse=True)
    return numbers if len(known) > 1 else None
