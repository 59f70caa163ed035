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

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voxprior.models.boosting.boost import Settings
from voxprior.models.boosting.penalty import (
    DiagonalPenalty,
    Penalty,
    PermutedPenalty,
    diagonal_of,
)
from voxprior.models.boosting.selection import Task, fit_problems, restrict

__all__ = ["Controls", "MapControls", "control_maps", "importance_of", "selection_frequency", "top"]


class Controls(NamedTuple):
    """Importance maps of a fit and of its controls; all (V,) but `shuffled`, (n_shuffles, V)."""

    importance: NDArray[np.float64]
    permuted: NDArray[np.float64]
    ridge: NDArray[np.float64]
    diagonal: NDArray[np.float64]
    shuffled: NDArray[np.float64]


class MapControls:
    """The controls of a fitted classifier, as its methods."""

    _refit: Callable[..., tuple[Task, Penalty, Settings]]  # the data and settings of the fit

    def controls(
        self, X: ArrayLike, y: ArrayLike, n_shuffles: int = 20, groups=None, random_state=None
    ) -> Controls:
        """Refit with one thing removed at a time: the maps to hold an importance map against.

        Parameters
        ----------
        X, y : array-like
            The training data; they are sorted once for all refits.
        n_shuffles : int
            Number of refits with permuted labels.
        groups : array-like of shape (n,), optional
            Permute labels within groups only.
        random_state : int, Generator or None
            Source of the permutations.

        Returns
        -------
        Controls
            Maps `importance`, `permuted` (coordinates shuffled), `ridge` (K = I), `diagonal` (K
            without neighbours), all (V,), and `shuffled` labels (n_shuffles, V).
        """
        task, penalty, settings = self._refit(X, y)
        rng = np.random.default_rng(random_state)
        return control_maps(task, penalty, settings, n_shuffles, rng, groups)

    def selection_frequency(
        self,
        X: ArrayLike,
        y: ArrayLike,
        n_bootstraps: int = 50,
        size: int | None = None,
        random_state=None,
    ) -> NDArray[np.float64]:
        """Return the share of bootstrap refits that select each location, (V,).

        Parameters
        ----------
        X, y : array-like
            The training data; they are sorted once for all refits.
        n_bootstraps : int
            Number of refits.
        size : int, optional
            Count a location where it is among this many highest; by default wherever β > 0, which
            at convergence may be nearly everywhere.
        random_state : int, Generator or None
            Source of the draws.
        """
        task, penalty, settings = self._refit(X, y)
        rng = np.random.default_rng(random_state)
        return selection_frequency(task, penalty, settings, n_bootstraps, size, rng)


def importance_of(task: Task, penalty: Penalty, settings: Settings) -> NDArray[np.float64]:
    """Fit, and return β summed over the one-vs-rest problems, (V,)."""
    fitted = fit_problems(task, penalty, settings)
    return np.sum([found.importance for found in fitted], axis=0)


def control_maps(
    task: Task,
    penalty: Penalty,
    settings: Settings,
    n_shuffles: int,
    rng: np.random.Generator,
    groups: NDArray | None = None,
) -> Controls:
    """Fit the true task and every control.

    Parameters
    ----------
    task, penalty, settings
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
        importance_of(task._replace(Y=task.Y[:, _shuffle(task, groups, rng)]), penalty, settings)
        for _ in range(n_shuffles)
    ]
    return Controls(
        importance=importance_of(task, penalty, settings),
        permuted=importance_of(task, permuted, settings),
        ridge=importance_of(task, ridge, settings),
        diagonal=importance_of(task, diagonal_of(penalty), settings),
        shuffled=np.array(shuffled).reshape(n_shuffles, n_locations),
    )


def selection_frequency(
    task: Task,
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
    labels = np.unique(task.Y, axis=1, return_inverse=True)[1].ravel()
    counts = np.zeros(penalty.shape[0])
    for _ in range(n_bootstraps):
        drawn = np.zeros(len(labels))
        for label in np.unique(labels):
            members = np.flatnonzero(labels == label)
            np.add.at(drawn, rng.choice(members, len(members)), 1.0)
        sample = restrict(task, np.flatnonzero(drawn), drawn * task.weights)
        counts += top(importance_of(sample, penalty, settings), size)
    return counts / n_bootstraps


def top(importance: NDArray, size: int | None) -> NDArray[np.bool_]:
    """Return which locations have importance, or the `size` highest of those; (V,) boolean."""
    selected = importance > 0
    if size is not None:
        selected[np.argsort(-importance, kind="stable")[size:]] = False
    return selected


def _shuffle(task: Task, groups: NDArray | None, rng: np.random.Generator) -> NDArray[np.int64]:
    n = task.Y.shape[1]
    if groups is None:
        return rng.permutation(n)
    order = np.arange(n)
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        order[members] = rng.permutation(members)
    return order
