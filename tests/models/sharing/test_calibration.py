import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from voxprior import FeatureSharingNB, VoxelSpace
from voxprior.models.sharing.calibration import (
    PRIOR_DEGREES,
    Calibration,
    Excerpt,
    attenuation,
    calibrate,
    excerpt_features,
    overdispersion,
    remove_excerpt,
    tempered,
)
from voxprior.models.sharing.means import group_prior
from voxprior.models.sharing.statistics import class_statistics
from voxprior.simulate import time_courses


def naive_overdispersion(residuals, contrasts, d):
    """From the feature-by-feature covariance S, as the formulas read."""
    J = residuals.shape[1]
    S = residuals.T @ residuals / d
    r_d = sum(c @ S @ c for c in contrasts) / sum(c @ c for c in contrasts)
    square = d**2 / ((d - 1) * (d + 2)) * (np.trace(S @ S) - np.trace(S) ** 2 / d)
    square = max(square, np.trace(S) ** 2 / J)  # J_eff is at most J
    r_e = square / np.trace(S)
    return max(1.0, (np.sqrt(J) + 2 * r_e + d * r_d) / (3 + d))


@given(st.integers(0, 10_000), st.integers(3, 9), st.integers(2, 30))
@settings(max_examples=30, deadline=None)
def test_overdispersion_equals_its_formula(seed, n, J):
    rng = np.random.default_rng(seed)
    residuals = rng.normal(size=(n, J)) + 2 * rng.normal(size=(n, 1))
    contrasts = rng.normal(size=(3, J))
    expected = naive_overdispersion(residuals, contrasts, n - 1)
    assert overdispersion(residuals, contrasts, n - 1, J) == pytest.approx(expected, rel=1e-9)


def test_many_scans_make_no_matrix_of_scans_by_scans(rng):
    residuals, contrasts = rng.normal(size=(3000, 5)), rng.normal(size=(2, 5))
    tracemalloc.start()
    found = overdispersion(residuals, contrasts, 2998, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3000**2
    assert found == pytest.approx(naive_overdispersion(residuals, contrasts, 2998))


def test_independent_features_need_no_correction(rng):
    r = overdispersion(rng.normal(size=(400, 500)), rng.normal(size=(2, 500)), 400, 500)
    assert r == pytest.approx(1.0, abs=0.15)


def test_a_sample_of_the_features_tells_of_all(rng):
    """One common factor among 4,000 features: 400 of them extrapolate to all."""
    residuals = 0.5 * rng.normal(size=(60, 1)) + rng.normal(size=(60, 4000))
    contrasts = rng.normal(size=(2, 4000)) + 1.0
    some = np.sort(rng.choice(4000, 400, replace=False))
    whole = overdispersion(residuals, contrasts, 60, 4000)
    part = overdispersion(residuals[:, some], contrasts[:, some], 60, 4000)
    assert whole > 100
    assert part == pytest.approx(whole, rel=0.2)


def test_attenuation_is_james_stein_for_unshared_means(rng):
    J, N, C = 300, 4, 3
    means = rng.normal(size=(C, J))
    var = np.full((C, J), 2.0)
    ones = np.ones((C, J))
    D = means - means.mean(axis=0)
    expected = 1 - (2.0 * J / N) * (C - 1) / (D**2).sum()
    assert attenuation(means, means, ones, var, np.full(C, N)) == pytest.approx(expected)


def smoothing_of(V, weight):
    """A linear smoother on a ring: w X̄ + (1 − w) (mean of 8 neighbours)."""
    near = sum(np.eye(V, k=k) + np.eye(V, k=k - V) + np.eye(V, k=k + V) for k in range(-4, 5) if k)
    return weight * np.eye(V) + (1 - weight) * near / 8


@pytest.mark.parametrize("weight", [1.0, 0.3])
@pytest.mark.parametrize("noise_width", [0, 6])
def test_attenuation_is_the_slope_on_the_truth(rng, weight, noise_width):
    """b estimates θ̃·δ/|θ̃|² though it never sees the true contrast δ; smooth noise or not."""
    V, N = 2000, 2
    smooth = np.exp(-((np.arange(V) - V // 2) ** 2) / 200)
    field = np.fft.irfft(np.fft.rfft(rng.normal(size=(2, V))) * np.fft.rfft(smooth), V)
    truth = 0.7 * field / field.std()
    noise = rng.normal(size=(2, V))
    if noise_width:
        kernel = np.exp(-((np.arange(V) - V // 2) ** 2) / (2 * noise_width**2))
        noise = np.fft.irfft(np.fft.rfft(noise) * np.fft.rfft(kernel), V)
    means = truth + noise / noise.std() / np.sqrt(N)
    theta = means @ smoothing_of(V, weight).T
    contrasts, true = theta - theta.mean(axis=0), truth - truth.mean(axis=0)
    slope = (contrasts * true).sum() / (contrasts**2).sum()
    ones = np.ones((2, V))
    estimate = attenuation(theta, means, weight * ones, ones, np.full(2, N))
    assert estimate == pytest.approx(slope, abs=0.12)


def test_a_fitted_map_repeats_its_own_mean(rng):
    """∂μ̂/∂X̄ of the scale map, by finite differences, is about 1/T for one neighbour."""
    course = rng.normal(size=(2, 7))
    groups = sparse.csr_array([[0.0, 1.0], [1.0, 0.0]])
    means = course.T.reshape(1, -1)
    prior = group_prior(means, groups, "scale")
    total = 0.0
    for t in range(7):
        moved = means.copy()
        moved[0, 2 * t] += 1e-6
        total += (group_prior(moved, groups, "scale").mean[0, 2 * t] - prior.mean[0, 2 * t]) / 1e-6
    assert prior.leverage == pytest.approx(total / 7, rel=1e-4)
    assert group_prior(means, groups, "identity").leverage == 0


def test_tempering_keeps_order_and_has_its_limit(rng):
    scores = rng.normal(0, 50, size=(20, 4))
    for nu in (1.0, 5.0, 1e12):
        tame = tempered(scores, Calibration(0.1, nu, 3))
        np.testing.assert_array_equal(tame.argsort(axis=1), scores.argsort(axis=1))
    expected = 0.1 * (scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(tame, expected, rtol=1e-6, atol=1e-9)


def test_decisions_do_not_change(rng):
    X, y = rng.normal(size=(9, 60)), np.arange(9) % 3
    test = rng.normal(size=(50, 60))
    one, other = (FeatureSharingNB(calibration=kind).fit(X, y) for kind in ("effective", None))
    np.testing.assert_array_equal(one.predict(test), other.predict(test))
    np.testing.assert_array_equal(one.predict_proba(test).argmax(axis=1), one.predict(test))


def test_temperature_of_the_estimator_is_that_of_the_formulas(scattered):
    X, y, space = scattered
    model = FeatureSharingNB(space, means="none", variances="mean").fit(X, y)
    codes = np.searchsorted(model.classes_, y)
    D = model.mean_ - model.mean_.mean(axis=0)
    residuals = (X - model.mean_[codes]) / np.sqrt(model.var_[0])
    r = naive_overdispersion(residuals, D / np.sqrt(model.var_[0]), len(y) - 3)
    noise = (2 / 3) * X.shape[1] * (1 / np.array([3, 2, 4])).sum()
    b = np.clip(1 - noise / (D**2 / model.var_[0]).sum(), 0.02, 1.0)
    assert model.temperature_ == pytest.approx(r / b, rel=1e-9)
    assert model.degrees_ == PRIOR_DEGREES + len(y) - 3


def test_only_learned_examples_are_forgotten(scattered):
    X, y, space = scattered
    model = FeatureSharingNB(space).fit(X, y)
    with pytest.raises(ValueError, match="never learned"):
        model.forget(X[:1] + 1e-6, y[:1])
    whole = Excerpt(X[:, :2], np.zeros(len(X), int))
    with pytest.raises(ValueError, match="never learned"):
        remove_excerpt(whole, Excerpt(X[[0, 0], :2], np.zeros(2, int)))


def test_no_residuals_no_calibration(rng):
    """An empty class: as many examples as classes, and yet not one of each."""
    X, codes = rng.normal(size=(2, 5)), np.array([0, 0])
    ones = np.ones((2, 5))
    with pytest.raises(ValueError, match="more examples than classes"):
        calibrate(Excerpt(X, codes), class_statistics(X, codes, 2), X, ones, ones)


def test_one_example_of_each_class_is_worth_twelve_per_squared_distance():
    """Three classes at mutual squared distances 2, 2 and 2, in variances of 1/2: D = 4."""
    X, codes = np.eye(3), np.arange(3)
    half = np.full((3, 3), 0.5)
    worth = calibrate(Excerpt(X, codes), class_statistics(X, codes, 3), X, half, half)
    assert worth.kappa == pytest.approx(12 / 4)
    assert (worth.nu, worth.dimension) == (2, 2)
    same = calibrate(Excerpt(X, codes), class_statistics(X, codes, 3), half, half, half)
    assert same.kappa == 12


def test_sketch_is_stable_and_bounded():
    np.testing.assert_array_equal(excerpt_features(50_000), excerpt_features(50_000))
    assert len(np.unique(excerpt_features(50_000))) == 2048


@pytest.mark.slow
@pytest.mark.parametrize("n_per_class", [2, 5])
def test_probabilities_can_be_believed(n_per_class):
    """On simulated trials with smooth noise: low log-loss, and stated confidence near accuracy."""
    losses, gaps = {"effective": [], None: []}, []
    for seed in range(12):
        data = time_courses(
            VoxelSpace.grid((8, 8, 5)), 30, amplitude=0.25, noise_smoothness=1.5,
            noise_spread=0.4, random_state=seed,
        )  # fmt: skip
        train = np.concatenate([np.flatnonzero(data.y == c)[:n_per_class] for c in (0, 1)])
        test = np.setdiff1d(np.arange(len(data.y)), train)
        for kind, kept in losses.items():
            model = FeatureSharingNB(data.space, calibration=kind)
            log_p = model.fit(data.X[train], data.y[train]).predict_log_proba(data.X[test])
            kept.append(-log_p[np.arange(len(test)), data.y[test]].mean())
            if kind:
                accuracy = (log_p.argmax(axis=1) == data.y[test]).mean()
                gaps.append(np.exp(log_p.max(axis=1)).mean() - accuracy)
    assert np.mean(losses["effective"]) < {2: 0.95, 5: 0.69}[n_per_class]
    assert np.mean(losses["effective"]) < 0.1 * np.mean(losses[None])
    assert abs(np.mean(gaps)) < 0.12
