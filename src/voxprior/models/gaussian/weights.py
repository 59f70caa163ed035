"""Voxel maps of a linear-kernel model: weights, their posterior deviation, and Haufe's pattern.

    f(x) = xᵀw,  w ~ N(0, diag ω)        the weight-space view of K = X diag(ω) Xᵀ
    E[w | y] = ω ∘ Xᵀa
    Var[w_j | y] = ω_j − ω_j² x_jᵀ R x_j      x_j = column j of the centred X, R = (K + W⁻¹)⁻¹
    pattern = cov(X, f) cov(f)⁺               what a voxel does when f rises by one

One pass over the voxels; nothing of size p x p, and nothing of size n x p beyond one block, is
formed.

==========  ==================  ==========
symbol      variable            shape
==========  ==================  ==========
a           dual                (n, C)
R           precision           (C, n, n)
ω           prior               (p,) or (C, p)
f           latent              (n, C)
==========  ==================  ==========

Reference: Rasmussen & Williams 2006, section 2.1; S. Haufe et al., NeuroImage 87 (2014) 96-110.
"""

from typing import Any, NamedTuple

import numpy as np

from voxprior.models.gaussian.gram import read_block, voxel_blocks


class WeightMaps(NamedTuple):
    """Posterior mean and deviation of the weights, and activation pattern, each (C, p)."""

    weight: np.ndarray
    deviation: np.ndarray
    pattern: np.ndarray


def weight_maps(
    X: Any,
    dual: np.ndarray,
    precision: np.ndarray,
    prior: np.ndarray,
    latent: np.ndarray,
    center: bool,
) -> WeightMaps:
    """Maps of all classes in one pass over the voxels.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> maps = weight_maps(X, np.array([[1.0], [2.0]]), np.zeros((1, 2, 2)), np.ones(2),
    ...                    np.array([[1.0], [2.0]]), center=False)
    >>> maps.weight, maps.deviation
    (array([[1., 2.]]), array([[1., 1.]]))
    """
    n, p = X.shape
    n_classes = dual.shape[1]
    prior = np.broadcast_to(prior, (n_classes, p))
    weight, deviation, pattern = (np.empty((n_classes, p)) for _ in range(3))
    centred = latent - latent.mean(axis=0)
    # Classes share one latent direction less than they are many: hence the pseudo-inverse.
    mixing = centred @ np.linalg.pinv(centred.T @ centred, hermitian=True, rcond=1e-10)
    for block in voxel_blocks(n, p):
        part = read_block(X, block)
        around_mean = part - part.mean(axis=0)
        part = around_mean if center else part
        weight[:, block] = prior[:, block] * (dual.T @ part)
        pattern[:, block] = mixing.T @ around_mean
        for c in range(n_classes):
            explained = np.einsum("ij,ij->j", part, precision[c] @ part)
            deviation[c, block] = prior[c, block] - prior[c, block] ** 2 * explained
    return WeightMaps(weight, np.sqrt(np.maximum(deviation, 0.0)), pattern)
