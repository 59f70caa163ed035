"""All nodes at once against one Kalman filter a node, ridge, least squares and brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from voxprior.models.fields.dual import (
    dual_system,
    innovation_variance,
    left_out_residuals,
    recursive_rows,
    solve_field,
)
from voxprior.models.fields.kalman import kalman_block, kalman_filter
from voxprior.models.fields.likelihood import log_likelihood, log_partition, residual_variance

ROWS = np.array([[1, 2, 0], [0.5, 1, 1.5], [2, 1, -1], [1, -0.5, 2]])
OTHER = np.array([[1.0, -1, 0], [0, 1, -1], [2, -2, 1], [-1, 0, 1]])


def without(X, i):
    return np.delete(X, i, axis=1)


def sizes():
    return st.tuples(
        st.integers(2, 12), st.integers(2, 12), st.sampled_from([1e-3, 0.1, 1.0, 30.0])
    )


def test_worked_example_one():
    filtered = kalman_filter(ROWS[:, 1:], ROWS[:, 0], 0.1)
    np.testing.assert_allclose(filtered.beta, [0.641392, 0.145673], atol=1e-6)
    P = [[0.158328, 0.010771], [0.010771, 0.136787]]
    np.testing.assert_allclose(filtered.covariance, P, atol=1e-6)
    field = solve_field(dual_system(ROWS, 0.1, None))
    B = [[0, 0.641392, 0.145673], [0.645738, 0, -0.133919], [0.278035, -0.253880, 0]]
    np.testing.assert_allclose(field.coef, B, atol=1e-6)
    noise = residual_variance(field.residual)
    np.testing.assert_allclose(noise, [1.177306, 1.185532, 2.300119], atol=1e-6)
    one = np.ones((1, 3))
    with_factor = log_likelihood(one, field.coef, field.intercept, noise)
    literal = log_likelihood(one, field.coef, field.intercept, noise, normalize=False)
    np.testing.assert_allclose([with_factor[0], literal[0]], [-3.666780, -0.326774], atol=1e-6)


def test_worked_example_six_and_its_integral():
    B = np.array([[0, 0.5], [0.4, 0]])
    np.testing.assert_allclose(np.exp(log_partition(B)), 1.25, rtol=1e-12)
    grid = np.linspace(-40, 40, 1601)
    x = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    density = np.exp(log_likelihood(x, B, np.array([0.3, -1.0]), np.array([1.0, 2.0])))
    np.testing.assert_allclose(density.sum() * (grid[1] - grid[0]) ** 2, 1.25, rtol=1e-4)


def test_worked_example_seven():
    x = np.array([[1, 1.5, 0.5]])
    fields = [solve_field(dual_system(rows, 0.1, None)) for rows in (ROWS, OTHER)]
    scores = [
        log_likelihood(x, f.coef, f.intercept, residual_variance(f.residual))[0] for f in fields
    ]
    np.testing.assert_allclose(scores[0] - scores[1], 140.865395, atol=1e-6)
    exact = log_partition(fields[0].coef) - log_partition(fields[1].coef)
    np.testing.assert_allclose(exact, -3.250926, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(sizes(), st.sampled_from(["centered", "penalized", None]), st.integers(0, 10**6))
def test_dual_equals_sequential_filters(size, bias, seed):
    k, n, gamma = size
    X = np.random.default_rng(seed).normal(size=(k, n)) + 1.0
    field = solve_field(dual_system(X, gamma, bias))
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
    field = solve_field(dual_system(X, 2.0))
    ridge = Ridge(alpha=2.0).fit(without(X, 2), X[:, 2])
    np.testing.assert_allclose(without(field.coef, 2)[2], ridge.coef_, rtol=1e-9)
    np.testing.assert_allclose(field.intercept[2], ridge.intercept_, rtol=1e-9)


def test_tiny_gamma_is_least_squares(rng):
    X = rng.normal(size=(20, 6))
    field = solve_field(dual_system(X, 1e-9, None))
    beta = np.linalg.lstsq(without(X, 1), X[:, 1])[0]
    np.testing.assert_allclose(without(field.coef, 1)[1], beta, rtol=1e-6)


def test_too_few_scans_interpolate(rng):
    X = rng.normal(size=(4, 10))
    small, smaller = (
        residual_variance(solve_field(dual_system(X, g, None)).residual).max() for g in (1e-2, 1e-4)
    )
    assert small < 1e-3
    np.testing.assert_allclose(smaller / small, 1e-4, rtol=0.1)


@pytest.mark.parametrize("shape", [(5, 9), (10, 11), (15, 6)])
@pytest.mark.parametrize("bias", ["centered", "penalized", None])
def test_left_out_residuals_against_refits(rng, shape, bias):
    X = rng.normal(size=shape) + 0.5
    closed = left_out_residuals(dual_system(X, 0.7, bias))
    for j in range(len(X)):
        field = solve_field(dual_system(np.delete(X, j, axis=0), 0.7, bias))
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


def test_recursive_rows_are_a_bias_without_prior(rng):
    X = rng.normal(size=(8, 4)) + 5.0
    rows = recursive_rows(X)
    centred = X - X.mean(axis=0)
    np.testing.assert_allclose(rows.T @ rows, centred.T @ centred, rtol=1e-10, atol=1e-12)
    # A bias of prior variance 1e10 in an ordinary filter, on regressors of prior precision 0.5.
    G = np.column_stack([X[:, 1:] / np.sqrt(0.5), 1e5 * np.ones(8)])
    wide = kalman_filter(G, X[:, 0], 1.0)
    free = innovation_variance(dual_system(X, 0.5))[0]
    scaled = wide.innovation[1:] * np.sqrt(np.arange(1, 8) / np.arange(2, 9))
    np.testing.assert_allclose(free, (scaled**2).mean(), rtol=1e-4)


def test_sample_order_does_not_matter(rng):
    X = rng.normal(size=(7, 9))
    one, two = (solve_field(dual_system(rows, 0.1)).coef for rows in (X, X[::-1]))
    np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-11)


def test_node_permutation_permutes_the_field(rng):
    X, order = rng.normal(size=(7, 9)), rng.permutation(9)
    plain = solve_field(dual_system(X, 0.1))
    moved = solve_field(dual_system(X[:, order], 0.1))
    np.testing.assert_allclose(moved.coef, plain.coef[np.ix_(order, order)], rtol=1e-8, atol=1e-10)


def test_scaling_a_node_scales_its_row_and_column_without_a_prior(rng):
    X = rng.normal(size=(30, 5))
    scaled = X * np.array([1, 1, 7.0, 1, 1])
    plain, moved = (solve_field(dual_system(rows, 1e-9)).coef for rows in (X, scaled))
    factor = np.array([1, 1, 7.0, 1, 1])
    np.testing.assert_allclose(moved, plain * factor[:, None] / factor, rtol=1e-5, atol=1e-7)
    strong, strong_moved = (solve_field(dual_system(rows, 10.0)).coef for rows in (X, scaled))
    assert not np.allclose(strong_moved, strong * factor[:, None] / factor, rtol=1e-2)


def test_duplicated_and_constant_nodes(rng):
    X = rng.normal(size=(6, 8))
    X[:, 3], X[:, 5] = X[:, 0], 2.0
    field = solve_field(dual_system(X, 0.01))
    assert np.isfinite(field.coef).all()
    np.testing.assert_allclose(field.coef[5], 0, atol=1e-12)
    np.testing.assert_allclose(field.intercept[5], 2.0)
    np.testing.assert_allclose(np.delete(field.coef[0], [0, 3]), np.delete(field.coef[3], [0, 3]))
    assert field.coef[0, 3] > 0.5


def test_block_filter_equals_kronecker_form_and_separate_ridges(rng):
    targets, sources = rng.normal(size=(6, 2)), rng.normal(size=(6, 3))
    block = kalman_block(targets, sources, 0.4)
    beta, P = np.zeros(6), np.eye(6) / 0.4
    for y, g in zip(targets, sources, strict=True):
        H = np.kron(g[None, :], np.eye(2))  # (1.24), column-major vec
        K = P @ H.T @ np.linalg.inv(H @ P @ H.T + np.eye(2))
        beta, P = beta + K @ (y - H @ beta), (np.eye(6) - K @ H) @ P
    np.testing.assert_allclose(block.beta, beta.reshape(2, 3, order="F"), rtol=1e-9)
    np.testing.assert_allclose(np.kron(block.covariance, np.eye(2)), P, rtol=1e-8, atol=1e-10)
    ridge = np.linalg.solve(sources.T @ sources + 0.4 * np.eye(3), sources.T @ targets).T
    np.testing.assert_allclose(block.beta, ridge, rtol=1e-9)


def test_time_propagation_forgets(rng):
    G, x = rng.normal(size=(30, 2)), np.zeros(30)
    x[:15], x[15:] = G[:15] @ [2.0, 0], G[15:] @ [-2.0, 0]
    fixed = kalman_filter(G, x, 0.1).beta
    adaptive = kalman_filter(G, x, 0.1, transition=np.eye(2), drift=0.5 * np.eye(2)).beta
    assert abs(adaptive[0] + 2) < 0.2 < abs(fixed[0] + 2)
    same = kalman_filter(G, x, 0.1, transition=np.eye(2), drift=np.zeros((2, 2))).beta
    np.testing.assert_allclose(same, fixed)
    halved = kalman_filter(G[:1], x[:1], 0.1, transition=0.5 * np.eye(2))
    P = 0.25 / 0.1 * np.eye(2)  # A P Aᵀ before the first update
    np.testing.assert_allclose(halved.beta, P @ G[0] * x[0] / (G[0] @ P @ G[0] + 1))
