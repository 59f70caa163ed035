"""Searchlight: how well the voxels around each voxel decode, tested over the whole map.

Every neighbourhood is a set of voxels that is decoded alone and tested with all others, see
`voxprior.mapping.local_test`. A small p claims the *neighbourhood*, not the voxel at its centre:
information may sit anywhere in it, and large neighbourhoods make large regions of little. A
searchlight is for patterns whose mean over scans of a class cancels within a voxel; where class
means differ voxel by voxel, `map_test` finds more.

References
----------
Kriegeskorte, Goebel & Bandettini, "Information-based functional brain mapping", PNAS 103, 2006.
Etzel, Zacks & Braver, "Searchlight analysis: promise, pitfalls, and potential", NeuroImage 78,
2013.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from voxprior.errors import InputError, option
from voxprior.mapping.local_test import (
    SCORE_WORDS,
    check_choices,
    decoder_words,
    local_design,
    local_test,
    threshold,
    told_apart,
)
from voxprior.mapping.vicinity import Neighborhoods, neighborhoods
from voxprior.space import VoxelSpace

__all__ = ["SearchlightResult", "searchlight"]


class SearchlightResult(NamedTuple):
    """Outcome of `searchlight`; maps have one value per voxel, the centre of its neighbourhood."""

    score: np.ndarray
    p_fwer: np.ndarray
    p_uncorrected: np.ndarray
    size: np.ndarray  # voxels of each neighbourhood
    significant: np.ndarray  # (V,) bool, by p_fwer
    threshold: float  # what a score must exceed to be significant; inf where nothing can
    null_max: np.ndarray  # (B,) highest score of every relabelling
    smallest_p: float  # that the design and the number of relabellings can give
    n_distinct: int  # distinct relabellings of the design
    exact: bool  # whether all of them were used
    scheme: str  # how labels were exchanged, in words
    hypothesis: str  # what a small p says, in words
    name: str  # of the score
    decoder: str  # what decodes a neighbourhood, in words
    level: float
    complete: bool  # False after Ctrl-C

    def __repr__(self) -> str:
        many = f"all {len(self.null_max)}" if self.exact else f"{len(self.null_max)} random"
        return (
            f"Searchlight: {int(self.significant.sum()):,} of {len(self.score):,} neighbourhoods "
            f"significant (familywise error {self.level:g}), highest {self.name} "
            f"{np.nanmax(self.score):.3f}, threshold {self.threshold:.3f}, smallest possible p "
            f"{self.smallest_p:.3g}; {many} relabellings, {self.scheme}"
        )


def searchlight(
    X,
    y,
    groups=None,
    space: VoxelSpace | None = None,
    *,
    radius: float = 6.0,
    units: str = "mm",
    score: str = "accuracy",
    estimator: Any = None,
    blocks=None,
    scheme: str = "auto",
    standardize: str = "auto",
    alpha: float = 0.3,
    level: float = 0.05,
    n_permutations: int = 1000,
    n_jobs: int | None = None,
    random_state: int = 0,
    progress: bool = False,
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
    score : {"accuracy", "auc", "margin"}
        "margin" is the mean held-out margin of a neighbourhood in units of its standard deviation
        over relabellings: finer than accuracy, and not to be read as a share.
    estimator : classifier, optional
        Decodes every neighbourhood instead of ridge; thousands of times slower.
    blocks, scheme
        How labels are exchanged, see `voxprior.validation.relabelling`.
    standardize : {"auto", "zscore", "center", "none"}
        What is done to every voxel within each group, without labels. "auto": nothing where groups
        do not hold the classes equally often, else "zscore", or "center" below 8 scans per group.
    alpha : float
        Penalty of the ridge, relative to the mean variance of the neighbourhood's voxels.
    level : float
        Of significance, for the whole map.
    n_permutations : int
        Relabellings. Where the design has no more than twice as many, all are used.
    n_jobs, random_state, progress
        See `voxprior.validation.cross_validate`.

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
    >>> X[:, 20:23] += 2.0 * (y == "house")[:, None]
    >>> found = searchlight(X, y, runs, VoxelSpace.grid((60,)), radius=1, units="voxel")
    >>> np.flatnonzero(found.significant)
    array([20, 21, 22])
    """
    check_choices(score, level, alpha)
    if space is None:
        raise InputError(
            "Where the voxels are is not known", remedy=f"Give {option('space')}, a VoxelSpace"
        )
    near = columns_of(neighborhoods(space, radius, units), np.shape(X)[-1], space)
    drawn = {"n_permutations": n_permutations, "random_state": random_state}
    design = local_design(X, y, groups, blocks, scheme=scheme, standardize=standardize, **drawn)
    running = {"n_jobs": n_jobs, "random_state": random_state, "progress": progress}
    found = local_test(design, near, score, alpha, estimator, space, running)
    exchange = design.exchange
    return SearchlightResult(
        found.observed,
        found.p_fwer,
        found.p_uncorrected,
        near.sizes // (np.shape(X)[-1] // space.n_voxels),
        found.p_fwer <= level,
        threshold(found.null_max, level),
        found.null_max,
        exchange.smallest_p,
        exchange.n_distinct,
        exchange.exact,
        exchange.statement,
        f"The voxels around this one, together, tell {told_apart(exchange.classes)} apart. It "
        "claims the neighbourhood, and not the voxel at its centre.",
        SCORE_WORDS.get(score, score),
        decoder_words(estimator),
        level,
        found.complete,
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
