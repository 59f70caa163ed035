"""Audit: every leak that is planted is found by name, and clean designs pass in silence."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import StackingClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, LeaveOneOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from voxprior.decision import TemperatureCalibrated
from voxprior.errors import option
from voxprior.validation import (
    AuditError,
    AuditWarning,
    FewShotSplit,
    Finding,
    Jackknife,
    LeaveOneGroupOut,
    LeaveOnePerClassOut,
    Result,
    audit,
    cross_validate,
)

LOGISTIC = LogisticRegression()


@pytest.fixture
def design(rng):
    """Six runs with both conditions in each: nothing is wrong."""
    y, runs = np.tile([0, 1], 18), np.repeat(np.arange(6), 6)
    return rng.normal(size=(36, 40)), y, runs


def names(estimator, X, y, groups, cv, **kwargs):
    return {f.name for f in audit(estimator, X, y, groups, list(cv.split(X, y, groups)), **kwargs)}


class TestClean:
    @pytest.mark.parametrize(
        "cv", [LeaveOneGroupOut(), FewShotSplit(2), GroupKFold(3)], ids=["logo", "few", "kfold"]
    )
    def test_runs(self, design, cv):
        X, y, runs = design
        assert names(LOGISTIC, X, y, runs, cv) == set()

    def test_subjects(self, rng):
        y, subjects = np.repeat([0, 1], 18), np.repeat(np.arange(18), 2)
        X = rng.normal(size=(36, 40))
        assert names(LOGISTIC, X, y, subjects, LeaveOnePerClassOut()) == set()

    def test_regression(self, rng):
        X, age = rng.normal(size=(30, 40)), rng.normal(size=30)
        assert names(Ridge(), X, age, None, Jackknife()) == set()

    def test_no_warning_in_a_clean_run(self, design):
        X, y, runs = design
        with warnings.catch_warnings():
            warnings.simplefilter("error", AuditWarning)
            assert cross_validate(LOGISTIC, X, y, runs).findings == ()


class TestPlanted:
    def test_shared_group(self, design):
        X, y, runs = design
        assert names(LOGISTIC, X, y, runs, KFold(4)) == {"shared-group"}

    def test_by_sample_split_is_a_shared_group(self, rng):
        y, subjects = np.repeat([0, 1], 18), np.repeat(np.arange(18), 2)
        cv = LeaveOnePerClassOut(by="sample")
        assert names(LOGISTIC, rng.normal(size=(36, 40)), y, subjects, cv) == {"shared-group"}

    def test_class_missing(self, design):
        X, _, _ = design
        assert "class-missing" in names(LOGISTIC, X, np.repeat([0, 1, 2], 12), None, KFold(3))

    @pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, sparse.csr_matrix, list])
    def test_duplicated_image_across_the_split(self, design, kind):
        X, y, runs = design
        X[8] = X[30]
        assert "duplicate-images" in {
            f.name
            for f in audit(LOGISTIC, kind(X), y, runs, list(LeaveOneGroupOut().split(X, y, runs)))
        }

    def test_duplicated_file_name(self, design):
        _, y, runs = design
        files = [f"scan{i}.nii" for i in range(36)]
        files[8] = files[30]
        folds = list(LeaveOneGroupOut().split(files, y, runs))
        assert [f.name for f in audit(LOGISTIC, files, y, runs, folds)] == ["duplicate-images"]

    def test_duplicates_on_one_side_are_no_leak(self, design):
        X, y, runs = design
        X[6] = X[8]  # both in run 1
        assert names(LOGISTIC, X, y, runs, LeaveOneGroupOut()) == set()

    def test_images_alike_in_few_voxels_are_not_equal(self, rng, design):
        _, y, runs = design
        X = np.tile(rng.normal(size=(1, 500)), (36, 1))
        X[:, 3] = np.arange(36)
        assert "duplicate-images" not in names(LOGISTIC, X, y, runs, LeaveOneGroupOut())

    def test_search_that_ignores_groups(self, design):
        X, y, runs = design
        search = GridSearchCV(LOGISTIC, {"C": [1.0]}, cv=3)
        nested = make_pipeline(StandardScaler(), search)
        fine = GridSearchCV(LOGISTIC, {"C": [1.0]}, cv=LeaveOneGroupOut())
        assert names(search, X, y, runs, LeaveOneGroupOut()) == {"groups-ignored"}
        assert names(nested, X, y, runs, LeaveOneGroupOut()) == {"groups-ignored"}
        assert names(fine, X, y, runs, LeaveOneGroupOut()) == set()
        assert names(search, X, y, None, KFold(3)) == set()

    @pytest.mark.parametrize(
        "part",
        [
            LogisticRegressionCV(cv=3),
            LogisticRegressionCV(),
            CalibratedClassifierCV(LOGISTIC),
            StackingClassifier([("one", LOGISTIC)]),
            TemperatureCalibrated(LOGISTIC, cv=3),
        ],
    )
    def test_whatever_splits_inside_is_a_search(self, design, part):
        X, y, runs = design
        pipeline = make_pipeline(StandardScaler(), part)
        assert names(pipeline, X, y, runs, LeaveOneGroupOut()) == {"groups-ignored"}
        part = clone(part).set_params(cv=GroupKFold(3))
        assert names(make_pipeline(part), X, y, runs, LeaveOneGroupOut()) == set()

    def test_folds_by_the_groups_that_fit_is_given_are_no_finding(self, design):
        X, y, runs = design
        assert names(TemperatureCalibrated(LOGISTIC), X, y, runs, LeaveOneGroupOut()) == set()

    def test_scaled_over_all_scans(self, design):
        X, y, runs = design
        scaled = StandardScaler().fit_transform(X)
        assert names(LOGISTIC, scaled, y, runs, LeaveOneGroupOut()) == {"fitted-outside"}
        by_run = np.concatenate([StandardScaler().fit_transform(X[runs == r]) for r in range(6)])
        assert names(LOGISTIC, by_run, y, runs, LeaveOneGroupOut()) == set()

    def test_selected_over_all_scans(self, rng):
        y, runs = np.tile([0, 1], 18), np.repeat(np.arange(6), 6)
        X = rng.normal(size=(36, 5000))
        chosen = SelectKBest(k=50).fit_transform(X, y)
        assert names(LOGISTIC, chosen, y, runs, LeaveOneGroupOut()) == {"voxels-selected"}

    def test_frozen_step(self, design):
        X, y, runs = design
        frozen = FrozenEstimator(StandardScaler().fit(X))
        pipeline = make_pipeline(frozen, LOGISTIC)
        assert names(pipeline, X, y, runs, LeaveOneGroupOut()) == {"fitted-outside"}

    def test_labels_confounded_with_runs(self, rng):
        X = rng.normal(size=(40, 30))
        y = np.concatenate([np.tile([0, 0, 0, 0, 1], 4), np.tile([1, 1, 1, 1, 0], 4)])
        runs = np.repeat(np.arange(4), 10)
        found = names(LOGISTIC, X, y, runs, LeaveOneGroupOut())
        assert found == {"labels-confounded", "leave-one-out"}

    def test_too_few_groups_a_class(self, rng):
        X, y, runs = rng.normal(size=(40, 30)), np.repeat([0, 1], 20), np.repeat(np.arange(4), 10)
        found = names(LOGISTIC, X, y, runs, LeaveOnePerClassOut())
        assert found == {"labels-confounded"}

    def test_labels_confounded_with_a_scanner_or_age(self, design, rng):
        X, y, runs = design
        scanner = np.where(y == 0, "Trio", "Prisma")
        scanner[:4] = "Trio"
        for variables in ({"scanner": scanner}, {"age": 30 + 9 * y + rng.normal(size=36)}):
            found = names(LOGISTIC, X, y, runs, LeaveOneGroupOut(), variables=variables)
            assert found == {"labels-confounded"}
        fair = {"scanner": np.tile(["a", "a", "b", "b"], 9), "age": rng.normal(size=36)}
        assert names(LOGISTIC, X, y, runs, LeaveOneGroupOut(), variables=fair) == set()

    def test_target_confounded_in_regression(self, rng):
        X, age = rng.normal(size=(30, 40)), rng.normal(size=30)
        for variable in (age + 0.2 * rng.normal(size=30), np.where(age > 0, "x", "y")):
            found = names(Ridge(), X, age, None, Jackknife(), variables={"v": variable})
            assert found == {"labels-confounded"}

    def test_leave_one_out_on_balanced_classes(self, rng):
        X, y = rng.normal(size=(20, 30)), np.tile([0, 1], 10)
        assert names(LOGISTIC, X, y, None, LeaveOneOut()) == {"leave-one-out"}
        assert names(LOGISTIC, X, y, None, LeaveOnePerClassOut()) == set()
        assert names(LOGISTIC, X[:-1], y[:-1], None, LeaveOneOut()) == set()

    def test_leave_one_out_is_biased_indeed(self, rng):
        """A decoder that knows class counts only: 0 by leave-one-out, chance by two-out."""
        X, y = rng.normal(size=(12, 20)), np.tile([0, 1], 6)
        blind = DummyClassifier(strategy="most_frequent")
        low = cross_validate(blind, X, y, cv=LeaveOneOut(), allow=["leave-one-out"])
        fair = cross_validate(blind, X, y, cv=LeaveOnePerClassOut())
        assert low.pooled()["accuracy"] == 0
        assert fair.pooled()["accuracy"] == 0.5


class TestWords:
    def test_a_message_is_for_python_and_keeps_its_marks(self):
        finding = Finding("shared-group", "error", f"Split, {option('cv', 'groups')}.")
        assert finding.message == "Split, cv='groups'."
        assert finding.marked == f"Split, {option('cv', 'groups')}."
        assert replace(finding, allowed=True).marked == finding.marked
        assert pickle.loads(pickle.dumps(finding)).marked == finding.marked

    def test_marks_are_not_saved_and_do_not_matter(self):
        finding = Finding("shared-group", "error", f"Split, {option('cv', 'groups')}.")
        read = Finding(**finding.to_dict())
        assert set(finding.to_dict()) == {"name", "severity", "message", "allowed"}
        assert read == finding
        assert hash(read) == hash(finding)

    def test_errors_and_warnings_say_what_to_set(self, design, rng):
        X, y, runs = design
        with pytest.raises(AuditError) as caught:
            cross_validate(LOGISTIC, X, y, runs, KFold(4))
        assert "split by group, cv='groups'." in str(caught.value)
        assert str(caught.value).endswith("To go on all the same: allow=['shared-group']")
        with pytest.warns(AuditWarning, match="cv='two-out'"):
            cross_validate(LOGISTIC, X, y, cv=LeaveOneOut())

    def test_what_is_said_can_be_done(self, design):
        X, y, runs = design
        result = cross_validate(LOGISTIC, X, y, runs, "groups")
        assert result.predictions.equals(cross_validate(LOGISTIC, X, y, runs).predictions)
        assert cross_validate(LOGISTIC, X, y, cv="two-out:2").settings["n_folds"] > 2


class TestHeeding:
    def test_errors_stop_and_can_be_overridden_by_name(self, design):
        X, y, runs = design
        with pytest.raises(AuditError, match="allow=") as caught:
            cross_validate(LOGISTIC, X, y, runs, KFold(4))
        assert [f.name for f in caught.value.findings] == ["shared-group"]
        result = cross_validate(LOGISTIC, X, y, runs, KFold(4), allow=["shared-group"])
        assert result.findings[0].allowed
        assert result.summary()["findings"][0]["name"] == "shared-group"
        assert Result.from_dict(result.to_dict()).findings == result.findings

    def test_warnings_warn_and_can_be_silenced(self, rng):
        X, y = rng.normal(size=(12, 30)), np.tile([0, 1], 6)
        with pytest.warns(AuditWarning, match="leave-one-out"):
            cross_validate(LOGISTIC, X, y, cv=LeaveOneOut())
        with warnings.catch_warnings():
            warnings.simplefilter("error", AuditWarning)
            cross_validate(LOGISTIC, X, y, cv=LeaveOneOut(), allow=["leave-one-out"])

    def test_unknown_name(self, design):
        with pytest.raises(ValueError, match="No finding is called"):
            cross_validate(LOGISTIC, *design, allow=["everything"])

    def test_errors_come_first_and_travel(self, rng):
        X, y = rng.normal(size=(12, 30)), np.tile([0, 1], 6)
        X[3] = X[4]
        folds = list(LeaveOneOut().split(X))
        found = audit(LOGISTIC, X, y, None, folds)
        assert [f.severity for f in found] == ["error", "warning"]
        error = pickle.loads(pickle.dumps(AuditError(found[:1])))
        assert error.findings == found[:1]
        assert isinstance(found[0], Finding)
