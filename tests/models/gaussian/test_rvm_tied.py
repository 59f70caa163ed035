"""The evidence of one shared precision, from one decomposition, against a factor for every θ."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from voxprior.models.gaussian.regression import evidence_gradient, regress
from voxprior.models.gaussian.rvm_em import Basis, GaussianTargets
from voxprior.models.gaussian.rvm_tied import TiedEvidence, tied


def naive(evidence, theta):
    K, noise = evidence.covariance(theta), float(np.exp(2 * theta[2]))
    fit = regress(K, evidence.targets.t, noise)
    dK = np.array([np.exp(theta[0]) * evidence.product, np.full(K.shape, np.exp(theta[1]))])
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
    found = tied(Basis(X @ X.T), GaussianTargets(t))
    monkeypatch.setattr(TiedEvidence, "__call__", naive)
    other = tied(Basis(X @ X.T), GaussianTargets(t))
    assert_allclose(found.v, other.v, rtol=1e-3)
    assert_allclose(found.state.log_evidence, other.state.log_evidence, atol=1e-5)
