"""The experiments of Carmi et al. 2009 on simulated and public data."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from voxprior.papers.carmi2009 import arms, chain, choices, scans
from voxprior.papers.frame import Paper, Part, Run, Step, Table

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


def _step(name: str) -> Step:
    title, work = SECTIONS[name]
    return Step(name, lambda run: Part({title: Table(work(run.quick))}))


def _original(run: Run) -> Part:
    title = "Picture against sentence: original files"
    return Part({title: Table(scans.original_files(run.quick))})


PAPER = Paper(
    "Carmi et al. 2009",
    [
        Step("published", lambda run: Part({"Published": Table(arms.published())}), 0.01),
        *map(_step, SECTIONS),
        Step("original files", _original),
    ],
)
