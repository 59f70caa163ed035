"""Averages of the softmax, and unseen variance: leave-one-out against dense algebra, its weight."""

import numpy as np
import pytest

from voxprior.errors import InputError
from voxprior.models.gaussian.prediction import (
    average_softmax,
    check_rule,
    choose_rule,
    random_rule,
    sobol_rule,
)


def test_shift_of_all_latents_changes_no_probability(rng):
    mean, root = rng.normal(size=(3, 4)), rng.normal(size=(3, 4, 4))
    covariance = root @ root.transpose(0, 2, 1)
    for rule in (sobol_rule(4, 256, 0), random_rule(4, 500, 0)):
        p = average_softmax(mean, covariance, rule)
        np.testing.assert_allclose(average_softmax(mean + 5.0, covariance, rule), p, rtol=1e-9)
        np.testing.assert_allclose(p.sum(axis=1), 1)


@pytest.mark.parametrize("C", [3, 5, 8])
def test_sobol_beats_plain_draws(rng, C):
    mean, root = rng.normal(size=(5, C)), rng.normal(size=(5, C, C))
    covariance = root @ root.transpose(0, 2, 1)
    truth = average_softmax(mean, covariance, sobol_rule(C, 2**16, 7))
    sobol = average_softmax(mean, covariance, choose_rule("sobol", C, 1024, 0))
    plain = np.mean(
        [
            np.abs(average_softmax(mean, covariance, random_rule(C, 1024, s)) - truth).max()
            for s in range(5)
        ]
    )
    assert np.abs(sobol - truth).max() < 5e-3
    assert np.abs(sobol - truth).max() < 0.5 * plain


def test_a_scan_alone_gets_the_same_probabilities(rng):
    mean, root = rng.normal(size=(6, 5)), rng.normal(size=(6, 5, 5))
    covariance = root @ root.transpose(0, 2, 1)
    rule = sobol_rule(5, 512, 3)
    batch = average_softmax(mean, covariance, rule)
    for i in range(6):
        alone = average_softmax(mean[i : i + 1], covariance[i : i + 1], rule)
        np.testing.assert_allclose(np.log(alone[0]), np.log(batch[i]), rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "n_classes", "n_draws"),
    [("random", 4, 2**20 + 1), ("sobol", 4, 10**9), ("auto", 4, 10**9), ("quadrature", 6, 8)],
)
def test_a_rule_that_would_fill_the_memory_is_refused(name, n_classes, n_draws):
    with pytest.raises(InputError, match=r"up to"):
        choose_rule(name, n_classes, n_draws, seed=0)


def test_draws_are_bounded_by_what_they_fill():
    with pytest.raises(InputError, match=r"is too many.*up to 32,768 with 128"):
        check_rule("random", 128, 2**16)
    check_rule("random", 4, 2**16)
