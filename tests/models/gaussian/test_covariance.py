"""Covariance functions against their formulas, and Cholesky factors against their definition."""

import numpy as np
import pytest

from voxprior.models.gaussian.covariance import (
    Kernel,
    cholesky_factor,
    covariance,
    derivatives,
    inverse_from_factor,
    variance,
)


def test_kernels_against_their_formulas(rng):
    X, new = rng.normal(size=(5, 4)), rng.normal(size=(3, 4))
    G, rows, columns = (new @ X.T)[None], (new**2).sum(1)[None], (X**2).sum(1)[None]
    theta = np.array([0.3])
    s2 = np.exp(0.6)
    linear = covariance([Kernel("linear")], theta, G, rows, columns)
    np.testing.assert_allclose(linear, s2 * (1 + new @ X.T))
    poly = covariance([Kernel("poly", 0.5, 3)], theta, G, rows, columns)
    np.testing.assert_allclose(poly, s2 * (0.5 + new @ X.T) ** 3)
    rbf = covariance([Kernel("rbf")], np.array([0.3, -0.2]), G, rows, columns)
    squared = ((new[:, None] - X[None]) ** 2).sum(-1)
    np.testing.assert_allclose(rbf, s2 * np.exp(-0.5 * squared / np.exp(-0.4)))
    both = covariance(
        [Kernel("linear"), Kernel("rbf")],
        np.array([0.3, 0.3, -0.2]),
        np.repeat(G, 2, 0),
        np.repeat(rows, 2, 0),
        np.repeat(columns, 2, 0),
    )
    np.testing.assert_allclose(both, linear + rbf)


@pytest.mark.parametrize("shape", ["linear", "poly", "rbf"])
def test_kernel_derivatives_and_diagonal(rng, shape):
    X = rng.normal(size=(6, 3))
    kernels, G = [Kernel(shape), Kernel("rbf")], np.repeat((X @ X.T)[None], 2, 0)
    rows = np.einsum("mii->mi", G)
    theta = rng.normal(size=4 if shape == "rbf" else 3) * 0.3
    K = covariance(kernels, theta, G, rows, rows)
    np.testing.assert_allclose(variance(kernels, theta, rows), np.diag(K))
    for k, exact in enumerate(derivatives(kernels, theta, G, rows)):
        step = np.eye(len(theta))[k] * 1e-6
        up, down = (covariance(kernels, theta + s, G, rows, rows) for s in (step, -step))
        np.testing.assert_allclose(exact, (up - down) / 2e-6, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("n", [0, 1, 7, 128, 129, 300])
def test_factor_and_inverse(rng, n):
    Z = rng.normal(size=(n, n + 2))
    A = Z @ Z.T + 0.1 * np.eye(n)
    L = cholesky_factor(A)
    np.testing.assert_array_equal(L, np.tril(L))
    np.testing.assert_allclose(L @ L.T, A, rtol=1e-10, atol=1e-10)
    inverse = inverse_from_factor(L)
    np.testing.assert_allclose(inverse @ A, np.eye(n), atol=1e-8)
    np.testing.assert_array_equal(inverse, inverse.T)


def test_factor_forgives_rounding_only(rng):
    Z = 1e8 * rng.normal(size=(20, 3))
    L = cholesky_factor(Z @ Z.T)  # rank 3 of 20: some eigenvalues come out negative
    np.testing.assert_allclose(L @ L.T, Z @ Z.T, atol=1e-9 * np.abs(Z @ Z.T).max())
    for overwrite in (False, True):
        with pytest.raises(ValueError, match=r"positive semi-definite.* eigenvalue -1 "):
            cholesky_factor(np.diag([1.0, -1.0, 2.0]), overwrite)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n_columns", [3, 400])
def test_factor_and_inverse_in_the_memory_of_the_matrix(rng, order, n_columns):
    """Of full rank, and of rank 3 of 200, where rounding is forgiven at the second attempt."""
    Z = rng.normal(size=(200, n_columns))
    A = np.array(Z @ Z.T, order=order)
    kept = A.copy()
    L = cholesky_factor(A)
    np.testing.assert_array_equal(A, kept)
    np.testing.assert_allclose(L @ L.T, A, atol=1e-8)
    again = cholesky_factor(A, overwrite=True)
    assert np.shares_memory(again, A)
    np.testing.assert_array_equal(again, L)
    inverse = inverse_from_factor(L)
    np.testing.assert_array_equal(cholesky_factor(kept), L)
    there = inverse_from_factor(again, overwrite=True)
    assert np.shares_memory(there, A)
    np.testing.assert_array_equal(there, inverse)
