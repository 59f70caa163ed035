"""Leave-one-run-out from a memory map of 6 GB: memory of its own (RssAnon) and time, by family.

Each family runs in a process of its own that may have no more than 2 GB of data (RLIMIT_DATA, which
counts what is reserved, used or not); a thread reads its RssAnon ten times a second. Pages of the
file that the system keeps are not the process's own and are not counted.

    python -m benchmarks.speed.memory FOLDER [FAMILY ...]      6 GB of disk, deleted afterwards

`--voxels` makes a smaller map, and writes no table.
"""

import argparse
import json
import resource
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np

from voxprior import max_memory, registry
from voxprior.errors import InputError, OutOfMemoryError
from voxprior.papers.tables import machine, save
from voxprior.validation import cross_validate

SCANS, VOXELS, RUNS = 250, 6_000_000, 5
LIMIT, HARD_LIMIT = "1GB", 2 * 10**9
# A model without its default settings, by what the table calls it.
OTHERS = {"network without doubt": ("network", {"doubt": None})}
FAMILIES = ("gp", "rvm", "sharing", "fields", "boosting", "auto", "network", *OTHERS)
NOTE = (
    f"Leave-one-run-out, {RUNS} runs, audit included, of {SCANS} scans x {VOXELS:,} voxels, "
    f"float32, 6 GB on disk, two classes, one thread, `max_memory` {LIMIT}. The system grants the "
    "process no more than 2 GB (RLIMIT_DATA). Own memory is the largest RssAnon of ten looks a "
    "second, with the 0.13 GB of Python and its packages. Families have their defaults where the "
    'table says nothing else; with that of the network, `doubt="gated"`, it is learned up to ten '
    "times more in every fold, one after the other. The machine was busy with other work: "
    "processor seconds say more than the clock."
)


def make(path: Path, n_voxels: int) -> None:
    """Noise with a signal in every hundredth voxel, in the order of scans."""
    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(path, "w+", np.float32, (SCANS, n_voxels))
    for i, row in enumerate(X):
        rng.standard_normal(dtype=np.float32, out=row)
        row[::100] += 0.1 * (i % 2)
    X.flush()


def own_memory() -> int:
    """Kilobytes of this process that are of no file."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1])


def run(path: Path, family: str) -> None:
    """Leave-one-run-out of one family; prints a row of the table."""
    resource.setrlimit(resource.RLIMIT_DATA, (HARD_LIMIT, HARD_LIMIT))
    warnings.simplefilter("ignore")
    peak, done = [own_memory()], threading.Event()

    def watch() -> None:
        while not done.wait(0.1):
            peak[0] = max(peak[0], own_memory())

    threading.Thread(target=watch, daemon=True).start()
    X = np.load(path, mmap_mode="r")
    y, runs = np.arange(SCANS) % 2, np.arange(SCANS) * RUNS // SCANS
    name, settings = OTHERS.get(family, (family, {}))
    model = registry.model(name).make(**settings)
    clock, processor = time.perf_counter(), time.process_time()
    try:
        with max_memory(LIMIT):
            told = f"{cross_validate(model, X, y, runs).pooled()['accuracy']:.3f}"
    except (InputError, OutOfMemoryError) as error:
        told = str(error)
    done.set()
    row = {
        "family": family,
        "own memory, GB": round(peak[0] / 1e6, 2),
        "processor s": round(time.process_time() - processor),
        "clock s": round(time.perf_counter() - clock),
        "accuracy": told,
    }
    print(json.dumps(row), flush=True)


def main() -> None:
    """Run every family in turn; a run that was stopped goes on with the families that it lacks."""
    parser = argparse.ArgumentParser(description="Leave-one-run-out from a large memory map.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("families", nargs="*", default=FAMILIES)
    parser.add_argument("--voxels", type=int, default=VOXELS)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    path, kept = given.folder / "scans.npy", given.folder / "rows.jsonl"
    if given.one:
        run(path, given.families[0])
        return
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    done = {row["family"] for row in rows}
    todo = [family for family in given.families if family not in done]
    try:
        if todo:
            make(path, given.voxels)
        for family in todo:
            command = [sys.executable, "-m", "benchmarks.speed.memory", str(given.folder), family]
            found = subprocess.run([*command, "--one"], check=True, stdout=subprocess.PIPE)
            rows.append(json.loads(found.stdout))
            print(rows[-1], flush=True)
            with kept.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    finally:
        path.unlink(missing_ok=True)
    page = Path(__file__).with_suffix(".md") if given.voxels == VOXELS else None
    save(page, "Memory beyond memory", {"Families": rows}, f"{NOTE} {machine('numba')}.")


if __name__ == "__main__":
    main()
