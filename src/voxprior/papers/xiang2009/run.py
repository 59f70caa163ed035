"""Xiang, Xi, Hasson & Ramadge (NIPS 2009): faces, digits, fMRI, and what the kernel does."""

from functools import partial

from voxprior.papers.frame import Paper, Step
from voxprior.papers.xiang2009 import brain, digits, faces, fmri, kernel

PAPER = Paper(
    "Xiang et al. 2009",
    [
        Step("faces", faces.trials, 3.0),
        *(Step(f"8 x 8, {kind}", partial(digits.small, kind), 0.4) for kind in digits.KINDS),
        *(Step(f"32 x 32, {kind}", partial(digits.large, kind), 3.5) for kind in digits.KINDS),
        Step("movie-like simulation", fmri.movie_like, 1.0),
        Step("Haxby", fmri.haxby_pairs, 1.0),
        Step("Figure 6", brain.figure_six, 0.1),
        Step("Figure 6, Haxby", brain.haxby_figure, 0.1),
        Step("kernel", kernel.properties, 1.0),
    ],
)
