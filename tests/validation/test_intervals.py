"""Intervals: the right one for each split, by formula, and with the coverage they promise."""

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import Ridge
from sklearn.model_selection import ShuffleSplit

from voxprior.validation import (
    FewShotSplit,
    LeaveOneGroupOut,
    MonteCarloLeaveOnePerClassOut,
    cross_validate,
    interval,
)
from voxprior.validation.intervals import _statistic, beta_binomial, corrected_t
from voxprior.validation.result import score_predictions


class Centroid(ClassifierMixin, BaseEstimator):
    """Nearest class mean, with probabilities; cheap enough for simulations."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.means_ = np.array([X[y == c].mean(axis=0) for c in self.classes_])
        return self

    def predict_proba(self, X):
        d = -0.5 * ((X[:, None] - self.means_) ** 2).sum(axis=2) / np.sqrt(X.shape[1])
        e = np.exp(d - d.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def scans(rng, n, V, amplitude):
    y = np.tile([0, 1], n // 2)
    X = rng.normal(size=(n, V)) + amplitude * (2 * y[:, None] - 1) / np.sqrt(V)
    return X, y, None


def runs(rng, n, V, amplitude):
    """Runs of 8 scans whose response pattern differs a little from run to run."""
    y, g = np.tile([0, 1], n // 2), np.repeat(np.arange(n // 8), 8)
    pattern = amplitude / np.sqrt(V) + 0.25 * rng.normal(size=(n // 8, V))
    return rng.normal(size=(n, V)) + (2 * y[:, None] - 1) * pattern[g], y, g


def subjects(rng, n, V, amplitude):
    """Two scans a subject, which resemble each other."""
    g = np.repeat(np.arange(n // 2), 2)
    y = np.tile([0, 1], n // 4)[g]
    X = 0.7 * rng.normal(size=(n, V)) + 0.7 * rng.normal(size=(n // 2, V))[g]
    return X + amplitude * (2 * y[:, None] - 1) / np.sqrt(V), y, g


class TestFormulas:
    def test_beta_binomial(self):
        low, high = beta_binomial(16, 20)
        assert stats.beta.cdf(low, 16.5, 4.5) == pytest.approx(0.025)
        assert stats.beta.cdf(high, 16.5, 4.5) == pytest.approx(0.975)
        assert beta_binomial(20, 20)[1] == 1
        assert beta_binomial(0, 20)[0] == 0

    @pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
    def test_beta_binomial_covers(self, share):
        """Exactly, over all outcomes of 30 scans."""
        k = np.arange(31)
        limits = np.array([beta_binomial(i, 30) for i in k])
        held = (limits[:, 0] <= share) & (share <= limits[:, 1])
        assert 0.9 < stats.binom.pmf(k, 30, share)[held].sum() < 0.99

    def test_corrected_t(self, rng):
        scores = rng.random(15)
        low, high = corrected_t(scores, 30, 10)
        expected = stats.t.ppf(0.975, 14) * np.sqrt((1 / 15 + 1 / 3) * scores.var(ddof=1))
        assert high - low == pytest.approx(2 * expected)
        with pytest.raises(ValueError, match="two splits"):
            corrected_t([0.5], 30, 10)

    def test_wider_at_a_higher_level(self, rng):
        result = cross_validate(Centroid(), *runs(rng, 64, 10, 1.0))
        narrow, wide = (interval(result, level=level) for level in (0.8, 0.95))
        assert wide.low < narrow.low < narrow.estimate < narrow.high < wide.high

    def test_stays_between_0_and_1_and_open(self, rng):
        result = cross_validate(Centroid(), *runs(rng, 64, 10, 9.0))
        found = interval(result, "accuracy")
        assert found.estimate == 1
        assert 0.8 < found.low < 0.98
        assert found.high <= 1

    def test_seeded(self, rng):
        result = cross_validate(Centroid(), *runs(rng, 64, 10, 1.0))
        assert interval(result) == interval(result)

    @pytest.mark.parametrize("score", ["accuracy", "balanced_accuracy", "log_loss", "brier", "auc"])
    def test_every_score_has_one(self, rng, score):
        result = cross_validate(Centroid(), *runs(rng, 64, 10, 1.0))
        found = interval(result, score)
        assert found.low < found.estimate < found.high
        assert found.method == "group bootstrap"

    def test_regression(self, rng):
        X = rng.normal(size=(60, 3))
        result = cross_validate(Ridge(), X, X[:, 0] + rng.normal(size=60), np.repeat(range(12), 5))
        for score in ("r2", "mae"):
            found = interval(result, score)
            assert found.low < found.estimate < found.high


class TestChoice:
    def test_one_independent_test_set(self, rng):
        X, y, _ = scans(rng, 40, 5, 1.0)
        result = cross_validate(Centroid(), X, y, cv=[(np.arange(20), np.arange(20, 40))])
        found = interval(result)
        assert found.method == "beta-binomial"
        k = round(20 * found.estimate)
        assert (found.low, found.high) == beta_binomial(k, 20)

    def test_random_halves(self, rng):
        X = rng.normal(size=(40, 3))
        age = X[:, 0] + rng.normal(size=40)
        result = cross_validate(Ridge(), X, age, cv=ShuffleSplit(10, test_size=0.5, random_state=0))
        found = interval(result, "r2")
        assert found.method == "corrected resampled t"
        assert (found.low, found.high) == corrected_t(result.scores["r2"], 20, 20)
        assert interval(result, "mae").method == "group bootstrap"

    def test_counts_are_repetitions(self, rng):
        """Counting a prediction twice is the same as having it twice."""
        result = cross_validate(Centroid(), *runs(rng, 64, 10, 1.0))
        counts = rng.integers(0, 3, size=64)
        rows = result.predictions.iloc[np.repeat(np.arange(64), counts)]
        for score in ("accuracy", "balanced_accuracy", "log_loss", "brier", "auc"):
            statistic = _statistic(result, score)[0]
            expected = score_predictions(rows, result.task, result.classes)[score]
            assert statistic(counts) == pytest.approx(expected)

    def test_few_groups_have_none(self, rng):
        result = cross_validate(Centroid(), *runs(rng, 24, 5, 1.0))
        found = interval(result)
        assert found.method == "none"
        assert np.isnan(found.low)
        assert "3 groups" in found.reason

    def test_unknown_score(self, rng):
        result = cross_validate(DummyClassifier(), *runs(rng, 64, 5, 1.0))
        with pytest.raises(ValueError, match="Scores are"):
            interval(result, "kappa")


DESIGNS = {
    "runs": (runs, 64, LeaveOneGroupOut()),
    "subjects": (subjects, 40, MonteCarloLeaveOnePerClassOut(2)),
    "two scans a class": (scans, 40, FewShotSplit(2, 10)),
    "halves": (scans, 40, FewShotSplit(None, 10)),
    "halves of runs": (runs, 96, FewShotSplit(None, 10)),
}


SCORES = ("accuracy", "balanced_accuracy", "log_loss", "brier", "auc")


def coverage(found):
    """Share of the intervals that hold the mean estimate, the expected score."""
    truth = np.mean([f.estimate for f in found])
    return np.mean([f.low <= truth <= f.high for f in found])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::voxprior.validation.AuditWarning")
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("V", [10, 100])
def test_coverage(design, V):
    """Nominal 95 % intervals hold the expected score in 90 to 99 % of data sets."""
    make, n, cv = DESIGNS[design]
    found = {score: [] for score in SCORES}
    for seed in range(150):
        X, y, groups = make(np.random.default_rng(seed), n, V, 1.2)
        result = cross_validate(Centroid(), X, y, groups, cv)
        for score in SCORES:
            found[score].append(interval(result, score, n_draws=200))
    held = {score: coverage(kept) for score, kept in found.items()}
    # 90 %, less the sampling error of 150 data sets; and not so wide that they say nothing.
    assert min(held.values()) >= 0.9 - 0.025, held
    assert np.mean(list(held.values())) <= 0.99, held


@pytest.mark.slow
@pytest.mark.parametrize("V", [5, 60])
@pytest.mark.parametrize("split", ["halves", "groups"])
def test_coverage_of_regression(split, V):
    found = {"r2": [], "mae": []}
    groups = np.repeat(np.arange(12), 4)
    for seed in range(120):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(48, V))
        y = X.sum(axis=1) / np.sqrt(V) + 0.8 * rng.normal(size=48)
        if split == "groups":
            result = cross_validate(Ridge(5.0), X, y + 0.5 * rng.normal(size=12)[groups], groups)
        else:
            cv = ShuffleSplit(10, test_size=0.5, random_state=0)
            result = cross_validate(Ridge(5.0), X, y, cv=cv)
        for score, kept in found.items():
            kept.append(interval(result, score, n_draws=100))
    for score, kept in found.items():
        assert coverage(kept) >= 0.9 - 0.03, (split, V, score)


def test_losses_do_not_go_below_zero(rng):
    X, y, g = runs(rng, 64, 10, 6.0)
    result = cross_validate(Centroid(), X, y, g)
    for score in ("log_loss", "brier"):
        found = interval(result, score)
        assert 0 <= found.low <= found.estimate <= found.high
