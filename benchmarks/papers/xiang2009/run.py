"""Reproduce Xiang, Xi, Hasson & Ramadge (NIPS 2009): faces, digits, fMRI, and what the kernel does.

python -m benchmarks.papers.xiang2009.run [--data DIR] [--quick] [--only faces digits ...]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from benchmarks.papers.xiang2009 import digits, faces, fmri, kernel
from benchmarks.tables import machine, save

HERE = Path(__file__).parent
EXPERIMENTS = {"faces": faces, "digits": digits, "fmri": fmri, "kernel": kernel}


def main(argv: list[str] | None = None) -> dict:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of the real data sets")
    parser.add_argument("--quick", action="store_true", help="seconds long; writes no results")
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS, default=list(EXPERIMENTS))
    arguments = parser.parse_args(argv)
    if arguments.data:
        os.environ["VOXPRIOR_DATA"] = arguments.data
    sections: dict = {}
    with tempfile.TemporaryDirectory() as scratch:
        figures = Path(scratch) if arguments.quick else HERE / "figures"
        figures.mkdir(exist_ok=True)
        for name in arguments.only:
            began = time.perf_counter()
            try:
                sections |= EXPERIMENTS[name].run(arguments.quick, figures)
            except FileNotFoundError as absent:
                sections[f"{name}: left out"] = str(absent)
            print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
    if not arguments.quick and len(arguments.only) == len(EXPERIMENTS):
        note = f"Written by `python -m benchmarks.papers.xiang2009.run`. {machine('numba')}."
        save(HERE / "results.md", "Xiang et al. 2009, reproduced", sections, note)
    return sections


if __name__ == "__main__":
    main()
