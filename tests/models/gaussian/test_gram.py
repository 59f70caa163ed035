"""The streamed Gram matrix against X Xᵀ, centring against centred voxels, maps against weights."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxprior.blocks import gram_matrix, sums
from voxprior.models.gaussian.gram import (
    Cross,
    asymmetry,
    center_cross,
    center_gram,
    cross_gram,
    weight_maps,
)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(sums, "BLOCK_ELEMENTS", 1)


def test_streamed_equals_whole(rng, small_blocks):
    X = rng.normal(size=(7, 1000))
    np.testing.assert_allclose(gram_matrix(X), X @ X.T, rtol=1e-12)
    new = rng.normal(size=(3, 1000))
    cross = cross_gram(new, X)
    np.testing.assert_allclose(cross.gram, new @ X.T, rtol=1e-11)
    np.testing.assert_allclose(cross.squared_norms, (new**2).sum(axis=1), rtol=1e-12)


def test_centring_in_place_and_asymmetry(rng):
    X = rng.normal(size=(300, 5)) + 2.0
    gram = X @ X.T
    centered, means = center_gram(gram)
    np.testing.assert_allclose(centered, (X - X.mean(axis=0)) @ (X - X.mean(axis=0)).T, atol=1e-10)
    kept = gram.copy()
    there, again = center_gram(kept, out=kept)
    assert there is kept
    np.testing.assert_array_equal(there, centered)
    np.testing.assert_array_equal(again, means)
    for i, j in ((299, 3), (2, 290), (1, 0)):
        moved = gram.copy()
        moved[i, j] += 0.25
        assert asymmetry(moved) == pytest.approx(np.abs(moved - moved.T).max())


def test_float32_is_summed_in_float64(rng):
    X = (rng.normal(size=(5, 100_000)) + 1000).astype(np.float32)
    exact = X.astype(np.float64) @ X.astype(np.float64).T
    np.testing.assert_allclose(gram_matrix(X), exact, rtol=1e-13)


def test_memory_map_fortran_order_and_read_only(rng, tmp_path, small_blocks):
    X = rng.normal(size=(6, 700)).astype(np.float32)
    mapped = np.memmap(tmp_path / "x.dat", dtype=np.float32, mode="w+", shape=X.shape)
    mapped[:] = X
    mapped.flush()
    read = np.memmap(tmp_path / "x.dat", dtype=np.float32, mode="r", shape=X.shape)
    expected = X.astype(float) @ X.astype(float).T
    for form in (read, np.asfortranarray(X)):
        np.testing.assert_allclose(gram_matrix(form), expected, rtol=1e-12)


def test_dask_equals_numpy(rng):
    da = pytest.importorskip("dask.array")
    X, new = rng.normal(size=(9, 500)), rng.normal(size=(4, 500))
    lazy = da.from_array(X, chunks=(4, 130))
    np.testing.assert_allclose(gram_matrix(lazy), X @ X.T, rtol=1e-11)
    cross = cross_gram(new, lazy)
    np.testing.assert_allclose(cross.gram, new @ X.T, rtol=1e-10)
    np.testing.assert_allclose(cross.squared_norms, (new**2).sum(axis=1), rtol=1e-12)
    columns = np.array([3, 7, 400])
    expected = X[:, columns] @ X[:, columns].T
    np.testing.assert_allclose(gram_matrix(lazy, columns), expected, rtol=1e-11)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 8), st.integers(1, 20), st.integers(0, 10**6))
def test_kernel_centring_equals_centring_voxels(n, p, seed):
    rng = np.random.default_rng(seed)
    X, new = rng.normal(2, 1, size=(n, p)), rng.normal(2, 1, size=(3, p))
    gram, means = center_gram(X @ X.T)
    Xc, new_c = X - X.mean(axis=0), new - X.mean(axis=0)
    np.testing.assert_allclose(gram, Xc @ Xc.T, atol=1e-10)
    cross = center_cross(Cross(new @ X.T, (new**2).sum(axis=1)), means)
    np.testing.assert_allclose(cross.gram, new_c @ Xc.T, atol=1e-10)
    np.testing.assert_allclose(cross.squared_norms, (new_c**2).sum(axis=1), atol=1e-10)


def test_weight_maps_against_weight_space(rng, small_blocks):
    """Bayesian linear regression in weight space gives the same mean and deviation."""
    n, p, noise, prior = 6, 400, 0.3, 0.7
    X, y = rng.normal(1, 1, size=(n, p)), rng.normal(size=n)
    Xc = X - X.mean(axis=0)
    inverse = np.linalg.inv(prior * Xc @ Xc.T + noise * np.eye(n))
    maps = weight_maps(
        X, (inverse @ y)[:, None], inverse[None], np.full(p, prior), y[:, None], center=True
    )
    precision = np.linalg.inv(Xc.T @ Xc / noise + np.eye(p) / prior)
    np.testing.assert_allclose(maps.weight[0], precision @ Xc.T @ y / noise, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(maps.deviation[0] ** 2, np.diag(precision), rtol=1e-8)
    covariances = [np.cov(X[:, j], y)[0, 1] / np.var(y, ddof=1) for j in range(p)]
    np.testing.assert_allclose(maps.pattern[0], covariances, rtol=1e-8, atol=1e-12)
