"""Leave-one-out searches against searches of their own; frequencies, bootstrap."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from voxprior.models.network.bits import pack
from voxprior.models.network.greedy import grow
from voxprior.models.network.score import TIE, class_cells, gains
from voxprior.models.network.stability import (
    _slack,
    bootstrap_paths,
    dominant_dimension,
    frequencies,
    is_dominant,
    leave_one_out_paths,
)

PATHS = [(0, 1)] * 6 + [(1, 0)] * 3 + [(2, 1)] * 6 + [(0,)] * 1 + [()] * 4


def study(n, n_classes, n_noise, density, seed):
    """Parents with near copies, exact copies, constants and noise; the copies make many ties."""
    rng = np.random.default_rng(seed)
    base = rng.random((n, 3)) < density
    near = base[:, rng.integers(0, 3, 8)] ^ (rng.random((n, 8)) < 0.08)
    noise = rng.random((n, n_noise)) < density
    columns = [near, near[:, :3], np.zeros((n, 2)), np.ones((n, 1)), noise, noise[:, :2], ~near]
    X = np.column_stack(columns).astype(np.int64)
    y = base.sum(axis=1) % n_classes
    y = np.where(rng.random(n) < 0.15, rng.integers(0, n_classes, n), y)
    order = rng.permutation(X.shape[1])
    return X[:, order], y


@settings(max_examples=15, deadline=None)
@given(
    n=st.integers(3, 24),
    n_classes=st.integers(2, 4),
    density=st.sampled_from([0.1, 0.5]),
    alpha=st.sampled_from([1.0, "bdeu", 0.2]),
    limit=st.sampled_from([1, 3, 9]),
    seed=st.integers(0, 10**6),
)
def test_jackknife_equals_naive_searches(oracle, n, n_classes, density, alpha, limit, seed):
    X, y = study(n, n_classes, 6, density, seed)
    for i, found in enumerate(leave_one_out_paths(pack(X), y, n_classes, alpha, limit)):
        rows = np.delete(np.arange(n), i)
        assert list(found) == oracle.search(X, y, n_classes, alpha, limit, rows)[0]


@settings(max_examples=8, deadline=None)
@given(
    n=st.sampled_from([63, 64, 65, 90, 119, 130]),
    n_classes=st.integers(2, 4),
    density=st.sampled_from([0.05, 0.5, 0.8]),
    alpha=st.sampled_from([1.0, "bdeu"]),
    seed=st.integers(0, 10**6),
)
def test_jackknife_equals_refits_on_the_other_samples(n, n_classes, density, alpha, seed):
    X, y = study(n, n_classes, 3000, density, seed)
    words = pack(X)
    for i, found in enumerate(leave_one_out_paths(words, y, n_classes, alpha, 5)):
        if i % 9 == 0:
            weights = np.ones(n, dtype=np.int64)
            weights[i] = 0
            refit = grow(words, y, n_classes, alpha, 5, weights=weights)
            assert list(found) == refit.parents.tolist()


@settings(max_examples=20, deadline=None)
@given(
    n=st.integers(3, 80),
    n_parents=st.integers(0, 3),
    alpha=st.sampled_from([1.0, "bdeu", 0.2]),
    seed=st.integers(0, 10**6),
)
def test_no_voxel_rises_by_more_than_its_slack(n, n_parents, alpha, seed):
    X, y = study(n, 3, 40, 0.4, seed)
    words, parents = pack(X), list(range(n_parents))
    cells = class_cells(words, y, 3, parents, alpha)
    scores = cells.score + gains(words, cells)
    slack = _slack(cells, y, np.arange(n))
    for i in range(n):
        weights = np.ones(n, dtype=np.int64)
        weights[i] = 0
        without = class_cells(words, y, 3, parents, alpha, weights)
        delta = gains(words, without)
        counts = delta != 0.0
        assert np.all((without.score + delta)[counts] <= scores[counts] + slack[i] + TIE)


def test_frequencies_compare_sets():
    f = frequencies(PATHS, [0, 1])
    assert f.models == [(0, 1), (1, 2), (), (0,)]
    assert_allclose(f.model_frequency, [0.45, 0.3, 0.2, 0.05])
    assert dict(zip(f.edges.tolist(), f.edge_frequency.round(2))) == {1: 0.75, 0: 0.5, 2: 0.3}
    assert not f.dominant
    assert f.selected == 0


def test_frequencies_by_cluster_join_neighbours():
    f = frequencies(PATHS, [0, 1], groups={0: 0, 2: 0, 1: 1})
    assert f.models[0] == (0, 1)
    assert_allclose(f.model_frequency[0], 0.75)
    assert f.dominant


def test_dimension_is_lowered_until_a_model_dominates():
    paths = [(0, i) for i in range(1, 11)]
    assert dominant_dimension(paths, [0, 1]) == 1
    assert dominant_dimension([(i,) for i in range(10)], [0]) == 0
    assert dominant_dimension([(0, 1)] * 10, [0, 1]) == 2
    # a dominant model that is not the learned one does not count
    assert dominant_dimension([(5,)] * 10, [0]) == 0


def test_dominance():
    assert is_dominant(np.array([0.5, 0.5]))
    assert is_dominant(np.array([0.4, 0.2, 0.2]))
    assert not is_dominant(np.array([0.4, 0.3]))
    assert is_dominant(np.array([1.0]))


def test_bootstrap_equals_search_on_copied_samples(oracle):
    rng = np.random.default_rng(5)
    paths = bootstrap_paths(
        pack(oracle.and_voxels), oracle.and_class, 2, 1.0, 3, 12, np.random.default_rng(5)
    )
    for path in paths:
        rows = np.repeat(np.arange(24), np.bincount(rng.integers(0, 24, 24), minlength=24))
        assert (
            list(path)
            == oracle.search(oracle.and_voxels[rows], oracle.and_class[rows], 2, 1.0, 3)[0]
        )
