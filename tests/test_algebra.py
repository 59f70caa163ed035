"""The shared numerics against their definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from threadpoolctl import threadpool_info, threadpool_limits

from voxprior.algebra import MANY_ROWS, blas_threads_for, floored_log, log_softmax_rows

few = settings(max_examples=30, deadline=None)
log_joints = arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    elements=st.floats(-1e6, 1e6),
)


@few
@given(log_joints, st.floats(-1e3, 1e3))
def test_softmax_is_normalised_and_ignores_a_constant(log_joint, constant):
    log_p = log_softmax_rows(log_joint)
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(log_softmax_rows(log_joint + constant), log_p, atol=1e-9)
    gaps = log_joint - log_joint[:, :1]
    np.testing.assert_allclose(log_p - log_p[:, :1], gaps, atol=1e-8)


def test_softmax_of_a_million_nats():
    np.testing.assert_allclose(
        log_softmax_rows([[-1e6, -1e6 - np.log(3)]]), np.log([[0.75, 0.25]]), rtol=1e-9
    )


@pytest.mark.parametrize("row", [[np.nan, 0], [-np.inf, -np.inf], [np.inf, 0]])
def test_softmax_names_a_broken_row(row):
    with pytest.raises(ValueError, match="row 1"):
        log_softmax_rows([[0, 0], row])
    with pytest.raises(ValueError, match=r"\(n, C\)"):
        log_softmax_rows(row)


def test_logarithms_of_impossible_events_are_finite():
    log_p = floored_log([0.0, 1e-320, 0.5, 1.0])
    assert log_p[0] == log_p[1] < -700
    np.testing.assert_array_equal(log_p[2:], np.log([0.5, 1.0]))


def test_small_matrices_get_one_blas_thread_and_large_ones_what_there_is():
    def threads():
        return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}

    with threadpool_limits(2, user_api="blas"):
        with blas_threads_for(MANY_ROWS - 1):
            assert threads() == {1}
        assert threads() == {2}
        with blas_threads_for(MANY_ROWS):
            assert threads() == {2}
