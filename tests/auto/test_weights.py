"""One posterior over members and weights of scores."""

import numpy as np
from numpy.testing import assert_allclose

from voxprior.auto.weights import (
    DISCRIMINANT,
    NOTHING,
    PROBABILITIES,
    UNTESTED_PAIR,
    discriminant_grid,
    mixture,
    posterior_of,
)


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
    empty = [np.empty((0, 2))] * 2
    mass = np.array([0.25, 0.75])
    made = posterior_of(empty, [DISCRIMINANT] * 2, mass, np.empty(0, int), np.log([0.5, 0.5]), 2)
    assert_allclose([one.sum() for one in made], mass)


def test_wrong_members_lose_and_nothing_wins_on_noise():
    codes = np.tile([0, 1], 20)
    right = np.where(codes[:, None] == [0, 1], 0.3, -0.3)
    members = [right, -right, np.zeros((40, 2))]
    grids, mass = [DISCRIMINANT, DISCRIMINANT, NOTHING], np.full(3, 1 / 3)
    good, bad, nothing = (
        one.sum() for one in posterior_of(members, grids, mass, codes, np.log([0.5, 0.5]), 40)
    )
    assert good > 0.999 > 1e-3 > nothing > bad
    noise = np.random.default_rng(0).permutation(right)
    members = [noise, -noise, np.zeros((40, 2))]
    made = posterior_of(members, grids, mass, codes, np.log([0.5, 0.5]), 40)
    assert made[2].sum() > 1 / 3


def test_probabilities_keep_a_doubt():
    scores, posterior = [np.array([[500.0, -500.0]])], [np.exp(DISCRIMINANT.log_prior)]
    p = mixture(scores, [DISCRIMINANT], posterior, np.log([0.25, 0.75]), 3)
    assert_allclose(p.sum(), 1)
    assert p[0, 1] >= 0.05 * 0.75
    assert_allclose(p[0, 0], 0.95 + 0.05 * 0.25, rtol=1e-6)
