"""A verdict follows from the intervals, and claims no more than they do."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import GaussianNB

from voxprior.validation import cross_validate, interval, verdict
from voxprior.validation.intervals import chance_level, difference_interval


def scans(effect, n_groups=8, n=48, seed=0):
    rng = np.random.default_rng(seed)
    y, groups = np.tile([0, 1], n // 2), np.repeat(range(n_groups), n // n_groups)
    return rng.normal(size=(n, 4)) + effect * y[:, None], y, groups


def result_of(model, effect, **how):
    return cross_validate(model, *scans(effect, **how))


@pytest.mark.parametrize("effect", [0.0, 0.2, 0.5, 2.0, -1.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_outcome_is_that_of_the_interval(effect, seed):
    result = result_of(GaussianNB(), effect, seed=seed)
    found, chance = interval(result), chance_level(result, "accuracy")
    expected = "above chance" if found.low > chance else "not above chance"
    assert verdict(result).outcome == ("below chance" if found.high < chance else expected)


def test_it_names_what_was_decoded():
    assert str(verdict(result_of(GaussianNB(), 2.0), target="group")) == (
        "The interval lies above chance: the scans say something about group."
    )
    assert "about group was not shown" in verdict(result_of(GaussianNB(), 0.0), target="group").text


def test_too_few_groups_have_no_verdict_and_a_reason():
    found = verdict(result_of(GaussianNB(), 2.0, n_groups=4))
    assert found.outcome == "no verdict"
    assert "fewer than 5 independent groups" in found.text


def test_better_and_not_better_are_by_the_paired_loss():
    good, blind = result_of(GaussianNB(), 2.0), result_of(DummyClassifier(), 2.0)
    better = verdict(good, {"guessing": blind})
    assert "It is better than guessing (accuracy 0." in better.text
    paired = difference_interval(good, blind, "log_loss")
    assert better.gain == (-paired.estimate, -paired.high, -paired.low)
    assert "It is worse than naive Bayes" in verdict(blind, {"naive Bayes": good}).text
    alike = verdict(good, {"itself": result_of(GaussianNB(var_smoothing=1e-8), 2.0)})
    assert "It was not shown to be better than itself" in alike.text


def test_the_best_of_the_others_is_the_one_that_is_named():
    good, blind = result_of(GaussianNB(), 2.0), result_of(DummyClassifier(), 2.0)
    assert verdict(blind, {"guessing": blind, "naive Bayes": good}).best == "naive Bayes"


def test_findings_are_named_where_the_score_is_above_chance():
    X, y, groups = scans(2.0)
    age = y + np.random.default_rng(0).normal(size=len(y)) / 9
    with pytest.warns(UserWarning, match="labels-confounded"):
        result = cross_validate(GaussianNB(), X, y, groups, variables={"age": age})
    assert "may explain the score: labels-confounded" in verdict(result).text


def test_numbers_are_compared_by_the_absolute_error():
    X, _, groups = scans(0.0)
    y = X[:, 0] + 0.1 * np.random.default_rng(1).normal(size=len(X))
    result = cross_validate(LinearRegression(), X, y, groups)
    other = cross_validate(LinearRegression(), X[:, 1:], y, groups)
    found = verdict(result, {"the rest": other}, target="age")
    assert found.outcome == "above chance"
    assert "It is better than the rest (R² " in found.text
