"""Xiang, Xi, Hasson & Ramadge (NIPS 2009): faces, digits, fMRI, and what the kernel does."""

from voxprior.papers.frame import Paper, Step
from voxprior.papers.xiang2009 import digits, faces, fmri, kernel

PAPER = Paper(
    "Xiang et al. 2009",
    [
        Step("faces", faces.trials, 2.0),
        Step("digits of 8 x 8", digits.small, 3.0),
        Step("digits of 32 x 32", digits.large, 5.0),
        Step("movie-like simulation", fmri.movie_like, 1.0),
        Step("Haxby", fmri.haxby_pairs, 2.0),
        Step("kernel", kernel.properties, 1.0),
    ],
)
