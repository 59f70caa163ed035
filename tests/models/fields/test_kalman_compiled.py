"""The compiled filter against the printed one, and its states that go on."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from voxprior.models.fields.dual import compressed_field, dual_system
from voxprior.models.fields.field import Training
from voxprior.models.fields.kalman import kalman_filter
from voxprior.models.fields.kalman_compiled import (
    compress_state,
    field_of_state,
    filter_more,
    initial_state,
    solve_compiled,
)

ROWS = np.array([[1, 2, 0], [0.5, 1, 1.5], [2, 1, -1], [1, -0.5, 2]])


def test_a_node_of_three_from_four_scans():
    """Four scans of three nodes, γ = 0.1, three pseudo-measurements of R = 2 after each scan."""
    each = Training(0.1, 2.0, 3, "each", bias=None)
    coef = solve_compiled(ROWS, each)[0].coef
    np.testing.assert_allclose(coef[0], [0, 0.323887, 0.063291], atol=1e-6)


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
    field, _ = solve_compiled(X, Training(gamma, 5.0 * n, 3, "each", bias=bias))
    free = int(bias == "penalized")
    for i in range(n):
        G = np.delete(X, i, axis=1)
        if free:
            G = np.column_stack([G, np.ones(k)])
        beta = kalman_filter(G, X[:, i], gamma, 5.0 * n, 3, "each", n_free=free).beta
        if np.abs(beta).min() > 1e-6:
            own = np.delete(field.coef[i], i)
            np.testing.assert_allclose(own, beta[: n - 1], rtol=1e-7, atol=1e-8)
            if free:
                np.testing.assert_allclose(field.intercept[i], beta[-1], rtol=1e-7, atol=1e-8)


def test_states_in_end_mode_equal_the_dual_form(rng):
    X = rng.normal(size=(9, 7)) + 1.0
    for bias in ("centered", "penalized", None):
        training = Training(0.8, 14.0, 8, "end", bias=bias)
        field = compressed_field(dual_system(X, 0.8, bias), 14.0, 8)
        state = compress_state(filter_more(initial_state(7, training), X, training), training)
        resumed = field_of_state(state, X, bias)
        np.testing.assert_allclose(resumed.coef, field.coef, atol=1e-9)
        np.testing.assert_allclose(resumed.intercept, field.intercept, atol=1e-9)


def test_states_go_on_where_they_stood(rng):
    X = rng.normal(size=(9, 6)) + 1.0
    for bias in ("centered", "penalized", None):
        training = Training(0.5, 30.0, 4, "each", bias=bias, variance="innovation")
        at_once, innovation = solve_compiled(X, training)
        state = initial_state(6, training)
        for x in X:
            state = filter_more(state, x[None], training)
        resumed = field_of_state(state, X, bias)
        np.testing.assert_allclose(resumed.coef, at_once.coef, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(resumed.intercept, at_once.intercept, rtol=1e-9, atol=1e-12)
        seen = len(X) - (bias == "centered")
        np.testing.assert_allclose(state.innovation / seen, innovation, rtol=1e-9)
