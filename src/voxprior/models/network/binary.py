"""Voxels made binary: where each is cut, learned from training samples, and the states packed.

State 1 means x > cut. The cut of a voxel is its training median (``median``), the middle between
its lowest and its highest class mean (``class``), or a number given. Data that are 0 and 1 already
are cut at 1/2.
"""

from collections.abc import Iterator

import numpy as np

from voxprior.bits import pack_blocks

# Features handled at a time, so that no temporary of the size of X is made.
BLOCK = 1 << 14


def is_binary(X: np.ndarray) -> bool:
    """Whether all values are 0 or 1."""
    return X.dtype == bool or all(
        bool(np.all((part == 0) | (part == 1))) for part in (X[:, s] for s in _blocks(X))
    )


def learn_cut(X: np.ndarray, y: np.ndarray, n_classes: int, cut: float | str) -> np.ndarray:
    """Cut of every voxel (n_features,), or one for all of them (1,).

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [1.0, 5.0], [5.0, 9.0]])
    >>> learn_cut(X, np.array([0, 0, 1]), 2, "median")
    array([1., 5.])
    >>> learn_cut(X, np.array([0, 0, 1]), 2, "class")
    array([2.75, 6.  ])
    """
    if not isinstance(cut, str):
        return np.array([float(cut)])
    if cut == "auto" and is_binary(X):
        return np.array([0.5])
    if cut != "median":
        share = np.eye(n_classes)[y].T / np.maximum(np.bincount(y, minlength=n_classes)[:, None], 1)
        means = np.hstack([share @ X[:, s].astype(np.float64) for s in _blocks(X)])
        return (means.min(axis=0) + means.max(axis=0)) / 2
    return np.concatenate([np.median(X[:, s].astype(np.float64), axis=0) for s in _blocks(X)])


def above(X: np.ndarray, cut: np.ndarray, features: np.ndarray | slice) -> np.ndarray:
    """State of some features: x > cut."""
    return X[:, features] > (cut if len(cut) == 1 else cut[features])


def packed(X: np.ndarray, cut: np.ndarray) -> np.ndarray:
    """All features cut and packed (n_features, W)."""
    return pack_blocks(above(X, cut, s) for s in _blocks(X))


def _blocks(X: np.ndarray) -> Iterator[slice]:
    for first in range(0, X.shape[1], BLOCK):
        yield slice(first, first + BLOCK)
