"""Doubt: probabilities averaged over a temperature and over the case that nothing is there.

A handful of scans cannot tell a signal from luck, and a model whose parameters were chosen on the
same handful is overconfident. Held-out training scans show how far it can be trusted:

    p(c | x) = E[ w softmax_c(s(x)/T) + (1 − w) π_c ]                                      (1)
    p(log T, w | held out) ∝ Π_i ( w softmax_{y_i}(s_i/T) + (1 − w) π_{y_i} )^{N/m}
                             · exp(−(log T)² / 2σ²) · Beta(w; a, b)                        (2)

with σ = 1 for T < 1 (few right answers prove little) and σ = 3 for T > 1 (log-scores of many voxels
may be off by orders of magnitude). w is the probability that the model has found anything; without
a held-out scan, one per class in all, (2) is the prior. The expectation is a sum over a grid, and
only what it needs is kept: A_T = Σ_w w p(T, w).

One scan of every class is held out at a time, so that the rest is as balanced as the whole was.

| symbol | variable | shape |
|---|---|---|
| s, log-probabilities | `log_scores` | (m, C) |
| y | `codes` | (m,) |
| π, training frequencies | `prior` | (C,) |
| N, training scans | `n_scans` | number |
| a, b | `beta` | (a, b) |
| log T, w | `LOG_T`, `W` | (41,), (20,) |
| A | `strength` | (41,) |

References
----------
Guo, Pleiss, Sun & Weinberger, "On calibration of modern neural networks", ICML 2017 (temperature at
its best value; the average over it, and over w, is this package's).
"""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, softmax
from sklearn.base import clone

from voxprior.algebra import floored_log
from voxprior.errors import InputError, option
from voxprior.models.base import VoxelModel, class_prior
from voxprior.models.growth import already_told

LOG_T = np.linspace(-4.0, 4.0, 41)
W = np.linspace(0.025, 0.975, 20)
# Spread of log T on the sharper and on the softer side of T = 1.
PRIOR_SD = (1.0, 3.0)
# From this many scans per class on a scan is held out once; below, in all combinations.
FEW_SCANS = 3
MOST_FOLDS = 10


class Doubt(NamedTuple):
    """The posterior (2), as far as predictions need it."""

    strength: NDArray[np.float64]  # (41,) A_T; its sum is E w
    prior: NDArray[np.float64]  # (C,)
    mean_log_temperature: float  # E log T


def doubt_posterior(
    log_scores: ArrayLike,
    codes: ArrayLike,
    prior: ArrayLike,
    n_scans: int,
    beta: tuple[float, float] = (2, 1),
) -> Doubt:
    """Posterior (2) of temperature and belief, given held-out log-scores.

    Parameters
    ----------
    log_scores : array (m, C)
        Unnormalised log-probabilities of held-out scans; m may be 0.
    codes : array (m,)
        Their true classes.
    prior : array (C,)
        Probabilities where nothing is there.
    n_scans : int
        N: every scan counts once, however often it was held out.
    beta : (a, b)
        Prior of w.

    Examples
    --------
    Four scans, one of them wrong, all with odds of e⁸:

    >>> import numpy as np
    >>> scores = np.array([[8.0, 0.0], [8.0, 0.0], [0.0, 8.0], [0.0, 8.0]])
    >>> doubt = doubt_posterior(scores, [0, 0, 1, 0], [0.5, 0.5], 4)
    >>> round(float(doubt.strength.sum()), 8), round(doubt.mean_log_temperature, 8)
    (0.64159855, 1.06771242)
    """
    codes, pi = np.asarray(codes, dtype=np.intp), np.asarray(prior, dtype=float)
    log_p = _tempered(log_scores, LOG_T)[:, np.arange(len(codes)), codes]
    mixed = W * np.exp(log_p)[:, :, None] + (1.0 - W) * pi[codes][:, None]
    a, b = beta
    log_posterior = (n_scans / max(len(codes), 1)) * floored_log(mixed).sum(axis=1)
    log_posterior += (a - 1.0) * np.log(W) + (b - 1.0) * np.log1p(-W)
    log_posterior -= 0.5 * (LOG_T / np.where(LOG_T > 0, PRIOR_SD[1], PRIOR_SD[0]))[:, None] ** 2
    posterior = softmax(log_posterior)
    return Doubt(posterior @ W, pi, float(posterior.sum(axis=1) @ LOG_T))


def doubted(log_scores: ArrayLike, doubt: Doubt) -> NDArray[np.float64]:
    """Probabilities (1), rows summing to 1.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[8.0, 0.0], [8.0, 0.0], [0.0, 8.0], [0.0, 8.0]])
    >>> doubt = doubt_posterior(scores, [0, 0, 1, 0], [0.5, 0.5], 4)
    >>> doubted([[8.0, 0.0]], doubt).round(8)
    array([[0.72339805, 0.27660195]])
    """
    p = np.tensordot(doubt.strength, np.exp(_tempered(log_scores, LOG_T)), axes=1)
    return p + (1.0 - doubt.strength.sum()) * doubt.prior


def _tempered(log_scores: ArrayLike, log_T: NDArray) -> NDArray[np.float64]:
    """Log softmax of s/T for every T, (len(log_T), m, C)."""
    s = log_softmax(np.asarray(log_scores, dtype=float), axis=1)
    return log_softmax(s * np.exp(-log_T)[:, None, None], axis=2)


def balanced_folds(codes: NDArray) -> list[NDArray[np.intp]]:
    """Scans to hold out together: one of every class, or as many as make at most 10 folds.

    Up to 3 scans per class all n² combinations of two classes (as many, shifted, of more), else
    every scan once. A class of one scan is never held out.

    Examples
    --------
    >>> import numpy as np
    >>> [fold.tolist() for fold in balanced_folds(np.array([0, 0, 1, 1]))]
    [[0, 2], [1, 3], [0, 3], [1, 2]]
    """
    members = [np.flatnonzero(codes == c) for c in np.unique(codes)]
    members = [scans for scans in members if len(scans) > 1]
    if not members:
        return []
    n = max(len(scans) for scans in members)
    if n <= FEW_SCANS:
        shifts = [(start, shift) for shift in range(n) for start in range(n)]
        return [
            np.array([scans[(start + c * shift) % len(scans)] for c, scans in enumerate(members)])
            for start, shift in shifts
        ]
    # More than three folds: none of them holds a class out whole.
    n_folds = min(n, MOST_FOLDS)
    return [np.concatenate([scans[k::n_folds] for scans in members]) for k in range(n_folds)]


def refit_without(model: VoxelModel, X: Any, y: NDArray, test: NDArray) -> tuple[Any, Any]:
    """A copy of the model fitted to the other scans, and the scans `test` as it takes them."""
    train = np.setdiff1d(np.arange(len(y)), test)
    with already_told():
        fitted = clone(model).fit(model._part(X, train, train), y[train])
    return fitted, model._part(X, test, train)


def learn_doubt(model: VoxelModel, X: Any, codes: NDArray, beta: tuple[float, float]) -> Doubt:
    """Doubt of a classifier, refitted without the scans of every fold in turn.

    Parameters
    ----------
    model : classifier with the parameter ``doubt``
        It is refitted, everything chosen anew, without doubt.
    X : training scans, or their kernel
    codes : array (n,)
        Their class codes.
    beta : (a, b)
    """
    like, X = model._to_refit(X)
    plain, counts = clone(like).set_params(doubt=None), np.bincount(codes)
    scores, truth = np.empty((0, len(counts))), np.empty(0, dtype=np.intp)
    for test in balanced_folds(codes):
        fitted, X_test = refit_without(plain, X, codes, test)
        scores = np.concatenate([scores, fitted.predict_log_proba(X_test)])
        truth = np.concatenate([truth, codes[test]])
        del fitted, X_test  # not held while the next is made
    return doubt_posterior(scores, truth, class_prior(None, counts), len(codes), beta)


def check_beta(doubt: Any) -> tuple[float, float] | None:
    """The parameter ``doubt``: None, or the two positive numbers of a Beta distribution."""
    if doubt is None:
        return None
    pair = tuple(doubt) if isinstance(doubt, tuple | list) else ()
    usable = len(pair) == 2 and all(isinstance(x, Real) and 0 < float(x) < np.inf for x in pair)
    if not usable:
        raise InputError(
            f"{option('doubt')} cannot be used",
            expected="two positive numbers (a, b), the Beta prior of the probability that the "
            "model has found anything, or None",
            got=repr(doubt),
        )
    return float(pair[0]), float(pair[1])
