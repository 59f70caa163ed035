"""GPClassifier: a Gaussian process classifier whose hyper-parameters maximise its evidence."""

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from voxprior.algebra import blas_threads_for
from voxprior.errors import InputError, option
from voxprior.models.base import VoxelClassifier
from voxprior.models.gaussian.base import LINEAR, GaussianProcess, against_rest
from voxprior.models.gaussian.covariance import n_parameters
from voxprior.models.gaussian.evidence import BinaryEvidence, SoftmaxEvidence
from voxprior.models.gaussian.laplace import (
    BinaryPosterior,
    SoftmaxPosterior,
    class_precision,
    latent_moments,
    site_matrix,
    softmax_moments,
)
from voxprior.models.gaussian.prediction import (
    average_softmax,
    check_rule,
    choose_rule,
    choose_unseen_variance,
    class_probabilities,
    left_out,
    pseudo_inverse_root,
)


class GPClassifier(VoxelClassifier, GaussianProcess):
    """Gaussian process classifier: probit by EP, or the true softmax model by Laplace's method.

    Latent functions f ~ GP(0, k) behind a probit (one per class, each against the rest, beyond two
    classes), or behind one softmax over all classes. After one pass over the voxels all work is
    on the n x n Gram matrix. Hyper-parameters maximise the evidence log p(y | θ).

    Parameters
    ----------
    kernel : {"linear", "poly", "rbf", "precomputed"} or list of these
        Covariance of the latent functions; a list is a sum with one scale per term. "precomputed"
        takes the Gram matrix as X and treats it as "linear" does (several side by side).
    likelihood : {"auto", "logistic", "probit"}
        "auto" is probit with EP and logistic (softmax) with Laplace. Probit is binary: more than
        two classes are then fitted one against the rest and the probabilities divided by their sum.
    inference : {"auto", "laplace", "ep", "pronto"}
        "auto" is EP unless `likelihood` is logistic; "laplace" beyond two classes is the softmax
        model. "pronto" is EP for two classes and the softmax model for more.
    optimize : bool
        Maximise the evidence; otherwise keep `theta`.
    regions : array (n_features,), optional
        Region label of every feature: one kernel per region, each with its own scale.
    per_class : bool
        One set of hyper-parameters per class (softmax only).
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
        c and d of the kernels s²(c + g) and s²(c + g)^d; PRoNTo has c = 1 beside raw scans.
    averaging : {"auto", "quadrature", "sobol", "random", "mode"}
        How the softmax is averaged; "auto" is quadrature for up to 3 classes, Sobol draws beyond;
        "mode" does not average but plugs the latent mean in (softmax only).
    n_draws : int
        Number of draws.
    random_state : int, RandomState or None
        Seed of draws and restarts.
    copy_X : bool
        Copy the training scans, which predictions need: for arrays that will be changed in place
        after the fit. Memory-mapped and dask arrays are never copied.

    Attributes
    ----------
    classes_ : array (C,)
    log_evidence_ : float
        Log evidence at the maximum (one against the rest: the sum over classes).
    latent_ : array (n, C)
        Latent values of the training scans; two classes: −f/2 and f/2, their difference is f.
    theta_ : array
        Log hyper-parameters; one row per class where they differ.
    unseen_variance_ : float
        The weight that the variance in unseen directions was given.
    dual_coef_ : array (n, C) or (n, 1)
        a with f = K a.
    kernel_share_ : array (M,) or (C, M)
        Part of the prior variance that each kernel has.
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
        "likelihood": [StrOptions({"auto", "logistic", "probit"})],
        "inference": [StrOptions({"auto", "laplace", "ep", "pronto"})],
        "per_class": ["boolean"],
        "averaging": [StrOptions({"auto", "quadrature", "sobol", "random", "mode"})],
        "unseen_variance": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="both")],
        "n_draws": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        kernel="linear",
        *,
        likelihood="auto",
        inference="auto",
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
        copy_X=False,
    ):
        self.kernel = kernel
        self.likelihood = likelihood
        self.inference = inference
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
    def fit(self, X: Any, y: Any) -> Self:
        """Fit by maximising the evidence.

        Parameters
        ----------
        X : array (n, n_features), memory map or dask array; Gram matrix if precomputed
        y : array (n,)
        """
        X, codes = self._read(X, reset=True), self._encode(y)
        check_consistent_length(X, codes)
        self.likelihood_, self.inference_ = self._model(len(self.classes_))
        self.codes_ = codes
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        gram = self._fit_gram(X)
        with blas_threads_for(len(codes)):
            self._learn(gram, codes)
        return self

    def _learn(self, gram: np.ndarray, codes: np.ndarray) -> None:
        """All that depends on the scans through their Gram matrices alone."""
        problems = self._problems(gram, codes)
        copies = len(self.classes_) if self.per_class and self._softmax else 1
        start = self._start(copies * n_parameters(self._kernels()))
        optima = [self._climb(problem, start) for problem in problems]
        fits = [problem.posterior(o.theta) for problem, o in zip(problems, optima)]
        self.posteriors_ = [fit._asdict() for fit in fits]
        self.log_evidence_ = float(sum(fit.log_evidence for fit in fits))
        self.evidence_path_ = np.concatenate([optimum.path for optimum in optima])
        thetas = np.array([optimum.theta for optimum in optima])
        self._weigh_unseen_variance(problems, fits, thetas)
        thetas = thetas.reshape(copies, -1) if copies > 1 else thetas
        self.theta_ = thetas if len(thetas) > 1 else thetas[0]
        shares = np.array([self._kernel_shares(theta) for theta in thetas])
        self.kernel_share_ = shares if len(shares) > 1 else shares[0]
        a, f = (np.array([fit[name] for fit in self.posteriors_]) for name in ("a", "f"))
        self.dual_coef_ = a[0] if self._softmax else a.T
        f = f[0] if self._softmax else f.T
        self.latent_ = np.hstack([-f / 2, f / 2]) if f.shape[1] == 1 else f

    def _model(self, n_classes: int) -> tuple[str, str]:
        """Likelihood and inference with "auto" made definite."""
        likelihood, inference = self.likelihood, self.inference
        if inference == "pronto":
            inference = "ep" if n_classes == 2 else "laplace"
        if inference == "auto":
            inference = "laplace" if likelihood == "logistic" else "ep"
        if likelihood == "auto":
            likelihood = "probit" if inference == "ep" else "logistic"
        if (likelihood, inference) == ("logistic", "ep"):
            raise InputError(
                "Expectation propagation does not take this likelihood",
                expected=f"{option('likelihood', 'probit')}, where its moments are exact",
                got=option("likelihood", "logistic"),
                remedy=f"Set {option('inference', 'laplace')} for the logistic",
            )
        check_rule(self.averaging, n_classes, self.n_draws)
        return likelihood, inference

    @property
    def _softmax(self) -> bool:
        return len(self.classes_) > 2 and self.likelihood_ == "logistic"

    def _problems(self, gram: np.ndarray, codes: np.ndarray) -> list:
        """One evidence to climb; one against the rest where the model is binary by nature."""
        kernels, n_classes = self._kernels(), len(self.classes_)
        if self._softmax:
            return [SoftmaxEvidence(kernels, gram, np.eye(n_classes)[codes], self.per_class)]
        model = (self.likelihood_, self.inference_)
        signs = against_rest(codes, n_classes)
        return [BinaryEvidence(kernels, gram, sign, *model) for sign in signs]

    def _weigh_unseen_variance(self, problems: list, fits: list, thetas: np.ndarray) -> None:
        """Set what tells seen from unseen variance per kernel, and the weight of the latter."""
        given = self.unseen_variance
        self.gram_inverse_roots_ = [
            pseudo_inverse_root(gram) if kernel.name in LINEAR and given != 1 else None
            for gram, kernel in zip(self.gram_, self._kernels())
        ]
        if given != "auto":
            self.unseen_variance_ = float(given)
        elif self._softmax or all(root is None for root in self.gram_inverse_roots_):
            self.unseen_variance_ = 0.0
        else:
            K = [problem.covariance(theta) for problem, theta in zip(problems, thetas)]
            outs = [left_out(*each) for each in zip(fits, K)]
            self.unseen_variance_ = choose_unseen_variance(outs, self.codes_, self.likelihood_)

    def predict_latent(
        self, X: Any, diagonal: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and variance of the latent functions.

        Returns
        -------
        mean, variance : arrays
            (n_new,) each for two classes; softmax (n_new, C) and covariance (n_new, C, C); one
            against the rest (n_new, C) each.
        """
        cross, norms = self._cross_gram(self._new_scans(X), diagonal)
        for m, root in enumerate(self.gram_inverse_roots_):
            if root is not None:
                seen = ((cross[m] @ root) ** 2).sum(axis=1)
                norms[m] = seen + self.unseen_variance_ * (norms[m] - seen)
        pairs = [self._covariance_to(theta, cross, norms) for theta in np.atleast_2d(self.theta_)]
        if self._softmax:
            K, k = pairs[0] if len(pairs) == 1 else map(np.array, zip(*pairs))
            return softmax_moments(SoftmaxPosterior(**self.posteriors_[0]), K, k)
        fits = [BinaryPosterior(**fit) for fit in self.posteriors_]
        moments = [latent_moments(fit, K, k) for fit, (K, k) in zip(fits, pairs)]
        if len(moments) == 1:
            return moments[0]
        return np.stack([m for m, _ in moments], 1), np.stack([v for _, v in moments], 1)

    def predict_proba(self, X: Any, diagonal: np.ndarray | None = None) -> np.ndarray:
        """Class probabilities, averaged over the posterior of the latent functions.

        Parameters
        ----------
        X : array (n_new, n_features), or the kernel to the training scans if precomputed
        diagonal : array (n_new,) or (M, n_new), optional
            k(x, x) of new scans for a precomputed kernel; by default the mean of the training
            diagonal (exact for kernels of constant diagonal).
        """
        mean, variance = self.predict_latent(X, diagonal)
        if self._softmax and self.averaging == "mode":
            return softmax(mean, axis=1)
        if self._softmax:
            rule = choose_rule(self.averaging, len(self.classes_), self.n_draws, self.seed_)
            return average_softmax(mean, variance, rule)
        return class_probabilities(mean, variance, self.likelihood_)

    def evidence_surface(
        self, first, second=None, parameters=(0, 1), positive: int = 0
    ) -> np.ndarray:
        """Log evidence over a grid of one or two log hyper-parameters, the others held.

        `positive` picks the class where one is fitted against the rest.
        """
        check_is_fitted(self)
        problem = self._problems(self.gram_, self.codes_)[positive]
        rows = np.atleast_2d(self.theta_)
        theta = rows.ravel() if self._softmax else rows[positive]
        return self._surface(problem, theta, first, second, parameters)

    def voxel_maps(self) -> dict[str, np.ndarray]:
        """Maps "weight", "weight_sd" and "pattern", with ":class" added beyond two classes.

        Weights and their posterior deviation exist for linear kernels; the pattern (Haufe et al.
        2014) for all.
        """
        check_is_fitted(self)
        thetas = np.atleast_2d(self.theta_)
        prior = np.array([self._weight_prior(theta) for theta in thetas])
        if self._softmax:
            fit = SoftmaxPosterior(**self.posteriors_[0])
            precision = np.array([class_precision(fit, c) for c in range(len(self.classes_))])
        else:
            precision = np.array([site_matrix(BinaryPosterior(**fit)) for fit in self.posteriors_])
        two = self.dual_coef_.shape[1] == 1
        latent = self.latent_[:, 1:] * 2.0 if two else self.latent_
        names = [""] if two else [f":{label}" for label in self.classes_]
        return self._voxel_maps(self.dual_coef_, precision, prior, latent, names)
