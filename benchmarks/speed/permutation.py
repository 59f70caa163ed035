"""Permutation tests that reuse what labels do not change, and tests in batch, against refitting.

python -m benchmarks.speed.permutation [--quick]
"""

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

from voxprior import (
    FeatureSharingNB,
    GPClassifier,
    InverseTreeClassifier,
    RandomFieldClassifier,
    SpatialBoostingClassifier,
    VoxelSpace,
)
from voxprior.papers.tables import machine, save
from voxprior.validation import permutation, permutation_test

# Grid, runs, scans per run, relabellings timed.
SIZES = (((10, 10, 5), 8, 12, 40), ((20, 20, 10), 8, 12, 20), ((40, 40, 25), 8, 24, 6),
         ((40, 40, 25), 8, 72, 4))  # fmt: skip
# Tests of a Gaussian process: relabellings timed, of which 10,000 are extrapolated.
WAYS = {"refit": 3, "batch": 511, "fast": 10_000}
# Of feature sharing on 20,384 voxels: a whole block of relabellings, as a long test takes them.
SHARING_WAYS = {"refit": 3, "batch": 511}
# Of boosting, a random field and a network on 40 scans of 20,384 voxels.
SLOW_WAYS = {"refit": 1, "batch": 31}
PLANNED = 10_000


def seconds(model, X, y, runs, n: int, reuse: bool) -> tuple[float, np.ndarray]:
    """One permutation test, and the scores of its relabellings."""
    given = permutation.prepare_for_labels if reuse else lambda *_: None
    with mock.patch.object(permutation, "prepare_for_labels", given):
        start = time.process_time()
        found = permutation_test(model, X, y, runs, n_permutations=n, stop_after=None, test="refit")
        return time.process_time() - start, found.null


def race(shape, n_runs: int, per_run: int, n: int, calibration: str | None, repeats: int) -> dict:
    """Best of several, the two ways in turn."""
    space, rng = VoxelSpace.grid(shape), np.random.default_rng(0)
    y, runs = np.tile([0, 1], n_runs * per_run // 2), np.repeat(np.arange(n_runs), per_run)
    X = rng.normal(size=(len(y), space.n_voxels)).astype(np.float32)
    model = FeatureSharingNB(space, calibration=calibration)
    best, null = {}, {}
    for _ in range(repeats):
        for reuse in (True, False):
            took, null[reuse] = seconds(model, X, y, runs, n, reuse)
            best[reuse] = min(took, best.get(reuse, np.inf))
    return {
        "voxels": space.n_voxels,
        "scans": len(y),
        "calibration": str(calibration),
        "refit, ms per fit": 1e3 * best[False] / (n + 1) / n_runs,
        "refit / reuse": best[False] / best[True],
        "same scores": str(np.array_equal(null[True], null[False])),
    }


def batch_race(
    model, n_voxels: int, ways: dict[str, int], quick: bool, n_scans: int = 100
) -> list[dict]:
    """A family on scans in 10 runs: refitted, in batch, and a ridge in its place."""
    rng = np.random.default_rng(0)
    y, runs = np.tile([0, 1], n_scans // 2), np.repeat(np.arange(10), n_scans // 10)
    X = rng.normal(size=(n_scans, n_voxels)).astype(np.float32) + np.float32(0.05) * y[:, None]
    took = {}
    for repeat in range(1 if quick else 3):
        for test, n in ways.items():
            n = min(n, 7) if quick or repeat == 0 else n  # the first compiles
            start = time.process_time()
            permutation_test(
                model, X, y, runs, test=test, n_permutations=n, stop_after=None, audited=()
            )
            each = (time.process_time() - start) / (n + 1)
            if quick or repeat:
                took[test] = min(each, took.get(test, np.inf))
    return [
        {
            "family": type(model).__name__,
            "scans": n_scans,
            "values": n_voxels,
            "test": test,
            "relabellings timed": n,
            "per second": 1 / took[test],
            f"seconds for {PLANNED:,}": took[test] * PLANNED,
            "refit / this": round(took["refit"] / took[test]),
        }
        for test, n in ways.items()
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description="Races against refitting for every relabelling.")
    parser.add_argument("--quick", action="store_true", help="the smallest size, once")
    parser.add_argument("--repeats", type=int, default=5, help="times each way is run")
    arguments = parser.parse_args(argv)
    sizes, repeats = (SIZES[:1], 1) if arguments.quick else (SIZES, arguments.repeats)
    with threadpool_limits(1):
        rows = [
            race(*size, calibration, repeats)
            for size in sizes
            for calibration in ("effective", None)
        ]
        ways = batch_race(GPClassifier(), 1000, WAYS, arguments.quick)
        space = VoxelSpace.grid((6, 6, 6) if arguments.quick else (28, 28, 26))
        sharing = FeatureSharingNB(space)
        ways += batch_race(sharing, space.n_voxels, SHARING_WAYS, arguments.quick)
        boosting = SpatialBoostingClassifier(space)
        for model in (boosting, RandomFieldClassifier(), InverseTreeClassifier()):
            ways += batch_race(model, space.n_voxels, SLOW_WAYS, arguments.quick, 40)
    note = (
        "Race: feature sharing, leave-one-run-out, accuracy; a whole permutation test with and "
        f"without `prepare` / `fit_prepared`, processor time, best of {repeats}, one thread. "
        "In batch: 10 runs, one left out at a time; whole calls of "
        "`permutation_test`, processor time of one thread, best of two, scaled to "
        f"10,000 relabellings. Load average {os.getloadavg()[0]:.0f}. {machine()}."
    )
    path = Path(__file__).with_suffix(".md")
    tables = {"Race": rows, "In batch": ways}
    save(Path("/dev/null") if arguments.quick else path, "Permutation tests", tables, note)


if __name__ == "__main__":
    main()
