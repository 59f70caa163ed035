"""Averages of the softmax, and unseen variance: leave-one-out against dense algebra, its weight."""

import numpy as np
import pytest

from voxprior.errors import InputError
from voxprior.models.gaussian import GPClassifier
from voxprior.models.gaussian.ep import expectation_propagation
from voxprior.models.gaussian.laplace import laplace
from voxprior.models.gaussian.prediction import (
    average_softmax,
    choose_rule,
    choose_unseen_variance,
    left_out,
    pseudo_inverse_root,
    random_rule,
    sobol_rule,
)


def test_shift_of_all_latents_changes_no_probability(rng):
    mean, root = rng.normal(size=(3, 4)), rng.normal(size=(3, 4, 4))
    covariance = root @ root.transpose(0, 2, 1)
    for rule in (sobol_rule(4, 256, 0), random_rule(4, 500, 0)):
        p = average_softmax(mean, covariance, rule)
        np.testing.assert_allclose(average_softmax(mean + 5.0, covariance, rule), p, rtol=1e-9)
        np.testing.assert_allclose(p.sum(axis=1), 1)


@pytest.mark.parametrize("C", [3, 5, 8])
def test_sobol_beats_plain_draws(rng, C):
    mean, root = rng.normal(size=(5, C)), rng.normal(size=(5, C, C))
    covariance = root @ root.transpose(0, 2, 1)
    truth = average_softmax(mean, covariance, sobol_rule(C, 2**16, 7))
    sobol = average_softmax(mean, covariance, choose_rule("sobol", C, 1024, 0))
    plain = np.mean(
        [
            np.abs(average_softmax(mean, covariance, random_rule(C, 1024, s)) - truth).max()
            for s in range(5)
        ]
    )
    assert np.abs(sobol - truth).max() < 5e-3
    assert np.abs(sobol - truth).max() < 0.5 * plain


def test_a_scan_alone_gets_the_same_probabilities(rng):
    mean, root = rng.normal(size=(6, 5)), rng.normal(size=(6, 5, 5))
    covariance = root @ root.transpose(0, 2, 1)
    rule = sobol_rule(5, 512, 3)
    batch = average_softmax(mean, covariance, rule)
    for i in range(6):
        alone = average_softmax(mean[i : i + 1], covariance[i : i + 1], rule)
        np.testing.assert_allclose(np.log(alone[0]), np.log(batch[i]), rtol=1e-9)


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
    assert choose_unseen_variance([left_out(fit, K)], codes, "probit") == 0.0


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


@pytest.mark.parametrize(
    ("name", "n_classes", "n_draws"),
    [("random", 4, 2**20 + 1), ("sobol", 4, 10**9), ("auto", 4, 10**9), ("quadrature", 6, 8)],
)
def test_a_rule_that_would_fill_the_memory_is_refused(name, n_classes, n_draws):
    with pytest.raises(InputError, match=r"up to"):
        choose_rule(name, n_classes, n_draws, seed=0)
