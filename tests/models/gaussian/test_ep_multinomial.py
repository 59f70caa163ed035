"""Multinomial probit by EP: worked examples, a dense and slow form, gradients, invariances."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from sklearn.exceptions import ConvergenceWarning

from voxprior.models.gaussian import ep_multinomial
from voxprior.models.gaussian.covariance import Kernel
from voxprior.models.gaussian.ep_multinomial import (
    multinomial_probabilities,
    multinomial_propagation,
    tilted,
)
from voxprior.models.gaussian.evidence import KernelTerms, MultinomialEvidence
from voxprior.models.gaussian.left_out import left_out

K = np.array(
    [[2, 1, 0, 0, -1], [1, 2, 0, 0, 0], [0, 0, 2, 1, 0], [0, 0, 1, 2, 0], [-1, 0, 0, 0, 2]], float
)
CODES = np.array([0, 0, 1, 1, 2])


def test_worked_example():
    """Five scans of three classes, two pairs of them alike."""
    fit, _ = multinomial_propagation(K, CODES)
    assert fit.log_evidence == pytest.approx(-4.740859, abs=1e-6)
    expected = [-0.674063, -0.822210, -0.797522, -0.797522, -0.979402]
    np.testing.assert_allclose(fit.log_Z, expected, atol=1e-6)


def test_worked_example_of_one_scan():
    mean, variance = np.array([[0.5, 0.0, -0.5]]), np.array([[1.0, 0.5, 2.0]])
    at = tilted(mean, variance, np.array([0]))
    assert at.log_Z[0] == pytest.approx(-0.738322, abs=1e-6)
    np.testing.assert_allclose(at.first[0], [0.453479, -0.276389, -0.177090], atol=1e-6)
    np.testing.assert_allclose(at.second[0], [-0.196348, -0.162652, -0.099523], atol=1e-6)
    p = multinomial_probabilities(mean, variance)[0]
    np.testing.assert_allclose(p, [0.477915, 0.291039, 0.231046], atol=1e-6)


def test_evidence_is_the_probability_of_the_labels(rng):
    """Labels drawn from the model itself, 100,000 times."""
    f = np.linalg.cholesky(K) @ rng.normal(size=(3, 5, 100_000))
    labels = (f + rng.normal(size=f.shape)).argmax(axis=0)
    frequency = (labels == CODES[:, None]).all(axis=0).mean()
    fit, _ = multinomial_propagation(K, CODES)
    assert fit.log_evidence == pytest.approx(np.log(frequency), abs=0.12)


def test_evidences_of_all_labellings_sum_to_one():
    """Three scans, 27 labellings: which the evidences of one against the rest do not."""
    near = np.array([[1.0, 0.6, 0.1], [0.6, 1.0, 0.2], [0.1, 0.2, 1.0]])
    kernels = np.array([near] * 3)
    evidences = [
        multinomial_propagation(kernels, np.array(labels))[0].log_evidence
        for labels in np.ndindex(3, 3, 3)
    ]
    assert np.exp(evidences).sum() == pytest.approx(1, abs=0.05)


def slow_Z(m, v, y):
    """The tilted normaliser by adaptive integration."""

    def integrand(t):
        density = math.exp(-0.5 * (t - m[y]) ** 2 / (1 + v[y])) / math.sqrt(
            2 * math.pi * (1 + v[y])
        )
        for j in range(len(m)):
            density *= 1 if j == y else 0.5 * math.erfc((m[j] - t) / math.sqrt(2 * (1 + v[j])))
        return density

    return quad(integrand, -20, 20, epsabs=1e-12, epsrel=1e-10, points=[m[y]])[0]


def slow_derivatives(m, v, y, step=1e-3):
    log_Z, C = np.log(slow_Z(m, v, y)), len(m)
    up = np.array([np.log(slow_Z(m + step * np.eye(C)[j], v, y)) for j in range(C)])
    down = np.array([np.log(slow_Z(m - step * np.eye(C)[j], v, y)) for j in range(C)])
    return log_Z, (up - down) / (2 * step), (up - 2 * log_Z + down) / step**2


def slow(K, codes, C, rounds=7):
    """EP one scan after the other with dense inverses, integrals and differences."""
    n = len(codes)
    tau, nu = np.full((n, C), 1e-8), np.zeros((n, C))
    for sweep in range(rounds):
        log_Zs, cavities = [], []
        for i in range(n):
            m, v = np.empty(C), np.empty(C)
            for c in range(C):
                Sigma = np.linalg.inv(np.linalg.inv(K) + np.diag(tau[:, c]))
                v[c] = 1 / (1 / Sigma[i, i] - tau[i, c])
                m[c] = v[c] * ((Sigma @ nu[:, c])[i] / Sigma[i, i] - nu[i, c])
            log_Z, g, h = slow_derivatives(m, v, codes[i])
            log_Zs.append(log_Z)
            cavities.append((m, v))
            if sweep < rounds - 1:
                tau[i], nu[i] = -h / (1 + v * h), (g - m * h) / (1 + v * h)
    mt = nu / tau
    m, v = (np.array(part) for part in zip(*cavities))
    evidence = sum(log_Zs) + (np.log1p(tau * v) / 2 + (m - mt) ** 2 / (2 * (v + 1 / tau))).sum()
    for c in range(C):
        A = K + np.diag(1 / tau[:, c])
        root = np.sqrt(tau[:, c])
        evidence -= 0.5 * np.linalg.slogdet(np.eye(n) + root[:, None] * K * root)[1]
        evidence -= 0.5 * mt[:, c] @ np.linalg.solve(A, mt[:, c])
    return evidence, np.array(log_Zs), tau


def test_against_the_slow_form(rng):
    Z = rng.normal(size=(4, 3))
    own = Z @ Z.T + np.eye(4)
    evidence, log_Z, tau = slow(own, np.array([0, 1, 2, 1]), 3)
    fit, sites = multinomial_propagation(own, np.array([0, 1, 2, 1]))
    assert fit.log_evidence == pytest.approx(evidence, abs=1e-4)
    np.testing.assert_allclose(fit.log_Z, log_Z, atol=1e-4)
    np.testing.assert_allclose(sites.tau, tau, atol=1e-3)


@pytest.mark.parametrize("scale", [0.1, 3.0, 30.0])
def test_derivatives_of_the_normaliser(rng, scale):
    m, v = scale * rng.normal(size=(5, 4)), scale * rng.random((5, 4))
    codes = np.array([0, 1, 2, 3, 1])
    at = tilted(m, v, codes)
    for c in range(4):
        step = 1e-4 * np.eye(4)[c]
        up, down = tilted(m + step, v, codes), tilted(m - step, v, codes)
        # Where the nodes are too far apart for the other classes, all of them are a little off.
        loose = 1e-6 if scale < 1 else 0.05
        slope = (up.log_Z - down.log_Z) / 2e-4
        np.testing.assert_allclose(at.first[:, c], slope, rtol=loose, atol=loose)
        if scale < 1:
            curve = (up.first[:, c] - down.first[:, c]) / 2e-4
            np.testing.assert_allclose(at.second[:, c], curve, rtol=1e-4, atol=1e-6)
    assert (at.second <= 1e-9).all()


@pytest.mark.parametrize("per_class", [False, True])
def test_gradient_of_the_evidence(rng, per_class):
    X = rng.normal(size=(9, 4))
    gram = np.array([X @ X.T / 4] * 2)
    shared = KernelTerms([Kernel("linear", 0.1), Kernel("rbf")], gram)
    few = KernelTerms([Kernel("linear", 0.1)], gram[:1])
    parts = [shared, few, shared] if per_class else [shared]
    problem = MultinomialEvidence(parts, np.arange(9) % 3)
    theta = 0.4 * rng.normal(size=problem.n_parameters)
    _, gradient = problem(theta)
    for p in range(len(theta)):
        step = 1e-4 * np.eye(len(theta))[p]
        up, down = (problem.posterior(theta + s).log_evidence for s in (step, -step))
        assert gradient[p] == pytest.approx((up - down) / 2e-4, rel=1e-3, abs=1e-5)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(-3, 3))
def test_probabilities_and_names_of_classes(seed, C, log_scale):
    rng = np.random.default_rng(seed)
    mean, variance = (
        np.exp(log_scale) * rng.normal(size=(4, C)),
        np.exp(log_scale) * rng.random((4, C)),
    )
    p = multinomial_probabilities(mean, variance)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    order = rng.permutation(C)
    np.testing.assert_allclose(
        multinomial_probabilities(mean[:, order], variance[:, order]), p[:, order]
    )
    np.testing.assert_allclose(
        multinomial_probabilities(mean + 7, variance), p, rtol=1e-6, atol=1e-12
    )


def test_renamed_classes_and_one_kernel_per_class():
    fit, _ = multinomial_propagation(K, CODES)
    renamed, _ = multinomial_propagation(K, np.array([2, 2, 0, 0, 1]))
    assert renamed.log_evidence == pytest.approx(fit.log_evidence, abs=1e-8)
    np.testing.assert_allclose(renamed.classes[2].f, fit.classes[0].f, atol=1e-6)
    per_class, sites = multinomial_propagation(np.array([K, K, K]), CODES)
    assert per_class.log_evidence == pytest.approx(fit.log_evidence, abs=1e-10)
    again, _ = multinomial_propagation(K, CODES, sites)
    assert again.log_evidence == pytest.approx(fit.log_evidence, abs=1e-7)


def test_a_kernel_of_nothing_gives_chance():
    for tiny in (0.0, 1e-10):
        fit, _ = multinomial_propagation(tiny * K, CODES)
        assert fit.log_evidence == pytest.approx(5 * np.log(1 / 3), abs=1e-4)


def test_normalisers_are_the_left_out_probabilities():
    fit, _ = multinomial_propagation(K, CODES)
    outs = [left_out(own, K) for own in fit.classes]
    mean, variance = (np.stack([out[k] for out in outs], axis=1) for k in (0, 1))
    p = multinomial_probabilities(mean, variance)
    np.testing.assert_allclose(np.log(p[np.arange(5), CODES]), fit.log_Z, atol=1e-5)


def test_sites_that_do_not_settle_are_told(monkeypatch):
    monkeypatch.setattr(ep_multinomial, "MAX_ITERATIONS", 1)
    with pytest.warns(ConvergenceWarning, match="did not settle in 1 rounds"):
        multinomial_propagation(K, CODES)
