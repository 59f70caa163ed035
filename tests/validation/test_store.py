"""Resuming: a run that stopped goes on, and never with tasks of another run."""

import importlib
import json
import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC

from voxprior.errors import InputError, InputWarning
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


# ---------------------------------------------------------------- records of other tasks


def forged(path, change):
    """Write a journal anew, with digests that are right, from records that were changed."""
    texts = [line.partition(" ")[2] for line in path.read_text().split("\n") if line]
    lines = [f"{store._checksum(path, text)} {text}" for text in change(texts)]
    path.write_text("\n" + "\n".join(lines))


def exchanged(texts):
    records = [json.loads(text) for text in texts]
    last = [len(records) - 1, records[-1][1]]
    return [
        json.dumps(record) for record in ([0, last[1]], *records[1:-1], [last[0], records[0][1]])
    ]


def numbered(number):
    return lambda texts: [json.dumps([number, json.loads(texts[0])[1]]), *texts[1:]]


def saying(value):
    def change(texts):
        key = json.loads(texts[0])[1]["task"]
        return [f'[0, {{"task": "{key}", "returned": {value}}}]', *texts[1:]]

    return change


def altered(**changes):
    def change(texts):
        index, record = json.loads(texts[0])
        record["returned"] |= changes
        return [json.dumps([index, record]), *texts[1:]]

    return change


DEEP = "[" * 100_000 + "]" * 100_000
IMPOSSIBLE = {
    "exchanged": exchanged,
    "too large a number": numbered(999),
    "a negative number": numbered(-1),
    "a text as number": numbered("x"),
    "a truth value as number": numbered(True),
    "nothing": lambda texts: ["null", *texts[1:]],
    "deep": lambda texts: [DEEP, *texts[1:]],
    "deep inside": saying(DEEP),
    "digits": saying("9" * 5000),
    "no JSON": lambda texts: ["[0, ", *texts[1:]],
    "three parts": lambda texts: ["[0, 1, 2]", *texts[1:]],
    "no value": saying("null"),
    "a text": saying('"x"'),
    "no task": lambda texts: ["[0, 0.5]", *texts[1:]],
}
FOLDS = {
    "other scans": altered(test=[0, 1, 2, 3, 4, 35]),
    "other training": altered(n_train=7),
    "too few answers": altered(y_pred=["a"]),
    "answers in answers": altered(y_pred=[["a"]] * 6),
    "too few values": altered(values=[[0.5, 0.5]]),
    "impossible probabilities": altered(values=[[7.5, -6.5]] * 6),
    "another kind": altered(kind="interval"),
    "no time": altered(fit_seconds="x"),
    "more than a fold has": altered(more=1),
}


@pytest.fixture(params=["folds", "relabellings", "relabellings in batch", "fits"])
def kept(request, data, tmp_path):
    """Make something that keeps tasks, into a folder or into none."""
    counted, kind = Counted(), request.param

    def make(folder=None):
        if kind == "folds":
            return cross_validate(counted, *data, folder=folder).to_dict()
        if kind == "fits":
            options = {"sizes": [2], "n_repeats": 3, "folder": folder}
            return learning_curve({"one": counted}, *data, **options).to_dict()
        test = {"test": "fast"} if "batch" in kind else {"test": "refit", "stop_after": None}
        model = LogisticRegression() if "batch" in kind else counted
        return permutation_test(model, *data, n_permutations=9, folder=folder, **test).summary()

    return make


def without_times(found):
    if isinstance(found, dict):
        return {k: without_times(v) for k, v in found.items() if k != "timings"}
    return [without_times(one) for one in found] if isinstance(found, list) else found


@pytest.mark.parametrize("change", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_record_that_cannot_be_is_made_anew(kept, change, tmp_path, request):
    whole = without_times(kept())
    kept(tmp_path)
    (journal,) = tmp_path.rglob("*.journal")
    forged(journal, change)
    assert json.dumps(without_times(kept(tmp_path))) == json.dumps(whole)


@pytest.mark.parametrize("change", FOLDS.values(), ids=FOLDS)
def test_a_fold_that_is_not_of_its_task_is_made_anew(data, change, tmp_path):
    whole = cross_validate(Counted(), *data, folder=tmp_path)
    (journal,) = tmp_path.rglob("*.journal")
    forged(journal, change)
    Counted.fits = 0
    again = cross_validate(Counted(), *data, folder=tmp_path)
    assert Counted.fits == 1
    assert again.equals(whole)


def test_records_are_bound_to_their_number_and_run(kept, tmp_path):
    """Lines exchanged, numbered otherwise, or of another run: their digest is not of them."""
    whole = without_times(kept())
    kept(tmp_path)
    (journal,) = tmp_path.rglob("*.journal")
    lines = [line for line in journal.read_text().split("\n") if line]
    swapped = [line.replace("[0,", "[1,", 1) for line in lines]
    journal.write_text("\n" + "\n".join(swapped))
    assert json.dumps(without_times(kept(tmp_path))) == json.dumps(whole)
    other = TaskStore(tmp_path, journal.stem, "other", {})
    other.path.write_text(journal.read_text())
    assert other.finished() == {}


def test_a_journal_that_is_a_link_is_refused(data, tmp_path):
    cross_validate(Counted(), *data, folder=tmp_path / "store")
    (journal,) = tmp_path.rglob("*.journal")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    journal.unlink()
    journal.symlink_to(victim)
    with pytest.raises(InputError, match="Remove it"):
        cross_validate(Counted(), *data, folder=tmp_path / "store")
    assert victim.read_text() == "mine"


# ---------------------------------------------------------------- other code, other versions


class TestOtherCode:
    """What an estimator does is in its source."""

    TEXT = """
from sklearn.base import BaseEstimator, ClassifierMixin
class Mine(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = sorted(set(y))
        return self
    def predict(self, X):
        return [self.classes_[0]] * len(X)
"""
    MENDED = TEXT.replace("[0]", "[1]")

    @staticmethod
    def ways(model, data, folder):
        """Every function that keeps tasks."""
        return [
            lambda: cross_validate(model, *data, folder=folder),
            lambda: learning_curve({"m": model}, *data, sizes=[2], n_repeats=2, folder=folder),
            lambda: permutation_test(model, *data, n_permutations=3, folder=folder),
        ]

    @pytest.mark.parametrize("way", range(3))
    def test_mended_code_starts_anew(self, data, tmp_path, monkeypatch, way):
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        name = f"mended_{way}"
        for number, text in enumerate((self.TEXT, self.TEXT, self.MENDED)):
            (tmp_path / f"{name}.py").write_text(text)
            sys.modules.pop(name, None)
            importlib.invalidate_caches()
            model = importlib.import_module(name).Mine()
            self.ways(model, data, tmp_path / "store")[way]()
            assert len([*(tmp_path / "store").iterdir()]) == (1 if number < 2 else 2)
        found = cross_validate(model, *data, folder=tmp_path / "store")
        assert set(found.predictions["y_pred"]) == {"b"}

    @pytest.mark.parametrize("way", range(3))
    def test_code_that_cannot_be_read_keeps_nothing(self, data, tmp_path, way):
        class Closed(LogisticRegression):
            pass

        pipeline = make_pipeline(FunctionTransformer(lambda X: X), LogisticRegression())
        for model in (Closed(), pipeline):
            with pytest.warns(InputWarning, match=r"No finished .* the source of the estimator"):
                self.ways(model, data, tmp_path / "store")[way]()
        assert not (tmp_path / "store").exists()

    @pytest.mark.parametrize("package", ["numpy", "scipy", "sklearn", "voxprior"])
    @pytest.mark.parametrize("way", range(3))
    def test_another_version_starts_anew(self, data, tmp_path, monkeypatch, way, package):
        run = self.ways(Counted(), data, tmp_path)[way]
        run()
        monkeypatch.setattr(importlib.import_module(package), "__version__", "9.9")
        run()
        assert len([*tmp_path.iterdir()]) == 2
