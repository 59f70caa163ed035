"""How the fit of every family grows with voxels and with scans: processor time, peak memory.

``python -m benchmarks.scaling [--quick]``. Two classes, noise with a little signal, float32, one
thread. A family that took longer than `PATIENCE` seconds is not tried at the next size.
"""

import argparse
import ctypes
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numba
import numpy as np
from threadpoolctl import threadpool_limits

from voxprior import (
    AutoClassifier,
    FeatureSharingNB,
    GPClassifier,
    InverseTreeClassifier,
    RandomFieldClassifier,
    RVMClassifier,
    RVMRegressor,
    SpatialBoostingClassifier,
)
from voxprior.blocks.threads import block_threads
from voxprior.papers.measure import measure
from voxprior.papers.tables import machine, save

FAMILIES: dict[str, Callable] = {
    "auto": AutoClassifier,
    "gp": GPClassifier,
    "rvm": RVMClassifier,
    "rvm, numbers": RVMRegressor,
    "sharing": FeatureSharingNB,
    "network": lambda: InverseTreeClassifier(doubt=None),
    "fields": RandomFieldClassifier,
    "boosting": SpatialBoostingClassifier,
}
# Scans that voxels are counted with, and the reverse.
SCANS, VOXELS = 20, 1000
PATIENCE = 10.0


def growth(sizes: Iterable[int], of: Callable[[int], tuple[int, int]], name: str) -> list[dict]:
    """A row per family and size, with the exponent from the size before."""
    rows = []
    for family, make in FAMILIES.items():
        before: tuple[int, float] | None = None
        for size in sizes:
            if before is not None and before[1] > PATIENCE:
                break
            seconds, megabytes = timed(make, *of(size))
            slope = None
            if before is not None and before[1] > 0.02:
                slope = np.log(seconds / before[1]) / np.log(size / before[0])
            rows.append(
                {"family": family, name: size, "CPU s": seconds, "MB": megabytes, "exponent": slope}
            )
            before = (size, seconds)
            print(rows[-1], flush=True)
    return rows


def timed(make: Callable, n_scans: int, n_voxels: int) -> tuple[float, float]:
    """Processor seconds and peak megabytes above the data of one fit."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_scans, n_voxels), dtype=np.float32)
    y = np.arange(n_scans) % 2
    X[:, :20] += np.float32(0.3) * y[:, None]
    spent = []

    def fit():
        began = time.process_time()
        make().fit(X, y)
        spent.append(time.process_time() - began)

    # What earlier fits freed but the C library kept would hide what this one takes.
    ctypes.CDLL(None).malloc_trim(0)
    peak = measure(fit, repeats=1, warm_up=False).peak_mb
    return spent[-1], peak


def main(argv: Sequence[str] | None = None) -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description="Growth with voxels and scans.")
    parser.add_argument("--quick", action="store_true", help="the smallest sizes; writes nothing")
    quick = parser.parse_args(argv).quick
    voxels = (100, 1000) if quick else (1000, 10_000, 100_000, 1_000_000, 10_000_000)
    scans = (10, 20) if quick else (10, 30, 100, 300, 1000, 3000, 10_000)
    numba.set_num_threads(1)
    with threadpool_limits(1), block_threads(1):
        for make in FAMILIES.values():
            for n_scans in (SCANS, 300):  # compiles; ranks above 255 are of another type
                timed(make, n_scans, 100)
        tables = {
            f"Voxels, {SCANS} scans": growth(voxels, lambda V: (SCANS, V), "voxels"),
            f"Scans, {VOXELS:,} voxels": growth(scans, lambda n: (n, VOXELS), "scans"),
        }
    note = (
        "One fit with default parameters (the network without doubt), processor time of one "
        "thread, peak memory above that of the data. The exponent is that from the size "
        f"before. A family that took more than {PATIENCE:.0f} s was not tried at the next size. "
        f"{machine('numba')}."
    )
    path = Path("/dev/null") if quick else Path(__file__).with_suffix(".md")
    save(path, "Growth of a fit", tables, note)


if __name__ == "__main__":
    main()
