"""Doubt: worked examples, the naive sum over the grid, folds, and what it does to classifiers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta as beta_distribution
from sklearn.base import clone

from voxprior import GPClassifier, InverseTreeClassifier, RVMClassifier
from voxprior.errors import InputError
from voxprior.models.doubt import (
    Doubt,
    balanced_folds,
    check_beta,
    doubt_posterior,
    doubted,
    learn_doubt,
)

SCORES = np.array([[8.0, 0.0], [8.0, 0.0], [0.0, 8.0], [0.0, 8.0]])
HALF = np.array([0.5, 0.5])


@pytest.mark.parametrize(
    ("codes", "belief", "log_temperature", "p"),
    [
        ([0, 0, 1, 0], 0.64159855, 1.06771242, 0.72339805),
        ([0, 0, 1, 1], 0.76761722, 0.32585210, 0.8395562),
    ],
)
def test_worked_example(codes, belief, log_temperature, p):
    """Four held-out scans with odds of e⁸, one of them wrong or none, and a new scan like them."""
    doubt = doubt_posterior(SCORES, codes, HALF, 4)
    assert doubt.strength.sum() == pytest.approx(belief, abs=1e-8)
    assert doubt.mean_log_temperature == pytest.approx(log_temperature, abs=1e-8)
    assert doubted(SCORES[:1], doubt)[0, 0] == pytest.approx(p, abs=1e-7)


def naive(scores, codes, prior, n_scans, a, b, new):
    """Sum over every temperature and belief, scan by scan."""
    total, mixture, prior_of_w = 0.0, np.zeros(len(prior)), beta_distribution(a, b).pdf
    for u in np.arange(-20, 21) * 0.2:
        for w in 0.025 + 0.05 * np.arange(20):
            weight = np.exp(-0.5 * (u / (3 if u > 0 else 1)) ** 2)
            weight *= prior_of_w(w)
            for s, c in zip(scores, codes):
                p = np.exp(s / np.exp(u))
                weight *= (w * p[c] / p.sum() + (1 - w) * prior[c]) ** (n_scans / len(codes))
            p = np.exp(new / np.exp(u))
            total += weight
            mixture += weight * (w * p / p.sum() + (1 - w) * prior)
    return mixture / total


@pytest.mark.parametrize("beta", [(2, 1), (1.5, 3)])
def test_against_the_naive_sum(rng, beta):
    p = rng.dirichlet(np.ones(3), size=7)
    codes, prior = rng.integers(3, size=7), np.array([0.5, 0.3, 0.2])
    doubt = doubt_posterior(np.log(p), codes, prior, 5, beta)
    new = np.log(rng.dirichlet(np.ones(3), size=2))
    for row, said in zip(new, doubted(new, doubt)):
        np.testing.assert_allclose(said, naive(np.log(p), codes, prior, 5, *beta, row), rtol=1e-9)


def test_without_a_held_out_scan_the_prior_speaks():
    doubt = doubt_posterior(np.empty((0, 2)), [], HALF, 2)
    w = 0.025 + 0.05 * np.arange(20)
    assert doubt.strength.sum() == pytest.approx((w * w).sum() / w.sum())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_probabilities_and_the_order_of_scans(seed, n_classes):
    rng = np.random.default_rng(seed)
    scores = rng.normal(scale=10.0 ** rng.integers(-2, 4), size=(6, n_classes))
    codes = rng.integers(n_classes, size=6)
    prior = np.full(n_classes, 1 / n_classes)
    doubt = doubt_posterior(scores, codes, prior, 6)
    p = doubted(scores, doubt)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(p.argmax(axis=1), scores.argmax(axis=1))
    shifted = doubted(scores + 7.0, doubt_posterior(scores - 3.0, codes, prior, 6))
    np.testing.assert_allclose(shifted, p, rtol=1e-8)
    np.testing.assert_allclose(doubted(scores[2:3], doubt)[0], p[2], rtol=1e-12)


def test_pairs_are_all_combinations_up_to_three_scans():
    folds = balanced_folds(np.array([0, 1, 0, 1, 0, 1]))
    assert len({tuple(sorted(fold)) for fold in folds}) == 9
    assert all(len(fold) == 2 for fold in folds)
    eight = balanced_folds(np.tile(np.arange(8), 3))
    assert len(eight) == 9
    assert all(sorted(fold % 8) == list(range(8)) for fold in eight)


@pytest.mark.parametrize("counts", [(4, 4), (25, 25), (2, 30), (1, 5), (13, 4, 1)])
def test_every_scan_is_held_out_once_and_no_class_whole(counts):
    codes = np.repeat(np.arange(len(counts)), counts)
    folds = balanced_folds(codes)
    assert len(folds) <= 10
    expected = np.flatnonzero(np.array(counts)[codes] > 1)
    np.testing.assert_array_equal(np.sort(np.concatenate(folds)), expected)
    for fold in folds:
        assert set(np.delete(codes, fold)) == set(codes)


def test_one_scan_per_class_cannot_be_held_out():
    assert balanced_folds(np.array([0, 1, 2])) == []


def test_learned_from_refits_by_hand(rng):
    X, codes = rng.normal(size=(12, 20)), np.repeat([0, 1, 2], 4)
    X += 1.5 * np.eye(20)[codes]
    model = RVMClassifier(doubt=None)
    scores, truth = [], []
    for k in range(4):
        test = np.array([k, 4 + k, 8 + k])
        train = np.setdiff1d(np.arange(12), test)
        scores.append(model.fit(X[train], codes[train]).predict_log_proba(X[test]))
        truth.append(codes[test])
    expected = doubt_posterior(np.concatenate(scores), np.concatenate(truth), np.ones(3) / 3, 12)
    # Weights on samples are refitted from inner products: the same, but for rounding.
    doubt = learn_doubt(RVMClassifier(), X, codes, (2.0, 1.0))
    np.testing.assert_allclose(doubt.strength, expected.strength, rtol=1e-5)
    fitted = RVMClassifier().fit(X, codes)
    plain = model.fit(X, codes).predict_log_proba(X)
    np.testing.assert_allclose(fitted.predict_proba(X), doubted(plain, expected), rtol=1e-5)
    kernel = RVMClassifier(kernel="precomputed").fit(X @ X.T, codes)
    np.testing.assert_allclose(kernel.doubt_["strength"], doubt.strength, rtol=1e-4)


@pytest.mark.parametrize(
    "model",
    [
        RVMClassifier(),
        GPClassifier(optimize=False, doubt=(2, 1)),
        GPClassifier(["linear", "rbf"], optimize=False, doubt=[2, 1.5]),
        InverseTreeClassifier(n_permutations=3, doubt=(2, 1)),
    ],
)
def test_families_average_over_what_held_out_scans_said(rng, model):
    X, y = rng.normal(size=(8, 30)), np.array(["a", "b"] * 4)
    X[y == "b", :10] += 2
    fitted = clone(model).fit(X, y)
    plain = clone(model).set_params(doubt=None).fit(X, y)
    assert plain.doubt_ is None
    expected = doubted(plain.predict_log_proba(X), Doubt(**fitted.doubt_))
    np.testing.assert_allclose(fitted.predict_proba(X), expected, rtol=1e-7)
    beta = tuple(map(float, model.doubt))
    doubt = learn_doubt(model, X, np.array([0, 1] * 4), beta)
    np.testing.assert_allclose(doubt.strength, fitted.doubt_["strength"], rtol=1e-7)
    assert (fitted.predict(X) == plain.predict(X)).all()


def test_kernels_side_by_side_are_cut_as_voxels_are(rng):
    X, codes = rng.normal(size=(8, 20)), np.array([0, 1] * 4)
    parts = [X[:, :10], X[:, 10:]]
    G = np.hstack([part @ part.T for part in parts])
    given = GPClassifier(["precomputed"] * 2, optimize=False, doubt=(2, 1)).fit(G, codes)
    regions = np.arange(20) // 10
    voxels = GPClassifier(regions=regions, optimize=False, doubt=(2, 1)).fit(X, codes)
    np.testing.assert_allclose(
        given.doubt_["strength"], voxels.doubt_["strength"], rtol=0.02, atol=1e-6
    )


@pytest.mark.parametrize("doubt", [(1,), (0, 1), (2, -1), ("a", 1), (np.inf, 1), (1, 2, 3)])
def test_wrong_doubts_are_explained(doubt):
    with pytest.raises(InputError, match="two positive numbers"):
        check_beta(doubt)
    with pytest.raises(InputError, match="doubt cannot be used"):
        RVMClassifier(doubt=doubt).fit(np.eye(4), [0, 1, 0, 1])


@pytest.mark.slow
def test_noise_is_not_told_with_confidence():
    """Two classes of white noise, five scans each; the logarithm of 2 is .693."""
    losses = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(210, 216)), np.r_[np.repeat([0, 1], 5), rng.integers(2, size=200)]
        p = RVMClassifier().fit(X[:10], y[:10]).predict_proba(X[10:])
        losses.append(-np.log(p[np.arange(200), y[10:]]).mean())
    assert np.mean(losses) < 0.72
