"""The climb to the maximum of the evidence."""

import numpy as np

from voxprior.models.gaussian.evidence import maximize


def test_climb_respects_the_number_of_evaluations():
    def bowl(theta):
        return -float(theta @ theta), -2 * theta

    bounds = np.array([[-50.0, 50.0]] * 3)
    full = maximize(bowl, [np.full(3, 30.0)], bounds)
    np.testing.assert_allclose(full.theta, 0, atol=1e-4)
    rationed = maximize(bowl, [np.full(3, 30.0)], bounds, max_evals=2)
    assert len(rationed.path) == 2
    assert rationed.value == rationed.path.max()
    prior = maximize(bowl, [np.full(3, 30.0)], bounds, prior_sd=0.1)
    np.testing.assert_allclose(prior.theta, 30 * 100 / 102, rtol=1e-4)
