"""From log-likelihoods to decisions and probabilities: the threshold and the temperature.

Threshold. The constant c that the log-likelihood ratio is compared with, tuned on labelled scans:

    c* = argmax_c  η_1 Σ_j 1[d_1(j) ≤ c] + η_0 Σ_j 1[d_0(j) ≥ c],   η_θ = k_θ/(k_0 + k_1)    (A.2)

with d_θ(j) = log p(x_j|0) − log p(x_j|1) of scan j of class θ. The objective is constant between
neighbouring d, so the candidates are the midpoints, one below and one above; among equally good
ones the closest to zero is taken.

For more than two classes every class has its own offset t_θ, prediction is argmax(log p_θ − t_θ),
and the offsets are tuned one at a time by the same rule, each against the best of the others, until
none improves.

Temperature. The log-likelihood ratio of n nodes counts every node as independent evidence, hundreds
of nats. The probabilities are softmax(score / T) with T fitted to held-out scores by logistic
likelihood, targets smoothed as in Platt (1999) so that N scans that are all right do not claim more
than (N + 1)/(N + 2).

| symbol | variable | shape |
|---|---|---|
| d, log-likelihood ratios | `d` | (k,) |
| η, weight of the scans of a class | `weight` | (C,) |
| t, log Z_θ up to a constant; c = t_0 − t_1 | `offsets` | (C,) |
| T | `temperature` | scalar |

References
----------
A. Carmi, G. Cecchi, D. Kanevsky, B. Ramabhadran and I. Rish. Classification via compressed random
fields. IBM Research Report, 2009. Appendix A.1.

J. Platt. Probabilistic outputs for support vector machines. Advances in Large Margin Classifiers,
1999.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax

from voxprior.errors import InputError, option
from voxprior.models.fields.field import Fields, class_scores, log_partitions

_TEMPERATURE_RANGE = (1e-3, 1e6)


class Tuned(NamedTuple):
    """The threshold and the objective it reaches."""

    threshold: float
    objective: float


def class_offsets(
    threshold: str | float, fields: Fields, Z: np.ndarray, codes: np.ndarray, prior: np.ndarray,
    normalize: bool = True,
) -> np.ndarray:  # fmt: skip
    """Log Z_θ of every class (C,), up to a constant, as ``threshold`` says.

    Parameters
    ----------
    threshold : {"exact", "tuned", "zero"} or float
        From |det(I − B)|; by (A.2) on the scans; zero; or c itself, for two classes.
    fields : Fields
        The fields of all classes.
    Z, codes : ndarrays of shape (k, n) and (k,)
        Scans at the nodes, and their classes.
    prior : ndarray of shape (C,)
        Prior probabilities of the classes.
    normalize : bool
        Whether likelihoods have their factor (2πσ)^(−1/2).
    """
    if threshold == "exact":
        return log_partitions(fields)
    if threshold == "tuned":
        return tune_offsets(class_scores(Z, fields, normalize) + np.log(prior), codes)
    offsets = np.zeros(len(prior))
    if threshold != "zero":
        if len(offsets) != 2:
            raise InputError(
                f"A number as {option('threshold')} is for two classes",
                got=f"{len(offsets)} classes",
                remedy=f"Set {option('threshold', 'exact')} or {option('threshold', 'tuned')}",
            )
        offsets[0] = threshold
    return offsets


def tune_threshold(d: np.ndarray, above: np.ndarray, weight: np.ndarray) -> Tuned:
    """Maximise Σ weight·1[d ≥ c] over scans that belong above plus Σ weight·1[d ≤ c] of others.

    Parameters
    ----------
    d : ndarray of shape (k,)
        Log-likelihood ratios.
    above : bool ndarray of shape (k,)
        Scans of class 0.
    weight : ndarray of shape (k,)
        What each scan counts, η of its class.

    Examples
    --------
    >>> import numpy as np
    >>> d = np.array([2, 0.5, -1, -2, 0, -3, 1])
    >>> above = np.array([True] * 3 + [False] * 4)
    >>> tuned = tune_threshold(d, above, np.where(above, 3 / 7, 4 / 7))
    >>> tuned.threshold, round(float(tuned.objective), 6)
    (1.5, 2.714286)
    """
    order = np.argsort(d, kind="stable")
    values = d[order]
    gained = np.cumsum(np.where(above, -weight, weight)[order])
    # Objective after each value: all above-scans right at first, then scans change side one by one.
    objective = weight[above].sum() + np.concatenate([[0.0], gained])
    last = np.append(np.flatnonzero(np.diff(values) > 0), len(values) - 1)
    distinct = values[last]
    between = 0.5 * (distinct[:-1] + distinct[1:])
    candidates = np.concatenate([[distinct[0] - 1.0], between, [distinct[-1] + 1.0]])
    reached = np.concatenate([objective[:1], objective[last + 1]])
    # Sums of equal weights in another order differ by rounding; those count as ties.
    best = np.flatnonzero(reached >= reached.max() - 1e-9 * weight.sum())
    chosen = best[np.argmin(np.abs(candidates[best]))]
    return Tuned(float(candidates[chosen]), float(reached[chosen]))


def tune_offsets(scores: np.ndarray, codes: np.ndarray, max_rounds: int = 20) -> np.ndarray:
    """Offsets t (C,) of argmax(scores − t), tuned by (A.2); with two classes t = (c, 0).

    Parameters
    ----------
    scores : ndarray of shape (k, C)
        log p_θ (+ log prior) of labelled scans.
    codes : ndarray of shape (k,)
        Their classes as 0 .. C−1.
    max_rounds : int
        Rounds over the classes at most.
    """
    n_classes = scores.shape[1]
    offsets = np.zeros(n_classes)
    eta = np.bincount(codes, minlength=n_classes) / len(codes)
    weight = eta[codes]
    reached = _objective(scores, codes, offsets, weight)
    for _ in range(1 if n_classes == 2 else max_rounds):
        before = reached
        for c in range(1 if n_classes == 2 else n_classes):
            trial = offsets.copy()
            trial[c] = _tune_one(scores, codes, offsets, weight, c)
            value = _objective(scores, codes, trial, weight)
            if n_classes == 2 or value > reached + 1e-12:
                offsets, reached = trial, value
        if reached <= before:
            break
    return offsets


def _tune_one(scores, codes, offsets, weight, c):
    """The best offset of class c against the others; scans lost either way do not count."""
    others = scores - offsets
    others[:, c] = -np.inf
    rival = others.argmax(axis=1)
    mine = codes == c
    counts = mine | (rival == codes)
    d = scores[:, c] - others.max(axis=1)
    if not counts.any():
        return offsets[c]
    return tune_threshold(d[counts], mine[counts], weight[counts]).threshold


def _objective(scores, codes, offsets, weight):
    return weight[(scores - offsets).argmax(axis=1) == codes].sum()


def fit_temperature(scores: np.ndarray, codes: np.ndarray) -> float:
    """The T that makes softmax(scores / T) most likely on held-out scans, targets smoothed.

    Parameters
    ----------
    scores : ndarray of shape (k, C)
        Held-out log p − log Z + log prior.
    codes : ndarray of shape (k,)
        True classes.

    Examples
    --------
    >>> import numpy as np
    >>> codes = np.array([0, 1] * 10)
    >>> scores = 100.0 * np.eye(2)[codes]
    >>> p = 1 / (1 + np.exp(-100 / fit_temperature(scores, codes)))
    >>> round(float(p), 4)  # 20 of 20 right: 21/22
    0.9545
    """
    n_classes = scores.shape[1]
    smooth = 1.0 / (len(codes) + n_classes)
    targets = np.full(scores.shape, smooth)
    targets[np.arange(len(codes)), codes] = 1.0 - smooth * (n_classes - 1)
    # The best class at 0 keeps the exponentials in range.
    centered = scores - scores.max(axis=1, keepdims=True)

    def slope(inverse):
        expected = (softmax(centered * inverse, axis=1) * centered).sum()
        return expected - (targets * centered).sum()

    cold, hot = (1.0 / t for t in _TEMPERATURE_RANGE)
    if slope(hot) >= 0:  # the scores say nothing, or the wrong thing
        return _TEMPERATURE_RANGE[1]
    if slope(cold) <= 0:
        return _TEMPERATURE_RANGE[0]
    return float(1.0 / brentq(slope, hot, cold, xtol=1e-12, rtol=1e-10))
