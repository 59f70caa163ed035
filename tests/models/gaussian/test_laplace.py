"""Laplace's method, two classes and softmax: worked examples, dense oracle, gradients, peers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct

from voxprior.models.gaussian import GPClassifier
from voxprior.models.gaussian.laplace import (
    class_precision,
    laplace,
    laplace_gradient,
    latent_moments,
    softmax_gradient,
    softmax_laplace,
    softmax_moments,
)
from voxprior.models.gaussian.prediction import average_softmax, probability, quadrature_rule

# Four scans of two voxels, and one new scan; linear kernel with bias, two or three classes.
X = np.array([[1, 0], [0.5, 1], [-1, 0.5], [-0.5, -1]])
K = X @ X.T + 1
sign = np.array([1.0, -1.0, -1.0, 1.0])
onehot = np.eye(3)[[0, 1, 2, 1]]
new = np.array([[0.8, 0.3]])
K_new, k_new = new @ X.T + 1, (new**2).sum(axis=1) + 1


def test_laplace_worked_example():
    """Mode, evidence and prediction of the four scans above, logistic."""
    fit = laplace(K, sign)
    np.testing.assert_allclose(fit.f, [0.425822, -0.605774, -0.746414, 0.707203], atol=1e-6)
    assert fit.log_evidence == pytest.approx(-2.901800, abs=1e-6)
    mean, variance = latent_moments(fit, K_new, k_new)
    assert mean[0] == pytest.approx(0.097588, abs=1e-6)
    assert variance[0] == pytest.approx(0.941506, abs=1e-6)
    assert probability(mean, variance, "logistic")[0] == pytest.approx(0.520335, abs=1e-6)


def test_laplace_gradient_worked_example():
    """Derivative of the evidence by the log scale of the kernel."""
    gradient = laplace_gradient(laplace(K, sign), K, sign, 2 * K[None])
    assert gradient[0] == pytest.approx(-0.145763, abs=1e-6)


@pytest.mark.parametrize("likelihood", ["logistic", "probit"])
def test_laplace_gradient_against_differences(rng, likelihood):
    Z, t = rng.normal(size=(8, 3)), rng.choice([-1.0, 1.0], size=8)
    parts = np.array([Z @ Z.T, np.exp(-0.5 * ((Z[:, None] - Z[None]) ** 2).sum(-1))])

    def evidence(theta):
        return laplace(np.einsum("p,pij->ij", np.exp(theta), parts), t, likelihood)

    theta = np.array([0.3, 0.8])
    G = np.einsum("p,pij->ij", np.exp(theta), parts)
    dK = np.exp(theta)[:, None, None] * parts
    exact = laplace_gradient(evidence(theta), G, t, dK, likelihood)
    for k in range(2):
        step = np.eye(2)[k] * 1e-5
        rise = evidence(theta + step).log_evidence - evidence(theta - step).log_evidence
        assert exact[k] == pytest.approx(rise / 2e-5, rel=1e-5, abs=1e-8)


def test_rounding_is_forgiven_and_indefinite_kernels_are_not(rng):
    Z = rng.normal(size=(30, 3))
    low_rank = 1e20 * (Z @ Z.T)
    assert np.isfinite(laplace(low_rank, np.sign(Z[:, 0])).log_evidence)
    with pytest.raises(ValueError, match="positive semi-definite"):
        laplace(-9.0 * np.eye(4), sign)


def test_estimator_agrees_with_scikit_learn(rng):
    Z = rng.normal(size=(30, 6))
    t = (Z @ rng.normal(size=6) + rng.normal(size=30) > 0).astype(int)
    ours = GPClassifier(
        likelihood="logistic", center=False, normalize=False, unseen_variance=1.0, offset=1.0
    ).fit(Z, t)
    kernel = ConstantKernel(1.0, (1e-5, 1e5)) * DotProduct(1.0, "fixed")
    peer = GaussianProcessClassifier(kernel, n_restarts_optimizer=2, random_state=0).fit(Z, t)
    assert ours.log_evidence_ == pytest.approx(peer.log_marginal_likelihood_value_, abs=1e-4)
    fresh = rng.normal(size=(5, 6))
    # scikit-learn averages the logistic by five error functions: equal to about 1e-3.
    np.testing.assert_allclose(ours.predict_proba(fresh), peer.predict_proba(fresh), atol=3e-3)


def dense(K, onehot, K_new=None, k_new=None):
    """The definition with Cn x Cn matrices, f stacked by class, mode by a general optimiser."""
    n, C = onehot.shape
    big = np.zeros((C * n, C * n))
    for c in range(C):
        big[c * n : (c + 1) * n, c * n : (c + 1) * n] = K if K.ndim == 2 else K[c]
    y = onehot.T.ravel()

    def negative(a):
        f = big @ a
        value = y @ f - np.log(np.exp(f.reshape(C, n)).sum(axis=0)).sum() - 0.5 * a @ f
        p = softmax(f.reshape(C, n), axis=0).ravel()
        return -value, -big @ (y - p - a)

    a = minimize(negative, np.zeros(C * n), jac=True, method="BFGS", options={"gtol": 1e-12}).x
    for _ in range(3):  # polish by fixed-point Newton steps in function space
        f = big @ a
        p = softmax(f.reshape(C, n), axis=0)
        Pi = np.vstack([np.diag(row) for row in p])
        W = np.diag(p.ravel()) - Pi @ Pi.T
        f = np.linalg.solve(np.eye(C * n) + big @ W, big @ (W @ f + y - p.ravel()))
        a = y - softmax(f.reshape(C, n), axis=0).ravel()
    f = big @ a
    p = softmax(f.reshape(C, n), axis=0)
    Pi = np.vstack([np.diag(row) for row in p])
    W = np.diag(p.ravel()) - Pi @ Pi.T
    fit = y @ f - np.log(np.exp(f.reshape(C, n)).sum(axis=0)).sum() - 0.5 * a @ f
    log_q = fit - 0.5 * np.linalg.slogdet(np.eye(C * n) + big @ W)[1]
    if K_new is None:
        return f.reshape(C, n).T, log_q
    Q = np.zeros((C * n, C))
    for c in range(C):
        Q[c * n : (c + 1) * n, c] = K_new[0] if K_new.ndim == 2 else K_new[c, 0]
    inner = W @ np.linalg.inv(np.eye(C * n) + big @ W)
    prior = np.full(C, k_new[0]) if k_new.ndim == 1 else k_new[:, 0]
    return f.reshape(C, n).T, log_q, Q.T @ a, np.diag(prior) - Q.T @ inner @ Q


def test_softmax_worked_example():
    """Mode, evidence and prediction of the four scans above, three classes."""
    fit = softmax_laplace(K, onehot)
    expected = [
        [0.463871, 0.331494, -0.795365],
        [0.001943, 0.221154, -0.223097],
        [-0.839860, 0.266776, 0.573084],
        [-0.300220, 0.430922, -0.130702],
    ]
    np.testing.assert_allclose(fit.f, expected, atol=1e-6)
    assert fit.log_evidence == pytest.approx(-5.443355, abs=1e-6)
    mean, covariance = softmax_moments(fit, K_new, k_new)
    np.testing.assert_allclose(mean[0], [0.294642, 0.298119, -0.592762], atol=1e-6)
    upper = covariance[0][np.triu_indices(3)]
    expected = [1.097216, 0.380975, 0.251809, 1.089716, 0.259309, 1.218881]
    np.testing.assert_allclose(upper, expected, atol=1e-6)
    p = average_softmax(mean, covariance, quadrature_rule(3))
    np.testing.assert_allclose(p[0], [0.398314, 0.398909, 0.202777], atol=2e-6)


def test_two_classes_equal_the_binary_model_with_twice_the_kernel():
    """A softmax of two functions depends on their difference, of variance 2 K."""
    labels = np.array([0, 1, 1, 0])
    fit = softmax_laplace(K, np.eye(2)[labels])
    binary = laplace(2 * K, np.where(labels == 0, 1.0, -1.0))
    np.testing.assert_allclose(fit.f[:, 0] - fit.f[:, 1], binary.f, atol=1e-8)
    assert fit.log_evidence == pytest.approx(-2.947080, abs=1e-6)
    assert binary.log_evidence == pytest.approx(fit.log_evidence, rel=1e-9)
    mean, covariance = softmax_moments(fit, K_new, k_new)
    difference = covariance[0, 0, 0] + covariance[0, 1, 1] - 2 * covariance[0, 0, 1]
    m, v = latent_moments(binary, 2 * K_new, 2 * k_new)
    assert mean[0, 0] - mean[0, 1] == pytest.approx(0.192280, abs=1e-6)
    assert difference == pytest.approx(1.375213, abs=1e-6)
    np.testing.assert_allclose([m[0], v[0]], [mean[0, 0] - mean[0, 1], difference], rtol=1e-8)
    p = average_softmax(mean, covariance, quadrature_rule(2))[0, 0]
    assert p == pytest.approx(0.537611, abs=1e-6)
    assert p == pytest.approx(probability(m, v, "logistic")[0], abs=1e-7)


def test_softmax_gradient_worked_example():
    """Derivative of the evidence by the log scale of the shared kernel."""
    gradient = softmax_gradient(softmax_laplace(K, onehot), K, onehot, 2 * K[None])
    assert gradient[0] == pytest.approx(-1.405591, abs=1e-6)


@settings(max_examples=12, deadline=None)
@given(st.integers(2, 6), st.integers(2, 4), st.booleans(), st.integers(0, 10**6))
def test_softmax_equals_dense_matrices(n, C, shared, seed):
    rng = np.random.default_rng(seed)
    Z, z = rng.normal(size=(n, 3)), rng.normal(size=(1, 3))
    scale = np.ones(1) if shared else rng.uniform(0.3, 2, size=C)
    kernels = scale[:, None, None] * (Z @ Z.T + 1)
    crosses, priors = scale[:, None, None] * (z @ Z.T + 1), scale[:, None] * (z @ z.T + 1)[0]
    if shared:
        kernels, crosses, priors = kernels[0], crosses[0], priors[0]
    target = np.eye(C)[rng.integers(C, size=n)]
    f, log_q, mean, covariance = dense(kernels, target, crosses, priors)
    fit = softmax_laplace(kernels, target)
    np.testing.assert_allclose(fit.f, f, atol=1e-6)
    assert fit.log_evidence == pytest.approx(log_q, abs=1e-6)
    moments = softmax_moments(fit, crosses, priors)
    np.testing.assert_allclose(moments.mean[0], mean, atol=1e-6)
    np.testing.assert_allclose(moments.covariance[0], covariance, atol=1e-6)


@pytest.mark.parametrize("shared", [True, False])
def test_softmax_gradient_against_differences(rng, shared):
    n, C = 7, 3
    Z = rng.normal(size=(n, 2))
    parts = np.array([Z @ Z.T + 1, np.exp(-0.5 * ((Z[:, None] - Z[None]) ** 2).sum(-1))])
    target = np.eye(C)[[0, 1, 2, 0, 1, 2, 2]]
    theta = rng.normal(size=(1 if shared else C, 2)) * 0.4

    def kernels(t):
        each = np.einsum("cp,pij->cij", np.exp(t), parts)
        return each[0] if shared else each

    dK = np.exp(theta)[:, :, None, None] * parts
    exact = softmax_gradient(
        softmax_laplace(kernels(theta), target), kernels(theta), target, dK[0] if shared else dK
    )
    for index in np.ndindex(theta.shape):
        step = np.zeros_like(theta)
        step[index] = 1e-5
        up, down = (softmax_laplace(kernels(theta + s), target).log_evidence for s in (step, -step))
        assert exact.reshape(theta.shape)[index] == pytest.approx(
            (up - down) / 2e-5, rel=1e-5, abs=1e-8
        )


def test_precision_block_is_the_dense_one(rng):
    fit = softmax_laplace(K, onehot)
    p = softmax(fit.f, axis=1).T
    Pi = np.vstack([np.diag(row) for row in p])
    W = np.diag(p.ravel()) - Pi @ Pi.T
    whole = W @ np.linalg.inv(np.eye(12) + np.kron(np.eye(3), K) @ W)
    for c in range(3):
        block = whole[4 * c : 4 * c + 4, 4 * c : 4 * c + 4]
        np.testing.assert_allclose(class_precision(fit, c), block, atol=1e-9)


def test_latents_sum_to_zero_and_classes_are_exchangeable(rng):
    Z = rng.normal(size=(9, 4))
    codes = rng.integers(3, size=9)
    G = Z @ Z.T + 1
    fit = softmax_laplace(G, np.eye(3)[codes])
    np.testing.assert_allclose(fit.f.sum(axis=1), 0, atol=1e-9)
    mean, covariance = softmax_moments(fit, G[:2], np.diag(G)[:2])
    np.testing.assert_allclose(mean.sum(axis=1), 0, atol=1e-9)
    order = np.array([2, 0, 1])
    other = softmax_laplace(G, np.eye(3)[codes][:, order])
    np.testing.assert_allclose(other.f, fit.f[:, order], atol=1e-9)
    assert other.log_evidence == pytest.approx(fit.log_evidence, rel=1e-12)
    p = average_softmax(mean, covariance, quadrature_rule(3))
    q = average_softmax(mean[:, order], covariance[:, order][:, :, order], quadrature_rule(3))
    np.testing.assert_allclose(q, p[:, order], atol=1e-5)


def test_softmax_of_a_vanishing_kernel_gives_chance():
    fit = softmax_laplace(1e-12 * K, onehot)
    assert fit.log_evidence == pytest.approx(-4 * np.log(3), rel=1e-8)


def test_softmax_mode_is_a_maximum(rng):
    """No small move of the latent values raises the concave objective."""
    Z = rng.normal(size=(8, 8))
    G, target = Z @ Z.T + np.eye(8), np.eye(4)[rng.integers(4, size=8)]
    fit = softmax_laplace(G, target)

    def objective(a):
        f = G @ a
        return (target * log_softmax(f, axis=1)).sum() - 0.5 * (a * f).sum()

    for _ in range(20):
        assert objective(fit.a + 1e-3 * rng.normal(size=fit.a.shape)) < objective(fit.a)


def test_singular_and_huge_kernels_stay_finite():
    for G in (np.ones((4, 4)), np.zeros((4, 4)), 1e8 * K, 1e-8 * K):
        fit = softmax_laplace(G, onehot)
        assert np.isfinite(fit.log_evidence)
        mean, covariance = softmax_moments(fit, G[:1], G[:1, 0])
        p = average_softmax(mean, covariance, quadrature_rule(3))
        assert np.isfinite(p).all()
        assert p.sum() == pytest.approx(1)
