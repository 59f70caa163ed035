"""The experiments of Carmi et al. 2009 on simulated and public data."""

from __future__ import annotations

from functools import partial

from voxprior.papers.carmi2009 import arms, chain, choices, figures, options, scans
from voxprior.papers.frame import Paper, Part, Step, Table

PAPER = Paper(
    "Carmi et al. 2009",
    [
        Step("published", lambda run: Part({"Published": Table(arms.published())}), 0.01),
        *(Step(figure, partial(chain.two_out, figure), 0.2) for figure in chain.SIZES),
        Step("new scans", chain.new_scans, 0.4),
        Step("adaptation", chain.adaptation, 0.1),
        Step("figures", figures.of_fields, 0.05),
        Step("sections", figures.of_scans, 0.05),
        Step("after each scan", chain.after_each_scan, 1.3),
        Step("scans per node", chain.scans_per_node, 0.3),
        Step("connectivity or means", chain.connectivity_or_means, 0.2),
        Step("blocks", options.blocks, 0.7),
        Step("time", options.time, 0.1),
        Step("choices", choices.run_choices, 0.4),
        Step("bias", choices.bias_and_compression, 0.2),
        Step("picture or sentence", scans.picture_or_sentence, 0.3),
        Step("real patterns", scans.patterns, 1.5),
        Step("original files", scans.original_files, 0.1),
    ],
)
