"""What an importance map would look like without what it claims to show: its controls, and how
stable it is.

Places with many neighbours are cheap under K, so a map may light up where voxels are dense whatever
the labels say. Each control removes one thing and refits on the same sorted data:

    permuted   K_ij becomes K_{π(i) π(j)}: the same kernel, neighbours at the wrong voxels
    ridge      K = I: shrinkage without neighbours
    diagonal   K = diag(K): the same price for a lone voxel, without neighbours
    shuffled   labels permuted: what geometry and noise alone produce

Stability is the fraction of bootstrap refits that select a location: a share of refits, not a
significance.

| symbol | variable | shape |
|---|---|---|
| β, summed over one-vs-rest problems | `importance` | (V,) |
| π | `permutation` | (V,) |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from voxprior.models.boosting.coordinate_descent import Settings
from voxprior.models.boosting.ensemble import TrainingSet, fit_problems, restrict
from voxprior.models.boosting.penalty import (
    DiagonalPenalty,
    Penalty,
    PermutedPenalty,
    diagonal_of,
)

__all__ = ["Controls", "control_maps", "importance_of", "most_important", "selection_frequency"]


class Controls(NamedTuple):
    """Importance maps of a fit and of its controls; all (V,) but `shuffled`, (n_shuffles, V)."""

    importance: NDArray[np.float64]
    permuted: NDArray[np.float64]
    ridge: NDArray[np.float64]
    diagonal: NDArray[np.float64]
    shuffled: NDArray[np.float64]


def importance_of(
    training: TrainingSet, penalty: Penalty, settings: Settings
) -> NDArray[np.float64]:
    """Fit, and return β summed over the one-vs-rest problems, (V,)."""
    fitted = fit_problems(training, penalty, settings)
    return np.sum([found.importance for found in fitted], axis=0)


def control_maps(
    training: TrainingSet,
    penalty: Penalty,
    settings: Settings,
    n_shuffles: int,
    rng: np.random.Generator,
    groups: NDArray | None = None,
) -> Controls:
    """Fit to the true labels and kernel, and every control.

    Parameters
    ----------
    training, penalty, settings
        The fit to be controlled.
    n_shuffles : int
        Number of label permutations.
    rng : numpy.random.Generator
        Source of the permutations.
    groups : ndarray of shape (n,), optional
        Labels are permuted within groups (runs) only.
    """
    n_locations = penalty.shape[0]
    ridge = DiagonalPenalty(np.ones(n_locations))
    permuted = PermutedPenalty(penalty, rng.permutation(n_locations))
    shuffled = [
        importance_of(_shuffled_labels(training, groups, rng), penalty, settings)
        for _ in range(n_shuffles)
    ]
    return Controls(
        importance=importance_of(training, penalty, settings),
        permuted=importance_of(training, permuted, settings),
        ridge=importance_of(training, ridge, settings),
        diagonal=importance_of(training, diagonal_of(penalty), settings),
        shuffled=np.array(shuffled).reshape(n_shuffles, n_locations),
    )


def selection_frequency(
    training: TrainingSet,
    penalty: Penalty,
    settings: Settings,
    n_bootstraps: int,
    size: int | None,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Return the fraction of bootstrap refits in which each location is selected, (V,).

    Samples are drawn with replacement within each class; a sample drawn twice has twice the weight,
    so that no refit sorts anything. Selected means β > 0, or with `size` being among the `size`
    highest.
    """
    labels = np.unique(training.Y, axis=1, return_inverse=True)[1].ravel()
    counts = np.zeros(penalty.shape[0])
    for _ in range(n_bootstraps):
        drawn = np.zeros(len(labels))
        for label in np.unique(labels):
            members = np.flatnonzero(labels == label)
            np.add.at(drawn, rng.choice(members, len(members)), 1.0)
        sample = restrict(training, np.flatnonzero(drawn), drawn * training.weights)
        counts += most_important(importance_of(sample, penalty, settings), size)
    return counts / n_bootstraps


def most_important(importance: NDArray, size: int | None) -> NDArray[np.bool_]:
    """Return which locations have importance, or the `size` highest of those; (V,) boolean."""
    selected = importance > 0
    if size is not None:
        selected[np.argsort(-importance, kind="stable")[size:]] = False
    return selected


def _shuffled_labels(
    training: TrainingSet, groups: NDArray | None, rng: np.random.Generator
) -> TrainingSet:
    n = training.Y.shape[1]
    order = rng.permutation(n) if groups is None else np.arange(n)
    for group in [] if groups is None else np.unique(groups):
        members = np.flatnonzero(groups == group)
        order[members] = rng.permutation(members)
    return training._replace(Y=training.Y[:, order])
