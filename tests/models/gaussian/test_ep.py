"""Expectation propagation: worked example, quadrature, Laplace's method, gradient, odd kernels."""

import numpy as np
import pytest
from numpy.polynomial.hermite import hermgauss
from scipy.special import expit, ndtr
from sklearn.exceptions import ConvergenceWarning

from voxprior.models.gaussian import GPClassifier, ep
from voxprior.models.gaussian.ep import ep_gradient, expectation_propagation, inverse_of_factor
from voxprior.models.gaussian.laplace import laplace, latent_moments
from voxprior.models.gaussian.prediction import probability

# Four scans of two voxels, and one new scan; linear kernel with bias.
X = np.array([[1, 0], [0.5, 1], [-1, 0.5], [-0.5, -1]])
K = X @ X.T + 1
sign = np.array([1.0, -1.0, -1.0, 1.0])
new = np.array([[0.8, 0.3]])
K_new, k_new = new @ X.T + 1, (new**2).sum(axis=1) + 1


def exact_evidence(K, sign, link, n_nodes=31):
    """∫ Π link(y f) N(f; 0, K) df by product Gauss-Hermite in the rotated space."""
    values, vectors = np.linalg.eigh(K)
    keep = values > 1e-10
    root = vectors[:, keep] * np.sqrt(values[keep])
    nodes, weights = hermgauss(n_nodes)
    grids = np.meshgrid(*[nodes * np.sqrt(2)] * keep.sum(), indexing="ij")
    mass = np.meshgrid(*[weights / np.sqrt(np.pi)] * keep.sum(), indexing="ij")
    u = np.stack([g.ravel() for g in grids])
    w = np.prod([m.ravel() for m in mass], axis=0)
    return np.log(w @ np.prod(link(sign[:, None] * (root @ u)), axis=0))


def test_ep_worked_example():
    """Evidence and prediction of the four scans above, probit."""
    fit, _ = expectation_propagation(K, sign)
    assert fit.log_evidence == pytest.approx(-2.840314, abs=1e-6)
    mean, variance = latent_moments(fit, K_new, k_new)
    assert mean[0] == pytest.approx(0.165897, abs=1e-6)
    assert variance[0] == pytest.approx(0.686767, abs=1e-6)
    assert probability(mean, variance, "probit")[0] == pytest.approx(0.550821, abs=1e-6)


def test_evidence_against_brute_force():
    assert exact_evidence(K, sign, expit) == pytest.approx(-2.839151, abs=1e-5)
    assert exact_evidence(K, sign, ndtr) == pytest.approx(-2.841177, abs=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_ep_is_closer_to_quadrature_than_laplace(seed):
    rng = np.random.default_rng(seed)
    Z, t = rng.normal(size=(6, 2)), rng.choice([-1.0, 1.0], size=6)
    G = 2 * Z @ Z.T + 1
    exact = exact_evidence(G, t, ndtr, 51)
    by_ep = expectation_propagation(G, t)[0].log_evidence
    by_laplace = laplace(G, t, "probit").log_evidence
    assert abs(by_ep - exact) < 0.02
    assert abs(by_ep - exact) < abs(by_laplace - exact)


def test_ep_gradient_against_differences(rng):
    Z, t = rng.normal(size=(8, 3)), rng.choice([-1.0, 1.0], size=8)
    G = Z @ Z.T + 1

    def evidence(log_scale):
        return expectation_propagation(np.exp(2 * log_scale) * G, t)[0].log_evidence

    exact = ep_gradient(expectation_propagation(G, t)[0], 2 * G[None])[0]
    assert exact == pytest.approx((evidence(1e-5) - evidence(-1e-5)) / 2e-5, rel=1e-5)


def test_vanishing_kernel_gives_chance():
    tiny = 1e-12 * K
    assert laplace(tiny, sign).log_evidence == pytest.approx(-4 * np.log(2), rel=1e-8)
    assert expectation_propagation(tiny, sign)[0].log_evidence == pytest.approx(
        -4 * np.log(2), rel=1e-8
    )


def test_warm_start_changes_nothing(rng):
    start = laplace(9 * K, sign).f
    np.testing.assert_allclose(laplace(K, sign, start=start).f, laplace(K, sign).f, rtol=1e-9)
    _, sites = expectation_propagation(9 * K, sign)
    warm, cold = expectation_propagation(K, sign, sites)[0], expectation_propagation(K, sign)[0]
    np.testing.assert_allclose(warm.a, cold.a, rtol=1e-6)
    assert warm.log_evidence == pytest.approx(cold.log_evidence, rel=1e-9)


def test_sites_one_by_one_reach_the_same_point(monkeypatch, rng):
    Z, t = rng.normal(size=(15, 3)), rng.choice([-1.0, 1.0], size=15)
    together = expectation_propagation(4 * Z @ Z.T + 1, t)[0]
    monkeypatch.setattr(ep, "MAX_PARALLEL", 0)
    in_turn = expectation_propagation(4 * Z @ Z.T + 1, t)[0]
    np.testing.assert_allclose(in_turn.a, together.a, rtol=1e-6)
    assert in_turn.log_evidence == pytest.approx(together.log_evidence, rel=1e-9)
    monkeypatch.setattr(ep, "MAX_ITERATIONS", 1)
    with pytest.warns(ConvergenceWarning, match="did not settle"):
        expectation_propagation(4 * Z @ Z.T + 1, t)


def test_far_out_labels_stay_finite():
    """A kernel scale of 1e8 with separable labels, and contradictory labels of one scan."""
    for t in (sign, np.array([1.0, 1.0, -1.0, -1.0])):
        for fit in (
            laplace(1e8 * K, t),
            laplace(1e8 * K, t, "probit"),
            expectation_propagation(1e6 * K, t)[0],
        ):
            assert np.isfinite(fit.log_evidence)
    same = np.ones((4, 4))
    assert np.abs(laplace(same, sign).f).max() < 1e-8
    assert np.abs(expectation_propagation(same, sign)[0].f).max() < 1e-6


def test_ep_and_laplace_estimators_agree_in_the_main(rng):
    Z = rng.normal(size=(40, 10))
    t = np.where(Z[:, 0] + 0.3 * rng.normal(size=40) > 0, "patient", "control")
    by_ep = GPClassifier(inference="ep").fit(Z[:30], t[:30])
    by_laplace = GPClassifier(inference="laplace").fit(Z[:30], t[:30])
    assert by_ep.likelihood_ == "probit"
    assert by_laplace.likelihood_ == "logistic"
    p, q = by_ep.predict_proba(Z[30:]), by_laplace.predict_proba(Z[30:])
    assert np.corrcoef(p[:, 0], q[:, 0])[0, 1] > 0.98
    np.testing.assert_allclose(by_ep.latent_[:, 1], -by_ep.latent_[:, 0])


@pytest.mark.parametrize("n", [0, 1, 128, 129, 300])
def test_inverse_of_a_factor_by_halves(rng, n):
    L = np.tril(rng.normal(size=(n, n)) / 20) + np.eye(n)
    inverse = inverse_of_factor(np.asfortranarray(L))
    np.testing.assert_allclose(inverse @ L, np.eye(n), atol=1e-10)
    assert not np.triu(inverse, 1).any()
