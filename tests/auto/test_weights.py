"""One posterior over members and weights of scores."""

import warnings

import numpy as np
from numpy.testing import assert_allclose
from scipy.special import log_softmax, logsumexp

from voxprior.auto import weights
from voxprior.auto.weights import (
    DISCRIMINANT,
    NOTHING,
    PROBABILITIES,
    UNTESTED_PAIR,
    discriminant_grid,
    mixture,
    posterior_of,
)

EVEN = np.log([[0.5, 0.5]])


def test_grids_are_probabilities():
    assert len(DISCRIMINANT.log_weight) == 33
    assert_allclose(DISCRIMINANT.log_weight[[0, -1]], [-2.4, 7.2])
    assert_allclose(PROBABILITIES.log_weight[[0, -1]], [-1.8, 1.8])
    for grid in (DISCRIMINANT, UNTESTED_PAIR, PROBABILITIES, NOTHING):
        assert_allclose(np.exp(grid.log_prior).sum(), 1)


def test_two_classes_without_folds_are_trusted_less():
    assert discriminant_grid(2, tested=True) is discriminant_grid(3, tested=False) is DISCRIMINANT
    untested = discriminant_grid(2, tested=False)
    assert_allclose(untested.log_weight, DISCRIMINANT.log_weight)
    assert np.exp(untested.log_prior) @ untested.log_weight < np.log(8)


def test_without_left_out_scans_the_prior_decides():
    empty = [np.empty((0, 1, 2))] * 2
    mass, codes = np.array([0.25, 0.75]), np.empty((0, 1), int)
    made = posterior_of(empty, [DISCRIMINANT] * 2, mass, codes, EVEN, np.array([2]))
    assert_allclose([one.sum() for one in made], mass)


def test_wrong_members_lose_and_nothing_wins_on_noise():
    codes = np.tile([0, 1], 20)[:, None]
    right = np.where(codes[..., None] == [0, 1], 0.3, -0.3)
    members = [right, -right, np.zeros((40, 1, 2))]
    grids, mass = [DISCRIMINANT, DISCRIMINANT, NOTHING], np.full(3, 1 / 3)
    good, bad, nothing = (
        one.sum() for one in posterior_of(members, grids, mass, codes, EVEN, np.array([40]))
    )
    assert good > 0.999 > 1e-3 > nothing > bad
    noise = np.random.default_rng(0).permutation(right)
    members = [noise, -noise, np.zeros((40, 1, 2))]
    made = posterior_of(members, grids, mass, codes, EVEN, np.array([40]))
    assert made[2].sum() > 1 / 3


def test_probabilities_keep_a_doubt():
    scores, posterior = [np.array([[[500.0, -500.0]]])], [np.exp(DISCRIMINANT.log_prior)[:, None]]
    p = mixture(scores, [DISCRIMINANT], posterior, np.log([[0.25, 0.75]]), np.array([3]))[:, 0]
    assert_allclose(p.sum(), 1)
    assert p[0, 1] >= 0.05 * 0.75
    assert_allclose(p[0, 0], 0.95 + 0.05 * 0.25, rtol=1e-6)


def test_blocks_of_labellings_and_of_scans_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    scores, codes = [rng.normal(size=(6, 5, 3)) for _ in range(2)], rng.integers(3, size=(6, 5))
    known = ([DISCRIMINANT, PROBABILITIES], np.array([0.3, 0.7]), codes)
    log_prior, worth = np.log(rng.dirichlet(np.ones(3), size=5)), np.arange(2, 7)
    posterior = posterior_of(scores, *known, log_prior, worth)
    p = mixture(scores, known[0], posterior, log_prior, worth)
    log_joint = [
        np.log(mass)
        + grid.log_prior[:, None]
        + worth
        * np.array(
            [
                [log_softmax(log_prior[b] + w * s[:, b], axis=1)[range(6), codes[:, b]].mean()
                 for b in range(5)]
                for w in np.exp(grid.log_weight)
            ]
        )
        for mass, grid, s in zip(known[1], known[0], scores)
    ]  # fmt: skip
    total = logsumexp(np.concatenate(log_joint), axis=0)
    for one, joint in zip(posterior, log_joint):
        assert_allclose(one, np.exp(joint - total), rtol=1e-10)
    monkeypatch.setattr(weights, "BLOCK", 1)
    for one, other in zip(posterior, posterior_of(scores, *known, log_prior, worth)):
        assert_allclose(one, other, rtol=1e-13)
    assert_allclose(mixture(scores, known[0], posterior, log_prior, worth), p, rtol=1e-13)


def test_scores_beyond_all_numbers_get_no_weight():
    scores, codes = [np.array([[[1e9, -1e9]]]), np.zeros((1, 1, 2))], np.array([[1]])
    mass = np.full(2, 0.5)
    posterior = posterior_of(scores, [DISCRIMINANT, NOTHING], mass, codes, EVEN, np.array([1]))
    assert_allclose(posterior[0], 0)
    assert_allclose(posterior[1], 1)


def test_odds_whose_sum_is_beyond_all_numbers_are_no_warning():
    """Three classes: odds that are numbers, and a sum of two of them that is not."""
    largest = np.log(np.finfo(float).max) - 0.1
    scores = np.array([[[0.0, 1.0, 1.0]]]) * largest / np.exp(DISCRIMINANT.log_weight).max()
    even = np.log(np.full((1, 3), 1 / 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = posterior_of(
            [scores], [DISCRIMINANT], np.ones(1), np.array([[0]]), even, np.array([1])
        )
    assert_allclose(made[0].sum(), 1)
