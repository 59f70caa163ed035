"""Mutants: does a test fail where a line of the numbers that must hold is changed?

Cosmic Ray's operators change one place of a module (a number, a comparison, an operator, a
condition, an exception); a mutant that no test notices survives. One change is drawn for each place
that can be changed, and of these a seeded sample over all modules. Changes that cannot matter are
left out: of annotations, which are never evaluated.

The tests are collected once, and run once as they are to see which of them run which line. Every
mutant is then a fork of this process, shown only to the tests that run its line, the quickest first
(to all of its module's where none is known to). A change of a function or of a constant is put in
place there; after any other the package and the tests are imported anew. No file is touched.

    python tests/mutants.py [--sample 500] [--seed 0] [--only validation/intervals.py] [--again LOG]
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.util
import inspect
import json
import os
import random
import signal
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from _pytest.runner import runtestprotocol
from cosmic_ray.ast import get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

import coverage

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "voxprior"
AUDIT = ("audit", "audit_numbers", "bounds", "likeness", "voxel_checks", "scan_findings")
AUDIT += ("columns", "group_offsets")


def _of(folder: str, *names: str) -> list[str]:
    return [f"tests/{folder}/test_{name}.py" for name in names]


# Which tests should notice.
TESTS = {
    "validation/intervals.py": _of(
        "validation", "intervals", "interval_numbers", "bounds", "result"
    ),
    "validation/choice.py": _of("validation", "choice"),
    "validation/permutation.py": _of(
        "validation", "permutation", "relabel_numbers", "store", "batch"
    ),
    "validation/relabel.py": _of("validation", "relabel", "relabel_numbers", "permutation"),
    "validation/audit/__init__.py": _of("validation", *AUDIT, "probability_scale"),
    "validation/audit/association.py": _of("validation", *AUDIT),
    "validation/audit/duplicates.py": _of("validation", *AUDIT),
    "validation/audit/estimators.py": _of("validation", *AUDIT),
    "validation/audit/finding.py": _of("validation", *AUDIT),
    "validation/audit/folds.py": _of("validation", *AUDIT),
    "validation/audit/likeness.py": _of("validation", *AUDIT),
    "validation/audit/offsets.py": _of("validation", *AUDIT),
    "validation/audit/probabilities.py": _of("validation", "probability_scale", "bounds"),
    "validation/audit/scans.py": _of("validation", *AUDIT),
    "validation/audit/variables.py": _of("validation", *AUDIT),
    "validation/audit/voxels.py": _of("validation", *AUDIT),
    "decision/bayes.py": ["tests/decision"],
    "modelfile/schema.py": ["tests/modelfile"],
}
# A mutant hangs that takes this long, and so many times as long as its tests do.
PATIENCE, TIMES_AS_LONG = 60, 5
OURS = ("voxprior", "tests")
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


def is_killed(mutant: Mutant, items: Sequence[pytest.Item], seconds: float) -> bool:
    """Run tests that take so long in a fork; a failure, a crash and a hang all kill."""
    limit = PATIENCE + TIMES_AS_LONG * seconds
    return _in_a_fork(lambda: _run(mutant, items), limit) != 0


def _run(mutant: Mutant, items: Sequence[pytest.Item]) -> int:
    """Run the tests of the mutant in this process; 0 if they pass."""
    if put_in_place(mutant):
        return int(not all(_passes(item, then) for item, then in pairwise([*items, None])))
    for name in [name for name in sys.modules if name.startswith(OURS)]:
        del sys.modules[name]
    sys.meta_path.insert(0, Changed(mutant.module, mutant.code()))
    return int(pytest.main(["-x", *OPTIONS, *(item.nodeid for item in items)]))


def _passes(item: pytest.Item, then: pytest.Item | None) -> bool:
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=then))


def put_in_place(mutant: Mutant) -> bool:
    """Give the changed function its new code, or a constant its new value; False for all else."""
    changed = Changed(mutant.module, mutant.code())
    old = importlib.import_module(changed.name)
    new = types.ModuleType(changed.name)
    vars(new).update({k: v for k, v in vars(old).items() if k.startswith("__")})
    exec(compile(changed.code, str(changed.path), "exec"), vars(new))
    tree = ast.parse((SOURCE / mutant.module).read_text("utf-8"))
    path = _function_at(tree, mutant.line)
    if path:
        return _swap(_lookup(old, path), _lookup(new, path))
    for node in tree.body:
        if isinstance(node, ast.Assign) and node.lineno <= mutant.line <= (node.end_lineno or 0):
            names = [part.id for part in ast.walk(node) if isinstance(part, ast.Name)
                     and isinstance(part.ctx, ast.Store)]  # fmt: skip
            for name in names:
                _rebind(name, getattr(old, name), getattr(new, name))
            return True
    return False


def _function_at(tree: ast.AST, line: int) -> list[str]:
    """Names of the classes and of the outermost function at a line, below its decorators."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and (
            node.lineno <= line <= (node.end_lineno or 0)
        ):
            if isinstance(node, ast.FunctionDef):
                return [node.name]
            inside = _function_at(node, line)
            return [node.name, *inside] if inside else []
    return []


def _lookup(module: types.ModuleType, path: Sequence[str]) -> Any:
    """The function itself, without what decorators put around it."""
    found: Any = module
    for name in path:
        found = vars(found)[name]
    for inner in ("__func__", "fget", "func"):  # of class methods and properties
        found = getattr(found, inner, found)
    return inspect.unwrap(found)


def _swap(old: Any, new: Any) -> bool:
    if not (inspect.isfunction(old) and inspect.isfunction(new)):
        return False
    if old.__code__.co_freevars != new.__code__.co_freevars:
        return False
    old.__code__, old.__defaults__ = new.__code__, new.__defaults__
    old.__kwdefaults__ = new.__kwdefaults__
    return True


def _rebind(name: str, old: Any, new: Any) -> None:
    """Give a constant its new value wherever it was imported by its name."""
    for module in [m for key, m in sys.modules.items() if key.startswith(OURS)]:
        if vars(module).get(name) is old:
            setattr(module, name, new)


def _in_a_fork(work: Callable[[], int], limit: float = float("inf")) -> int:
    """Do the work silently in another process: its status, not 0 after the limit in seconds."""
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        status = 1
        try:
            status = work()
        finally:
            os._exit(status)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


# --- which tests run which line -------------------------------------------------------------------


class Recorder:
    """Plugin of pytest: the lines of our modules that each test runs, and how long it takes."""

    def __init__(self) -> None:
        files = [str(SOURCE / module) for module in TESTS]
        self.coverage = coverage.Coverage(data_file=None, include=files)
        self.test = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        """What a fixture of several tests runs concerns all tests of its file."""
        if self.test and fixturedef.scope != "function":
            self.coverage.switch_context(self.test.partition("::")[0])
        result = yield
        if self.test:
            self.coverage.switch_context(self.test)
        return result

    def run(self, items: Sequence[pytest.Item], answer: Path) -> int:
        """Run all tests as they are, and write what was seen to a file."""
        self.coverage.start()
        seconds, passed = {}, True
        for item, then in pairwise([*items, None]):
            self.test = item.nodeid
            self.coverage.switch_context(self.test)
            start = time.monotonic()
            passed &= _passes(item, then)
            seconds[self.test] = time.monotonic() - start
        self.coverage.stop()
        data = self.coverage.get_data()
        lines = {m: data.contexts_by_lineno(str(SOURCE / m)) for m in TESTS}
        answer.write_text(json.dumps({"seconds": seconds, "lines": lines}), "utf-8")
        return int(not passed)

    def see(self, items: Sequence[pytest.Item]) -> Seen:
        """Run the tests as they are in a fork."""
        with tempfile.TemporaryDirectory() as folder:
            answer = Path(folder) / "seen.json"
            if _in_a_fork(lambda: self.run(items, answer)):
                pytest.exit("The tests fail without any change.", 1)
            return Seen(**json.loads(answer.read_text("utf-8")))


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


# --- all of it ------------------------------------------------------------------------------------


class Hunt:
    """Plugin of pytest: mutants in place of the tests that were collected."""

    def __init__(self, chosen: argparse.Namespace, recorder: Recorder):
        self.chosen, self.recorder = chosen, recorder
        self.number, self.survivors = 0, 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Draw, run and tell."""
        items = {item.nodeid: item for item in session.items}
        seen = self.recorder.see(session.items)
        for mutant in drawn(self.chosen):
            tests = seen.tests(mutant)
            took = sum(map(seen.seconds.__getitem__, tests))
            self.number += 1
            if not is_killed(mutant, [items[test] for test in tests], took):
                self.survivors += 1
                print(f"survived: {mutant}", flush=True)
            if self.number % 10 == 0:
                self.tell()
        self.tell()
        return True

    def tell(self) -> None:
        """Print the count so far."""
        print(f"{self.number - self.survivors} of {self.number} mutants killed", flush=True)


def drawn(chosen: argparse.Namespace) -> Iterator[Mutant]:
    """The sample, or those of it that survived before."""
    every = [m for module in chosen.only or TESTS for m in mutants_of(module, chosen.seed)]
    random.Random(chosen.seed).shuffle(every)
    sample = islice(filter(matters, every), chosen.sample)
    if chosen.again is None:
        return sample
    told = set(chosen.again.read_text("utf-8").splitlines())
    return filter(lambda mutant: f"survived: {mutant}" in told, sample)


def main() -> int:
    """Collect the tests and let the mutants at them."""
    parser = argparse.ArgumentParser(description="Share of mutants that tests kill.")
    parser.add_argument("--sample", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", choices=TESTS, help="a module; may be repeated")
    parser.add_argument("--again", type=Path, help="what was printed: run only its survivors")
    parser.add_argument("--least", type=float, default=0.9, help="share that must be killed")
    chosen = parser.parse_args()
    os.chdir(ROOT)
    recorder = Recorder()
    hunt = Hunt(chosen, recorder)
    files = sorted(set().union(*(TESTS[module] for module in chosen.only or TESTS)))
    status = pytest.main(["-s", *OPTIONS, *files], [recorder, hunt])
    few = hunt.survivors <= (1 - chosen.least) * hunt.number
    return int(status) or int(not few)


if __name__ == "__main__":
    sys.exit(main())
