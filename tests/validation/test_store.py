"""Resuming: a run that stopped goes on, and never with tasks of another run."""

import json

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from voxprior.validation import (
    FewShotSplit,
    LeaveOneGroupOut,
    cross_validate,
    learning_curve,
    permutation_test,
    store,
)
from voxprior.validation.folds import FoldOutcome
from voxprior.validation.store import TaskStore, count_finished, settings_digest


class Counted(ClassifierMixin, BaseEstimator):
    """Counts its fits, and stops the run at one of them."""

    fits = 0
    stop_at = None

    def __init__(self, C=1.0, random_state=None):
        self.C = C
        self.random_state = random_state

    def fit(self, X, y):
        type(self).fits += 1
        if type(self).fits == type(self).stop_at:
            raise KeyboardInterrupt
        rng = np.random.default_rng(self.random_state)
        self.model_ = LogisticRegression(C=self.C).fit(X + 0.1 * rng.normal(size=X.shape), y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


@pytest.fixture(autouse=True)
def _reset():
    Counted.fits, Counted.stop_at = 0, None


@pytest.fixture
def data(rng):
    y = np.tile(["a", "b"], 18)
    return rng.normal(size=(36, 4)), y, np.repeat(np.arange(6), 6)


def test_goes_on_where_it_stopped(data, tmp_path):
    whole = cross_validate(Counted(), *data)
    Counted.fits, Counted.stop_at = 0, 4
    partial = cross_validate(Counted(), *data, folder=tmp_path)
    assert not partial.complete
    assert len(partial.scores) == 3
    Counted.fits, Counted.stop_at = 0, None
    again = cross_validate(Counted(), *data, folder=tmp_path)
    assert Counted.fits == 3
    assert again.complete
    assert again.equals(whole)
    cross_validate(Counted(), *data, folder=tmp_path)
    assert Counted.fits == 3


def test_interrupted_before_any_new_fold_keeps_the_old_ones(data, tmp_path):
    Counted.stop_at = 3
    cross_validate(Counted(), *data, folder=tmp_path)
    Counted.fits, Counted.stop_at = 0, 1
    partial = cross_validate(Counted(), *data, folder=tmp_path)
    assert len(partial.scores) == 2
    assert not partial.complete


def test_anything_else_starts_anew(data, tmp_path):
    X, y, runs = data
    cross_validate(Counted(), X, y, runs, folder=tmp_path)
    changed = [
        (Counted(C=2.0), X, y, runs, {}),
        (Counted(), X + 1e-9, y, runs, {}),
        (Counted(), X, np.roll(y, 1), runs, {}),
        (Counted(), X, y, runs, {"random_state": 1}),
        (Counted(), X, y, runs, {"cv": list(LeaveOneGroupOut().split(X, y, runs))[::-1]}),
    ]
    for estimator, A, labels, groups, kwargs in changed:
        Counted.fits = 0
        cross_validate(estimator, A, labels, groups, folder=tmp_path, **kwargs)
        assert Counted.fits == 6
    assert len(list(tmp_path.iterdir())) == 6


@pytest.mark.parametrize("estimator", [LinearSVC(), Ridge()], ids=["decisions", "regression"])
def test_every_kind_of_fold_comes_back(data, tmp_path, estimator, rng):
    X, y, runs = data
    y = rng.normal(size=36) if isinstance(estimator, Ridge) else y
    first = cross_validate(estimator, X, y, runs, folder=tmp_path)
    assert cross_validate(estimator, X, y, runs, folder=tmp_path).equals(first)


def test_no_half_written_file(data, tmp_path):
    cross_validate(Counted(), *data, folder=tmp_path)
    names = sorted(p.name for p in next(tmp_path.iterdir()).iterdir())
    assert names == ["folds.journal", "settings.json"]
    assert count_finished(tmp_path) == {"folds": 6}


def test_models_are_not_kept(data, tmp_path):
    with pytest.raises(ValueError, match="keep_models"):
        cross_validate(Counted(), *data, folder=tmp_path, keep_models=True)


# ---------------------------------------------------------------- the journal


def scores_in(folder):
    return TaskStore(folder, "scores", "run", {})


@pytest.fixture
def journal(tmp_path):
    """Journal of three scores, with numbers that only an exact form keeps."""
    store = scores_in(tmp_path)
    for index, value in enumerate([0.1 + 0.2, np.float64(1 / 3), float("inf")]):
        store.save(index, value)
    return store.path


def test_numbers_come_back_exactly(journal, tmp_path):
    assert scores_in(tmp_path).finished() == {0: 0.1 + 0.2, 1: 1 / 3, 2: float("inf")}
    assert count_finished(tmp_path) == {"scores": 3}


def test_a_fold_comes_back_exactly(tmp_path):
    values = np.array([[1 / 3, -np.inf]])
    fold = FoldOutcome(np.array([4]), 3, np.array(["a\nb"]), values, "d", 0.5, 0.1, "model")
    store = TaskStore(tmp_path, "folds", "run", {}, FoldOutcome.to_plain, FoldOutcome.from_plain)
    store.save(0, fold)
    back = store.finished()[0]
    assert back.model is None
    assert json.dumps(back.to_plain()) == json.dumps(fold.to_plain())
    assert back.values.dtype == float


def test_a_journal_cut_anywhere_has_whole_records_or_none(journal, tmp_path):
    whole, content = scores_in(tmp_path).finished(), journal.read_bytes()
    for length in range(len(content)):
        journal.write_bytes(content[:length])
        found = scores_in(tmp_path).finished()
        assert found == {index: whole[index] for index in range(len(found))}
        assert len(found) < 3
        scores_in(tmp_path).save(7, 0.5)  # what comes after a record that was cut is read
        assert scores_in(tmp_path).finished() == found | {7: 0.5}


def test_an_altered_record_counts_as_absent(journal, tmp_path):
    whole, content = scores_in(tmp_path).finished(), journal.read_bytes()
    for place in range(len(content)):
        altered = bytearray(content)
        altered[place] ^= 1
        journal.write_bytes(altered)
        found = scores_in(tmp_path).finished()
        assert found.items() <= whole.items()
        assert len(found) < 3


# ---------------------------------------------------------------- permutation tests


def stopped_and_resumed(data, tmp_path, at, **options):
    """Stop a permutation test at one of its fits, and run it to the end."""
    Counted.fits, Counted.stop_at = 0, at
    first = permutation_test(Counted(), *data, folder=tmp_path, **options)
    assert not first.complete
    Counted.fits, Counted.stop_at = 0, None
    return first, permutation_test(Counted(), *data, folder=tmp_path, **options)


def same(one, other):
    return json.dumps(one.summary()) == json.dumps(other.summary())


@pytest.mark.parametrize("stop_after", [None, 2])
def test_a_permutation_test_goes_on(data, tmp_path, stop_after):
    options = {"n_permutations": 12, "stop_after": stop_after}
    whole = permutation_test(Counted(), *data, **options)
    needed = Counted.fits
    _, again = stopped_and_resumed(data, tmp_path, 6 * 4 + 1, **options)
    assert Counted.fits == needed - 6 * 4  # six folds of four labellings were there
    assert again.stopped_early == (stop_after is not None)
    assert same(again, whole)
    Counted.fits = 0
    assert same(permutation_test(Counted(), *data, folder=tmp_path, **options), whole)
    assert Counted.fits == 0


@pytest.mark.slow
def test_workers_find_the_scores_of_one_process(data, tmp_path):
    options = {"n_permutations": 30, "stop_after": 3}
    whole = permutation_test(Counted(), *data, **options)
    Counted.fits, Counted.stop_at = 0, 6 * 5
    permutation_test(Counted(), *data, folder=tmp_path, **options)
    again = permutation_test(Counted(), *data, folder=tmp_path, n_jobs=2, **options)
    assert same(again, whole)


def test_the_rule_that_stops_does_not_change_what_is_kept(data, tmp_path):
    options = {"n_permutations": 12, "folder": tmp_path}
    permutation_test(Counted(), *data, stop_after=None, **options)
    Counted.fits = 0
    early = permutation_test(Counted(), *data, stop_after=3, **options)
    assert Counted.fits == 0
    assert same(early, permutation_test(Counted(), *data, stop_after=3, n_permutations=12))


def test_another_permutation_test_starts_anew(data, tmp_path):
    X, y, runs = data
    permutation_test(Counted(), *data, n_permutations=2, folder=tmp_path)
    changed = [
        (Counted(C=2.0), X, y, {}),
        (Counted(), X + 1e-9, y, {}),
        (Counted(), X, np.roll(y, 1), {}),
        (Counted(), X, y, {"random_state": 1}),
        (Counted(), X, y, {"score": "log_loss"}),
        (Counted(), X, y, {"scheme": "free"}),
        (Counted(), X, y, {"blocks": np.arange(36) // 2 * 2 + np.arange(36) % 2}),
        (Counted(), X, y, {"cv": FewShotSplit(2, n_repeats=6)}),
        (Counted(), X, y, {"cv": FewShotSplit(2, n_repeats=6, random_state=3)}),
    ]
    for number, (estimator, A, labels, options) in enumerate(changed):
        permutation_test(estimator, A, labels, runs, n_permutations=2, folder=tmp_path, **options)
        assert count_finished(tmp_path) == {"relabellings": 3 * (number + 2)}


def test_folds_of_a_generator_serve_every_relabelling(data):
    X, y, runs = data
    folds = LeaveOneGroupOut().split(X, y, runs)
    found = permutation_test(Counted(), X, y, runs, folds, n_permutations=3)
    assert same(found, permutation_test(Counted(), X, y, runs, n_permutations=3))


# ---------------------------------------------------------------- learning curves


def test_a_learning_curve_goes_on(data, tmp_path):
    models = {"one": Counted(), "two": Counted(C=0.1)}
    options = {"sizes": [2, 3], "n_repeats": 3}
    whole = learning_curve(models, *data, **options)
    Counted.fits, Counted.stop_at = 0, 5
    assert not learning_curve(models, *data, folder=tmp_path, **options).complete
    Counted.fits, Counted.stop_at = 0, None
    again = learning_curve(models, *data, folder=tmp_path, **options)
    assert Counted.fits == 8
    assert again.complete
    assert all(again.results[point].equals(whole.results[point]) for point in whole.results)


def test_large_scans_are_told_apart_by_any_value_type_or_shape(monkeypatch):
    monkeypatch.setattr(store, "LARGE", 100)
    X = np.random.default_rng(0).normal(size=(6, 20)).astype("f4")

    def digest(scans):
        return settings_digest([], [scans], [], {})

    changed = X.copy()
    changed[3, 7] = np.nextafter(changed[3, 7], np.float32(9))
    others = [changed, X.astype("f8"), X.reshape(12, 10), X[::-1], X.view("i4")]
    assert len({digest(X), *map(digest, others)}) == 6
    assert digest(X) == digest(X.copy()) == digest(np.asfortranarray(X))
