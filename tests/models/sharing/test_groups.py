"""Groups that are learned from the scans: against loops over pairs of voxels."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from voxprior import FeatureSharingNB, VoxelSpace
from voxprior.errors import InputError
from voxprior.models.sharing import groups as module
from voxprior.models.sharing.groups import learned_groups
from voxprior.models.sharing.statistics import class_statistics


def correlation(a, b):
    a, b = a - a.mean(), b - b.mean()
    power = (a @ a) * (b @ b)
    return a @ b / np.sqrt(power) if power > 1e-20 else 0.0


def naive(means, X, V, neighbors, k):
    """Weights (V, V), pair by pair."""
    course = X.reshape(-1, V)
    R = np.array([[correlation(course[:, v], course[:, u]) for u in range(V)] for v in range(V)])
    G = np.zeros((V, V))
    for v in range(V):
        others = [u for u in range(V) if u != v and R[v, u] > 1e-9]
        if means == "metric":
            for u in others:
                G[v, u] = R[v, u] ** 2 if neighbors[v, u] else 0.0
        else:
            best = sorted(others, key=lambda u: (-round(R[v, u], 9), u))[:k]
            G[v, best] = 1.0
    return G


@pytest.mark.parametrize("means", ["correlated", "metric"])
@pytest.mark.parametrize("T", [1, 4])
def test_equals_loops(rng, means, T, monkeypatch):
    space = VoxelSpace.grid((3, 3, 2))
    V = space.n_voxels
    X = rng.normal(size=(5, T * V))
    X.reshape(5, T, V)[..., 4] = 2.5  # never varies
    X.reshape(5, T, V)[..., 6] = X.reshape(5, T, V)[..., 7]  # twins
    graph = space.adjacency()
    expected = naive(means, X, V, graph.toarray(), 4)
    for block in (1, 50, 10_000):  # rows at a time make no difference
        monkeypatch.setattr(module, "_BLOCK", block)
        found = learned_groups(means, X, graph, 4).toarray()
        np.testing.assert_allclose(found, expected, atol=1e-9)
    model = FeatureSharingNB(space, means=means, group_size=4, shrinkage=None).fit(
        X, [0, 1] * 2 + [1]
    )
    given = FeatureSharingNB(space, means=sparse.csr_array(expected), shrinkage=None)
    np.testing.assert_allclose(model.theta_, given.fit(X, [0, 1] * 2 + [1]).theta_, rtol=1e-9)


def test_groups_need_no_space_and_cross_the_brain(rng):
    """Two halves that answer together find each other; without coordinates too."""
    y = np.repeat([0, 1], 4)
    signal = rng.normal(size=(8, 3))
    where = np.arange(30) % 3
    X = signal[:, where] + 0.3 * rng.normal(size=(8, 30))
    model = FeatureSharingNB(means="correlated", group_size=5).fit(X, y)
    G = learned_groups("correlated", X, sparse.csr_array((30, 30)), 5).tocoo()
    assert np.mean(where[G.coords[0]] == where[G.coords[1]]) > 0.8
    assert model.group_size_.max() == 5


def test_labels_play_no_part(rng):
    X = rng.normal(size=(6, 12))
    first, second = ([0, 1] * 3, [0, 0, 0, 1, 1, 1])
    sizes = [FeatureSharingNB(means="correlated").fit(X, y).group_size_ for y in (first, second)]
    np.testing.assert_array_equal(*sizes)


@pytest.mark.parametrize("means", ["correlated", "metric"])
def test_only_training_scans_are_looked_at(rng, means):
    space, X = VoxelSpace.grid((4, 4)), rng.normal(size=(8, 32))
    y, rows = np.array([0, 1, 0, 1]), np.array([0, 2, 3, 5])
    model = FeatureSharingNB(space, means=means, group_size=3)
    fitted = clone(model).fit(X[rows], y)
    again = model.fit_prepared(model.prepare(X), rows, y)
    np.testing.assert_array_equal(again.theta_, fitted.theta_)
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))


@pytest.mark.parametrize("means", ["correlated", "metric"])
def test_one_scan_per_class_constant_scans_and_float32(rng, means):
    space, y = VoxelSpace.grid((3, 3)), np.array(["x", "y"])
    X = rng.normal(size=(2, 9)).astype(np.float32)
    X[:, 0] = 1
    model = FeatureSharingNB(space, means=means).fit(X, y)
    assert list(model.predict(X)) == ["x", "y"]
    assert learned_groups(means, X[:, :1], sparse.csr_array((1, 1)), 4).nnz == 0  # nobody else
    empty = learned_groups(means, np.ones((3, 9)), space.adjacency(), 4)
    assert empty.nnz == 0


def test_class_statistics_will_not_do(rng):
    X, y = rng.normal(size=(4, 6)), np.array([0, 0, 1, 1])
    model = FeatureSharingNB(means="correlated")
    for call in (
        lambda: model.partial_fit(X, y, classes=[0, 1]),
        lambda: model.fit_statistics(class_statistics(X, y, 2), [0, 1]),
        lambda: clone(model).fit(X, y).forget(X[:1], y[:1]),
    ):
        with pytest.raises(InputError, match="learns groups from all training scans"):
            call()


def test_a_metric_needs_neighbours(rng):
    with pytest.raises(InputError, match="there are none without a space"):
        FeatureSharingNB(means="metric").fit(rng.normal(size=(4, 3)), [0, 0, 1, 1])
