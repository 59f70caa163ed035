"""AUC above chance and log-loss at chance: found, and not where probabilities are right."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from voxprior.validation import AuditWarning, Result, cross_validate
from voxprior.validation.audit import audit_predictions
from voxprior.validation.audit.probabilities import SCALES, scaled_losses, surplus_p
from voxprior.validation.folds import FoldOutcome, build_result
from voxprior.validation.run import Outcome


def result_of(y, p, groups=None, classes=None):
    classes = np.unique(y) if classes is None else classes
    guess = np.asarray(classes)[p.argmax(axis=1)]
    fold = FoldOutcome(np.arange(len(y)), 10, guess, p, "p", 0.0, 0.0, None)
    return build_result(Outcome([0], [fold], True), y, groups, np.asarray(classes), {})


def drawn(rng, n, spread, scale, C=2):
    """Labels that come with softmax(log-odds), and the probabilities of log-odds times a scale."""
    z = spread * rng.normal(size=(n, C))
    right = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = np.array([rng.choice(C, p=p) for p in right])
    said = np.exp(scale * z - (scale * z).max(axis=1, keepdims=True))
    return y, said / said.sum(axis=1, keepdims=True)


def found(*arguments, **known):
    return [finding.message for finding in audit_predictions(result_of(*arguments), **known)]


@pytest.mark.parametrize("C", [2, 4])
@pytest.mark.parametrize(("scale", "word"), [(12.0, "sure"), (0.01, "modest")])
def test_probabilities_on_another_scale(rng, C, scale, word):
    y, p = drawn(rng, 120, 2.0, scale, C)
    (message,) = found(y, p)
    assert f"they are too {word}" in message
    assert "not on the scale of the evidence" in message


def test_probabilities_that_are_right(rng):
    for spread in (0.0, 0.5, 2.0, 6.0):
        assert found(*drawn(rng, 120, spread, 1.0)) == []


def test_a_little_too_sure_is_no_finding(rng):
    """Log-loss keeps most of what it could gain."""
    assert found(*drawn(rng, 200, 2.0, 1.7)) == []


def test_order_at_chance_is_another_matter(rng):
    """Sure probabilities that mean nothing have a large loss, but no evidence is behind them."""
    _, p = drawn(rng, 60, 3.0, 1.0)
    assert found(np.tile([0, 1], 30), p) == []


def test_losses_are_those_of_the_naive_form(rng):
    y, p = drawn(rng, 30, 2.0, 3.0, 3)
    group = np.repeat(np.arange(6), 5)
    log_p = np.log(p)
    loss, best, scale = scaled_losses(log_p, y, group)

    def lost(b, rows):
        q = p[rows] ** b
        return -np.log((q / q.sum(axis=1, keepdims=True))[np.arange(len(rows)), y[rows]]).sum()

    total = 0.0
    for g in range(6):
        others = np.flatnonzero(group != g)
        b = min(SCALES, key=lambda b: lost(b, others))
        total += lost(b, np.flatnonzero(group == g))
    assert loss == pytest.approx(lost(1.0, np.arange(30)) / 30)
    assert best == pytest.approx(total / 30)
    assert scale == min(SCALES, key=lambda b: lost(b, np.arange(30)))


def test_surplus_is_the_slope(rng):
    """t over groups of d/db log-likelihood at b = 1, here by a difference."""
    y, p = drawn(rng, 40, 1.5, 2.0, 3)
    group, h = np.repeat(np.arange(8), 5), 1e-6

    def likelihood(b):
        q = p**b
        return np.bincount(group, np.log((q / q.sum(axis=1, keepdims=True))[np.arange(40), y]))

    slope = (likelihood(1 + h) - likelihood(1 - h)) / (2 * h)
    expected = stats.ttest_1samp(slope, 0.0).pvalue
    assert surplus_p(np.log(p), y, group) == pytest.approx(expected, rel=1e-5)
    assert surplus_p(np.log(np.full((40, 2), 0.5)), y % 2, group) == 1.0


class TooModest(ClassifierMixin, BaseEstimator):
    """Logistic regression whose log-odds are divided by a thousand."""

    def fit(self, X, y):
        self.inner_ = LogisticRegression().fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict(self, X):
        return self.inner_.predict(X)

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(-self.inner_.decision_function(X) / 1000))
        return np.column_stack([1 - p, p])


def test_it_warns_after_the_run_and_is_on_record(rng):
    y, runs = np.tile([0, 1], 40), np.repeat(np.arange(8), 10)
    X = rng.normal(size=(80, 5)) + y[:, None]
    with pytest.warns(AuditWarning, match=r"\[probability-scale\] AUC is 0.9"):
        result = cross_validate(TooModest(), X, y, runs)
    assert result.checks[-1].to_dict() == {
        "name": "probability-scale",
        "outcome": "found",
        "reason": "",
        "askable": False,
    }
    assert Result.from_dict(result.to_dict()).checks == result.checks
    allowed = cross_validate(TooModest(), X, y, runs, allow="probability-scale")
    assert [f.allowed for f in allowed.findings] == [True]
    assert cross_validate(TooModest(), X, y, runs, audited=result.audit).audit == result.audit
    assert cross_validate(LogisticRegression(), X, y, runs).findings == ()


@pytest.mark.parametrize(
    ("model", "n_groups", "reason"),
    [
        (Ridge(), 8, "the target is a number"),
        (LinearSVC(), 8, "no probabilities"),
        (LogisticRegression(), 4, "fewer than 5"),
    ],
)
def test_where_it_cannot_be_checked(rng, model, n_groups, reason):
    y, X = np.tile([0, 1], 40), rng.normal(size=(80, 5))
    result = cross_validate(model, X, y, np.repeat(np.arange(n_groups), 80 // n_groups))
    assert result.checks[-1].outcome == "not checked"
    assert reason in result.checks[-1].reason


def test_results_written_before_have_no_checks(rng):
    y, p = drawn(rng, 20, 1.0, 1.0)
    content = result_of(y, p).to_dict()
    del content["checks"]
    assert Result.from_dict(content).checks == ()
    assert isinstance(Result.from_dict(content).predictions, pd.DataFrame)


@pytest.mark.slow
def test_false_alarms():
    """Probabilities that are right: at most 1 % of 600 data sets, from chance to ceiling."""
    alarms = 0
    for seed in range(600):
        rng = np.random.default_rng(seed)
        n, spread = rng.choice([12, 24, 60, 150]), rng.choice([0.0, 0.3, 1.0, 2.0, 5.0])
        y, p = drawn(rng, n, spread, 1.0, rng.choice([2, 2, 3]))
        if len(np.unique(y)) == p.shape[1]:
            alarms += len(found(y, p))
    assert alarms <= 6, alarms
