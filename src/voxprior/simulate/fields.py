"""Classes that differ in sparse conditional structure alone: the assumption of random fields.

Class c orders the same nodes at random, π_c, and is a stationary AR(1) chain along that order:

    x_π(1) = ε_1,   x_π(k) = ρ x_π(k-1) + √(1 - ρ²) ε_k

Every node is N(0, 1) in every class, so no voxel alone tells the classes apart; but node π(k)
depends on its two neighbours in the chain only, with coefficients ρ / (1 + ρ²) (ρ at the ends).
Runs r of the same subject share part of their chain, x = √w z_subject + √(1 - w) z_run, which
leaves the covariance as it is.

| symbol | variable | shape |
|---|---|---|
| π_c | `truth["order"]` | (C, n_nodes), numbers of voxels |
| ρ | `coupling` | scalar |
| w, correlation of two runs | `run_correlation` | scalar |
| β_c, row i predicts node i from the others | `truth["coef"]` | (C, n_nodes, n_nodes) |
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from voxprior.errors import InputError, option
from voxprior.simulate.data import Simulated
from voxprior.simulate.geometry import as_space
from voxprior.simulate.noise import add_group_effects, balanced_design
from voxprior.space import VoxelSpace

__all__ = ["chains"]


def chains(
    space: VoxelSpace | int | tuple[int, ...] | None = None,
    n_per_class: int = 40,
    *,
    n_nodes: int = 40,
    coupling: float = 0.5,
    n_classes: int = 2,
    n_runs: int = 1,
    run_correlation: float = 0.5,
    group_offset: float = 0.0,
    group_scale: float = 0.0,
    random_state: int | np.random.Generator | None = None,
) -> Simulated:
    """Simulate classes with equal marginals and different sparse conditionals.

    Parameters
    ----------
    space : VoxelSpace or shape of a grid, default (n_nodes,)
        Where the voxels are; nodes are chosen among them at random, the others are white noise.
    n_per_class : int
        Subjects of each class.
    n_nodes : int
        Voxels that take part in the chains.
    coupling : float
        Correlation ρ of neighbours in a chain, -1 < ρ < 1.
    n_classes : int
        Number of classes C.
    n_runs : int
        Scans of each subject; they share a group.
    run_correlation : float
        Correlation w between two scans of a subject, from 0 to 1.
    group_offset, group_scale : float
        Standard deviations of the subjects' offset maps and log scales.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    Simulated
        X is float32 (C n_per_class n_runs, V). The truth has `order` (C, n_nodes), `nodes`
        (n_nodes,) sorted voxel numbers, `node` (V,) where they are, and `coef`
        (C, n_nodes, n_nodes), whose row i predicts node `nodes[i]`.

    Examples
    --------
    >>> from voxprior.simulate import chains
    >>> data = chains(n_nodes=20, n_per_class=9, n_runs=2, random_state=0)
    >>> data.X.shape, len(set(data.groups))
    ((36, 20), 18)
    >>> (data.truth["coef"][0] != 0).sum(axis=1).max()  # two neighbours at most
    np.int64(2)
    """
    _check(coupling, run_correlation)
    rng = np.random.default_rng(random_state)
    space = as_space(space, (n_nodes,))
    if not 2 <= n_nodes <= space.n_voxels:
        raise InputError(
            f"{option('n_nodes', n_nodes)} cannot be used",
            expected=f"2 to {space.n_voxels}, the voxels of the space",
        )
    nodes = np.sort(rng.choice(space.n_voxels, size=n_nodes, replace=False))
    order = np.array([rng.permutation(nodes) for _ in range(n_classes)])
    subject_label, subject = balanced_design(n_per_class, n_classes, None)
    y, groups = np.repeat(subject_label, n_runs), np.repeat(subject, n_runs)
    X = np.empty((len(y), space.n_voxels), dtype=np.float32)
    for s, label in enumerate(subject_label):
        z = rng.standard_normal((n_runs + 1, space.n_voxels))
        z[:, order[label]] = _chain(z[:, order[label]], coupling)
        runs = slice(s * n_runs, (s + 1) * n_runs)
        X[runs] = np.sqrt(run_correlation) * z[0] + np.sqrt(1 - run_correlation) * z[1:]
    truth = {
        "order": order,
        "nodes": nodes,
        "node": np.isin(np.arange(space.n_voxels), nodes),
        "coef": np.array([_coefficients(np.searchsorted(nodes, o), coupling) for o in order]),
    }
    truth |= add_group_effects(X, groups, space, group_offset, group_scale, rng)
    return Simulated(X, y, groups, space, truth)


def _check(coupling: float, run_correlation: float) -> None:
    if not -1 < coupling < 1:
        raise InputError(
            f"{option('coupling', coupling)} cannot be used",
            expected="a number above -1 and below 1",
        )
    if not 0 <= run_correlation <= 1:
        raise InputError(
            f"{option('run_correlation', run_correlation)} cannot be used",
            expected="a number from 0 to 1",
        )


def _chain(noise: NDArray, rho: float) -> NDArray[np.float64]:
    """Turn white noise (n, n_nodes) into stationary AR(1) chains along the rows."""
    innovations = np.sqrt(1 - rho**2) * noise
    innovations[:, 0] = noise[:, 0]
    return lfilter([1.0], [1.0, -rho], innovations, axis=1)


def _coefficients(order: NDArray[np.int64], rho: float) -> NDArray[np.float64]:
    """Return the regression of each node on all others; the chain's precision is tridiagonal."""
    coef = np.zeros((len(order), len(order)))
    middle = rho / (1 + rho**2)
    coef[order[1:], order[:-1]] = coef[order[:-1], order[1:]] = middle
    coef[order[0], order[1]] = coef[order[-1], order[-2]] = rho
    return coef
