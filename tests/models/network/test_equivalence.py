"""Equivalence rules against the Beta law, and belief propagation against enumeration."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import gammaln
from scipy.stats import beta

from voxprior import VoxelSpace
from voxprior.models.network.bits import pack
from voxprior.models.network.equivalence import (
    belief_map,
    count_limit,
    disagreement_counts,
    equivalent,
    evidence_ratio,
    parent_evidence,
)


def accepted(rule, n01, n, tolerance, confidence):
    if rule == "dirichlet":
        return beta(1 + n01, 3 + n - n01).cdf(tolerance) >= confidence
    if rule == "mean":
        return (n01 + 1) / (n + 4) < tolerance
    return n01 / n <= tolerance


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(2, 140),
    rule=st.sampled_from(["dirichlet", "mean", "frequency"]),
    tolerance=st.sampled_from([0.05, 0.1, 0.25]),
    confidence=st.sampled_from([0.3, 0.5, 0.9]),
    seed=st.integers(0, 10**6),
)
def test_rules_by_counts(n, rule, tolerance, confidence, seed):
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.integers(0, 2, (n, 1)), 8, axis=1)
    X ^= rng.random(X.shape) < rng.uniform(0, 0.3, 8)
    limit = count_limit(rule, n, tolerance, confidence)
    found = equivalent(pack(X), 2, limit, np.ones(n, int))
    for v in range(8):
        n01 = np.sum((X[:, v] == 0) & (X[:, 2] == 1))
        n10 = np.sum((X[:, v] == 1) & (X[:, 2] == 0))
        expected = all(accepted(rule, c, n, tolerance, confidence) for c in (n01, n10))
        assert found[v] == expected


def test_weights_are_copies():
    rng = np.random.default_rng(0)
    X, weights = rng.integers(0, 2, (80, 6)), rng.integers(0, 6, 80)
    copied = np.repeat(X, weights, axis=0)
    once = np.ones(len(copied), int)
    assert_allclose(
        disagreement_counts(pack(X), 1, weights), disagreement_counts(pack(copied), 1, once)
    )
    joint = [
        [np.sum((copied[:, v] == s) & (copied[:, 1] == r)) for s, r in product((0, 1), (0, 1))]
        for v in range(6)
    ]
    expected = evidence_ratio(np.array(joint), 0.1)
    assert_allclose(parent_evidence(pack(X), 1, weights, 0.1), expected, rtol=1e-12)
    # with many voxels the ratios come from a table
    many = pack(np.tile(X, 3000))
    assert_allclose(parent_evidence(many, 1, weights, 0.1), np.tile(expected, 3000), rtol=1e-12)


def test_unknown_rule():
    with pytest.raises(ValueError, match="dirichlet"):
        count_limit("nearly", 10, 0.1)


def test_evidence_prefers_equivalence_to_a_copy_and_not_to_noise():
    counts = np.array([[50, 0, 0, 50], [25, 25, 25, 25], [48, 2, 2, 48]])
    ratio = evidence_ratio(counts, 0.1)
    assert ratio[0] > ratio[2] > 0 > ratio[1]
    prior, flat = np.array([4.5, 0.5, 0.5, 4.5]), np.ones(4)
    by_hand = [
        gammaln(p.sum()) - gammaln(p.sum() + 100) + np.sum(gammaln(p + counts[2]) - gammaln(p))
        for p in (prior, flat)
    ]
    assert_allclose(ratio[2], by_hand[0] - by_hand[1], rtol=1e-12)


def enumerated(unary, adjacency, coupling):
    """P(z_v = 1) by summing over all labellings."""
    edges = np.argwhere(np.triu(adjacency.toarray()))
    Z, ones = 0.0, np.zeros(len(unary))
    for z in product((0, 1), repeat=len(unary)):
        z = np.array(z)
        p = np.exp(z @ unary + coupling * sum(z[v] == z[w] for v, w in edges))
        Z, ones = Z + p, ones + p * z
    return ones / Z


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), coupling=st.floats(0, 2))
def test_beliefs_are_exact_on_a_chain(seed, coupling):
    unary = np.random.default_rng(seed).normal(0, 2, 9)
    chain = VoxelSpace.grid(9).adjacency(6)
    assert_allclose(
        belief_map(unary, chain, coupling), enumerated(unary, chain, coupling), atol=1e-6
    )


def log_domain(unary, adjacency, coupling, n_sweeps=300):
    """Loopy belief propagation, all messages at once, in log-odds."""
    A = adjacency.toarray().astype(bool)
    m = np.zeros(A.shape)  # m[v, w]: what w tells v
    for _ in range(n_sweeps):
        h = unary + m.sum(axis=1)
        m = np.where(A, 2 * np.arctanh(np.tanh(coupling / 2) * np.tanh((h[:, None] - m) / 2)).T, 0)
    return 1 / (1 + np.exp(-unary - m.sum(axis=1)))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), coupling=st.floats(-1, 1), scale=st.sampled_from([0.5, 3, 100]))
def test_beliefs_by_odds_equal_those_by_log_odds(seed, coupling, scale):
    unary = np.random.default_rng(seed).normal(0, scale, 24) + scale
    graph = VoxelSpace.grid((2, 3, 4)).adjacency(6)
    found = belief_map(unary, graph, coupling, n_sweeps=1000)
    assert_allclose(found, log_domain(unary, graph, coupling), atol=1e-5)


def test_extreme_fields_stay_finite():
    chain = VoxelSpace.grid(9).adjacency(6)
    unary = np.array([900.0, -5, -5, -5, 0, 3, -900, 2, 2])
    for coupling in (30.0, 300.0, -300.0):
        belief = belief_map(unary, chain, coupling)
        assert np.all((belief >= 0) & (belief <= 1))
        assert belief[0] > 0.99
        assert belief[6] < 0.01
    assert np.all(belief_map(np.full(9, -1.0) + 3 * (np.arange(9) == 4), chain, 300.0) < 0.5)


def test_beliefs_on_a_loopy_grid_are_near_the_truth_and_spread_to_neighbours():
    rng = np.random.default_rng(1)
    space = VoxelSpace.grid((3, 4))
    unary = rng.normal(0, 1, 12)
    graph = space.adjacency(6)
    assert_allclose(belief_map(unary, graph, 0.5), enumerated(unary, graph, 0.5), atol=0.03)
    surrounded = np.full(12, 3.0)
    surrounded[5] = -1.0
    alone = belief_map(surrounded, None, 1.0)[5]
    assert belief_map(surrounded, graph, 1.0)[5] > 0.5 > alone


def test_order_of_voxels_does_not_matter_for_beliefs():
    rng = np.random.default_rng(2)
    space = VoxelSpace.grid((4, 4, 2))
    unary, order = rng.normal(0, 2, 32), rng.permutation(32)
    straight = belief_map(unary, space.adjacency(6), 0.4)
    assert_allclose(
        belief_map(unary[order], space.take(order).adjacency(6), 0.4), straight[order], atol=1e-5
    )
