"""Scores of all members as linear functions of voxels, on the fewest maps that span them.

The members of a view differ in their dual coefficients only: by a singular value decomposition

    [A_1 ... A_T] = L G        L (n, r),   r <= min(n, T (C - 1))
    s^t(x) = (x - mean)'B G_t + offset_t,      B = A_v'A_v X'L / u

so a fitted model keeps r maps per view and no scan, and a new scan is read once.

| symbol | variable | shape |
|---|---|---|
| A_t, dual coefficients at shrinkage t | `paths[v][t]` | (n, C) |
| B', for all views one below the other | `basis` | (R, p) |
| G, zero where map and member are of different views | `dual` | (M, R, C) |
| f, what is followed over the training scans | `latent` | (n, k) |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import svd

from voxprior.auto.views import Views, Voxels, combined, lifted
from voxprior.blocks import voxel_blocks
from voxprior.blocks.sums import reading
from voxprior.blocks.threads import sum_over_blocks

__all__ = ["Basis", "basis_of", "patterns", "projected"]

# Singular values below this share of the largest are rounding.
ROUNDING = 1e-12


class Basis(NamedTuple):
    """Maps (R, p) that all members share, and what makes scores of them, (M, R, C)."""

    maps: NDArray
    dual: NDArray[np.float64]


def basis_of(X: NDArray, views: Views, paths: Sequence[NDArray]) -> Basis:
    """Maps for the dual coefficients of all views, in the precision of the training scans."""
    maps, duals = [], []
    for name, path in zip(views.names, paths):
        left, inner = _factors(path)
        rows = combined(X, views.voxels, left.T)
        maps.append(lifted(name, rows, views.voxels).astype(X.dtype))
        duals.append(inner)
    R, (T, _, C) = sum(map(len, maps)), duals[0].shape
    dual, first = np.zeros((len(duals) * T, R, C)), 0
    for view, inner in enumerate(duals):
        dual[view * T : (view + 1) * T, first : first + inner.shape[1]] = inner
        first += inner.shape[1]
    return Basis(np.concatenate(maps), dual)


def _factors(dual: NDArray) -> tuple[NDArray, NDArray]:
    """L (n, r) and G (T, r, C) of dual coefficients (T, n, C)."""
    T, n, C = dual.shape
    left, size, right = svd(dual.transpose(1, 0, 2).reshape(n, T * C), full_matrices=False)
    kept = size > ROUNDING * size[0]
    inner = (size[kept, None] * right[kept]).reshape(-1, T, C).transpose(1, 0, 2)
    return left[:, kept], inner


def projected(X: NDArray, voxels: Voxels, maps: NDArray) -> NDArray[np.float64]:
    """Inner products (m, r) of centred scans with maps (r, p)."""

    def add(block: slice, total: NDArray) -> None:
        total += voxels.read(X, block) @ maps[:, block].T

    n, r = len(X), len(maps)
    with reading(X):
        return sum_over_blocks(add, voxel_blocks(n + r, X.shape[1]), (n, r))[0]


def patterns(X: NDArray, voxels: Voxels, latent: NDArray) -> NDArray:
    """How each voxel rises with each column of `latent` (n, k) over the scans, (k, p).

    Reference: S. Haufe et al., NeuroImage 87 (2014) 96-110.
    """
    f = latent - latent.mean(axis=0)
    power = np.einsum("ij,ij->j", f, f)
    f = np.divide(f, power, out=np.zeros_like(f), where=power > 0)
    return (combined(X, voxels, f.T) * voxels.unit).astype(X.dtype)
