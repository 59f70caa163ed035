"""RandomFieldClassifier: the scikit-learn face of compressed random fields.

Fit: rank features and standardise the chosen nodes (:mod:`~voxprior.models.fields.nodes`), train
one field per class (:mod:`~voxprior.models.fields.training`), set the threshold, learn the
temperature in folds of the training data (:mod:`~voxprior.models.fields.threshold`). Predict:
argmax_θ of log p(x|θ) − log Z_θ + log prior_θ (:mod:`~voxprior.models.fields.field`).
"""

from __future__ import annotations

import copy
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from voxprior.algebra import log_softmax_rows
from voxprior.errors import InputError, option
from voxprior.models.base import class_prior
from voxprior.models.fields.adaptation import (
    ADAPTATIONS,
    absorb_scans,
    adapt_fields,
    can_stream,
    check_adapts,
    empty_stream,
    lost_all_but_one,
    stream_fields,
)
from voxprior.models.fields.batch import FieldsInBatch
from voxprior.models.fields.blocks import blocks_at
from voxprior.models.fields.field import (
    Fields,
    Training,
    Trajectory,
    class_scores,
    count_connections,
    field_maps,
    ratio_trajectory,
)
from voxprior.models.fields.nodes import RANKINGS, Nodes, choose_nodes, rank_features
from voxprior.models.fields.threshold import class_offsets, fit_temperature, tune_offsets
from voxprior.models.fields.training import (
    SOLVERS,
    check_parameters,
    check_two_scans,
    choose_training,
    fold_indices,
    train_fields,
)


class RandomFieldClassifier(FieldsInBatch):
    """Classify by sparse Gaussian random fields, one per class, trained by Kalman filtering.

    In class θ every node is predicted by all others, x_i = β_iᵀ x_{−i} + b_i + w, w ~ N(0, σ_i);
    compression shrinks the l1 norm of β_i so that few connections stay. It is the model for classes
    that differ in how voxels go together; where they differ in means only, a large ``gamma`` makes
    it naive Bayes.

    Parameters
    ----------
    n_nodes : int or None, default=100
        Features to keep as nodes, the best ranked; None keeps all.
    nodes : array-like of int, optional
        Features to use as nodes; none are selected then.
    ranking : {"correlation", "signed_correlation", "mutual_information", \
"mutual_information_total", "mutual_information_mixture", "mutual_information_continuous"}, \
default="correlation"
        Score of a feature: |correlation| with the class; correlation with the second of two classes
        as printed (A.5); Gaussian mutual information as printed or in one of three sound variants.
    min_score : float, optional
        Keep only nodes whose score reaches it; with ``n_nodes=None`` all of them.
    blocks : array-like of shape (n_features,), optional
        Number or name of the block, for instance the region, that each feature is in. A node is
        then predicted by the nodes of other blocks only (1.23), so that connections are those
        between regions; without it by all other nodes.
    gamma : float or "auto", default="auto"
        Prior precision γ of the coefficients; "auto" chooses among 1, 10, 100 and 1000.
    compression : float, "auto" or None, default="auto"
        Strength ρ = n/(γ R_ε) of each pseudo-measurement; None is the plain Kalman filter. "auto"
        chooses how many of ``n_pseudo`` pseudo-measurements of strength 1 predict held-out scans
        best, together with γ if that is "auto" too. With two scans in a class nothing can be held
        out: "auto" is then γ = 10 and strength 1.
    r_eps : float, optional
        Pseudo-measurement noise R_ε itself, instead of ``compression``.
    mode : {"end", "each"}, default="end"
        Pseudo-measurements once after all scans, or after each scan as published.
    n_pseudo : int, default=40
        Pseudo-measurements N_τ.
    norm : float, default=1.0
        1 for the l1 norm, 0 < norm < 1 for the quasi-norm.
    transition, drift : float, default=1.0 and 0.0
        Before each scan of a class β ← aβ and P ← a²P + qI, with a in (0, 1] and q ≥ 0: scans are
        then a time series in their order, and later ones count more. 1 and 0: time stands still.
    solver : {"auto", "dual", "compiled", "kalman"}, default="auto"
        How the coefficients are found, with the same result: all nodes from one system, which
        cannot compress after each scan nor move in time; the Kalman recursion, compiled; as
        printed, slow and readable. "auto" is "dual" where that can do it, else "compiled".
    threshold : {"exact", "tuned", "zero"} or float, default="exact"
        log Z_0/Z_1: exactly from log|det(I − B)|; tuned on the training scans by (A.2) (offsets per
        class for more than two); zero; or given (two classes).
    variance : {"auto", "residual", "innovation", "loo"}, default="auto"
        σ_i from residuals as printed (1.22), from one-step innovations, or from closed-form
        leave-one-out residuals (plain fields that do not move only). "auto" is "loo" for those,
        else "residual".
    variance_scope : {"shared", "class"}, default="shared"
        One σ_i for all classes, or one per class as printed.
    variance_floor : float, default=1e-4
        Smallest σ_i as a part of the node's variance over all training scans.
    bias : {"centered", "penalized", None}, default="centered"
        A free bias (class-centring), one shrunk by γ as printed, or none: then means are not seen.
    normalize : bool, default=True
        Include the factor (2πσ_i)^(−1/2) of each conditional.
    standardize : bool, default=True
        Z-score nodes by statistics of the training scans.
    priors : array-like of shape (C,), "uniform" or None, default=None
        Class probabilities; None takes those of the training scans.
    temperature : float or "auto", default="auto"
        Divides the scores before the softmax. "auto" learns it from held-out scores of ``cv`` folds
        with nodes chosen anew; with two scans in a class, from the scores of the training scans.
    cv : int, default=5
        Folds of the training scans for "auto" parameters, stratified, in the order of the scans.
    adaptation : {"none", "literal", "assigned", "sigma"}, default="none"
        What :meth:`adapt` does. Unless "none", the training scans at the nodes are kept for it.
    damping : float, default=1.0
        Part of the Kalman gain that :meth:`adapt` uses.

    Attributes
    ----------
    classes_, class_prior_ : ndarrays of shape (C,)
    nodes_, ranking_ : ndarrays of shape (n,) and (n_features,)
        Features used as nodes, ascending, and the score of every feature.
    coef_, intercept_, noise_ : ndarrays of shape (C, n, n), (C, n) and (C, n)
        Row i predicts node i, zero diagonal (and block); intercepts; residual variances σ.
    threshold_ : ndarray of shape (C,)
        log Z_θ up to a constant; c = threshold_[0] − threshold_[1].
    gamma_, r_eps_, n_pseudo_, temperature_ : float, float, int, float
        The strength and temperature used, chosen or given.
    center_, scale_ : ndarrays of shape (n,)
        Mean and scale by which nodes were standardised.

    References
    ----------
    A. Carmi, G. Cecchi, D. Kanevsky, B. Ramabhadran and I. Rish. Classification via compressed
    random fields. IBM Research Report, 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior import RandomFieldClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(60, 8)), np.repeat(["rest", "task"], 30)
    >>> X[:30, 1] += 2 * X[:30, 0]  # at rest node 1 follows node 0,
    >>> X[30:, 1] += 2 * X[30:, 2]  # in the task node 2
    >>> field = RandomFieldClassifier().fit(X, y)
    >>> field.coef_[:, 1].argmax(axis=1)
    array([0, 2])
    >>> field.score(X, y) > 0.85
    True
    """

    _reads_blocks: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict] = {
        "n_nodes": [Interval(Integral, 1, None, closed="left"), None],
        "nodes": ["array-like", None],
        "ranking": [StrOptions(set(RANKINGS))],
        "min_score": [Interval(Real, 0, None, closed="left"), None],
        "blocks": ["array-like", None],
        "gamma": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "compression": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"}), None],
        "r_eps": [Interval(Real, 0, None, closed="neither"), None],
        "mode": [StrOptions({"end", "each"})],
        "n_pseudo": [Interval(Integral, 0, None, closed="left")],
        "norm": [Interval(Real, 0, 1, closed="right")],
        "transition": [Interval(Real, 0, 1, closed="right")],
        "drift": [Interval(Real, 0, None, closed="left")],
        "solver": [StrOptions({"auto", *SOLVERS})],
        "threshold": [StrOptions({"exact", "tuned", "zero"}), Real],
        "variance": [StrOptions({"auto", "residual", "innovation", "loo"})],
        "variance_scope": [StrOptions({"shared", "class"})],
        "variance_floor": [Interval(Real, 0, None, closed="neither")],
        "bias": [StrOptions({"centered", "penalized"}), None],
        "normalize": ["boolean"],
        "standardize": ["boolean"],
        "priors": ["array-like", StrOptions({"uniform"}), None],
        "temperature": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "adaptation": [StrOptions(set(ADAPTATIONS))],
        "damping": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(
        self,
        n_nodes=100,
        *,
        nodes=None,
        ranking="correlation",
        min_score=None,
        blocks=None,
        gamma="auto",
        compression="auto",
        r_eps=None,
        mode="end",
        n_pseudo=40,
        norm=1.0,
        transition=1.0,
        drift=0.0,
        solver="auto",
        threshold="exact",
        variance="auto",
        variance_scope="shared",
        variance_floor=1e-4,
        bias="centered",
        normalize=True,
        standardize=True,
        priors=None,
        temperature="auto",
        cv=5,
        adaptation="none",
        damping=1.0,
    ):
        self.n_nodes = n_nodes
        self.nodes = nodes
        self.ranking = ranking
        self.min_score = min_score
        self.blocks = blocks
        self.gamma = gamma
        self.compression = compression
        self.r_eps = r_eps
        self.mode = mode
        self.n_pseudo = n_pseudo
        self.norm = norm
        self.transition = transition
        self.drift = drift
        self.solver = solver
        self.threshold = threshold
        self.variance = variance
        self.variance_scope = variance_scope
        self.variance_floor = variance_floor
        self.bias = bias
        self.normalize = normalize
        self.standardize = standardize
        self.priors = priors
        self.temperature = temperature
        self.cv = cv
        self.adaptation = adaptation
        self.damping = damping

    @classmethod
    def paper(cls, **changes: Any) -> RandomFieldClassifier:
        """The classifier as printed: raw nodes, γ = 0.01, compressed after each scan, tuned c.

        The report leaves γ ≪ 1 and the pseudo-measurements open; N_τ = 40 and R_ε = 200² are those
        of the compressed-sensing filter it cites. ``compression=None, r_eps=None`` gives the
        uncompressed field.

        Examples
        --------
        >>> RandomFieldClassifier.paper(n_nodes=80).mode
        'each'
        """
        printed = {
            "gamma": 0.01, "r_eps": 200.0**2, "mode": "each", "bias": None, "standardize": False,
            "variance": "residual", "variance_scope": "class", "variance_floor": 1e-12,
            "threshold": "tuned", "priors": "uniform", "temperature": 1.0,
        }  # fmt: skip
        return cls(**(printed | changes))

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Train one field per class on scans X (k, n_features), two or more each, labels y (k,)."""
        check_parameters(vars(self))
        X, codes = self._training_scans(X, y, ensure_min_samples=2)
        check_two_scans(self.classes_, codes)
        self.class_prior_ = class_prior(self.priors, np.bincount(codes), positive=True)
        self.ranking_ = rank_features(X, codes, self.ranking)
        nodes = self._choose_nodes(X, self.ranking_)
        training = choose_training(vars(self), nodes.take(X), codes, self._blocks_at(nodes))
        self._settle(nodes, X, codes, training, train_fields(nodes.take(X), codes, training))
        return self

    @available_if(can_stream)
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, classes=None):
        """Go on with more scans (m, n_features); equals one fit to all of them, in this order.

        Available with ``nodes`` given, ``standardize=False`` and numbers for ``gamma`` and
        ``compression``. The first call needs ``classes``, all labels that will come; the fitted
        attributes appear once every class has two scans.
        """
        check_parameters(vars(self))
        first = not hasattr(self, "stream_")
        X, y = self._scans_and_targets(X, y, reset=first)
        if first and classes is None:
            raise InputError(
                "partial_fit cannot know the labels that are still to come",
                remedy=f"Give {option('classes')}, all of them, in its first call",
            )
        if first:
            self._encode(classes)
        nodes, codes = self._choose_nodes(X, None), self._codes(y)
        training = choose_training(vars(self), nodes.take(X), codes, self._blocks_at(nodes))
        if first:
            self.stream_ = empty_stream(len(nodes.features), len(self.classes_), training)
        self.stream_ = absorb_scans(self.stream_, nodes.take(X), codes, training)
        Z, codes = self.stream_["scans"], self.stream_["codes"]
        if np.bincount(codes, minlength=len(self.classes_)).min() >= 2:
            self.class_prior_ = class_prior(self.priors, np.bincount(codes), positive=True)
            at_nodes = np.zeros((len(Z), self.n_features_in_))
            at_nodes[:, nodes.features] = Z
            self.ranking_ = np.zeros(self.n_features_in_)
            self.ranking_[nodes.features] = rank_features(Z, codes, self.ranking)
            self._settle(nodes, at_nodes, codes, training, stream_fields(self.stream_, training))
        return self

    def _choose_nodes(self, X, score) -> Nodes:
        return choose_nodes(X, score, self.nodes, self.n_nodes, self.min_score, self.standardize)

    def _blocks_at(self, nodes: Nodes) -> np.ndarray | None:
        return blocks_at(self.blocks, nodes.features, self.n_features_in_)

    def _settle(self, nodes: Nodes, X, codes, training: Training, fields: Fields) -> None:
        """Keep what was learned; learn threshold and temperature."""
        Z = nodes.take(X)
        self.nodes_, self.center_, self.scale_ = nodes
        self.coef_, self.intercept_, self.noise_ = fields
        self.threshold_ = self._offsets(fields, Z, codes)
        self.gamma_, self.r_eps_ = training.gamma, training.r_eps
        self.n_pseudo_ = 0 if training.plain else training.n_pseudo
        self.temperature_ = self._learn_temperature(X, codes, training)
        if self.adaptation != "none":
            self.scans_, self.scan_codes_ = Z, codes

    def _offsets(self, fields: Fields, Z, codes) -> np.ndarray:
        return class_offsets(self.threshold, fields, Z, codes, self.class_prior_, self.normalize)

    def _learn_temperature(self, X, codes, training: Training) -> float:
        if self.temperature != "auto":
            return float(self.temperature)
        folds = fold_indices(codes, self.cv)
        if not folds:  # two scans in a class: their own scores must do
            return fit_temperature(self._scores_at(X), codes)
        held_out = np.empty((len(codes), len(self.classes_)))
        for train, test in folds:
            part, labels = X[train], codes[train]
            nodes = self._choose_nodes(part, rank_features(part, labels, self.ranking))
            Z, here = nodes.take(part), training._replace(block_of=self._blocks_at(nodes))
            fields = train_fields(Z, labels, here)
            scores = class_scores(nodes.take(X[test]), fields, self.normalize)
            held_out[test] = scores - self._offsets(fields, Z, labels)
        return fit_temperature(held_out + np.log(self.class_prior_), codes)

    def __sklearn_is_fitted__(self) -> bool:
        """A stream is fitted once every class has two scans."""
        return hasattr(self, "temperature_")

    def _scores(self, X) -> np.ndarray:
        return self._scores_at(self._new_scans(X))

    def _scores_at(self, X) -> np.ndarray:
        scores = class_scores(self._nodes().take(X), self._fields(), self.normalize)
        return scores - self.threshold_ + np.log(self.class_prior_)

    def _nodes(self) -> Nodes:
        return Nodes(self.nodes_, self.center_, self.scale_)

    def _fields(self) -> Fields:
        return Fields(self.coef_, self.intercept_, self.noise_)

    def decision_function(self, X):
        """Scores over the temperature, (m, C); with two classes second minus first, (m,)."""
        scores = self._scores(X) / self.temperature_
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict_log_proba(self, X):
        """Log-probabilities (m, C)."""
        return log_softmax_rows(self._scores(X) / self.temperature_)

    def predict_proba(self, X):
        """Probabilities (m, C), softmax of the scores over the temperature."""
        return np.exp(self.predict_log_proba(X))

    def adapt(self, X, X_dev=None, y_dev=None) -> RandomFieldClassifier:
        """A copy of the classifier, adapted to scans (m, n_features) without labels.

        ``adaptation`` says what changes. The threshold is tuned on the development scans X_dev
        with labels y_dev, if given, else found anew from the training scans. Where that puts all X
        into one class, and several were found before, nothing is changed, with a warning.
        """
        X = self._new_scans(X)
        check_adapts(self.adaptation)
        how = Training(
            self.gamma_, self.r_eps_, self.n_pseudo_, self.mode, self.norm, self.bias,
            transition=self.transition, drift=self.drift, block_of=self._blocks_at(self._nodes()),
        )  # fmt: skip
        seen = (self.scans_, self.scan_codes_, self._nodes().take(X))
        assigned = self._scores_at(X).argmax(axis=1)
        fields = adapt_fields(self._fields(), *seen, assigned, how, self.adaptation, self.damping)
        adapted = copy.deepcopy(self)
        adapted.coef_, adapted.intercept_, adapted.noise_ = fields
        if X_dev is not None or y_dev is not None:
            adapted.tune_threshold(X_dev, y_dev)
        elif self.threshold in ("exact", "tuned"):
            adapted.threshold_ = self._offsets(fields, self.scans_, self.scan_codes_)
        if lost_all_but_one(assigned, adapted._scores_at(X).argmax(axis=1)):
            return copy.deepcopy(self)
        return adapted

    def tune_threshold(self, X, y):
        """Set the threshold by (A.2) on development scans (m, n_features) and their labels (m,)."""
        X, codes = self._labeled_scans(X, y)
        scores = class_scores(self._nodes().take(X), self._fields(), self.normalize)
        self.threshold_ = tune_offsets(scores + np.log(self.class_prior_), codes)
        return self

    def voxel_maps(self) -> dict[str, np.ndarray]:
        """Maps (n_features,) of what the fields used.

        ``ranking``: score of every feature; ``selected``: 1 at nodes; ``degree``: mean number of
        connections (|β| > 0.05) over classes; ``strength``: mean Σ|β| over classes;
        ``difference``: Σ_j |β_ij| between the first and the last class, where connectivity differs.
        The last four are 0 off the nodes.
        """
        check_is_fitted(self)
        maps = {"ranking": self.ranking_.copy()}
        for name, values in field_maps(self.coef_).items():
            maps[name] = np.zeros(self.n_features_in_)
            maps[name][self.nodes_] = values
        return maps

    def connections(self, tolerance: float = 0.05) -> np.ndarray:
        """Number of connections of every class and node, (C, n)."""
        check_is_fitted(self)
        return np.array([count_connections(coef, tolerance) for coef in self.coef_])

    def trajectory(self, X, label, against) -> Trajectory:
        """How the log-likelihood ratio of scans of class ``label`` settles as nodes are added.

        The result has ``running_mean`` (m, n) of log p(x_i|label) − log p(x_i|against) over the
        nodes, and ``limit`` (m,), the Kullback-Leibler divergence that it tends to.
        """
        X = self._new_scans(X)
        pair = self._codes([label, against])
        fields = Fields(*(part[pair] for part in self._fields()))
        return ratio_trajectory(self._nodes().take(X), fields)
