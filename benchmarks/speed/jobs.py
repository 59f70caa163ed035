"""What a second worker brings to permutation tests of a Gaussian process, by the clock.

python -m benchmarks.speed.jobs [--quick]

Run it on a machine with two idle cores. Processor time of this process and of its workers, which
have ended before it is read, says what sending, importing and compiling cost beside the work.
"""

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from joblib.externals.loky import get_reusable_executor

from voxprior import GPClassifier
from voxprior.papers.tables import machine, save
from voxprior.validation import permutation_test

# Test: relabellings. In batch, 256 are one task.
TESTS = {"refit": 200, "batch": 10_000}


def race(test: str, n: int, X, y, runs) -> list[dict]:
    """The same test by one process and by two workers, which are started anew."""
    rows, null = [], {}
    for jobs in (1, 2):
        began, before = time.perf_counter(), _processor_seconds()
        found = permutation_test(
            GPClassifier(), X, y, runs, test=test, n_permutations=n, stop_after=None, n_jobs=jobs,
            audited=(),
        )  # fmt: skip
        clock = time.perf_counter() - began
        get_reusable_executor().shutdown(wait=True)
        null[jobs] = found.null
        rows.append({
            "test": test, "relabellings": n, "jobs": jobs, "clock, s": clock,
            "processor, s": _processor_seconds() - before,
        })  # fmt: skip
    first, second = rows
    second["clock, 1 / 2"] = first["clock, s"] / second["clock, s"]
    second["processor, 2 / 1"] = second["processor, s"] / first["processor, s"]
    second["same scores"] = str(np.array_equal(null[1], null[2]))
    return [first | {key: "" for key in second if key not in first}, second]


def _processor_seconds() -> float:
    """Of this process, and of its children that have ended."""
    return sum(os.times()[:4])


def main(argv: Sequence[str] | None = None) -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description="One process against two workers.")
    parser.add_argument("--quick", action="store_true", help="few voxels and relabellings")
    quick, load = parser.parse_args(argv).quick, os.getloadavg()[0]
    rng = np.random.default_rng(0)
    y, runs = np.tile([0, 1], 50), np.repeat(np.arange(10), 10)
    X = rng.normal(size=(100, 500 if quick else 20_000)).astype(np.float32)
    X += np.float32(0.05) * y[:, None]
    permutation_test(GPClassifier(), X, y, runs, test="refit", n_permutations=2, audited=())
    rows = []
    for test, n in TESTS.items():
        rows += race(test, 7 if quick else n, X, y, runs)
    note = (
        "A Gaussian process on 100 scans of 20,000 voxels in 10 runs, one left out at a time; "
        f"whole calls of `permutation_test`. Load {load:.1f} at the start. "
        f"{machine()}."
    )
    save(None if quick else Path(__file__).with_suffix(".md"), "Jobs", {"Two workers": rows}, note)


if __name__ == "__main__":
    main()
