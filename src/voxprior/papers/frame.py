"""The shape that all papers share: steps that give tables, figures and claims.

``voxprior.papers.NAME.run`` defines ``PAPER = Paper(title, steps)``. A step is a function of a
`Run`, which says whether the run is a quick one and shows how far it is, and returns a `Part`.
Parts of a paper are joined in order; rows under one title become one table. A step whose data set
is absent is left out, and the text says where to get the data. Steps know nothing of each other:
with a `voxprior.validation.Cluster` they go over its workers, the longest first.
"""

from __future__ import annotations

import ast
import io
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from voxprior.papers.claims import Claim
from voxprior.papers.datasets import DataAbsentError, looking_in
from voxprior.validation.cluster import active_cluster, within_a_task
from voxprior.validation.run import run_tasks
from voxprior.validation.threads import one_thread

Rows = Sequence[Mapping[str, Any]]
# Begins the title of a table that says why a step did not run.
LEFT_OUT = "Left out: "


class Table(NamedTuple):
    """Rows of equal keys, or a paragraph; and a line on what differs from the published one."""

    rows: Rows | str
    differs: str = ""


class Drawing(NamedTuple):
    """A picture (PNG), and a caption that says what the published one shows and what differs."""

    png: bytes
    caption: str = ""


@dataclass
class Part:
    """What a step found: tables by title, figures by the name of their file, claims."""

    tables: dict[str, Table] = field(default_factory=dict)
    figures: dict[str, Drawing] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)

    def join(self, other: Part) -> None:
        """Add what another step found; rows under the same title go below."""
        for title, table in other.tables.items():
            before = self.tables.get(title)
            if before is not None:
                table = Table([*before.rows, *table.rows], before.differs)
            self.tables[title] = table
        self.figures |= other.figures
        self.claims += other.claims


class Run:
    """How a step is to run, and how far it is."""

    def __init__(self, quick: bool, tell: Callable[[float], None] = lambda share: None):
        self.quick, self._tell = quick, tell

    def each(self, items: Iterable[Any]) -> Iterator[Any]:
        """Go through items of about equal work, telling the share that is done."""
        items = list(items)
        for number, item in enumerate(items):
            yield item
            self._tell((number + 1) / len(items))


class Step(NamedTuple):
    """A piece of a paper; ``minutes`` is what it takes in full, for the time that is left."""

    name: str
    work: Callable[[Run], Part]
    minutes: float = 1.0


class Paper(NamedTuple):
    """A paper: how it is cited, and the steps that repeat it."""

    title: str
    steps: Sequence[Step]


class Reproduction(NamedTuple):
    """All that a run of one paper found."""

    name: str
    title: str
    quick: bool
    part: Part


def names() -> dict[str, str]:
    """Names of the papers with the first line that each says of itself; nothing is imported."""
    found = {}
    for module in sorted(Path(__file__).parent.glob("*/__init__.py")):
        text = ast.get_docstring(ast.parse(module.read_text("utf-8"))) or ""
        if (module.parent / "run.py").is_file():
            found[module.parent.name] = text.partition("\n")[0]
    return found


def load(name: str) -> Paper:
    """The steps of a paper."""
    return import_module(f"voxprior.papers.{name}.run").PAPER


def reproduce(wanted: Sequence[str], quick: bool = False) -> list[Reproduction]:
    """Run papers, telling on stderr what goes on and how long it will take."""
    papers = {name: load(name) for name in wanted}
    places = [(name, step) for name, paper in papers.items() for step in range(len(paper.steps))]
    clock = Clock([papers[name].steps[step].minutes for name, step in places])
    run = _on_workers if active_cluster() else _here
    with clock.bar:
        parts = run(papers, places, quick, clock)
    whole = {name: Part() for name in papers}
    for name, step in places:
        whole[name].join(parts[name, step])
    return [Reproduction(n, paper.title, quick, whole[n]) for n, paper in papers.items()]


Place = tuple[str, int]  # name of a paper, number of its step


def _here(
    papers: Mapping[str, Paper], places: Sequence[Place], quick: bool, clock: Clock
) -> dict[Place, Part]:
    """Run one step after the other, with one thread as workers do: sums are the same then."""
    parts = {}
    for name, number in places:
        step = papers[name].steps[number]
        with clock.step(f"{name}: {step.name}", step.minutes) as tell, one_thread():
            parts[name, number] = _part(step, Run(quick, tell))
    return parts


def _on_workers(
    papers: Mapping[str, Paper], places: Sequence[Place], quick: bool, clock: Clock
) -> dict[Place, Part]:
    """Send steps to the workers of the cluster; each is told when it has ended."""
    order = sorted(places, key=lambda place: -papers[place[0]].steps[place[1]].minutes)

    def tell(index: int, found: tuple[Part, float]) -> None:
        name, number = order[index]
        step = papers[name].steps[number]
        clock.end(f"{name}: {step.name}", step.minutes, found[1])

    root = os.environ.get("VOXPRIOR_DATA")
    done = run_tasks(_of_worker, order, [quick, root], on_result=tell, long=True)
    if not done.complete:
        raise KeyboardInterrupt
    return {place: part for place, (part, _) in zip(order, done.values)}


def _of_worker(place: Place, seed: Any, quick: bool, root: str | None) -> tuple[Part, float]:
    """One step in a worker, which looks for data where this process does; and its seconds."""
    name, number = place
    with within_a_task(), looking_in(None if root is None else Path(root)):
        began = time.perf_counter()
        part = _part(load(name).steps[number], Run(quick))
        return part, time.perf_counter() - began


def _part(step: Step, run: Run) -> Part:
    """What a step finds, or why it is left out."""
    try:
        return step.work(run)
    except DataAbsentError as absent:
        return Part({f"{LEFT_OUT}{step.name}": Table(str(absent))})


class Clock:
    """A bar with the step that runs and the time that is left, by the minutes that steps take."""

    def __init__(self, minutes: Sequence[float]):
        self.total, self.done, self.began = sum(minutes), 0.0, time.perf_counter()
        columns = (TextColumn("{task.description}", markup=False), BarColumn())
        left = TextColumn("{task.fields[left]}")
        self.bar = Progress(*columns, left, console=Console(stderr=True))
        self.task = self.bar.add_task("", total=self.total, left="")

    @contextmanager
    def step(self, name: str, minutes: float) -> Iterator[Callable[[float], None]]:
        """Show a step; what the block gets tells the share of it that is done."""
        began, before = time.perf_counter(), self.done
        self.bar.update(self.task, description=name)
        yield lambda share: self._show(before + share * minutes)
        self.end(name, minutes, time.perf_counter() - began)

    def end(self, name: str, minutes: float, seconds: float) -> None:
        """Tell that a step has ended, and how long it took."""
        self.done += minutes
        left = self._show(self.done)
        told = f"{name}: {in_words(seconds)}, {left}"
        self.bar.console.print(told, markup=False, highlight=False)

    def _show(self, done: float) -> str:
        """Move the bar; the rest takes as long as it should at the speed so far."""
        spent = time.perf_counter() - self.began
        left = f"about {in_words(spent * (self.total - done) / done)} left"
        self.bar.update(self.task, completed=done, left=left)
        return left


def in_words(seconds: float) -> str:
    """A duration, rounded.

    >>> in_words(12.3), in_words(600)
    ('12 s', '10 min')
    """
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def drawing(figure: Any, caption: str = "", dpi: int = 90) -> Drawing:
    """A figure of matplotlib as a picture."""
    file = io.BytesIO()
    figure.savefig(file, dpi=dpi, format="png", metadata={"Software": None})
    return Drawing(file.getvalue(), caption)
