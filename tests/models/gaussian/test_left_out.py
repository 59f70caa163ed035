"""Scans left out without a refit: dense algebra, groups, weights of unseen variance, powers."""

import numpy as np
import pytest
from scipy.special import softmax

from voxprior.models.gaussian import GPClassifier, GPRegressor
from voxprior.models.gaussian.ep import expectation_propagation
from voxprior.models.gaussian.laplace import laplace, softmax_laplace
from voxprior.models.gaussian.left_out import (
    LOG_POWERS,
    choose_unseen_variance,
    left_out,
    power_posterior,
    powered,
    pseudo_inverse_root,
    softmax_left_out,
    unseen_variances,
)
from voxprior.models.gaussian.prediction import class_probabilities
from voxprior.models.gaussian.regression import leave_groups_out, leave_one_out, regress

GROUPS = np.array([0, 0, 1, 1, 1, 2, 2, 0, 3])


def probit(mean, variance):
    return class_probabilities(mean, variance, "probit")


def test_pseudo_inverse_root_measures_the_part_that_training_has_seen(rng):
    X, new = rng.normal(size=(6, 50)), rng.normal(size=(3, 50))
    X[5] = X[4]
    basis = np.linalg.svd(X, full_matrices=False)[2][:5]
    seen = ((new @ basis.T) ** 2).sum(axis=1)
    np.testing.assert_allclose(((new @ X.T @ pseudo_inverse_root(X @ X.T)) ** 2).sum(axis=1), seen)


@pytest.mark.parametrize("inference", ["ep", "laplace"])
def test_left_out_moments_against_dense_algebra(rng, inference):
    """Remove one site from the Gaussian posterior, with all matrices written out."""
    Z, sign = rng.normal(size=(9, 20)), rng.choice([-1.0, 1.0], size=9)
    K = Z @ Z.T / 5 + 1
    fit = laplace(K, sign) if inference == "laplace" else expectation_propagation(K, sign)[0]
    out = left_out(fit, K)
    precision = fit.root**2
    natural = fit.a + precision * fit.f
    for i in range(9):
        rest = np.arange(9) != i
        covariance = np.linalg.inv(np.linalg.inv(K) + np.diag(precision * rest))
        assert out.mean[i] == pytest.approx((covariance @ (natural * rest))[i], rel=1e-6, abs=1e-9)
        assert out.variance[i] == pytest.approx(covariance[i, i], rel=1e-6)
        given = K[i, rest] @ np.linalg.solve(K[np.ix_(rest, rest)], K[rest, i])
        assert out.unseen[i] == pytest.approx(K[i, i] - given, rel=1e-5, abs=1e-7)


def test_scans_within_the_span_of_others_leave_the_weight_at_zero(rng):
    Z, sign = rng.normal(size=(20, 3)), rng.choice([-1.0, 1.0], size=20)
    K = Z @ Z.T + 1
    fit = expectation_propagation(K, sign)[0]
    np.testing.assert_allclose(left_out(fit, K).unseen, 0, atol=1e-6)
    codes = (sign > 0).astype(int)
    assert choose_unseen_variance([left_out(fit, K)], codes, probit) == 0.0


@pytest.mark.slow
def test_automatic_weight_avoids_both_blur_and_overconfidence():
    """Weak to strong patterns in many voxels: held-out log-loss with the chosen weight."""
    for strength in (0.03, 0.05, 0.1, 0.2):
        losses = dict.fromkeys(("auto", 0.0, 1.0), 0.0)
        for seed in range(4):
            rng = np.random.default_rng(seed)
            codes = np.arange(60) % 3
            patterns = strength * rng.normal(size=(3, 2000))
            X, new = (rng.normal(size=(60, 2000)) + patterns[codes] for _ in range(2))
            for weight in losses:
                p = GPClassifier(unseen_variance=weight).fit(X, codes).predict_proba(new)
                losses[weight] -= np.log(p[np.arange(60), codes]).mean() / 4
        assert losses["auto"] < max(losses[0.0], losses[1.0])
        assert losses["auto"] < losses[1.0] + 0.02
        assert losses["auto"] < min(losses[0.0], losses[1.0]) + 0.3


def test_wrong_weights_are_explained(rng):
    for wrong in ("maybe", 1.5, -0.1):
        with pytest.raises(ValueError, match="'unseen_variance' parameter"):
            GPClassifier(unseen_variance=wrong).fit(rng.normal(size=(6, 4)), [0, 1] * 3)


@pytest.mark.parametrize("approximate", [lambda K, y: expectation_propagation(K, y)[0], laplace])
def test_groups_left_out_against_dense_matrices(rng, approximate):
    Z = rng.normal(size=(9, 12))
    K, sign = Z @ Z.T / 6 + 0.5, rng.choice([-1.0, 1.0], size=9)
    fit = approximate(K, sign)
    out = left_out(fit, K, GROUPS)
    precision = fit.root**2
    natural = fit.a + precision * fit.f
    for i in range(9):
        rest = GROUPS[i] != GROUPS
        covariance = np.linalg.inv(np.linalg.inv(K) + np.diag(precision * rest))
        assert out.mean[i] == pytest.approx((covariance @ (natural * rest))[i], rel=1e-6, abs=1e-9)
        assert out.variance[i] == pytest.approx(covariance[i, i], rel=1e-6)
        given = K[i, rest] @ np.linalg.solve(K[np.ix_(rest, rest)], K[rest, i])
        assert out.unseen[i] == pytest.approx(K[i, i] - given, rel=1e-5, abs=1e-7)


def test_groups_of_one_are_scans(rng):
    Z = rng.normal(size=(9, 12))
    K, sign = Z @ Z.T / 6, rng.choice([-1.0, 1.0], size=9)
    fit = expectation_propagation(K, sign)[0]
    for one, other in zip(left_out(fit, K), left_out(fit, K, np.arange(9))):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-8)


def test_one_group_leaves_the_prior(rng):
    K = np.cov(rng.normal(size=(5, 30)))
    fit = expectation_propagation(K, np.array([1.0, -1, 1, -1, 1]))[0]
    out = left_out(fit, K, np.zeros(5))
    np.testing.assert_allclose(out.mean, 0)
    np.testing.assert_allclose(out.variance, np.diag(K))
    np.testing.assert_allclose(unseen_variances(K, np.zeros(5)), np.diag(K))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("groups", [None, GROUPS])
def test_softmax_left_out_against_dense_matrices(rng, shared, groups):
    """All sites but those left out, as one system of the nine scans of three classes."""
    n, C = 9, 3
    Z = rng.normal(size=(n, 12))
    scales = np.ones(3) if shared else np.array([0.5, 1.0, 2.0])
    kernels = scales[:, None, None] * (Z @ Z.T / 6 + 0.3)
    K = kernels[0] if shared else kernels
    onehot = np.eye(C)[np.arange(n) % C]
    fit = softmax_laplace(K, onehot)
    out = softmax_left_out(fit, K, onehot, groups)
    p = softmax(fit.f, axis=1)
    dense = np.zeros((n * C, n * C))
    for c in range(C):
        dense[c::C, c::C] = kernels[c]
    labels = np.arange(n) if groups is None else groups
    for i in range(n):
        W, natural = np.zeros((n * C, n * C)), np.zeros(n * C)
        for j in np.flatnonzero(labels != labels[i]):
            block = slice(j * C, (j + 1) * C)
            W[block, block] = np.diag(p[j]) - np.outer(p[j], p[j])
            natural[block] = W[block, block] @ fit.f[j] + onehot[j] - p[j]
        covariance = np.linalg.inv(np.linalg.inv(dense) + W)
        here = slice(i * C, (i + 1) * C)
        np.testing.assert_allclose(out.mean[i], (covariance @ natural)[here], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(out.covariance[i], covariance[here, here], rtol=1e-5, atol=1e-7)


def test_targets_of_groups_left_out(rng):
    Z, y = rng.normal(size=(9, 4)), rng.normal(size=9)
    K = Z @ Z.T + 1
    fit = regress(K, y, 0.3)
    out = leave_groups_out(fit, y, GROUPS)
    for i in range(9):
        rest = GROUPS[i] != GROUPS
        A = K[np.ix_(rest, rest)] + 0.3 * np.eye(rest.sum())
        mean = K[i, rest] @ np.linalg.solve(A, y[rest])
        variance = K[i, i] + 0.3 - K[i, rest] @ np.linalg.solve(A, K[rest, i])
        assert out.mean[i] == pytest.approx(mean, rel=1e-8)
        assert out.variance[i] == pytest.approx(variance, rel=1e-8)
    alone = leave_groups_out(fit, y, np.arange(9))
    np.testing.assert_allclose(alone, leave_one_out(fit, y), rtol=1e-8)


def test_power_against_the_naive_sum(rng):
    p, codes = rng.dirichlet(np.ones(3), size=6), rng.integers(3, size=6)
    new = rng.dirichlet(np.ones(3))
    total, mixture = 0.0, np.zeros(3)
    for u in np.linspace(-1.5, 3, 37):
        weight = np.exp(-0.5 * u**2)
        for row, code in zip(p, codes):
            weight *= row[code] ** np.exp(u) / (row ** np.exp(u)).sum()
        total += weight
        mixture += weight * new ** np.exp(u) / (new ** np.exp(u)).sum()
    weights = power_posterior(np.log(p), codes)
    assert weights.sum() == pytest.approx(1)
    assert len(weights) == len(LOG_POWERS)
    np.testing.assert_allclose(powered(np.log(new[None]), weights)[0], mixture / total, rtol=1e-9)


@pytest.mark.parametrize("options", [{}, {"inference": "laplace"}, {"multiclass": "multinomial"}])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_left_out_score_tells_signal_from_noise(rng, options, n_classes):
    if n_classes == 2 and "multiclass" in options:
        options = {"unseen_variance": 0.3}
    codes, run = np.tile(np.arange(n_classes), 8), np.repeat(np.arange(8), n_classes)
    X = rng.normal(size=(len(codes), 60))
    noise = GPClassifier(**options).fit(X, codes, run).left_out_log_score_
    X[np.arange(len(codes)), codes] += 6
    model = GPClassifier(**options).fit(X, codes)
    by_scan, by_run = model.left_out_log_score_, model.fit(X, codes, run).left_out_log_score_
    assert noise < by_run - 3
    assert by_run == pytest.approx(by_scan, abs=5)
    assert by_run > len(codes) * np.log(1 / n_classes)
    # A quarter of the scans refitted away says nearly the same as sites dropped.
    refitted = 0.0
    for test in np.split(np.arange(len(codes)), 4):
        train = np.setdiff1d(np.arange(len(codes)), test)
        p = GPClassifier(**options).fit(X[train], codes[train]).predict_log_proba(X[test])
        refitted += p[np.arange(len(test)), codes[test]].sum()
    assert by_run == pytest.approx(refitted, abs=0.35 * len(codes))


def test_left_out_score_of_a_regression(rng):
    X = rng.normal(size=(20, 5))
    y = X @ rng.normal(size=5) + 0.3 * rng.normal(size=20)
    gp = GPRegressor().fit(X, y)
    left = gp.leave_one_out()
    density = -0.5 * ((y - left.mean) ** 2 / left.variance + np.log(2 * np.pi * left.variance))
    assert gp.left_out_log_score_ == pytest.approx(density.sum())
    by_group = gp.fit(X, y, np.arange(20) // 2).left_out_log_score_
    assert by_group == pytest.approx(density.sum(), abs=8)
    assert by_group != density.sum()


@pytest.mark.parametrize("estimator", [GPClassifier(), GPRegressor()])
def test_groups_that_do_not_fit_are_refused(rng, estimator):
    with pytest.raises(ValueError, match="group of each of 6 scans"):
        estimator.fit(rng.normal(size=(6, 3)), [0, 1] * 3, [0, 1])
