"""From the sum of stumps to probabilities: the link of the exponential loss, and its slope from
held-out folds.

The population minimiser of the exponential loss is half the log-odds, so

    p(y = +1 | x) = 1 / (1 + exp(-a F(x))),   a = 2

On few samples F is far too sure of itself. A slope a fitted to held-out values of F repairs that
with one parameter, and keeps the sign of F as the decision. Targets are Platt's, (N₊ + 1) / (N₊ +
2) and 1 / (N₋ + 2), so that separable held-out values give a finite slope. One-vs-rest problems
share the slope, and their p are normalised.

| symbol | variable | shape |
|---|---|---|
| F | `F` | (n, C); C = 1 for two classes |
| y, one-vs-rest labels ±1 | `Y` | (C, n) |
| a | `slope` | scalar |

Reference: Friedman, Hastie & Tibshirani, Additive logistic regression, Annals of Statistics 2000;
Platt 1999.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

__all__ = ["EXPONENTIAL_SLOPE", "fit_slope", "log_probabilities"]

EXPONENTIAL_SLOPE = 2.0
LOG_SLOPES = (-7.0, 5.0)


def log_probabilities(F: NDArray, slope: float) -> NDArray[np.float64]:
    """Return log p of each class, (n, max(C, 2)).

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.models.boosting.link import log_probabilities
    >>> np.exp(log_probabilities(np.array([[0.0], [1.0]]), slope=2.0)).round(3)
    array([[0.5  , 0.5  ],
           [0.119, 0.881]])
    """
    if F.shape[1] == 1:
        return -np.logaddexp(0.0, slope * F * np.array([1.0, -1.0]))
    log_p = -np.logaddexp(0.0, -slope * F)
    return log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True)


def fit_slope(F: NDArray, Y: NDArray, weights: NDArray) -> tuple[float, float]:
    """Fit the slope a to held-out F; return it and the mean log-loss it reaches."""
    positive = (Y.T > 0).astype(np.float64)
    n_positive, n_negative = weights @ positive, weights @ (1 - positive)
    targets = np.where(positive > 0, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2))

    def loss(log_slope: float) -> float:
        margin = np.exp(log_slope) * F
        losses = np.logaddexp(0.0, margin) - targets * margin
        return float(weights @ losses.mean(axis=1) / weights.sum())

    found = minimize_scalar(loss, bounds=LOG_SLOPES, method="bounded")
    return float(np.exp(found.x)), float(found.fun)
