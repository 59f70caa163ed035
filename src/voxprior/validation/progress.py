"""How much of some work is done: a bar in a terminal, and one in a notebook."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from voxprior.errors import InputWarning

__all__ = ["progress_bar"]

# A notebook keeps up with as many updates in a second.
UPDATES = 5
# Work that takes more seconds in all is announced where no bar can be seen.
LONG = 30.0
# How far back a terminal looks for the speed: some steps take minutes.
SECONDS_OF_SPEED = 3600.0


@contextmanager
def progress_bar(show: bool, name: str, total: int) -> Iterator[Callable[..., None]]:
    """Show how much of some work is done, if wanted; call what it gives after each step of it."""
    console = Console(stderr=True)
    speak_up = _silent_until_long(name, total)
    if not show:
        yield speak_up
        return
    if console.is_jupyter:
        # rich's own bar needs ipywidgets, and leaves nothing in a notebook that is saved.
        with _in_notebook(NotebookBar(name, total)) as advance:
            yield advance
        return
    columns: list[ProgressColumn] = [TextColumn("{task.description}"), BarColumn()]
    columns += [MofNCompleteColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=console, speed_estimate_period=SECONDS_OF_SPEED) as bar:
        line = bar.add_task(name, total=total)
        bar.advance(line, 0)  # speed counts from here: the first step gives the time left

        def advance(done: int = 1) -> None:
            bar.advance(line, done)
            if not console.is_terminal:  # a log has the bar when all is done
                speak_up(done)

        yield advance


def _silent_until_long(name: str, total: int) -> Callable[..., None]:
    """Count steps where no bar can be seen, and warn once where they are going to take long."""
    began, counted = time.monotonic(), 0

    def advance(done: int = 1) -> None:
        nonlocal counted
        first, counted = counted == 0, counted + done
        taken = time.monotonic() - began
        left = taken / counted * (total - counted)
        if first and left > 0 and taken + left > LONG:
            words = f"{left:.0f} seconds" if left < 90 else f"{left / 60:.0f} minutes"
            text = f"{counted} of {total} {name} took {taken:.0f} s: about {words} are left."
            warnings.warn(InputWarning(text), stacklevel=3)

    return advance


@dataclass
class NotebookBar:
    """A bar as a notebook shows it, and as text where HTML is not."""

    name: str
    total: int
    done: int = 0
    began: float = field(default_factory=time.monotonic)

    def __repr__(self) -> str:
        return f"{self.name} {self.done}/{self.total}, {self._time()}"

    def _repr_html_(self) -> str:
        bar = f'<progress max="{max(self.total, 1)}" value="{self.done}"></progress>'
        return f"<div>{escape(self.name)} {bar} {self.done}/{self.total}, {self._time()}</div>"

    def _time(self) -> str:
        """Seconds that it took, or that are left if the rest goes as fast."""
        taken = time.monotonic() - self.began
        if self.done >= self.total:
            return f"{taken:.0f} s"
        if not self.done:
            return "started"
        return f"about {taken / self.done * (self.total - self.done):.0f} s left"


@contextmanager
def _in_notebook(bar: NotebookBar) -> Iterator[Callable[..., None]]:
    from IPython.display import display

    handle = display(bar, display_id=True)
    shown = time.monotonic()

    def advance(done: int = 1) -> None:
        nonlocal shown
        bar.done += done
        if time.monotonic() - shown > 1 / UPDATES:
            shown = time.monotonic()
            handle.update(bar)

    try:
        yield advance
    finally:
        handle.update(bar)
