"""Permutation tests that reuse what labels do not change, against refitting every time.

python -m benchmarks.speed.permutation [--quick]
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

from voxprior import FeatureSharingNB, VoxelSpace
from voxprior.papers.tables import machine, save
from voxprior.validation import permutation, permutation_test

# Grid, runs, scans per run, relabellings timed.
SIZES = (((10, 10, 5), 8, 12, 40), ((20, 20, 10), 8, 12, 20), ((40, 40, 25), 8, 24, 6),
         ((40, 40, 25), 8, 72, 4))  # fmt: skip


def seconds(model, X, y, runs, n: int, reuse: bool) -> tuple[float, np.ndarray]:
    """One permutation test, and the scores of its relabellings."""
    given = permutation.prepare_for_labels if reuse else lambda estimator, X, groups: None
    with mock.patch.object(permutation, "prepare_for_labels", given):
        start = time.perf_counter()
        found = permutation_test(model, X, y, runs, n_permutations=n, stop_after=None)
        return time.perf_counter() - start, found.null


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


def main(argv: Sequence[str] | None = None) -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description="Race of prepared fits against refitting.")
    parser.add_argument("--quick", action="store_true", help="the smallest size, once")
    arguments = parser.parse_args(argv)
    sizes, repeats = (SIZES[:1], 1) if arguments.quick else (SIZES, 5)
    with threadpool_limits(1):
        rows = [
            race(*size, calibration, repeats)
            for size in sizes
            for calibration in ("effective", None)
        ]
    note = (
        "Feature sharing, leave-one-run-out, accuracy; a whole permutation test with and without "
        f"`prepare` / `fit_prepared`, best of {repeats}, one thread. {machine()}."
    )
    path = Path(__file__).with_suffix(".md")
    save(Path("/dev/null") if arguments.quick else path, "Permutation tests", {"Race": rows}, note)


if __name__ == "__main__":
    main()
