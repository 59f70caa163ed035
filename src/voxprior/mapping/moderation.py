"""A prior on the variances of voxels, from all of them: few scans hardly determine that of one.

With k degrees of freedom, S_v / σ²_v is χ²_k and the σ²_v vary over voxels as d0 s0 / χ²_{d0}. The
moments of log S_v give (d0, s0), see `voxprior.algebra.inverse_chi2_prior`; d0 = ∞ where voxels
differ no more than chance. The moderated t is

    t~ = D / sqrt((d0 s0 + df s²) / (d0 + df)),   df s² = S - D²                              (1)

and with r~ = D / sqrt(S + d0 s0)

    t~ = r~ sqrt((d0 + df) / (1 - r~²))                                                       (2)

so that it is a t in which the length of a voxel is sqrt(S + d0 s0) instead of sqrt(S). S is the sum
of squares of a voxel after removing nuisance, which no exchange of labels changes: a test by
relabelling stays exact.

| symbol | variable | shape |
|---|---|---|
| S, sums of squares | `squares` | (V,) |
| k, degrees of freedom of S | `dof` | |
| d0, s0 | `Prior.dof`, `Prior.variance` | |

Reference: Smyth, "Linear models and empirical Bayes methods for assessing differential expression
in microarray experiments", Statistical Applications in Genetics and Molecular Biology 3, 2004.
"""

from __future__ import annotations

from math import isinf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from voxprior.algebra import inverse_chi2_prior

__all__ = ["NO_PRIOR", "Prior", "variance_prior"]


class Prior(NamedTuple):
    """What the variances of voxels have in common: d0 and s0."""

    dof: float
    variance: float

    def lengths(self, squares: NDArray) -> NDArray:
        """Return what D is divided by for r~ of (2); with d0 = ∞ for t~ itself."""
        if isinf(self.dof):
            return np.full(len(squares), np.sqrt(self.variance))
        return np.sqrt(squares + self.dof * self.variance)


NO_PRIOR = Prior(0.0, 0.0)


def variance_prior(squares: NDArray, dof: int) -> Prior:
    """Estimate the prior of variances; voxels that do not vary do not count.

    Examples
    --------
    >>> variance_prior(np.array([8.5, 0.15, 44.5]), 3)
    Prior(dof=0.778310918..., variance=0.33893551...)
    """
    squares = squares[squares > 0]
    if len(squares) < 2:
        return NO_PRIOR
    return Prior(*inverse_chi2_prior(squares / dof, dof))
