"""The members of the automatic classifier: what each says of scans that it was not fitted to.

| member | scores |
|---|---|
| discriminants, views x shrinkages, equal shares | `discriminant_paths` of the Gram matrix of the view |
| feature sharing on centred scans, if asked for, 22 to their 70 | log p(c given x) - log(n_c/n) |
| nothing there, even odds against all others | 0: the class frequencies |

Feature sharing divides each voxel by its noise within classes, which label-free views cannot know.
It is absent where it, or one of its left-out copies, has as many scans as classes, or scans that do
not differ within classes. "Nothing there" is absent where there are no folds: no scan could speak for or against it.

| symbol | variable | shape |
|---|---|---|
| s^m of the N left-out scans, for B labellings | `Members.left_out[m]` | (N, B, C) |
| class of left-out scans | `Members.codes` | (N, B) |
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from voxprior.auto.discriminant import (
    SHRINKAGES,
    Paths,
    Spectrum,
    discriminant_paths,
    has_noise,
    spectrum_of,
)
from voxprior.auto.folds import Folds
from voxprior.auto.smoothing import neighbor_radius
from voxprior.auto.views import Views, Voxels
from voxprior.auto.weights import NOTHING, PROBABILITIES, Grid, discriminant_grid
from voxprior.blocks import BlockedScans, voxel_blocks
from voxprior.blocks.threads import each_block
from voxprior.models.sharing import FeatureSharingNB
from voxprior.space import VoxelSpace

__all__ = [
    "Members",
    "centered_scans",
    "fit_discriminants",
    "sharing_scores",
    "sharing_weights",
    "with_nothing",
    "with_sharing",
]

MASS_PATH, MASS_SHARING = 0.70, 0.22
# Odds that scans say nothing about the classes, against all other members together.
ODDS_NOTHING = 1.0
# Probabilities of feature sharing below this are rounding.
LEAST = 1e-15


class Members(NamedTuple):
    """Members fitted to all training scans, and the scores of their left-out copies."""

    paths: list[Paths]  # one per view
    sharing: FeatureSharingNB | None
    grids: list[Grid]
    mass: NDArray[np.float64]  # summing to 1 once all have joined
    left_out: list[NDArray[np.float64]]
    codes: NDArray[np.intp]


def fit_discriminants(
    views: Views, spectra: Sequence[Spectrum], codes: NDArray, n_classes: int, folds: Folds
) -> Members:
    """Fit discriminants to all training scans and to all but each fold.

    `spectra` are those of the views; `codes` (n, B) are labellings that share the folds.
    """
    paths = [discriminant_paths(spectrum, codes, n_classes) for spectrum in spectra]
    tested = np.concatenate([np.empty(0, np.intp), *(test for _, test in folds)])
    left_out = _left_out_paths(views, codes, n_classes, folds)
    grids = [discriminant_grid(n_classes, bool(folds))] * len(left_out)
    mass = np.full(len(left_out), MASS_PATH / len(left_out))
    return Members(paths, None, grids, mass, left_out, codes[tested])


def with_sharing(
    members: Members,
    X: NDArray,
    views: Views,
    codes: NDArray,
    n_classes: int,
    folds: Folds,
    space: VoxelSpace | None,
) -> Members:
    """Let feature sharing join, where it can be fitted, for a single labelling (n,)."""
    if not _can_share(views.grams[0], codes, n_classes, folds):
        return members
    model, scores = _fit_sharing(X, views.voxels, codes, n_classes, folds, space)
    return _joined(members._replace(sharing=model), scores[:, None], PROBABILITIES, MASS_SHARING)


def with_nothing(members: Members) -> Members:
    """Let "nothing there" join where left-out scans can judge it, and masses sum to 1."""
    if len(members.codes):
        odds = ODDS_NOTHING * members.mass.sum()
        members = _joined(members, np.zeros_like(members.left_out[0]), NOTHING, odds)
    return members._replace(mass=members.mass / members.mass.sum())


def _joined(members: Members, scores: NDArray, grid: Grid, mass: float) -> Members:
    return members._replace(
        grids=[*members.grids, grid],
        mass=np.append(members.mass, mass),
        left_out=[*members.left_out, scores],
    )


def _left_out_paths(views: Views, codes, n_classes: int, folds: Folds) -> list[NDArray]:
    """Scores (N, B, C) of left-out scans by view and shrinkage."""
    found: list[NDArray] = []
    for gram in views.grams:
        parts = [np.empty((len(SHRINKAGES), 0, codes.shape[1], n_classes))]
        for train, test in folds:
            spectrum = spectrum_of(gram[np.ix_(train, train)])
            paths = discriminant_paths(spectrum, codes[train], n_classes)
            parts.append(paths.scores(gram[np.ix_(test, train)]))
        found += list(np.concatenate(parts, axis=1))
    return found


# ---------------------------------------------------------------- feature sharing


def _can_share(gram: NDArray, codes: NDArray, n_classes: int, folds: Folds) -> bool:
    """Whether scans of a class differ among all scans, and in the training part of every fold."""
    parts = [np.arange(len(codes)), *(train for train, _ in folds)]
    return all(has_noise(gram[np.ix_(i, i)], codes[i], n_classes) for i in parts)


def _fit_sharing(
    X: NDArray, voxels: Voxels, codes: NDArray, n_classes: int, folds: Folds, space
) -> tuple[FeatureSharingNB, NDArray]:
    """Feature sharing fitted to all scans, and scores (N, C) of its left-out copies."""
    scans = centered_scans(X, voxels)
    radius = None if space is None or space.kind == "mesh" else neighbor_radius(space)
    space = None if radius is None and space is not None and space.kind == "points" else space
    model = FeatureSharingNB(space, radius=radius, shrinkage="james-stein")
    prepared = model.prepare(scans)
    parts = [np.empty((0, n_classes))]
    for train, test in folds:
        model.fit_prepared(prepared, train, codes[train])
        parts.append(sharing_scores(model, scans[test]))
    return model.fit_prepared(prepared, np.arange(len(codes)), codes), np.concatenate(parts)


def sharing_scores(model: FeatureSharingNB, scans: NDArray) -> NDArray[np.float64]:
    """Log p(c | x) - log(n_c/n) of centred scans, (m, C)."""
    told = np.maximum(model.predict_log_proba(scans), np.log(LEAST))
    return told - np.log(model.class_prior_)


def sharing_weights(model: FeatureSharingNB) -> NDArray[np.float64]:
    """What each voxel of a centred scan adds to the scores of each class, (C, p)."""
    return (model.theta_ - model.theta_.mean(axis=0)) / model.var_ / model.temperature_


def centered_scans(X: NDArray, voxels: Voxels) -> NDArray:
    """Scans less the training mean and in units, in the precision they came in."""
    if isinstance(X, BlockedScans):
        return X.changed(voxels.applied)
    scans = np.empty_like(X)

    def fill(block: slice) -> None:
        scans[:, block] = voxels.read(X, block)

    each_block(fill, voxel_blocks(*X.shape))
    return scans
