"""Audit of scans that are alike on both sides: copies, neighbours in time, levels of columns."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, StratifiedKFold

from voxprior.validation import audit
from voxprior.validation.audit import likeness
from voxprior.validation.audit.duplicates import near_pairs
from voxprior.validation.audit.likeness import Exchange, Pairs, exchange_p
from voxprior.validation.audit.scans import AuditedScans, entity_columns

LOGISTIC = LogisticRegression()
RANDOM = StratifiedKFold(5, shuffle=True, random_state=0)


def outcomes(X, y, groups=None, cv=RANDOM, estimator=LOGISTIC, **known):
    made = audit(estimator, X, y, groups, list(cv.split(X, y, groups)), **known)
    return {check.name: check.outcome for check in made.checks}


def messages(X, y, groups=None, cv=RANDOM, **known):
    made = audit(LOGISTIC, X, y, groups, list(cv.split(X, y, groups)), **known)
    return {finding.name: finding.message for finding in made}


@pytest.fixture
def noise(rng):
    return rng.normal(size=(40, 300)), np.tile([0, 1], 20)


class TestNearDuplicates:
    @pytest.mark.parametrize(
        "copy",
        [
            lambda x, rng: x * (1 + 1e-6),
            lambda x, rng: 1.7 * x,
            lambda x, rng: 0.3 * x + 50,
            lambda x, rng: x + 1e-4 * rng.normal(size=x.shape),
            lambda x, rng: np.round(x, 2),
        ],
        ids=["1e-6", "gain", "affine", "noise", "rounded"],
    )
    def test_copies_are_found_and_named(self, noise, rng, copy):
        X, y = noise
        X[7] = copy(X[30], rng)
        files = [f"scan{i}.nii" for i in range(40)]
        told = messages(X, y, names=files)
        assert "scan7.nii and scan30.nii (1 pairs)" in told["near-duplicate"]
        assert "duplicate-images" not in told

    def test_equal_images_are_told_once(self, noise):
        X, y = noise
        X[7] = X[30]
        found = outcomes(X, y)
        assert (found["duplicate-images"], found["near-duplicate"]) == ("found", "not found")

    def test_copies_on_one_side_are_no_leak(self, noise):
        X, y = noise
        X[6] = 1.5 * X[7]
        groups = np.repeat(np.arange(10), 4)
        assert outcomes(X, y, groups, LeaveOneGroupOut())["near-duplicate"] == "not found"

    def test_scans_of_one_subject_are_alike_but_no_copies(self, rng):
        own = rng.normal(size=(20, 1, 300))
        X = (own + 0.3 * rng.normal(size=(20, 2, 300))).reshape(40, 300)
        assert outcomes(X, np.tile([0, 1], 20))["near-duplicate"] == "not found"

    def test_pairs_of_the_naive_form(self, rng):
        X = rng.normal(size=(12, 50))
        X[3] = -2 + 0.5 * X[9]
        X[5] = 4.0  # does not vary
        r = np.corrcoef(np.delete(X, 5, axis=0))
        median = np.median(1 - r[np.triu_indices(11, 1)])
        pairs, bound = near_pairs(X)
        assert bound == pytest.approx(0.001 * median, rel=1e-5)
        assert pairs == [(3, 9)]

    def test_too_many_scans_are_not_compared(self, noise, monkeypatch):
        from voxprior.validation.audit import duplicates

        monkeypatch.setattr(duplicates, "MOST_SCANS", 39)
        made = audit(LOGISTIC, *noise, None, list(RANDOM.split(*noise)))
        reasons = {check.name: check.reason for check in made.checks}
        assert "more than 39 scans" in reasons["near-duplicate"]
        assert "more than 39 scans" in reasons["serial-neighbours"]

    def test_copies_in_the_voxels_looked_at_are_looked_at_in_full(self, rng, monkeypatch):
        """Alike in each second voxel, which are compared first, but not in the others."""
        from voxprior.validation.audit import duplicates

        X, y = rng.normal(size=(40, 800)), np.tile([0, 1], 20)
        X[3, ::2] = X[8, ::2]
        monkeypatch.setattr(duplicates, "MOST_PRODUCTS", 400 * 40**2)
        assert outcomes(X, y)["near-duplicate"] == "not found"
        X[3] = 2 * X[8]
        assert outcomes(X, y)["near-duplicate"] == "found"


def autocorrelated(rng, n, V, coefficient):
    X = rng.normal(size=(n, V))
    for i in range(1, n):
        X[i] = coefficient * X[i - 1] + np.sqrt(1 - coefficient**2) * X[i]
    return X


class TestSerialNeighbors:
    @pytest.mark.parametrize("coefficient", [0.2, 0.6])
    def test_random_folds_of_a_time_course(self, rng, coefficient):
        X, y = autocorrelated(rng, 60, 200, coefficient), np.tile([0, 0, 1, 1], 15)
        told = messages(X, y)
        assert "have a neighbour in training" in told["serial-neighbours"]

    def test_independent_scans(self, noise):
        assert outcomes(*noise)["serial-neighbours"] == "not found"

    def test_alternating_labels_are_no_order(self, rng):
        """Residuals of one class are negatively related, so exchange must keep classes."""
        y = np.tile([0, 1], 6)
        for seed in range(10):
            X = np.random.default_rng(seed).normal(size=(12, 500)) + 3 * y[:, None]
            cv = KFold(4, shuffle=True, random_state=0)
            assert outcomes(X, y, cv=cv)["serial-neighbours"] == "not found"

    def test_whole_runs_leave_no_neighbour(self, rng):
        X, y = autocorrelated(rng, 60, 200, 0.6), np.tile([0, 1], 30)
        runs = np.repeat(np.arange(6), 10)
        assert outcomes(X, y, runs, LeaveOneGroupOut())["serial-neighbours"] == "not found"
        # Folds of whole runs that are not given as groups: a tenth of the scans has a neighbour.
        cv = list(LeaveOneGroupOut().split(X, y, runs))
        made = audit(LOGISTIC, X, y, None, cv)
        assert "serial-neighbours" not in {f.name for f in made}

    def test_regression(self, rng):
        X, age = autocorrelated(rng, 60, 200, 0.5), rng.normal(size=60)
        cv = KFold(5, shuffle=True, random_state=0)
        assert outcomes(X, age, cv=cv, estimator=Ridge())["serial-neighbours"] == "found"
        X = rng.normal(size=(60, 200)) + 5 * age[:, None]
        order = np.argsort(age)  # scans next to each other have near ages, and nothing else
        found = outcomes(X[order], age[order], cv=cv, estimator=Ridge())
        assert found["serial-neighbours"] == "not found"


def repeated(rng, weight, n=30, V=200, each=2):
    """Subjects of one class with several scans, alike by their own pattern."""
    y, subject = np.repeat(np.tile([0, 1], n // 2), each), np.repeat(np.arange(n), each)
    X = rng.normal(size=(n * each, V)) + weight * rng.normal(size=(n, V))[subject]
    order = rng.permutation(n * each)
    return X[order], y[order], subject[order]


class TestColumns:
    @pytest.mark.parametrize("weight", [0.4, 1.0])
    @pytest.mark.parametrize("name", ["Subject", "whoever"])
    def test_a_column_of_subjects(self, rng, weight, name):
        X, y, subject = repeated(rng, weight)
        told = messages(X, y, columns={"file": np.arange(60).astype(str), name: subject})
        assert f"'{name}' (" in told["column-straddles"]
        assert "file" not in told["column-straddles"]

    def test_folds_by_subject(self, rng):
        X, y, subject = repeated(rng, 1.0)
        found = outcomes(X, y, subject, GroupKFold(5), columns={"Subject": subject})
        assert found["column-straddles"] == "not found"
        folds = list(GroupKFold(5).split(X, y, subject))
        made = audit(LOGISTIC, X, y, None, folds, columns={"Subject": subject})
        assert "column-straddles" not in {f.name for f in made}

    def test_columns_that_mean_nothing(self, noise, rng):
        columns = {
            "site": rng.integers(4, size=40),
            "age": rng.integers(20, 60, size=40),
            "hand": rng.choice(["left", "right"], 40),
            "missing": [None] * 20 + ["a", "b"] * 10,
            "label": noise[1],
            "one": ["x"] * 40,
        }
        assert outcomes(*noise, columns=columns)["column-straddles"] == "not found"

    def test_scans_of_near_ages_are_alike_and_that_is_no_leak(self, rng):
        """A quantity acts by degrees; a code of the same scans in words has no near values."""
        age, y = rng.integers(20, 40, size=80), rng.permutation(np.tile([0, 1], 40))
        basis = rng.normal(size=(3, 200))
        curve = np.column_stack([np.sin(age / 5), np.cos(age / 5), age / 20])
        X = 0.8 * curve @ basis + rng.normal(size=(80, 200))
        assert outcomes(X, y, columns={"age": age})["column-straddles"] == "not found"
        words = np.array([f"year {a}" for a in age])
        assert outcomes(X, y, columns={"code": words})["column-straddles"] == "found"

    def test_two_levels_are_left_alone_unless_they_are_sessions(self, rng):
        y, level = np.tile([0, 1], 30), rng.permutation(np.repeat(["a", "b"], 30))
        X = rng.normal(size=(60, 200)) + (level == "a")[:, None] * rng.normal(size=200)
        assert outcomes(X, y, columns={"sex": level})["column-straddles"] == "not found"
        assert outcomes(X, y, columns={"session": level})["column-straddles"] == "found"

    def test_names_of_files(self, rng):
        X, y, subject = repeated(rng, 1.0)
        files = [f"data/sub-{s:02d}/sub-{s:02d}_run-{i}_map.nii" for i, s in enumerate(subject)]
        told = messages(X, y, names=files)
        assert "'sub-' (" in told["column-straddles"]
        assert "'run-'" not in told["column-straddles"]

    def test_entities_are_nested(self):
        columns = entity_columns(["sub-1_ses-a_run-1.nii", "sub-2_ses-a_run-1.nii"])
        assert {name: len(set(values)) for name, values in columns.items()} == {
            "sub-": 2,
            "ses-": 2,
            "run-": 2,
        }
        assert entity_columns(["sub-1_x.nii", "y.nii"]) == {}
        assert entity_columns([]) == {}

    def test_subjects_across_runs_that_are_given(self, rng):
        """Runs are numbered alike in all subjects: leaving one out divides every subject."""
        run, subject, y = (g.ravel() for g in np.meshgrid(range(4), range(8), [0, 1]))
        X = rng.normal(size=(64, 200)) + 0.8 * rng.normal(size=(8, 200))[subject]
        found = outcomes(X, y, run, LeaveOneGroupOut(), columns={"subject": subject})
        assert found["column-straddles"] == "found"
        # A factor of the design, of which every run has all levels.
        found = outcomes(X, y, run, LeaveOneGroupOut(), columns={"picture": subject})
        assert found["column-straddles"] == "not found"

    def test_sites_of_subjects_that_are_given(self, rng):
        """Whole subjects are exchanged: what scans of one share is no likeness of sites."""
        site = rng.permutation(np.repeat(["a", "b", "c"], 10))
        for weight, expected in ((0.0, "not found"), (1.0, "found")):
            X, y, subject = repeated(rng, 1.0)
            of = np.unique(site, return_inverse=True)[1]
            X = X + weight * rng.normal(size=(3, 200))[of][subject]
            found = outcomes(X, y, subject, GroupKFold(5), columns={"site": site[subject]})
            assert found["column-straddles"] == expected

    def test_covariates_are_left_to_other_checks(self, rng):
        X, y, subject = repeated(rng, 1.0)
        known = {"columns": {"site": subject}, "variables": {"site": subject}}
        assert outcomes(X, y, **known)["column-straddles"] == "not found"

    def test_data_frames(self, rng):
        X, y, subject = repeated(rng, 1.0)
        table = pd.DataFrame({"who": pd.Categorical(subject)})
        assert outcomes(X, y, columns=dict(table.items()))["column-straddles"] == "found"

    def test_without_columns(self, noise):
        made = audit(LOGISTIC, *noise, None, list(RANDOM.split(*noise)))
        (check,) = [check for check in made.checks if check.name == "column-straddles"]
        assert check.outcome == "not checked"
        assert "no table is given" in check.reason


def some_folds(rng, n, n_folds):
    """Random parts of the scans to train on, and of the others to test."""
    folds = []
    for _ in range(n_folds):
        order = rng.permutation(n)
        folds.append((order[: n // 2], order[n // 2 : n // 2 + n // 3]))
    return folds


class TestShares:
    """How many test scans must have a partner in training, counted one by one."""

    def test_neighbors_are_counted(self, rng):
        folds = some_folds(rng, 30, 4)
        first = np.array([0, 1, 2, 5, 6, 10, 11, 12, 20, 28])
        pairs = {(i, i + 1) for i in first} | {(i + 1, i) for i in first}
        met = [any((i, j) in pairs for j in train) for train, test in folds for i in test]
        assert likeness._neighbors_met(first, 30, folds) == pytest.approx(np.mean(met))

    def test_levels_are_counted(self, rng):
        folds, level = some_folds(rng, 30, 4), rng.integers(12, size=30)
        y = np.tile([0, 1], 15)
        scans = AuditedScans(LOGISTIC, rng.normal(size=(30, 40)), y, None, folds, {}, {}, ())
        met = [level[i] in level[train] for train, test in folds for i in test]
        assert scans.straddling(level) == pytest.approx(np.mean(met))

    @pytest.mark.parametrize(("divided", "expected"), [(9, "not found"), (11, "found")])
    def test_more_than_a_fifth_of_levels(self, rng, divided, expected):
        """Of 50 test scans of 50 subjects, 9 or 11 have the subject's other scan in training."""
        X, y, subject = repeated(rng, 1.5, n=50)
        order = np.argsort(subject, kind="stable")
        others = rng.normal(size=(10, 200))
        X, y = np.vstack([X[order], others]), np.append(y[order], [0, 1] * 5)
        subject = np.append(subject[order], np.arange(50, 60))
        test = np.arange(0, 100, 2)
        folds = [(np.append(test[:divided] + 1, np.arange(100, 110)), test)]
        made = audit(LOGISTIC, X, y, None, folds, columns={"subject": subject})
        found = {check.name: check.outcome for check in made.checks}
        assert found["column-straddles"] == expected

    @pytest.mark.parametrize(("share", "expected"), [(0.28, "not found"), (0.32, "found")])
    def test_more_than_three_tenths_of_neighbors(self, rng, share, expected):
        """Of 100 test scans some have their neighbour in training, the others have none."""
        X, y = autocorrelated(rng, 400, 60, 0.7), np.tile([0, 0, 1, 1], 100)
        test = np.arange(0, 400, 4)
        train = test[: round(100 * share)] + 1
        far = test[round(100 * share) + 1 :] + 2  # two away from both test scans
        made = audit(LOGISTIC, X, y, None, [(np.append(train, far), test)])
        found = {check.name: check.outcome for check in made.checks}
        assert found["serial-neighbours"] == expected


class TestExchange:
    def test_likeness_is_that_of_residuals(self, rng):
        X, codes = rng.normal(size=(9, 30)), np.array([0, 0, 0, 0, 1, 1, 1, 1, 2])
        K = likeness.likeness(X, codes, codes)
        residual = np.array([x - X[codes == c].mean(axis=0) for x, c in zip(X, codes)])
        expected = np.corrcoef(np.column_stack([residual, -residual])[:8])
        np.testing.assert_allclose(K[:8, :8], expected, atol=1e-6)
        assert np.all(K[8] == 0)  # alone in its class: nothing is left of it

    def test_p_of_all_exchanges(self, rng):
        """Two strata of three: 36 exchanges, and the drawn share comes near theirs."""
        from itertools import permutations

        K = rng.normal(size=(6, 6))
        K = (K + K.T).astype(np.float32)
        pairs = Pairs(np.array([0, 1, 3]), np.array([1, 4, 5]), np.full(3, 1 / 3))
        observed = K[pairs.a, pairs.b].mean()
        every = [
            K[np.array([*a, *b])[pairs.a], np.array([*a, *b])[pairs.b]].mean()
            for a in permutations(range(3))
            for b in permutations(range(3, 6))
        ]
        exact = np.mean(np.array(every) >= observed - 1e-9)
        kept, likeness.LEVEL = likeness.LEVEL, 1.0  # make all draws
        try:
            drawn = exchange_p(Exchange(K, np.array([0, 0, 0, 1, 1, 1])), pairs)
        finally:
            likeness.LEVEL = kept
        assert drawn == pytest.approx(exact, abs=0.04)

    def test_it_stops_once_nothing_can_be_found(self, rng, monkeypatch):
        K = np.zeros((4, 4), dtype=np.float32)
        pairs = Pairs(np.array([0]), np.array([1]), np.ones(1))
        assert exchange_p(Exchange(K, np.zeros(4, dtype=int)), pairs) == 1.0

    def test_many_pairs_are_judged_by_some(self, rng, monkeypatch):
        monkeypatch.setattr(likeness, "MOST_PAIRS", 50)
        X, y, subject = repeated(rng, 1.5, n=6, each=12)
        assert outcomes(X, y, columns={"subject": subject})["column-straddles"] == "found"


@pytest.mark.slow
def test_false_alarms():
    """At most a few of 150 clean designs: p <= .001 each, and copies are far below chance.

    Columns are held against the labels at .05.
    """
    alarms = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(48, 150)), rng.permutation(np.tile([0, 1], 24))
        X += rng.normal() * y[:, None] / 5
        columns = {"site": rng.integers(4, size=48), "age": rng.integers(20, 60, size=48)}
        made = audit(LOGISTIC, X, y, None, list(RANDOM.split(X, y)), columns=columns)
        alarms += [finding.name for finding in made]
    assert alarms.count("labels-confounded") <= 15
    assert len(alarms) - alarms.count("labels-confounded") <= 2, alarms
