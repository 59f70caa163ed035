"""Mutants: does a test fail where a line of the numbers that must hold is changed?

Cosmic Ray's operators change one place of a module (a number, a comparison, an operator, a
condition, an exception); a mutant that no test notices survives. One change is drawn for each place
that can be changed, and of these a seeded sample over all modules. Changes that cannot matter are
left out: of annotations, which are never evaluated.

Every mutant is a fork of this process, in which the libraries are loaded already and the changed
module is put in place of the one on disk. No file is touched. The tests are run once as they are
to see which of them run which line: a mutant is shown only to those that run its line, the quickest
first. A change at a line that runs when the module is imported is shown to all of them.

    python tests/mutants.py [--sample 500] [--seed 0] [--only validation/intervals.py] [--again LOG]
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.abc
import importlib.util
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pytest
from cosmic_ray.ast import get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

import coverage

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "voxprior"
AUDIT = ("audit", "audit_numbers", "likeness", "voxel_checks", "scan_findings")


def _of(folder: str, *names: str) -> list[str]:
    return [f"tests/{folder}/test_{name}.py" for name in names]


# Which tests should notice.
TESTS = {
    "validation/intervals.py": _of("validation", "intervals", "interval_numbers", "result"),
    "validation/choice.py": _of("validation", "choice"),
    "validation/permutation.py": _of(
        "validation", "permutation", "relabel_numbers", "store", "batch"
    ),
    "validation/relabel.py": _of("validation", "relabel", "relabel_numbers", "permutation"),
    "validation/audit/__init__.py": _of("validation", *AUDIT, "probability_scale"),
    "validation/audit/duplicates.py": _of("validation", *AUDIT),
    "validation/audit/estimators.py": _of("validation", *AUDIT),
    "validation/audit/finding.py": _of("validation", *AUDIT),
    "validation/audit/folds.py": _of("validation", *AUDIT),
    "validation/audit/likeness.py": _of("validation", *AUDIT),
    "validation/audit/probabilities.py": _of("validation", "probability_scale"),
    "validation/audit/scans.py": _of("validation", *AUDIT),
    "validation/audit/variables.py": _of("validation", *AUDIT),
    "validation/audit/voxels.py": _of("validation", *AUDIT),
    "decision/bayes.py": ["tests/decision"],
    "modelfile/schema.py": ["tests/modelfile"],
}
# A mutant hangs that takes this long, and so many times as long as its tests do.
PATIENCE, TIMES_AS_LONG = 60, 5
OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header"]
# Objects are compared by value: `is` in place of `==` is no other program for small numbers.
SILLY = ("_Is", "_IsNot")


class Mutant(NamedTuple):
    """One change: of which module, by which operator, at which of its places, on which line."""

    module: str
    operator: str
    occurrence: int
    line: int

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.operator} {self.occurrence}"

    def code(self) -> str:
        """Source with the change."""
        text = (SOURCE / self.module).read_text("utf-8")
        changed = mutate_code(text, get_operator(self.operator)(), self.occurrence)
        return changed if changed is not None else text


# --- which mutants there are ----------------------------------------------------------------------


def mutants_of(module: str, seed: int) -> list[Mutant]:
    """One change, drawn by the seed, of each place of a module."""
    nodes = list(_nodes(get_ast((SOURCE / module).read_text("utf-8"))))
    places: dict[tuple, list[Mutant]] = {}
    for name in operator_names():
        if name.endswith(SILLY) and "Comparison" in name and "_Is" not in name.split("_")[1]:
            continue
        try:
            operator = get_operator(name)()
        except TypeError:  # one that must be told what to change
            continue
        found = (place for node in nodes for place in operator.mutation_positions(node))
        for occurrence, (start, end) in enumerate(found):
            mutant = Mutant(module, name, occurrence, start[0])
            places.setdefault((start, end), []).append(mutant)
    rng = random.Random(f"{seed} {module}")
    return [rng.choice(places[place]) for place in sorted(places)]


def _nodes(node) -> Iterator:
    yield node
    for child in getattr(node, "children", ()):
        yield from _nodes(child)


def matters(mutant: Mutant) -> bool:
    """Whether the change is one of the program."""
    try:
        return _program(mutant.code()) != _program((SOURCE / mutant.module).read_text("utf-8"))
    except SyntaxError:
        return False


def _program(text: str) -> str:
    """What is run: the syntax tree without annotations."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if getattr(node, name, None) is not None:
                setattr(node, name, ast.Constant(0))
    return ast.dump(tree)


# --- one mutant -----------------------------------------------------------------------------------


class Changed(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Import one module from changed source."""

    def __init__(self, module: str, code: str):
        parts = ["voxprior", *Path(module).with_suffix("").parts]
        self.package = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.package else parts)
        self.path, self.code = SOURCE / module, code

    def find_spec(self, name, path, target=None):
        """Serve this module only."""
        if name != self.name:
            return None
        folder = [str(self.path.parent)] if self.package else None
        return importlib.util.spec_from_file_location(
            name, self.path, loader=self, submodule_search_locations=folder
        )

    def is_package(self, name):
        """Whether it is a package."""
        return self.package

    def get_source(self, name):
        """Return the changed source."""
        return self.code

    def get_filename(self, name):
        """Return where the module is."""
        return str(self.path)


def is_killed(mutant: Mutant, tests: Sequence[str], seconds: float) -> bool:
    """Run tests that take so long in a fork; a failure, a crash and a hang all kill."""
    limit = PATIENCE + TIMES_AS_LONG * seconds
    return _in_a_fork(lambda: _run(mutant, tests), limit) != 0


def _run(mutant: Mutant, tests: Sequence[str]) -> int:
    """Run the tests of the mutant in this process."""
    sys.meta_path.insert(0, Changed(mutant.module, mutant.code()))
    return int(pytest.main(["-x", *OPTIONS, *tests]))


def _in_a_fork(work: Callable[[], int], limit: float = float("inf")) -> int:
    """Do the work silently in another process: its status, not 0 after the limit in seconds."""
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        os._exit(work())
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


# --- which tests run which line -------------------------------------------------------------------


class Recorder:
    """Plugin of pytest: the lines of our modules that each test runs, and how long it takes."""

    def __init__(self) -> None:
        files = [str(SOURCE / module) for module in TESTS]
        self.coverage = coverage.Coverage(data_file=None, include=files)
        self.seconds: dict[str, float] = {}
        self.test = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        """Write down what one test runs."""
        self.test = item.nodeid
        self.coverage.switch_context(self.test)
        start = time.monotonic()
        result = yield
        self.seconds[self.test] = time.monotonic() - start
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        """What a fixture of several tests runs concerns all tests of its file."""
        if fixturedef.scope != "function":
            self.coverage.switch_context(self.test.partition("::")[0])
        result = yield
        self.coverage.switch_context(self.test)
        return result

    def run(self, answer: Path) -> int:
        """Run all tests as they are, and write what was seen to a file."""
        self.coverage.start()
        status = int(pytest.main([*OPTIONS, *sorted(set().union(*TESTS.values()))], [self]))
        self.coverage.stop()
        data = self.coverage.get_data()
        lines = {m: data.contexts_by_lineno(str(SOURCE / m)) for m in TESTS}
        ours = ("voxprior", "tests", "conftest", "__main__")
        libraries = [name for name in sys.modules if not name.startswith(ours)]
        seen = {"seconds": self.seconds, "lines": lines, "libraries": libraries}
        answer.write_text(json.dumps(seen), "utf-8")
        return status


class Seen(NamedTuple):
    """Seconds of every test, and who runs which line of each module."""

    seconds: dict[str, float]
    lines: dict[str, dict[str, list[str]]]

    def tests(self, mutant: Mutant) -> list[str]:
        """Tests that run the changed line, the quickest first; all where none is known to."""
        files = _test_files(mutant.module)
        known = [test for test in self.seconds if test.partition("::")[0] in files]
        lines = self.lines[mutant.module]
        text = (SOURCE / mutant.module).read_text("utf-8")
        running = {test for line in span_of(text, mutant.line) for test in lines.get(str(line), ())}
        chosen = [t for t in known if t in running or t.partition("::")[0] in running]
        return sorted(chosen or known, key=self.seconds.__getitem__)


def _test_files(module: str) -> set[str]:
    found = [ROOT / name for name in TESTS[module]]
    paths = [path for name in found for path in (name.glob("*.py") if name.is_dir() else [name])]
    return {str(path.relative_to(ROOT)) for path in paths}


def span_of(text: str, line: int) -> range:
    """Lines of the innermost statement at a line; of a function's head, the whole function.

    >>> list(span_of("x = [\\n 1,\\n 2]\\ny = 3", 2))
    [1, 2, 3]
    """
    span = range(line, line + 1)
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.stmt):
            continue
        head = [*getattr(node, "decorator_list", []), node]
        first, last = head[0].lineno, node.end_lineno or node.lineno
        body = getattr(node, "body", None)
        if body and not isinstance(node, ast.FunctionDef):
            last = max(first, body[0].lineno - 1)
        if first <= line <= last:
            span = range(first, last + 1)  # outer statements are walked before inner ones
    return span


def see() -> Seen:
    """Run the tests as they are; load the libraries that they load."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "seen.json"
        if _in_a_fork(lambda: Recorder().run(answer)):
            sys.exit("The tests fail without any change.")
        seen = json.loads(answer.read_text("utf-8"))
    for name in seen.pop("libraries"):
        with contextlib.suppress(Exception):  # one that only loads inside another
            importlib.import_module(name)
    return Seen(**seen)


def main() -> int:
    """Draw, run and tell."""
    parser = argparse.ArgumentParser(description="Share of mutants that tests kill.")
    parser.add_argument("--sample", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", choices=TESTS, help="a module; may be repeated")
    parser.add_argument("--again", type=Path, help="what was printed: run only its survivors")
    parser.add_argument("--least", type=float, default=0.9, help="share that must be killed")
    chosen = parser.parse_args()
    os.chdir(ROOT)
    seen = see()
    every = [m for module in chosen.only or TESTS for m in mutants_of(module, chosen.seed)]
    random.Random(chosen.seed).shuffle(every)
    sample = islice(filter(matters, every), chosen.sample)
    if chosen.again is not None:
        told = set(chosen.again.read_text("utf-8").splitlines())
        sample = filter(lambda mutant: f"survived: {mutant}" in told, sample)
    number, survivors = 0, []
    for number, mutant in enumerate(sample, 1):
        tests = seen.tests(mutant)
        if not is_killed(mutant, tests, sum(map(seen.seconds.__getitem__, tests))):
            survivors.append(mutant)
            print(f"survived: {mutant}", flush=True)
        if number % 10 == 0:
            print(f"{number - len(survivors)} of {number} killed", flush=True)
    print(f"{number - len(survivors)} of {number} mutants killed", flush=True)
    return int(len(survivors) > (1 - chosen.least) * number)


if __name__ == "__main__":
    sys.exit(main())
