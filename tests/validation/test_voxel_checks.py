"""Audit of voxels that know the labels, of covariates together, and what cannot be checked."""

import numpy as np
import pytest
from scipy import stats
from sklearn.feature_selection import SelectKBest, f_classif, f_regression
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneGroupOut
from sklearn.svm import SVC

from voxprior.validation import audit
from voxprior.validation.audit import SEVERITY, voxels
from voxprior.validation.audit.voxels import looks_selected

LOGISTIC = LogisticRegression()
RUNS, Y = np.repeat(np.arange(6), 6), np.tile([0, 1], 18)


def outcomes(X, y=Y, groups=RUNS, cv=None, estimator=LOGISTIC, **known):
    folds = list((cv or LeaveOneGroupOut()).split(X, y, groups))
    made = audit(estimator, X, y, groups, folds, **known)
    return {check.name: check.outcome for check in made.checks}


class TestSelected:
    @pytest.mark.parametrize("k", [100, 1000, 5000])
    def test_the_best_of_noise(self, rng, k):
        X = rng.normal(size=(36, 10_000))
        chosen = SelectKBest(k=k).fit_transform(X, Y)
        assert outcomes(chosen)["voxels-selected"] == "found"
        assert outcomes(X)["voxels-selected"] == "not found"

    @pytest.mark.parametrize("effect", [0.0, 1.0, 3.0])
    def test_a_region_that_responds(self, rng, effect):
        X = rng.normal(size=(36, 300)) + effect * rng.random(300) * Y[:, None]
        assert outcomes(X)["voxels-selected"] == "not found"

    def test_worked_example(self):
        """The best 2,500 of 20,000 voxels of noise have p uniform on (0, .125)."""
        p = (np.arange(2500) + 0.5) / 2500 * 0.125
        assert np.mean(p > 0.5) == 0
        assert np.quantile(p, 0.99) == pytest.approx(0.12375, abs=1e-4)
        assert np.mean(p > 0.061875) == pytest.approx(0.505, abs=1e-3)
        assert looks_selected(p)

    def test_bounds_of_the_rule(self):
        """Of 1,000 voxels some have p at 0, some at .4 (above q/2), some at .6 or .1."""

        def judged(at_0, at_4, at_6=0, at_1=0):
            return looks_selected(np.repeat([0.0, 0.4, 0.6, 0.1], [at_0, at_4, at_6, at_1]))

        assert judged(845, 155)
        assert not judged(855, 145)
        assert judged(500, 451, at_6=49)
        assert not judged(500, 449, at_6=51)
        assert judged(25, 900, at_1=75)
        assert not judged(15, 900, at_1=85)

    def test_what_all_voxels_share_is_no_selection(self, rng):
        """A gain that goes along with the label by chance, in all voxels alike."""
        y, image = Y, rng.normal(5, 1, size=300)
        gain = 1 + 0.2 * rng.permutation(np.linspace(-1, 1, 36)) + 0.1 * y
        X = gain[:, None] * image + 0.02 * rng.normal(size=(36, 300))
        p = f_classif(X, y)[1]
        assert p.max() < 0.5
        assert outcomes(X)["voxels-selected"] == "not found"

    def test_few_voxels_show_no_bound(self, rng):
        assert outcomes(rng.normal(size=(36, 40)))["voxels-selected"] == "not checked"


class TestLabelVoxel:
    @pytest.mark.parametrize("sd", [0.0, 0.1])
    def test_the_label_among_voxels(self, rng, sd):
        X = rng.normal(size=(36, 500))
        X[:, 77] = Y + sd * rng.normal(size=36)
        assert outcomes(X)["label-voxel"] == "found"
        assert outcomes(X.astype("f4"))["label-voxel"] == "found"

    def test_signal_is_no_label(self, rng):
        for effect in (0.0, 1.0, 3.0):
            X = rng.normal(size=(36, 500))
            X[:, :20] += effect * Y[:, None]
            assert outcomes(X)["label-voxel"] == "not found"

    def test_the_target_in_regression(self, rng):
        age, X = rng.normal(60, 9, size=36), rng.normal(size=(36, 500))
        assert outcomes(X, age, None, KFold(4), Ridge())["label-voxel"] == "not found"
        X[:, 3] = age / 9 + 0.1 * rng.normal(size=36)
        assert outcomes(X, age, None, KFold(4), Ridge())["label-voxel"] == "not found"
        X[:, 3] = np.round(2 * age)
        assert outcomes(X, age, None, KFold(4), Ridge())["label-voxel"] == "found"

    def test_binary_voxels_equal_a_label_by_chance(self, rng):
        """Of 300 voxels of 0 and 1 one sorts 8 scans rightly by chance now and then."""
        y, runs = np.tile([0, 1], 4), np.repeat([0, 1], 4)
        X = rng.integers(0, 2, size=(8, 300)).astype(float)
        X[:, 5] = y
        others = [v for v in range(300) if v != 5 and np.mean(X[:, v] == y) in (0.0, 1.0)]
        X[0, others] = 1 - X[0, others]
        assert outcomes(X, y, runs)["label-voxel"] == "not found"
        # Among voxels of measured values it cannot be chance.
        X = rng.normal(size=(8, 300))
        X[:, 5] = y
        assert outcomes(X, y, runs)["label-voxel"] == "found"

    def test_too_large(self, rng, monkeypatch):
        monkeypatch.setattr(voxels, "MOST_NUMBERS", 1000)
        assert outcomes(rng.normal(size=(36, 500)))["label-voxel"] == "not checked"

    @pytest.mark.parametrize("classifying", [True, False])
    def test_F_is_the_textbooks(self, rng, classifying, monkeypatch):
        monkeypatch.setattr(voxels, "VOXELS_AT_ONCE", 16)
        X = rng.normal(500, 3, size=(36, 50))
        X[:, 4] = 7.0  # does not vary
        y = np.tile([0, 1, 2], 12) if classifying else rng.normal(size=36)
        estimator = LOGISTIC if classifying else Ridge()
        scans = voxels.AuditedScans(estimator, X, y, None, [], {}, {}, ())
        F, p = voxels._tails(X, scans)
        kept = np.delete(X, 4, axis=1)
        expected = f_classif(kept, y) if classifying else f_regression(kept, y)
        np.testing.assert_allclose(F, expected[0], rtol=1e-6)
        np.testing.assert_allclose(p, expected[1], rtol=1e-6)


class TestCovariates:
    def test_five_covariates_are_judged_together(self, rng):
        """One of p = .02 alone is a finding; among four others it is not."""
        X = rng.normal(size=(36, 30))
        drawn = (rng.normal(size=36) + 0.4 * Y for _ in range(1000))
        age = next(a for a in drawn if 0.018 < stats.kruskal(a[Y == 0], a[Y == 1])[1] < 0.022)
        assert outcomes(X, variables={"age": age})["labels-confounded"] == "found"
        others = {f"v{k}": rng.permutation(np.linspace(0, 1, 36)) for k in range(4)}
        found = outcomes(X, variables={"age": age} | others)
        assert found["labels-confounded"] == "not found"


class TestOutcomes:
    def test_every_check_has_its_line(self, rng):
        made = audit(LOGISTIC, rng.normal(size=(36, 100)), Y, RUNS)
        told = {check.name: check for check in made.checks}
        later = {"probability-scale", "training-scans", "training-people"}
        later |= {"unlike-training", "sample-shifted"}
        assert {*told, *later} == set(SEVERITY)
        assert told["shared-group"].reason == "no folds are given"
        assert all(bool(c.reason) == (c.outcome == "not checked") for c in made.checks)

    def test_readers_say_what_they_looked_at(self, rng):
        X = rng.normal(size=(36, 100))
        found = outcomes(X, looked=["repetition-time"])
        assert found["repetition-time"] == "not found"
        assert found["repeated-events"] == "not checked"
        found = outcomes(X, findings=[("repeated-events", "Twice.")], allow="repeated-events")
        assert found["repeated-events"] == "found"

    @pytest.mark.parametrize(
        ("X", "estimator", "reason"),
        [
            (np.eye(36), SVC(kernel="precomputed"), "Gram matrix"),
            ([str(i) for i in range(36)], LOGISTIC, "not a table of numbers"),
            (np.ones((36, 5)), LOGISTIC, "fewer than 20 numbers"),
            (np.full((36, 50), np.nan), LOGISTIC, "NaN"),
        ],
        ids=["gram", "files", "few", "nan"],
    )
    def test_what_cannot_be_looked_at_is_said(self, X, estimator, reason):
        folds = list(LeaveOneGroupOut().split(X, Y, RUNS))
        made = audit(estimator, X, Y, RUNS, folds, columns={"who": RUNS})
        told = {check.name: check for check in made.checks}
        for name in ("near-duplicate", "serial-neighbours", "column-straddles", "label-voxel"):
            assert told[name].outcome == "not checked"
            assert reason in told[name].reason

    def test_numbers_have_no_classes(self, rng):
        X, age = rng.normal(size=(36, 100)), rng.normal(size=36)
        found = outcomes(X, age, None, KFold(4), Ridge())
        for name in ("class-missing", "leave-one-out", "labels-confounded", "groups-ignored"):
            assert found[name] == "not checked"

    def test_only_what_the_user_may_know_is_asked_for(self, rng):
        X = rng.normal(size=(36, 100))

        def asked(estimator=LOGISTIC, groups=None, X=X, **known):
            folds = list(KFold(4).split(X))
            made = audit(estimator, X, Y, groups, folds, **known)
            assert all(check.outcome == "not checked" for check in made.checks if check.askable)
            return {check.name for check in made.checks if check.askable}

        groups = {"shared-group", "group-offsets"}
        table = {"labels-confounded", "column-straddles"}
        assert asked() == groups | table
        assert asked(columns={"site": Y}) == groups
        assert asked(groups=np.arange(36)) == {"column-straddles"}
        search = GridSearchCV(LOGISTIC, {"C": [1.0]}, cv=3)
        assert asked(search) == groups | table | {"groups-ignored"}
        assert "group-offsets" not in asked(X=X[:, :5])
        people = [f"sub-{n:02d}_map.nii" for n in range(36)]
        assert asked(search, names=people) == {"labels-confounded"}

    def test_few_scans(self, rng):
        y, X = np.array([0, 1, 1]), rng.normal(size=(3, 100))
        found = outcomes(X, y, None, KFold(3))
        for name in ("near-duplicate", "voxels-selected", "label-voxel", "fitted-outside"):
            assert found[name] == "not checked"
