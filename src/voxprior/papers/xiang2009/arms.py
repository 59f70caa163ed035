"""The classifiers every experiment compares, and the measures they are compared by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from voxprior import SpatialBoostingClassifier, VoxelSpace

Arm = Callable[[VoxelSpace], SpatialBoostingClassifier]


def arms(regularization: float, radius: float, n_iterations: int, seed: int = 0) -> dict[str, Arm]:
    """AdaBoost, SRB as printed with either step, its controls, and SRB with our defaults."""
    printed = {"regularization": regularization, "radius": radius, "n_iterations": n_iterations}

    def make(space=None, **changes):
        return SpatialBoostingClassifier.paper(space, **{**printed, "tol": 1e-6, **changes})

    def shuffle(space):
        return space.take(np.random.default_rng(seed).permutation(space.n_voxels))

    return {
        "AdaBoost (λ = 0)": lambda space: make(space, regularization=0.0, step="exact"),
        "SRB, exact step (7)": lambda space: make(space, step="exact"),
        "SRB, conservative step (8)": lambda space: make(space),
        "SRB, backward": lambda space: make(space, step="exact", backward=True),
        "control: places permuted": lambda space: make(shuffle(space), step="exact"),
        "control: ridge, K = I": lambda space: make(space, kernel="identity", step="exact"),
        "SRB, rows equalised": lambda space: make(space, kernel="equalized", step="exact"),
        "SRB, λ = 10, same r": lambda space: SpatialBoostingClassifier(
            space, radius=radius, n_iterations=n_iterations
        ),
    }


def morans_i(values: NDArray, graph) -> float:
    """Moran's I of a map over a graph: near 0 where neighbours are no more alike than others."""
    centered = values - values.mean()
    if not centered.any():
        return 0.0
    return float(centered @ (graph @ centered) / graph.sum() / centered.var())


def mean_sd(values) -> str:
    return f"{np.mean(values):.3f} ± {np.std(values):.3f}"
