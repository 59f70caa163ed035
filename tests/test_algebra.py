"""The shared numerics against their definitions."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from threadpoolctl import threadpool_info, threadpool_limits

from voxprior.algebra import (
    MANY_ROWS,
    blas_threads_for,
    cholesky,
    cholesky_logdet,
    log_softmax_rows,
)

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


@few
@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_cholesky_of_a_definite_matrix(n, seed):
    A = np.random.default_rng(seed).normal(size=(n, n + 3))
    K = A @ A.T + 0.1 * np.eye(n)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        L, jitter = cholesky(K)
    assert jitter == 0
    np.testing.assert_array_equal(L, np.tril(L))
    np.testing.assert_allclose(L @ L.T, K, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(cholesky_logdet(L), np.linalg.slogdet(K)[1], rtol=1e-9, atol=1e-9)


def test_cholesky_reports_its_jitter(rng):
    A = rng.normal(size=(20, 3)) * 1e3
    K = A @ A.T  # rank 3 of 20
    with pytest.warns(RuntimeWarning, match="was added to its diagonal"):
        L, jitter = cholesky(K)
    assert 0 < jitter <= 1e-6 * np.diag(K).mean()
    np.testing.assert_allclose(L @ L.T, K + jitter * np.eye(20), rtol=1e-9, atol=1e-6)


def test_cholesky_refuses_what_is_no_kernel():
    with pytest.raises(np.linalg.LinAlgError, match="not positive semi-definite"):
        cholesky(np.diag([1.0, -1.0, 2.0]))
    with pytest.raises(np.linalg.LinAlgError, match="not positive semi-definite"):
        cholesky(-np.eye(2))
    with pytest.raises(np.linalg.LinAlgError, match="NaN"):
        cholesky([[np.nan]])
    with pytest.raises(ValueError, match="square"):
        cholesky(np.ones((2, 3)))


def test_logdet_of_an_ill_scaled_matrix():
    diagonal = np.array([1e-200, 1e200, 1e-150])
    expected = -150 * np.log(10)
    np.testing.assert_allclose(cholesky_logdet(np.diag(np.sqrt(diagonal))), expected, rtol=1e-12)


def test_small_matrices_get_one_blas_thread_and_large_ones_what_there_is():
    def threads():
        return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}

    with threadpool_limits(2, user_api="blas"):
        with blas_threads_for(MANY_ROWS - 1):
            assert threads() == {1}
        assert threads() == {2}
        with blas_threads_for(MANY_ROWS):
            assert threads() == {2}
