"""Intervals recomputed from the predictions, row by row, and the bounds at which a rule turns."""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import Ridge
from sklearn.model_selection import ShuffleSplit
from sklearn.naive_bayes import GaussianNB

from voxprior import AutoRegressor
from voxprior.validation import FewShotSplit, chance_level, cross_validate, interval
from voxprior.validation.intervals import (
    Variation,
    beta_binomial,
    bootstrap_variation,
    choose_method,
    corrected_t,
    difference_interval,
    independent_scans,
    limits,
    loss_limits,
    rarity,
)
from voxprior.validation.scores import score_predictions

GROUPS = np.repeat(np.arange(6), 4)
T5 = stats.t.ppf(0.975, 5)


def classes(cv=None, seed=0, rare=False, model=None):
    rng = np.random.default_rng(seed)
    y = np.tile([0, 1, 0, 0] if rare else [0, 1], 6 if rare else 12)
    X = rng.normal(size=(24, 3)) + 0.8 * y[:, None]
    return cross_validate(model or GaussianNB(), X, y, GROUPS, cv, allow=["labels-confounded"])


def numbers(cv=None, model=None):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(24, 3))
    return cross_validate(model or Ridge(), X, X[:, 0] + rng.normal(size=24), GROUPS, cv)


ONE_TEST_SET = [(np.arange(8), np.arange(8, 24))]
HALVES = FewShotSplit(3, 5)


def drawn_variance(score_of, G, n_draws, seed=0):
    """Variance of a score over draws of whole groups, each draw scored from its rows."""
    counts = np.random.default_rng(seed).multinomial(G, np.full(G, 1 / G), n_draws)
    draws = np.array([score_of(row) for row in counts])
    return draws[np.isfinite(draws)].var()


def rows_of(result, counts):
    table = result.predictions
    code = np.unique(table["group"], return_inverse=True)[1]
    return table.iloc[np.repeat(np.arange(len(table)), counts[code])]


def scored(result, score):
    return lambda counts: score_predictions(
        rows_of(result, counts), result.task, result.classes
    ).get(score, np.nan)


@pytest.mark.parametrize("score", ["accuracy", "balanced_accuracy", "auc", "brier"])
@pytest.mark.parametrize("cv", [None, HALVES, ONE_TEST_SET], ids=["runs", "repeated", "one"])
@pytest.mark.parametrize("rare", [False, True])
def test_variance_of_classes_by_rows(cv, score, rare):
    result = classes(cv, rare=rare)
    G = result.predictions["group"].nunique()
    share = {"brier": 2.0}.get(score, 0.5) * (len(result.scores) > 1)
    if score not in ("balanced_accuracy", "auc"):
        counts = result.predictions.drop_duplicates("sample")["y_true"].value_counts()
        share *= counts.sum() / 4 * (1 / counts).sum()
    expected = (1 + share) * drawn_variance(scored(result, score), G, 60) * G / (G - 1)
    if cv is HALVES:
        folds = result.scores[score].dropna()
        expected += folds.var() / len(folds)
    found = bootstrap_variation(result, score, 60, 0)
    assert found.variance == pytest.approx(expected)
    assert found.estimate == pytest.approx(result.pooled()[score])
    assert found.degrees == G - 1


@pytest.mark.parametrize("score", ["r2", "mae", "log_density", "interval_coverage"])
@pytest.mark.parametrize("cv", [None, ONE_TEST_SET], ids=["runs", "one"])
def test_variance_of_numbers_by_rows(score, cv):
    result = numbers(cv, AutoRegressor())
    G = result.predictions["group"].nunique()
    share = {"r2": 2.0}.get(score, 0.5) * (len(result.scores) > 1)
    expected = (1 + share) * drawn_variance(scored(result, score), G, 40) * G / (G - 1)
    assert bootstrap_variation(result, score, 40, 0).variance == pytest.approx(expected)


def test_a_draw_alone_has_no_variance():
    assert bootstrap_variation(classes(), "accuracy", 1, 0).variance == 0


def test_the_default_seed_and_draws():
    result = classes()
    assert interval(result) == interval(result, n_draws=1000, random_state=0)
    assert interval(result) != interval(result, random_state=1)
    pair = result, classes(model=GaussianNB(var_smoothing=0.5))
    plain = difference_interval(*pair, "accuracy")
    assert plain == difference_interval(*pair, "accuracy", n_draws=1000, random_state=0)
    assert plain != difference_interval(*pair, "accuracy", random_state=1)
    assert plain != difference_interval(*pair, "accuracy", n_draws=999)


@pytest.mark.parametrize("cv", [None, HALVES], ids=["runs", "repeated"])
@pytest.mark.parametrize("score", ["accuracy", "brier"])
def test_differences_by_rows(cv, score):
    first, second = classes(cv), classes(cv, model=GaussianNB(var_smoothing=0.5))
    G = 6

    def difference(counts):
        return scored(first, score)(counts) - scored(second, score)(counts)

    share = 2.0 if score == "brier" else 0.5
    variance = (1 + share) * drawn_variance(difference, G, 80) * G / (G - 1)
    if cv is HALVES:
        apart = first.scores[score].to_numpy() - second.scores[score].to_numpy()
        variance += apart.var(ddof=1) / len(apart)
    if score == "accuracy":
        variance = max(variance, independent_scans(first, score) ** -2.0)
    estimate = first.pooled()[score] - second.pooled()[score]
    found = difference_interval(first, second, score, n_draws=80)
    assert found.estimate == pytest.approx(estimate)
    half = T5 * np.sqrt(variance)
    assert (found.low, found.high) == pytest.approx((estimate - half, estimate + half))
    assert found.method == "group bootstrap"
    assert found.reason == "6 groups drawn whole"


def test_a_difference_of_few_groups_is_told_without_limits():
    rng, y = np.random.default_rng(0), np.tile([0, 1], 8)
    X, groups = rng.normal(size=(16, 3)) + 0.8 * y[:, None], np.repeat(np.arange(4), 4)
    pair = [
        cross_validate(GaussianNB(var_smoothing=s), X, y, groups, allow=["labels-confounded"])
        for s in (1e-9, 2.0)
    ]
    found = difference_interval(*pair, "log_loss")
    wanted = pair[0].pooled()["log_loss"] - pair[1].pooled()["log_loss"]
    assert found.estimate == pytest.approx(wanted)
    assert (found.method, found.reason) == ("none", "fewer than 5 independent groups")
    assert np.isnan([found.low, found.high]).all()


def test_a_difference_is_no_smaller_than_one_scan():
    result = classes()
    found = difference_interval(result, result, "accuracy")
    assert found.high == pytest.approx(T5 / 24)
    assert difference_interval(result, result, "brier").high == 0


def test_limits_of_every_kind_of_score():
    found = Variation(0.8, 0.01, 5)
    half = T5 * 0.1
    assert limits(found, "log_density", np.nan, 0.95) == pytest.approx((0.8 - half, 0.8 + half))
    assert limits(found, "interval_coverage", np.nan, 0.95) == pytest.approx((0.8 - half, 1.0))
    still = Variation(0.8, 0.0, 5)
    assert np.isnan(limits(still, "log_density", np.nan, 0.95)).all()
    factor = np.exp(half / 0.8)
    assert limits(found, "mae", np.nan, 0.95) == pytest.approx((0.8 / factor, 0.8 * factor))
    assert limits(found, "brier", np.nan, 0.95) == pytest.approx((0.8 / factor, 1.0))
    low = Variation(0.3, 0.0004, 5)
    wide = np.exp(T5 * 0.02 / 0.3)
    assert limits(low, "brier", np.nan, 0.95) == pytest.approx((0.3 / wide, 0.3 * wide))
    factor = np.exp(half / 0.2)
    assert limits(found, "r2", np.nan, 0.95) == pytest.approx((1 - 0.2 * factor, 1 - 0.2 / factor))
    assert np.isnan(limits(still, "mae", np.nan, 0.95)).all()
    assert np.isnan(limits(Variation(0.0, 0.1, 5), "mae", np.nan, 0.95)).all()
    assert np.isnan(limits(Variation(0.8, (0.9e-9 * 0.8) ** 2, 5), "mae", np.nan, 0.95)).all()
    assert np.isfinite(limits(Variation(0.8, (1.1e-9 * 0.8) ** 2, 5), "mae", np.nan, 0.95)).all()
    assert limits(still, "accuracy", 20, 0.95) == pytest.approx(beta_binomial(16, 20))
    assert limits(Variation(1.0, 0.1, 5), "accuracy", 20, 0.95) == (0.0, 1.0)
    narrow = limits(Variation(0.8, 1e-6, 5), "auc", 20, 0.9)
    assert narrow == pytest.approx(beta_binomial(16, 20, 0.9))


def test_limits_of_a_loss_turn_at_one_half():
    """At x = ½ exponential and straight line meet."""
    t = stats.t.ppf(0.975, 4)

    def at(x):
        return loss_limits(Variation(1.0, (x / t) ** 2, 4), 0.95)

    assert at(0.499) == pytest.approx((np.exp(-0.499), np.exp(0.499)))
    assert at(0.501) == pytest.approx((np.exp(-0.501), np.exp(0.5) * 1.001))
    assert at(2.0) == pytest.approx((np.exp(-2.0), np.exp(0.5) * 2.5))
    assert np.isnan(loss_limits(Variation(1.0, 0.9e-18, 4), 0.95)).all()
    assert np.isfinite(loss_limits(Variation(1.0, 1.1e-18, 4), 0.95)).all()


def test_beta_binomial_keeps_its_share_inside():
    for right, n in ((0.3, 20), (19.7, 20), (0.01, 3)):
        low, high = beta_binomial(right, n)
        assert low <= right / n <= high
    assert beta_binomial(0.3, 20)[0] > 0
    assert beta_binomial(19.7, 20)[1] < 1
    tail = stats.beta.ppf([0.1, 0.9], 4.5, 6.5)
    assert beta_binomial(4, 10, 0.8) == pytest.approx(tail)


def test_corrected_t_of_two_splits():
    half = stats.t.ppf(0.95, 1) * np.sqrt((0.5 + 0.25) * 0.02)
    assert corrected_t([0.5, 0.7], 40, 10, 0.9) == pytest.approx((0.6 - half, 0.6 + half))


@pytest.mark.parametrize(
    ("n_test", "method"), [(8, "corrected resampled t"), (12, "corrected resampled t"),
                           (13, "group bootstrap")]
)  # fmt: skip
def test_test_sets_larger_than_training_sets_are_not_corrected(n_test, method):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 3))
    cv = ShuffleSplit(6, train_size=24 - n_test, test_size=n_test, random_state=0)
    result = cross_validate(Ridge(), X, X[:, 0] + rng.normal(size=24), cv=cv)
    assert choose_method(result, "mae")[0] == method
    single = [(np.arange(12), np.arange(12, 24))]
    once = cross_validate(Ridge(), X, X[:, 0] + rng.normal(size=24), cv=single)
    assert choose_method(once, "mae") == ("group bootstrap", "12 groups drawn whole")


def test_which_method_and_why():
    assert choose_method(classes(), "log_loss") == ("group variance", "6 groups")
    assert choose_method(classes(), "accuracy") == ("group bootstrap", "6 groups drawn whole")
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 12)
    X = rng.normal(size=(24, 3)) + y[:, None]
    alone = cross_validate(GaussianNB(), X, y, cv=ONE_TEST_SET)
    for score, method in (("accuracy", "beta-binomial"), ("balanced_accuracy", "beta-binomial"),
                          ("auc", "group bootstrap"), ("brier", "group bootstrap")):  # fmt: skip
        assert choose_method(alone, score)[0] == method
    unequal = cross_validate(GaussianNB(), X, np.tile([0, 1, 0], 8), cv=ONE_TEST_SET)
    assert choose_method(unequal, "balanced_accuracy")[0] == "group bootstrap"
    assert choose_method(unequal, "accuracy")[0] == "beta-binomial"
    by_run = cross_validate(GaussianNB(), X, y, GROUPS, ONE_TEST_SET)
    assert choose_method(by_run, "accuracy")[0] == "none"  # four runs tested


def test_scans_tested_repeatedly_are_worth_more():
    result = classes(HALVES)
    table = result.predictions.assign(right=lambda t: t["y_true"] == t["y_pred"])
    right = table.groupby("sample")["right"].mean()
    p, n = right.mean(), len(right)
    assert independent_scans(result, "accuracy") == pytest.approx(
        n * p * (1 - p) / right.var(ddof=0)
    )
    assert independent_scans(classes(), "accuracy") == pytest.approx(24)
    rare = classes(rare=True)
    assert rarity(rare) == pytest.approx(24 / 4 * (1 / 18 + 1 / 6))
    assert independent_scans(rare, "auc") == pytest.approx(24 / rarity(rare))
    assert independent_scans(rare, "accuracy") == pytest.approx(24)


def test_chance_of_numbers():
    result = numbers()
    y = result.predictions["y_true"].to_numpy()
    assert chance_level(result, "r2") == 0
    assert chance_level(result, "mae") == pytest.approx(np.abs(y - y.mean()).mean())
    assert chance_level(result, "log_density") is None
    assert chance_level(classes(), "auc") == 0.5
    assert chance_level(classes(), "coverage") is None
