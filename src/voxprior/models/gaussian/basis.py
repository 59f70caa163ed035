"""The basis Φ = [X − x̄, 1] or [K, 1] of a relevance vector machine, read block by block.

==========  ==================  ========
symbol      variable            shape
==========  ==================  ========
Φ           Basis               (n, M)
v = 1/α     v                   (M,)
==========  ==================  ========

Nothing of size M x M is ever formed, and X is never copied whole: with few scans every product that
a relevance vector machine needs has an n x n, an n x (active) or an M-long result.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from voxprior.models.gaussian.gram import read_block, voxel_blocks


class Basis:
    """Columns of X (or of a kernel matrix), optionally centred, and a last column of ones.

    Parameters
    ----------
    X : array (n, m), memory map or dask array
    means : array (m,), optional
        Subtracted from the columns.
    bias : bool
        Append a column of ones.

    Examples
    --------
    >>> import numpy as np
    >>> basis = Basis(np.array([[1.0, 2.0], [3.0, 5.0]]))
    >>> basis.project(np.ones(2))
    array([4., 7., 2.])
    """

    def __init__(self, X: Any, means: np.ndarray | None = None, bias: bool = True):
        self.X, self.means, self.bias = X, means, bias
        self.n_rows = X.shape[0]
        self.n_columns = X.shape[1] + int(bias)

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Consecutive column blocks as float64."""
        for block in voxel_blocks(self.n_rows, self.X.shape[1]):
            part = read_block(self.X, block)
            yield block, part if self.means is None else part - self.means[block]
        if self.bias:
            yield slice(self.n_columns - 1, self.n_columns), np.ones((self.n_rows, 1))

    def columns(self, index: np.ndarray) -> np.ndarray:
        """Φ[:, index] as float64."""
        index = np.asarray(index, dtype=int)
        out = np.ones((self.n_rows, len(index)))
        inside = index < self.X.shape[1]
        part = np.asarray(self.X[:, index[inside]], dtype=np.float64)
        out[:, inside] = part if self.means is None else part - self.means[index[inside]]
        return out

    def project(self, u: np.ndarray) -> np.ndarray:
        """Φᵀu for a vector or a matrix u."""
        out = np.empty((self.n_columns, *u.shape[1:]))
        for block, part in self.blocks():
            out[block] = part.T @ u
        return out

    def energy(self, R: np.ndarray) -> np.ndarray:
        """Diagonal of ΦᵀRΦ for a matrix R (n, n) or a diagonal R (n,)."""
        out = np.empty(self.n_columns)
        for block, part in self.blocks():
            moved = R[:, None] * part if R.ndim == 1 else R @ part
            out[block] = np.einsum("ij,ij->j", part, moved)
        return out

    def covariance(self, v: np.ndarray) -> np.ndarray:
        """Φ diag(v) Φᵀ, reading only columns with v > 0."""
        used = np.flatnonzero(v)
        if len(used) <= 4 * self.n_rows:
            part = self.columns(used)
            return (part * v[used]) @ part.T
        total = np.zeros((self.n_rows, self.n_rows))
        for block, part in self.blocks():
            total += (part * v[block]) @ part.T
        return total
