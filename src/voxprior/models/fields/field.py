"""The Gaussian random field of a class: how it is described, trained, and what it says of a scan.

Every node is predicted by all others of the scan, G_i, in every class θ:

    x_i = β_iᵀ G_i + b_i + w,   w ~ N(0, σ_i)                                       (1.12)
    log p(x|θ) = Σ_i log N(x_i; β_iᵀ G_i + b_i, σ_i) − log Z_θ                      (1.4), (1.17)
    Z_θ = ∫ Π_i N(x_i; β_iᵀ G_i + b_i, σ_i) dx = 1 / |det(I − B_θ)|

The product of conditionals of a linear-Gaussian field is a Gaussian in (I − B)x, so the constant
that in general "rarely can be computed" is one determinant. σ_i is a variance, and its factor
(2πσ_i)^(−1/2), hidden in the "∝" of (1.17), depends on the class; it is included unless
``normalize`` is false.

Over nodes the log-likelihood ratio is a sum of n terms. If nodes were alike and independent,

    (1/n) log l → +KL(p_0‖p_1) for a scan of class 0,  −KL(p_1‖p_0) for one of class 1       (A.15)

with fluctuations of order n^(−1/2). (The report prints (A.16) with both signs reversed, against its
own (A.14).)

| symbol | variable | shape |
|---|---|---|
| x, scans at the nodes | `X` | (m, n) |
| B_θ, row i predicts node i, zero diagonal | `coef` | (n, n) |
| b, intercepts | `intercept` | (n,) |
| σ, residual variances of one class | `noise` | (n,) |
| γ, prior precision of the coefficients | `gamma` | scalar |
| R_ε, noise of a pseudo-measurement | `r_eps` | scalar |
| N_τ, number of pseudo-measurements | `n_pseudo` | scalar |
| ρ = n/(γ R_ε), dimensionless strength | `rho` | scalar |

References
----------
A. Carmi, G. Cecchi, D. Kanevsky, B. Ramabhadran and I. Rish. Classification via compressed random
fields. IBM Research Report, 2009. Sections 1.2 and A.3.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import lu_factor

from voxprior.errors import InputError, option


class Field(NamedTuple):
    """A field of one class: coefficients (n, n), intercepts (n,), residuals of its scans (k, n)."""

    coef: np.ndarray
    intercept: np.ndarray
    residual: np.ndarray


class Fields(NamedTuple):
    """The fields of all classes: coefficients (C, n, n), intercepts (C, n), variances (C, n)."""

    coef: np.ndarray
    intercept: np.ndarray
    noise: np.ndarray


class Training(NamedTuple):
    """How fields are trained; ``r_eps=inf`` or ``n_pseudo=0`` is the plain Kalman filter.

    `RandomFieldClassifier` says what each setting means; `block_of` (n,) is the block of each node
    (None: a block of its own), `memory` bounds the bytes of work arrays.
    """

    gamma: float = 10.0
    r_eps: float = np.inf
    n_pseudo: int = 40
    mode: str = "end"
    norm: float = 1.0
    bias: str | None = "centered"
    variance: str = "auto"
    variance_scope: str = "shared"
    variance_floor: float = 1e-4
    solver: str = "auto"
    transition: float = 1.0
    drift: float = 0.0
    block_of: np.ndarray | None = None
    memory: int = 1 << 28

    @property
    def plain(self) -> bool:
        """Whether nothing is compressed."""
        return self.n_pseudo == 0 or not np.isfinite(self.r_eps)

    @property
    def after_each(self) -> bool:
        """Whether pseudo-measurements follow every scan."""
        return self.mode == "each" and not self.plain

    @property
    def propagates(self) -> bool:
        """Whether coefficients move in time between scans."""
        return self.transition != 1.0 or self.drift > 0.0

    @property
    def variance_kind(self) -> str:
        """``auto`` is leave-one-out for plain fields, whose residuals vanish, else (1.22)."""
        closed_form = self.plain and not self.propagates
        if self.variance == "loo" and not closed_form:
            raise InputError(
                f"{option('variance', 'loo')} has a closed form for plain fields only, because "
                "leaving a scan out changes the signs of a compressed one and the time of later "
                "scans in one that moves",
                remedy=f"Set {option('variance', 'residual')} or {option('variance', 'innovation')}"
                f", or {option('compression', None)}, {option('transition', 1)} and "
                f"{option('drift', 0)}",
            )
        if self.variance == "auto":
            return "loo" if closed_form else "residual"
        return self.variance

    def with_strength(self, gamma: float, rho: float, n_pseudo: int, n_nodes: int) -> Training:
        """The same at strength ρ = n/(γ R_ε); ρ = 0 is the plain filter."""
        r_eps = noise_from_strength(rho, n_nodes, gamma) if rho > 0 and n_pseudo > 0 else np.inf
        return self._replace(gamma=gamma, r_eps=r_eps, n_pseudo=n_pseudo)


class Trajectory(NamedTuple):
    """Running mean over nodes of log l (m, n), and the value (m,) it has in expectation."""

    running_mean: np.ndarray
    limit: np.ndarray


def noise_from_strength(rho: float, n_nodes: int, gamma: float) -> float:
    """R_ε of the dimensionless strength ρ = n/(γ R_ε)."""
    return n_nodes / (gamma * rho)


def residual_variance(residual: np.ndarray) -> np.ndarray:
    """(1.22): summed squared residuals of the final coefficients over k − 1, no mean subtracted."""
    return (residual**2).sum(axis=0) / (len(residual) - 1)


def node_log_likelihood(X, coef, intercept, noise, normalize: bool = True) -> np.ndarray:
    """Log p(x_i | G_i, θ) of every scan and node, (m, n)."""
    error = X - X @ coef.T - intercept
    log_p = -0.5 * error**2 / noise
    return log_p - 0.5 * np.log(2 * np.pi * noise) if normalize else log_p


def log_likelihood(X, coef, intercept, noise, normalize: bool = True) -> np.ndarray:
    """Log pseudo-likelihood of every scan under the field of one class, without log Z.

    Examples
    --------
    >>> import numpy as np
    >>> B = np.array([[0, .641392, .145673], [.645738, 0, -.133919], [.278035, -.253880, 0]])
    >>> noise = np.array([1.177306, 1.185532, 2.300119])
    >>> log_likelihood(np.ones((1, 3)), B, np.zeros(3), noise).round(4)
    array([-3.6668])
    """
    return node_log_likelihood(X, coef, intercept, noise, normalize).sum(axis=1)


def class_scores(Z: np.ndarray, fields: Fields, normalize: bool = True) -> np.ndarray:
    """Log pseudo-likelihoods (m, C) of scans at the nodes under every class, without log Z."""
    columns = [log_likelihood(Z, *parts, normalize) for parts in zip(*fields, strict=True)]
    return np.stack(columns, axis=1)


def log_partition(coef: np.ndarray) -> float:
    """Log Z = −log|det(I − B)|; one work copy of B is made.

    Examples
    --------
    >>> import numpy as np
    >>> float(np.exp(log_partition(np.array([[0, 0.5], [0.4, 0]]))).round(6))
    1.25
    """
    work = -np.asarray(coef, dtype=float, order="C")
    work[np.diag_indices_from(work)] += 1.0
    # The transpose is in Fortran order, so LAPACK works in place; the determinant is the same.
    factor, _ = lu_factor(work.T, overwrite_a=True, check_finite=False)
    size = np.abs(np.diagonal(factor))
    if not size.min() > 0:
        raise InputError(
            "The partition function is infinite: I - B is singular",
            remedy=f"Set {option('threshold', 'tuned')} or {option('threshold', 'zero')}, or a "
            f"larger {option('gamma')}",
        )
    return float(-np.log(size).sum())


def log_partitions(fields: Fields) -> np.ndarray:
    """Return log Z_θ of every class (C,)."""
    return np.array([log_partition(coef) for coef in fields.coef])


def ratio_trajectory(X: np.ndarray, fields: Fields, own: int = 0) -> Trajectory:
    """Log-likelihood ratio of two classes as nodes are added, with its limit (A.13)-(A.18).

    Parameters
    ----------
    X : ndarray of shape (m, n)
        Scans at the nodes.
    fields : Fields
        The fields of classes 0 and 1.
    own : {0, 1}
        The true class of the scans, which gives the limit its sign.

    Returns
    -------
    Trajectory
        ``running_mean`` (m, n): (1/i) Σ of the first i terms of log p_0 − log p_1; ``limit`` (m,):
        the mean over nodes of ±KL between the two conditionals given the scan's other nodes.
    """
    coef, intercept, noise = fields
    terms = [node_log_likelihood(X, coef[c], intercept[c], noise[c]) for c in (0, 1)]
    running = np.cumsum(terms[0] - terms[1], axis=1) / np.arange(1, X.shape[1] + 1)
    other = 1 - own
    gap = X @ (coef[0] - coef[1]).T + intercept[0] - intercept[1]
    ratio = noise[own] / noise[other]
    divergence = 0.5 * (ratio - 1.0 - np.log(ratio) + gap**2 / noise[other])
    return Trajectory(running, (1.0 if own == 0 else -1.0) * divergence.mean(axis=1))


def count_connections(coef: np.ndarray, tolerance: float = 0.05) -> np.ndarray:
    """Number of nodes that predict each node, (..., n), from coefficients (..., n, n).

    A connection i ← j counts when |β_ij| exceeds the tolerance: compressed coefficients are small
    but never exactly zero. On standardised nodes 0.05 is a twentieth of a standard deviation per
    standard deviation.

    Examples
    --------
    >>> import numpy as np
    >>> count_connections(np.array([[0, 0.5, 0.01], [0.2, 0, -0.3], [0, 0, 0]]))
    array([1, 2, 0])
    """
    return (np.abs(coef) > tolerance).sum(axis=-1)


def field_maps(coef: np.ndarray) -> dict[str, np.ndarray]:
    """What fields (C, n, n) show at their nodes, (n,) each; `RandomFieldClassifier.voxel_maps`."""
    return {
        "selected": np.ones(coef.shape[1]),
        "degree": np.mean([count_connections(B) for B in coef], axis=0),
        "strength": np.mean([np.abs(B).sum(axis=1) for B in coef], axis=0),
        "difference": np.abs(coef[0] - coef[-1]).sum(axis=1),
    }
