"""All nodes at once against one Kalman filter per node, ridge, least squares and brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from voxprior.models.fields.dual import (
    compressed_field,
    dual_system,
    held_out_path,
    innovation_variance,
    left_out_residuals,
    plain_field,
)
from voxprior.models.fields.field import log_likelihood, noise_from_strength, residual_variance
from voxprior.models.fields.kalman import kalman_filter

ROWS = np.array([[1, 2, 0], [0.5, 1, 1.5], [2, 1, -1], [1, -0.5, 2]])


def without(X, i):
    return np.delete(X, i, axis=1)


def sizes():
    return st.tuples(
        st.integers(2, 12), st.integers(2, 12), st.sampled_from([1e-3, 0.1, 1.0, 30.0])
    )


def test_three_nodes_from_four_scans():
    """All nodes at once, γ = 0.1: coefficients, noise, and the likelihood of a scan of ones."""
    field = plain_field(dual_system(ROWS, 0.1, None))
    B = [[0, 0.641392, 0.145673], [0.645738, 0, -0.133919], [0.278035, -0.253880, 0]]
    np.testing.assert_allclose(field.coef, B, atol=1e-6)
    noise = residual_variance(field.residual)
    np.testing.assert_allclose(noise, [1.177306, 1.185532, 2.300119], atol=1e-6)
    one = np.ones((1, 3))
    with_factor = log_likelihood(one, field.coef, field.intercept, noise)
    literal = log_likelihood(one, field.coef, field.intercept, noise, normalize=False)
    np.testing.assert_allclose([with_factor[0], literal[0]], [-3.666780, -0.326774], atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(sizes(), st.sampled_from(["centered", "penalized", None]), st.integers(0, 10**6))
def test_dual_equals_sequential_filters(size, bias, seed):
    k, n, gamma = size
    X = np.random.default_rng(seed).normal(size=(k, n)) + 1.0
    field = plain_field(dual_system(X, gamma, bias))
    for i in range(n):
        G, x = without(X, i), X[:, i]
        if bias == "penalized":
            G = np.column_stack([G, np.ones(k)])
        if bias == "centered":
            G, x = G - G.mean(axis=0), x - x.mean()
        beta = kalman_filter(G, x, gamma).beta
        np.testing.assert_allclose(without(field.coef, i)[i], beta[: n - 1], rtol=1e-7, atol=1e-8)
        if bias == "penalized":
            np.testing.assert_allclose(field.intercept[i], beta[-1], rtol=1e-7, atol=1e-8)
    assert (np.diagonal(field.coef) == 0).all()
    error = X - X @ field.coef.T - field.intercept
    np.testing.assert_allclose(field.residual, error, rtol=1e-6, atol=1e-7)


def test_free_bias_is_ridge_with_intercept(rng):
    X = rng.normal(size=(9, 6)) + 3.0
    field = plain_field(dual_system(X, 2.0))
    ridge = Ridge(alpha=2.0).fit(without(X, 2), X[:, 2])
    np.testing.assert_allclose(without(field.coef, 2)[2], ridge.coef_, rtol=1e-9)
    np.testing.assert_allclose(field.intercept[2], ridge.intercept_, rtol=1e-9)


def test_tiny_gamma_is_least_squares(rng):
    X = rng.normal(size=(20, 6))
    field = plain_field(dual_system(X, 1e-9, None))
    beta = np.linalg.lstsq(without(X, 1), X[:, 1])[0]
    np.testing.assert_allclose(without(field.coef, 1)[1], beta, rtol=1e-6)


def test_too_few_scans_interpolate(rng):
    X = rng.normal(size=(4, 10))
    small, smaller = (
        residual_variance(plain_field(dual_system(X, g, None)).residual).max() for g in (1e-2, 1e-4)
    )
    assert small < 1e-3
    np.testing.assert_allclose(smaller / small, 1e-4, rtol=0.1)


@pytest.mark.parametrize("shape", [(5, 9), (10, 11), (15, 6)])
@pytest.mark.parametrize("bias", ["centered", "penalized", None])
def test_left_out_residuals_against_refits(rng, shape, bias):
    X = rng.normal(size=shape) + 0.5
    closed = left_out_residuals(dual_system(X, 0.7, bias))
    for j in range(len(X)):
        field = plain_field(dual_system(np.delete(X, j, axis=0), 0.7, bias))
        refitted = X[j] - field.coef @ X[j] - field.intercept
        np.testing.assert_allclose(closed[j], refitted, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("bias", ["penalized", None])
def test_innovations_are_those_of_the_filter(rng, bias):
    X = rng.normal(size=(7, 5))
    variance = innovation_variance(dual_system(X, 0.5, bias))
    for i in range(5):
        G = without(X, i) if bias is None else np.column_stack([without(X, i), np.ones(7)])
        innovation = kalman_filter(G, X[:, i], 0.5).innovation
        np.testing.assert_allclose(variance[i], (innovation**2).mean(), rtol=1e-9)


def test_sample_order_does_not_matter(rng):
    X = rng.normal(size=(7, 9))
    one, two = (plain_field(dual_system(rows, 0.1)).coef for rows in (X, X[::-1]))
    np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-11)


def test_node_permutation_permutes_the_field(rng):
    X, order = rng.normal(size=(7, 9)), rng.permutation(9)
    plain = plain_field(dual_system(X, 0.1))
    moved = plain_field(dual_system(X[:, order], 0.1))
    np.testing.assert_allclose(moved.coef, plain.coef[np.ix_(order, order)], rtol=1e-8, atol=1e-10)


def test_scaling_a_node_scales_its_row_and_column_without_a_prior(rng):
    X = rng.normal(size=(30, 5))
    scaled = X * np.array([1, 1, 7.0, 1, 1])
    plain, moved = (plain_field(dual_system(rows, 1e-9)).coef for rows in (X, scaled))
    factor = np.array([1, 1, 7.0, 1, 1])
    np.testing.assert_allclose(moved, plain * factor[:, None] / factor, rtol=1e-5, atol=1e-7)
    strong, strong_moved = (plain_field(dual_system(rows, 10.0)).coef for rows in (X, scaled))
    assert not np.allclose(strong_moved, strong * factor[:, None] / factor, rtol=1e-2)


def test_duplicated_and_constant_nodes(rng):
    X = rng.normal(size=(6, 8))
    X[:, 3], X[:, 5] = X[:, 0], 2.0
    field = plain_field(dual_system(X, 0.01))
    assert np.isfinite(field.coef).all()
    np.testing.assert_allclose(field.coef[5], 0, atol=1e-12)
    np.testing.assert_allclose(field.intercept[5], 2.0)
    np.testing.assert_allclose(np.delete(field.coef[0], [0, 3]), np.delete(field.coef[3], [0, 3]))
    assert field.coef[0, 3] > 0.5


def filtered_field(X, gamma, r_eps, n_pseudo, bias):
    """Coefficients by one filter per node, compressed at the end."""
    n = X.shape[1]
    coef = np.zeros((n, n))
    for i in range(n):
        G, x = np.delete(X, i, axis=1), X[:, i]
        if bias == "centered":
            G, x = G - G.mean(axis=0), x - x.mean()
        if bias == "penalized":
            G = np.column_stack([G, np.ones(len(X))])
        beta = kalman_filter(G, x, gamma, r_eps, n_pseudo, n_free=int(bias == "penalized")).beta
        coef[i, np.arange(n) != i] = beta[: n - 1]
    return coef


@settings(max_examples=30, deadline=None)
@given(
    st.integers(2, 12),
    st.integers(2, 12),
    st.sampled_from([1e-2, 1.0, 10.0]),
    st.sampled_from([0.3, 1.0, 3.0]),
    st.sampled_from(["centered", "penalized", None]),
    st.integers(0, 10**6),
)
def test_end_mode_equals_the_recursion(k, n, gamma, rho, bias, seed):
    X = np.random.default_rng(seed).normal(size=(k, n)) + 0.3
    r_eps = noise_from_strength(rho, n, gamma)
    fast = compressed_field(dual_system(X, gamma, bias), r_eps, 6).coef
    slow = filtered_field(X, gamma, r_eps, 6, bias)
    # A coefficient that passes through zero by rounding turns a sign: compare away from such ties.
    plain = plain_field(dual_system(X, gamma, bias)).coef
    off = ~np.eye(n, dtype=bool)
    if np.abs(plain[off]).min() > 1e-6 and np.abs(slow[off]).min() > 1e-6:
        np.testing.assert_allclose(fast, slow, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("k", "n", "gamma"),
    [(11, 12, 1e-2), (11, 12, 1.0), (12, 12, 0.1), (30, 10, 1e-6), (4, 40, 1e-4)],
)
def test_end_mode_at_hard_sizes(rng, k, n, gamma):
    X = rng.normal(size=(k, n))
    r_eps = noise_from_strength(1.0, n, gamma)
    fast = compressed_field(dual_system(X, gamma), r_eps, 20).coef
    np.testing.assert_allclose(fast, filtered_field(X, gamma, r_eps, 20, "centered"), atol=1e-6)


def test_duplicated_and_constant_nodes_of_a_compressed_field(rng):
    X = rng.normal(size=(6, 8))
    X[:, 3], X[:, 5] = X[:, 0], 2.0
    field = compressed_field(dual_system(X, 1.0), 8.0, 10)
    assert np.isfinite(field.coef).all()
    np.testing.assert_allclose(field.coef[5], 0, atol=1e-12)
    np.testing.assert_allclose(field.coef, filtered_field(X, 1.0, 8.0, 10, "centered"), atol=1e-9)


@pytest.mark.parametrize("bias", ["centered", "penalized", None])
def test_infinite_noise_is_the_plain_field(rng, bias):
    X = rng.normal(size=(7, 9))
    system = dual_system(X, 0.5, bias)
    plain = plain_field(system)
    for r_eps in (1e14, np.inf):
        field = compressed_field(system, r_eps, 5)
        np.testing.assert_allclose(field.coef, plain.coef, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(field.residual, plain.residual, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("bias", ["centered", "penalized", None])
def test_residuals_and_intercepts_fit_together(rng, bias):
    X = rng.normal(size=(7, 9)) + 1.0
    field = compressed_field(dual_system(X, 0.5, bias), 18.0, 10)
    error = X - X @ field.coef.T - field.intercept
    np.testing.assert_allclose(field.residual, error, rtol=1e-8, atol=1e-9)


def test_blocks_of_nodes_change_nothing(rng):
    system = dual_system(rng.normal(size=(8, 30)), 1.0)
    whole = compressed_field(system, 30.0, 10).coef
    blocks = compressed_field(system, 30.0, 10, memory=10_000).coef
    np.testing.assert_allclose(blocks, whole, rtol=1e-10, atol=1e-12)


def test_path_is_made_of_the_shorter_fits(rng):
    X, outside = rng.normal(size=(9, 12)), rng.normal(size=(4, 12))
    for bias in ("centered", "penalized", None):
        system = dual_system(X, 1.0, bias)
        path = held_out_path(system, outside, 12.0, 6)
        for stop in (0, 1, 4, 6):
            field = compressed_field(system, 12.0, stop) if stop else plain_field(system)
            error = outside - outside @ field.coef.T - field.intercept
            np.testing.assert_allclose(path[stop], (error**2).sum(axis=0), rtol=1e-8)


def l1(coef):
    return np.abs(coef).sum()


@pytest.mark.parametrize(("k", "n"), [(41, 100), (19, 80), (16, 100), (60, 30)])
def test_norm_falls_at_the_default_strength(rng, k, n):
    system = dual_system(rng.normal(size=(k, n)), 10.0)
    norms = [
        l1(compressed_field(system, noise_from_strength(1.0, n, 10.0), t).coef)
        for t in (0, 1, 5, 40)
    ]
    assert np.all(np.diff(norms) < 0)
    assert norms[-1] < 0.8 * norms[0]


def test_norm_grows_when_the_noise_is_far_below_n_over_gamma(rng):
    system = dual_system(rng.normal(size=(16, 100)), 0.01)
    overshoot = compressed_field(system, noise_from_strength(1000.0, 100, 0.01), 2).coef
    assert l1(overshoot) > l1(plain_field(system).coef)


def test_compression_finds_a_chain(rng):
    """Few coefficients beyond 0.05 per node; the two true neighbours are the largest."""
    n, k = 40, 60
    X = np.empty((k, n))
    X[:, 0] = rng.normal(size=k)
    for j in range(1, n):
        X[:, j] = 0.7 * X[:, j - 1] + np.sqrt(1 - 0.49) * rng.normal(size=k)
    plain = plain_field(dual_system(X, 0.01)).coef
    field = compressed_field(dual_system(X, 10.0), noise_from_strength(1.0, n, 10.0), 40).coef
    assert (np.abs(field) > 0.05).sum(1).mean() < 0.5 * (np.abs(plain) > 0.05).sum(1).mean()
    largest = np.argsort(-np.abs(field[1:-1]), axis=1)[:, :2]
    true = [{i - 1, i + 1} == set(pair) for i, pair in enumerate(largest.tolist(), start=1)]
    assert np.mean(true) > 0.9
