"""Processes of many labellings at once: modes, evidence and predictions against one at a time."""

import numpy as np
import pytest
from scipy.special import expit

from voxprior import GPClassifier
from voxprior.models.gaussian.batch import (
    LOG_SCALES,
    fit_processes,
    half_log_determinants,
    log_evidence,
    modes,
    scaled_gram,
)
from voxprior.models.gaussian.covariance import Kernel
from voxprior.models.gaussian.laplace import laplace

KERNEL = Kernel("linear", 0.1)


def test_two_scans():
    """K = [2 ½; ½ 2], labels 1 and 0."""
    K, Y = np.array([[2, 0.5], [0.5, 2]]), np.array([[1.0], [0.0]])
    F = modes(K, Y, 200, np.zeros((2, 1)))
    np.testing.assert_allclose(F.ravel(), [0.5491073152, -0.5491073152], atol=1e-9)
    p = expit(F)
    assert half_log_determinants(K, p * (1 - p))[0] == pytest.approx(0.3781085468, abs=1e-9)


@pytest.fixture
def gram(rng):
    X = rng.normal(size=(30, 50))
    return scaled_gram(X @ X.T, True, True).gram


def test_modes_and_evidence_are_laplace(rng, gram):
    Y = rng.integers(0, 2, size=(30, 11)).astype(float)
    for scale, n_steps in ((0.0, 60), (2.0, 400)):
        K = np.exp(2 * scale) * (gram + 0.1)
        F = modes(K, Y, n_steps, np.zeros_like(Y))
        found = log_evidence(K, Y, F)
        for b in range(11):
            one = laplace(K, 2 * Y[:, b] - 1)
            np.testing.assert_allclose(F[:, b], one.f, atol=2e-4)
            assert found[b] == pytest.approx(one.log_evidence, abs=1e-4)


def test_determinants_of_any_number_of_columns(rng, gram):
    W = rng.uniform(0, 0.25, size=(30, 13))
    expected = [
        0.5 * np.linalg.slogdet(np.eye(30) + np.sqrt(np.outer(w, w)) * gram)[1] for w in W.T
    ]
    np.testing.assert_allclose(half_log_determinants(gram, W), expected, atol=1e-10)


def test_each_labelling_takes_its_best_scale(rng):
    """Against Laplace's method alone at each scale, on strong labels, weak ones and noise."""
    y = np.tile([0, 1], 12)
    X = rng.normal(size=(24, 40)) + 1.5 * y[:, None]
    Y = np.column_stack([y, np.where(np.arange(24) < 5, 1 - y, y), rng.permutation(y)])
    raw, train, test = X @ X.T, np.arange(18), np.arange(18, 24)
    many = fit_processes(KERNEL, raw, train, Y[train], 2, center=True, normalize=True)
    found = many.decision_function(test)
    inside, outside = X[train] - X[train].mean(axis=0), X[test] - X[train].mean(axis=0)
    size = (inside**2).sum() / 18
    for b in range(3):
        fits = {}
        for scale in LOG_SCALES:
            s2 = np.exp(2 * scale)
            fits[scale] = laplace(s2 * (inside @ inside.T / size + 0.1), 2 * Y[train, b] - 1.0)
        best = max(fits, key=lambda scale: fits[scale].log_evidence)
        cross = np.exp(2 * best) * (outside @ inside.T / size + 0.1)
        np.testing.assert_allclose(found[:, b], cross @ fits[best].a, rtol=0.02, atol=0.02)


class TestEstimator:
    def test_predicts_as_the_refitted_classifier(self, rng):
        y = np.tile([0, 1], 15)
        X = rng.normal(size=(30, 60)) + 0.5 * y[:, None]
        gp, train, test = GPClassifier(), np.arange(20), np.arange(20, 30)
        Y = np.column_stack([y, *(rng.permutation(y) for _ in range(5))])
        many = gp.fit_many(gp.prepare(X), train, Y[train], 2).decision_function(test)
        same = [
            np.mean((many[:, b] > 0) == GPClassifier().fit(X[train], Y[train, b]).predict(X[test]))
            for b in range(6)
        ]
        assert np.mean(same) > 0.9

    def test_three_classes(self, rng):
        y = np.tile([0, 1, 2], 8)
        X = rng.normal(size=(24, 30)) + 3 * np.eye(3, 30)[y] * np.sqrt(10)
        gp, train, test = GPClassifier(), np.arange(18), np.arange(18, 24)
        values = gp.fit_many(gp.prepare(X), train, y[train, None], 3).decision_function(test)
        assert values.shape == (6, 1, 3)
        assert values[:, 0].argmax(axis=1).tolist() == y[test].tolist()

    @pytest.mark.parametrize(
        "settings", [{"center": False}, {"normalize": False}, {"kernel": "poly"}]
    )
    def test_settings_of_the_kernel(self, rng, settings):
        """With a given scale, the latent mean is that of the estimator by Laplace's method."""
        y, X = np.tile([0, 1], 8), 0.3 * rng.normal(size=(16, 5))
        settings = settings | {"optimize": False, "inference": "laplace"}
        gp, train, test = GPClassifier(**settings), np.arange(12), np.arange(12, 16)
        many = gp.fit_many(gp.prepare(X), train, y[train, None], 2)
        expected = gp.fit(X[train], y[train]).predict_latent(X[test])[0]
        np.testing.assert_allclose(many.decision_function(test)[:, 0], expected, atol=1e-5)

    def test_given_gram_matrix(self, rng):
        y, X = np.tile([0, 1], 8), rng.normal(size=(16, 5))
        train, test = np.arange(12), np.arange(12, 16)
        both = [
            gp.fit_many(gp.prepare(scans), train, y[train, None], 2).decision_function(test)
            for gp, scans in ((GPClassifier(), X), (GPClassifier("precomputed"), X @ X.T))
        ]
        np.testing.assert_allclose(*both)

    @pytest.mark.parametrize(
        "settings", [{"kernel": "rbf"}, {"kernel": ["linear", "rbf"]}, {"regions": [0, 1]}]
    )
    def test_is_not_offered_where_there_is_more_to_choose(self, settings):
        assert not hasattr(GPClassifier(**settings), "fit_many")

    def test_refuses_infinite_scans(self):
        with pytest.raises(ValueError, match="NaN"):
            GPClassifier().prepare(np.array([[1.0, np.nan], [0.0, 1.0]]))
