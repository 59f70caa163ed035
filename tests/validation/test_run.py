"""The one parallel loop: same numbers wherever it runs, nothing lost on Ctrl-C."""

import _thread
import os
import pickle
import signal
import threading

import joblib
import numba
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_info

from voxprior import AutoRegressor
from voxprior.errors import OutOfMemoryError
from voxprior.validation import (
    FewShotSplit,
    LeaveOneGroupOut,
    cross_validate,
    permutation_test,
)
from voxprior.validation.folds import seeded
from voxprior.validation.run import run_tasks
from voxprior.validation.store import TaskStore
from voxprior.validation.threads import one_thread


@pytest.fixture
def data(rng):
    y = np.repeat(["cat", "face", "house"], 12)
    X = rng.normal(size=(36, 30))
    X[y == "face", :4] += 1.5
    X[y == "house", 4:8] += 1.5
    return X, y, np.tile(np.arange(4), 9)


def draw(task, seed, scale):
    return task, scale * np.random.default_rng(seed).random()


def thread_name(task, seed):
    return threading.current_thread().name


def busy_threads(task, seed):
    A = np.random.default_rng(0).normal(size=(50, 50))
    np.linalg.svd(A @ A)
    return numba.get_num_threads(), max(p["num_threads"] for p in threadpool_info())


def fail_at_two(task, seed):
    if task == 2:
        raise ValueError("no good")
    return task


class Forest(RandomForestClassifier):
    """Chance enters: a wrong seed shows."""

    def __init__(self, n_estimators=5, random_state=None):
        super().__init__(n_estimators=n_estimators, random_state=random_state)


class TestLoop:
    def test_order_and_seeds_do_not_depend_on_workers(self):
        one = run_tasks(draw, list("abcdefg"), [2.0], n_jobs=1)
        assert run_tasks(draw, list("abcdefg"), [2.0], n_jobs=2) == one
        assert len({value for _, value in one.values}) == 7

    def test_kept_tasks_are_not_run_and_move_no_seeds(self, tmp_path):
        whole = run_tasks(draw, list("abcd"), [1.0])
        store = TaskStore(tmp_path, "draws", "run", {})
        for index in (2, 0):
            store.save(index, "kept")
        seen = []
        part = run_tasks(
            draw, list("abcd"), [1.0], store=store, on_result=lambda i, _: seen.append(i)
        )
        assert part.values == ["kept", whole.values[1], "kept", whole.values[3]]
        assert part.complete
        assert seen == [0, 2, 1, 3]
        assert sorted(store.finished()) == [0, 1, 2, 3]

    @pytest.mark.parametrize("backend", ["sequential", "threading", "loky"])
    def test_every_task_has_one_thread(self, backend):
        with joblib.parallel_config(backend, n_jobs=2):
            assert set(run_tasks(busy_threads, range(4)).values) == {(1, 1)}

    def test_threads_come_back_after_overlapping_tasks(self):
        before = [p["num_threads"] for p in threadpool_info()]
        first, second = one_thread(), one_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert all(p["num_threads"] == 1 for p in threadpool_info())
        second.__exit__(None, None, None)
        assert [p["num_threads"] for p in threadpool_info()] == before

    def test_stop_drops_the_rest(self):
        seen = []
        outcome = run_tasks(
            draw,
            range(50),
            [1.0],
            on_result=lambda i, v: seen.append(i),
            stop=lambda: len(seen) >= 3,
        )
        assert outcome.indices == [0, 1, 2]
        assert not outcome.complete

    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_error_names_its_task(self, n_jobs):
        with pytest.raises(ValueError, match="no good") as caught:
            run_tasks(fail_at_two, range(4), n_jobs=n_jobs)
        assert "task 3 of 4" in str(caught.value.__notes__)

    def test_a_rule_that_the_kept_tasks_satisfy_runs_nothing(self, tmp_path):
        store = TaskStore(tmp_path, "draws", "run", {})
        store.save(1, "kept")
        outcome = run_tasks(fail_at_two, range(4), store=store, stop=lambda: True)
        assert outcome == ([1], ["kept"], False)

    def test_progress_bar(self, capsys):
        run_tasks(draw, range(3), [1.0], progress=True, name="folds")
        assert "folds" in capsys.readouterr().err


class TestSameEverywhere:
    @pytest.fixture
    def reference(self, data):
        X, y, runs = data
        return cross_validate(Forest(), X, y, runs, FewShotSplit(2, n_repeats=6), n_jobs=1)

    def test_processes(self, data, reference, at_once):
        X, y, runs = data
        other = cross_validate(Forest(), X, y, runs, FewShotSplit(2, n_repeats=6), n_jobs=2)
        assert other.equals(reference)

    def test_threads(self, data, reference, at_once):
        X, y, runs = data
        with joblib.parallel_config("threading", n_jobs=3):
            other = cross_validate(Forest(), X, y, runs, FewShotSplit(2, n_repeats=6))
        assert other.equals(reference)

    def test_dask_cluster(self, data, reference, at_once):
        distributed = pytest.importorskip("distributed")
        X, y, runs = data
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, processes=False, dashboard_address=None
        )
        with cluster, distributed.Client(cluster), joblib.parallel_config("dask"):
            other = cross_validate(Forest(), X, y, runs, FewShotSplit(2, n_repeats=6))
            names = run_tasks(thread_name, range(4)).values
        assert other.equals(reference)
        assert all("Dask" in name for name in names)

    def test_read_only_and_f_ordered_input(self, data, reference):
        X, y, runs = data
        X = np.asfortranarray(X)
        X.flags.writeable = False
        other = cross_validate(Forest(), X, y, runs, FewShotSplit(2, n_repeats=6))
        assert other.equals(reference)

    def test_another_seed_differs(self, data, reference):
        X, y, runs = data
        cv = FewShotSplit(2, n_repeats=6)
        assert not cross_validate(Forest(), X, y, runs, cv, random_state=1).equals(reference)

    def test_drawn_seed_is_recorded(self, data):
        X, y, _ = data
        first = cross_validate(Forest(), X, y, random_state=None)
        again = cross_validate(Forest(), X, y, random_state=first.settings["random_state"])
        assert again.equals(first)


class TestSeeds:
    def test_only_unset_ones_are_set(self):
        seed = np.random.SeedSequence(3)
        pipeline = make_pipeline(StandardScaler(), Forest())
        kept = make_pipeline(StandardScaler(), Forest(random_state=7))
        drawn = seeded(pipeline, seed).get_params()["forest__random_state"]
        assert isinstance(drawn, int)
        assert drawn == seeded(pipeline, seed).get_params()["forest__random_state"]
        assert seeded(kept, seed).get_params()["forest__random_state"] == 7
        assert pipeline.get_params()["forest__random_state"] is None

    def test_folds_have_different_seeds(self, data):
        X, y, _ = data
        result = cross_validate(Forest(), X, y, cv=4, keep_models=True)
        assert len({model.random_state for model in result.models}) == 4


class TestAgainstALoop:
    def test_plain_loop_gives_the_same(self, data):
        X, y, runs = data
        result = cross_validate(LogisticRegression(), X, y, runs)
        for fold, (train, test) in enumerate(LeaveOneGroupOut().split(X, y, runs)):
            model = LogisticRegression().fit(X[train], y[train])
            rows = result.predictions[result.predictions["fold"] == fold]
            assert rows["sample"].tolist() == test.tolist()
            assert rows["group"].unique().tolist() == [fold]
            assert rows["y_pred"].tolist() == model.predict(X[test]).tolist()
            p = rows[["p_cat", "p_face", "p_house"]].to_numpy()
            np.testing.assert_allclose(p, model.predict_proba(X[test]), rtol=1e-9)
            assert result.scores["accuracy"][fold] == model.score(X[test], y[test])
            assert result.scores["n_train"][fold] == len(train)

    def test_default_splits(self, data, rng):
        X, y, runs = data
        assert len(cross_validate(LogisticRegression(), X, y).scores) == 5
        assert len(cross_validate(LogisticRegression(), X, y, runs).scores) == 4
        assert len(cross_validate(Ridge(), X, rng.normal(size=36)).scores) == 5
        few = cross_validate(LogisticRegression(), X[[0, 1, 12, 13]], y[[0, 1, 12, 13]])
        assert len(few.scores) == 2

    def test_groups_of_one_class_are_left_out_with_others_of_every_class(self, data):
        X, y, _ = data
        subjects = np.arange(len(y)) // 2  # two scans each, six of every class
        result = cross_validate(LogisticRegression(), X, y, subjects)
        held = result.predictions.groupby("fold")["y_true"].value_counts().unstack()
        assert held.to_numpy().tolist() == [[4, 4, 4]] * 3
        test = permutation_test(LogisticRegression(), X, y, subjects, n_permutations=19)
        assert "leave-one-out" not in {finding.name for finding in test.findings}
        mixed = cross_validate(LogisticRegression(), X, y, np.arange(len(y)) % 18)
        assert len(mixed.scores) == 18
        numbers = cross_validate(Ridge(), X, y == "cat", subjects)
        assert len(numbers.scores) == 5

    def test_folds_as_a_list_or_a_number(self, data):
        X, y, _ = data
        cv = StratifiedKFold(3)
        by_splitter = cross_validate(LogisticRegression(), X, y, cv=cv)
        assert cross_validate(LogisticRegression(), X, y, cv=3).equals(by_splitter)
        assert cross_validate(LogisticRegression(), X, y, cv=cv.split(X, y)).equals(by_splitter)


def test_probabilities_that_are_not_finite_are_refused(data):
    _, y, runs = data
    with (
        np.errstate(all="ignore"),
        pytest.raises(ValueError, match=r"GaussianNB has no finite answer.*constant"),
    ):
        cross_validate(GaussianNB(), np.zeros((36, 5)), y, runs, audited=())


class TestKindsOfInput:
    def test_dataframe_sparse_and_list(self, data):
        X, y, runs = data
        reference = cross_validate(LogisticRegression(), X, y, runs)
        frame = cross_validate(LogisticRegression(), pd.DataFrame(X), pd.Series(y), runs)
        assert frame.predictions["y_pred"].equals(reference.predictions["y_pred"])
        np.testing.assert_allclose(frame.probabilities(), reference.probabilities(), rtol=1e-6)
        thin = cross_validate(LogisticRegression(), sparse.csr_matrix(X), y, runs)
        assert thin.predictions["y_pred"].equals(reference.predictions["y_pred"])
        rows = cross_validate(LogisticRegression(), list(X), y.tolist(), runs.tolist())
        assert rows.equals(reference)

    def test_gram_matrix(self, data):
        X, y, runs = data
        gram = cross_validate(SVC(kernel="precomputed"), X @ X.T, y, runs)
        plain = cross_validate(SVC(kernel="linear"), X, y, runs)
        assert gram.predictions["y_pred"].equals(plain.predictions["y_pred"])

    def test_decision_values_where_there_are_no_probabilities(self, data):
        X, y, runs = data
        result = cross_validate(LinearSVC(), X, y, runs)
        assert result.score_columns == ["d_cat", "d_face", "d_house"]
        assert result.scores["auc"].min() > 0.5
        assert result.scores["log_loss"].isna().all()
        two = np.isin(y, ["face", "house"])
        binary = cross_validate(LinearSVC(), X[two], y[two], runs[two])
        assert np.allclose(binary.predictions["d_face"], -binary.predictions["d_house"])

    def test_class_missing_in_training(self, data):
        X, y, _ = data
        folds = [(np.arange(24), np.arange(24, 36)), (np.arange(12, 36), np.arange(12))]
        result = cross_validate(
            LogisticRegression(), X, y, cv=folds, allow=["class-missing", "leave-one-out"]
        )
        assert (result.predictions.query("fold == 0")["p_house"] == 0).all()
        assert result.scores["accuracy"].tolist() == [0, 0]
        assert np.isfinite(result.scores["log_loss"]).all()

    def test_groups_and_weights_reach_fit(self, data):
        X, y, runs = data
        weight = np.linspace(1, 2, 36)
        estimator = Remembers()
        result = cross_validate(
            estimator, X, y, runs, fit_params={"sample_weight": weight}, keep_models=True
        )
        for (train, _), model in zip(LeaveOneGroupOut().split(X, y, runs), result.models):
            assert np.array_equal(model.groups_, runs[train])
            assert np.array_equal(model.weight_, weight[train])

    def test_groups_reach_a_search_and_a_step(self, data):
        X, y, runs = data
        search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=LeaveOneGroupOut())
        result = cross_validate(search, X, y, runs, keep_models=True)
        assert [m.n_splits_ for m in result.models] == [3, 3, 3, 3]
        pipeline = make_pipeline(StandardScaler(), Remembers())
        kept = cross_validate(pipeline, X, y, runs, keep_models=True).models
        assert all(len(np.unique(m[-1].groups_)) == 3 for m in kept)

    def test_regression(self, data, rng):
        X = data[0]
        age = 40 + X[:, 0] * 10 + rng.normal(size=36)
        result = cross_validate(Ridge(), X, age, cv=4)
        assert result.task == "regression"
        assert result.classes == ()
        assert result.scores.columns.tolist() == ["fold", "n_train", "n_test", "r2", "mae"]
        assert result.summary()["scores"]["r2"]["pooled"] > 0.3


class Remembers(ClassifierMixin, BaseEstimator):
    """Keeps what it was given."""

    def fit(self, X, y, groups=None, sample_weight=None):
        self.classes_ = np.unique(y)
        self.groups_, self.weight_ = groups, sample_weight
        return self

    def predict(self, X):
        return np.repeat(self.classes_[:1], len(X))


class Interrupts(Remembers):
    """Behaves like a user who presses Ctrl-C during the third fold."""

    count = 0

    def fit(self, X, y):
        type(self).count += 1
        if type(self).count == 3:
            raise KeyboardInterrupt
        return super().fit(X, y)


def wait_long(task, seed):
    """Say which process this is, at once for the first two."""
    if task >= 2:
        threading.Event().wait(60)
    return os.getpid()


def runs(process):
    """Whether there is a process of this number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


class TestInterrupt:
    def test_finished_folds_are_kept(self, data):
        X, y, runs = data
        Interrupts.count = 0
        result = cross_validate(Interrupts(), X, y, runs)
        assert not result.complete
        assert result.scores["fold"].tolist() == [0, 1]
        assert not result.summary()["complete"]

    def test_nothing_finished_is_an_interrupt(self, data):
        X, y, runs = data
        Interrupts.count = 2
        with pytest.raises(KeyboardInterrupt):
            cross_validate(Interrupts(), X, y, runs)

    @pytest.mark.skipif(os.name != "posix", reason="looks for a process by its number")
    def test_workers_are_stopped(self, at_once):
        # Where the tests run in the background of a shell, Ctrl-C is ignored.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            self._stop_workers()
        finally:
            signal.signal(signal.SIGINT, before)

    def _stop_workers(self):
        timer = threading.Timer(0.2, _thread.interrupt_main)
        seen = []

        def start_clock(index, value):
            seen.append(index)
            if len(seen) == 2:
                timer.start()

        outcome = run_tasks(wait_long, range(6), n_jobs=2, on_result=start_clock)
        assert outcome.indices == [0, 1]
        assert not outcome.complete
        here, worker = outcome.values
        assert here == os.getpid()
        assert not runs(worker)


def kill_itself(task, seed, parent):
    """Die as the kernel's out-of-memory killer lets a process die, in a worker only."""
    if task == 4 and os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def use_too_much(task, seed):
    if task == 2:
        raise MemoryError("Unable to allocate 7 TiB")
    return task


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL")
class TestMemory:
    def test_a_killed_worker_is_told_with_what_is_kept(self, tmp_path, at_once):
        store = TaskStore(tmp_path, "folds", "run", {})
        options = {"n_jobs": 2, "name": "folds", "store": store}
        with pytest.raises(OutOfMemoryError, match=r"worker process was killed.* memory") as caught:
            run_tasks(kill_itself, range(40), [os.getpid()], **options)
        error = caught.value
        assert (error.name, error.n_tasks, error.kept) == ("folds", 40, True)
        assert error.n_finished == len(store.finished()) < 40
        assert "n_jobs" in str(error)
        options["n_jobs"] = 1
        again = run_tasks(kill_itself, range(40), [os.getpid()], **options)
        assert again.values == list(range(40))

    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_memory_that_runs_out_in_a_task_is_told_alike(self, n_jobs):
        with pytest.raises(OutOfMemoryError, match=r"of 4 folds had finished, and nothing is kept"):
            run_tasks(use_too_much, range(4), n_jobs=n_jobs, name="folds")

    def test_the_error_can_be_pickled(self):
        error = OutOfMemoryError("Memory ran out", "folds", 3, 5, True)
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
        assert "3 of 5 folds had finished and are kept" in str(error)


class TestBadInput:
    def test_one_class(self, data):
        with pytest.raises(ValueError, match="at least 2 classes"):
            cross_validate(LogisticRegression(), data[0], np.zeros(36, dtype=int))

    def test_neither_classifier_nor_regressor(self, data):
        with pytest.raises(TypeError, match="ClassifierMixin"):
            cross_validate(StandardScaler(), *data[:2])

    def test_lengths(self, data):
        with pytest.raises(ValueError, match="inconsistent"):
            cross_validate(LogisticRegression(), data[0], data[1][:-1])

    def test_single_scan_of_a_class(self, data):
        with pytest.raises(ValueError, match=r"label of 1 of 13 scans.*Decoder\.fit in Python"):
            cross_validate(LogisticRegression(), data[0][:13], data[1][:13])

    def test_single_group(self, data):
        with pytest.raises(ValueError, match=r"one group, .*Decoder\.fit in Python"):
            cross_validate(LogisticRegression(), *data[:2], np.zeros(36))

    @pytest.mark.parametrize("cv", [[], [(np.arange(5), np.array([], dtype=int))]])
    def test_empty_folds(self, data, cv):
        with pytest.raises(ValueError, match=r"[Ff]old"):
            cross_validate(LogisticRegression(), *data[:2], cv=cv)


def test_numbers_are_split_into_five_folds_as_the_command_says(rng):
    """What ``--help`` says of the split "auto" holds for classes and for numbers."""
    X = rng.normal(size=(23, 4))
    for model, y in ((Ridge(), X[:, 0]), (LogisticRegression(), np.arange(23) % 2)):
        result = cross_validate(model, X, y)
        assert len(result.scores) == 5
        assert sorted(result.predictions["sample"]) == list(range(23))
    assert len(cross_validate(Ridge(), X[:3], X[:3, 0]).scores) == 3
    with pytest.raises(ValueError, match=r"single scan cannot both train and test"):
        cross_validate(Ridge(), X[:1], X[:1, 0])


def test_numbers_with_a_distribution(rng, tmp_path):
    """Intervals and densities of a model that has them become columns and scores."""
    X = rng.normal(size=(30, 12))
    y = X[:, 0] + 0.3 * rng.normal(size=30)
    result = cross_validate(AutoRegressor(), X, y, cv=5)
    table = result.predictions
    inside = (table["low"] <= table["y_true"]) & (table["y_true"] <= table["high"])
    pooled = result.pooled()
    assert result.score_names == ["r2", "mae", "log_density", "interval_coverage"]
    assert pooled["interval_coverage"] == inside.mean()
    assert pooled["log_density"] == pytest.approx(table["log_density"].mean())
    assert result.table().loc["log_density", "low"] < pooled["log_density"]
    test = table["sample"].to_numpy()[table["fold"] == 0]
    train = np.setdiff1d(np.arange(30), test)
    model = AutoRegressor().fit(X[train], y[train])
    np.testing.assert_allclose(
        table.loc[table["fold"] == 0, ["low", "high"]], model.predict_interval(X[test])
    )
    kept = cross_validate(AutoRegressor(), X, y, cv=5, folder=tmp_path)
    again = cross_validate(AutoRegressor(), X, y, cv=5, folder=tmp_path)
    assert kept.equals(result)
    assert again.equals(result)
    plain = cross_validate(Ridge(), X, y, cv=5)
    assert plain.score_names == ["r2", "mae"]
    inner = make_pipeline(StandardScaler(with_std=False), AutoRegressor())
    for steps in (inner, make_pipeline("passthrough", inner)):  # as where covariates are taken out
        assert cross_validate(steps, X, y, cv=5).pooled() == pytest.approx(pooled)
    asked = permutation_test(AutoRegressor(), X, y, cv=5, score="log_density", n_permutations=3)
    assert np.isfinite(asked.observed)


def test_an_interrupt_after_the_last_task_is_not_lost():
    def interrupt(index, value):
        if index == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_tasks(_number, [0, 1, 2], on_result=interrupt)
    assert run_tasks(_number, [0, 1, 2, 3], on_result=interrupt).indices == [0, 1, 2]


def _number(task, seed):
    return task
