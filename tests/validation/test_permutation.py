"""Permutation tests: p-values exact, uniform on noise, the same however they are computed."""

from itertools import permutations
from typing import ClassVar

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC, LinearSVC

from voxprior import AutoRegressor, FeatureSharingNB, VoxelSpace
from voxprior.validation import (
    AuditError,
    AuditWarning,
    FewShotSplit,
    LeaveOneGroupOut,
    LeaveOnePerClassOut,
    permutation,
    permutation_test,
)
from voxprior.validation.permutation import p_value
from voxprior.validation.ranks import as_good


class TestPValue:
    def test_counts(self):
        assert p_value(0.8, np.array([0.1, 0.8, 0.9, 0.2])) == (3 / 5, 4, False)

    def test_never_zero(self):
        assert p_value(1.0, np.zeros(99))[0] == 0.01

    def test_stopping_rule(self):
        null = np.array([0, 1, 0, 1, 1, 0, 0, 0], dtype=float)
        assert p_value(1.0, null, 2) == (2 / 4, 4, True)
        assert p_value(1.0, null, 4)[2] is False
        assert p_value(1.0, null[:4], 2, planned=8) == (2 / 4, 4, True)
        assert p_value(1.0, null[:4], 2, planned=4) == (3 / 5, 4, False)


class TestOrder:
    """Results are ordered by the score and, where it ties, by what breaks ties."""

    NULL: ClassVar = np.array([(0.75, -0.65), (0.75, -0.55), (0.5, -0.4), (0.875, -0.7)])

    def test_example(self):
        """Of four relabellings one is better, and one of the two that tie."""
        assert p_value(0.75, self.NULL[:, 0])[0] == 4 / 5
        assert p_value((0.75, -0.6), self.NULL)[0] == 3 / 5

    def test_is_the_order_of_pairs(self, rng):
        null = rng.integers(0, 4, size=(200, 2)).astype(float)
        for observed in null[:20]:
            expected = [tuple(row) >= tuple(observed) for row in null]
            assert as_good(observed, null).tolist() == expected

    def test_rounding_is_a_tie(self):
        null = np.array([(0.5 - 1e-14, -0.6 - 1e-9), (0.5, -0.6 - 1e-5)])
        assert as_good((0.5, -0.6), null).tolist() == [True, False]

    def test_stops_by_the_same_order(self):
        assert p_value((0.75, -0.6), self.NULL, 1) == (1 / 2, 2, True)

    def test_log_probability_breaks_ties(self, runs_data):
        """By hand: accuracy and log-probability of every relabelling of eight scans."""
        X, y, runs = (part[:8] for part in runs_data)
        found = permutation_test(GaussianNB(), X[:, :1], y, runs, stop_after=None)

        def both(labels):
            right, logs = [], []
            for train, test in LeaveOneGroupOut().split(X, labels, runs):
                model = GaussianNB().fit(X[train, :1], labels[train])
                right.extend(model.predict(X[test, :1]) == labels[test])
                p = model.predict_proba(X[test, :1])[np.arange(len(test)), labels[test]]
                logs.extend(np.log(np.maximum(p, np.finfo(float).eps)))
            return np.mean(right), round(float(np.mean(logs)), 9)

        arrangements = sorted(set(permutations([0, 1, 0, 1])))
        all_labels = [np.array([*a, *b]) for a in arrangements for b in arrangements]
        observed = both(y)
        assert found.p_value == np.mean([both(labels) >= observed for labels in all_labels])

    def test_decision_values_break_ties(self, runs_data):
        X, y, runs = runs_data
        options = {"n_permutations": 60, "stop_after": None}
        found = permutation_test(LinearSVC(), 0.2 * X, y, runs, **options)
        coarse = p_value(found.observed, found.null)[0]
        assert found.p_value <= coarse

    def test_labels_alone_tie(self, runs_data):
        X, y, runs = runs_data
        found = permutation_test(LabelsOnly(), X, y, runs, n_permutations=9, stop_after=None)
        assert found.p_value == 1.0


@pytest.fixture
def runs_data(rng):
    y, runs = np.tile([0, 1], 12), np.repeat(np.arange(6), 4)
    return rng.normal(size=(24, 5)) + 1.5 * y[:, None], y, runs


class TestTest:
    def test_is_a_plain_loop(self, rng):
        y, runs = np.tile([0, 1], 4), np.repeat(np.arange(4), 2)
        X = rng.normal(size=(8, 3)) + y[:, None]

        def accuracy(labels):
            right = []
            for train, test in LeaveOneGroupOut().split(X, labels, runs):
                guess = GaussianNB().fit(X[train], labels[train]).predict(X[test])
                right.extend(guess == labels[test])
            return np.mean(right)

        flips = [[(k >> r) & 1 for r in range(4)] for k in range(16)]
        null = [accuracy(np.where(np.repeat(flip, 2), 1 - y, y)) for flip in flips]
        found = permutation_test(GaussianNB(), X, y, runs, stop_after=None)
        assert found.exact
        assert found.observed == accuracy(y)
        assert found.p_value <= np.mean(np.array(null) >= found.observed - 1e-12)
        assert sorted([found.observed, *found.null]) == pytest.approx(sorted(null))

    def test_strong_signal_reaches_the_smallest_p(self, runs_data):
        X, y, runs = runs_data
        found = permutation_test(LogisticRegression(), X, y, runs, n_permutations=60)
        assert found.p_value == found.smallest_p == 1 / 61
        assert not found.exact
        assert found.n_distinct == 6**6
        assert found.summary()["n_relabellings"] == 60

    @pytest.mark.parametrize("stop_after", [None, 3])
    def test_workers_do_not_change_it(self, rng, stop_after):
        y, runs = np.tile([0, 1], 12), np.repeat(np.arange(6), 4)
        X = rng.normal(size=(24, 3))
        kwargs = {"n_permutations": 25, "stop_after": stop_after}
        one = permutation_test(GaussianNB(), X, y, runs, **kwargs)
        with joblib.parallel_config("threading", n_jobs=3):
            two = permutation_test(GaussianNB(), X, y, runs, **kwargs)
        assert one.p_value == two.p_value
        assert np.array_equal(one.null, two.null)

    def test_early_stop_on_noise(self, rng):
        y, X = np.tile([0, 1], 10), rng.normal(size=(20, 3))
        found = permutation_test(GaussianNB(), X, y, cv=FewShotSplit(5, 3), stop_after=3)
        assert found.stopped_early
        assert len(found.null) < 200
        assert found.p_value == 3 / len(found.null)
        assert np.sum(found.null > found.observed + 1e-12) <= 3

    def test_two_out_splits_follow_the_labels(self, rng):
        y, subjects = np.repeat([0, 1], 6), np.repeat(np.arange(6), 2)
        X = rng.normal(size=(12, 3)) + 3 * y[:, None]
        found = permutation_test(
            GaussianNB(), X, y, subjects, LeaveOnePerClassOut(), stop_after=None
        )
        assert found.exact
        assert found.n_distinct == 20
        assert found.p_value == pytest.approx(2 / 20)

    def test_losses_count_downwards(self, runs_data):
        X, y, runs = runs_data
        found = permutation_test(
            LogisticRegression(), X, y, runs, score="log_loss", n_permutations=12
        )
        assert found.p_value == 1 / 13
        assert found.observed < found.null.min()

    def test_regression(self, rng):
        X = rng.normal(size=(30, 3))
        age = X[:, 0] + 0.3 * rng.normal(size=30)
        found = permutation_test(Ridge(), X, age, cv=KFold(5), n_permutations=40)
        assert found.score == "r2"
        assert found.p_value == 1 / 41

    def test_gram_matrix_is_reused(self, runs_data):
        X, y, runs = runs_data
        kwargs = {"n_permutations": 10, "stop_after": None, "test": "refit"}
        gram = permutation_test(SVC(kernel="precomputed"), X @ X.T, y, runs, **kwargs)
        plain = permutation_test(SVC(kernel="linear"), X, y, runs, **kwargs)
        assert np.array_equal(gram.null, plain.null)

    def test_hyperparameters_rechosen_or_fixed(self, runs_data):
        X, y, runs = runs_data
        search = GridSearchCV(LogisticRegression(), {"C": [0.01, 1.0]}, cv=GroupKFold(2))
        again = permutation_test(search, X, y, runs, n_permutations=2)
        fixed = permutation_test(search, X, y, runs, n_permutations=2, hyperparameters="fixed")
        assert "anew" in again.hyperparameters
        assert "fixed" in fixed.hyperparameters
        assert "too small" in fixed.hyperparameters
        with pytest.raises(ValueError, match="rechosen"):
            permutation_test(search, X, y, runs, hyperparameters="guessed")

    def test_undefined_score(self, rng):
        X, age = rng.normal(size=(6, 2)), np.zeros(6)
        age[0] = 1e-300
        with pytest.raises(ValueError, match="not defined"):
            permutation_test(LabelsOnly(), X, [0, 1] * 3, cv=KFold(3), score="log_loss")

    @pytest.mark.slow
    def test_uniform_on_noise(self):
        """Under the null hypothesis p <= α in at most α of the data sets, give or take."""
        p = []
        for seed in range(120):
            rng = np.random.default_rng(seed)
            y, runs = np.tile([0, 1], 8), np.repeat(np.arange(4), 4)
            X = rng.normal(size=(16, 5)) + rng.normal(size=(4, 5))[runs]
            found = permutation_test(
                GaussianNB(), X, y, runs, n_permutations=19, stop_after=None, random_state=seed
            )
            p.append(found.p_value)
        for alpha in (0.05, 0.2, 0.5):
            share = np.mean(np.array(p) <= alpha + 1e-12)
            assert share <= alpha + 3 * np.sqrt(alpha * (1 - alpha) / 120)
        assert np.mean(np.array(p) <= 0.5) > 0.3


class LabelsOnly(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.repeat(self.classes_[:1], len(X))


class Interrupted(GaussianNB):
    fits = 0

    def fit(self, X, y):
        type(self).fits += 1
        if type(self).fits > 30:
            raise KeyboardInterrupt
        return super().fit(X, y)


def test_interrupt_keeps_what_is_done(runs_data):
    Interrupted.fits = 0
    found = permutation_test(Interrupted(), *runs_data, n_permutations=50)
    assert not found.complete
    assert len(found.null) == 4  # 30 fits are 5 validations of 6 folds, one with the true labels
    assert found.p_value == 1 / 5


class Recorded(GaussianNB):
    """Offers prepared fits, and counts how often each way was taken."""

    calls: ClassVar[dict[str, int]] = {}

    def prepare(self, X):
        self.calls["prepare"] = self.calls.get("prepare", 0) + 1
        return X.copy()

    def fit_prepared(self, prepared, rows, y):
        self.calls["prepared fit"] = self.calls.get("prepared fit", 0) + 1
        return super().fit(prepared[rows], y)

    def fit(self, X, y):
        self.calls["fit"] = self.calls.get("fit", 0) + 1
        return super().fit(X, y)


class TestPrepared:
    """Estimators that prepare scans once for all labels: the same answers, and no ordinary fit."""

    @pytest.mark.parametrize("score", ["accuracy", "log_loss"])
    def test_is_refitting(self, runs_data, score):
        Recorded.calls.clear()
        X, y, runs = runs_data
        options = {"score": score, "n_permutations": 5, "stop_after": None}
        reused = permutation_test(Recorded(), X, y, runs, **options)
        assert Recorded.calls == {"prepare": 1, "prepared fit": 6 * 6}
        plain = permutation_test(GaussianNB(), X, y, runs, **options)
        assert reused.observed == plain.observed
        np.testing.assert_array_equal(reused.null, plain.null)

    def test_folds_that_labels_change(self, runs_data):
        X, y, _ = runs_data
        options = {"cv": FewShotSplit(3, 4), "n_permutations": 8, "stop_after": None}
        reused = permutation_test(Recorded(), X, y, **options)
        plain = permutation_test(GaussianNB(), X, y, **options)
        np.testing.assert_array_equal(reused.null, plain.null)

    def test_tables_are_fitted_as_they_are(self, runs_data):
        Recorded.calls.clear()
        X, y, runs = runs_data
        table = pd.DataFrame(X, columns=[f"voxel {v}" for v in range(X.shape[1])])
        permutation_test(Recorded(), table, y, runs, n_permutations=2)
        assert set(Recorded.calls) == {"fit"}

    @pytest.mark.parametrize("score", ["accuracy", "log_loss", "auc"])
    @pytest.mark.parametrize("calibration", ["effective", None])
    def test_feature_sharing(self, rng, monkeypatch, score, calibration):
        """Sharing between voxels, refitted and prepared."""
        y, runs = np.tile([0, 1], 12), np.repeat(np.arange(6), 4)
        X = rng.normal(size=(24, 60)).astype(np.float32) + 0.3 * y[:, None]
        model = FeatureSharingNB(VoxelSpace.grid((5, 6, 2)), calibration=calibration)
        options = {"score": score, "n_permutations": 6, "stop_after": None}
        options["allow"] = ["fitted-outside"]
        reused = permutation_test(model, X, y, runs, **options)
        assert not hasattr(model, "n_features_in_")
        monkeypatch.setattr(permutation, "prepare_for_labels", lambda *_: None)
        refitted = permutation_test(model, X, y, runs, **options)
        assert reused.observed == refitted.observed
        np.testing.assert_array_equal(reused.null, refitted.null)

    def test_groups_are_prepared_too(self, rng, monkeypatch):
        """The automatic regressor leaves whole runs out, relabelled or not."""
        runs = np.repeat(np.arange(6), 4)
        X = rng.normal(size=(24, 30))
        y = X[:, 0] + runs
        options = {"n_permutations": 5, "stop_after": None}
        reused = permutation_test(AutoRegressor(), X, y, runs, **options)
        monkeypatch.setattr(permutation, "prepare_for_labels", lambda *_: None)
        refitted = permutation_test(AutoRegressor(), X, y, runs, **options)
        np.testing.assert_array_equal(reused.null, refitted.null)
        alone = permutation_test(AutoRegressor(), X, y, cv=list(GroupKFold(6).split(X, y, runs)),
                                 allow=["shared-group"], **options)  # fmt: skip
        assert alone.observed != reused.observed

    def test_workers(self, rng):
        y, runs = np.tile([0, 1], 12), np.repeat(np.arange(6), 4)
        X = rng.normal(size=(24, 60)) + 0.3 * y[:, None]
        options = {"score": "log_loss", "n_permutations": 6, "stop_after": None}
        alone, four = (
            permutation_test(FeatureSharingNB(), X, y, runs, n_jobs=jobs, **options)
            for jobs in (1, 2)
        )
        np.testing.assert_array_equal(alone.null, four.null)


class TestShown:
    def test_a_sentence(self, runs_data):
        found = permutation_test(GaussianNB(), *runs_data, n_permutations=9, stop_after=None)
        said = repr(found)
        assert said.startswith(f"Permutation test: accuracy {found.observed:.3f}, p = 0.")
        how = "(9 random relabellings, labels exchanged among scans within each group, "
        assert said.endswith(how + "smallest possible p 0.1)")
        assert found._repr_html_() == f"<p>{said}</p>"

    def test_what_was_cut_short_is_said(self, runs_data):
        found = permutation_test(GaussianNB(), *runs_data, n_permutations=9, stop_after=None)
        short = found._replace(scheme="a < b", stopped_early=True, complete=False)
        assert repr(short).endswith("a < b, smallest possible p 0.1, stopped early, interrupted)")
        assert "a &lt; b" in short._repr_html_()


class TestAudit:
    def test_errors_stop_it(self, runs_data):
        X, y, runs = runs_data
        with pytest.raises(AuditError, match="shared-group"):
            permutation_test(GaussianNB(), X, y, runs, KFold(5))

    def test_overridden_by_name(self, runs_data):
        X, y, runs = runs_data
        found = permutation_test(
            GaussianNB(), X, y, runs, KFold(5), n_permutations=3, allow=["shared-group"]
        )
        assert [(f.name, f.allowed) for f in found.findings] == [("shared-group", True)]
        assert found.summary()["findings"][0]["name"] == "shared-group"

    def test_warns(self, runs_data):
        X, y, runs = runs_data
        with pytest.warns(AuditWarning, match="'age'"):
            permutation_test(
                GaussianNB(),
                X,
                y,
                runs,
                n_permutations=2,
                variables={"age": y + np.arange(24) / 99},
            )


@pytest.mark.parametrize("estimator", [LogisticRegression(), SVC(kernel="linear")])
def test_scans_with_holes_are_refused_by_the_fast_test(rng, estimator):
    X, y, runs = rng.normal(size=(16, 20)), np.tile([0, 1], 8), np.repeat(np.arange(8), 2)
    X[3, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        permutation_test(estimator, X, y, runs, n_permutations=20)
