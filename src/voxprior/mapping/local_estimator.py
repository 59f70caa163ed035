"""Neighbourhoods decoded by any estimator, fitted again for each, every fold and labelling.

The same folds, labellings and scores as by ridge (`voxprior.mapping.local_ridge`), at the price of
one fit each: for the decoder of one's choice, on few voxels or with few relabellings.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from voxprior.errors import InputError, option
from voxprior.mapping.local_ridge import Labellings, standardized
from voxprior.mapping.vicinity import Neighborhoods
from voxprior.space import VoxelSpace
from voxprior.validation.batch import column_score
from voxprior.validation.folds import fit_fold


def estimator_scores(
    X: np.ndarray,
    near: Neighborhoods,
    centers: np.ndarray,
    labels: Labellings,
    score: str,
    estimator: Any,
    space: VoxelSpace,
    seed: np.random.SeedSequence,
) -> np.ndarray:
    """Scores (number of centres, 1 + B) of all labellings, the true one first."""
    scores = np.empty((len(centers), labels.codes.shape[1]))
    for place, center in enumerate(centers):
        members = near.members(center)
        x = np.ascontiguousarray(X[:, members])
        model = _placed(estimator, space, members)
        for b, codes in enumerate(labels.codes.T):
            scores[place, b] = _score(x, codes.astype(int), labels, score, model, seed)
    return standardized(scores) if score == "margin" else scores


def _placed(estimator: Any, space: VoxelSpace, members: np.ndarray) -> Any:
    """The estimator; if it has a parameter for it, it gets the space of the neighbourhood."""
    params = estimator.get_params(deep=False)
    if "space" not in params or params["space"] is not None:
        return estimator
    inside = np.unique(members % space.n_voxels)
    return type(estimator)(**params | {"space": space.take(inside)})


def _score(x, codes, labels: Labellings, score: str, model: Any, seed) -> float:
    """Score of one neighbourhood and labelling, of all held-out scans together."""
    classes = np.arange(labels.n_classes)
    values = np.zeros((len(x), labels.n_classes))
    right = np.zeros(len(x), dtype=bool)
    for g, child in enumerate(seed.spawn(int(labels.fold.max()) + 1)):
        fold = (np.flatnonzero(labels.fold != g), np.flatnonzero(labels.fold == g))
        found = fit_fold(fold, child, model, x, codes, None, {}, classes, False)
        right[fold[1]] = found.y_pred == codes[fold[1]]
        if score != "accuracy":
            if found.values is None:
                raise InputError(
                    f"{option('score', score)} needs values of every class",
                    got=f"labels alone from {type(model).__name__}",
                    remedy=f"Take {option('score', 'accuracy')}",
                )
            values[fold[1]] = found.values
    if score == "accuracy":
        return float(right.mean())
    return float(column_score(score, values[:, None], codes[:, None], labels.n_classes)[0])
