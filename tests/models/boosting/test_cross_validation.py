import numpy as np
import pytest

from voxprior.models.boosting.coordinate_descent import Settings, boost, decision_values
from voxprior.models.boosting.cross_validation import choose, fit_slope, inner_folds
from voxprior.models.boosting.ensemble import TrainingSet, log_probabilities
from voxprior.models.boosting.penalty import DiagonalPenalty
from voxprior.models.boosting.stumps import presort


def make_training(rng, n=40, n_features=10):
    X = rng.standard_normal((n, n_features))
    y = np.where(X[:, 0] + 0.8 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return TrainingSet(presort(X), y[None], np.ones(n), mean_loss=False)


def test_held_out_losses_equal_refits_by_hand(rng):
    training = make_training(rng)
    X, y = training.pool.X, training.Y[0]
    penalty = DiagonalPenalty(np.ones(10))
    folds = inner_folds(y, None, 4, 0)
    candidates = [(penalty, Settings(lam, 15)) for lam in (0.01, 0.5, 5.0)]
    choice = choose(training, candidates, folds, every_stage=False)
    for (_, settings), (loss,) in zip(candidates, choice.losses):
        F = np.empty(40)
        for train, test in folds:
            found = boost(presort(X[train]), y[train], penalty, settings)
            F[test] = decision_values(X[test], found.stumps)
        assert loss == pytest.approx(
            fit_slope(F[:, None], training.Y, training.weights)[1], rel=1e-6
        )
    assert choice.candidate == np.argmin(choice.losses)
    assert choice.n_iterations == 15


def test_every_stage_finds_the_best_number_of_iterations(rng):
    training = make_training(rng)
    folds = inner_folds(training.Y[0], None, 4, 0)
    candidates = [(DiagonalPenalty(np.ones(10)), Settings(0.0, 40))]
    choice = choose(training, candidates, folds, every_stage=True)
    assert choice.losses.shape == (1, 40)
    assert choice.n_iterations == np.argmin(choice.losses[0]) + 1
    assert choice.n_iterations < 40


def test_folds_keep_groups_and_classes(rng):
    y, groups = np.tile([0, 0, 1, 1], 6), np.repeat(np.arange(6), 4)
    for train, test in inner_folds(y, groups, 3, 0):
        assert not set(groups[train]) & set(groups[test])
        assert set(y[train]) == {0, 1}
    assert len(inner_folds(np.repeat([0, 1], [20, 3]), None, 5, 0)) == 3
    with pytest.raises(ValueError, match="at least 2 samples"):
        inner_folds(np.array([0, 0, 1]), None, 5, 0)
    with pytest.raises(ValueError, match="at least 2 groups"):
        inner_folds(np.array([0, 0, 1, 1]), np.array([0, 1, 2, 2]), 5, 0)
    with pytest.raises(ValueError, match="one entry per sample"):
        inner_folds(y, groups[:3], 3, 0)


def test_the_slope_recovers_half_log_odds(rng):
    log_odds = 3 * rng.standard_normal(20_000)
    y = np.where(rng.random(20_000) < 1 / (1 + np.exp(-log_odds)), 1.0, -1.0)
    for stretch in (0.5, 4.0):
        slope, _ = fit_slope(stretch * log_odds[:, None], y[None], np.ones(20_000))
        assert slope == pytest.approx(1 / stretch, rel=0.05)


def test_separable_held_out_values_have_a_finite_slope():
    F = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    slope, _ = fit_slope(F, np.sign(F).T, np.ones(4))
    p = np.exp(log_probabilities(F, slope))
    assert p.min() > 0.05
