"""Commands that are killed, told to end or short of memory: what was done is not done again."""

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import voxprior.validation.run as loop
from voxprior.output.folders import output_folder
from voxprior.validation import Result

# The process sends itself a signal once so many relabellings have been kept.
STOPPED = """
import os, signal, sys
from voxprior.validation.store import TaskStore

name, wanted, save = sys.argv.pop(1), int(sys.argv.pop(1)), TaskStore.save

def save_and_stop(self, index, value):
    save(self, index, value)
    if self.path.stem == "relabellings" and len(self.finished()) == wanted:
        os.kill(os.getpid(), getattr(signal, name))

TaskStore.save = save_and_stop
from voxprior.cli import main
main()
"""
# Files in which two runs of one command may differ.
DIFFERING = {"run.json"}

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


@pytest.fixture
def command(study, bare_report):
    return ["decode", *study, "--model", "naive-bayes", "--permutations", "20", "--out"]


def stopped(name, wanted, *arguments):
    script = [sys.executable, "-c", STOPPED, name, str(wanted), *map(str, arguments)]
    return subprocess.run(script, capture_output=True, text=True, check=False)


def same_bytes(one, other):
    """Compare all files of two folders that may not differ."""
    names = [
        sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
        for folder in (one, other)
    ]
    assert names[0] == names[1]
    compared = [name for name in names[0] if name.name not in DIFFERING]
    assert Path("predictions.tsv") in compared
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in compared)


@pytest.mark.slow
def test_a_killed_command_goes_on_and_gives_the_same(command, run_json, tmp_path, monkeypatch):
    out, whole = tmp_path / "out", tmp_path / "whole"
    ended = stopped("SIGTERM", 3, *command, out)
    assert ended.returncode == 130
    assert "5 finished folds and 3 finished relabellings are kept" in ended.stderr
    killed = stopped("SIGKILL", 8, *command, out)
    assert killed.returncode == -signal.SIGKILL
    assert not out.exists()
    scored, score = [], loop.TaskStore.save

    def counted(self, index, value):
        scored.append(self.path.stem)
        score(self, index, value)

    monkeypatch.setattr(loop.TaskStore, "save", counted)
    resumed = run_json(*command, out)
    assert scored == ["relabellings"] * (21 - 8)  # the true labels are one of 21
    uninterrupted = run_json(*command, whole)
    assert resumed["permutation"] == uninterrupted["permutation"]
    assert resumed["scores"] == uninterrupted["scores"]
    assert Result.from_json(out / "result.json").equals(Result.from_json(whole / "result.json"))
    assert same_bytes(out, whole)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def kill_the_last_fold(folder, fit, fold, seed, *shared):
    """Let the worker of the last fold die, once another fold has been kept."""
    if 11 in fold[1]:
        while not list(Path(folder).rglob("*.journal")):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    return fit(fold, seed, *shared)


@pytest.mark.slow
def test_a_killed_worker_is_one_line(command, refused, run, tmp_path, monkeypatch, at_once):
    killing = functools.partial(kill_the_last_fold, str(tmp_path), loop.fit_fold)
    with monkeypatch.context() as patch:
        patch.setattr(loop, "fit_fold", killing)
        line = refused(*command, tmp_path / "out", "--jobs", 2)
    assert "memory" in line
    assert "of 5 folds had finished and are kept" in line
    assert "--jobs" in line
    assert not (tmp_path / "out").exists()
    result = run(*command, tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert len(Result.from_json(tmp_path / "out" / "result.json").scores) == 5


def test_memory_that_runs_out_is_one_line(command, refused, tmp_path, monkeypatch):
    def too_much(*_):
        raise MemoryError

    monkeypatch.setattr(loop, "fit_fold", too_much)
    line = refused(*command, tmp_path / "out")
    assert line.startswith("voxprior: Memory ran out. 0 of 5 folds had finished")
    assert "--jobs" in line


def test_a_second_command_ends_before_its_work(command, refused, tmp_path):
    with output_folder(tmp_path / "out", "result.json") as work:
        line = refused(*command, tmp_path / "out")
        assert f"another voxprior command writes there (process {os.getpid()} on " in line
        (work / "result.json").touch()
    assert (tmp_path / "out" / "result.json").exists()


def test_what_the_user_has_put_into_the_folder_stays(command, run, tmp_path):
    out = tmp_path / "out"
    for _ in range(2):
        assert run(*command, out).exit_code == 0
        (out / "notes.txt").write_text("mine")
    assert (out / "notes.txt").read_text() == "mine"
    assert "notes.txt" not in (out / "manifest.json").read_text()
