"""Picture against sentence, simulated or original, and patterns of Haxby and 7 T fingers."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from sklearn.model_selection import LeaveOneGroupOut

from voxprior.images import load_starplus
from voxprior.papers import datasets
from voxprior.papers.carmi2009 import arms
from voxprior.simulate import time_courses
from voxprior.validation import MonteCarloLeaveOnePerClassOut

REGIONS = ["CALC", "LIPL", "LT", "LTRIA", "LOPER", "LIPS", "LDLPFC"]
IMAGES = 16


def picture_or_sentence(quick: bool) -> list[dict]:
    """The CMU protocol on simulated subjects: first image alone, and the mean of the window."""
    rows = []
    for name in ("first image", "mean of images 1-16"):
        rounds = []
        for seed in range(1 if quick else 3):
            data = time_courses(
                (10, 10, 6), 20, amplitude=0.4, noise_smoothness=1.0, n_regions=25,
                active_regions=7, random_state=seed,
            )  # fmt: skip
            part = np.isin(data.truth["region"], np.arange(1, 8))
            X = data.X.reshape(len(data.X), IMAGES, -1)[:, :, part]
            rounds.append(_two_out(_images(X, name), data.y, 2 if quick else 8, seed))
        rows.append({"subjects": f"{len(rounds)} simulated", "images": name, **arms.pooled(rounds)})
    return rows


def original_files(quick: bool) -> list[dict]:
    """The CMU protocol on the original StarPlus files, where they are."""
    rows = []
    for path in datasets.starplus_files():
        data = load_starplus(path, rois=REGIONS)
        X = np.asarray(data.X).reshape(len(data.y), IMAGES, -1)
        for name in ("first image", "mean of images 1-16"):
            rounds = [_two_out(_images(X, name), data.y, 2 if quick else 20, 0)]
            rows.append({"file": path.name, "images": name, **arms.pooled(rounds)})
    return rows


def _images(X, name):
    return X[:, 0] if name == "first image" else X.mean(axis=1)


def _two_out(X, y, n_pairs, seed):
    cv = MonteCarloLeaveOnePerClassOut(1, n_pairs=n_pairs, random_state=seed)
    return arms.accuracies(arms.fields(80) | arms.rivals(80), X, y, cv)


def haxby(quick: bool) -> list[dict]:
    """Pairs of categories of block means, leave one run out, 100 nodes chosen in the fold."""
    return [_pairs("Haxby, block means", datasets.haxby_vt(volumes=False), 6, quick)]


def haxby_volumes(quick: bool) -> list[dict]:
    """The same on single volumes, nine per block: scans are about as many as nodes."""
    return [_pairs("Haxby, volumes", datasets.haxby_vt(), 2, quick)]


def fingers(quick: bool) -> list[dict]:
    """Pairs of fingers of four subjects."""
    subjects = (1,) if quick else (1, 2, 3, 4)
    return [_pairs(f"finger7T, subject {s}", datasets.finger7t(s), 3, quick) for s in subjects]


def _pairs(name: str, data: datasets.Patterns, wanted: int, quick: bool) -> dict:
    X = datasets.standardize_by(data.X, data.run)
    pairs = list(combinations(np.unique(data.y), 2))
    chosen = np.random.default_rng(1).permutation(len(pairs))[: 1 if quick else wanted]
    rounds = [_one_pair(X, data, pairs[number], quick) for number in chosen]
    return {
        "data": name,
        "pairs": len(rounds),
        "scans per class": int(np.unique(data.y, return_counts=True)[1][0]),
        **arms.pooled(rounds),
        "gain of compression": arms.spread(rounds, "plain, gamma chosen", "compressed, chosen"),
    }


def _one_pair(X, data, pair, quick):
    part = np.isin(data.y, pair)
    if quick:
        part &= np.isin(data.run, np.unique(data.run)[:4])
    methods = arms.fields(100) | arms.rivals(100)
    return arms.accuracies(methods, X[part], data.y[part], LeaveOneGroupOut(), data.run[part])
