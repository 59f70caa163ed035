"""The law of these tests, and how long each may look for what breaks it.

Whatever a user gives, voxprior works or refuses: a command ends with exit code 0, or with 2, one
line and no output; in Python an exception says that the input cannot be used. Nothing else is
written, and nothing in a file is run.

Each test draws new examples in rounds until its time is over. ``VOXPRIOR_FUZZ_SEED`` says which,
``VOXPRIOR_FUZZ_SECONDS`` for how long in each test; `make fuzz` prints the seed.
"""

import itertools
import os
import time
import warnings
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, seed, settings
from typer.testing import CliRunner

from voxprior.cli import app
from voxprior.cli.errors import one_line
from voxprior.errors import refuses_input

SEED = int(os.environ.get("VOXPRIOR_FUZZ_SEED", "0"))
SECONDS = float(os.environ.get("VOXPRIOR_FUZZ_SECONDS", "10"))
LONGEST_LINE = 10_000


@pytest.fixture
def explore():
    """Call a function with examples of strategies until the time of the test is over."""

    def run(check, *strategies, round_of=50):
        bounds = settings(
            max_examples=round_of,
            database=None,
            derandomize=False,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        end = time.monotonic() + SECONDS
        for number in itertools.count():
            seed(f"{SEED} {number}")(bounds(given(*strategies)(check)))()
            if time.monotonic() > end:
                return

    return run


@contextmanager
def refusing():
    """Run what may refuse its input; any other exception passes and fails the test."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:
        if not refuses_input(error):
            raise
        said = one_line(error)
        assert said.strip()
        assert "\n" not in said
        assert len(said) < LONGEST_LINE


@pytest.fixture
def obeys(tmp_path, monkeypatch):
    """Run a command in a folder of its own, which must stay empty where it refuses.

    A command that works on several participants (`several`) may keep those that it finished, and
    files that describe them all. Returns the exit code.
    """
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)

    def run(*arguments, several=False):
        empty(place)
        result = CliRunner().invoke(app, [str(a) for a in arguments])
        written = sorted(place.rglob("*"))
        logs = [path.read_text() for path in written if path.suffix == ".log"]
        told = "\n".join([result.output, *logs])
        assert isinstance(result.exception, SystemExit | None), repr(result.exception)
        assert result.exit_code in (0, 2), told
        if result.exit_code == 2:
            lines = [line for line in result.stderr.splitlines() if line.startswith("voxprior: ")]
            assert len(lines) == 1 or "Usage: " in result.stderr, told
            assert len(result.stderr) < LONGEST_LINE
            whole = [path for path in written if path.is_file() and path.name[0] != "."]
            assert not set(written) - {p for path in whole for p in (path, *path.parents)}
            assert several or not whole
        return result.exit_code

    return run


def empty(folder):
    """Delete all that is in a folder."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
