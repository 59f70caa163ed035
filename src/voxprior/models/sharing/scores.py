"""Log joint probabilities of a Gaussian naive Bayes model, in one pass over the scans.

    s_ic = log P(c) + Σ_j log N(x_ij; θ̂_j^(c), σ̂_j²^(c))                                 (1)

The differences x − θ̂ are formed before they are squared, so nothing cancels whatever the offset
of the data, and no array of the size of X is made. Each scan is summed block of features by block
of features in a fixed order: its score has the same bits alone as in any batch.

========= ================ ========= =======================================
symbol    variable         shape     meaning
========= ================ ========= =======================================
x         ``X``            (n, J)    scans
θ̂, σ̂²     ``theta``, ``var``  (C, J)  class means and variances
log P     ``log_prior``    (C,)
s         ``total``        (n, C)    log joint probabilities
========= ================ ========= =======================================

Reference: M. Palatucci, T. M. Mitchell, ECML/PKDD 2007, equation (1).
"""

import numpy as np
from numba import njit, prange

from voxprior.algebra import launch

_BLOCK = 1024


def log_joint(
    X: np.ndarray, theta: np.ndarray, var: np.ndarray, log_prior: np.ndarray
) -> np.ndarray:
    """Equation (1) in the log domain: an array (n, C).

    Examples
    --------
    >>> import numpy as np
    >>> X, theta = np.array([[1.0, 1.0]]), np.array([[1.0, 1.0], [0.0, 1.0]])
    >>> log_joint(X, theta, np.ones((2, 2)), np.log([0.5, 0.5])).round(4)
    array([[-2.531, -3.031]])
    """
    blocks = -(-theta.shape[1] // _BLOCK)
    distance = np.empty((blocks, len(X), len(theta)))
    log_volume = np.empty((blocks, len(theta)))
    work = 2 * (len(X) + 1) * theta.size
    launch(_block_scores, work, X, theta, var, distance, log_volume)
    constant = log_prior - 0.5 * (theta.shape[1] * np.log(2 * np.pi) + log_volume.sum(axis=0))
    return constant - 0.5 * distance.sum(axis=0)


@njit(cache=True, parallel=True, fastmath={"reassoc", "contract", "nsz"})
def _block_scores(X, theta, var, distance, log_volume):
    """Per block of features: Mahalanobis distances (blocks, n, C), log-determinants (blocks, C)."""
    n, J = X.shape
    C = theta.shape[0]
    for block in prange(distance.shape[0]):
        start = block * _BLOCK
        width = min(J, start + _BLOCK) - start
        precision = np.empty((C, width))
        for c in range(C):
            volume = 0.0
            for j in range(width):
                precision[c, j] = 1.0 / var[c, start + j]
                volume += np.log(var[c, start + j])
            log_volume[block, c] = volume
        for i in range(n):
            row = X[i, start : start + width]
            for c in range(C):
                # Slices: an index that starts at 0 needs no wrap-around test and vectorises.
                centre, weight = theta[c, start : start + width], precision[c]
                total = 0.0
                for j in range(width):
                    miss = row[j] - centre[j]
                    total += miss * miss * weight[j]
                distance[block, i, c] = total
