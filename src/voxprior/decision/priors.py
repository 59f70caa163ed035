"""Prevalence: posteriors under other class frequencies than those of training, and their estimate.

A classifier trained at class frequencies p gives π_c(x) ∝ p(x|c) p_c. Where the classes are as
frequent as q, with the same p(x|c),

    π'_c(x) ∝ π_c(x) q_c / p_c                                                             (1)

and q can be learned from unlabelled scans by EM [1]_: with q at its current value,

    q_c <- mean over scans of π'_c(x_i)                                                    (2)

which never lowers the likelihood ℓ(q) = Σ_i log Σ_c π_c(x_i) q_c / p_c.

| symbol | variable | shape |
|---|---|---|
| π | `probabilities` | (n, C) |
| p | `train_priors` | (C,) |
| q | `priors` | (C,) |
| ℓ | `log_likelihood` | (iterations + 1,) |

References
----------
.. [1] Saerens, Latinne & Decaestecker, "Adjusting the outputs of a classifier to new a priori
   probabilities", Neural Computation 14, 2002.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from voxprior.algebra import floored_log
from voxprior.errors import InputError, option


class PriorEstimate(NamedTuple):
    """Class frequencies estimated on unlabelled scans."""

    priors: np.ndarray  # (C,)
    log_likelihood: np.ndarray  # (n_iterations + 1,) never decreasing
    converged: bool


def correct_priors(probabilities, train_priors, priors) -> np.ndarray:
    """Posteriors under new class frequencies, equation (1).

    Examples
    --------
    A test for a disease, trained on equal groups, says .9; one in a hundred has the disease.

    >>> from voxprior.decision import correct_priors
    >>> correct_priors([[0.1, 0.9]], [0.5, 0.5], [0.99, 0.01]).round(4).tolist()
    [[0.9167, 0.0833]]
    """
    return softmax(floored_log(probabilities) + np.log(priors) - np.log(train_priors), axis=1)


def estimate_priors(
    probabilities, train_priors, *, max_iterations=1000, tolerance=1e-8
) -> PriorEstimate:
    """Class frequencies of unlabelled scans from their posteriors, by EM, equation (2).

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.decision import estimate_priors
    >>> certain = np.repeat([[1.0, 0.0], [0.0, 1.0]], [9, 1], axis=0)
    >>> estimate_priors(certain, [0.5, 0.5]).priors.round(3).tolist()
    [0.9, 0.1]
    """
    p = np.asarray(train_priors, dtype=float)
    log_likelihoods = floored_log(probabilities) - np.log(p)
    q = p.copy()
    path: list[float] = []
    converged = False
    while not converged and len(path) <= max_iterations:
        joint = log_likelihoods + np.log(q)
        path.append(float(logsumexp(joint, axis=1).sum()))
        # A class that fades out must stay above zero, or it could never come back into (1).
        updated = np.clip(softmax(joint, axis=1).mean(axis=0), 1e-12, None)
        updated /= updated.sum()
        converged = bool(np.abs(updated - q).max() < tolerance)
        q = updated
    path.append(float(logsumexp(log_likelihoods + np.log(q), axis=1).sum()))
    return PriorEstimate(q, np.array(path), converged)


def prior_vector(priors, classes: np.ndarray, name: str = "priors") -> np.ndarray:
    """Positive class frequencies that sum to 1, from "uniform", a list or a dict by label."""
    n_classes, labels = len(classes), classes.tolist()
    what = f"{option(name)} cannot be used"
    if isinstance(priors, str):
        if priors != "uniform":
            raise InputError(what, expected="'uniform', a list or a dict", got=repr(priors))
        return np.full(n_classes, 1.0 / n_classes)
    if hasattr(priors, "keys"):
        if set(priors.keys()) != set(labels):
            raise InputError(what, expected=f"every class, {labels}", got=str(list(priors.keys())))
        priors = [priors[label] for label in labels]
    vector = np.asarray(priors, dtype=float)
    if vector.shape != (n_classes,) or not np.all(np.isfinite(vector)) or np.any(vector <= 0):
        raise InputError(
            what,
            expected=f"{n_classes} positive numbers, one per class in the order of {labels}",
            got=str(vector.tolist()),
        )
    if not np.isclose(vector.sum(), 1.0, atol=1e-6):
        raise InputError(what, expected="a sum of 1", got=f"a sum of {vector.sum():g}")
    return vector / vector.sum()
