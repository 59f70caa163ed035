"""Thresholds against enumeration, temperatures against a fine grid."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax

from voxprior.models.fields.threshold import fit_temperature, tune_offsets, tune_threshold

D0, D1 = np.array([2, 0.5, -1]), np.array([-2.0, 0, -3, 1])


def objective(c, d0, d1):
    k = len(d0) + len(d1)
    return len(d1) / k * (d1 <= c).sum() + len(d0) / k * (d0 >= c).sum()


def test_threshold_between_three_and_four_ratios():
    """The objective between any two neighbouring ratios, and its largest value."""
    candidates = [-4, -2.5, -1.5, -0.5, 0.25, 0.75, 1.5, 3]
    values = [1.285714, 1.857143, 2.428571, 2, 2.571429, 2.142857, 2.714286, 2.285714]
    np.testing.assert_allclose([objective(c, D0, D1) for c in candidates], values, atol=1e-6)
    d, above = np.concatenate([D0, D1]), np.repeat([True, False], [3, 4])
    tuned = tune_threshold(d, above, np.where(above, 3 / 7, 4 / 7))
    np.testing.assert_allclose(tuned, (1.5, 2.714286), atol=1e-6)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(-5, 5), min_size=1, max_size=8),
    st.lists(st.integers(-5, 5), min_size=1, max_size=8),
)
def test_tuned_threshold_is_the_best_candidate_closest_to_zero(first, second):
    d0, d1 = np.array(first, dtype=float), np.array(second, dtype=float)
    d, above = np.concatenate([d0, d1]), np.repeat([True, False], [len(d0), len(d1)])
    weight = np.where(above, len(d0), len(d1)) / len(d)
    tuned = tune_threshold(d, above, weight)
    distinct = np.unique(d)
    middles = (distinct[1:] + distinct[:-1]) / 2
    candidates = np.concatenate([[distinct[0] - 1], middles, [distinct[-1] + 1]])
    values = np.array([objective(c, d0, d1) for c in candidates])
    np.testing.assert_allclose(tuned.objective, values.max())
    np.testing.assert_allclose(objective(tuned.threshold, d0, d1), values.max())
    ties = candidates[values > values.max() - 1e-9]
    np.testing.assert_allclose(abs(tuned.threshold), np.abs(ties).min())


def test_offsets_of_two_classes_are_the_threshold(rng):
    scores, codes = rng.normal(size=(15, 2)), np.arange(15) % 2
    offsets = tune_offsets(scores, codes)
    d = scores[:, 0] - scores[:, 1]
    weight = (np.bincount(codes) / 15)[codes]
    assert offsets[1] == 0
    np.testing.assert_allclose(offsets[0], tune_threshold(d, codes == 0, weight).threshold)


def test_offsets_of_three_classes_repair_shifts(rng):
    codes = np.arange(60) % 3
    scores = 4.0 * np.eye(3)[codes] + 0.3 * rng.normal(size=(60, 3)) + np.array([0, 9.0, -7.0])
    assert (scores.argmax(axis=1) == codes).mean() < 0.5
    offsets = tune_offsets(scores, codes)
    assert ((scores - offsets).argmax(axis=1) == codes).all()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.1, 100))
def test_tuning_offsets_never_lowers_the_objective(seed, scale):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(4), rng.integers(0, 4, size=20)])
    scores = scale * rng.normal(size=(24, 4))
    weight = (np.bincount(codes) / 24)[codes]
    before = weight[scores.argmax(1) == codes].sum()
    after = weight[(scores - tune_offsets(scores, codes)).argmax(1) == codes].sum()
    assert after >= before - 1e-12


@pytest.mark.parametrize("n_classes", [2, 4])
def test_temperature_minimises_the_smoothed_loss(rng, n_classes):
    codes = rng.integers(0, n_classes, size=80)
    scores = 30 * (0.5 * np.eye(n_classes)[codes] + rng.normal(size=(80, n_classes)))
    smooth = 1 / (80 + n_classes)
    targets = np.full(scores.shape, smooth)
    targets[np.arange(80), codes] = 1 - smooth * (n_classes - 1)

    def loss(T):
        return -(targets * log_softmax(scores / T, axis=1)).sum()

    T = fit_temperature(scores, codes)
    grid = T * np.exp(np.linspace(-3, 3, 601))
    assert loss(T) <= min(loss(t) for t in grid) + 1e-9


def test_temperature_of_scores_that_mislead_is_as_hot_as_can_be():
    codes = np.arange(20) % 2
    assert fit_temperature(-5.0 * np.eye(2)[codes], codes) == 1e6


def test_scaled_scores_scale_the_temperature(rng):
    codes = rng.integers(0, 2, size=50)
    scores = np.eye(2)[codes] + rng.normal(size=(50, 2))
    one, other = fit_temperature(scores, codes), fit_temperature(100 * scores, codes)
    np.testing.assert_allclose(other, 100 * one, rtol=1e-6)
