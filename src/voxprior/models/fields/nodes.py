"""Choosing the nodes of a field and standardising them, always from training scans alone."""

from typing import NamedTuple

import numpy as np

from voxprior.models.fields.ranking import (
    correlation_score,
    mutual_information_score,
    top_nodes,
)

INFORMATION = "mutual_information"
RANKINGS = (
    "correlation",
    INFORMATION,
    *(f"{INFORMATION}_{marginal}" for marginal in ("total", "mixture", "continuous")),
)


class Nodes(NamedTuple):
    """Chosen features with the statistics they are standardised by."""

    features: np.ndarray
    center: np.ndarray
    scale: np.ndarray

    def take(self, X: np.ndarray) -> np.ndarray:
        """Scans at the nodes, standardised, float64."""
        return (np.asarray(X[:, self.features], dtype=float) - self.center) / self.scale


def rank_features(X: np.ndarray, codes: np.ndarray, ranking: str) -> np.ndarray:
    """Score (n_features,) of every feature by one of ``RANKINGS``."""
    if ranking == "correlation":
        return correlation_score(X, codes)
    marginal = ranking.removeprefix(INFORMATION).removeprefix("_") or "printed"
    return mutual_information_score(X, codes, marginal)


def choose_nodes(
    X: np.ndarray,
    score: np.ndarray,
    given: np.ndarray | None = None,
    n_nodes: int | None = None,
    min_score: float | None = None,
    standardize: bool = True,
) -> Nodes:
    """The nodes given, or the best by ``score``; a constant node keeps scale 1."""
    index = top_nodes(score, n_nodes, min_score) if given is None else given
    if not len(index):
        raise ValueError(
            f"No feature reaches min_score={min_score}: the best has {score.max():.4g}. Lower it."
        )
    if not standardize:
        return Nodes(index, np.zeros(len(index)), np.ones(len(index)))
    values = np.asarray(X[:, index], dtype=float)
    center, scale = values.mean(axis=0), values.std(axis=0)
    # Below rounding of the mean a spread is no spread.
    constant = scale <= 1e-12 * np.maximum(np.abs(center), np.finfo(float).tiny)
    return Nodes(index, center, np.where(constant, 1.0, scale))
