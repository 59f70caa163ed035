"""Tasks on many machines: workers of Dask, on this machine or at a scheduler.

Within ``with Cluster("local:4"):`` or ``with Cluster(scheduler="tcp://host:8786"):`` every loop of
tasks (folds, relabellings, points of a learning curve) that takes longer than a second runs on the
workers. What all tasks share is sent to them once per loop; results do not depend on where a task
ran. A scheduler is called at once; workers of this machine are started by the first loop that needs
them.

Dask runs the tasks of a worker that died again, elsewhere. If the shared data died with it, they
are sent again and the tasks that are left go on. A scheduler that died ends the work.

Who reaches a scheduler of Dask can run code as its owner. Workers of this machine therefore speak
TLS on the loopback, by a certificate that exists in memory for this one cluster, and keep what they
put on disk in a folder of their own; a scheduler that was started elsewhere has the protection that
it was started with.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any
from uuid import uuid4

import joblib
import numpy as np
from joblib.parallel import BACKENDS, get_active_backend

from voxprior.errors import InputError, InputWarning, option

# Seconds that a scheduler has to answer, and to have workers.
PATIENCE = 10
# So often the shared data may be lost without a single task finished in between.
MOST_LOSSES = 3
LOOPBACK = "127.0.0.1"

_active: list[Cluster] = []
_in_task: ContextVar[bool] = ContextVar("in_task", default=False)
_turn = threading.Lock()


class Cluster:
    """Workers for all loops of tasks within a ``with`` block.

    Parameters
    ----------
    cluster : str, optional
        "local:4" for four worker processes on this machine.
    scheduler : str, optional
        Address of a running scheduler, "tcp://host:8786". Its workers need this package.
    tell : callable, optional
        Called with the address of the dashboard, where there is one, once there are workers.
    dashboard : bool
        Let the workers of this machine show what they do on a page. It has no password: every user
        of this machine can read it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from voxprior.validation import Cluster, cross_validate
    >>> with Cluster("local:2"):  # too little to start workers for
    ...     result = cross_validate(GaussianNB(), *load_iris(return_X_y=True), cv=8)
    >>> result.complete
    True
    """

    def __init__(
        self,
        cluster: str | None = None,
        scheduler: str | None = None,
        tell: Callable[[str], None] | None = None,
        dashboard: bool = False,
    ):
        self.n_local = None if cluster is None else _number_of_workers(cluster)
        self.scheduler, self.tell, self.dashboard = scheduler, tell, dashboard
        self._client: Any = None
        self._local: Any = None
        self._folder: Any = None
        if cluster is not None and scheduler is not None:
            raise InputError(
                f"{option('cluster')} and {option('scheduler')} exclude each other",
                remedy=f"Leave out {option('cluster')} to use the workers of the scheduler",
            )

    def __enter__(self) -> Cluster:
        if self.n_local is not None or self.scheduler is not None:
            for package in ("distributed", "cryptography"):
                if find_spec(package) is None:
                    raise InputError(
                        f"Workers of Dask need {package}, which is not installed",
                        remedy="Install it by pip install 'voxprior[dask]'",
                    )
            if self.scheduler is not None:
                self.client  # noqa: B018 - a missing answer is reported before any work
            _active.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self not in _active:  # never entered, or this process was forked inside the block
            return
        _active.remove(self)
        for part in (self._client, self._local):
            if part is not None:
                part.close()
        if self._folder is not None:
            self._folder.cleanup()
        self._client = self._local = self._folder = None

    @property
    def started(self) -> bool:
        """Whether there are workers by now."""
        return self._client is not None

    @property
    def client(self) -> Any:
        """Client of Dask; workers are started, or the scheduler is found, by the first call."""
        if self._client is None:
            if self.scheduler is None:
                from distributed import Client

                self._folder = tempfile.TemporaryDirectory(
                    prefix="voxprior-", ignore_cleanup_errors=True
                )
                self._local = _local_workers(self.n_local, self.dashboard, self._folder.name)
                self._client = Client(self._local, set_as_default=False)
            else:
                self._client = _connected(self.scheduler)
            if self.tell is not None and (self.dashboard or self.scheduler is not None):
                self.tell(f"Dask dashboard: {self._client.dashboard_link}")
        return self._client

    @property
    def n_workers(self) -> int:
        """How many tasks can run side by side."""
        return self.n_local or max(1, sum(self.client.ncores().values()))


def _number_of_workers(text: str) -> int:
    """Return the number of "local:4".

    >>> _number_of_workers("local:4")
    4
    """
    kind, _, number = text.partition(":")
    if kind != "local" or not number.isdecimal() or int(number) < 1:
        raise InputError(
            f"{option('cluster', text)} is not known",
            expected="local: and a number of workers, for instance local:4",
            remedy=f"For workers of other machines give the address of their scheduler, "
            f"{option('scheduler', 'tcp://host:8786')}",
        )
    return int(number)


def _local_workers(number: int | None, dashboard: bool, folder: str) -> Any:
    """Worker processes of this machine; faults are reported by us, not in logs of Dask."""
    import dask
    from distributed import LocalCluster
    from distributed.security import Security

    options = {"n_workers": number, "threads_per_worker": 1, "host": LOOPBACK}
    options |= {"dashboard_address": f"{LOOPBACK}:0", "local_directory": folder}
    settings: dict[str, Any] = {"distributed.worker.preload": [__name__]}
    settings["distributed.worker.http.routes"] = []
    if not dashboard:
        settings["distributed.scheduler.http.routes"] = []
    for losses in range(MOST_LOSSES + 1):
        try:
            with dask.config.set(settings), _own_environment():
                security = Security.temporary()
                made = LocalCluster(**options, security=security, silence_logs=logging.CRITICAL)
            if not dashboard:
                _end_pages(made.scheduler)
            return made
        except RuntimeError:  # a worker died while it was started
            if losses == MOST_LOSSES:
                raise
    return None


def _end_pages(server: Any) -> None:
    """Close the server of pages that every part of Dask starts, with no secret."""
    server.loop.add_callback(server.http_server.stop)


@contextmanager
def _own_environment() -> Iterator[None]:
    """Take back what Dask sets for its workers, threads of libraries above all, in this process."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def dask_setup(worker: Any) -> None:
    """Close the pages of a worker, and leave Ctrl-C to the process that started it.

    Dask calls this in every new one.
    """
    _end_pages(worker)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _connected(address: str) -> Any:
    """Client of a scheduler that answers and has workers."""
    import dask
    from distributed import Client
    from distributed.comm import get_address_host_port

    class ClosedByHand(Client):
        def __del__(self) -> None:
            """Leave one that never connected alone: it would wait for itself, with a warning."""

    try:
        get_address_host_port(address)  # a client with a wrong address would not close
        if address.startswith("tls:") and not dask.config.get("distributed.comm.tls.ca-file", None):
            raise ValueError("no certificate is configured, distributed.comm.tls.ca-file")
        _in_time(lambda: asyncio.run(_asked(address)))
        client = _in_time(lambda: ClosedByHand(address, timeout=PATIENCE, set_as_default=False))
    except Exception as error:  # whatever listens there may answer anything
        raise InputError(
            f"No scheduler answers at {option('scheduler', address)}",
            expected="the address of a running Dask scheduler, for instance tcp://host:8786",
            got=" ".join(f"{error or type(error).__name__}".split()).rstrip("."),
            remedy="Start one by `dask scheduler`, and `dask worker` on every machine",
        ) from error
    if address.startswith("tcp:"):
        told = f"{option('scheduler', address)} has no secret: whoever reaches it can run code as"
        told = f"{told} you, and as those who started it and its workers."
        warnings.warn(
            InputWarning(f"{told} Keep it on a closed network, or use tls://."), stacklevel=5
        )
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError as error:
        client.close()
        raise InputError(
            f"The scheduler at {option('scheduler', address)} has no workers",
            remedy=f"Start some by `dask worker {address}`",
        ) from error
    return client


async def _asked(address: str) -> None:
    """Ask what listens there whether it is a scheduler; a client would go on asking at its end."""
    from distributed.comm import connect
    from distributed.security import Security

    secret = Security().get_connection_args("client")
    comm = await connect(address, timeout=PATIENCE, **secret)
    try:
        await comm.write({"op": "identity", "reply": True})
        answer = await asyncio.wait_for(comm.read(), PATIENCE)
    finally:
        comm.abort()
    if not isinstance(answer, dict) or answer.get("type") != "Scheduler":
        raise ValueError("what is not an answer of a scheduler")


def _in_time(connect: Callable[[], Any]) -> Any:
    """What a function returns; an error after twice `PATIENCE`.

    Dask would wait for ever for a server that takes the call and never answers.
    """
    made: dict[str, Any] = {}

    def call() -> None:
        try:
            made["client"] = connect()
        except BaseException as error:
            made["error"] = error

    caller = threading.Thread(target=call, daemon=True)
    caller.start()
    caller.join(2 * PATIENCE)
    if "error" in made:
        raise made["error"]
    if "client" not in made:
        raise TimeoutError(f"no answer in {2 * PATIENCE} s")
    return made["client"]


@contextmanager
def within_a_task() -> Iterator[None]:
    """Keep the loops inside a task where it runs; workers might wait for each other for ever.

    Threads of one worker take turns: drawing, and the environment, belong to the whole process.
    """
    before = _in_task.set(True)
    try:
        with _turn, joblib.parallel_config("sequential"):
            yield
    finally:
        _in_task.reset(before)


def active_cluster() -> Cluster | None:
    """The cluster of the innermost ``with`` block, or of a joblib context named "dask".

    There is none `within_a_task`.
    """
    if _in_task.get():
        return None
    backend = get_active_backend()[0]
    if type(backend).__name__ == "DaskDistributedBackend" and "dask" in BACKENDS:
        given = Cluster()
        given._client = backend.client
        return given
    return _active[-1] if _active else None


def _leave_to_the_parent() -> None:
    """Forget, in a forked process, connections and locks whose threads stayed behind."""
    global _turn
    _active.clear()
    _turn = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_the_parent)


class Shared:
    """Arguments common to all tasks of a loop."""

    def __init__(self, arguments: Sequence):
        self.arguments = tuple(arguments)


class Sent(Shared):
    """The same, to be sent as one to the workers of a cluster."""

    def __dask_tokenize__(self) -> str:
        # A new name; otherwise the data would be read whole to make one.
        return uuid4().hex

    def __reduce__(self) -> tuple:
        import cloudpickle  # which Dask brings along

        buffers: list[pickle.PickleBuffer] = []
        written = cloudpickle.dumps(self.arguments, protocol=5, buffer_callback=buffers.append)
        return _received, (written, buffers)


def _received(written: bytes, buffers: Sequence) -> Shared:
    """Read what was sent, with arrays where memory for them begins.

    Messages put them anywhere, and numpy sums arrays that are not aligned in another order.
    """
    aligned = [np.frombuffer(buffer, dtype=np.uint8).copy() for buffer in buffers]
    return Sent(pickle.loads(written, buffers=aligned))


def cluster_results(
    cluster: Cluster, call: Callable, todo: Sequence[tuple], shared: Shared
) -> Iterator[tuple]:
    """What ``call(*task, shared)`` returns, an index and a value, in the order of completion.

    The first item of a task is its index.
    """
    left, losses, sent = {task[0]: task for task in todo}, 0, Sent(shared.arguments)
    client = cluster.client
    while left:
        try:
            settings = joblib.parallel_config("dask", client=client, scatter=[sent])
        except (KeyError, OSError, RuntimeError) as error:  # while the data were on their way
            losses += 1
            _refuse_disconnected(client, error)
            if losses > MOST_LOSSES:
                raise
            continue
        with settings:
            backend = get_active_backend()[0]
            parallel = joblib.Parallel(
                return_as="generator_unordered", pre_dispatch="4*n_jobs", n_jobs=-1
            )
        stream = parallel(joblib.delayed(call)(*task, sent) for task in list(left.values()))
        try:
            for index, value in stream:
                del left[index]
                losses = 0
                yield index, value
        except Exception as error:
            losses += 1
            lost = _lost(backend, error)
            _refuse_disconnected(client, error)
            if losses > MOST_LOSSES or not lost:
                raise
        finally:
            closed(stream)


def _refuse_disconnected(client: Any, error: Exception) -> None:
    """Raise if an error came because the scheduler has gone, and does not come back in time."""
    end = time.monotonic() + 2 * PATIENCE
    while client.status == "connecting" and time.monotonic() < end:
        time.sleep(0.1)
    if client.status != "running":
        raise InputError(
            "The scheduler has gone, and its workers with it",
            remedy="Start them again, then run the same: tasks that were finished and kept on disk "
            "are not run again",
        ) from error


def _lost(backend: Any, error: Exception) -> bool:
    """Whether data that were sent, or a result, are on no worker any more.

    Which of them Dask reports first depends on when the worker died.
    """
    return isinstance(error, CancelledError) or any(
        future.status in ("lost", "cancelled") for future in backend.data_futures.values()
    )


def closed(stream: Any) -> None:
    """Close a stream of results; that tasks are dropped is meant, and joblib need not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        stream.close()
