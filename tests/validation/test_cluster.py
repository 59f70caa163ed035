"""Tasks on Dask workers: the same results as in one process, also where workers die."""

import asyncio
import gc
import os
import pickle
import signal
import socket
import stat
import struct
import threading
import time
from concurrent.futures import CancelledError
from contextlib import suppress

import joblib
import numpy as np
import pytest

from voxprior import GPClassifier
from voxprior.errors import InputError, InputWarning, OutOfMemoryError
from voxprior.validation import Cluster, cluster, cross_validate, permutation_test, run
from voxprior.validation.cluster import Sent
from voxprior.validation.run import run_tasks

distributed = pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")
from distributed import comm  # noqa: E402
from distributed.protocol import dumps  # noqa: E402
from distributed.security import Security  # noqa: E402


@pytest.fixture
def threads(at_once, monkeypatch):
    """A cluster whose workers are threads of this process: started at once."""
    real = distributed.LocalCluster

    def quick(**options):
        return real(**options | {"processes": False})

    monkeypatch.setattr(distributed, "LocalCluster", quick)


def where(task, seed, scale):
    time.sleep(0.01)
    return os.getpid(), float(scale[0] * np.random.default_rng(seed).random())


def test_loops_run_on_the_workers_and_give_the_same(threads):
    told = []
    alone = run_tasks(where, range(12), [np.ones(5)]).values
    with Cluster("local:2", tell=told.append, dashboard=True) as workers:
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
    for package in ("distributed", "cryptography"):
        monkeypatch.setattr(
            cluster, "find_spec", lambda name, absent=package: name != absent or None
        )
        with Cluster():
            pass  # nothing was asked for
        told = rf"need {package}, which.*pip install 'voxprior\[dask\]'"
        with pytest.raises(InputError, match=told), Cluster("local:2"):
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


def framed(message):
    """A message as Dask frames it."""
    frames = dumps(message)
    head = struct.pack(f"<{len(frames) + 1}Q", len(frames), *map(len, frames))
    return struct.pack("<Q", len(head) + sum(map(len, frames))) + head + b"".join(frames)


HANDSHAKE = framed({"compression": None, "python": (3, 11, 7), "pickle-protocol": 5})
RUBBISH = {
    "nothing": [b""],
    "another protocol": [b"HTTP/1.1 400 Bad Request\r\n\r\n"],
    "zeros": [bytes(4096)],
    "noise": [np.random.default_rng(0).bytes(4096)],
    "gigabytes to come": [(3 * 10**9).to_bytes(8, "little") + bytes(1000)],
    "noise after the handshake": [HANDSHAKE, np.random.default_rng(1).bytes(4096)],
    "another identity": [HANDSHAKE, framed({"type": "Worker"})],
    "a list": [HANDSHAKE, framed([1, 2])],
    "a scheduler, then noise": [
        HANDSHAKE, framed({"type": "Scheduler"}), np.random.default_rng(2).bytes(99)
    ],
}  # fmt: skip


@pytest.mark.parametrize("answers", RUBBISH.values(), ids=RUBBISH)
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_rubbish_is_not_a_scheduler(monkeypatch, capfd, answers):
    monkeypatch.setattr(cluster, "PATIENCE", 0.5)

    def serve(server):
        with suppress(OSError):
            while True:
                with server.accept()[0] as call:
                    for answer in answers:
                        call.sendall(answer)
                        time.sleep(0.1)
                        call.recv(2**16)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(InputError, match="No scheduler answers") as caught:
            Cluster(scheduler=address).__enter__()
        server.shutdown(socket.SHUT_RDWR)
    assert "\n" not in str(caught.value)
    caught.value.__cause__.__traceback__ = None
    gc.collect()  # a client that never connected says nothing at its end
    assert "Traceback" not in capfd.readouterr().err


def test_workers_are_alone_with_their_command():
    before = dict(os.environ)
    with Cluster("local:1") as workers:
        client = workers.client
        assert dict(os.environ) == before
        folder = client.submit(worker_folder).result()
        assert stat.S_IMODE(os.stat(workers._folder.name).st_mode) == 0o700
        assert folder.startswith(workers._folder.name)
        address = client.scheduler.address
        assert address.startswith("tls://127.0.0.1:")
        with pytest.raises(OSError):  # another user's client, without a certificate
            asyncio.run(comm.connect(address.replace("tls", "tcp"), timeout=1))
        own = Security.temporary().get_connection_args("client")  # and with one of their own
        with pytest.raises(OSError):
            asyncio.run(comm.connect(address, timeout=1, **own))
        listening = listening_sockets()
        assert len(listening) >= 2
        for place in listening:
            assert place[0] == "127.0.0.1"
            assert not answer_of_a_page(place)
        assert client.submit(sum, [1, 2]).result() == 3
    assert not os.path.exists(folder)


def worker_folder():
    return distributed.get_worker().local_directory


def listening_sockets():
    me = psutil.Process()
    parts = [me, *me.children(recursive=True)]
    found = [one for part in parts for one in part.net_connections(kind="inet")]
    return [tuple(one.laddr) for one in found if one.status == psutil.CONN_LISTEN]


def answer_of_a_page(place):
    with socket.create_connection(place, timeout=5) as call, suppress(OSError):
        call.sendall(b"GET /info/main/workers.html HTTP/1.0\r\n\r\n")
        return call.recv(100)


def test_the_dashboard_is_on_the_loopback_only_where_it_is_asked_for(threads):
    for dashboard in (False, True):
        with Cluster("local:1", dashboard=dashboard) as workers:
            workers.client.submit(sum, [1, 2]).result()
            pages = [place for place in listening_sockets() if answer_of_a_page(place)]
            assert [place[0] for place in pages] == ["127.0.0.1"] * dashboard


def test_an_address_without_a_secret_says_what_it_means(monkeypatch):
    served = distributed.LocalCluster(
        n_workers=1, processes=False, protocol="tcp://", dashboard_address="127.0.0.1:0"
    )
    with served, pytest.warns(InputWarning, match="whoever reaches it can run code as"):
        Cluster(scheduler=served.scheduler_address).__enter__().__exit__()


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
    monkeypatch.setattr(cluster, "_end_pages", lambda worker: None)
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
