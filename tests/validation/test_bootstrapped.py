"""The bootstrap of a comparison, against resampling written out."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB

from voxprior.validation import Bootstrap, compare_bootstrapped, cross_validate


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = np.repeat(["ill", "well"], 15)
    return rng.normal(size=(30, 4)) + 0.8 * (y == "ill")[:, None], y


def test_a_comparison_is_two_fits_and_one_difference_in_every_resample(data):
    X, y = data
    cv = Bootstrap(25, random_state=3)
    models = LogisticRegression(), GaussianNB()
    found = compare_bootstrapped(*(cross_validate(m, X, y, cv=cv) for m in models))
    d = []
    for train, test in cv.split(X, y):
        right = [np.mean(m.fit(X[train], y[train]).predict(X[test]) == y[test]) for m in models]
        d.append(right[0] - right[1])
    np.testing.assert_allclose(found.differences, d, atol=1e-12)
    np.testing.assert_allclose(found.difference, np.mean(d))
    np.testing.assert_allclose([found.low, found.high], np.percentile(d, [2.5, 97.5]))
    below = sum(value <= 1e-12 for value in d)
    above = sum(value >= -1e-12 for value in d)
    assert found.p_value == min(1, 2 * min(1 + below, 1 + above) / 26)


def test_equal_decoders_do_not_differ_and_order_is_a_sign(data):
    X, y = data
    folds = list(Bootstrap(20).split(X, y))
    same = [cross_validate(GaussianNB(), X, y, cv=folds) for _ in range(2)]
    assert compare_bootstrapped(*same)[1:5] == (0.0, 0.0, 0.0, 1.0)
    blind = cross_validate(DummyClassifier(), X, y, cv=folds)
    one, other = compare_bootstrapped(same[0], blind), compare_bootstrapped(blind, same[0])
    assert one.difference == -other.difference > 0
    assert one.p_value == other.p_value < 1
    loss = compare_bootstrapped(same[0], blind, "log_loss", level=0.5)
    assert loss.low < loss.difference < loss.high


def test_numbers_are_compared_by_their_errors():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    age = 60 + 5 * X[:, 0] + rng.normal(size=40)
    weak, strong = (
        cross_validate(Ridge(alpha), X, age, cv=Bootstrap(20, stratify=False))
        for alpha in (1e4, 1.0)
    )
    found = compare_bootstrapped(weak, strong)
    assert found.score == "mae"
    assert found.low > 0


def test_errors_say_what_is_wrong(data):
    X, y = data
    few = cross_validate(GaussianNB(), X, y, cv=Bootstrap(5))
    many = cross_validate(GaussianNB(), X, y, cv=Bootstrap(20))
    with pytest.raises(ValueError, match="at least 20 folds"):
        compare_bootstrapped(few, few)
    with pytest.raises(ValueError, match="same folds"):
        compare_bootstrapped(few, many)
    with pytest.raises(ValueError, match="level"):
        compare_bootstrapped(many, many, level=95)
    for score in ("balanced_accuracy", "auc"):
        with pytest.raises(ValueError, match="not a mean over scans"):
            compare_bootstrapped(many, many, score)
