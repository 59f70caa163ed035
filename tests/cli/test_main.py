"""The installed command: speed of the help, exit codes, nothing heavy imported."""

import os
import subprocess
import sys

import pytest

from voxprior import __version__, cli

COMMANDS = [
    "demo",
    "decode",
    "predict",
    "score",
    "compare",
    "pack",
    "reproduce",
    "bids",
    "families",
    "doctor",
]
RUN = "from voxprior.cli import main; main()"


def call(*arguments):
    return subprocess.run(
        [sys.executable, "-c", RUN, *arguments], capture_output=True, text=True, check=False
    )


def test_help_imports_nothing_heavy():
    script = (
        "import sys, voxprior.cli\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'pandas', 'numba', 'nibabel', 'nilearn'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize("given", [None, "active"])
def test_threads_wait_asleep_if_nothing_else_is_asked_for(monkeypatch, given):
    monkeypatch.setenv("OMP_WAIT_POLICY", given or "")
    if given is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    monkeypatch.setattr(cli, "app", lambda: None)
    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)
    cli.main()
    assert os.environ["OMP_WAIT_POLICY"] == (given or "passive")


def test_bad_input_ends_with_2_and_one_line():
    done = call("decode", "absent.nii", "--labels", "absent.tsv", "--out", "x", "--model", "best")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("voxprior: There is no model 'best'")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches(run, command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.output
    words = " ".join(result.output.split())  # lines break elsewhere in older typers
    assert f"voxprior {command} " in words.replace(f"Usage: voxprior {command}", "")


def test_version_and_commands(run):
    assert run("--version").output.strip() == __version__
    listed = run("--help").output
    assert all(command in listed for command in COMMANDS)
