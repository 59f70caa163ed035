"""Commands with Dask workers in processes of their own: killed, left alone, stopped."""

import glob
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import save

pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="tells processes by /proc"),
]
# Workers are used however short the tasks are.
COMMAND = """
if __name__ == "__main__":
    from voxprior.validation import run
    run.SECONDS_HERE = run.SECONDS_SEEN = 0.0
    from voxprior.cli import main
    main()
"""
TIMED = ("run.json", "manifest.json")  # which hold times, or sums over files that do
PATIENCE = 240


@pytest.fixture
def study(tmp_path):
    """Maps of two groups in five runs, and a way to start commands on them."""
    rng = np.random.default_rng(0)
    y, run = np.tile(["a", "b"], 20), np.repeat(np.arange(5), 8)
    files = [f"m{number:02d}.nii.gz" for number in range(40)]
    for name, label in zip(files, y):
        values = rng.normal(size=(8, 8, 6)).astype(np.float32)
        values[2:4, 2:4, 2:4] += 1.0 * (label == "b")
        save(values, tmp_path / "maps" / name)
    table = pd.DataFrame({"file": files, "group": y, "run": run})
    table.to_csv(tmp_path / "labels.tsv", sep="\t", index=False)
    (tmp_path / "command.py").write_text(COMMAND)
    return tmp_path


def start(study, command, out, *options):
    """Start a command in a session of its own, as a shell does."""
    maps = sorted(str(path) for path in (study / "maps").iterdir())
    told = ["--labels", str(study / "labels.tsv"), "--label", "group", "--groups", "run"]
    call = [sys.executable, str(study / "command.py"), command, *maps, *told, "--out", out]
    return subprocess.Popen(
        [*call, *map(str, options)], cwd=study, start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def ended(process):
    """Exit code, and what was printed."""
    told, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, told


def done(study, command, out, *options):
    """Run a command that must succeed; returns what it wrote, to the byte, and printed."""
    code, told = ended(start(study, command, out, *options))
    assert code == 0, told
    return written(study / out), told


def written(folder):
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in TIMED]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def finished(study, out, at_least):
    """Wait until so many relabellings are on disk."""
    deadline, pattern = time.monotonic() + PATIENCE, f".{out}.partial/finished/*/relabellings.*"
    while time.monotonic() < deadline:
        found = [(study / name).read_bytes() for name in glob.glob(pattern, root_dir=study)]
        if sum(journal.count(b"\n") for journal in found) >= at_least:
            return
        time.sleep(0.05)
    raise AssertionError(f"not {at_least} relabellings within {PATIENCE} s")


def processes(session):
    """Numbers of processes of a session that live, with how each was called."""
    found = {}
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(stat, encoding="utf-8", errors="replace") as file:
                state, _, _, of = file.read().rsplit(")", 1)[1].split()[:4]
            with open(stat.replace("stat", "cmdline"), encoding="utf-8") as file:
                called = file.read()
        except OSError:  # has ended meanwhile
            continue
        if int(of) == session and state != "Z":
            found[int(stat.split("/")[2])] = called
    return found


def workers(session):
    return [pid for pid, called in processes(session).items() if "spawn_main" in called]


REFIT = ("--model", "gp", "--permutations", 40, "--test", "refit")
BATCH = ("--model", "gp", "--permutations", 9000, "--test", "batch")


@pytest.mark.parametrize(("options", "n_seen"), [(REFIT, 20), (BATCH, 10)])
def test_a_worker_killed_half_way_changes_nothing(study, options, n_seen):
    alone, _ = done(study, "decode", "one", *options)
    process = start(study, "decode", "two", *options, "--cluster", "local:2", "--dashboard")
    finished(study, "two", n_seen)
    os.kill(workers(process.pid)[0], signal.SIGKILL)
    code, told = ended(process)
    assert code == 0, told
    assert "Dask dashboard: http" in told
    assert "WARNING" not in told  # logs of Dask
    assert written(study / "two") == alone


@pytest.mark.parametrize("how", ["Ctrl-C", "SIGKILL"])
def test_a_stopped_command_leaves_no_worker_and_nothing_half_written(study, how):
    many = (*REFIT, "--permutations", 400)  # more than are done before the signal comes
    process = start(study, "decode", "out", *many, "--cluster", "local:2")
    finished(study, "out", 5)
    assert len(workers(process.pid)) == 2
    if how == "Ctrl-C":  # a terminal sends it to all
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(getattr(signal, how))
    code, told = ended(process)
    assert code == (-signal.SIGKILL if how == "SIGKILL" else 130), told
    assert "Traceback" not in told
    if how != "SIGKILL":
        assert "finished relabellings are kept; the same command goes on" in told
    deadline = time.monotonic() + 30
    while processes(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not processes(process.pid)
    assert not (study / "out").exists()


@pytest.fixture
def scheduler(study):
    """A scheduler and two workers that were started by hand; its process, and its address."""
    dask, where = [sys.executable, "-m", "dask"], study / "scheduler.json"
    named = ["--scheduler-file", str(where)]
    calls = [["scheduler", "--port", "0", "--dashboard-address", ":0"]]
    calls += [["worker", "--nthreads", "1", "--no-dashboard", "--death-timeout", "30"]] * 2
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": study}
    started = [subprocess.Popen([*dask, *call, *named], **quiet) for call in calls]
    deadline = time.monotonic() + PATIENCE
    while not where.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    yield started[0], pd.read_json(where, typ="series")["address"]
    for process in reversed(started):
        process.terminate()
    for process in started:
        process.wait(timeout=60)


COMMANDS = {
    "decode": REFIT,
    "map": ("--permutations", 100, "--searchlight", 6),
    "compare": ("--models", "gp,logistic", "--repeats", 2),
}


def test_workers_started_by_hand_give_the_same_bytes(study, scheduler):
    for command, options in COMMANDS.items():
        alone, _ = done(study, command, f"{command}-1", *options)
        found, told = done(study, command, f"{command}-2", *options, "--scheduler", scheduler[1])
        assert "Dask dashboard: http" in told
        assert found == alone


def test_a_scheduler_that_dies_half_way(study, scheduler):
    process = start(study, "decode", "out", *REFIT, "--scheduler", scheduler[1])
    finished(study, "out", 10)
    scheduler[0].kill()
    code, told = ended(process)
    assert code == 2, told
    assert "voxprior: The scheduler has gone" in told
    assert "Traceback" not in told
    assert not (study / "out").exists()
    resumed, _ = done(study, "decode", "out", *REFIT)
    assert resumed == done(study, "decode", "alone", *REFIT)[0]


def test_two_commands_do_not_write_to_one_folder(study):
    first = start(study, "decode", "out", *REFIT, "--cluster", "local:2")
    finished(study, "out", 1)
    code, told = ended(start(study, "decode", "out", *REFIT, "--cluster", "local:2"))
    assert code == 2
    assert "another voxprior command writes there" in told
    assert ended(first)[0] == 0
    assert (study / "out" / "result.json").exists()


def test_more_workers_than_tasks(study):
    alone, _ = done(study, "decode", "one")
    found, told = done(study, "decode", "two", "--cluster", "local:7", "--dashboard")
    assert "Dask dashboard" in told
    assert found == alone
