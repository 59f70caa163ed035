"""The members of the automatic classifier: what each says of scans that it was not fitted to.

| member | scores |
|---|---|
| discriminants, views x shrinkages, equal shares | `discriminant_path` of the Gram matrix of the view |
| feature sharing on centred scans, if asked for, 22 to their 70 | log p(c given x) - log(n_c/n) |
| nothing there, even odds against all others | 0: the class frequencies |

Feature sharing divides each voxel by its noise within classes, which label-free views cannot know.
It is absent where it, or one of its left-out copies, has as many scans as classes, or scans that do
not differ within classes. "Nothing there" is absent where there are no folds: no scan could speak for or against it.

| symbol | variable | shape |
|---|---|---|
| s^m of the N left-out scans | `Members.left_out[m]` | (N, C) |
| class of left-out scans | `Members.codes` | (N,) |
"""  # noqa: E501

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from voxprior.auto.discriminant import SHRINKAGES, Path, discriminant_path, has_noise
from voxprior.auto.folds import Design
from voxprior.auto.views import Standard, Views, neighbor_radius
from voxprior.auto.weights import NOTHING, PROBABILITIES, Grid, discriminant_grid
from voxprior.models.gaussian.gram import voxel_blocks
from voxprior.models.sharing import FeatureSharingNB
from voxprior.space import VoxelSpace

__all__ = ["Members", "centered_scans", "fit_members", "sharing_scores", "sharing_weights"]

MASS_PATH, MASS_SHARING = 0.70, 0.22
# Odds that scans say nothing about the classes, against all other members together.
ODDS_NOTHING = 1.0
# Probabilities of feature sharing below this are rounding.
LEAST = 1e-15


class Members(NamedTuple):
    """Members fitted to all training scans, and the scores of their left-out copies."""

    paths: list[Path]  # one per view
    sharing: FeatureSharingNB | None
    grids: list[Grid]
    mass: NDArray[np.float64]
    left_out: list[NDArray[np.float64]]
    codes: NDArray[np.intp]


def fit_members(
    X: NDArray,
    views: Views,
    codes: NDArray,
    n_classes: int,
    design: Design,
    space: VoxelSpace | None = None,
    sharing: bool = False,
) -> Members:
    """Fit all members to training scans (n, p), and to all but each fold."""
    paths = [discriminant_path(gram, codes, n_classes) for gram in views.grams]
    tested = np.concatenate([np.empty(0, np.intp), *(test for _, test in design.folds)])
    left_out = _left_out_paths(views, codes, n_classes, design)
    grids = [discriminant_grid(n_classes, bool(design.folds))] * len(left_out)
    mass = [MASS_PATH / len(left_out)] * len(left_out)
    model = None
    if sharing and _can_share(views.grams[0], codes, n_classes, design):
        model, scores = _fit_sharing(X, views.standard, codes, n_classes, design, space)
        left_out.append(scores)
        grids, mass = [*grids, PROBABILITIES], [*mass, MASS_SHARING]
    if design.folds:
        left_out.append(np.zeros((len(tested), n_classes)))
        grids, mass = [*grids, NOTHING], [*mass, ODDS_NOTHING * sum(mass)]
    shares = np.array(mass) / np.sum(mass)
    return Members(paths, model, grids, shares, left_out, codes[tested])


def _left_out_paths(views: Views, codes, n_classes: int, design: Design) -> list[NDArray]:
    """Scores (N, C) of left-out scans by view and shrinkage."""
    found: list[NDArray] = []
    for gram in views.grams:
        parts = [np.empty((len(SHRINKAGES), 0, n_classes))]
        for train, test in design.folds:
            path = discriminant_path(gram[np.ix_(train, train)], codes[train], n_classes)
            parts.append(path.scores(gram[np.ix_(test, train)]))
        found += list(np.concatenate(parts, axis=1))
    return found


# ---------------------------------------------------------------- feature sharing


def _can_share(gram: NDArray, codes: NDArray, n_classes: int, design: Design) -> bool:
    """Whether scans of a class differ among all scans, and in the training part of every fold."""
    parts = [np.arange(len(codes)), *(train for train, _ in design.folds)]
    return all(has_noise(gram[np.ix_(i, i)], codes[i], n_classes) for i in parts)


def _fit_sharing(
    X: NDArray, standard: Standard, codes: NDArray, n_classes: int, design: Design, space
) -> tuple[FeatureSharingNB, NDArray]:
    """Feature sharing fitted to all scans, and scores (N, C) of its left-out copies."""
    scans = centered_scans(X, standard)
    radius = None if space is None or space.kind == "mesh" else neighbor_radius(space)
    space = None if radius is None and space is not None and space.kind == "points" else space
    model = FeatureSharingNB(space, radius=radius, shrinkage="james-stein")
    prepared = model.prepare(scans)
    parts = [np.empty((0, n_classes))]
    for train, test in design.folds:
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


def centered_scans(X: NDArray, standard: Standard) -> NDArray:
    """Scans less the training mean and in units, in the precision they came in."""
    scans = np.empty_like(X)
    for block in voxel_blocks(*X.shape):
        scans[:, block] = standard.read(X, block)
    return scans
