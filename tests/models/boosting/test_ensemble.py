import numpy as np
import pytest

from voxprior.models.boosting.ensemble import (
    leading_class,
    log_probabilities,
    training_set,
    without_weightless,
)


def test_labels_are_one_against_the_rest(rng):
    X, weights = rng.standard_normal((4, 3)), np.array([1.0, 0.0, 2.0, 1.0])
    three = training_set(X, np.array([0, 2, 1, 0]), 3, weights)
    expected = [[1, -1, -1, 1], [-1, -1, 1, -1], [-1, 1, -1, -1]]
    np.testing.assert_array_equal(three.Y, expected)
    two = training_set(X, np.array([0, 1, 1, 0]), 2, weights)
    np.testing.assert_array_equal(two.Y, [[-1, 1, 1, -1]])
    left = without_weightless(two)
    np.testing.assert_array_equal(left.Y, [[-1, 1, -1]])
    np.testing.assert_array_equal(left.weights, [1.0, 2.0, 1.0])
    np.testing.assert_array_equal(left.pool.rows, [0, 2, 3])


def test_the_leading_class_is_told_where_probabilities_are_equal():
    F = np.array([[40.0, 41.0, -1.0]])
    log_p = log_probabilities(F, 2.0)[0]
    assert log_p[0] == log_p[1]
    np.testing.assert_array_equal(leading_class(F), [1])
    np.testing.assert_array_equal(leading_class(np.array([[0.0], [1e-30]])), [0, 1])


@pytest.mark.parametrize("n_problems", [1, 3])
def test_probabilities_are_finite_and_sum_to_one_at_any_scale(rng, n_problems):
    F = 10.0 ** rng.integers(-3, 6, (50, 1)) * rng.standard_normal((50, n_problems))
    log_p = log_probabilities(F, 2.0)
    assert np.isfinite(log_p).all()
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, rtol=1e-12)


def test_two_classes_follow_the_exponential_link():
    F = np.array([[0.3], [-1.2]])
    p = np.exp(log_probabilities(F, 2.0))[:, 1]
    np.testing.assert_allclose(p, 1 / (1 + np.exp(-2 * F[:, 0])))
