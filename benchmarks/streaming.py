"""Statistics of ten thousand scans, streamed from disk: class statistics, packed bits, Gram matrix.

    python -m benchmarks.streaming FOLDER [--scans 10000] [--voxels 100000]

Makes a float32 memory map in FOLDER (4 GB) and deletes it afterwards. Two threads.
"""

import argparse
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.speed.memory import own_memory
from voxprior import max_memory
from voxprior.blocks import blocked, gram_matrix
from voxprior.models.network.bits import cut_and_pack, learn_cut
from voxprior.models.sharing.statistics import class_statistics
from voxprior.papers.tables import machine, save

LIMIT = "4GB"
BAR = 30 * 60
NOTE = (
    "One pass over {scans:,} scans x {voxels:,} voxels, float32, {size:.0f} GB on disk, two "
    f"classes, two threads, `max_memory` {LIMIT}, whose quarter a Gram matrix may take. Own memory "
    "is the largest RssAnon above that before. The bar is 30 minutes for all three on two cores; "
    "the machine was busy with other work."
)


def make(path: Path, n_scans: int, n_voxels: int) -> np.ndarray:
    """Noise with a signal in every hundredth voxel."""
    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(path, "w+", np.float32, (n_scans, n_voxels))
    for i, row in enumerate(X):
        rng.standard_normal(dtype=np.float32, out=row)
        row[::100] += 0.1 * (i % 2)
    X.flush()
    return np.load(path, mmap_mode="r")


def measured(name: str, work: Callable[[], object]) -> dict[str, object]:
    """Time and memory of one statistic."""
    before, done = own_memory(), threading.Event()
    peak = [before]

    def watch() -> None:
        while not done.wait(0.1):
            peak[0] = max(peak[0], own_memory())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    clock, processor = time.perf_counter(), time.process_time()
    kept = work()
    spent, used = time.perf_counter() - clock, time.process_time() - processor
    done.set()
    watcher.join()
    del kept
    row = {
        "statistic": name,
        "clock s": round(spent),
        "processor s": round(used),
        "share of the bar": round(spent / BAR, 3),
        "own memory, GB": round((peak[0] - before) / 1e6, 2),
    }
    print(row, flush=True)
    return row


def main() -> None:
    """Measure the three statistics, and write the table where the sizes are those of the bar."""
    parser = argparse.ArgumentParser(description="Streamed statistics of many scans.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scans", type=int, default=10_000)
    parser.add_argument("--voxels", type=int, default=100_000)
    given = parser.parse_args()
    path, y = given.folder / "streamed.npy", np.arange(given.scans) % 2
    try:
        mapped = make(path, given.scans, given.voxels)
        numba.set_num_threads(min(2, numba.config.NUMBA_NUM_THREADS))
        with max_memory(LIMIT), threadpool_limits(2):
            X = blocked(mapped)
            rows = [
                measured("class statistics (sharing)", lambda: class_statistics(X, y, 2)),
                measured(
                    "cuts and packed bits (network)",
                    lambda: cut_and_pack(X, learn_cut(X, y, 2, "class")),
                ),
                measured("Gram matrix (gp, rvm, auto)", lambda: gram_matrix(X)),
            ]
    finally:
        path.unlink(missing_ok=True)
    whole = (given.scans, given.voxels) == (10_000, 100_000)
    size = given.scans * given.voxels * 4e-9
    note = NOTE.format(scans=given.scans, voxels=given.voxels, size=size)
    page = Path(__file__).with_suffix(".md") if whole else None
    save(page, "Streamed statistics", {"One pass": rows}, f"{note} {machine('numba')}.")


if __name__ == "__main__":
    main()
