"""RandomFieldClassifier: the scikit-learn face of compressed random fields.

Fit: rank features (:mod:`~voxprior.models.fields.ranking`), standardise the chosen nodes, train one
field a class (:mod:`~voxprior.models.fields.training`), set the threshold, learn the temperature in
folds of the training data. Predict: argmax_θ of log p(x|θ) − log Z_θ + log prior_θ.
"""

from __future__ import annotations

import copy
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from voxprior.algebra import log_softmax_rows
from voxprior.models.fields.adaptation import ADAPTATIONS
from voxprior.models.fields.continuation import Continuation
from voxprior.models.fields.inspection import Inspection
from voxprior.models.fields.nodes import RANKINGS, Nodes, choose_nodes, rank_features
from voxprior.models.fields.threshold import tune_offsets
from voxprior.models.fields.training import (
    Fields,
    Recipe,
    class_scores,
    log_partitions,
    train_fields,
)
from voxprior.models.fields.tuning import (
    GAMMAS,
    choose_strength,
    fit_temperature,
    fold_indices,
)


class RandomFieldClassifier(Continuation, Inspection, ClassifierMixin, BaseEstimator):
    """Classify by sparse Gaussian random fields, one a class, trained by Kalman filtering.

    In class θ every node is predicted by all others, x_i = β_iᵀ x_{−i} + b_i + w, w ~ N(0, σ_i);
    compression shrinks the l1 norm of β_i so that few connections stay. It is the model for classes
    that differ in how voxels go together; where they differ in means only, a strong ``gamma`` makes
    it naive Bayes.

    Parameters
    ----------
    n_nodes : int or None, default=100
        Features to keep as nodes, the best ranked; None keeps all.
    nodes : array-like of int, optional
        Features to use as nodes; nothing is ranked for selection then.
    ranking : {"correlation", "mutual_information", "mutual_information_total", \
"mutual_information_mixture", "mutual_information_continuous"}, default="correlation"
        Score of a feature: |correlation| with the class, or Gaussian mutual information as printed
        or in one of three sound variants. Computed on the training scans only.
    min_score : float, optional
        Keep only nodes whose score reaches it.
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
    threshold : {"exact", "tuned", "zero"} or float, default="exact"
        log Z_0/Z_1: exactly from log|det(I − B)|; tuned on the training scans by (A.2) (offsets per
        class for more than two); zero; or given (two classes).
    variance : {"auto", "residual", "innovation", "loo"}, default="auto"
        σ_i from residuals as printed (1.22), from one-step innovations, or from closed-form
        leave-one-out residuals (plain fields only). "auto" is "loo" for plain and "residual" for
        compressed fields.
    variance_scope : {"shared", "class"}, default="shared"
        One σ_i for all classes, or one a class as printed.
    variance_floor : float, default=1e-4
        Smallest σ_i as a part of the node's variance over all training scans.
    bias : {"centered", "penalized", None}, default="centered"
        A free bias (class-centring), one shrunk by γ as printed, or none. Without it fields cannot
        see means.
    normalize : bool, default=True
        Include the factor (2πσ_i)^(−1/2) of each conditional.
    standardize : bool, default=True
        Z-score nodes by statistics of the training scans.
    priors : array-like of shape (C,), "uniform" or None, default=None
        Class probabilities; None takes those of the training scans.
    temperature : float or "auto", default="auto"
        Divides the scores before the softmax. "auto" learns it from held-out scores of ``cv`` folds
        of the training scans, with nodes chosen anew in each. With two scans in a class there is
        nothing to hold out: it is learned from the scores of the training scans themselves, whose
        spread is larger than that of new scans.
    cv : int, default=5
        Folds inside the training scans for "auto" parameters, stratified, in the order of the
        scans.
    adaptation : {"none", "literal", "assigned", "sigma"}, default="none"
        What :meth:`adapt` does. Unless "none", the training scans at the nodes are kept for it.
    damping : float, default=1.0
        Part of the Kalman gain that :meth:`adapt` uses.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
    nodes_ : ndarray of shape (n,)
        Features used as nodes, ascending.
    ranking_ : ndarray of shape (n_features,)
        Score of every feature.
    coef_ : ndarray of shape (C, n, n)
        Row i predicts node i; zero diagonal.
    intercept_ : ndarray of shape (C, n)
    noise_ : ndarray of shape (C, n)
        Residual variances σ.
    threshold_ : ndarray of shape (C,)
        log Z_θ up to a constant; c = threshold_[0] − threshold_[1].
    temperature_ : float
    class_prior_ : ndarray of shape (C,)
    gamma_, r_eps_, n_pseudo_ : float, float, int
        The strength used, chosen or given.
    center_, scale_ : ndarrays of shape (n,)
        What nodes were standardised by.

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
    >>> X[:30, 1] += 2 * X[:30, 0]  # at rest node 1 goes with node 0,
    >>> X[30:, 1] += 2 * X[30:, 2]  # in the task with node 2
    >>> field = RandomFieldClassifier().fit(X, y)
    >>> field.coef_[:, 1].argmax(axis=1)
    array([0, 2])
    >>> field.score(X, y) > 0.85
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_nodes": [Interval(Integral, 1, None, closed="left"), None],
        "nodes": ["array-like", None],
        "ranking": [StrOptions(set(RANKINGS))],
        "min_score": [Interval(Real, 0, None, closed="left"), None],
        "gamma": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "compression": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"}), None],
        "r_eps": [Interval(Real, 0, None, closed="neither"), None],
        "mode": [StrOptions({"end", "each"})],
        "n_pseudo": [Interval(Integral, 0, None, closed="left")],
        "norm": [Interval(Real, 0, 1, closed="right")],
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
        gamma="auto",
        compression="auto",
        r_eps=None,
        mode="end",
        n_pseudo=40,
        norm=1.0,
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
        self.gamma = gamma
        self.compression = compression
        self.r_eps = r_eps
        self.mode = mode
        self.n_pseudo = n_pseudo
        self.norm = norm
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
            "gamma": 0.01,
            "r_eps": 200.0**2,
            "mode": "each",
            "threshold": "tuned",
            "variance": "residual",
            "variance_scope": "class",
            "variance_floor": 1e-12,
            "bias": None,
            "standardize": False,
            "priors": "uniform",
            "temperature": 1.0,
        }
        return cls(**(printed | changes))

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Train one field a class.

        Parameters
        ----------
        X : array-like of shape (k, n_features)
            Scans, float32 or float64.
        y : array-like of shape (k,)
            Labels; every class needs at least two scans.

        Returns
        -------
        self
        """
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self._check_classes(codes)
        self.class_prior_ = self._class_prior(codes)
        self.ranking_ = rank_features(X, codes, self.ranking)
        nodes, recipe, fields, offsets = self._train(X, codes, self.ranking_)
        self._keep(nodes, recipe, fields, offsets)
        self.temperature_ = self._learn_temperature(X, codes, recipe)
        if self.adaptation != "none":
            self.scans_, self.scan_codes_ = nodes.take(X), codes
        return self

    def _check_classes(self, codes) -> None:
        counts = np.bincount(codes)
        if len(counts) < 2:
            raise ValueError(
                f"Expected at least 2 classes in y. Got 1 class: {self.classes_[0]!r}."
            )
        if counts.min() < 2:
            raise ValueError(
                "Every class needs at least 2 scans for its residual variances. "
                f"Got {counts.min()} of class {self.classes_[counts.argmin()]!r}."
            )

    def _class_prior(self, codes) -> np.ndarray:
        n_classes = len(self.classes_)
        if self.priors is None:
            return np.bincount(codes, minlength=n_classes) / len(codes)
        if isinstance(self.priors, str):
            return np.full(n_classes, 1.0 / n_classes)
        prior = np.asarray(self.priors, dtype=float)
        if prior.shape != (n_classes,) or (prior <= 0).any() or not np.isclose(prior.sum(), 1.0):
            raise ValueError(
                f"priors must be {n_classes} positive probabilities that sum to 1, one a class. "
                f"Got {self.priors} instead."
            )
        return prior

    def _given_nodes(self) -> np.ndarray | None:
        if self.nodes is None:
            return None
        nodes = np.asarray(self.nodes)
        whole = nodes.ndim == 1 and nodes.size > 0 and np.issubdtype(nodes.dtype, np.integer)
        limit = self.n_features_in_
        if not whole or nodes.min() < 0 or nodes.max() >= limit:
            raise ValueError(
                f"nodes must be integer feature indices in 0 .. {limit - 1}. Got {self.nodes!r}."
            )
        if len(np.unique(nodes)) < len(nodes):
            raise ValueError("nodes names a feature twice; a node cannot predict its own copy.")
        return nodes.astype(np.intp)

    def _train(self, X, codes, score):
        """Nodes, recipe, fields and offsets from training scans."""
        given = self._given_nodes()
        nodes = choose_nodes(X, score, given, self.n_nodes, self.min_score, self.standardize)
        Z = nodes.take(X)
        recipe = self._recipe(len(nodes.features), Z, codes)
        fields = train_fields(Z, codes, recipe)
        return nodes, recipe, fields, self._offsets(fields, Z, codes, recipe)

    def _recipe(self, n_nodes: int, Z=None, codes=None) -> Recipe:
        """The parameters as a recipe; "auto" ones are chosen on (Z, codes)."""
        base = Recipe(
            n_pseudo=self.n_pseudo,
            mode=self.mode,
            norm=self.norm,
            bias=self.bias,
            variance=self.variance,
            variance_scope=self.variance_scope,
            variance_floor=self.variance_floor,
            normalize=self.normalize,
        )
        rho = 0.0 if self.compression is None else self.compression
        if self.r_eps is not None and self.gamma != "auto":
            return base._replace(gamma=float(self.gamma), r_eps=float(self.r_eps))
        if self.r_eps is not None:
            raise ValueError("r_eps needs gamma as a number; use compression with gamma='auto'.")
        if "auto" not in (self.gamma, rho):
            return base.with_strength(float(self.gamma), float(rho), self.n_pseudo, n_nodes)
        gammas = GAMMAS if self.gamma == "auto" else (float(self.gamma),)
        fixed = None if rho == "auto" else float(rho)
        chosen = choose_strength(Z, codes, base, gammas, fixed, self.cv)
        return base.with_strength(chosen.gamma, chosen.rho, chosen.n_pseudo, n_nodes)

    def _keep(self, nodes: Nodes, recipe: Recipe, fields: Fields, offsets) -> None:
        self.nodes_, self.center_, self.scale_ = nodes
        self.coef_, self.intercept_, self.noise_ = fields
        self.threshold_ = offsets
        self.gamma_, self.r_eps_ = recipe.gamma, recipe.r_eps
        self.n_pseudo_ = 0 if recipe.plain else recipe.n_pseudo

    def _offsets(self, fields: Fields, Z, codes, recipe: Recipe) -> np.ndarray:
        """Log Z_θ up to a constant, as ``threshold`` says."""
        if self.threshold == "exact":
            return log_partitions(fields)
        if self.threshold == "tuned":
            scores = class_scores(Z, fields, recipe.normalize) + np.log(self.class_prior_)
            return tune_offsets(scores, codes)
        offsets = np.zeros(len(self.classes_))
        if self.threshold != "zero":
            if len(offsets) != 2:
                raise ValueError(
                    f"A number as threshold is for two classes. Got {len(offsets)} classes; "
                    "use threshold='exact' or 'tuned'."
                )
            offsets[0] = self.threshold
        return offsets

    def _learn_temperature(self, X, codes, recipe: Recipe) -> float:
        if self.temperature != "auto":
            return float(self.temperature)
        folds = fold_indices(codes, self.cv)
        if not folds:  # two scans in a class: the spread of their own scores must do
            return fit_temperature(self._scores_at(X), codes)
        held_out = np.empty((len(codes), len(self.classes_)))
        fixed = copy.copy(self).set_params(
            gamma=recipe.gamma, r_eps=recipe.r_eps, n_pseudo=recipe.n_pseudo
        )
        for train, test in folds:
            part, labels = X[train], codes[train]
            nodes, _, fields, offsets = fixed._train(
                part, labels, rank_features(part, labels, self.ranking)
            )
            held_out[test] = class_scores(nodes.take(X[test]), fields, self.normalize) - offsets
        return fit_temperature(held_out + np.log(self.class_prior_), codes)

    def _scores(self, X) -> np.ndarray:
        check_is_fitted(self, "coef_")
        return self._scores_at(validate_data(self, X, dtype=[np.float64, np.float32], reset=False))

    def _scores_at(self, X) -> np.ndarray:
        scores = class_scores(self._nodes().take(X), self._fields(), self.normalize)
        return scores - self.threshold_ + np.log(self.class_prior_)

    def _nodes(self) -> Nodes:
        return Nodes(self.nodes_, self.center_, self.scale_)

    def _fields(self) -> Fields:
        return Fields(self.coef_, self.intercept_, self.noise_)

    def decision_function(self, X):
        """Scores over the temperature, (m, C); with two classes second minus first, (m,)."""
        scores = self._scores(X)
        scores /= self.temperature_
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X):
        """The class with the highest log p − log Z + log prior; ties go to the first."""
        best = self._scores(X).argmax(axis=1)
        return self.classes_[best]

    def predict_log_proba(self, X):
        """Log-probabilities (m, C)."""
        scores = self._scores(X)
        return log_softmax_rows(scores / self.temperature_)

    def predict_proba(self, X):
        """Probabilities (m, C), softmax of the scores over the temperature."""
        return np.exp(self.predict_log_proba(X))
