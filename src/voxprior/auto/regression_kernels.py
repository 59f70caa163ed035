"""Kernels of a view: linear and radial, centred by the training scans and of unit mean variance.

    linear    k(x, x') = <x, x'>
    radial    k(x, x') = exp(-|x - x'|² / (2 l²)),    l² the median squared distance of two scans

    k_c(x, x_i) = k(x, x_i) - mean_j k(x, x_j) - m_i + m̄,     m_i = mean_j k(x_i, x_j), m̄ = mean m
    k_c(x, x)   = k(x, x) - 2 mean_j k(x, x_j) + m̄
    K = k_c / κ,    κ = tr(k_c) / (n - 1)

Distances come from the inner products of the view, so that a radial kernel costs nothing more. One
eigendecomposition K = U diag(d) U' serves all noise ratios and all targets.

| symbol | variable | shape |
|---|---|---|
| <x_i, x_j> of a view | `gram` | (n, n) |
| l² | `width` | scalar, 0 for the linear kernel |
| m, κ | `means`, `scale` | (n,), scalar |
| |x_i|² | `norms` | (n,) |
| U, d | `vectors`, `values` | (n, n), (n,) |
| codes of the groups, from 0 | `groups` | (n,), or None where scans stand alone |
| k_c(x, x_i) / κ, k_c(x, x) / κ | `Cross.gram`, `Cross.squared_norms` | (n_new, n), (n_new,) |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse import csr_array

from voxprior.algebra import blas_threads_for
from voxprior.auto.views import Voxels, views_of
from voxprior.models.gaussian.gram import Cross, center_cross, center_gram

SHAPES = ("linear", "radial")


class Kernel(NamedTuple):
    """A kernel of the training scans in its eigenvectors, and what new scans need of it."""

    view: str
    shape: str
    width: float
    scale: float
    means: NDArray[np.float64]
    norms: NDArray[np.float64]
    values: NDArray[np.float64]
    vectors: NDArray[np.float64]

    @property
    def name(self) -> str:
        """What it is called: "raw linear", "z radial"."""
        return f"{self.view} {self.shape}"


class ScanKernels(NamedTuple):
    """All that targets do not change of some training scans."""

    X: NDArray
    views: list[str]
    voxels: Voxels
    kernels: list[Kernel]
    groups: NDArray[np.intp] | None
    centered: bool


def scan_kernels(
    X: NDArray, groups: NDArray | None, views: Sequence[str], smoother: csr_array | None
) -> ScanKernels:
    """Kernels of training scans (n, J) in several views.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(6, 4))
    >>> [kernel.name for kernel in scan_kernels(X, None, ["raw", "z"], None).kernels]
    ['raw linear', 'raw radial', 'z linear', 'z radial']
    """
    codes = group_codes(groups)
    with blas_threads_for(len(X)):
        read = views_of(X, codes, smoother, views)
        kernels = [
            kernel
            for view, gram in zip(read.names, read.grams)
            for kernel in kernels_of(gram, view)
        ]
    return ScanKernels(X, list(read.names), read.voxels, kernels, codes, read.centered)


def group_codes(groups: NDArray | None) -> NDArray[np.intp] | None:
    """Groups by number; None where each scan, or all of them together, are a group.

    >>> group_codes(np.array(["b", "a", "b"])), group_codes(np.array([1, 2, 3]))
    (array([1, 0, 1]), None)
    """
    if groups is None:
        return None
    names, codes = np.unique(groups, return_inverse=True)
    return codes if 1 < len(names) < len(codes) else None


def kernels_of(gram: NDArray[np.float64], view: str) -> list[Kernel]:
    """The kernels of a view; none where its scans do not differ.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([-2.0, -1.0, 0.0, 3.0])
    >>> [(one.name, round(one.width, 3), round(one.scale, 3)) for one in kernels_of(
    ...     np.outer(x, x), "raw")]
    [('raw linear', 0.0, 4.667), ('raw radial', 6.5, 0.412)]
    """
    norms = np.diag(gram).copy()
    apart = squared_distances(gram, norms, norms)[np.triu_indices(len(gram), 1)]
    width = float(np.median(apart))
    if width <= 0:  # most scans are the same: the linear kernel is all there is
        width = float(apart.mean())
    if not width > 0:
        return []
    return [_kernel(gram, norms, view, shape, w) for shape, w in zip(SHAPES, (0.0, width))]


def squared_distances(cross: NDArray, new: NDArray, old: NDArray) -> NDArray[np.float64]:
    """|x - x'|² from inner products; rounding cannot make it negative."""
    return np.maximum(new[:, None] - 2.0 * cross + old[None, :], 0.0)


def _kernel(gram: NDArray, norms: NDArray, view: str, shape: str, width: float) -> Kernel:
    if shape == "radial":
        gram = np.exp(-squared_distances(gram, norms, norms) / (2.0 * width))
    centered, means = center_gram(gram)
    scale = float(np.trace(centered)) / (len(gram) - 1)
    values, vectors = eigh(centered / scale)
    return Kernel(view, shape, width, scale, means, norms, np.maximum(values, 0.0), vectors)


def kernel_to(kernel: Kernel, cross: Cross) -> Cross:
    """The kernel of new scans with the training scans, and with themselves.

    `cross` holds their inner products in the kernel's view.
    """
    if kernel.shape == "radial":
        apart = squared_distances(cross.gram, cross.squared_norms, kernel.norms)
        cross = Cross(np.exp(-apart / (2.0 * kernel.width)), np.ones(len(apart)))
    centered = center_cross(cross, kernel.means)
    return Cross(centered.gram / kernel.scale, centered.squared_norms / kernel.scale)
