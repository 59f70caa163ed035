"""Choices made inside the training data: the strength (γ, ρ, N_τ) of a field, and its temperature.

Strength. In every fold each class is trained without its held-out scans and predicts them, node by
node; the setting with the highest held-out Gaussian log-likelihood −½ Σ_i log σ_i, σ_i the held-out
variance, is chosen. No labels but the classes of the scans are used, and no decision: what is
scored is the structure. A field with fewer pseudo-measurements is a stop on the way to one with
more, so for each γ the path over all 0 .. N_τ costs one fit.

Temperature. The log-likelihood ratio of n nodes counts every node as independent evidence, hundreds
of nats. The probabilities are softmax(score / T) with T fitted to held-out scores by logistic
likelihood, targets smoothed as in Platt (1999) so that N scans that are all right do not say more
than (N + 1)/(N + 2).

======  ===========  =======  ===================================================
symbol  variable     shape    meaning
======  ===========  =======  ===================================================
γ       gammas       list     prior precisions tried
ρ       rho          scalar   strength of a pseudo-measurement, n/(γ R_ε)
T       temperature  scalar
======  ===========  =======  ===================================================

References
----------
J. Platt. Probabilistic outputs for support vector machines. Advances in Large Margin Classifiers,
1999.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax
from sklearn.model_selection import StratifiedKFold

from voxprior.models.fields.compression import held_out_path, noise_from_strength
from voxprior.models.fields.dual import dual_system
from voxprior.models.fields.training import Recipe, train_class

GAMMAS = (1.0, 10.0, 100.0, 1000.0)
# Above this prior precision coefficients are so small that their norm needs no second penalty.
LARGEST_COMPRESSED_GAMMA = 100.0
# Small steps: at ρ = 1 no step overshoots, and 40 of them reach any strength that pays.
PATH_RHO = 1.0
# With 40 pseudo-measurements of strength 1, close to the best on simulated chains of every size.
UNTUNED_GAMMA = 10.0
_TEMPERATURE_RANGE = (1e-3, 1e6)


class Strength(NamedTuple):
    """The chosen setting, and all that were tried as rows (γ, ρ, N_τ, held-out value)."""

    gamma: float
    rho: float
    n_pseudo: int
    tried: np.ndarray


def choose_strength(
    Z: np.ndarray,
    codes: np.ndarray,
    recipe: Recipe,
    gammas: Sequence[float] = GAMMAS,
    rho: float | None = None,
    n_folds: int = 5,
) -> Strength:
    """Choose γ, and unless ``rho`` is given N_τ, by held-out prediction of nodes.

    Parameters
    ----------
    Z : ndarray of shape (k, n)
        Training scans at the nodes.
    codes : ndarray of shape (k,)
        Their classes, 0 .. C−1.
    recipe : Recipe
        Its γ and R_ε are what is chosen; its N_τ is the most pseudo-measurements tried.
    gammas : sequence of float
        Prior precisions to try.
    rho : float, optional
        Given, all N_τ pseudo-measurements have this strength (0: none). If not, they have strength
        ``PATH_RHO`` and any number 0 .. N_τ of them is tried (0 or N_τ where they come after each
        scan).
    n_folds : int
        Folds, at most as many as scans in the smallest class.
    """
    folds = fold_indices(codes, n_folds)
    if not folds:  # two scans in a class: nothing can be held out
        gamma = UNTUNED_GAMMA if len(gammas) > 1 else gammas[0]
        strength = PATH_RHO if rho is None else rho
        return Strength(gamma, strength, recipe.n_pseudo, np.empty((0, 4)))
    tried: list[tuple[float, float, int, float]] = []
    for gamma in gammas:
        strength = PATH_RHO if rho is None else rho
        if rho is None and len(gammas) > 1 and gamma > LARGEST_COMPRESSED_GAMMA:
            strength = 0.0
        stops = _stops(recipe, strength, fixed=rho is not None)
        squares = sum(_held_out(Z, codes, fold, recipe, gamma, strength, stops) for fold in folds)
        if recipe.variance_scope == "shared":
            variance = squares.sum(axis=0, keepdims=True) / len(codes)
        else:
            variance = squares / np.bincount(codes)[:, None, None]
        # A constant node is predicted without error by every setting.
        value = -0.5 * np.log(np.maximum(variance, 1e-12)).mean(axis=(0, 2))
        tried += [(gamma, strength if t else 0.0, t, float(v)) for t, v in zip(stops, value)]
    gamma, strength, n_pseudo, _ = max(tried, key=lambda row: row[3])
    return Strength(float(gamma), float(strength), int(n_pseudo), np.array(tried))


def _stops(recipe: Recipe, strength: float, fixed: bool) -> list[int]:
    """Numbers of pseudo-measurements to try."""
    if strength == 0.0 or recipe.n_pseudo == 0:
        return [0]
    if fixed:
        return [recipe.n_pseudo]
    return [0, recipe.n_pseudo] if recipe.mode == "each" else list(range(recipe.n_pseudo + 1))


def _held_out(Z, codes, fold, recipe, gamma, rho, stops):
    """Summed squared held-out errors (C, stops, n) of one fold."""
    train, test = fold
    n = Z.shape[1]
    result = []
    for c in range(int(codes.max()) + 1):
        inside, outside = Z[train][codes[train] == c], Z[test][codes[test] == c]
        if recipe.mode == "each":
            fields = [
                train_class(
                    inside,
                    recipe.with_strength(gamma, rho, stop, n)._replace(variance="residual"),
                )[0]
                for stop in stops
            ]
            errors = [outside - outside @ f.coef.T - f.intercept for f in fields]
            result.append([(error**2).sum(axis=0) for error in errors])
        else:
            r_eps = noise_from_strength(rho, n, gamma) if rho > 0 else np.inf
            system = dual_system(inside, gamma, recipe.bias)
            path = held_out_path(system, outside, r_eps, stops[-1], recipe.norm, recipe.memory)
            result.append(path[stops])
    return np.array(result)


def fold_indices(codes: np.ndarray, n_folds: int):
    """Stratified folds without shuffling; none if a class would keep fewer than two scans."""
    smallest = int(np.bincount(codes).min())
    n_folds = min(n_folds, smallest)
    if smallest < 3 or n_folds < 2:
        return []
    return list(StratifiedKFold(n_folds).split(np.zeros(len(codes)), codes))


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
    # The best class at 0, and units of the spread, keep the exponentials and the bracket in range.
    centred = scores - scores.max(axis=1, keepdims=True)

    def slope(inverse):
        expected = (softmax(centred * inverse, axis=1) * centred).sum()
        return expected - (targets * centred).sum()

    cold, hot = (1.0 / t for t in _TEMPERATURE_RANGE)
    if slope(hot) >= 0:  # the scores say nothing, or the wrong thing
        return _TEMPERATURE_RANGE[1]
    if slope(cold) <= 0:
        return _TEMPERATURE_RANGE[0]
    return float(1.0 / brentq(slope, hot, cold, xtol=1e-12, rtol=1e-10))
