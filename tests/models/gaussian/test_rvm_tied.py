"""Relevance vectors of one shared precision: worked example, gradients, the best, the search."""

import numpy as np
import pytest

from voxprior.models.gaussian.prediction import probability
from voxprior.models.gaussian.rvm_em import (
    Basis,
    GaussianTargets,
    LogisticTargets,
    SoftmaxTargets,
)
from voxprior.models.gaussian.rvm_sequential import sequential, sequential_above_tied
from voxprior.models.gaussian.rvm_tied import TiedEvidence, tied

K = np.array(
    [[1, 0.2, -0.6, -0.6], [0.2, 1, -0.6, -0.6], [-0.6, -0.6, 1, 0.2], [-0.6, -0.6, 0.2, 1]]
)
SIGN = np.array([-1.0, -1.0, 1.0, 1.0])
V_BIAS = np.exp(-4.0)


def chance(phi, Phi, targets):
    """p(+) of a scan with columns phi at v = 1."""
    state = targets.state(Phi @ Phi.T + V_BIAS, None)
    k = Phi @ phi + V_BIAS
    variance = phi @ phi + V_BIAS - k @ state.precision[0] @ k
    return probability(k @ state.residual, np.array([variance]), "logistic")[0]


def test_worked_example():
    """Four scans in two classes, alike within and unlike across; v = 1, v_b = exp(-4)."""
    targets, basis = LogisticTargets(SIGN), Basis(K)
    value, _ = TiedEvidence(basis, targets)(np.array([0.0, -4.0]))
    assert value == pytest.approx(-2.004028804887464, rel=1e-12)
    state = targets.state(K @ K.T + V_BIAS, None)
    np.testing.assert_allclose(state.latent[:, 0], SIGN * 1.26643774, atol=1e-8)
    assert chance(np.array([0.3, 0.3, -0.3, -0.3]), K, targets) == pytest.approx(0.35316181)
    alone = targets.state(basis.covariance(np.array([1, 0, 0, 0, V_BIAS])), None)
    assert alone.log_evidence == pytest.approx(-2.442245965964, rel=1e-11)


def test_worked_example_without_a_scan_and_its_column():
    left = []
    for i in range(4):
        rest = np.delete(np.arange(4), i)
        targets = LogisticTargets(SIGN[rest])
        left.append(chance(K[i, rest], K[np.ix_(rest, rest)], targets))
    np.testing.assert_allclose(left, [0.35032505, 0.35032505, 0.64967495, 0.64967495], atol=1e-8)


def targets_of(kind, rng, n):
    if kind == "gaussian":
        return GaussianTargets(rng.normal(size=n))
    if kind == "logistic":
        return LogisticTargets(np.where(rng.random(n) > 0.5, 1.0, -1.0))
    return SoftmaxTargets(np.eye(3)[np.arange(n) % 3])


@pytest.mark.parametrize("kind", ["gaussian", "logistic", "softmax"])
def test_gradient(rng, kind):
    basis = Basis(rng.normal(size=(9, 14)))
    theta = np.array([-1.0, -2.0, -0.4])[: 3 if kind == "gaussian" else 2]
    evidence = TiedEvidence(basis, targets_of(kind, rng, 9))
    _, gradient = evidence(theta)
    steps = 1e-3 * np.eye(len(theta))
    numeric = [(evidence(theta + s)[0] - evidence(theta - s)[0]) / 2e-3 for s in steps]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["gaussian", "logistic", "softmax"])
def test_no_other_variance_has_more_evidence(rng, kind):
    basis, targets = Basis(rng.normal(size=(12, 6)) + 0.3), targets_of(kind, rng, 12)
    fit = tied(basis, targets)
    assert len(np.unique(fit.v[:-1])) == 1
    assert (np.diff(fit.path) >= 0).all()
    assert fit.path[-1] == pytest.approx(fit.state.log_evidence, rel=1e-6)
    evidence = TiedEvidence(basis, targets)
    noise = [0.5 * np.log(fit.noise)] if kind == "gaussian" else []
    for log_v in np.linspace(-10, 6, 33):
        for log_bias in np.linspace(-9, 0, 7):
            assert evidence(np.array([log_v, log_bias, *noise]))[0] < fit.state.log_evidence + 0.02


def test_the_unit_of_the_columns_does_not_matter(rng):
    X, sign = rng.normal(size=(12, 20)), np.repeat([-1.0, 1.0], 6)
    one, other = (tied(Basis(unit * X), LogisticTargets(sign)) for unit in (1.0, 1e4))
    assert other.state.log_evidence == pytest.approx(one.state.log_evidence, abs=1e-3)
    np.testing.assert_allclose(other.v[0] * 1e8, one.v[0], rtol=0.05)


def test_a_search_that_finds_no_column_starts_from_all():
    """Every column alone is worthless for labels that depend on their sums."""
    rng = np.random.default_rng(1)
    hidden = np.repeat([-1.0, 1.0], 20)
    common = rng.normal(size=40)
    X = np.column_stack([common + 0.2 * hidden, -common + 0.2 * hidden])
    Phi, targets = 0.3 * np.tile(X, 6), LogisticTargets(hidden)
    basis = Basis(Phi)
    empty, full = sequential(basis, targets, cost=1.0), tied(basis, targets)
    assert not empty.v.any()
    found = sequential_above_tied(basis, targets, cost=1.0)
    gained = found.state.log_evidence - np.count_nonzero(found.v)
    assert gained >= full.state.log_evidence - basis.n_columns
    assert gained > empty.state.log_evidence + 1


@pytest.mark.parametrize("kind", ["gaussian", "logistic", "softmax"])
def test_a_search_never_ends_below_the_tied_model(rng, kind):
    for _ in range(3):
        basis, targets = Basis(rng.normal(size=(12, 15))), targets_of(kind, rng, 12)
        found = sequential_above_tied(basis, targets, max_steps=2)
        assert found.state.log_evidence >= tied(basis, targets).state.log_evidence - 1e-6
