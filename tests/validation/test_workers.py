"""Workers: no more than the machine has cores or there are tasks, and none is left behind."""

import os
import signal
import subprocess
import sys
import time

import joblib
import numpy as np
import pytest
from joblib.parallel import BACKENDS, ParallelBackendBase

from voxprior.errors import InputError
from voxprior.validation import run
from voxprior.validation.run import run_tasks

ENDLESS = """
import os, sys, time
from voxprior.validation.run import run_tasks

def endless(task, seed, folder):
    open(os.path.join(folder, str(os.getpid())), "w").close()
    time.sleep(600)

if __name__ == "__main__":
    run_tasks(endless, range(4), [sys.argv[1]], n_jobs=2)
"""


@pytest.fixture
def asked(monkeypatch):
    """Record how many workers joblib is asked for."""
    seen = []
    start = joblib.Parallel

    def parallel(n_jobs, **options):
        seen.append(n_jobs)
        return start(n_jobs=1, **options)

    monkeypatch.setattr(run.joblib, "Parallel", parallel)
    monkeypatch.setattr(run.joblib, "cpu_count", lambda: 8)
    return seen


def nothing(task, seed):
    return task


@pytest.mark.parametrize(
    ("n_jobs", "n_tasks", "workers"),
    [(100_000, 50, 8), (100_000, 3, 3), (5, 50, 5), (1, 50, 1), (None, 50, 1), (4, 0, 1)],
)
def test_local_workers_are_bounded(asked, at_once, n_jobs, n_tasks, workers):
    assert run_tasks(nothing, range(n_tasks), n_jobs=n_jobs).values == list(range(n_tasks))
    assert asked == ([] if workers == 1 else [workers])  # one worker is this process


def test_short_work_asks_for_no_workers(asked, monkeypatch):
    monkeypatch.setattr(run, "SECONDS_HERE", np.inf)  # however slow the machine is
    assert run_tasks(nothing, range(50), n_jobs=8).values == list(range(50))
    assert asked == []


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_the_number_of_a_context_is_bounded_too(asked, at_once, backend):
    with joblib.parallel_config(backend, n_jobs=100_000):
        run_tasks(nothing, range(20))
    assert asked == [8]


class Cluster(ParallelBackendBase):
    """Stands for dask, which registers itself among joblib's backends too."""

    def effective_n_jobs(self, n_jobs):
        return 500


def test_a_cluster_keeps_its_number(asked, monkeypatch):
    monkeypatch.setitem(BACKENDS, "cluster", Cluster)
    with joblib.parallel_config("cluster", n_jobs=500):
        assert run._workers(None, 3) == 500


@pytest.mark.parametrize("n_jobs", [0, -2, -5, 2.0, "all", False])
def test_what_is_not_a_number_of_workers(n_jobs):
    with pytest.raises(InputError, match="Expected 1 or more, or -1 for all cores"):
        run_tasks(nothing, range(2), n_jobs=n_jobs)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as state:
            return state.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="tells processes by /proc")
@pytest.mark.skipif(joblib.cpu_count() < 2, reason="there are no workers on one core")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_a_process_that_is_killed(tmp_path, how):
    script, pids = tmp_path / "endless.py", tmp_path / "pids"
    script.write_text(ENDLESS)
    pids.mkdir()
    main = subprocess.Popen([sys.executable, str(script), str(pids)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(list(pids.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    workers = [int(path.name) for path in pids.iterdir()]
    assert len(workers) == 2
    assert main.pid not in workers
    main.send_signal(how)
    main.wait()
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(alive, workers))


@pytest.mark.slow
def test_a_worker_that_starts_too_late_ends_at_once():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    late = f"import time; from voxprior.validation.run import _end_with; _end_with({gone.pid})"
    worker = subprocess.run([sys.executable, "-c", f"{late}; time.sleep(600)"], check=False)
    assert worker.returncode == 1


@pytest.mark.parametrize(("backend", "starts"), [("loky", True), ("threading", False)])
def test_only_processes_watch(backend, starts):
    with joblib.parallel_config(backend):
        assert bool(run._first_of_workers()) is starts
