"""The evidence of one shared precision, from one tridiagonal form, against a factor for every θ."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from voxprior.models.gaussian.laplace import laplace, softmax_laplace
from voxprior.models.gaussian.regression import evidence_gradient, regress
from voxprior.models.gaussian.rvm_em import (
    Basis,
    GaussianTargets,
    LogisticTargets,
    SoftmaxTargets,
)
from voxprior.models.gaussian.rvm_tied import TiedEvidence, tied, tied_moments, tridiagonal


def naive(evidence, theta):
    K, noise = evidence.covariance(theta), float(np.exp(2 * theta[2]))
    fit = regress(K, evidence.targets.t, noise)
    bias = np.full(K.shape, np.exp(theta[1]))
    dK = np.array([K - bias, bias])
    return fit.log_evidence, evidence_gradient(fit, dK, noise)


@pytest.mark.parametrize("shape", [(2, 3), (12, 4), (12, 40), (12, 1)])
@pytest.mark.parametrize("constant", [False, True])
def test_evidence_and_gradient_equal_a_factor_for_every_theta(rng, shape, constant):
    X = np.ones(shape) if constant else rng.normal(size=shape)
    evidence = TiedEvidence(Basis(X), GaussianTargets(3.0 + rng.normal(size=shape[0])))
    for theta in ([0.0, -1.0, 0.0], [-6.0, -4.0, -1.5], [3.0, 0.0, 0.4]):
        value, gradient = evidence(np.array(theta))
        wanted, slope = naive(evidence, np.array(theta))
        assert_allclose(value, wanted, rtol=1e-9)
        assert_allclose(gradient, slope, rtol=1e-6, atol=1e-7)


def test_the_best_is_where_a_factor_for_every_theta_finds_it(rng, monkeypatch):
    X = rng.normal(size=(30, 60))
    t = X[:, 0] + 0.5 * rng.normal(size=30)
    found = tied(Basis(X @ X.T, symmetric=True), GaussianTargets(t))
    monkeypatch.setattr(TiedEvidence, "__call__", naive)
    other = tied(Basis(X @ X.T), GaussianTargets(t))
    assert_allclose(found.v, other.v, rtol=1e-3)
    assert_allclose(found.state.log_evidence, other.state.log_evidence, atol=1e-5)


def kernel_matrices(rng):
    X = rng.normal(size=(12, 40))
    X[3] = X[4]
    centered = X - X.mean(axis=0)
    return {
        "centred, a scan twice": centered @ centered.T,
        "rank 2": X[:, :2] @ X[:, :2].T,
        "indefinite": np.sin(X @ X.T),
        "zero": np.zeros((12, 12)),
        "two scans": X[:2] @ X[:2].T,
        "diagonal": np.diag(np.arange(12.0)),
    }


@pytest.mark.parametrize("name", kernel_matrices(np.random.default_rng(0)))
def test_a_kernel_is_squared_only_in_the_end(rng, name):
    K = kernel_matrices(rng)[name]
    t = 3.0 + rng.normal(size=len(K))
    kept = K.copy()
    evidence = TiedEvidence(Basis(K, symmetric=True), GaussianTargets(t))
    assert_allclose(evidence.energy, (K**2).sum(), rtol=1e-10)
    for theta in ([0.0, -1.0, 0.0], [-6.0, -4.0, -1.5], [3.0, 0.0, 0.4]):
        value, gradient = evidence(np.array(theta))
        wanted, slope = naive(evidence, np.array(theta))
        assert_allclose(value, wanted, rtol=1e-9)
        assert_allclose(gradient, slope, rtol=1e-6, atol=1e-7)
    tied(Basis(K, symmetric=True), GaussianTargets(t))
    np.testing.assert_array_equal(K, kept)


@pytest.mark.parametrize("v", [None, 0.01])
@pytest.mark.parametrize("name", kernel_matrices(np.random.default_rng(0)))
def test_held_out_scans_have_the_moments_of_a_fit(rng, name, v):
    K = kernel_matrices(rng)[name]
    t, new = 3.0 + rng.normal(size=len(K)), rng.normal(size=(5, len(K)))
    fit = tied(Basis(K, symmetric=True), GaussianTargets(t), v)
    C = fit.v[0] * K @ K + fit.v[-1] + fit.noise * np.eye(len(K))
    cross = fit.v[0] * new @ K + fit.v[-1]
    own = fit.v[0] * (new**2).sum(axis=1) + fit.v[-1]
    mean, variance = tied_moments(K.copy(), t, new, v)
    assert_allclose(mean, cross @ np.linalg.solve(C, t), rtol=1e-6)
    explained = np.einsum("ij,ji->i", cross, np.linalg.solve(C, cross.T))
    assert_allclose(variance, own - explained, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("n", [2, 3, 40, 150])
def test_tridiagonal_form_by_orthogonal_columns(rng, n):
    A, right = rng.normal(size=(n, n)), rng.normal(size=(n, 2))
    A += A.T
    # The columns of Qᵀ are what it makes of the identity.
    T, Qt = tridiagonal(A.copy(), np.eye(n))
    assert_allclose(Qt @ Qt.T, np.eye(n), atol=1e-12)
    whole = np.diag(T.diagonal) + np.diag(T.below, 1) + np.diag(T.below, -1)
    assert_allclose(Qt.T @ whole @ Qt, A, atol=1e-10)
    assert_allclose(tridiagonal(np.asfortranarray(A), right)[1], Qt @ right, atol=1e-12)
    assert_allclose(T @ right[:, 0], whole @ right[:, 0], atol=1e-12)
    for scale, shift in ((2.0, 30.0), (0.5, 0.3j)):
        solved = T.solve(scale, shift, right)
        assert_allclose(scale * whole @ solved + shift * solved, right, atol=1e-10)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_gradient_of_labels_against_differences(rng, n_classes):
    X, codes = rng.normal(size=(15, 4)), np.arange(15) % n_classes
    onehot = np.eye(n_classes)[codes]
    sign = 2.0 * codes - 1.0
    targets = LogisticTargets(sign) if n_classes == 2 else SoftmaxTargets(onehot)

    def value(theta):
        K = np.exp(theta[0]) * X @ X.T + np.exp(theta[1])
        fit = laplace(K, sign) if n_classes == 2 else softmax_laplace(K, onehot)
        return fit.log_evidence

    for theta in (np.array([0.3, -1.0]), np.array([-2.0, 1.0])):
        found, gradient = TiedEvidence(Basis(X), targets)(theta)
        assert_allclose(found, value(theta), rtol=1e-9)
        steps = 1e-4 * np.eye(2)
        slope = [(value(theta + step) - value(theta - step)) / 2e-4 for step in steps]
        assert_allclose(gradient, slope, rtol=1e-4, atol=1e-6)
