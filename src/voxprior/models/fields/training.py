"""From scans at chosen nodes to the fields of all classes: coefficients and noise.

======  ===========  ==========  ==================================================
symbol  variable     shape       meaning
======  ===========  ==========  ==================================================
X       Z            (k, n)      scans of all classes at the nodes, standardised
θ       codes        (k,)        class of each scan, 0 .. C−1
B_θ     coef         (C, n, n)   row i predicts node i
b_θ     intercept    (C, n)
σ_θ     noise        (C, n)      residual variances
======  ===========  ==========  ==================================================

Reference: A. Carmi, G. Cecchi, D. Kanevsky, B. Ramabhadran and I. Rish. Classification via
compressed random fields. IBM Research Report, 2009.
"""

from typing import NamedTuple

import numpy as np

from voxprior.models.fields.compression import compress_field, noise_from_strength
from voxprior.models.fields.dual import (
    Field,
    dual_system,
    innovation_variance,
    left_out_residuals,
    solve_field,
)
from voxprior.models.fields.likelihood import log_likelihood, log_partition, residual_variance
from voxprior.models.fields.online import Schedule, filter_scans


class Recipe(NamedTuple):
    """How a field is trained; ``r_eps=inf`` or ``n_pseudo=0`` is the plain Kalman filter."""

    gamma: float = 10.0
    r_eps: float = np.inf
    n_pseudo: int = 40
    mode: str = "end"
    norm: float = 1.0
    bias: str | None = "centered"
    variance: str = "auto"
    variance_scope: str = "shared"
    variance_floor: float = 1e-4
    normalize: bool = True
    memory: int = 1 << 28

    @property
    def plain(self) -> bool:
        """Whether there is no compression at all."""
        return self.n_pseudo == 0 or not np.isfinite(self.r_eps)

    @property
    def schedule(self) -> Schedule:
        """The same for the filter that works scan by scan."""
        n_pseudo = 0 if self.plain else self.n_pseudo
        return Schedule(self.gamma, self.bias, self.r_eps, n_pseudo, self.mode == "each", self.norm)

    def with_strength(self, gamma: float, rho: float, n_pseudo: int, n_nodes: int) -> "Recipe":
        """The recipe at strength ρ = n/(γ R_ε)."""
        r_eps = noise_from_strength(rho, n_nodes, gamma) if rho > 0 and n_pseudo > 0 else np.inf
        return self._replace(gamma=gamma, r_eps=r_eps, n_pseudo=n_pseudo)


class Fields(NamedTuple):
    """The trained fields of all classes."""

    coef: np.ndarray
    intercept: np.ndarray
    noise: np.ndarray


def train_fields(Z: np.ndarray, codes: np.ndarray, recipe: Recipe) -> Fields:
    """Train the fields of all classes.

    Parameters
    ----------
    Z : ndarray of shape (k, n)
        Scans at the nodes.
    codes : ndarray of shape (k,)
        Class of each scan, 0 .. C−1, at least two of each.
    recipe : Recipe
        Prior, compression, bias and noise.
    """
    n_classes, n = int(codes.max()) + 1, Z.shape[1]
    coef, intercept = np.empty((n_classes, n, n)), np.empty((n_classes, n))
    variance = np.empty((n_classes, n))
    for c in range(n_classes):
        field, variance[c] = train_class(Z[codes == c], recipe)
        coef[c], intercept[c] = field.coef, field.intercept
    counts = np.bincount(codes, minlength=n_classes)
    return Fields(coef, intercept, settle_noise(variance, counts, Z.var(axis=0), recipe))


def train_class(X: np.ndarray, recipe: Recipe) -> tuple[Field, np.ndarray]:
    """The field of one class and its residual variances (n,), before scope and floor."""
    if recipe.mode == "each" and not recipe.plain:
        field, innovation = filter_scans(X, recipe.schedule)
        kind = noise_kind(recipe)
        return field, innovation if kind == "innovation" else residual_variance(field.residual)
    system = dual_system(X, recipe.gamma, recipe.bias)
    if recipe.plain:
        field = solve_field(system)
    else:
        field = compress_field(system, recipe.r_eps, recipe.n_pseudo, recipe.norm, recipe.memory)
    kind = noise_kind(recipe)
    if kind == "loo":
        return field, (left_out_residuals(system) ** 2).mean(axis=0)
    if kind == "innovation":
        return field, innovation_variance(system)
    return field, residual_variance(field.residual)


def noise_kind(recipe: Recipe) -> str:
    """``auto`` is leave-one-out for plain fields, whose residuals vanish, else (1.22)."""
    if recipe.variance == "loo" and not recipe.plain:
        raise ValueError(
            "variance='loo' has a closed form for plain fields only, because leaving a scan out "
            "changes the signs of a compressed one. Use 'residual' or 'innovation', or "
            "compression=None."
        )
    if recipe.variance == "auto":
        return "loo" if recipe.plain else "residual"
    return recipe.variance


def settle_noise(variance, counts, total_variance, recipe: Recipe) -> np.ndarray:
    """Average over classes if shared, and keep every variance above the floor.

    The floor is a part of the node's variance over all scans (of 1 where that is zero, a constant
    node).
    """
    if recipe.variance_scope == "shared":
        shared = (counts[:, None] * variance).sum(axis=0) / counts.sum()
        variance = np.broadcast_to(shared, variance.shape)
    scale = np.where(total_variance > 0, total_variance, 1.0)
    return np.maximum(variance, recipe.variance_floor * scale)


def class_scores(Z: np.ndarray, fields: Fields, normalize: bool = True) -> np.ndarray:
    """Log pseudo-likelihoods (m, C) without log Z."""
    columns = [log_likelihood(Z, *parts, normalize) for parts in zip(*fields, strict=True)]
    return np.stack(columns, axis=1)


def log_partitions(fields: Fields) -> np.ndarray:
    """Return log Z_θ of every class (C,)."""
    return np.array([log_partition(coef) for coef in fields.coef])
