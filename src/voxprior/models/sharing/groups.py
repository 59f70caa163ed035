"""Groups of voxels that are learned from the training scans, without their labels.

The paper ends with two wishes: groups that are determined automatically, and a metric between
features that is learned from the data. Both rest on how alike two voxels were. With the training
scans joined to one course of n T values per voxel, centred and of length 1,

    r_vk = Σ_s z_sv z_sk                                              correlation of v and k

    correlated   G_v = the k voxels of highest r_v· > 0, wherever they are
    metric       G_v = the neighbours of v, each with the weight max(r_vk, 0)²

A voxel that never varies has no direction: it is in no group and has none.

| symbol | variable | shape |
|---|---|---|
| X, training scans, time-major | `scans` | (n, T V) |
| z, standardised courses | `Z` | (n T, V) |
| r, correlations | `R` | (block, V) |
| G, row v has the weights of the voxels that inform v | returned | (V, V) CSR |

Reference: M. Palatucci, T. M. Mitchell, "Classification in very high dimensional problems with
handfuls of examples", ECML/PKDD 2007, section 7.
"""

import numpy as np
from scipy import sparse

from voxprior.errors import InputError, option

LEARNED = ("correlated", "metric")
# Correlations that are held at once.
_BLOCK = 2**24


def learned_groups(
    means: str, scans: np.ndarray, neighbors: sparse.csr_array, size: int = 26
) -> sparse.csr_array:
    """The groups G of ``means="correlated"`` or ``"metric"``.

    Parameters
    ----------
    means : {"correlated", "metric"}
        The rule.
    scans : array of shape (n, T V)
        Training scans.
    neighbors : sparse array of shape (V, V)
        Which voxels are neighbours; V is the number of its rows.
    size : int
        k, members of a group of the most correlated.

    Examples
    --------
    Voxels 0 and 2 rise together, voxel 1 falls, voxel 3 never varies:

    >>> import numpy as np
    >>> from scipy import sparse
    >>> X = np.array([[0.0, 2, 1, 5], [1, 1, 2, 5], [2, 0, 4, 5]])
    >>> chain = sparse.csr_array(np.eye(4, k=1) + np.eye(4, k=-1))
    >>> learned_groups("correlated", X, chain, size=1).toarray().astype(int)
    array([[0, 0, 1, 0],
           [0, 0, 0, 0],
           [1, 0, 0, 0],
           [0, 0, 0, 0]])
    >>> learned_groups("metric", X, chain).nnz
    0
    """
    Z = _standardised(scans, neighbors.shape[0])
    return _most_correlated(Z, size) if means == "correlated" else _weighted_neighbors(Z, neighbors)


def check_learnable(means: object, space: object) -> None:
    """Refuse a metric between neighbours where no voxel has neighbours."""
    if isinstance(means, str) and means == "metric" and space is None:
        raise InputError(
            f"{option('means', 'metric')} weighs neighbours, and there are none without a "
            f"{option('space')}",
            remedy=f"Give the {option('space')}, or use {option('means', 'correlated')}",
        )


def needs_scans(means: object) -> bool:
    """Whether groups are learned from the scans themselves; class statistics will not do.

    >>> needs_scans("metric"), needs_scans("neighbors")
    (True, False)
    """
    return isinstance(means, str) and means in LEARNED


def refuse_without_scans(means: object) -> None:
    """Refuse to learn groups where only class statistics are kept."""
    if needs_scans(means):
        raise InputError(
            f"{option('means', means)} learns groups from all training scans at once",
            remedy=f"Call fit, or give groups as a matrix of weights in {option('means')}",
        )


def _standardised(scans: np.ndarray, V: int) -> np.ndarray:
    """Z (n T, V): columns of mean 0 and length 1; 0 where a voxel never varies."""
    Z = np.asarray(scans, dtype=float).reshape(-1, V)
    spread = np.ptp(Z, axis=0)
    Z = Z - Z.mean(axis=0)
    length = np.sqrt(np.einsum("sv,sv->v", Z, Z))
    # What rounding leaves of a constant is no direction.
    constant = (spread == 0) | (length == 0)
    return np.where(constant, 0.0, Z / np.where(constant, 1.0, length))


def _most_correlated(Z: np.ndarray, k: int) -> sparse.csr_array:
    """The k best of every row, some rows at a time; ties go to the voxel of lower number."""
    V = Z.shape[1]
    k = min(k, V - 1)
    if k < 1:
        return sparse.csr_array((V, V))
    rows, columns, first = [], [], np.linspace(0, 4e-10, V)
    for start in range(0, V, max(_BLOCK // V, 1)):
        R = Z[:, start : start + max(_BLOCK // V, 1)].T @ Z
        own = np.arange(len(R))
        R[own, start + own] = -np.inf
        # Equal up to rounding is equal: which voxel is meant must not depend on the last bit.
        order = np.round(R, 9) - first
        best = np.argpartition(-order, k - 1, axis=1)[:, :k]
        positive = np.take_along_axis(R, best, axis=1) > 1e-9
        rows.append(np.repeat(start + own, k).reshape(-1, k)[positive])
        columns.append(best[positive])
    where = np.concatenate(rows), np.concatenate(columns)
    return sparse.csr_array((np.ones(where[0].size), where), shape=(V, V))


def _weighted_neighbors(Z: np.ndarray, neighbors: sparse.csr_array) -> sparse.csr_array:
    graph = sparse.coo_array(neighbors)
    row, column = graph.coords
    r = np.einsum("se,se->e", Z[:, row], Z[:, column])
    weighted = sparse.csr_array((np.maximum(r, 0.0) ** 2, (row, column)), shape=neighbors.shape)
    weighted.eliminate_zeros()
    return weighted
