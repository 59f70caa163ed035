"""Reproduce the experiments of Carmi et al. 2009 on simulated and public data.

python -m benchmarks.papers.carmi2009.run [--data DIR] [--quick]

``--data`` names a folder with the original ``data-starplus-*.mat`` files; Haxby and finger7T are
looked for where ``VOXPRIOR_DATA`` says.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from benchmarks.papers.carmi2009 import arms, chain, choices, scans
from benchmarks.tables import machine, save

HERE = Path(__file__).parent


def main(argv: list[str] | None = None) -> dict:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the StarPlus .mat files")
    parser.add_argument("--quick", action="store_true", help="seconds long; writes no results")
    arguments = parser.parse_args(argv)
    began = time.perf_counter()
    sections: dict = {"Published": arms.published()}
    sections |= chain.run(arguments.quick)
    print(f"chains: {time.perf_counter() - began:.0f} s", flush=True)
    sections |= choices.run(arguments.quick)
    title = "Picture against sentence, 80 nodes of seven regions, two-out"
    sections[title] = scans.picture_or_sentence(arguments.quick)
    if arguments.data:
        original = scans.original_files(arguments.data, arguments.quick)
        sections[f"{title}: original files"] = original or f"No file in {arguments.data}."
    try:
        name = "Haxby and finger7T pairs, leave one run out, 100 nodes"
        sections[name] = scans.real_patterns(arguments.quick)
    except FileNotFoundError as absent:
        sections["Haxby and finger7T: left out"] = str(absent)
    seconds = time.perf_counter() - began
    print(f"all: {seconds:.0f} s", flush=True)
    if not arguments.quick:
        note = (
            f"Written by `python -m benchmarks.papers.carmi2009.run` in {seconds / 60:.0f} min. "
            f"{machine('numba')}. Accuracies; what they mean is in README.md."
        )
        save(HERE / "results.md", "Carmi et al. 2009, reproduced", sections, note)
    return sections


if __name__ == "__main__":
    main()
