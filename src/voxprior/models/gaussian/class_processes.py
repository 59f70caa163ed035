"""Gaussian processes of several classes: which problems are solved, and what is kept from them.

| classes | model | problems |
|---|---|---|
| 2 | f behind a probit or logistic | one |
| more, one against the rest | C functions, each behind its own probit | C, one evidence each |
| more, softmax or multinomial probit | C functions behind one likelihood | one, of all classes |

The functions share their kernels, or each class has its own: other hyper-parameters (`per_class`),
or other kernels altogether (a dict), K = diag(K_1 .. K_C).
"""

from typing import Any

import numpy as np
from scipy.special import softmax

from voxprior.algebra import floored_log
from voxprior.errors import InputError, option
from voxprior.models.base import VoxelClassifier
from voxprior.models.gaussian.base import ALL, LINEAR, GaussianProcess, against_rest
from voxprior.models.gaussian.covariance import n_parameters
from voxprior.models.gaussian.ep_multinomial import multinomial_probabilities
from voxprior.models.gaussian.evidence import (
    BinaryEvidence,
    KernelTerms,
    MultinomialEvidence,
    Optimum,
    SoftmaxEvidence,
)
from voxprior.models.gaussian.laplace import of_class
from voxprior.models.gaussian.left_out import (
    choose_unseen_variance,
    left_out,
    left_out_log_p,
    power_posterior,
    pseudo_inverse_root,
    softmax_left_out,
    unseen_variances,
)
from voxprior.models.gaussian.prediction import (
    average_softmax,
    check_rule,
    choose_rule,
    class_probabilities,
)

# Centre of the prior of log s behind a multinomial probit; its spread is 1.
MULTINOMIAL_LOG_SCALE = 2.0


class ClassProcesses(VoxelClassifier, GaussianProcess):
    """Base of `GPClassifier`: all that is learned from Gram matrices, and its link to classes."""

    def _learn(self, gram: np.ndarray, codes: np.ndarray, groups: np.ndarray | None) -> None:
        """All that depends on the scans through their Gram matrices alone."""
        problems = self._problems(gram, codes)
        optima = [self._climb_class(*each) for each in zip(problems, self._starts(problems))]
        fits = [problem.posterior(o.theta) for problem, o in zip(problems, optima)]
        self._keep_evidence([fit.log_evidence for fit in fits])
        self.evidence_path_ = np.concatenate([optimum.path for optimum in optima])
        posteriors = fits[0].classes if self._multinomial else fits
        self.posteriors_ = [fit._asdict() for fit in posteriors]
        thetas = [optimum.theta for optimum in optima]
        K = [problem.covariance(theta) for problem, theta in zip(problems, thetas)]
        self._leave_out(posteriors, K, groups)
        if self._joint:
            thetas = np.split(thetas[0], problems[0].ends)
        self._keep_theta(thetas)
        a, f = (np.array([fit[name] for fit in self.posteriors_]) for name in ("a", "f"))
        self.dual_coef_ = a[0] if self._softmax else a.T
        f = f[0] if self._softmax else f.T
        self.latent_ = np.hstack([-f / 2, f / 2]) if f.shape[1] == 1 else f

    def _climb_class(self, problem: Any, start: np.ndarray) -> Optimum:
        # Few scans leave the evidence of a multinomial probit flat in its scale: a prior decides.
        spread = 1.0 if self._multinomial and self.hyperprior is None else None
        return self._climb(problem, start, hyperprior=spread)

    def _starts(self, problems: list) -> list[np.ndarray]:
        """θ where each problem starts."""
        sizes = [problem.n_parameters for problem in problems]
        if len(self._terms()) > 1 and not self._joint:
            return np.split(self._start(sum(sizes)), np.cumsum(sizes)[:-1])
        start = self._start(sizes[0])
        if self._multinomial and self.theta is None:
            start = start + MULTINOMIAL_LOG_SCALE * problems[0].is_scale
        return [start] * len(problems)

    def _keep_theta(self, thetas: list[np.ndarray]) -> None:
        """One row per class, or one after the other where classes have unequal numbers of them."""
        terms = self._terms() * (len(thetas) if len(self._terms()) == 1 else 1)
        shares = [self._kernel_shares(*each) for each in zip(thetas, terms)]
        self.theta_, self.kernel_share_ = (
            parts[0] if len(parts) == 1 else _stacked(parts) for parts in (thetas, shares)
        )

    def _class_thetas(self) -> list[tuple[np.ndarray, slice]]:
        """Hyper-parameters and kernels of each latent function, or of all of them."""
        terms = self._terms()
        if len(terms) == 1:
            return [(theta, terms[0]) for theta in np.atleast_2d(self.theta_)]
        kernels = self._kernels()
        ends = np.cumsum([n_parameters(kernels[each]) for each in terms])[:-1]
        return list(zip(np.split(np.ravel(self.theta_), ends), terms))

    def _check_kernel_classes(self) -> None:
        if isinstance(self.kernel, dict) and set(self.kernel) != set(self.classes_.tolist()):
            raise InputError(
                f"{option('kernel')} by class cannot be used",
                expected=f"a kernel of each class: {', '.join(map(repr, self.classes_.tolist()))}",
                got=f"kernels of {', '.join(map(repr, self.kernel)) or 'none'}",
            )

    def _terms(self) -> list[slice]:
        """Which kernels each class has, where that differs; else all of them, once."""
        if not isinstance(self.kernel, dict) or len(self.classes_) == 2:
            return [ALL]
        ends = np.cumsum([len(part) for part in self._kernel_parts()])
        places = {
            name: slice(end - len(part), end)
            for name, part, end in zip(self.kernel, self._kernel_parts(), ends.tolist())
        }
        return [places[label] for label in self.classes_.tolist()]

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
        if self.multiclass == "multinomial" and inference != "ep":
            raise InputError(
                f"{option('multiclass', 'multinomial')} cannot be used",
                expected=option("inference", "ep"),
                got=option("inference", inference),
            )
        check_rule(self.averaging, n_classes, self.n_draws)
        return likelihood, inference

    @property
    def _softmax(self) -> bool:
        return len(self.classes_) > 2 and self.likelihood_ == "logistic"

    @property
    def _multinomial(self) -> bool:
        return len(self.classes_) > 2 and self.multiclass == "multinomial"

    @property
    def _joint(self) -> bool:
        """Whether one problem has the latent functions of all classes."""
        return self._softmax or self._multinomial

    def _problems(self, gram: np.ndarray, codes: np.ndarray) -> list:
        """One evidence to climb; one against the rest where the model is binary by nature."""
        kernels, n_classes, terms = self._kernels(), len(self.classes_), self._terms()
        if self._joint:
            copies = n_classes if self.per_class and len(terms) == 1 else 1
            parts = [KernelTerms(kernels[each], gram[each]) for each in terms * copies]
            if self._multinomial:
                return [MultinomialEvidence(parts, codes)]
            return [SoftmaxEvidence(parts, np.eye(n_classes)[codes])]
        model = (self.likelihood_, self.inference_)
        signs = against_rest(codes, n_classes)
        terms = terms * len(signs) if len(terms) == 1 else terms
        return [
            BinaryEvidence(kernels[each], gram[each], sign, *model)
            for each, sign in zip(terms, signs)
        ]

    def _leave_out(self, posteriors: list, K: list, groups: np.ndarray | None) -> None:
        """Weigh unseen variance, and score the model, by training scans that are left out."""
        given = self.unseen_variance
        self.gram_inverse_roots_ = [
            pseudo_inverse_root(gram) if kernel.name in LINEAR and given != 1 else None
            for gram, kernel in zip(self.gram_, self._kernels())
        ]
        reduced = any(root is not None for root in self.gram_inverse_roots_)
        self.unseen_variance_ = 0.0 if given == "auto" else float(given)
        if self._softmax:
            return self._score_softmax(posteriors[0], K[0], groups, reduced)
        if self._multinomial:
            K = [of_class(K[0], c) for c in range(len(posteriors))]
        # One against the rest has always weighed unseen variance by single scans.
        together = groups if self._multinomial else None
        outs = [left_out(*each, together) for each in zip(posteriors, K)]
        if given == "auto" and reduced:
            self.unseen_variance_ = choose_unseen_variance(outs, self.codes_, self._link)
        if groups is not None and together is None:
            outs = [left_out(*each, groups) for each in zip(posteriors, K)]
        rho = self.unseen_variance_ if reduced else 1.0
        log_p, self.left_out_log_score_ = left_out_log_p(outs, self.codes_, self._link, rho)
        if self._multinomial:
            self.power_ = power_posterior(log_p, self.codes_)

    def _score_softmax(self, posterior, K, groups, reduced: bool) -> None:
        onehot = np.eye(len(self.classes_))[self.codes_]
        mean, covariance = softmax_left_out(posterior, K, onehot, groups)
        if reduced:
            for c in range(len(self.classes_)):
                unseen = unseen_variances(of_class(K, c), groups)
                left = covariance[:, c, c] - (1.0 - self.unseen_variance_) * unseen
                covariance[:, c, c] = np.maximum(left, 0.0)
        log_p = floored_log(self._link(mean, covariance))
        self.left_out_log_score_ = float(log_p[np.arange(len(log_p)), self.codes_].sum())

    def _link(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Class probabilities of latent values, before any power or doubt."""
        if self._multinomial:
            return multinomial_probabilities(mean, variance)
        if not self._softmax:
            return class_probabilities(mean, variance, self.likelihood_)
        if self.averaging == "mode":
            return softmax(mean, axis=1)
        rule = choose_rule(self.averaging, len(self.classes_), self.n_draws, self.seed_)
        return average_softmax(mean, variance, rule)


def _stacked(parts: list[np.ndarray]) -> np.ndarray:
    """Rows of a matrix, or one after the other where their lengths differ."""
    equal = len({len(part) for part in parts}) == 1
    return np.array(parts) if equal else np.concatenate(parts)
