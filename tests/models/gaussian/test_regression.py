"""Gaussian process regression: worked example, ridge, leave-one-out, evidence, scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, WhiteKernel
from sklearn.kernel_ridge import KernelRidge

from voxprior.models.gaussian import GPRegressor
from voxprior.models.gaussian.evidence import maximise
from voxprior.models.gaussian.regression import (
    best_scale_and_noise,
    evidence_gradient,
    leave_one_out,
    predict_latent,
    regress,
    spectral_evidence,
    spectrum,
)

x = np.array([1.0, 2.0, 3.0])
y = np.array([1.0, 2.0, 2.5])
K = np.outer(x, x) + 1


def test_worked_example():
    """GP-1."""
    fit = regress(K, y, 0.5)
    latent = predict_latent(fit, 4 * x[None] + 1, np.array([17.0]))
    assert latent.mean[0] == pytest.approx(3.237288, abs=1e-6)
    assert latent.variance[0] == pytest.approx(0.762712, abs=1e-6)
    assert fit.log_evidence == pytest.approx(-4.124508, abs=1e-6)
    assert evidence_gradient(fit, 2 * K[None], 0.5)[0] == pytest.approx(-0.754955, abs=1e-6)
    np.testing.assert_allclose(
        leave_one_out(fit, y).mean, [1.085714, 1.682927, 2.526316], atol=1e-6
    )


def test_worked_example_through_the_estimator():
    gp = GPRegressor(
        center=False,
        normalize=False,
        center_targets=False,
        optimize=False,
        theta=[0.0, 0.5 * np.log(0.5)],
    ).fit(x[:, None], y)
    mean, sd = gp.predict(np.array([[4.0]]), return_std=True)
    assert mean[0] == pytest.approx(3.237288, abs=1e-6)
    assert sd[0] ** 2 == pytest.approx(1.262712, abs=1e-6)
    _, latent_sd = gp.predict(np.array([[4.0]]), return_std=True, include_noise=False)
    assert latent_sd[0] ** 2 == pytest.approx(0.762712, abs=1e-6)
    assert gp.log_evidence_ == pytest.approx(-4.124508, abs=1e-6)
    np.testing.assert_allclose(gp.latent_[:, 0], K @ gp.dual_coef_[:, 0], rtol=1e-10)


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


def test_spectrum_gives_the_same_evidence_and_its_global_maximum(rng):
    X, w = rng.normal(size=(20, 30)), rng.normal(size=30)
    t = X @ w + rng.normal(size=20)
    G = X @ X.T
    modes = spectrum(G, t)
    for log_s, log_noise in [(0.0, 0.0), (-1.0, 0.5), (1.0, -2.0)]:
        direct = regress(np.exp(2 * log_s) * G, t, np.exp(2 * log_noise)).log_evidence
        assert spectral_evidence(modes, log_s, log_noise) == pytest.approx(direct, rel=1e-9)
    log_s, log_noise = best_scale_and_noise(modes, (1e-7, 1e7))
    found = spectral_evidence(modes, log_s, log_noise)
    grid = spectral_evidence(modes, *np.meshgrid(np.linspace(-5, 5, 60), np.linspace(-5, 5, 60)))
    assert found >= grid.max() - 1e-6


def test_a_mean_taken_out_does_not_vouch_for_zero_noise(rng):
    X = rng.normal(size=(40, 60))
    t = X @ rng.normal(size=60) + 5 * rng.normal(size=40)
    without, with_bias = GPRegressor(offset=0.0).fit(X, t), GPRegressor().fit(X, t)
    assert without.noise_ == pytest.approx(with_bias.noise_, rel=0.5)
    assert without.noise_ > 1.0


def test_estimator_agrees_with_scikit_learn(rng):
    X = rng.normal(size=(25, 40))
    t = X @ rng.normal(size=40) * 0.5 + rng.normal(size=25)
    ours = GPRegressor(center=False, normalize=False).fit(X, t)
    kernel = ConstantKernel(1.0, (1e-6, 1e6)) * DotProduct(1.0, "fixed") + WhiteKernel(
        1.0, (1e-6, 1e6)
    )
    peer = GaussianProcessRegressor(kernel, alpha=0.0, n_restarts_optimizer=3, random_state=0)
    peer.fit(X, t - t.mean())
    assert ours.log_evidence_ == pytest.approx(peer.log_marginal_likelihood_value_, abs=1e-5)
    new = rng.normal(size=(4, 40))
    mean, sd = ours.predict(new, return_std=True)
    peer_mean, peer_sd = peer.predict(new, return_std=True)
    np.testing.assert_allclose(mean, peer_mean + t.mean(), rtol=1e-3)
    np.testing.assert_allclose(sd, peer_sd, rtol=1e-3)


def test_several_kernels_find_the_region_that_matters(rng):
    X = rng.normal(size=(40, 60))
    t = X[:, :20] @ rng.normal(size=20) + 0.1 * rng.normal(size=40)
    regions = np.repeat([0, 1, 2], 20)
    many = GPRegressor(regions=regions).fit(X, t)
    one = GPRegressor().fit(X, t)
    assert many.kernel_share_[0] > 0.9
    assert many.log_evidence_ > one.log_evidence_
    maps = many.voxel_maps()
    assert np.abs(maps["weight"][:20]).mean() > 5 * np.abs(maps["weight"][20:]).mean()


def test_unit_of_voxels_and_targets_is_free(rng):
    X, t = rng.normal(size=(15, 8)), rng.normal(size=15)
    a = GPRegressor().fit(X, t).predict(X, return_std=True)
    b = GPRegressor().fit(1000 * X + 50, 7 * t + 3).predict(1000 * X + 50, return_std=True)
    np.testing.assert_allclose(b[0], 7 * a[0] + 3, rtol=1e-4)
    np.testing.assert_allclose(b[1], 7 * a[1], rtol=1e-4)


def test_evidence_surface_peaks_at_the_fit(rng):
    X = rng.normal(size=(30, 10))
    t = X @ rng.normal(size=10) + rng.normal(size=30)
    gp = GPRegressor().fit(X, t)
    steps = np.linspace(-1, 1, 9)
    surface = gp.evidence_surface(gp.theta_[0] + steps, gp.theta_[1] + steps)
    assert np.unravel_index(surface.argmax(), surface.shape) == (4, 4)
    assert surface.max() == pytest.approx(gp.log_evidence_, rel=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", ["linear", "rbf"]])
def test_odd_data(kernel):
    X = np.ones((6, 3))
    constant = GPRegressor(kernel).fit(X, np.full(6, 2.0))
    np.testing.assert_allclose(constant.predict(X), 2.0)
    repeated = GPRegressor(kernel).fit(X, np.arange(6.0))
    np.testing.assert_allclose(repeated.predict(X), 2.5, atol=1e-6)
    two = GPRegressor(kernel).fit(np.array([[0.0], [1.0]]), np.array([1.0, 3.0]))
    assert np.isfinite(two.predict(np.array([[0.5]]), return_std=True)).all()


def test_climb_respects_the_number_of_evaluations():
    def bowl(theta):
        return -float(theta @ theta), -2 * theta

    bounds = np.array([[-50.0, 50.0]] * 3)
    full = maximise(bowl, [np.full(3, 30.0)], bounds)
    np.testing.assert_allclose(full.theta, 0, atol=1e-4)
    rationed = maximise(bowl, [np.full(3, 30.0)], bounds, max_evals=2)
    assert len(rationed.path) == 2
    assert rationed.value == rationed.path.max()
    prior = maximise(bowl, [np.full(3, 30.0)], bounds, prior_sd=0.1)
    np.testing.assert_allclose(prior.theta, 30 * 100 / 102, rtol=1e-4)


def test_targets_that_are_not_numbers_are_refused():
    with pytest.raises(ValueError, match="y contains NaN"):
        GPRegressor().fit(np.eye(3), [1.0, np.nan, 2.0])
