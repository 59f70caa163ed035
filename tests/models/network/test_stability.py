"""Frequencies, dominance, bootstrap, and the null of the best gain."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from voxprior.bits import pack
from voxprior.models.network.bdeu import family, gains
from voxprior.models.network.stability import (
    bootstrap_paths,
    dominant_dimension,
    frequencies,
    is_dominant,
    null_gains,
    permutation_null,
)

PATHS = [(0, 1)] * 6 + [(1, 0)] * 3 + [(2, 1)] * 6 + [(0,)] * 1 + [()] * 4


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
    paths = bootstrap_paths(pack(oracle.X6), oracle.y6, 2, 1.0, 3, 12, np.random.default_rng(5))
    for path in paths:
        rows = np.repeat(np.arange(24), np.bincount(rng.integers(0, 24, 24), minlength=24))
        assert list(path) == oracle.search(oracle.X6[rows], oracle.y6[rows], 2, 1.0, 3)[0]


def test_null_permutes_within_configurations_only():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (60, 30))
    y = X[:, 0] ^ (rng.random(60) < 0.1)
    words = pack(X)
    # labels equal the parent: within its configurations there is nothing left to permute
    assert_allclose(null_gains(words, X[:, 0], 2, [0], 1.0, 5, rng), 0.0, atol=1e-9)
    top = null_gains(words, y, 2, [], 1.0, 50, rng)
    assert top.shape == (50,)
    assert gains(words, family(words, y, 2, []))[0] > top.max()


def test_verdict_is_plain():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 2, (40, 300))
    y = X[:, 3]
    words = pack(X)
    scores = np.array([family(words, y, 2, p).score for p in ([], [3], [3, 7])])
    null = permutation_null(words, y, 2, [3, 7], scores, 1.0, 39, rng)
    assert null.p_value[0] == pytest.approx(1 / 40)
    first, second = null.verdict().splitlines()
    assert "is better than chance" in first
    assert "no better than chance" in second
    assert "no parent" in permutation_null(words, y, 2, [], scores[:1], 1.0, 9, rng).verdict()
    stopped = permutation_null(
        words, rng.integers(0, 2, 40), 2, [3, 7], scores[[0, 0, 0]], 1.0, 39, rng, level=0.05
    )
    assert len(stopped.p_value) == 1


@pytest.mark.slow
def test_null_p_values_are_uniform_on_noise():
    p = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        X, y = rng.integers(0, 2, (50, 400)), rng.permutation(np.arange(50) % 2)
        words = pack(X)
        cells = family(words, y, 2, [])
        delta = gains(words, cells)
        v = int(np.argmax(delta))
        scores = np.array([cells.score, cells.score + delta[v]])
        p.append(permutation_null(words, y, 2, [v], scores, 1.0, 39, rng).p_value[0])
    assert 0.4 < np.mean(p) < 0.62
    assert np.mean(np.array(p) <= 0.05) < 0.14
