"""GPRegressor: worked example, scikit-learn's regressor, several kernels, units, odd data."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, WhiteKernel

from voxprior.models.gaussian import GPRegressor


def test_worked_example_through_the_estimator():
    """Three scans of one voxel, linear kernel with bias, σ² = ½; prediction at x = 4."""
    x, y = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 2.5])
    K = np.outer(x, x) + 1
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


def test_a_mean_taken_out_does_not_vouch_for_zero_noise(rng):
    X = rng.normal(size=(40, 60))
    t = X @ rng.normal(size=60) + 5 * rng.normal(size=40)
    without, with_bias = GPRegressor(offset=0.0).fit(X, t), GPRegressor().fit(X, t)
    assert without.noise_ == pytest.approx(with_bias.noise_, rel=0.5)
    assert without.noise_ > 1.0


@pytest.mark.parametrize("design", ["line", "plane", "replicates", "two scans"])
@pytest.mark.parametrize("seed", range(3))
def test_targets_without_noise_are_met_whatever_the_rounding(design, seed):
    """More scans than voxels, or no scan to spare: the last bits of BLAS must not decide."""
    x = np.linspace(-1, 1, 9)
    X = {
        "line": x[:, None],
        "plane": np.column_stack([x, x**2]),
        "replicates": np.repeat([[-1.0], [1.0]], 4, axis=0),
        "two scans": np.array([[1.0, 0.5], [-2.0, 0.0]]),
    }[design]
    y = 2 * X[:, 0] + 1
    nearly = X * (1 + 1e-15 * np.random.default_rng(seed).normal(size=X.shape))
    np.testing.assert_allclose(GPRegressor().fit(nearly, y).predict(X), y, atol=1e-4)


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


def test_targets_that_are_not_numbers_are_refused():
    with pytest.raises(ValueError, match="y contains NaN"):
        GPRegressor().fit(np.eye(3), [1.0, np.nan, 2.0])


def test_numbers_too_large_to_be_squared_are_refused(rng):
    X = rng.normal(size=(8, 3))
    assert np.isfinite(GPRegressor().fit(X, 1e140 * X[:, 0]).predict(X)).all()
    with pytest.raises(ValueError, match=r"too large to be squared.*another unit"):
        GPRegressor().fit(X, 1e200 * X[:, 0])
