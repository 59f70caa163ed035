"""Scores of all members as linear functions of voxels, on the fewest maps that span them.

The members of a view differ in their dual coefficients only: by a singular value decomposition

    [A_1 ... A_T] = L G        L (n, r),   r <= min(n, T (C - 1))
    s^t(x) = (x - mean)'B G_t + offset_t,      B = A_v'A_v X'L / u

so a fitted model keeps r maps per view and no scan, and a new scan is read once.

| symbol | variable | shape |
|---|---|---|
| A_t, dual coefficients at shrinkage t | `paths[v][t]` | (n, C) |
| L of all views | `Basis.left` | (n, r) each |
| B', for all views one below the other | `Maps.basis` | (R, p) |
| G, zero where map and member are of different views | `Basis.dual` | (M, R, C) |
| f, what is followed over the training scans | `latent` | (n, k) |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import svd

from voxprior.auto.views import Views, Voxels, lifted
from voxprior.blocks import voxel_blocks
from voxprior.blocks.sums import reading
from voxprior.blocks.threads import each_block, sum_over_blocks

__all__ = ["Basis", "Maps", "basis_of", "maps_of", "projected"]

# Singular values below this share of the largest are rounding.
ROUNDING = 1e-12


class Basis(NamedTuple):
    """Combinations L (n, r) of the training scans by view, and what makes scores of them."""

    left: list[NDArray[np.float64]]
    dual: NDArray[np.float64]  # (M, R, C)

    def features(self, grams: Sequence[NDArray]) -> NDArray[np.float64]:
        """Inner products (n, R) of the training scans with the maps, given their Gram matrices."""
        return np.hstack([gram @ left for gram, left in zip(grams, self.left)])


class Maps(NamedTuple):
    """Maps (R, p) that all members share, and patterns (k, p), in the precision of the scans."""

    basis: NDArray
    pattern: NDArray


def basis_of(paths: Sequence[NDArray]) -> Basis:
    """Fewest combinations of scans that span the dual coefficients (T, n, C) of every view."""
    lefts, inners = zip(*map(_factors, paths))
    T, _, C = paths[0].shape
    dual, first = np.zeros((len(paths) * T, sum(left.shape[1] for left in lefts), C)), 0
    for view, inner in enumerate(inners):
        dual[view * T : (view + 1) * T, first : first + inner.shape[1]] = inner
        first += inner.shape[1]
    return Basis(list(lefts), dual)


def maps_of(X: NDArray, views: Views, basis: Basis, latent: NDArray) -> Maps:
    """Maps of the basis, and how each voxel rises with each column of `latent` (n, k).

    Both are combinations of the training scans, which are read once.

    Reference of patterns: S. Haufe et al., NeuroImage 87 (2014) 96-110.
    """
    f = latent - latent.mean(axis=0)
    power = np.einsum("ij,ij->j", f, f)
    f = np.divide(f, power, out=np.zeros_like(f), where=power > 0) * views.voxels.unit
    ends = np.cumsum([left.shape[1] for left in basis.left])
    rows, voxels = np.hstack([*basis.left, f]).T, views.voxels
    maps = np.empty((len(rows), X.shape[1]), dtype=X.dtype)
    of_view = dict(zip(views.names, np.split(np.arange(ends[-1]), ends[:-1])))
    smooth = of_view.get("smooth", np.arange(0))
    rough = np.empty((len(smooth), X.shape[1]))  # smoothed once all voxels are known

    def fill(block: slice) -> None:
        part = rows @ voxels.read(X, block)
        rough[:, block] = part[smooth]
        for name, rows_of_view in zip(views.names, np.split(part[: ends[-1]], ends[:-1])):
            if name != "smooth":
                lifted(name, rows_of_view, voxels.at(block))
        maps[:, block] = part

    with reading(X):
        each_block(fill, voxel_blocks(*X.shape))
    maps[smooth] = lifted("smooth", rough, voxels)
    return Maps(maps[: ends[-1]], maps[ends[-1] :])


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
