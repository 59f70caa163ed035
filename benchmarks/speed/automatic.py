"""Permutation tests of the automatic estimators: all relabellings at once against refitting.

python -m benchmarks.speed.automatic [--quick]
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from voxprior import AutoClassifier, AutoRegressor, VoxelSpace
from voxprior.papers.tables import machine, save
from voxprior.validation import permutation_test


def race(quick: bool) -> list[dict]:
    """The automatic estimators in batch and refitted, with and without runs."""
    space, rng = VoxelSpace.grid((10, 10, 10)), np.random.default_rng(0)
    y, runs = np.tile([0, 1], 50), np.repeat(np.arange(10), 10)
    X = rng.normal(size=(100, space.n_voxels)).astype(np.float32) + np.float32(0.05) * y[:, None]
    designs = {
        "AutoClassifier, 10 runs": (AutoClassifier(space), y, runs, 255),
        "AutoClassifier, no runs": (AutoClassifier(space), y, None, 15),
        "AutoRegressor, 10 runs": (AutoRegressor(space), rng.normal(size=100), runs, 63),
    }
    rows = []
    for name, (model, target, groups, in_batch) in designs.items():
        took = {}
        for test, n in {"warm": 1, "refit": 7, "batch": in_batch}.items():
            n = 1 if quick else n
            start = time.process_time()
            permutation_test(
                model,
                X,
                target,
                groups,
                test="batch" if test == "warm" else test,
                n_permutations=n,
                stop_after=None,
                audited=(),
            )
            took[test] = 1e3 * (time.process_time() - start) / (n + 1)
        rows.append(
            {
                "decoder": name,
                "refit, ms per relabelling": took["refit"],
                "batch, ms per relabelling": took["batch"],
                "refit / batch": took["refit"] / took["batch"],
            }
        )
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description="The automatic estimators in batch.")
    parser.add_argument("--quick", action="store_true", help="one relabelling each")
    arguments = parser.parse_args(argv)
    with threadpool_limits(1):
        rows = race(arguments.quick)
    note = (
        "Whole calls of `permutation_test` on 100 scans of 1,000 voxels, in ten runs of which one "
        "is left out at a time, or in five folds; processor time of one thread. `refit` reuses "
        "Gram matrices by `fit_prepared`; `batch` shares eigenvectors and matrix products too, "
        f"where labels do not decide the folds. The scores are the same. {machine()}."
    )
    path = Path("/dev/null") if arguments.quick else Path(__file__).with_suffix(".md")
    save(path, "Permutation tests of the automatic estimators", {"In batch": rows}, note)


if __name__ == "__main__":
    main()
