"""Reproduce the experiments of Carmi et al. 2009 on simulated and public data.

python -m benchmarks.papers.carmi2009.run [--data DIR] [--quick] [--only SECTION ...]

``--data`` names a folder with the original ``data-starplus-*.mat`` files; Haxby and finger7T are
looked for where ``VOXPRIOR_DATA`` says. Finished sections are kept in results.json, so that one can
be run again without the others; results.md is written from them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.papers.carmi2009 import arms, chain, choices, scans
from benchmarks.tables import machine, save

HERE = Path(__file__).parent
TWO_OUT = "Two-out at the report's sizes, classes that differ in connectivity only"
PATTERNS = "Real patterns, pairs of classes, leave one run out, 100 nodes"
# Short name: title of the table its rows go to, and the work.
SECTIONS: dict[str, tuple[str, Callable[[bool], list[dict]]]] = {
    "fig3.2": (TWO_OUT, partial(chain.two_out, "Fig 3.2")),
    "fig3.4": (TWO_OUT, partial(chain.two_out, "Fig 3.4")),
    "fig3.5": (TWO_OUT, partial(chain.two_out, "Fig 3.5")),
    "new": ("The same sizes, 300 new scans", chain.many_new_scans),
    "each": ("Compression after each scan, as published", chain.after_each_scan),
    "scans": ("Scans per node: where the plain filter collapses", chain.scans_per_node),
    "means": ("Connectivity or means", chain.connectivity_or_means),
    "adaptation": ("Adaptation to the scans left out", chain.adaptation),
    "choices": ("One choice at a time, strength fixed at gamma = 10, rho = 1", choices.run),
    "bias": (
        "A penalised bias flatters compression (Haxby block means)",
        choices.bias_and_compression,
    ),
    "starplus": (
        "Picture against sentence, 80 nodes of seven regions, two-out",
        scans.picture_or_sentence,
    ),
    "haxby": (PATTERNS, scans.haxby),
    "volumes": (PATTERNS, scans.haxby_volumes),
    "fingers": (PATTERNS, scans.fingers),
}


def main(argv: list[str] | None = None) -> dict:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the StarPlus .mat files")
    parser.add_argument("--quick", action="store_true", help="seconds long; writes no results")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    arguments = parser.parse_args(argv)
    store = HERE / "results.json"
    done = json.loads(store.read_text()) if store.exists() and not arguments.quick else {}
    for name in arguments.only:
        began = time.perf_counter()
        try:
            done[name] = SECTIONS[name][1](arguments.quick)
        except FileNotFoundError as absent:
            print(f"{name}: left out, {absent}", flush=True)
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
        if not arguments.quick:
            store.write_text(json.dumps(done, indent=1) + "\n")
    sections = _tables(done)
    if arguments.data:
        original = scans.original_files(arguments.data, arguments.quick)
        title = "Picture against sentence: original files"
        sections[title] = original or f"No data-starplus-*.mat in {arguments.data}."
    if not arguments.quick:
        note = (
            f"Written by `python -m benchmarks.papers.carmi2009.run`. {machine('numba')}. "
            "Accuracies; what they mean is in README.md."
        )
        save(HERE / "results.md", "Carmi et al. 2009, reproduced", sections, note)
    return sections


def _tables(done: dict[str, list[dict]]) -> dict:
    """Rows of the finished sections under their titles, after the published numbers."""
    sections: dict = {"Published": arms.published()}
    for name, (title, _) in SECTIONS.items():
        if name in done:
            sections[title] = sections.get(title, []) + done[name]
    return sections


if __name__ == "__main__":
    main()
