"""Times of a run, in a file of their own.

The same command writes the same bytes whenever and wherever it runs, with any number of workers.
All that differs between two runs goes into ``run.json``: when it started, how long every phase and
fold took, on what machine, and by what command.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from voxprior.content import versions
from voxprior.writing import write_whole

if TYPE_CHECKING:
    from voxprior.validation import Result

RUN_FILE = "run.json"


class Clock:
    """When a run started, the seconds of its phases, and the command line that asked for it.

    >>> clock = Clock()
    >>> with clock.phase("reading images", show=False):
    ...     pass
    >>> list(clock.seconds)
    ['reading images']
    """

    def __init__(self, command: str = "") -> None:
        self.command = command
        self.started = datetime.now().astimezone()
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str, show: bool = True) -> Iterator[None]:
        """Time what is done inside, and show that it goes on, unless it has a bar of its own."""
        from rich.console import Console

        start = perf_counter()
        with Console(stderr=True).status(name) if show else nullcontext():
            yield
        self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start

    def write(self, path: Path, results: dict[str, Result]) -> None:
        """Write the file; results come by the name of their model."""
        content: dict[str, Any] = {
            "started": self.started.isoformat(timespec="seconds"),
            "command": self.command or None,
            "seconds": self.seconds,
            "folds": {name: result.timings.to_dict("list") for name, result in results.items()},
            "machine": {
                "system": platform.platform(),
                "processor": platform.machine(),
                "cores": os.cpu_count(),
                "python": sys.version.split()[0],
            },
            "versions": versions(),
        }
        write_whole(path, json.dumps(content, indent=1))
