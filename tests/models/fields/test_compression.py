"""Compressed fields against the recursion written out, in both modes, and its information form."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxprior.models.fields.compression import (
    compress_field,
    held_out_path,
    noise_from_strength,
    norm_gradient,
)
from voxprior.models.fields.dual import dual_system, solve_field
from voxprior.models.fields.online import (
    Schedule,
    compress_state,
    field_of_state,
    filter_scans,
    proceed,
    start,
)

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


def naive_field(X, gamma, r_eps, n_pseudo, bias):
    n = X.shape[1]
    coef = np.zeros((n, n))
    for i in range(n):
        G, x = np.delete(X, i, axis=1), X[:, i]
        if bias == "centered":
            G, x = G - G.mean(axis=0), x - x.mean()
        if bias == "penalized":
            G = np.column_stack([G, np.ones(len(X))])
        beta = naive_filter(G, x, gamma, r_eps, n_pseudo, False, free=int(bias == "penalized"))[0]
        coef[i, np.arange(n) != i] = beta[: n - 1]
    return coef


def test_worked_example_two():
    G, x = ROWS[:, 1:], ROWS[:, 0]
    beta, _, signs = naive_filter(G, x, 0.1, 2.0, 3, each=True)
    np.testing.assert_allclose(beta, [0.323887, 0.063291], atol=1e-6)
    expected = [(1, 0)] * 3 + [(1, 1)] * 2 + [(1, -1)] * 4 + [(1, 1)] * 3
    np.testing.assert_array_equal(signs, expected)
    each = filter_scans(ROWS, Schedule(0.1, None, 2.0, 3, each=True))[0].coef
    np.testing.assert_allclose(each[0], [0, 0.323887, 0.063291], atol=1e-6)
    end = compress_field(dual_system(ROWS, 0.1, None), 2.0, 3).coef
    np.testing.assert_allclose(end[0], [0, 0.506043, 0.027566], atol=1e-6)


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
    fast = compress_field(dual_system(X, gamma, bias), r_eps, 6).coef
    slow = naive_field(X, gamma, r_eps, 6, bias)
    # A coefficient that passes through zero by rounding turns a sign: compare away from such ties.
    plain = solve_field(dual_system(X, gamma, bias)).coef
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
    fast = compress_field(dual_system(X, gamma), r_eps, 20).coef
    np.testing.assert_allclose(fast, naive_field(X, gamma, r_eps, 20, "centered"), atol=1e-6)


def test_duplicated_and_constant_nodes(rng):
    X = rng.normal(size=(6, 8))
    X[:, 3], X[:, 5] = X[:, 0], 2.0
    field = compress_field(dual_system(X, 1.0), 8.0, 10)
    assert np.isfinite(field.coef).all()
    np.testing.assert_allclose(field.coef[5], 0, atol=1e-12)
    np.testing.assert_allclose(field.coef, naive_field(X, 1.0, 8.0, 10, "centered"), atol=1e-9)


@pytest.mark.parametrize("bias", ["centered", "penalized", None])
def test_infinite_noise_is_the_plain_field(rng, bias):
    X = rng.normal(size=(7, 9))
    system = dual_system(X, 0.5, bias)
    plain = solve_field(system)
    for r_eps in (1e14, np.inf):
        field = compress_field(system, r_eps, 5)
        np.testing.assert_allclose(field.coef, plain.coef, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(field.residual, plain.residual, rtol=1e-9, atol=1e-11)
        online = filter_scans(X, Schedule(0.5, bias, r_eps, 5))[0]
        np.testing.assert_allclose(online.coef, plain.coef, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(online.intercept, plain.intercept, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("bias", ["centered", "penalized", None])
def test_residuals_and_intercepts_fit_together(rng, bias):
    X = rng.normal(size=(7, 9)) + 1.0
    field = compress_field(dual_system(X, 0.5, bias), 18.0, 10)
    error = X - X @ field.coef.T - field.intercept
    np.testing.assert_allclose(field.residual, error, rtol=1e-8, atol=1e-9)


def test_blocks_of_nodes_change_nothing(rng):
    system = dual_system(rng.normal(size=(8, 30)), 1.0)
    whole = compress_field(system, 30.0, 10).coef
    blocks = compress_field(system, 30.0, 10, memory=10_000).coef
    np.testing.assert_allclose(blocks, whole, rtol=1e-10, atol=1e-12)


def test_information_form(rng):
    G, x = rng.normal(size=(6, 7)), rng.normal(size=6)
    beta, P, signs = naive_filter(G, x, 0.3, 10.0, 4, each=True)
    precision = 0.3 * np.eye(7) + G.T @ G + signs.T @ signs / 10.0
    np.testing.assert_allclose(np.linalg.inv(P), precision, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(precision @ beta, G.T @ x, rtol=1e-7, atol=1e-8)
    X = np.column_stack([x, G])
    field, _ = filter_scans(X, Schedule(0.3, None, 10.0, 4, each=True))
    np.testing.assert_allclose(field.coef[0, 1:], beta, rtol=1e-8, atol=1e-10)


@settings(max_examples=15, deadline=None)
@given(
    st.integers(2, 8),
    st.integers(2, 8),
    st.sampled_from([0.1, 1.0]),
    st.sampled_from(["penalized", None]),
    st.integers(0, 10**6),
)
def test_each_mode_equals_the_recursion(k, n, gamma, bias, seed):
    X = np.random.default_rng(seed).normal(size=(k, n)) + 0.2
    field, _ = filter_scans(X, Schedule(gamma, bias, 5.0 * n, 3, each=True))
    for i in range(n):
        G = np.delete(X, i, axis=1)
        if bias == "penalized":
            G = np.column_stack([G, np.ones(k)])
        beta = naive_filter(G, X[:, i], gamma, 5.0 * n, 3, True, free=int(bias == "penalized"))[0]
        if np.abs(beta).min() > 1e-6:
            own = np.delete(field.coef[i], i)
            np.testing.assert_allclose(own, beta[: n - 1], rtol=1e-7, atol=1e-8)
            if bias == "penalized":
                np.testing.assert_allclose(field.intercept[i], beta[-1], rtol=1e-7, atol=1e-8)


def test_online_filter_in_end_mode_equals_the_dual_form(rng):
    X = rng.normal(size=(9, 7)) + 1.0
    for bias in ("centered", "penalized", None):
        schedule = Schedule(0.8, bias, 14.0, 8, each=False)
        field = compress_field(dual_system(X, 0.8, bias), 14.0, 8)
        np.testing.assert_allclose(filter_scans(X, schedule)[0].coef, field.coef, atol=1e-9)
        state = compress_state(proceed(start(7, schedule), X, schedule), schedule)
        resumed = field_of_state(state, X, bias)
        np.testing.assert_allclose(resumed.coef, field.coef, atol=1e-9)
        np.testing.assert_allclose(resumed.intercept, field.intercept, atol=1e-9)


def test_states_go_on_where_they_stood(rng):
    X = rng.normal(size=(9, 6)) + 1.0
    for bias in ("centered", "penalized", None):
        schedule = Schedule(0.5, bias, 30.0, 4, each=True)
        at_once, innovation = filter_scans(X, schedule)
        state = start(6, schedule)
        for x in X:
            state = proceed(state, x[None], schedule)
        resumed = field_of_state(state, X, bias)
        np.testing.assert_allclose(resumed.coef, at_once.coef, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(resumed.intercept, at_once.intercept, rtol=1e-9, atol=1e-12)
        seen = len(X) - (bias == "centered")
        np.testing.assert_allclose(state.innovation / seen, innovation, rtol=1e-9)


def test_path_is_made_of_the_shorter_fits(rng):
    X, outside = rng.normal(size=(9, 12)), rng.normal(size=(4, 12))
    for bias in ("centered", "penalized", None):
        system = dual_system(X, 1.0, bias)
        path = held_out_path(system, outside, 12.0, 6)
        for stop in (0, 1, 4, 6):
            field = compress_field(system, 12.0, stop) if stop else solve_field(system)
            error = outside - outside @ field.coef.T - field.intercept
            np.testing.assert_allclose(path[stop], (error**2).sum(axis=0), rtol=1e-8)


def l1(coef):
    return np.abs(coef).sum()


@pytest.mark.parametrize(("k", "n"), [(41, 100), (19, 80), (16, 100), (60, 30)])
def test_norm_falls_at_the_default_strength(rng, k, n):
    system = dual_system(rng.normal(size=(k, n)), 10.0)
    norms = [
        l1(compress_field(system, noise_from_strength(1.0, n, 10.0), t).coef) for t in (0, 1, 5, 40)
    ]
    assert np.all(np.diff(norms) < 0)
    assert norms[-1] < 0.8 * norms[0]


def test_norm_grows_when_the_noise_is_far_below_n_over_gamma(rng):
    system = dual_system(rng.normal(size=(16, 100)), 0.01)
    overshoot = compress_field(system, noise_from_strength(1000.0, 100, 0.01), 2).coef
    assert l1(overshoot) > l1(solve_field(system).coef)


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


def test_quasi_norm_in_all_forms(rng):
    X = rng.normal(size=(8, 6))
    fast = compress_field(dual_system(X, 1.0, None), 40.0, 5, norm=0.5).coef
    online = filter_scans(X, Schedule(1.0, None, 40.0, 5, each=False, norm=0.5))[0].coef
    slow, _, _ = naive_filter(
        X[:, 1:], X[:, 0], 1.0, 40.0, 5, False, gradient=lambda b: norm_gradient(b[None], 0.5)[0]
    )
    np.testing.assert_allclose(fast[0, 1:], slow, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(online, fast, rtol=1e-8, atol=1e-10)


def test_compression_finds_a_chain(rng):
    """Few coefficients beyond 0.05 a node; the two true neighbours are the largest."""
    n, k = 40, 60
    X = np.empty((k, n))
    X[:, 0] = rng.normal(size=k)
    for j in range(1, n):
        X[:, j] = 0.7 * X[:, j - 1] + np.sqrt(1 - 0.49) * rng.normal(size=k)
    plain = solve_field(dual_system(X, 0.01)).coef
    field = compress_field(dual_system(X, 10.0), noise_from_strength(1.0, n, 10.0), 40).coef
    assert (np.abs(field) > 0.05).sum(1).mean() < 0.5 * (np.abs(plain) > 0.05).sum(1).mean()
    largest = np.argsort(-np.abs(field[1:-1]), axis=1)[:, :2]
    true = [{i - 1, i + 1} == set(pair) for i, pair in enumerate(largest.tolist(), start=1)]
    assert np.mean(true) > 0.9
