"""Picture against sentence, simulated or original, and patterns of Haxby and 7 T fingers."""

from __future__ import annotations

import numpy as np

from voxprior.images import load_starplus
from voxprior.papers import datasets
from voxprior.papers.carmi2009 import arms
from voxprior.papers.carmi2009.choices import pairs_of
from voxprior.papers.claims import Claim, told
from voxprior.papers.frame import Part, Run, Table
from voxprior.simulate import time_courses
from voxprior.validation import MonteCarloLeaveOnePerClassOut

REGIONS = ["CALC", "LIPL", "LT", "LTRIA", "LOPER", "LIPS", "LDLPFC"]
IMAGES = 16
PATTERNS = "Real patterns, pairs of classes, leave one run out, 100 nodes (ours)"


def picture_or_sentence(run: Run) -> Part:
    """The CMU protocol on simulated subjects: first image alone, and the mean of the window."""
    rows = []
    for name in run.each(("first image", "mean of images 1-16")):
        rounds = []
        for seed in arms.data_sets(run):
            data = time_courses(
                (10, 10, 6), 20, amplitude=0.4, noise_smoothness=1.0, n_regions=25,
                active_regions=7, random_state=seed,
            )  # fmt: skip
            part = np.isin(data.truth["region"], np.arange(1, 8))
            X = data.X.reshape(len(data.X), IMAGES, -1)[:, :, part]
            rounds.append(_two_out(_images(X, name), data.y, 2 if run.quick else 20, seed))
        rows.append({"subjects": f"{len(rounds)} simulated", "images": name, **arms.pooled(rounds)})
    title = "Section 3.2: picture against sentence, 80 nodes of seven regions, two-out of 20 pairs"
    return Part({title: Table(rows)})


def original_files(run: Run) -> Part:
    """The CMU protocol on the original StarPlus files, where they are."""
    rows = []
    for path in run.each(datasets.starplus_files()):
        data = load_starplus(path, rois=REGIONS)
        X = np.asarray(data.X).reshape(len(data.y), IMAGES, -1)
        for name in ("first image", "mean of images 1-16"):
            rounds = [_two_out(_images(X, name), data.y, 2 if run.quick else 20, 0)]
            rows.append({"file": path.name, "images": name, **arms.pooled(rounds)})
    return Part({"Section 3.2: picture against sentence, original files": Table(rows)})


def _images(X, name):
    return X[:, 0] if name == "first image" else X.mean(axis=1)


def _two_out(X, y, n_pairs, seed):
    cv = MonteCarloLeaveOnePerClassOut(1, n_pairs=n_pairs, random_state=seed)
    return arms.accuracies(
        arms.some(80, *arms.PRINTED, "naive Bayes", "linear SVM"), X, y, cv.split(X, y)
    )


def patterns(run: Run) -> Part:
    """Pairs of categories or fingers; on volumes, nine per block, scans are about as many as nodes.

    A set of data is given with how many pairs of its classes are drawn.
    """
    sets = {
        "Haxby, block means": (lambda: datasets.haxby_vt(volumes=False), 10),
        "Haxby, volumes": (datasets.haxby_vt, 3),
        **{f"finger7T, subject {s}": (lambda s=s: datasets.finger7t(s), 5) for s in (1, 2, 3, 4)},
    }
    rows, gains = [], []
    methods = arms.some(100, *arms.PRINTED, *arms.CHOSEN, "naive Bayes", "linear SVM")
    for name, (read, wanted) in run.each(sets.items()):
        data = read()
        rounds = pairs_of(methods, data, wanted, run.quick, seed=1)
        effects = arms.gain(rounds, *arms.CHOSEN)
        gains += effects.tolist()
        rows.append(
            {
                "data": name,
                "pairs": len(rounds),
                "scans per class": int(np.unique(data.y, return_counts=True)[1][0]),
                **arms.pooled(rounds),
                "chosen: gain of compression": told(effects),
            }
        )
    claim = Claim(
        "Compression raises the accuracy on real patterns, gamma and strength chosen in training",
        gains,
        f"{len(gains)} pairs of classes, Haxby and finger7T",
        arms.printed_pair("Fig 3.2"),
        "other people's scans than the report's; pairs share runs, so they are not independent",
    )
    return Part({PATTERNS: Table(rows)}, claims=[claim])
