"""Oracles of the network tests: equations over plain counts, and data of worked examples."""

from math import lgamma
from types import SimpleNamespace

import numpy as np
import pytest

# Twelve subjects: their class, four voxels, and the class upside down as a fifth.
C = np.array([1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1])
VOXELS = np.column_stack(
    [
        [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1],
        [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1],
        [0, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 0],
        [0, 1, 0, 1, 1, 0, 1, 0, 1, 0, 1, 0],
        1 - C,
    ]
)

# 24 subjects: the class is "a and b" with one label flipped; the voxels are a, b, a near copy of
# each, and one without any link.
a = np.repeat([0, 1], 12)
b = np.tile(np.repeat([0, 1], 6), 2)
AND_CLASS = (a & b).copy()
AND_CLASS[0] = 1
a2, b2 = a.copy(), b.copy()
a2[3], b2[20] = 1, 0
AND_VOXELS = np.column_stack([a, b, a2, b2, np.arange(24) % 2])


def naive_score(y, parents, n_classes, alpha):
    """Equation (1) from dictionaries of counts; the state space of each parent is {0, 1}."""
    a = 1 / (n_classes * 2 ** parents.shape[1]) if alpha == "bdeu" else alpha
    cells = {}
    for configuration, k in zip(map(tuple, parents), y):
        cells.setdefault(configuration, [0] * n_classes)[k] += 1
    total = 0.0
    for N in cells.values():
        total += lgamma(n_classes * a) - lgamma(n_classes * a + sum(N))
        total += sum(lgamma(a + c) - lgamma(a) for c in N)
    return total


def naive_gain(X, y, parents, v, n_classes, alpha):
    before = naive_score(y, X[:, parents], n_classes, alpha)
    return naive_score(y, X[:, [*parents, v]], n_classes, alpha) - before


def alike(X, rows, v, r, tolerance):
    """Posterior mean of disagreement each way below the tolerance."""
    off = np.sum((X[rows, v] == 0) & (X[rows, r] == 1))
    on = np.sum((X[rows, v] == 1) & (X[rows, r] == 0))
    return max(off, on) + 1 < tolerance * (len(rows) + 4)


def naive_search(X, y, n_classes, alpha, max_parents=99, rows=None, tolerance=None):
    """Algorithm 1 line by line; with a tolerance, equivalents leave the race."""
    rows = np.arange(len(y)) if rows is None else rows
    V, parents, clusters = set(range(X.shape[1])), [], []

    def delta(v):
        inside = [
            X[rows][(X[rows][:, parents] == c).all(axis=1), v]
            for c in np.unique(X[rows][:, parents], axis=0)
        ]
        if not any(len(np.unique(x)) > 1 for x in inside):
            return 0.0
        return naive_gain(X[rows], y[rows], parents, v, n_classes, alpha)

    while len(parents) < max_parents:
        score = {v: delta(v) for v in sorted(V)}
        A = [v for v in score if score[v] > 1e-9]
        if not A:
            break
        top = max(score.values())
        chosen = min(v for v in A if score[v] > top - 1e-9)
        if parents and tolerance:
            E = {v for v in V - set(A) if alike(X, rows, v, parents[-1], tolerance)}
            clusters.append(sorted(E))
            V -= E
        V -= {chosen}
        parents.append(chosen)
    if parents and tolerance:
        clusters.append(sorted(v for v in V if alike(X, rows, v, parents[-1], tolerance)))
    return parents, clusters


@pytest.fixture(scope="session")
def oracle():
    """Naive functions and small data that several test files share."""
    return SimpleNamespace(
        C=C,
        voxels=VOXELS,
        and_voxels=AND_VOXELS,
        and_class=AND_CLASS,
        score=naive_score,
        gain=naive_gain,
        search=naive_search,
    )
