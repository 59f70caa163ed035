"""Mixtures of Student distributions: density, distribution function, quantiles and moments.

    p(y) = Σ_k w_k St(y; μ_k, σ_k², ν)        one mixture per scan, the same weights for all

Quantiles are found by Newton's step inside a bracket that each evaluation narrows, from the
quantile of one Student distribution with the mixture's centre and spread. Each scan stops by
itself, so that it has the same quantiles alone as among others.

| symbol | variable | shape |
|---|---|---|
| μ | `location` | (n_new, M) |
| σ | `scale` | (n_new, M) |
| w | `weight` | (M,) |
| ν | `nu` | scalar |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp, stdtr, stdtrit

MOST_STEPS = 100
# A quantile is found when a step is this small, in units of the mean scale (or all rounding).
STEP, ROUNDING = 1e-13, 4 * np.finfo(float).eps


class StudentMixture(NamedTuple):
    """A Student mixture for each of several scans."""

    location: NDArray[np.float64]
    scale: NDArray[np.float64]
    weight: NDArray[np.float64]
    nu: float

    def rows(self, which: NDArray) -> StudentMixture:
        """The mixtures of some scans."""
        return self._replace(location=self.location[which], scale=self.scale[which])


def student_log_density(z: NDArray, nu: NDArray | float) -> NDArray[np.float64]:
    """Log density of the standard Student distribution.

    Examples
    --------
    >>> student_log_density(np.array([0.0, 1.0]), 1.0).round(6)
    array([-1.14473 , -1.837877])
    """
    nu = np.asarray(nu, dtype=float)
    constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(np.pi * nu)
    return constant - 0.5 * (nu + 1) * np.log1p(np.square(z) / nu)


def log_density(mixture: StudentMixture, y: NDArray) -> NDArray[np.float64]:
    """Log density at y (n_new,).

    Examples
    --------
    >>> one = StudentMixture(np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]]), np.full(2, 0.5), 1.0)
    >>> log_density(one, np.array([1.0])).round(6)
    array([-1.837877])
    """
    z = (y[:, None] - mixture.location) / mixture.scale
    parts = student_log_density(z, mixture.nu) - np.log(mixture.scale)
    return logsumexp(parts, axis=1, b=mixture.weight)


def distribution(mixture: StudentMixture, y: NDArray) -> NDArray[np.float64]:
    """Probability of a value up to y (n_new,)."""
    z = (y[:, None] - mixture.location) / mixture.scale
    return stdtr(mixture.nu, z) @ mixture.weight


def mean(mixture: StudentMixture) -> NDArray[np.float64]:
    """Σ_k w_k μ_k, the mean where there is one (ν > 1), and the centre anyway."""
    return mixture.location @ mixture.weight


def standard_deviation(mixture: StudentMixture) -> NDArray[np.float64]:
    """Standard deviation; infinite where ν <= 2."""
    if mixture.nu <= 2:
        return np.full(len(mixture.location), np.inf)
    away = mixture.location - mean(mixture)[:, None]
    within = mixture.scale**2 * (mixture.nu / (mixture.nu - 2))
    return np.sqrt((within + away**2) @ mixture.weight)


def quantile(mixture: StudentMixture, q: float) -> NDArray[np.float64]:
    """The value (n_new,) that a share q of the mixture lies below.

    Examples
    --------
    >>> two = StudentMixture(np.array([[-1.0, 1.0]]), np.ones((1, 2)), np.full(2, 0.5), 5.0)
    >>> abs(quantile(two, 0.5)).round(9) + 0.0
    array([0.])
    >>> distribution(two, quantile(two, 0.9)).round(9)
    array([0.9])
    """
    parts = mixture.location + mixture.scale * stdtrit(mixture.nu, q)
    low, high = parts.min(axis=1), parts.max(axis=1)
    spread = mixture.scale @ mixture.weight
    found = np.clip(mean(mixture) + spread * stdtrit(mixture.nu, q), low, high)
    open_rows = np.flatnonzero(high > low)
    for _ in range(MOST_STEPS):
        if len(open_rows) == 0:
            break
        rest, at = mixture.rows(open_rows), found[open_rows]
        excess = distribution(rest, at) - q
        low[open_rows] = np.where(excess < 0, at, low[open_rows])
        high[open_rows] = np.where(excess > 0, at, high[open_rows])
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            step = at - excess / np.exp(log_density(rest, at))
        inside = (step > low[open_rows]) & (step < high[open_rows])
        step = np.where(inside, step, (low[open_rows] + high[open_rows]) / 2)
        found[open_rows] = np.where(excess == 0, at, step)
        moved = np.abs(found[open_rows] - at)
        open_rows = open_rows[moved > STEP * spread[open_rows] + ROUNDING * np.abs(at)]
    return found
