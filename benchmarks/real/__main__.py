"""Run the race and write its page: ``python -m benchmarks.real [--only DATA ...] [--scores FILE]``.

The real data are looked for in the folder that VOXPRIOR_DATA names.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.real.page import write_page
from benchmarks.real.race import race
from benchmarks.real.tasks import TASKS


def main() -> None:
    """Parse the options, run, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real")
    parser.add_argument("--only", nargs="+", choices=sorted({t.data for t in TASKS}))
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent, help="folder of the page"
    )
    parser.add_argument("--scores", type=Path, help="keep finished tasks here, to go on from")
    chosen = parser.parse_args()
    tasks = [t for t in TASKS if chosen.only is None or t.data in chosen.only]
    scores = race(tasks, chosen.scores)
    write_page(scores, chosen.out)


if __name__ == "__main__":
    main()
