"""How far to trust a prior where no training scan has been: the variance beyond their span.

    k_** = inside + ρ · beyond        inside = part of a scan within the span of the training scans

With voxels ≫ scans a new scan lies mostly beyond the span. An isotropic prior of the weights
(ρ = 1) then blurs every probability, and ρ = 0 may be too sure. ρ is chosen by leaving each
training scan out, for which the Gaussian posterior has a closed form:

    σ²₋ = 1/(1/Σ_ii − ω_i),   μ₋ = f_i − σ²₋ a_i            cavity: f_i given all other labels
    beyond_i = 1/[K⁻¹]_ii                                   prior variance of f_i given all other f
    ρ = argmax Σ_i log p(y_i | μ₋, σ²₋ − (1 − ρ) beyond_i)    normalised over classes

Where scans lie in the span of the others (centred within runs) nothing depends on ρ, and it is 0.

==========  ==================  ========
symbol      variable            shape
==========  ==================  ========
Σ_ii        variance            (n,)
μ₋, σ²₋     mean, cavity        (n,)
ρ           share               scalar
==========  ==================  ========

Reference: Rasmussen & Williams 2006, section 5.4.2 (leave-one-out) and eq. 3.56 (cavity).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from voxprior.models.gaussian.averaging import class_probabilities
from voxprior.models.gaussian.binary import BinaryPosterior, site_matrix

# Shares tried, denser near 0 where probabilities change fastest.
SHARES = np.linspace(0.0, 1.0, 21) ** 2


class LeftOut(NamedTuple):
    """Moments of every training latent value given the labels of all others."""

    mean: np.ndarray
    variance: np.ndarray
    beyond: np.ndarray


def left_out(posterior: BinaryPosterior, K: np.ndarray) -> LeftOut:
    """Leave-one-out moments from one posterior; no refit.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.models.gaussian.ep import expectation_propagation
    >>> posterior, _ = expectation_propagation(np.eye(2), np.array([1.0, -1.0]))
    >>> left_out(posterior, np.eye(2)).mean.round(6) + 0.0
    array([0., 0.])
    """
    K_R = K @ site_matrix(posterior)
    variance = np.maximum(np.diag(K) - np.einsum("ij,ij->i", K_R, K), np.finfo(float).tiny)
    cavity = 1.0 / np.maximum(1.0 / variance - posterior.root**2, np.finfo(float).tiny)
    # A scan within the span of the others has no variance left; this keeps the inverse finite.
    small = 1e-9 * float(np.mean(np.diag(K))) + np.finfo(float).tiny
    inverse = np.linalg.inv(K + small * np.eye(len(K)))
    beyond = np.maximum(1.0 / np.diag(inverse) - small, 0.0)
    return LeftOut(posterior.f - cavity * posterior.a, cavity, beyond)


def share_beyond(outs: Sequence[LeftOut], codes: np.ndarray, likelihood: str) -> float:
    """ρ of the highest leave-one-out log-likelihood; the smallest of equals.

    One problem for two classes, or one a class against the rest; all have the same ρ, because
    blurring them unequally would change which class is the most probable.
    """
    mean, variance, beyond = (np.stack(parts, axis=1) for parts in zip(*outs))
    if len(outs) == 1:
        mean, variance, beyond = mean[:, 0], variance[:, 0], beyond[:, 0]
    scans, values = np.arange(len(codes)), []
    for share in SHARES:
        blurred = np.maximum(variance - (1.0 - share) * beyond, 0.0)
        p = class_probabilities(mean, blurred, likelihood)[scans, codes]
        values.append(np.log(np.maximum(p, np.finfo(float).tiny)).sum())
    good = np.array(values) >= max(values) - 1e-6
    return float(SHARES[np.argmax(good)])
