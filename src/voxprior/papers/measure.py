"""Time and peak memory of one call, so that peers in the same run can be compared as ratios."""

import gc
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Measured(NamedTuple):
    """Best wall-clock seconds, peak resident megabytes above the start, last return value."""

    seconds: float
    peak_mb: float
    value: Any


def resident_mb() -> float:
    """Resident memory of this process in MB (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise OSError("VmRSS not found in /proc/self/status")


def measure(call: Callable[[], Any], repeats: int = 3, warm_up: bool = True) -> Measured:
    """Best of ``repeats``; a warm-up call first pays compilation and caches."""
    if warm_up:
        call()
    gc.collect()
    start, peak, done = resident_mb(), 0.0, threading.Event()

    def watch():
        nonlocal peak
        while not done.wait(0.002):
            peak = max(peak, resident_mb())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    seconds, value = float("inf"), None
    for _ in range(repeats):
        began = time.perf_counter()
        value = call()
        seconds = min(seconds, time.perf_counter() - began)
    done.set()
    watcher.join()
    return Measured(seconds, max(peak, resident_mb()) - start, value)
