"""Reproduce the experiments of Carmi et al. 2009 on simulated and public data.

python -m voxprior.papers.carmi2009.run [--data DIR] [--quick] [--only SECTION ...]

Finished sections are kept in results.json of the folder --out, so that one can be run again without
the others; results.md is written from them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial

from voxprior.papers.carmi2009 import arms, chain, choices, scans
from voxprior.papers.tables import machine, options, save

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
    arguments = options(__doc__, argv, SECTIONS)
    store = arguments.out and arguments.out / "results.json"
    done = json.loads(store.read_text()) if store and store.exists() else {}
    for name in arguments.only:
        began = time.perf_counter()
        try:
            done[name] = SECTIONS[name][1](arguments.quick)
        except FileNotFoundError as absent:
            print(f"{name}: left out, {absent}", flush=True)
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
        if store:
            store.write_text(json.dumps(done, indent=1) + "\n")
    sections = _tables(done)
    if original := scans.original_files(arguments.quick):
        sections["Picture against sentence: original files"] = original
    note = (
        f"Written by `python -m voxprior.papers.carmi2009.run`. {machine('numba')}. "
        "Accuracies; what they mean is in README.md."
    )
    path = arguments.out and arguments.out / "results.md"
    save(path, "Carmi et al. 2009, reproduced", sections, note)
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
