"""GPClassifier: a Gaussian process classifier whose hyper-parameters maximise its evidence."""

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from voxprior.algebra import blas_threads_for, floored_log
from voxprior.blocks import gram_matrix
from voxprior.models.doubt import Doubt, check_beta, doubted, learn_doubt
from voxprior.models.gaussian.base import GaussianProcess
from voxprior.models.gaussian.batch import STEPS, ManyProcesses, fit_processes
from voxprior.models.gaussian.class_processes import ClassProcesses
from voxprior.models.gaussian.laplace import (
    BinaryPosterior,
    SoftmaxPosterior,
    class_precision,
    latent_moments,
    site_matrix,
    softmax_moments,
)
from voxprior.models.gaussian.left_out import powered
from voxprior.models.growth import GP_CLASSES, cubic, tell_if_long


class GPClassifier(ClassProcesses):
    """Gaussian process classifier: probit by EP, or the true softmax model by Laplace's method.

    Latent functions f ~ GP(0, k) behind a probit (beyond two classes one per class, each against
    the rest, or all behind one multinomial probit), or behind one softmax over all classes. After
    one pass over the voxels all work is on the n x n Gram matrix. Hyper-parameters maximise the
    evidence log p(y | θ).

    Parameters
    ----------
    kernel : {"linear", "poly", "rbf", "precomputed"}, list of these, or dict
        Covariance of the latent functions; a list is a sum with one scale per term. A dict {class:
        kernel or list} gives every class a kernel of its own, K = diag(K_1 .. K_C); two classes
        have one latent function, their difference, whose kernel is the sum. "precomputed" takes the
        Gram matrix as X and treats it as "linear" does (several side by side, in the order given).
    likelihood : {"auto", "logistic", "probit"}
        "auto" is probit with EP and logistic (softmax) with Laplace.
    inference : {"auto", "laplace", "ep", "pronto"}
        "auto" is EP unless `likelihood` is logistic; "laplace" beyond two classes is the softmax
        model. "pronto" is EP for two classes and the softmax model for more.
    multiclass : {"one_vs_rest", "multinomial"}
        Probit beyond two classes: each class against the rest, the probabilities divided by their
        sum; or one multinomial probit by EP, whose evidence is that of the labels as a whole. The
        latter has the hyper-prior log s ~ N(2, 1) unless `theta` and `hyperprior` say otherwise,
        and its probabilities are averaged over a power learned from left-out scans. Neither is the
        more accurate everywhere.
    optimize : bool
        Maximise the evidence; otherwise keep `theta`.
    regions : array (n_features,), optional
        Region label of every feature: one kernel per region, each with its own scale.
    per_class : bool
        One set of hyper-parameters per class (softmax, multinomial; one against the rest has them
        always).
    theta : array, optional
        Log hyper-parameters to start from: (log s[, log ℓ]) per kernel; zeros by default.
    n_restarts : int
        Further climbs from random starts.
    max_evals : int, optional
        Most evaluations of the evidence; the climb then starts at `theta` only.
    bounds : (float, float)
        Bounds of every log hyper-parameter.
    hyperprior : float, optional
        Standard deviation of a normal prior on the log hyper-parameters around `theta`.
    center : bool
        Centre features by their training mean (by kernel algebra).
    normalize : bool
        Divide every Gram matrix by the mean of its training diagonal: the unit of X does not
        matter.
    unseen_variance : "auto" or float
        Weight, from 0 to 1, of the prior variance in directions that no training scan has, where
        nothing can be learned (linear kernels). 0: a new scan is judged by what training has seen
        of it; 1: the prior is the same in all directions, which blurs probabilities; "auto" takes
        the weight that predicts left-out training scans best (softmax: 0).
    offset, degree : float, int
        c and d of the kernels s²(c + g) and s²(c + g)^d; PRoNTo has c = 1 with raw scans.
    averaging : {"auto", "quadrature", "sobol", "random", "mode"}
        How the softmax is averaged; "auto" is quadrature for up to 3 classes, Sobol draws beyond;
        "mode" does not average but plugs the latent mean in (softmax only).
    n_draws : int
        Number of draws.
    random_state : int, RandomState or None
        Seed of draws and restarts.
    doubt : (float, float) or None
        Beta prior (a, b) of the probability that the model has found anything; (2, 1) is advised
        where nothing may be there. Probabilities are averaged over it and over a temperature, given
        training scans that were held out: at most 10 more fits. On noise the log-loss falls from
        .76 to .70 at 2 to 5 scans per class; on signal it rises from .46 to .52 at 2 scans per
        class and does not from 5 on. See `voxprior.models.doubt`.
    copy_X : bool
        Copy the training scans, which predictions need: for arrays that will be changed in place
        after the fit. Memory-mapped and dask arrays are never copied.

    Attributes
    ----------
    classes_ : array (C,)
    log_evidence_ : float
        Log evidence of the labels at the maximum (two classes, softmax, multinomial).
    log_evidences_ : array (C,)
        One per class against the rest instead. Their sum is not an evidence of the labels as a
        whole: such models do not exclude that a scan belongs to two classes or to none.
    left_out_log_score_ : float
        Log-probability of every label given those of the other scans, or of other groups, summed;
        it compares all models.
    latent_ : array (n, C)
        Latent values of the training scans; two classes: −f/2 and f/2, their difference is f.
    theta_ : array
        Log hyper-parameters; one row per class where they differ, or one class after the other
        where their kernels have unequal numbers of them.
    unseen_variance_ : float
        Weight given to the variance in unseen directions.
    dual_coef_ : array (n, C) or (n, 1)
        a with f = K a.
    power_ : array (37,)
        Posterior of the power of a multinomial probit, see `voxprior.models.gaussian.left_out`.
    kernel_share_ : array (M,) or (C, M)
        Part of the prior variance (of its class) that each kernel has.
    doubt_ : dict or None
        What held-out scans showed, see `voxprior.models.doubt.Doubt`.
    evidence_path_ : array
        Evidence in the order of evaluation.

    References
    ----------
    C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, 2006, chapter 3.
    A. Rao, A. Marquand, Probabilistic pattern recognition, PRoNTo course, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior import GPClassifier
    >>> X = np.array([[1.0, 0.0], [0.9, 0.1], [-1.0, 0.2], [-0.8, 0.1], [0.1, 2.0], [0.0, 1.8]])
    >>> y = np.array(["face", "face", "house", "house", "cat", "cat"])
    >>> gp = GPClassifier().fit(X, y)
    >>> gp.predict(X[:3]).tolist()
    ['face', 'face', 'house']
    """

    _parameter_constraints: ClassVar[dict] = GaussianProcess._parameter_constraints | {
        "kernel": [str, list, tuple, dict],
        "multiclass": [StrOptions({"one_vs_rest", "multinomial"})],
        "doubt": [tuple, list, None],
        "likelihood": [StrOptions({"auto", "logistic", "probit"})],
        "inference": [StrOptions({"auto", "laplace", "ep", "pronto"})],
        "per_class": ["boolean"],
        "averaging": [StrOptions({"auto", "quadrature", "sobol", "random", "mode"})],
        "unseen_variance": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="both")],
        "n_draws": [Interval(Integral, 1, None, closed="left")],
    }

    # For tests in batch: what `fit_many` fits, labellings that it takes at once, and up to how many
    # scans it pays.
    fit_many_words: ClassVar[str] = (
        "a Gaussian process (logistic, by Laplace's method) with its scale chosen by evidence in "
        "every fold and relabelling"
    )
    labels_at_once: ClassVar[int] = 256
    most_scans_at_once: ClassVar[int] = 200

    def __init__(
        self,
        kernel="linear",
        *,
        likelihood="auto",
        inference="auto",
        multiclass="one_vs_rest",
        optimize=True,
        regions=None,
        per_class=False,
        theta=None,
        n_restarts=0,
        max_evals=None,
        bounds=(-6.0, 6.0),
        hyperprior=None,
        center=True,
        normalize=True,
        unseen_variance="auto",
        offset=0.1,
        degree=2,
        averaging="auto",
        n_draws=1024,
        random_state=0,
        doubt=None,
        copy_X=False,
    ):
        self.kernel = kernel
        self.likelihood = likelihood
        self.inference = inference
        self.multiclass = multiclass
        self.optimize = optimize
        self.regions = regions
        self.per_class = per_class
        self.theta = theta
        self.n_restarts = n_restarts
        self.max_evals = max_evals
        self.bounds = bounds
        self.hyperprior = hyperprior
        self.center = center
        self.normalize = normalize
        self.unseen_variance = unseen_variance
        self.offset = offset
        self.degree = degree
        self.averaging = averaging
        self.n_draws = n_draws
        self.random_state = random_state
        self.doubt = doubt
        self.copy_X = copy_X

    @classmethod
    def paper(cls) -> Self:
        """PRoNTo's settings: raw scale, start at log 1, 20 evaluations, 10,000 draws, seed 0."""
        return cls(
            inference="pronto",
            offset=1.0,
            normalize=False,
            unseen_variance=1.0,
            max_evals=20,
            bounds=(-20.0, 20.0),
            averaging="random",
            n_draws=10_000,
            random_state=0,
        )

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit by maximising the evidence.

        Parameters
        ----------
        X : array (n, n_features), memory map, zarr or dask array; Gram matrix if precomputed
        y : array (n,)
        groups : array (n,), optional
            Runs or subjects, left out together for `left_out_log_score_` and the power of the
            multinomial probit: scans centred by run must be. Every scan is its own by default.
        """
        beta = check_beta(self.doubt)
        X, codes = self._read(X, reset=True), self._encode(y)
        check_consistent_length(X, codes)
        self._check_kernel_classes()
        tell_if_long(self, cubic(GP_CLASSES, len(codes), len(self.classes_)), len(codes))
        groups = self._group_labels(groups, len(codes))
        self.likelihood_, self.inference_ = self._model(len(self.classes_))
        self.codes_ = codes
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        gram = self._fit_gram(X)
        with blas_threads_for(len(codes)):
            self._learn(gram, codes, groups)
        self.doubt_ = None if beta is None else learn_doubt(self, X, codes, beta)._asdict()
        return self

    def prepare(self, X: Any) -> np.ndarray:
        """Gram matrix (n, n) of all scans, from which `fit_many` fits; it needs a single kernel."""
        self._validate_params()
        X = self._read(X, reset=True)
        gram = self._given_grams(X)[0] if self._precomputed else gram_matrix(X)
        self._refuse_infinite(X, np.diag(gram))
        return gram

    @available_if(lambda self: self._has_one_scale())
    def fit_many(
        self, prepared: np.ndarray, rows: np.ndarray, Y: np.ndarray, n_classes: int
    ) -> ManyProcesses:
        """Fit many labellings of the same scans at once, by a quicker model of the same kind.

        The likelihood is logistic, inference Laplace's method, and the scale of the kernel the
        best of five by evidence, so that these are not quite the models of `fit`; see
        `voxprior.models.gaussian.batch`.

        Parameters
        ----------
        prepared : array (n, n)
            What `prepare` returned.
        rows : array (k,)
            Scans that train.
        Y : array (k, B)
            Class codes, one labelling per column.
        n_classes : int

        Returns
        -------
        ManyProcesses
            Its ``decision_function(rows)`` gives latent means.

        Examples
        --------
        >>> import numpy as np
        >>> from voxprior import GPClassifier
        >>> y, rng = np.tile([0, 1], 8), np.random.default_rng(0)
        >>> X = rng.normal(size=(16, 4)) + 3 * y[:, None]
        >>> gp, train = GPClassifier(), np.arange(12)
        >>> many = gp.fit_many(gp.prepare(X), train, np.column_stack([y, 1 - y])[train], 2)
        >>> (many.decision_function(np.arange(12, 16)) > 0).T.astype(int)
        array([[0, 1, 0, 1],
               [1, 0, 1, 0]])
        """
        tried: dict[str, Any] = {}
        if not self.optimize:
            tried = {"log_scales": self._start(1), "steps": (max(STEPS),)}
        options = {"center": self.center, "normalize": self.normalize} | tried
        return fit_processes(self._kernels()[0], prepared, rows, Y, n_classes, **options)

    def _has_one_scale(self) -> bool:
        """Whether the kernel is one term with a scale and no length."""
        single = isinstance(self.kernel, str) and self.regions is None
        return single and self.kernel != "rbf" and self.hyperprior is None

    def predict_latent(
        self, X: Any, diagonal: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and variance of the latent functions.

        Returns
        -------
        mean, variance : arrays
            (n_new,) each for two classes; softmax (n_new, C) and covariance (n_new, C, C); one
            against the rest and multinomial (n_new, C) each.
        """
        cross, norms = self._cross_gram(self._new_scans(X), diagonal)
        for m, root in enumerate(self.gram_inverse_roots_):
            if root is not None:
                seen = ((cross[m] @ root) ** 2).sum(axis=1)
                norms[m] = seen + self.unseen_variance_ * (norms[m] - seen)
        pairs = [
            self._covariance_to(theta, cross, norms, terms) for theta, terms in self._class_thetas()
        ]
        if self._softmax:
            K, k = pairs[0] if len(pairs) == 1 else map(np.array, zip(*pairs))
            return softmax_moments(SoftmaxPosterior(**self.posteriors_[0]), K, k)
        fits = [BinaryPosterior(**fit) for fit in self.posteriors_]
        pairs = pairs * (len(fits) // len(pairs))
        moments = [latent_moments(fit, K, k) for fit, (K, k) in zip(fits, pairs)]
        if len(moments) == 1:
            return moments[0]
        return np.stack([m for m, _ in moments], 1), np.stack([v for _, v in moments], 1)

    def predict_proba(self, X: Any, diagonal: np.ndarray | None = None) -> np.ndarray:
        """Class probabilities, averaged over the posterior of the latent functions, and over doubt.

        Parameters
        ----------
        X : array (n_new, n_features), or the kernel to the training scans if precomputed
        diagonal : array (n_new,) or (M, n_new), optional
            k(x, x) of new scans for a precomputed kernel; by default the mean of the training
            diagonal (exact for kernels of constant diagonal).
        """
        p = self._link(*self.predict_latent(X, diagonal))
        if self._multinomial:
            p = powered(floored_log(p), self.power_)
        return p if self.doubt_ is None else doubted(floored_log(p), Doubt(**self.doubt_))

    def evidence_surface(
        self, first, second=None, parameters=(0, 1), positive: int = 0
    ) -> np.ndarray:
        """Log evidence over a grid of one or two log hyper-parameters, the others held.

        `positive` picks the class where one is fitted against the rest.
        """
        check_is_fitted(self)
        problem = self._problems(self.gram_, self.codes_)[positive]
        theta = np.ravel(self.theta_) if self._joint else self._class_thetas()[positive][0]
        return self._surface(problem, theta, first, second, parameters)

    def voxel_maps(self) -> dict[str, np.ndarray]:
        """Maps "weight", "weight_sd" and "pattern", with ":class" added beyond two classes.

        Weights and their posterior deviation exist for linear kernels; the pattern (Haufe et al.
        2014) for all.
        """
        check_is_fitted(self)
        prior = np.array([self._weight_prior(*each) for each in self._class_thetas()])
        if self._softmax:
            fit = SoftmaxPosterior(**self.posteriors_[0])
            precision = np.array([class_precision(fit, c) for c in range(len(self.classes_))])
        else:
            precision = np.array([site_matrix(BinaryPosterior(**fit)) for fit in self.posteriors_])
        two = self.dual_coef_.shape[1] == 1
        latent = self.latent_[:, 1:] * 2.0 if two else self.latent_
        names = [""] if two else [f":{label}" for label in self.classes_]
        return self._voxel_maps(self.dual_coef_, precision, prior, latent, names)
