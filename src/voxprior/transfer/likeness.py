"""Scans recognised without keeping them: random projections, by which near-copies are found.

A scan x, centred as it is decoded, less its mean over voxels and of length 1, is kept as k
projections P x on random directions, drawn anew from a fixed seed. Cosines of projections estimate
correlations of scans, with a standard deviation of about (1 − r²)/√k: enough to know a copy, far
too few to draw a scan.

| symbol | variable | shape |
|---|---|---|
| k projections of n scans | `sketch` | (n, k) |
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

PROJECTIONS = 128
NEAR_COPY = 0.95  # correlation above which two scans are one scan
FEWEST_VOXELS = 20  # with fewer, scans that have nothing to do with each other may correlate
BLOCK = 20_000  # voxels at a time


def sketch(X: NDArray) -> NDArray[np.float32]:
    """Projections (n, k) of scans (n, V), of length 1; those of a constant scan are 0."""
    X = np.asarray(X, dtype=np.float64)
    X = X - X.mean(axis=1, keepdims=True)
    rng = np.random.default_rng([X.shape[1], PROJECTIONS])
    found = np.zeros((len(X), PROJECTIONS))
    for start in range(0, X.shape[1], BLOCK):
        block = X[:, start : start + BLOCK]
        found += block @ rng.standard_normal((block.shape[1], PROJECTIONS))
    length = np.linalg.norm(found, axis=1, keepdims=True)
    # With the number of voxels in front, sketches of other spaces are never compared.
    unit = np.divide(found, length, out=np.zeros_like(found), where=length > 0)
    return np.column_stack([np.full(len(X), X.shape[1]), unit]).astype(np.float32)


def near_copies(new: NDArray, others: Mapping[str, NDArray]) -> list[str]:
    """Names of subjects who have a near-copy of one of these scans (n, V), centred alike.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4, 50))
    >>> near_copies(X[:1] + 0.01, {"twin": sketch(X), "other": sketch(rng.normal(size=(4, 50)))})
    ['twin']
    """
    if new.shape[1] < FEWEST_VOXELS:
        return []
    own = sketch(new)
    return [
        name
        for name, one in others.items()
        if one.size and one[0, 0] == own[0, 0] and (own[:, 1:] @ one[:, 1:].T).max() > NEAR_COPY
    ]
