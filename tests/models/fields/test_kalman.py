"""The filter as printed, plain and compressed, against the recursion written out and its laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxprior.models.fields.dual import dual_system, innovation_variance
from voxprior.models.fields.kalman import kalman_filter, norm_gradient, recursive_rows

ROWS = np.array([[1, 2, 0], [0.5, 1, 1.5], [2, 1, -1], [1, -0.5, 2]])


def naive_filter(G, x, gamma, r_eps, n_pseudo, each, free=0, gradient=np.sign):
    """The recursion as published for one node; the last ``free`` coefficients are never shrunk."""
    p = G.shape[1]
    beta, P, signs = np.zeros(p), np.eye(p) / gamma, []

    def pseudo(beta, P):
        for _ in range(n_pseudo):
            s = np.append(gradient(beta[: p - free]), np.zeros(free))
            signs.append(s)
            K = P @ s / (s @ P @ s + r_eps)
            beta = beta - K * (s @ beta)
            P = P - np.outer(K, s @ P)
            P = (P + P.T) / 2
        return beta, P

    for g, y in zip(G, x, strict=True):
        K = P @ g / (g @ P @ g + 1)
        beta = beta + K * (y - g @ beta)
        P = P - np.outer(K, g @ P)
        P = (P + P.T) / 2
        if each:
            beta, P = pseudo(beta, P)
    if not each:
        beta, P = pseudo(beta, P)
    return beta, P, np.array(signs)


def test_a_node_of_three_from_four_scans():
    """Four scans of three nodes: the first node is predicted by the other two, γ = 0.1."""
    filtered = kalman_filter(ROWS[:, 1:], ROWS[:, 0], 0.1)
    np.testing.assert_allclose(filtered.beta, [0.641392, 0.145673], atol=1e-6)
    P = [[0.158328, 0.010771], [0.010771, 0.136787]]
    np.testing.assert_allclose(filtered.covariance, P, atol=1e-6)


def test_the_same_node_compressed():
    """The same with three pseudo-measurements, R = 2, after each scan and at the end."""
    G, x = ROWS[:, 1:], ROWS[:, 0]
    _, _, signs = naive_filter(G, x, 0.1, 2.0, 3, each=True)
    expected = [(1, 0)] * 3 + [(1, 1)] * 2 + [(1, -1)] * 4 + [(1, 1)] * 3
    np.testing.assert_array_equal(signs, expected)
    each = kalman_filter(G, x, 0.1, 2.0, 3, mode="each").beta
    np.testing.assert_allclose(each, [0.323887, 0.063291], atol=1e-6)
    end = kalman_filter(G, x, 0.1, 2.0, 3).beta
    np.testing.assert_allclose(end, [0.506043, 0.027566], atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(2, 8),
    st.integers(2, 8),
    st.sampled_from([0.1, 1.0]),
    st.sampled_from(["end", "each"]),
    st.sampled_from([1.0, 0.5]),
    st.integers(0, 1),
    st.integers(0, 10**6),
)
def test_filter_equals_the_recursion_written_out(k, p, gamma, mode, norm, n_free, seed):
    rng = np.random.default_rng(seed)
    G, x = rng.normal(size=(k, p)), rng.normal(size=k)

    def gradient(beta):
        return norm_gradient(beta[None], norm)[0]

    pseudo = (5.0 * p, 3)
    naive, P, _ = naive_filter(G, x, gamma, *pseudo, mode == "each", n_free, gradient)
    filtered = kalman_filter(G, x, gamma, *pseudo, mode, norm, n_free)
    np.testing.assert_allclose(filtered.beta, naive, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(filtered.covariance, P, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("mode", ["end", "each"])
def test_information_form(rng, mode):
    G, x = rng.normal(size=(6, 7)), rng.normal(size=6)
    _, _, signs = naive_filter(G, x, 0.3, 10.0, 4, each=mode == "each")
    beta, P, _, _ = kalman_filter(G, x, 0.3, 10.0, 4, mode)
    precision = 0.3 * np.eye(7) + G.T @ G + signs.T @ signs / 10.0
    np.testing.assert_allclose(np.linalg.inv(P), precision, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(precision @ beta, G.T @ x, rtol=1e-7, atol=1e-8)


def test_recursive_rows_are_a_bias_without_prior(rng):
    X = rng.normal(size=(8, 4)) + 5.0
    rows = recursive_rows(X)
    centered = X - X.mean(axis=0)
    np.testing.assert_allclose(rows.T @ rows, centered.T @ centered, rtol=1e-10, atol=1e-12)
    # A bias of prior variance 1e10 in an ordinary filter, on regressors of prior precision 0.5.
    G = np.column_stack([X[:, 1:] / np.sqrt(0.5), 1e5 * np.ones(8)])
    wide = kalman_filter(G, X[:, 0], 1.0)
    free = innovation_variance(dual_system(X, 0.5))[0]
    scaled = wide.innovation[1:] * np.sqrt(np.arange(1, 8) / np.arange(2, 9))
    np.testing.assert_allclose(free, (scaled**2).mean(), rtol=1e-4)


def test_quasi_norm_gradient_is_euler_consistent(rng):
    beta = rng.normal(size=(3, 6)) + 2 * np.sign(rng.normal(size=(3, 6)))
    s = norm_gradient(beta, 0.5)
    quasi = (np.abs(beta) ** 0.5).sum(axis=1) ** 2
    np.testing.assert_allclose((s * beta).sum(axis=1), quasi, rtol=1e-10)
    step = 1e-6
    moved = beta.copy()
    moved[:, 2] += step
    numeric = ((np.abs(moved) ** 0.5).sum(axis=1) ** 2 - quasi) / step
    np.testing.assert_allclose(s[:, 2], numeric, rtol=1e-4)
