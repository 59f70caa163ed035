"""Splitters: who trains, who tests, and what never happens."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB

from voxprior.validation import (
    Bootstrap,
    FewShotSplit,
    Jackknife,
    LeaveOneGroupOut,
    LeaveOnePerClassOut,
    MonteCarloLeaveOnePerClassOut,
)

STARPLUS = np.repeat(["picture", "sentence"], 20)
SUBJECTS = np.repeat(np.arange(18), 2)  # 9 + 9 subjects, two scans each
ILLNESS = np.repeat(np.repeat(["ill", "normal"], 9), 2)

SEEDED = [
    FewShotSplit(2, n_repeats=5),
    MonteCarloLeaveOnePerClassOut(n_runs=3),
    MonteCarloLeaveOnePerClassOut(n_runs=2, n_pairs=7),
    Bootstrap(n_repeats=5),
]
EVERY = [*SEEDED, LeaveOnePerClassOut(), Jackknife(), FewShotSplit(2, pool=None)]


def same(folds_a, folds_b):
    return len(folds_a) == len(folds_b) and all(
        np.array_equal(a, c) and np.array_equal(b, d) for (a, b), (c, d) in zip(folds_a, folds_b)
    )


@pytest.mark.parametrize("cv", EVERY, ids=repr)
class TestEverySplitter:
    def test_counts_its_folds(self, cv):
        for groups in (None, SUBJECTS):
            folds = list(cv.split(ILLNESS, ILLNESS, groups))
            assert len(folds) == cv.get_n_splits(ILLNESS, ILLNESS, groups)

    def test_no_group_on_both_sides(self, cv):
        for train, test in cv.split(ILLNESS, ILLNESS, SUBJECTS):
            assert len(test) > 0
            assert not set(SUBJECTS[train]) & set(SUBJECTS[test])

    def test_clones_and_repeats_itself(self, cv):
        folds = list(cv.split(STARPLUS, STARPLUS))
        assert same(folds, list(clone(cv).split(STARPLUS, STARPLUS)))
        assert same(folds, list(cv.split(STARPLUS, STARPLUS)))

    def test_serves_scikit_learn(self, cv, rng):
        X = rng.normal(size=(36, 3))
        scores = cross_val_score(
            GaussianNB(), X, ILLNESS, groups=SUBJECTS, cv=cv, error_score="raise"
        )
        assert len(scores) == cv.get_n_splits(X, ILLNESS, SUBJECTS)
        search = GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9]}, cv=clone(cv))
        search.fit(X, ILLNESS, groups=SUBJECTS)

    def test_names_of_labels_do_not_matter(self, cv):
        renamed = np.where(STARPLUS == "picture", 0, 1)
        assert same(list(cv.split(STARPLUS, STARPLUS)), list(cv.split(renamed, renamed)))


@pytest.mark.parametrize("cv", SEEDED, ids=repr)
def test_seed_changes_folds_and_none_draws_one(cv):
    first = list(cv.split(STARPLUS, STARPLUS))
    other = clone(cv).set_params(random_state=1)
    fresh = clone(cv).set_params(random_state=None)
    assert not same(first, list(other.split(STARPLUS, STARPLUS)))
    assert not same(list(fresh.split(STARPLUS, STARPLUS)), list(fresh.split(STARPLUS, STARPLUS)))


def test_more_repeats_keep_the_first_ones():
    few = list(FewShotSplit(2, n_repeats=3).split(STARPLUS, STARPLUS))
    many = list(FewShotSplit(2, n_repeats=8).split(STARPLUS, STARPLUS))
    assert same(few, many[:3])


class TestFewShot:
    def test_starplus_protocol(self):
        """20 + 20 trials: a pool of 10 + 10, of which 2 a class train; 10 + 10 test."""
        tested = Counter()
        for train, test in FewShotSplit(2, n_repeats=200).split(STARPLUS, STARPLUS):
            assert Counter(STARPLUS[train]) == {"picture": 2, "sentence": 2}
            assert Counter(STARPLUS[test]) == {"picture": 10, "sentence": 10}
            assert not set(train) & set(test)
            tested.update(test.tolist())
        # Each trial tests with probability 1/2: 100 of 200 times, sd 7.
        assert min(tested.values()) > 70
        assert max(tested.values()) < 130

    def test_whole_pool(self):
        train, test = next(FewShotSplit(None).split(STARPLUS, STARPLUS))
        assert sorted([*train, *test]) == list(range(40))
        assert Counter(STARPLUS[train]) == {"picture": 10, "sentence": 10}

    def test_runs_stay_whole_and_n_runs_can_train(self):
        runs, y = np.repeat(np.arange(12), 8), np.tile(np.arange(8), 12)
        for train, test in FewShotSplit(3, pool=None, draw="group").split(y, y, runs):
            assert len(np.unique(runs[train])) == 3
            assert len(train) == 24
            assert len(test) == 72
        for train, test in FewShotSplit(2).split(y, y, runs):
            assert len(np.unique(runs[test])) == 6
            assert np.all(np.bincount(y[train]) == 2)

    def test_subjects_drawn_whole(self):
        for train, test in FewShotSplit(3, draw="group").split(ILLNESS, ILLNESS, SUBJECTS):
            assert Counter(ILLNESS[train]) == {"ill": 6, "normal": 6}
            assert set(ILLNESS[test]) == {"ill", "normal"}

    @settings(max_examples=60, deadline=None)
    @given(st.integers(2, 25), st.integers(2, 25), st.floats(0.2, 0.8))
    def test_pool_is_even_within_each_class(self, n_a, n_b, pool):
        y = np.repeat([0, 1], [n_a, n_b])
        cv = FewShotSplit(None, n_repeats=2, pool=pool)
        try:
            folds = list(cv.split(y, y))
        except ValueError:  # a class whose every share of the pool is empty or everything
            assert min(n_a, n_b) * min(pool, 1 - pool) < 1
            return
        for train, _ in folds:
            assert abs(np.sum(y[train] == 0) - pool * n_a) < 1 + 1e-9
            assert abs(len(train) - pool * (n_a + n_b)) < 1 + 1e-9

    def test_too_few_scans_is_said(self):
        with pytest.raises(ValueError, match="Train on fewer per class"):
            next(FewShotSplit(3).split([0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1]))

    @pytest.mark.parametrize(
        "bad",
        [{"n_per_class": 0}, {"pool": 1.0}, {"draw": "run"}, {"by": "run"}, {"n_repeats": 1.5}],
    )
    def test_bad_parameters(self, bad):
        with pytest.raises(ValueError, match=next(iter(bad))):
            next(FewShotSplit(**bad).split(STARPLUS, STARPLUS))

    def test_neither_pool_nor_number(self):
        with pytest.raises(ValueError, match="n_per_class or pool"):
            next(FewShotSplit(None, pool=None).split(STARPLUS, STARPLUS))

    def test_needs_labels(self):
        with pytest.raises(ValueError, match="labels"):
            next(FewShotSplit().split(STARPLUS))


class TestLeaveOnePerClassOut:
    def test_is_every_combination(self):
        y = np.array([1, 0, 2, 0, 1, 2, 2])
        folds = {tuple(test) for _, test in LeaveOnePerClassOut().split(y, y)}
        expected = product(*(np.flatnonzero(y == c).tolist() for c in range(3)))
        assert folds == {tuple(sorted(e)) for e in expected}

    def test_subjects_leave_with_both_scans(self):
        for train, test in LeaveOnePerClassOut().split(ILLNESS, ILLNESS, SUBJECTS):
            assert Counter(ILLNESS[test]) == {"ill": 2, "normal": 2}
            assert len(train) == 32

    def test_by_sample_ignores_groups(self):
        assert LeaveOnePerClassOut(by="sample").get_n_splits(ILLNESS, ILLNESS, SUBJECTS) == 18**2

    def test_mixed_groups_are_refused(self):
        with pytest.raises(ValueError, match="cv='groups'"):
            next(LeaveOnePerClassOut().split([0, 1, 0, 1], [0, 1, 0, 1], [0, 0, 1, 1]))

    def test_single_scan_of_a_class_is_refused(self):
        with pytest.raises(ValueError, match="two classes with two each"):
            next(LeaveOnePerClassOut().split([0, 0, 1], [0, 0, 1]))


class TestMonteCarlo:
    def test_a_run_is_a_disjoint_pairing(self):
        y = np.repeat([-1, 1], 42)
        folds = list(MonteCarloLeaveOnePerClassOut(n_runs=2).split(y, y))
        for run in (folds[:42], folds[42:]):
            tested = np.concatenate([test for _, test in run])
            assert sorted(tested) == list(range(84))
            assert all(len(train) == 82 and set(y[test]) == {-1, 1} for train, test in run)
        assert not same(folds[:42], folds[42:])

    def test_84_random_pairs(self):
        y = np.repeat([-1, 1], 42)
        folds = list(MonteCarloLeaveOnePerClassOut(n_runs=1, n_pairs=84).split(y, y))
        assert len(folds) == 84
        assert all(set(y[test]) == {-1, 1} and len(test) == 2 for _, test in folds)

    def test_surplus_of_the_larger_class_still_trains(self):
        y = np.repeat([0, 1], [3, 5])
        folds = list(MonteCarloLeaveOnePerClassOut(n_runs=4).split(y, y))
        assert len(folds) == 12
        assert all(len(train) == 6 for train, _ in folds)


class TestResampling:
    def test_jackknife_is_leave_one_group_out(self):
        ours = list(Jackknife().split(ILLNESS, ILLNESS, SUBJECTS))
        assert same(ours, list(LeaveOneGroupOut().split(ILLNESS, ILLNESS, SUBJECTS)))

    def test_jackknife_without_labels(self, rng):
        assert Jackknife().get_n_splits(rng.normal(size=(7, 2)), rng.normal(size=7)) == 7
        with pytest.raises(ValueError, match="Expected two scans"):
            next(Jackknife().split([0]))

    def test_bootstrap_draws_as_many_and_tests_the_rest(self):
        for train, test in Bootstrap(n_repeats=30).split(STARPLUS, STARPLUS):
            assert Counter(STARPLUS[train]) == {"picture": 20, "sentence": 20}
            assert set(train) | set(test) == set(range(40))
            assert not set(train) & set(test)

    def test_bootstrap_leaves_a_third_out(self):
        out = [len(test) for _, test in Bootstrap(200).split(STARPLUS, STARPLUS)]
        assert abs(np.mean(out) / 40 - (1 - 1 / 20) ** 20) < 0.02

    def test_bootstrap_by_group_draws_whole_groups(self):
        for train, _ in Bootstrap(20).split(ILLNESS, ILLNESS, SUBJECTS):
            counts = Counter(train.tolist())
            assert all(counts[2 * s] == counts[2 * s + 1] for s in range(18))

    def test_bootstrap_of_a_real_target(self, rng):
        train, test = next(Bootstrap(1).split(rng.normal(size=(9, 2)), rng.normal(size=9)))
        assert len(train) == 9
        assert len(test) >= 1

    def test_bootstrap_that_cannot_leave_out(self):
        with pytest.raises(ValueError, match="left to test"):
            next(Bootstrap(1).split([0, 1], [0, 1]))


def test_groups_are_routed(rng):
    """With metadata routing on, the groups reach our splitters inside a search."""
    import sklearn

    X = rng.normal(size=(36, 2))
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=LeaveOnePerClassOut())
        search.fit(X, ILLNESS, groups=SUBJECTS)
    assert search.n_splits_ == 81
