"""Permutation tests: relabellings counted by hand, p-values exact, uniform on noise."""

from itertools import permutations
from math import comb, factorial
from typing import ClassVar

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC

from voxprior import FeatureSharingNB, VoxelSpace
from voxprior.validation import (
    AuditError,
    AuditWarning,
    FewShotSplit,
    LeaveOneGroupOut,
    LeaveOnePerClassOut,
    compare_decoders,
    cross_validate,
    permutation,
    permutation_test,
    relabelling,
)
from voxprior.validation.permutation import p_value
from voxprior.validation.relabel import every_relabelling, random_relabelling


def brute_force(y, same_stratum):
    """All distinct label vectors from permutations inside strata, by enumeration of everything."""
    found = set()
    for order in permutations(range(len(y))):
        if all(same_stratum[i] == same_stratum[j] for i, j in enumerate(order)):
            found.add(tuple(y[j] for j in order))
    return found


class TestRelabelling:
    def test_five_runs_of_two_betas(self):
        """32 relabellings, in pairs that score alike: p cannot be below 1/16."""
        found = relabelling(np.tile([0, 1], 5), np.repeat(np.arange(5), 2))
        assert (found.scheme, found.n_distinct, found.n_symmetric) == ("within", 32, 2)

    def test_subjects(self):
        y, subjects = np.repeat([0, 1], 8), np.repeat(np.arange(8), 2)
        found = relabelling(y, subjects)
        assert found.scheme == "whole"
        assert found.n_distinct == comb(8, 4)
        assert "whole groups" in found.statement
        for codes in every_relabelling(found):
            labels = found.labels(codes)
            assert all(len(set(labels[subjects == s])) == 1 for s in range(8))

    def test_blocks_move_together(self):
        y = np.repeat([0, 1, 0, 1], 3)
        found = relabelling(y, blocks=np.repeat([7, 8, 9, 10], 3))
        assert found.scheme == "free"
        assert found.n_distinct == comb(4, 2)
        assert "blocks" in found.statement
        labels = {tuple(found.labels(codes)) for codes in every_relabelling(found)}
        assert len(labels) == 6
        assert all(len(set(row[3 * b : 3 * b + 3])) == 1 for row in labels for b in range(4))

    def test_block_names_may_come_back_in_other_runs(self):
        y, runs = np.tile(np.repeat([0, 1], 2), 2), np.repeat([0, 1], 4)
        found = relabelling(y, runs, blocks=np.tile(np.repeat([0, 1], 2), 2))
        assert len(found.code) == 4
        assert found.n_distinct == 4

    def test_three_classes_have_six_symmetries(self):
        found = relabelling(np.tile([0, 1, 2], 4), np.repeat(np.arange(4), 3))
        assert found.n_distinct == factorial(3) ** 4
        assert found.n_symmetric == 6

    def test_unequal_classes_have_none(self):
        assert relabelling([0, 0, 1]).n_symmetric == 1

    def test_regression_has_none(self):
        found = relabelling([1.0, 2.0, 3.0], symmetric=False)
        assert (found.n_distinct, found.n_symmetric) == (6, 1)

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=2, max_size=6))
    def test_count_and_list_are_brute_force(self, scans):
        y, groups = np.array(scans).T
        found = relabelling(y, groups, scheme="within")
        expected = brute_force(found.labels(found.code).tolist(), groups.tolist())
        listed = [tuple(found.labels(codes).tolist()) for codes in every_relabelling(found)]
        assert len(listed) == len(set(listed)) == len(expected) == found.n_distinct
        assert set(listed) == expected
        assert listed[0] == tuple(found.labels(found.code).tolist())

    def test_long_lists_too(self):
        found = relabelling(np.repeat([0, 1], 5))
        assert len({tuple(c) for c in every_relabelling(found)}) == comb(10, 5)

    def test_random_ones_are_even(self, rng):
        found = relabelling([0, 0, 1, 1])
        drawn = [tuple(random_relabelling(found, rng)) for _ in range(3000)]
        counts = np.unique(drawn, axis=0, return_counts=True)[1]
        assert len(counts) == 6
        assert np.all(np.abs(counts - 500) < 100)

    def test_bad_designs(self):
        with pytest.raises(ValueError, match="one label"):
            relabelling([0, 1, 0], blocks=[0, 0, 1])
        with pytest.raises(ValueError, match="needs groups"):
            relabelling([0, 1], scheme="within")
        with pytest.raises(ValueError, match="one label a group"):
            relabelling([0, 1, 0, 1], [0, 0, 1, 1], scheme="whole")
        with pytest.raises(ValueError, match="'scheme'"):
            relabelling([0, 1], scheme="any")


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
        assert found.p_value == np.mean(np.array(null) >= found.observed - 1e-12)
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
        assert np.sum(found.null >= found.observed - 1e-12) == 3

    def test_two_out_splits_follow_the_labels(self, rng):
        y, subjects = np.repeat([0, 1], 8), np.repeat(np.arange(8), 2)
        X = rng.normal(size=(16, 3)) + 3 * y[:, None]
        found = permutation_test(
            GaussianNB(), X, y, subjects, LeaveOnePerClassOut(), stop_after=None
        )
        assert found.exact
        assert found.n_distinct == 70
        assert found.p_value == pytest.approx(2 / 70)

    def test_losses_count_downwards(self, runs_data):
        X, y, runs = runs_data
        found = permutation_test(
            LogisticRegression(), X, y, runs, score="log_loss", n_permutations=30
        )
        assert found.p_value == 1 / 31
        assert found.observed < found.null.min()

    def test_regression(self, rng):
        X = rng.normal(size=(30, 3))
        age = X[:, 0] + 0.3 * rng.normal(size=30)
        found = permutation_test(Ridge(), X, age, cv=KFold(5), n_permutations=40)
        assert found.score == "r2"
        assert found.p_value == 1 / 41

    def test_gram_matrix_is_reused(self, runs_data):
        X, y, runs = runs_data
        kwargs = {"n_permutations": 10, "stop_after": None}
        gram = permutation_test(SVC(kernel="precomputed"), X @ X.T, y, runs, **kwargs)
        plain = permutation_test(SVC(kernel="linear"), X, y, runs, **kwargs)
        assert np.array_equal(gram.null, plain.null)

    def test_hyperparameters_rechosen_or_fixed(self, runs_data):
        X, y, runs = runs_data
        search = GridSearchCV(LogisticRegression(), {"C": [0.01, 1.0]}, cv=LeaveOneGroupOut())
        again = permutation_test(search, X, y, runs, n_permutations=5)
        fixed = permutation_test(search, X, y, runs, n_permutations=5, hyperparameters="fixed")
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
        options = {"score": score, "n_permutations": 12, "stop_after": None}
        reused = permutation_test(Recorded(), X, y, runs, **options)
        assert Recorded.calls == {"prepare": 1, "prepared fit": 13 * 6}
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
        monkeypatch.setattr(permutation, "prepare_for_labels", lambda estimator, X: None)
        refitted = permutation_test(model, X, y, runs, **options)
        assert reused.observed == refitted.observed
        np.testing.assert_array_equal(reused.null, refitted.null)

    def test_workers(self, rng):
        y, runs = np.tile([0, 1], 12), np.repeat(np.arange(6), 4)
        X = rng.normal(size=(24, 60)) + 0.3 * y[:, None]
        options = {"score": "log_loss", "n_permutations": 6, "stop_after": None}
        alone, four = (
            permutation_test(FeatureSharingNB(), X, y, runs, n_jobs=jobs, **options)
            for jobs in (1, 2)
        )
        np.testing.assert_array_equal(alone.null, four.null)


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


class TestComparison:
    def results(self, rng, n_groups=6):
        y, runs = np.tile([0, 1], 2 * n_groups), np.repeat(np.arange(n_groups), 4)
        X = rng.normal(size=(4 * n_groups, 3)) + 2 * y[:, None]
        models = (GaussianNB(), LabelsOnly(), LogisticRegression())
        return [cross_validate(m, X, y, runs) for m in models]

    def test_exact_signs(self, rng):
        good, blind, _ = self.results(rng)
        found = compare_decoders(good, blind)
        assert found.exact
        assert found.smallest_p == 2 / 64
        assert found.p_value == 2 / 64
        assert found.difference > 0.3
        assert compare_decoders(blind, good).difference == -found.difference

    def test_alike(self, rng):
        good, _, same = self.results(rng)
        assert compare_decoders(good, good).p_value == 1
        assert compare_decoders(good, same).p_value > 0.05

    def test_random_signs(self, rng):
        good, blind, _ = self.results(rng, n_groups=20)
        found = compare_decoders(good, blind, n_permutations=500)
        assert not found.exact
        assert found.p_value == 1 / 501

    def test_must_be_paired(self, rng):
        good, blind, _ = self.results(rng)
        other = self.results(np.random.default_rng(5), n_groups=7)[0]
        with pytest.raises(ValueError, match="same scans"):
            compare_decoders(good, other)
        with pytest.raises(ValueError, match="not a mean"):
            compare_decoders(good, blind, "log_loss")

    @pytest.mark.slow
    def test_level(self):
        """Two decoders that are alike differ significantly in about 5 % of data sets."""
        p = []
        for seed in range(200):
            rng = np.random.default_rng(seed)
            y, runs = np.tile([0, 1], 18), np.repeat(np.arange(9), 4)
            X = rng.normal(size=(36, 6)) + 0.6 * y[:, None]
            pair = [
                cross_validate(GaussianNB(), X[:, part], y, runs)
                for part in (slice(3), slice(3, 6))
            ]
            p.append(compare_decoders(*pair, "log_loss").p_value)
        assert 0.01 < np.mean(np.array(p) <= 0.05) < 0.09
