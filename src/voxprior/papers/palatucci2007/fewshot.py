"""The few-shot ablation: which part of the recipe brings what, on real runs.

``python -m voxprior.papers.palatucci2007.fewshot [--quick] [--confirm]`` writes ``fewshot.md``.

Two runs train, all other runs of the same half test; every pair (or all) of the categories. Choices
were made on the first six Haxby runs; ``--confirm`` adds the last six runs, looked at once, and
finger7T, whose subjects 1 and 2 decided on drawing means toward the run mean. Cleaning is the same
for everybody and does not know labels: each run's linear drift and mean are removed.
"""

import argparse
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from voxprior import FeatureSharingNB, NoiseWhitening, VoxelSpace
from voxprior.models.sharing import TimeAverage, few_shot_decoder
from voxprior.models.sharing.groups import learned_groups
from voxprior.papers import datasets, tables
from voxprior.papers.palatucci2007 import candidates
from voxprior.papers.palatucci2007.protocol import interval, score

HERE = Path(__file__).parent


class Study(NamedTuple):
    """Trials (n, T V), labels and runs, and the volumes (with runs) the noise is learned of."""

    X: np.ndarray
    y: np.ndarray
    run: np.ndarray
    space: VoxelSpace | None
    volumes: np.ndarray | None = None
    volume_run: np.ndarray | None = None


def haxby() -> Study:
    """Ventral temporal blocks of nine volumes."""
    data = datasets.haxby_vt()
    clean = detrended(data.X, data.run)
    blocks, first = np.unique(data.block, return_index=True)
    X = np.stack([clean[data.block == block].ravel() for block in blocks])
    return Study(X, data.y[first], data.run[first], data.space, clean, data.run)


def finger(subject: int) -> Study:
    """Betas of five fingers: no coordinates, too few to learn noise from, whitened already."""
    data = datasets.finger7t(subject)
    centered = np.array(data.X, dtype=float)
    for run in np.unique(data.run):
        centered[data.run == run] -= centered[data.run == run].mean(axis=0)
    return Study(centered, data.y, data.run, None)


def detrended(X: np.ndarray, run: np.ndarray) -> np.ndarray:
    """Each run without its mean and linear drift."""
    clean = np.empty(X.shape)
    for r in np.unique(run):
        rows = run == r
        drift = np.column_stack([np.ones(rows.sum()), np.linspace(-1, 1, rows.sum())])
        part = X[rows].astype(float)
        clean[rows] = part - drift @ np.linalg.lstsq(drift, part)[0]
    return clean


def stock(space: VoxelSpace | None) -> dict[str, Callable[[], Any]]:
    """What a user would reach for, on time-averaged patterns."""
    peers = {
        "Gaussian NB": GaussianNB,
        "nearest centroid": NearestCentroid,
        "logistic": LogisticRegression,
        "linear SVM": lambda: LinearSVC(max_iter=5000),
        "shrinkage LDA": lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
    }
    if space is None:  # its matrix of 1,900 voxels takes minutes, and two examples leave it chance
        del peers["shrinkage LDA"]
    return {
        name: lambda make=make: make_pipeline(TimeAverage(space), make())
        for name, make in peers.items()
    }


def ours(study: Study, volumes: np.ndarray | None) -> dict[str, Callable[[], Any]]:
    """The recipe, and the recipe with one part changed."""
    space = study.space
    rows: dict[str, Callable[[], Any]] = {
        "feature sharing as printed, whole course": lambda: FeatureSharingNB.paper(space),
        "sharing, defaults, whole course": lambda: FeatureSharingNB(space),
        "sharing, defaults, no whitening": lambda: few_shot_decoder(
            space, whiten=False, shrinkage=None
        ),
        "· median variance": lambda: few_shot_decoder(
            space, whiten=False, shrinkage=None, variances="median"
        ),
        "· per-class variance": lambda: few_shot_decoder(
            space, whiten=False, shrinkage=None, variance_scope="class"
        ),
        "· means not shared": lambda: few_shot_decoder(
            space, whiten=False, shrinkage=None, means="none"
        ),
        "· means toward their mean": lambda: make_pipeline(
            TimeAverage(space), candidates.JamesStein(space)
        ),
        "· means toward the run mean": lambda: few_shot_decoder(
            space, whiten=False, shrinkage="james-stein"
        ),
    }
    return rows | (whitened(study, volumes) if volumes is not None else {})


def whitened(study: Study, volumes: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Everything that follows the noise whitening."""
    space = study.space
    white = NoiseWhitening(volumes=volumes).fit_transform(volumes)

    def then(classifier: Any, **options: Any) -> Any:
        return make_pipeline(
            TimeAverage(space), NoiseWhitening(volumes=volumes, **options), classifier
        )

    return {
        "whitened + logistic": lambda: then(LogisticRegression()),
        "**few_shot_decoder**": lambda: few_shot_decoder(space, volumes),
        "· voxels not standardised": lambda: then(FeatureSharingNB(space), standardize=False),
        "· median variance, whitened": lambda: few_shot_decoder(space, volumes, variances="median"),
        "· means not shared, whitened": lambda: few_shot_decoder(space, volumes, means="none"),
        "· whole course": lambda: make_pipeline(
            NoiseWhitening(space, volumes), FeatureSharingNB(space)
        ),
        "· spatial prior": lambda: then(candidates.SpatialPrior(space)),
        "· learned groups": lambda: then(
            FeatureSharingNB(space, means=learned_groups("correlated", white, space.adjacency()))
        ),
        "· learned metric": lambda: then(
            FeatureSharingNB(space, means=learned_groups("metric", white, space.adjacency()))
        ),
        "· means toward their mean, whitened": lambda: then(candidates.JamesStein(space)),
        "· means toward the run mean, whitened": lambda: few_shot_decoder(
            space, volumes, shrinkage="james-stein"
        ),
        "· predictive variance": lambda: then(candidates.Predictive(space)),
        "· no calibration": lambda: few_shot_decoder(space, volumes, calibration=None),
    }


def ablate(study: Study, runs: np.ndarray, n: int, tasks: list, step: int = 1) -> list[dict]:
    """One row per method: train on n runs, test on the others."""
    return [_row(*item) for item in by_test_run(study, runs, n, tasks, step).items()]


def by_test_run(
    study: Study, runs: np.ndarray, n: int, tasks: list, step: int
) -> dict[str, dict[Any, list]]:
    """Scores by method and test run, over every ``step``-th choice of n training runs."""
    found: dict[str, dict[Any, list]] = {}
    for chosen in list(itertools.combinations(runs, n))[::step]:
        volumes = None
        if study.volumes is not None:
            volumes = study.volumes[np.isin(study.volume_run, chosen)]
        models = stock(study.space) | ours(study, volumes)
        for classes in tasks:
            here = np.isin(study.y, classes)
            train = here & np.isin(study.run, chosen)
            for name, make in models.items():
                model = make().fit(study.X[train], study.y[train])
                for run in np.setdiff1d(runs, chosen):
                    test = here & (study.run == run)
                    found.setdefault(name, {}).setdefault(run, []).append(
                        score(model, study.X[test], study.y[test])
                    )
    return found


def _row(name: str, by_run: dict[Any, list]) -> dict[str, str]:
    per_run = np.array([np.mean(scores, axis=0) for scores in by_run.values()])
    loss = "-" if np.isnan(per_run[:, 1]).any() else f"{per_run[:, 1].mean():.2f}"
    stated = "-" if np.isnan(per_run[:, 2]).any() else f"{per_run[:, 2].mean():.3f}"
    return {
        "method": name, "accuracy": interval(per_run[:, 0]), "log-loss": loss, "confidence": stated
    }  # fmt: skip


def pooled_subjects(subjects: tuple[int, ...], n: int, tasks: list, step: int) -> list[dict]:
    """finger7T: the runs of several subjects together."""
    found: dict[str, dict[Any, list]] = {}
    for subject in subjects:
        study = finger(subject)
        runs = np.unique(study.run)
        for name, by_run in by_test_run(study, runs, n, tasks, step).items():
            for run, scores in by_run.items():
                found.setdefault(name, {})[subject, run] = scores
    return [_row(name, by_run) for name, by_run in found.items()]


def main(argv: list[str] | None = None) -> dict[str, list[dict]]:
    """Write and return the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few splits, for a smoke test")
    parser.add_argument("--confirm", action="store_true", help="add runs 7-12 and finger7T")
    parser.add_argument("--out", type=Path, help="folder for fewshot.md; none by default")
    options = parser.parse_args(argv)
    study = haxby()
    categories = np.unique(study.y)
    pairs = list(itertools.combinations(categories, 2))
    first, last = np.unique(study.run)[:6], np.unique(study.run)[6:]
    if options.quick:
        sections = {"Quick look: three pairs": ablate(study, first, 2, pairs[:3], step=8)}
    else:
        sections = {
            "Development: runs 1-6, pairs, two runs train": ablate(study, first, 2, pairs),
            "Development: runs 1-6, all eight, two runs train": ablate(
                study, first, 2, [categories]
            ),
        }
    if options.confirm:
        fingers = list(itertools.combinations(range(1, 6), 2))
        sections |= {
            "Confirmation: runs 7-12, pairs, two runs train": ablate(study, last, 2, pairs),
            "Confirmation: runs 7-12, all eight, two runs train": ablate(
                study, last, 2, [categories]
            ),
            "Development: finger7T, subjects 1 and 2, pairs, two runs train": pooled_subjects(
                (1, 2), 2, fingers, 4
            ),
            "Confirmation: finger7T, subjects 3 and 4, pairs, two runs train": pooled_subjects(
                (3, 4), 2, fingers, 4
            ),
        }
    note = (
        "Accuracy with 95 % intervals over test runs, log-loss in nats, mean stated confidence; "
        "train and test never share a run. Rows that begin with a dot change one part of the row "
        "above them. " + tables.machine()
    )
    tables.save(
        options.out and options.out / "fewshot.md",
        "Few-shot decoding: what each part brings",
        sections,
        note,
    )
    return sections


if __name__ == "__main__":
    main()
