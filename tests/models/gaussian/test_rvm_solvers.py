"""Relevance vectors: worked examples, monotone evidence, one limit for all solvers, GP."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from voxprior.models.gaussian.rvm_em import (
    Basis,
    GaussianTargets,
    LogisticTargets,
    SoftmaxTargets,
    reestimate,
    sufficiency,
    update_variances,
)
from voxprior.models.gaussian.rvm_sequential import (
    best_moves,
    sequential_logistic,
    sequential_regression,
    sequential_softmax,
)

Phi = np.array([[1, 0.2, -0.3], [1, 1.1, 0.4], [1, 1.9, -0.2], [1, 3.2, 0.1], [1, 4.1, 0.3]])
t = np.array([1.1, 2, 3.1, 3.9, 5.2])


def naive_evidence(Phi, t, v, noise):
    C = noise * np.eye(len(t)) + Phi @ np.diag(v) @ Phi.T
    return multivariate_normal(np.zeros(len(t)), C).logpdf(t)


def naive_logistic_evidence(Phi, y, v):
    """Primal Laplace with A = diag(1/v): plain Newton on the weights in the model."""
    part, A = Phi[:, v > 0], np.diag(1 / v[v > 0])
    w = np.zeros(part.shape[1])
    for _ in range(200):
        p = 1 / (1 + np.exp(-part @ w))
        H = part.T @ np.diag(p * (1 - p)) @ part + A
        w = w + 0.5 * np.linalg.solve(H, part.T @ (y - p) - A @ w)
    fit = (y * np.log(p) + (1 - y) * np.log(1 - p)).sum() - 0.5 * w @ A @ w
    return fit + 0.5 * np.linalg.slogdet(A)[1] - 0.5 * np.linalg.slogdet(H)[1], w


def one_step(rule):
    basis, targets, v = Basis(Phi, bias=False), GaussianTargets(t, 0.1), np.ones(3)
    state = targets.state(basis.covariance(v), None)
    Q2, S = sufficiency(basis, state, 1)
    targets.update_noise(state.residual, float(v @ S), rule)
    new = update_variances(v, Q2, S, rule)
    return state, new, targets


def test_worked_example():
    """One EM and one MacKay update of five scans and three columns from v = 1, σ² = 0.1."""
    state, v, targets = one_step("em")
    weights = Phi.T @ state.residual[:, 0]
    np.testing.assert_allclose(weights, [0.881257, 1.032917, -0.133466], atol=1e-6)
    assert state.log_evidence == pytest.approx(-5.459151, abs=1e-6)
    np.testing.assert_allclose(1 / v, [1.188939, 0.927119, 3.635350], atol=1e-6)
    assert targets.noise == pytest.approx(0.082279, abs=1e-6)
    assert naive_evidence(Phi, t, v, targets.noise) == pytest.approx(-4.982159, abs=1e-6)
    _, v, targets = one_step("mackay")
    np.testing.assert_allclose(1 / v, [1.204624, 0.926320, 41.695770], atol=1e-6)
    assert targets.noise == pytest.approx(0.062027, abs=1e-6)
    assert naive_evidence(Phi, t, v, targets.noise) == pytest.approx(-4.590248, abs=1e-6)


def test_fast_worked_example():
    """The sequential search on the same scans: the third column stays out."""
    fit = sequential_regression(Basis(Phi, bias=False), t, 0.1, tol=1e-14)
    np.testing.assert_allclose(1 / fit.v[:2], [1.180706, 0.943829], atol=2e-6)
    assert fit.v[2] == 0
    path = [-9.996248, -4.860116, -4.808633, -4.808563]
    np.testing.assert_allclose(fit.path[:4], path, atol=1e-6)


@pytest.fixture
def many(rng):
    """60 scans, 30 columns, two of which matter."""
    X = rng.normal(size=(60, 30))
    return X, 2 * X[:, 3] - X[:, 20] + 0.5 * rng.normal(size=60)


def test_posterior_against_the_primal_form(many, rng):
    X, target = many
    v, noise = rng.uniform(0.1, 2, size=31), 0.3
    basis = Basis(X)
    whole = np.column_stack([X, np.ones(60)])
    state = GaussianTargets(target, noise).state(basis.covariance(v), None)
    Sigma = np.linalg.inv(whole.T @ whole / noise + np.diag(1 / v))
    Q2, S = sufficiency(basis, state, 1)
    Q = basis.project(state.residual[:, 0])
    np.testing.assert_allclose(v * Q, Sigma @ whole.T @ target / noise, rtol=1e-8)
    np.testing.assert_allclose(v - v**2 * S, np.diag(Sigma), rtol=1e-7)
    np.testing.assert_allclose(Q2, Q**2, rtol=1e-9)
    assert state.log_evidence == pytest.approx(naive_evidence(whole, target, v, noise), rel=1e-9)


def test_gain_is_the_change_of_evidence(many):
    """Adding, moving and deleting one column changes the naive evidence by the predicted gain."""
    X, target = many
    noise, v = 0.3, np.zeros(31)
    v[[3, 7]] = 1.0, 0.5
    basis, whole = Basis(X), np.column_stack([X, np.ones(60)])
    state = GaussianTargets(target, noise).state(basis.covariance(v), None)
    new, gain = best_moves(v, *sufficiency(basis, state, 1))
    before = naive_evidence(whole, target, v, noise)
    for j in (3, 7, 20, 5):
        after = v.copy()
        after[j] = new[j]
        assert naive_evidence(whole, target, after, noise) - before == pytest.approx(
            gain[j], abs=1e-8
        )
        for factor in (0.5, 2.0):  # no other value of this v does better
            after[j] = factor * max(new[j], 1e-3)
            assert naive_evidence(whole, target, after, noise) <= before + gain[j] + 1e-9


def test_evidence_rises_and_all_solvers_meet(many):
    X, target = many
    basis = Basis(X)
    fast = sequential_regression(basis, target, tol=1e-8)
    em = reestimate(basis, GaussianTargets(target), "em", max_iter=4000, tol=1e-10)
    mackay = reestimate(basis, GaussianTargets(target), "mackay", max_iter=2000, tol=1e-10)
    assert (np.diff(fast.path) > 0).all()
    assert (np.diff(em.path) > -1e-9).all()
    assert em.path[-1] == pytest.approx(fast.path[-1], abs=0.2)
    assert mackay.path[-1] == pytest.approx(fast.path[-1], abs=0.2)
    assert {3, 20} <= set(np.flatnonzero(fast.v))
    naive = naive_evidence(np.column_stack([X, np.ones(60)]), target, fast.v, fast.noise)
    assert fast.path[-1] == pytest.approx(naive, abs=1e-6)


def test_equal_fixed_precisions_are_a_gaussian_process(many):
    from voxprior.models.gaussian.regression import regress

    X, target = many
    basis = Basis(X, bias=False)
    state = GaussianTargets(target, 0.4).state(basis.covariance(np.full(30, 1 / 2.5)), None)
    fit = regress(X @ X.T / 2.5, target, 0.4)
    assert state.log_evidence == pytest.approx(fit.log_evidence, rel=1e-9)
    np.testing.assert_allclose(state.residual[:, 0], fit.alpha, rtol=1e-8)


def test_logistic_evidence_against_the_primal_form(many):
    X, target = many
    y = (target > 0).astype(float)
    fit = sequential_logistic(Basis(X), y)
    naive, weights = naive_logistic_evidence(np.column_stack([X, np.ones(60)]), y, fit.v)
    assert fit.path[-1] == pytest.approx(naive, abs=1e-6)
    assert fit.state.log_evidence == pytest.approx(naive, abs=1e-6)
    used = fit.v > 0
    mean = fit.v * Basis(X).project(fit.state.residual[:, 0])
    np.testing.assert_allclose(mean[used], weights, rtol=1e-5)
    assert (np.diff(fit.path) > 0).all()
    assert {3, 20} <= set(np.flatnonzero(used))


@pytest.mark.parametrize("rule", ["em", "mackay"])
def test_classification_solvers_meet(many, rule):
    X, target = many
    y = (target > 0).astype(float)
    fast = sequential_logistic(Basis(X), y, tol=1e-7)
    slow = reestimate(Basis(X), LogisticTargets(2 * y - 1), rule, max_iter=1500, tol=1e-8)
    assert slow.path[-1] == pytest.approx(fast.path[-1], abs=0.3)
    assert slow.path[-1] > slow.path[0]


def test_softmax_rises_and_finds_the_columns(many):
    X, target = many
    onehot = np.eye(3)[np.digitize(target, [-1, 1])]
    fit = sequential_softmax(Basis(X), onehot)
    assert (np.diff(fit.path) > 0).all()
    assert {3, 20} <= set(np.flatnonzero(fit.v))
    slow = reestimate(Basis(X), SoftmaxTargets(onehot), "mackay", max_iter=300, tol=1e-8)
    assert slow.path[-1] == pytest.approx(fit.path[-1], abs=1.5)


@pytest.mark.parametrize("rule", ["fast", "em", "mackay"])
def test_units_of_columns_do_not_matter(many, rule, rng):
    X, target = many
    scale = np.exp(3 * rng.normal(size=30))

    def run(part, goal):
        if rule == "fast":
            return sequential_regression(Basis(part), goal)
        return reestimate(Basis(part), GaussianTargets(goal), rule)

    plain, scaled = run(X, target), run(X * scale, 100 * target)
    assert set(np.flatnonzero(plain.v)) == set(np.flatnonzero(scaled.v))
    np.testing.assert_allclose(scaled.v[:30] * scale**2, 1e4 * plain.v[:30], rtol=1e-3)
    assert scaled.noise == pytest.approx(1e4 * plain.noise, rel=1e-4)


def test_cost_keeps_chance_columns_out(rng):
    """With 20 voxels per scan the evidence alone takes many; paying log M leaves the true ones."""
    X = rng.normal(size=(40, 800))
    target = X[:, 5] - X[:, 600] + 0.3 * rng.normal(size=40)
    free = sequential_regression(Basis(X), target)
    paid = sequential_regression(Basis(X), target, cost=np.log(801))
    assert np.flatnonzero(paid.v).tolist() == [5, 600]
    assert np.count_nonzero(free.v) > 10


def test_blocks_and_centring_give_the_same_basis(rng, monkeypatch):
    from voxprior.blocks import sums

    monkeypatch.setattr(sums, "BLOCK_ELEMENTS", 1)
    X = rng.normal(3, 1, size=(5, 700)).astype(np.float32)
    means = X.mean(axis=0, dtype=float)
    whole = np.column_stack([X.astype(float) - means, np.ones(5)])
    basis, R = Basis(X, means), np.cov(rng.normal(size=(5, 20)))
    v = rng.uniform(size=701) * (rng.uniform(size=701) > 0.5)
    np.testing.assert_allclose(basis.project(R), whole.T @ R, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(basis.energy(R), np.diag(whole.T @ R @ whole), rtol=1e-9)
    np.testing.assert_allclose(basis.energy(R[0]), (whole**2).T @ R[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(basis.covariance(v), (whole * v) @ whole.T, rtol=1e-9, atol=1e-12)
    few = v * (np.arange(701) < 6)
    np.testing.assert_allclose(
        basis.covariance(few), (whole * few) @ whole.T, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(basis.columns([3, 700, 8]), whole[:, [3, 700, 8]])
