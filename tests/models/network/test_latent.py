"""Latent states: incremental scores against full ones, ICM's descent, and new samples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from voxprior.models.network.bits import pack
from voxprior.models.network.latent import (
    flip_changes,
    infer_latent,
    latent_score,
    predictive_weights,
)


@pytest.fixture(scope="module")
def full_score(oracle):
    """(1) of L without parents and of every child given L."""

    def score(X, L, alpha):
        own = oracle.score(L, np.empty((len(L), 0)), 2, alpha)
        return own + sum(oracle.score(x, L[:, None], 2, alpha) for x in X.T)

    return score


def test_from_the_class_to_the_mode(oracle):
    third = [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1]
    words = pack(np.column_stack([oracle.voxels[:, :2], third]))
    assert_allclose(latent_score(words, oracle.C, 1.0), -30.944210, atol=5e-7)
    expected = [-3.465319] * 3 + [-1.673560, 4.589838] + [-2.772172] * 5 + [2.056142, -3.465319]
    assert_allclose(flip_changes(words, oracle.C, 1.0), expected, atol=5e-7)
    found = infer_latent(words, 12, oracle.C)
    assert found.state.tolist() == [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1]
    assert_allclose(found.scores[-1], -24.652641, atol=5e-7)
    after_one_flip = oracle.C.copy()
    after_one_flip[4] = 0
    assert_allclose(latent_score(words, after_one_flip, 1.0), -26.354372, atol=5e-7)
    odds = found.bias + np.array([1, 1, 0]) @ found.weight
    assert_allclose(1 / (1 + np.exp(-odds)), 0.923077, atol=5e-7)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(2, 80),
    n_children=st.integers(1, 8),
    alpha=st.sampled_from([1.0, 0.4, "bdeu"]),
    seed=st.integers(0, 10**6),
)
def test_incremental_equals_full_difference(full_score, n, n_children, alpha, seed):
    rng = np.random.default_rng(seed)
    X, L = rng.integers(0, 2, (n, n_children)), rng.integers(0, 2, n)
    words = pack(X)
    full = full_score(X, L, alpha)
    assert_allclose(latent_score(words, L, alpha), full, rtol=1e-11)
    changes = flip_changes(words, L, alpha)
    for j in range(n):
        flipped = L.copy()
        flipped[j] = 1 - L[j]
        assert_allclose(changes[j], full_score(X, flipped, alpha) - full, atol=1e-9)
    # label switching leaves the score alone
    assert_allclose(latent_score(words, 1 - L, alpha), full, rtol=1e-11)


@settings(max_examples=30, deadline=None)
@given(alpha=st.sampled_from([1.0, "bdeu"]), seed=st.integers(0, 10**6), n=st.integers(3, 130))
def test_icm_climbs_to_a_local_mode(full_score, alpha, seed, n):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, n)
    X = truth[:, None] ^ (rng.random((n, 6)) < 0.2)
    X = X[:, [0, 1, 2, 3, 4, 5, 1, 1]].astype(int)  # identical children are merged
    found = infer_latent(pack(X), n, X[:, 0], alpha)
    assert np.all(np.diff(found.scores) > 0)
    assert_allclose(found.scores[-1], full_score(X, found.state, alpha), rtol=1e-10)
    assert flip_changes(pack(X), found.state, alpha).max() <= 1e-9


@settings(max_examples=20, deadline=None)
@given(alpha=st.sampled_from([1.0, "bdeu"]), seed=st.integers(0, 10**6))
def test_new_sample_log_odds_are_differences_of_full_scores(full_score, alpha, seed):
    rng = np.random.default_rng(seed)
    X, L, new = rng.integers(0, 2, (25, 5)), rng.integers(0, 2, 25), rng.integers(0, 2, 5)
    bias, weight = predictive_weights(pack(X), L, alpha)
    grown = np.vstack([X, new])
    one, zero = (full_score(grown, np.append(L, state), alpha) for state in (1, 0))
    assert_allclose(bias + new @ weight, one - zero, atol=1e-9)


@pytest.mark.parametrize("method", ["icm", "synchronous", "gibbs"])
def test_every_method_recovers_a_clear_state(full_score, method):
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 2, 119)
    X = (truth[:, None] ^ (rng.random((119, 40)) < 0.15)).astype(int)
    found = infer_latent(pack(X), 119, X[:, 0], method=method, rng=np.random.default_rng(0))
    assert np.array_equal(found.state, truth)
    assert_allclose(found.scores[-1], full_score(X, truth, 1.0), rtol=1e-10)


def test_restarts_never_lower_the_score_and_are_reproducible():
    rng = np.random.default_rng(4)
    X = rng.integers(0, 2, (30, 6))
    plain = infer_latent(pack(X), 30, X[:, 0])
    again = [
        infer_latent(pack(X), 30, X[:, 0], n_restarts=8, rng=np.random.default_rng(7))
        for _ in range(2)
    ]
    assert again[0].scores[-1] >= plain.scores[-1]
    assert np.array_equal(again[0].state, again[1].state)
    assert np.mean(again[0].state == X[:, 0]) >= 0.5


def test_synchronous_stops_though_it_may_oscillate(full_score):
    X = np.array([[0], [1]])
    for start in ([0, 1], [1, 0], [0, 0]):
        found = infer_latent(pack(X), 2, np.array(start), method="synchronous", n_sweeps=50)
        assert len(found.scores) < 50
        assert_allclose(max(found.scores), full_score(X, found.state, 1.0), rtol=1e-12)
