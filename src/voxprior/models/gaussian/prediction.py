"""From the posterior of latent values to class probabilities.

Link functions are averaged over a Gaussian of latent values:

    two classes    p(+1) = ∫ λ(z) N(z; mean, variance) dz     Φ(mean/√(1 + variance)) for the probit

    more           π_c = ∫ softmax_c(f) N(f; mean, Σ) df
                       ≈ Σ_s w_s softmax_c(mean + Σ^½ u_s)

The same points u_s serve every scan, so that a scan alone and the same scan in a batch agree and
probabilities are smooth in the hyper-parameters. "quadrature" integrates the C − 1 differences to
the last class by product Gauss-Hermite (C ≤ 3); "sobol" takes scrambled Sobol points turned into
normal draws; "random" is plain Monte Carlo, PRoNTo's choice.

| symbol | variable | shape |
|---|---|---|
| mean | `mean` | (m, C) |
| Σ | `covariance` | (m, C, C) |
| u_s, w_s | `points`, `weights` | (S, D), (S,) |

Reference: Rasmussen & Williams 2006, Alg. 3.4; A. B. Owen, J. Complexity 14 (1998) 466-489
(scrambling).
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit, ndtr, ndtri, roots_hermitenorm, softmax
from scipy.stats import qmc

from voxprior.errors import InputError, option

# Gauss-Hermite spends most nodes where the normal density is nil: many are taken and those dropped.
HERMITE_NODES = 128
NEGLIGIBLE_WEIGHT = 1e-11
CHUNK_ELEMENTS = 2**22
# The spread of a mean of so many draws is below 0.0005; more of them would fill the memory.
MOST_DRAWS = 2**20
MOST_NUMBERS = 2**22


class Rule(NamedTuple):
    """Points and weights of a standard normal average, and whether they live on differences."""

    points: np.ndarray
    weights: np.ndarray
    differences: bool


def hermite_rule() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of a standard normal average in one dimension."""
    nodes, weights = roots_hermitenorm(HERMITE_NODES)
    keep = weights > NEGLIGIBLE_WEIGHT * weights.max()
    return nodes[keep], weights[keep] / weights[keep].sum()


def quadrature_rule(n_classes: int) -> Rule:
    """Product Gauss-Hermite over the C − 1 differences to the last class (2 or 3 classes)."""
    nodes, weights = hermite_rule()
    grids = np.meshgrid(*[nodes] * (n_classes - 1), indexing="ij")
    products = np.meshgrid(*[weights] * (n_classes - 1), indexing="ij")
    points = np.stack([grid.ravel() for grid in grids], axis=1)
    total = np.prod([product.ravel() for product in products], axis=0)
    keep = total > NEGLIGIBLE_WEIGHT * total.max()
    return Rule(points[keep], total[keep] / total[keep].sum(), True)


def sobol_rule(n_classes: int, n_draws: int, seed: int) -> Rule:
    """Scrambled Sobol points as normal draws; their number is raised to a power of two."""
    exponent = int(np.ceil(np.log2(max(n_draws, 2))))
    uniform = qmc.Sobol(n_classes, scramble=True, seed=seed).random_base2(exponent)
    # A point on the edge of the cube would be an infinite draw.
    points = ndtri(np.clip(uniform, 2.0**-32, 1.0 - 2.0**-32))
    return Rule(points, np.full(len(points), 1.0 / len(points)), False)


def random_rule(n_classes: int, n_draws: int, seed: int) -> Rule:
    """Plain Monte Carlo draws."""
    points = np.random.default_rng(seed).standard_normal((n_draws, n_classes))
    return Rule(points, np.full(n_draws, 1.0 / n_draws), False)


def check_rule(name: str, n_classes: int, n_draws: int) -> None:
    """Refuse a rule of too many points; saved models are checked again, as files may be forged."""
    if name == "quadrature" and n_classes > 3:
        raise InputError(
            f"{option('averaging', 'quadrature')} does not reach this far",
            expected="up to 3 classes",
            got=str(n_classes),
            remedy=f"Set {option('averaging', 'sobol')}",
        )
    most = min(MOST_DRAWS, MOST_NUMBERS // n_classes)
    if n_draws > most:
        raise InputError(
            f"{option('n_draws', n_draws)} is too many",
            expected=f"up to {most:,} with {n_classes} classes",
        )


def choose_rule(name: str, n_classes: int, n_draws: int, seed: int) -> Rule:
    """The rule called `name`; "auto" is quadrature for up to three classes, Sobol beyond."""
    check_rule(name, n_classes, n_draws)
    if name == "quadrature" or (name == "auto" and n_classes <= 3):
        return quadrature_rule(n_classes)
    if name == "random":
        return random_rule(n_classes, n_draws, seed)
    return sobol_rule(n_classes, n_draws, seed)


def average_softmax(mean: np.ndarray, covariance: np.ndarray, rule: Rule) -> np.ndarray:
    """Class probabilities (m, C), rows summing to 1.

    Examples
    --------
    >>> import numpy as np
    >>> average_softmax(np.zeros((1, 3)), np.eye(3)[None], quadrature_rule(3)).round(6)
    array([[0.333333, 0.333333, 0.333333]])
    """
    if rule.differences:
        mean, covariance = _differences(mean, covariance)
    values, vectors = np.linalg.eigh(covariance)
    # The symmetric root exists for semi-definite covariances too.
    root = np.einsum("mij,mj,mkj->mik", vectors, np.sqrt(np.maximum(values, 0.0)), vectors)
    n_classes = mean.shape[1] + int(rule.differences)
    out = np.empty((len(mean), n_classes))
    step = max(1, CHUNK_ELEMENTS // (len(rule.points) * n_classes))
    for start in range(0, len(mean), step):
        part = slice(start, start + step)
        draws = mean[part, None, :] + np.einsum("sj,mij->msi", rule.points, root[part])
        if rule.differences:
            draws = np.concatenate([draws, np.zeros((*draws.shape[:2], 1))], axis=2)
        out[part] = np.einsum("msc,s->mc", softmax(draws, axis=2), rule.weights)
    return out / out.sum(axis=1, keepdims=True)


def _differences(mean: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Moments of f^c − f^C for the first C − 1 classes: all that the softmax depends on."""
    last = covariance[:, :-1, -1]
    moved = covariance[:, :-1, :-1] - last[:, :, None] - last[:, None, :]
    return mean[:, :-1] - mean[:, -1:], moved + covariance[:, -1:, -1:]


def probability(mean: np.ndarray, variance: np.ndarray, likelihood: str) -> np.ndarray:
    """p(y = +1) averaged over N(mean, variance): exact for probit, Gauss-Hermite for logistic.

    Examples
    --------
    >>> import numpy as np
    >>> probability(np.array([0.097588]), np.array([0.941506]), "logistic").round(6)
    array([0.520335])
    """
    if likelihood == "probit":
        return ndtr(mean / np.sqrt(1.0 + variance))
    nodes, weights = hermite_rule()
    points = mean[:, None] + np.sqrt(variance)[:, None] * nodes
    return np.einsum("ms,s->m", expit(points), weights)


def class_probabilities(mean: np.ndarray, variance: np.ndarray, likelihood: str) -> np.ndarray:
    """Probabilities (m, 2) of one latent function (m,), or (m, C) of C against the rest (m, C)."""
    if mean.ndim == 1:
        # The two tails are computed apart, so that neither loses digits near certainty.
        return np.stack([probability(s * mean, variance, likelihood) for s in (-1, 1)], axis=1)
    each = [probability(m, v, likelihood) for m, v in zip(mean.T, variance.T)]
    p = np.maximum(np.array(each).T, np.finfo(float).tiny)
    return p / p.sum(axis=1, keepdims=True)
