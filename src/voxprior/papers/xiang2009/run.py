"""Reproduce Xiang, Xi, Hasson & Ramadge (NIPS 2009): faces, digits, fMRI, and what the kernel does.

python -m voxprior.papers.xiang2009.run [--data DIR] [--quick] [--only faces digits ...]
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from voxprior.papers.tables import machine, options, save
from voxprior.papers.xiang2009 import digits, faces, fmri, kernel

EXPERIMENTS = {"faces": faces, "digits": digits, "fmri": fmri, "kernel": kernel}


def main(argv: list[str] | None = None) -> dict:
    arguments = options(__doc__, argv, EXPERIMENTS)
    sections: dict = {}
    with tempfile.TemporaryDirectory() as scratch:
        figures = (arguments.out or Path(scratch)) / "figures"
        figures.mkdir(exist_ok=True)
        for name in arguments.only:
            began = time.perf_counter()
            try:
                sections |= EXPERIMENTS[name].run(arguments.quick, figures)
            except FileNotFoundError as absent:
                sections[f"{name}: left out"] = str(absent)
            print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
    if arguments.out is not None and len(arguments.only) == len(EXPERIMENTS):
        note = f"Written by `python -m voxprior.papers.xiang2009.run`. {machine('numba')}."
        save(arguments.out / "results.md", "Xiang et al. 2009, reproduced", sections, note)
    return sections


if __name__ == "__main__":
    main()
