"""Tasks on Dask workers: the same results as in one process, also where workers die."""

import os
import pickle
import signal
import socket
import threading
import time
from concurrent.futures import CancelledError

import joblib
import numpy as np
import pytest

from voxprior import GPClassifier
from voxprior.errors import InputError, OutOfMemoryError
from voxprior.validation import Cluster, cluster, cross_validate, permutation_test, run
from voxprior.validation.cluster import Sent
from voxprior.validation.run import run_tasks

distributed = pytest.importorskip("distributed")


@pytest.fixture
def threads(at_once, monkeypatch):
    """A cluster whose workers are threads of this process: started at once."""
    real = distributed.LocalCluster

    def quick(**options):
        return real(**options | {"processes": False, "dashboard_address": None})

    monkeypatch.setattr(distributed, "LocalCluster", quick)


def where(task, seed, scale):
    time.sleep(0.01)
    return os.getpid(), float(scale[0] * np.random.default_rng(seed).random())


def test_loops_run_on_the_workers_and_give_the_same(threads):
    told = []
    alone = run_tasks(where, range(12), [np.ones(5)]).values
    with Cluster("local:2", tell=told.append) as workers:
        found = run_tasks(where, range(12), [np.ones(5)])
        again = run_tasks(where, range(12), [np.ones(5)])
        assert workers.started
        assert workers.n_workers == 2
    assert found.complete
    assert found.values == again.values == alone
    assert len(told) == 1
    assert told[0].startswith("Dask dashboard: ")
    assert not workers.started
    assert cluster.active_cluster() is None


def test_short_work_stays_in_the_process(monkeypatch):
    monkeypatch.setattr(run, "SECONDS_HERE", np.inf)  # however slow the machine is
    with Cluster("local:2") as workers:
        assert len(run_tasks(where, range(12), [np.ones(1)]).values) == 12
        assert not workers.started


def test_what_was_asked_for_is_checked(monkeypatch):
    for wrong in ("two", "local", "local:0", "local:x", "tcp://host:1"):
        with pytest.raises(InputError, match=r"cluster=.* is not known.*local:4"):
            Cluster(wrong)
    with pytest.raises(InputError, match="exclude each other"):
        Cluster("local:2", "tcp://host:1")
    monkeypatch.setattr(cluster, "PATIENCE", 0.2)
    for address in ("tcp://127.0.0.1:9", "nonsense", "http://127.0.0.1:80"):
        nobody = Cluster(scheduler=address)
        told = rf"No scheduler answers at scheduler='{address}'"
        with pytest.raises(InputError, match=told), nobody:
            pass  # told before any work
        assert not nobody.started
        assert cluster.active_cluster() is None
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    with Cluster():
        pass  # nothing was asked for
    with pytest.raises(InputError, match=r"pip install 'voxprior\[dask\]'"), Cluster("local:2"):
        pass


def test_a_scheduler_without_workers_is_told(monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 1)
    alone = distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None)
    # Of one process only by its port.
    address = alone.scheduler_address
    monkeypatch.setattr("distributed.comm.get_address_host_port", lambda address: None)
    with alone, pytest.raises(InputError, match="has no workers"), Cluster(scheduler=address):
        pass


def test_a_server_that_says_nothing_is_told(monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(InputError, match="No scheduler answers"), Cluster(scheduler=address):
            pass
    with pytest.raises(InputError, match="no certificate"), Cluster(scheduler="tls://127.0.0.1:9"):
        pass


def test_workers_leave_the_environment_as_it_was():
    before = dict(os.environ)
    with Cluster("local:1") as workers:
        workers.client  # noqa: B018 - starts them
        assert dict(os.environ) == before


def test_a_scheduler_that_has_gone_is_told(threads, monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 0.1)
    with Cluster("local:2") as workers, pytest.raises(InputError, match="scheduler has gone"):
        run_tasks(
            where, range(40), [np.ones(1)], on_result=lambda i, v: i == 9 and workers.client.close()
        )


def test_a_result_that_went_with_its_worker_is_made_again(threads, tmp_path):
    with Cluster("local:2"):
        found = run_tasks(cancelled_once, range(4), [str(tmp_path / "seen")])
    assert found.values == [0, 1, 2, 3]


def cancelled_once(task, seed, memory):
    if not os.path.exists(memory):
        open(memory, "w").close()
        raise CancelledError("already forgotten")
    return task


def test_workers_leave_ctrl_c_to_the_command(monkeypatch):
    given: list[tuple] = []
    monkeypatch.setattr(cluster.signal, "signal", lambda *what: given.append(what))
    cluster.dask_setup(None)
    assert given == [(signal.SIGINT, signal.SIG_IGN)]
    other = threading.Thread(target=cluster.dask_setup, args=(None,))
    other.start()  # a worker that is a thread: the process is not its own
    other.join()
    assert len(given) == 1


def refuse(task, seed):
    raise InputError(f"Task {task} is no good")


def test_errors_of_tasks_come_through(threads):
    with Cluster("local:2"), pytest.raises(InputError, match="is no good") as caught:
        run_tasks(refuse, range(2))
    assert "task" in str(caught.value.__notes__)


def test_a_rule_stops_the_rest(threads):
    seen = []
    with Cluster("local:2"):
        outcome = run_tasks(
            where, range(40), [np.ones(1)], on_result=lambda i, v: seen.append(i),
            stop=lambda: len(seen) >= 5,
        )  # fmt: skip
    assert len(outcome.indices) == 5
    assert not outcome.complete


def test_arrays_arrive_aligned():
    sent = Sent([np.arange(7.0), {"X": np.ones((3, 2), np.float32)}, "text", lambda x: x + 1])
    parts: list[pickle.PickleBuffer] = []
    written = pickle.dumps(sent, protocol=5, buffer_callback=parts.append)
    off = [np.frombuffer(b"x" + bytes(part), np.uint8)[1:] for part in parts]  # as messages do
    for form in (pickle.loads(written, buffers=off), pickle.loads(pickle.dumps(sent, protocol=5))):
        x, nested, text, plus_one = form.arguments
        assert x.flags.aligned
        assert nested["X"].flags.aligned
        np.testing.assert_array_equal(x, np.arange(7.0))
        np.testing.assert_array_equal(nested["X"], 1.0)
        assert (text, plus_one(1)) == ("text", 2)


class Forgetful:
    """A backend that loses what it was sent, some times."""

    def __init__(self, times):
        self.times = times

    def __call__(self, backend, error):
        self.times -= 1
        return self.times >= 0


def lose_first(task, seed, memory):
    if not os.path.exists(memory):
        open(memory, "w").close()
        raise RuntimeError("the data have gone")
    return task


def test_lost_data_are_sent_again(threads, monkeypatch, tmp_path):
    monkeypatch.setattr(cluster, "_lost", Forgetful(1))
    with Cluster("local:2"):
        assert run_tasks(lose_first, range(4), [str(tmp_path / "seen")]).values == [0, 1, 2, 3]
        with pytest.raises(FileNotFoundError):  # not by loss
            run_tasks(lose_first, range(4), [str(tmp_path / "never" / "seen")])


def always_lost(task, seed):
    raise RuntimeError("the data have gone")


@pytest.mark.parametrize("n_deaths", [1, cluster.MOST_LOSSES + 1])
def test_a_worker_may_die_while_data_are_sent(threads, monkeypatch, n_deaths):
    real, deaths = distributed.Client.scatter, iter(range(n_deaths))

    def dies(client, *given, **named):
        if next(deaths, None) is not None:
            raise KeyError("tcp://127.0.0.1:1")  # what the scheduler says of a worker that has gone
        return real(client, *given, **named)

    monkeypatch.setattr(distributed.Client, "scatter", dies)
    with Cluster("local:2"):
        if n_deaths > cluster.MOST_LOSSES:
            with pytest.raises(KeyError):
                run_tasks(where, range(12), [np.ones(5)])
        else:
            found = run_tasks(where, range(12), [np.ones(5)])
            assert found.values == run_tasks(where, range(12), [np.ones(5)]).values


@pytest.mark.parametrize("n_deaths", [1, cluster.MOST_LOSSES + 1])
def test_a_worker_may_die_while_it_is_started(threads, monkeypatch, n_deaths):
    quick, deaths = distributed.LocalCluster, iter(range(n_deaths))

    def dies(**options):
        if next(deaths, None) is not None:
            raise RuntimeError("Nanny failed to start.")
        return quick(**options)

    monkeypatch.setattr(distributed, "LocalCluster", dies)
    with Cluster("local:2"):
        if n_deaths > cluster.MOST_LOSSES:
            with pytest.raises(RuntimeError, match="failed to start"):
                run_tasks(where, range(12), [np.ones(5)])
        else:
            assert run_tasks(where, range(12), [np.ones(5)]).complete


def test_losses_without_end_are_told(threads, monkeypatch):
    monkeypatch.setattr(cluster, "_lost", lambda backend, error: True)
    with Cluster("local:2"), pytest.raises(RuntimeError, match="gone"):
        run_tasks(always_lost, range(2))


def test_a_task_that_kills_its_workers_is_out_of_memory(threads):
    def give_up(task, seed):
        raise distributed.KilledWorker("task", None, 3)

    with Cluster("local:2"), pytest.raises(OutOfMemoryError, match="was killed"):
        run_tasks(give_up, range(2))


def kill_worker_once(task, seed, X, victims, memory, parent):
    """Die before certain tasks have finished, once each, and in a worker only."""
    mark = f"{memory}-{task}"
    if task in victims and os.getpid() != parent and not os.path.exists(mark):
        open(mark, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return float(X.sum() * np.random.default_rng(seed).random())


@pytest.mark.slow
@pytest.mark.parametrize("victims", [[5], [3, 4]])
def test_a_killed_worker_changes_nothing(at_once, tmp_path, victims):
    # Two that die together take the shared data with them.
    X, mark = np.random.default_rng(0).normal(size=(200, 1000)), str(tmp_path / "killed")
    shared = [X, victims, mark, os.getpid()]
    alone = run_tasks(kill_worker_once, range(20), shared).values
    with Cluster("local:2"):
        found = run_tasks(kill_worker_once, range(20), shared)
    assert len(list(tmp_path.iterdir())) == len(victims)
    assert found.values == alone


@pytest.mark.slow
def test_processes_and_clusters_give_the_same_bytes(at_once):
    rng = np.random.default_rng(0)
    y, runs = np.tile([0, 1], 12), np.repeat(np.arange(6), 4)
    X = rng.normal(size=(24, 300)) + 0.3 * y[:, None]

    def everything():
        result = cross_validate(GPClassifier(), X, y, runs)
        test = permutation_test(
            GPClassifier(), X, y, runs, test="refit", n_permutations=12, stop_after=None
        )
        return result, test

    result, test = everything()
    with Cluster("local:2"):
        on_cluster = everything()
    with joblib.parallel_config("loky", n_jobs=2):
        by_processes = everything()
    served = distributed.LocalCluster(n_workers=2, dashboard_address=None)
    with served, Cluster(scheduler=served.scheduler_address):
        by_address = everything()
    for other, null in (on_cluster, by_processes, by_address):
        assert other.equals(result)
        assert null.p_value == test.p_value
        np.testing.assert_array_equal(null.null, test.null)
