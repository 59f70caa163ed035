"""Searchlight: how well the voxels around each voxel decode, tested over the whole map.

Every neighbourhood is a set of voxels that is decoded alone and tested with all others, see
`voxprior.mapping.local_test`. A small p claims the *neighbourhood*, not the voxel at its centre:
information may sit anywhere in it, and large neighbourhoods turn a small source into a large
region. A
searchlight is for patterns whose mean over scans of a class cancels within a voxel; where class
means differ voxel by voxel, `map_test` finds more.

References
----------
Kriegeskorte, Goebel & Bandettini, "Information-based functional brain mapping", PNAS 103, 2006.
Etzel, Zacks & Braver, "Searchlight analysis: promise, pitfalls, and potential", NeuroImage 78,
2013.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from voxprior.errors import InputError, option
from voxprior.mapping.local_test import (
    LocalResult,
    local_design,
    local_frame,
    local_options,
    local_test,
)
from voxprior.mapping.vicinity import Neighborhoods, neighborhoods
from voxprior.space import VoxelSpace

__all__ = ["SearchlightResult", "searchlight"]

CLAIM = (
    "The voxels around this one, together, tell {classes} apart. It claims the neighbourhood, and "
    "not the voxel at its centre."
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SearchlightResult(LocalResult):
    """Outcome of `searchlight`; maps have one value per voxel, the centre of its neighbourhood."""

    score: np.ndarray
    p_fwer: np.ndarray
    p_uncorrected: np.ndarray
    size: np.ndarray  # voxels of each neighbourhood
    significant: np.ndarray  # (V,) bool, by p_fwer

    def __repr__(self) -> str:
        return (
            f"Searchlight: {int(self.significant.sum()):,} of {len(self.score):,} neighbourhoods "
            f"significant (familywise error {self.level:g}), highest {self.name} "
            f"{np.nanmax(self.score):.3f}, {self.needed}, {self.relabellings}"
        )

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>"


def searchlight(
    X,
    y,
    groups=None,
    space: VoxelSpace | None = None,
    *,
    radius: float = 6.0,
    units: str = "mm",
    **options: Any,
) -> SearchlightResult:
    """Decode every neighbourhood of voxels, and test the map against relabelled scans.

    Parameters
    ----------
    X : array of shape (n, V), or (n, T V) with time
        Scans.
    y : array of shape (n,)
        Class labels.
    groups : array of shape (n,), optional
        Runs or subjects, held out one at a time. Without them scans are dealt to 10 folds.
    space : VoxelSpace
        Where the voxels are.
    radius, units
        How far a neighbourhood reaches, in "mm", "voxel" or "rings", see
        `voxprior.mapping.vicinity`.
    **options
        score, estimator, blocks, scheme, standardize, alpha, level, n_permutations, n_jobs,
        random_state and progress, see `voxprior.mapping.local_test.LocalOptions`.

    Returns
    -------
    SearchlightResult

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior import VoxelSpace
    >>> from voxprior.mapping import searchlight
    >>> y, runs = np.tile(["face", "house"], 16), np.repeat(range(8), 4)
    >>> X = np.random.default_rng(0).normal(size=(32, 60))
    >>> X[:, 20:23] += 3.0 * (y == "house")[:, None]
    >>> found = searchlight(X, y, runs, VoxelSpace.grid((60,)), radius=1, units="voxel")
    >>> np.flatnonzero(found.significant)  # every neighbourhood that holds one of the three
    array([19, 20, 21, 22, 23])
    """
    given = local_options(options)
    if space is None:
        raise InputError(
            "Where the voxels are is not known", remedy=f"Give {option('space')}, a VoxelSpace"
        )
    near = columns_of(neighborhoods(space, radius, units), np.shape(X)[-1], space)
    design = local_design(X, y, groups, given)
    found = local_test(design, near, space, given)
    return SearchlightResult(
        score=found.observed,
        p_fwer=found.p_fwer,
        p_uncorrected=found.p_uncorrected,
        size=near.sizes // (np.shape(X)[-1] // space.n_voxels),
        significant=found.p_fwer <= given.level,
        **local_frame(design, found, given, CLAIM),
    )


def columns_of(near: Neighborhoods, n_columns: int, space: VoxelSpace) -> Neighborhoods:
    """Columns of X that belong to each set of voxels: of T volumes, those of every time."""
    n_times, rest = divmod(n_columns, space.n_voxels)
    if rest or n_times == 0:
        raise InputError(
            f"Scans do not fit the {option('space')}",
            expected=f"a multiple of its {space.n_voxels} voxels as columns",
            got=f"{n_columns}",
        )
    if n_times == 1:
        return near
    lists = [
        np.concatenate([near.members(c) + t * space.n_voxels for t in range(n_times)])
        for c in range(len(near.sizes))
    ]
    return Neighborhoods(np.concatenate(lists), near.indptr * n_times)
