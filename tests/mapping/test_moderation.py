"""The prior of variances: worked examples, its limits, and the moderated t."""

from math import inf

import numpy as np
import pytest

from voxprior.mapping import map_test
from voxprior.mapping.moderation import NO_PRIOR, Prior, variance_prior


def test_three_voxels_worked_by_hand():
    """Sums of squares with three degrees of freedom: once all alike, once very different."""
    alike = variance_prior(np.array([8.5, 1.5, 4.5]), 3)
    assert alike.dof == inf
    assert alike.variance == pytest.approx(1.8593601099, abs=1e-10)
    different = variance_prior(np.array([8.5, 0.15, 44.5]), 3)
    assert different == pytest.approx((0.7783109189, 0.3389355110), abs=1e-10)


def test_the_prior_is_found_again():
    rng = np.random.default_rng(3)
    d0, s0, k = 6.0, 2.5, 9
    variances = d0 * s0 / rng.chisquare(d0, 200_000)
    found = variance_prior(variances * rng.chisquare(k, 200_000), k)
    assert found == pytest.approx((d0, s0), rel=0.05)


def test_without_voxels_that_vary_there_is_no_prior():
    assert variance_prior(np.array([0.0, 3.0, 0.0]), 4) == NO_PRIOR


@pytest.mark.parametrize("spread", [0.0, 0.8])
def test_the_moderated_t_is_its_formula(spread):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(12, 80)) * np.exp(spread * rng.normal(size=80))
    y, runs = np.tile([0, 1], 6), np.repeat(range(6), 2)
    found = map_test(X, y, runs, statistic="moderated")
    left = X - np.repeat(X.reshape(6, 2, 80).mean(axis=1), 2, axis=0)
    a = np.tile([-0.5, 0.5], 6) / np.sqrt(3)
    S, D = (left**2).sum(axis=0), a @ left
    prior = variance_prior(S, found.df + 1)
    if prior.dof == inf:
        naive = D / np.sqrt(prior.variance)
    else:
        s2 = (S - D**2) / found.df
        d0, s0 = prior
        naive = D / np.sqrt((d0 * s0 + found.df * s2) / (d0 + found.df))
    np.testing.assert_allclose(found.statistic, naive, rtol=1e-6)
    plain = D / np.sqrt((S - D**2) / found.df)
    np.testing.assert_allclose(found.unmoderated, plain, rtol=1e-6)


def test_limits_are_the_plain_t_and_the_mean_difference():
    squares = np.array([1.0, 4.0])
    np.testing.assert_array_equal(NO_PRIOR.lengths(squares), [1.0, 2.0])
    np.testing.assert_array_equal(Prior(inf, 9.0).lengths(squares), [3.0, 3.0])
