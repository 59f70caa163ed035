"""Temperature: the mode of its posterior, what it must not change or see."""

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from voxprior.decision import (
    BayesDecision,
    IsotonicCalibrated,
    TemperatureCalibrated,
    apply_temperature,
    fit_temperature,
)
from voxprior.decision.calibration import temperature_objective
from voxprior.decision.held_out import held_out_log_scores


@parametrize_with_checks([TemperatureCalibrated(LogisticRegression())])
def test_scikit_learn(estimator, check):
    check(estimator)


def noisy(rng, n, sharpness, C=3):
    """Scores whose true temperature is known: labels are drawn from softmax(scores / sharpness)."""
    scores = rng.normal(size=(n, C)) * 2
    p = softmax(scores, axis=1)
    code = np.array([rng.choice(C, p=row) for row in p])
    return scores * sharpness, code


class TestFunction:
    @pytest.mark.parametrize("sharpness", [0.5, 1.0, 20.0])
    def test_known_temperature(self, rng, sharpness):
        scores, code = noisy(rng, 3000, sharpness)
        assert fit_temperature(scores, code).temperature == pytest.approx(sharpness, rel=0.08)

    def test_closed_form(self):
        """3 of 4 right at log-odds 8: without a prior 8/T = log 3."""
        scores = np.tile([[8.0, 0.0]], (40, 1))
        code = np.repeat([0, 1], [30, 10])
        found = fit_temperature(scores, code, prior_sd=None)
        assert found.temperature == pytest.approx(8 / np.log(3), rel=1e-6)

    @settings(max_examples=40, deadline=None)
    @given(
        st.integers(0, 1000),
        st.tuples(st.floats(0.2, 3), st.floats(0.2, 3)),
        st.integers(2, 12),
        st.floats(0.1, 100),
    )
    def test_is_the_minimum_of_the_posterior(self, seed, prior_sd, n, sharpness):
        scores, code = noisy(np.random.default_rng(seed), n, sharpness)
        found = fit_temperature(scores, code, prior_sd=prior_sd)
        for log_T in np.linspace(-6, 10, 400):
            log_p = log_softmax(scores / np.exp(log_T), axis=1)[np.arange(n), code].sum()
            sd = prior_sd[0] if log_T < 0 else prior_sd[1]
            assert found.objective <= -log_p + log_T**2 / (2 * sd**2) + 1e-6

    def test_objective_is_reported_at_the_mode(self, rng):
        scores, code = noisy(rng, 9, 4.0)
        found = fit_temperature(scores, code)
        value = temperature_objective(np.log(found.temperature), scores, code)
        assert value == pytest.approx(found.objective)

    def test_all_right_stays_bounded(self):
        scores = np.array([[3.0, 0.0], [0.0, 3.0], [2.0, 0.0], [0.0, 4.0]])
        assert 0.2 < fit_temperature(scores, [0, 1, 0, 1]).temperature < 1

    def test_hundreds_of_nats(self):
        """Naive Bayes over 10^5 voxels: 7 right, 5 wrong, at 5,000 nats."""
        scores = np.tile([[5000.0, 0.0]], (12, 1))
        code = np.repeat([0, 1], [7, 5])
        p = apply_temperature(scores, fit_temperature(scores, code).temperature)
        assert np.all(np.isfinite(p))
        assert 0.5 < p[0, 0] < 0.75

    def test_prior_is_required_for_few(self):
        with pytest.raises(ValueError, match="needs a prior"):
            fit_temperature(np.zeros((8, 2)), [0, 0, 0, 0, 1, 1, 1, 1], prior_sd=None)
        with pytest.raises(ValueError, match="two positive"):
            fit_temperature(np.zeros((2, 2)), [0, 1], prior_sd=(1, 0))

    def test_constants_and_scale(self, rng):
        scores, code = noisy(rng, 30, 3.0)
        T = fit_temperature(scores, code, prior_sd=None).temperature
        shifted = fit_temperature(scores + rng.normal(size=(30, 1)), code, prior_sd=None)
        assert shifted.temperature == pytest.approx(T, rel=1e-5)
        scaled = fit_temperature(10 * scores, code, prior_sd=None)
        assert scaled.temperature == pytest.approx(10 * T, rel=1e-5)


class Memory(ClassifierMixin, BaseEstimator):
    """Right about scans it has seen, wrong about all others: what leaks shows."""

    def fit(self, X, y, groups=None):
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        self.seen_, self.labels_, self.groups_ = X, y, groups
        return self

    def predict_proba(self, X):
        p = np.full((len(X), 2), 0.01)
        for i, row in enumerate(X):
            known = np.flatnonzero((self.seen_ == row).all(axis=1))
            answer = 0 if row[0] > 0 else 1
            p[i, int(self.labels_[known[0]]) if len(known) else answer] = 0.99
        return p

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class TestEstimator:
    def test_labels_are_kept_and_confidence_falls(self, rng):
        y = np.repeat(["a", "b"], 8)
        X = rng.normal(size=(16, 300)) + 0.15 * (y == "a")[:, None]
        plain = GaussianNB().fit(X, y)
        calm = TemperatureCalibrated(GaussianNB()).fit(X, y)
        new = rng.normal(size=(40, 300))
        assert calm.temperature_ > 2
        assert np.array_equal(calm.predict(new), plain.predict(new))
        assert calm.predict_proba(new).max() < plain.predict_proba(new).max()

    def test_nothing_held_out_is_seen(self):
        X = np.array([[1.0], [2.0], [3.0], [-1.0], [-2.0], [-3.0]])
        y = np.array([1, 1, 1, 0, 0, 0])  # Memory answers the contrary for scans it has not seen
        assert TemperatureCalibrated(Memory()).fit(X, y).temperature_ > 5

    def test_groups_are_held_out_whole_and_handed_on(self, rng):
        X = np.repeat(rng.choice([-1.0, 1.0], size=(8, 1)) * (1 + np.arange(8))[:, None], 2, axis=0)
        y, groups = (X[:, 0] > 0).astype(int), np.repeat(np.arange(8), 2)
        with_groups = TemperatureCalibrated(Memory()).fit(X, y, groups=groups)
        scans = TemperatureCalibrated(Memory(), cv=LeaveOneGroupOut()).fit(
            X, y, groups=np.arange(16)
        )
        assert with_groups.temperature_ > 5
        assert scans.temperature_ < 1
        assert np.array_equal(with_groups.estimator_.groups_, groups)

    def test_held_out_scores_are_a_plain_loop(self, rng):
        X, y = rng.normal(size=(20, 3)), np.tile([0, 1], 10)
        held = held_out_log_scores(LogisticRegression(), X, y, cv=StratifiedKFold(4))
        for train, test in StratifiedKFold(4).split(X, y):
            p = LogisticRegression().fit(X[train], y[train]).predict_log_proba(X[test])
            rows = np.isin(held.sample, test)
            np.testing.assert_allclose(held.log_scores[rows], p)
            assert np.array_equal(held.code[rows], y[test])

    def test_decision_values_will_do(self, rng):
        X = rng.normal(size=(40, 3))
        y = np.where(X[:, 0] + rng.normal(size=40) > 0, "up", "down")
        model = TemperatureCalibrated(LinearSVC()).fit(X, y)
        p = model.predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1)
        assert np.array_equal(model.predict(X), model.estimator_.predict(X))

    def test_helps_naive_bayes(self, rng):
        """Correlated voxels make naive Bayes far too sure."""
        losses = []
        for _ in range(5):
            y = np.tile([0, 1], 20)
            signal = 0.7 * y[:, None] + rng.normal(size=(40, 1))
            X = signal + 0.3 * rng.normal(size=(40, 60))
            plain = GaussianNB().fit(X[:20], y[:20]).predict_log_proba(X[20:])
            calm = TemperatureCalibrated(GaussianNB()).fit(X[:20], y[:20])
            both = (plain, calm.predict_log_proba(X[20:]))
            losses.append([-p[np.arange(20), y[20:]].mean() for p in both])
        raw, tempered = np.mean(losses, axis=0)
        assert tempered < 0.3 * raw

    def test_batch_invariance(self, rng):
        X, y = rng.normal(size=(20, 5)), np.tile([0, 1], 10)
        model = TemperatureCalibrated(LogisticRegression()).fit(X, y)
        alone = np.concatenate([model.predict_log_proba(row[None]) for row in X])
        np.testing.assert_allclose(alone, model.predict_log_proba(X), rtol=1e-9)

    def test_inside_a_bayes_decision_groups_arrive(self, rng):
        X, y = rng.normal(size=(24, 2)), np.tile([0, 1], 12)
        groups = np.repeat(np.arange(6), 4)
        inner = make_pipeline(StandardScaler(), TemperatureCalibrated(LogisticRegression()))
        model = BayesDecision(inner).fit(X, y, groups=groups)
        direct = make_pipeline(StandardScaler(), TemperatureCalibrated(LogisticRegression()))
        direct.fit(X, y, temperaturecalibrated__groups=groups)
        without = make_pipeline(StandardScaler(), TemperatureCalibrated(LogisticRegression()))
        without.fit(X, y)
        assert model.estimator_[-1].temperature_ == direct[-1].temperature_
        assert model.estimator_[-1].temperature_ != without[-1].temperature_

    def test_routed_groups_arrive_by_themselves(self, rng):
        X, y = rng.normal(size=(24, 2)), np.tile([0, 1], 12)
        groups = np.repeat(np.arange(6), 4)
        expected = TemperatureCalibrated(LogisticRegression()).fit(X, y, groups=groups)
        with sklearn.config_context(enable_metadata_routing=True):
            search = GridSearchCV(
                TemperatureCalibrated(LogisticRegression()), {"prior_sd": [(1.0, 3.0)]}, cv=2
            )
            search.fit(X, y, groups=groups)
        assert search.best_estimator_.temperature_ == expected.temperature_

    def test_bad_input(self, rng):
        X = rng.normal(size=(6, 2))
        with pytest.raises(ValueError, match="two scans of every class"):
            TemperatureCalibrated(LogisticRegression()).fit(X, [0, 0, 0, 0, 0, 1])
        with pytest.raises(ValueError, match="no scan of class"):
            TemperatureCalibrated(LogisticRegression()).fit(
                X, [0, 0, 0, 0, 1, 1], groups=[0, 1, 0, 1, 2, 2]
            )


class TestIsotonic:
    def test_refused_for_few(self, rng):
        X, y = rng.normal(size=(99, 2)), np.tile([0, 1, 2], 33)
        with pytest.raises(ValueError, match="TemperatureCalibrated"):
            IsotonicCalibrated(GaussianNB()).fit(X, y)

    def test_calibrates_many(self, rng):
        y = np.tile([0, 1], 300)
        X = 0.7 * y[:, None] + rng.normal(size=(600, 1)) + 0.1 * rng.normal(size=(600, 20))
        groups = np.repeat(np.arange(6), 100)
        train, test = groups < 3, groups >= 3
        model = IsotonicCalibrated(GaussianNB()).fit(X[train], y[train], groups=groups[train])
        plain = GaussianNB().fit(X[train], y[train])
        brier = [np.mean((m.predict_proba(X[test])[:, 1] - y[test]) ** 2) for m in (model, plain)]
        assert brier[0] < brier[1]
        assert model.predict(X[test]).shape == (300,)
