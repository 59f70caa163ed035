"""Leave-one-run-out from a memory map of 6 GB: memory of its own (RssAnon) and time, by family.

Each family runs in a process of its own, which a thread watches ten times a second. Pages of the
file that the system keeps are not the process's own and are not counted.

    python -m benchmarks.speed.memory FOLDER [FAMILY ...]      6 GB of disk, deleted afterwards
"""

import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

SCANS, VOXELS, RUNS = 250, 6_000_000, 5
FAMILIES = ("auto", "gp", "rvm", "sharing", "network", "fields", "boosting")
LIMIT = "1GB"


def make(path: Path) -> None:
    """Noise with a signal in every hundredth voxel, in the order of scans."""
    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(path, "w+", np.float32, (SCANS, VOXELS))
    for i, row in enumerate(X):
        rng.standard_normal(dtype=np.float32, out=row)
        row[::100] += 0.1 * (i % 2)
    X.flush()


def own_memory() -> int:
    """Kilobytes of this process that are of no file."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1])


def run(path: Path, family: str) -> None:
    """Leave-one-run-out of one family; prints seconds, the peak in MB and the accuracy."""
    from voxprior import max_memory, registry
    from voxprior.validation import cross_validate

    peak, done = [own_memory()], threading.Event()

    def watch() -> None:
        while not done.wait(0.1):
            peak[0] = max(peak[0], own_memory())

    threading.Thread(target=watch, daemon=True).start()
    X, start = np.load(path, mmap_mode="r"), time.perf_counter()
    y, runs = np.arange(SCANS) % 2, np.arange(SCANS) * RUNS // SCANS
    model = registry.model(family).make()
    try:
        with max_memory(LIMIT):
            accuracy = cross_validate(model, X, y, runs).pooled()["accuracy"]
        told = f"{accuracy:.3f}"
    except ValueError as error:
        told = str(error)
    done.set()
    print(f"| {family} | {time.perf_counter() - start:.0f} | {peak[0] / 1000:.0f} | {told} |")


def main() -> None:
    """Run every family in turn."""
    folder, *families = sys.argv[1:]
    path = Path(folder) / "scans.npy"
    if "--one" in families:
        run(path, families[-1])
        return
    try:
        make(path)
        print("| family | seconds | own memory, MB | accuracy |\n|---|---|---|---|", flush=True)
        for family in families or FAMILIES:
            command = [sys.executable, "-m", "benchmarks.speed.memory", folder, "--one", family]
            subprocess.run(command, check=False)
    finally:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
