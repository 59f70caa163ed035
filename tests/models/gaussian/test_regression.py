"""Gaussian process regression: worked example, ridge, leave-one-out, gradient, spectrum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.kernel_ridge import KernelRidge

from voxprior.models.gaussian.regression import (
    best_scale_and_noise,
    evidence_gradient,
    leave_one_out,
    predict_latent,
    regress,
    spectrum,
)

# Three scans of one voxel; linear kernel with bias.
x = np.array([1.0, 2.0, 3.0])
y = np.array([1.0, 2.0, 2.5])
K = np.outer(x, x) + 1


def test_worked_example():
    """Prediction at x = 4, evidence, its gradient and leave-one-out of the scans above, σ² = ½."""
    fit = regress(K, y, 0.5)
    latent = predict_latent(fit, 4 * x[None] + 1, np.array([17.0]))
    assert latent.mean[0] == pytest.approx(3.237288, abs=1e-6)
    assert latent.variance[0] == pytest.approx(0.762712, abs=1e-6)
    assert fit.log_evidence == pytest.approx(-4.124508, abs=1e-6)
    assert evidence_gradient(fit, 2 * K[None], 0.5)[0] == pytest.approx(-0.754955, abs=1e-6)
    np.testing.assert_allclose(
        leave_one_out(fit, y).mean, [1.085714, 1.682927, 2.526316], atol=1e-6
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 8), st.integers(1, 6), st.integers(0, 10**6))
def test_ridge_density_and_left_out_refits(n, p, seed):
    rng = np.random.default_rng(seed)
    X, t, new = rng.normal(size=(n, p)), rng.normal(size=n), rng.normal(size=(2, p))
    noise, G = 0.4, X @ X.T
    fit = regress(G, t, noise)
    latent = predict_latent(fit, new @ X.T, (new**2).sum(axis=1))
    inner = np.linalg.inv(X.T @ X + noise * np.eye(p))
    np.testing.assert_allclose(latent.mean, new @ inner @ X.T @ t, atol=1e-9)
    ridge = KernelRidge(alpha=noise).fit(X, t)
    np.testing.assert_allclose(latent.mean, ridge.predict(new), atol=1e-9)
    # The weight-space variance σ² φᵀ(ΦᵀΦ + σ²I)⁻¹φ.
    weight_space = noise * np.einsum("ij,jk,ik->i", new, inner, new)
    np.testing.assert_allclose(latent.variance, weight_space, atol=1e-9)
    density = multivariate_normal(np.zeros(n), G + noise * np.eye(n)).logpdf(t)
    assert fit.log_evidence == pytest.approx(density, rel=1e-9)
    left = leave_one_out(fit, t)
    for i in range(n):
        rest = np.delete(np.arange(n), i)
        part = regress(G[np.ix_(rest, rest)], t[rest], noise)
        one = predict_latent(part, G[i : i + 1, rest], G[i : i + 1, i])
        assert left.mean[i] == pytest.approx(one.mean[0], abs=1e-8)
        assert left.variance[i] == pytest.approx(one.variance[0] + noise, abs=1e-8)


def test_gradient_against_differences(rng):
    X, t = rng.normal(size=(7, 4)), rng.normal(size=7)
    G = X @ X.T

    def evidence(log_s, log_noise):
        return regress(np.exp(2 * log_s) * G, t, np.exp(2 * log_noise)).log_evidence

    s2, noise = np.exp(0.4), np.exp(-0.6)
    exact = evidence_gradient(regress(s2 * G, t, noise), 2 * s2 * G[None], noise)
    d = 1e-6
    assert exact[0] == pytest.approx(
        (evidence(0.2 + d, -0.3) - evidence(0.2 - d, -0.3)) / (2 * d), rel=1e-6
    )
    assert exact[1] == pytest.approx(
        (evidence(0.2, -0.3 + d) - evidence(0.2, -0.3 - d)) / (2 * d), rel=1e-6
    )


def test_best_scale_and_noise_are_the_global_maximum(rng):
    X, w = rng.normal(size=(20, 30)), rng.normal(size=30)
    t = X @ w + rng.normal(size=20)
    G = X @ X.T

    def evidence(log_scale, log_noise):
        return regress(np.exp(2 * log_scale) * G, t, np.exp(2 * log_noise)).log_evidence

    found = evidence(*best_scale_and_noise(spectrum(G, t), (1e-7, 1e7)))
    grid = np.linspace(-5, 5, 30)
    assert found >= max(evidence(s, noise) for s in grid for noise in grid) - 1e-6
