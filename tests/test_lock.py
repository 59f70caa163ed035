"""One command at a time per output."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from voxprior import lock
from voxprior.errors import InputWarning
from voxprior.lock import exclusive
from voxprior.output.folders import output_files, output_folder

HOLD = """
import sys
from pathlib import Path
from voxprior.lock import exclusive
with exclusive(Path(sys.argv[1]), Path("out")):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds a lock until it is killed."""
    arguments = [sys.executable, "-c", HOLD, str(tmp_path / "lock")]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline().strip() == b"held"
        yield process
        process.kill()


def test_the_second_is_told_who_is_first(holder, tmp_path):
    told = rf"out: another voxprior command writes there \(process {holder.pid} on .+, since 20.+\)"
    with pytest.raises(ValueError, match=told), exclusive(tmp_path / "lock", tmp_path / "out"):
        pass
    assert (tmp_path / "lock").exists()


def test_a_killed_process_gives_the_lock_back(holder, tmp_path):
    holder.send_signal(signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
    holder.wait()
    assert (tmp_path / "lock").exists()
    with exclusive(tmp_path / "lock", tmp_path / "out"):
        assert f'"process": {os.getpid()}' in (tmp_path / "lock").read_text()
    assert not (tmp_path / "lock").exists()


def test_a_lock_on_a_file_that_was_removed_is_taken_again(tmp_path, monkeypatch):
    path, locked = tmp_path / "lock", []

    def first_ends_meanwhile(file):
        if not locked:
            path.unlink()
        locked.append(file)

    monkeypatch.setattr(lock, "_lock", first_ends_meanwhile)
    with exclusive(path, tmp_path):
        assert len(locked) == 2
        assert path.exists()


def test_a_holder_that_has_not_said_its_name(holder, tmp_path):
    (tmp_path / "lock").write_text("")
    with (
        pytest.raises(ValueError, match="a process that has just started"),
        exclusive(tmp_path / "lock", tmp_path / "out"),
    ):
        pass


def test_a_file_system_without_locks_is_told(tmp_path, monkeypatch):
    def none(file):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock, "_lock", none)
    told = r"out: this file system has no locks \(No locks available\)"
    with pytest.warns(InputWarning, match=told), exclusive(tmp_path / "lock", tmp_path / "out"):
        pass


@pytest.mark.parametrize("kind", ["folder", "files"])
def test_two_commands_on_one_output(tmp_path, kind):
    def output():
        if kind == "folder":
            return output_folder(tmp_path / "out", "x_r.json")
        return output_files(tmp_path, "x", "x_r.json")

    with output() as work:
        (work / "x_r.json").touch()
        with pytest.raises(ValueError, match=f"process {os.getpid()}"), output():
            pass
        assert (work / "x_r.json").exists()
    with output():  # the lock was given back
        pass
