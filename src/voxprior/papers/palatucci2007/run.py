"""Feature sharing from handfuls of examples: the paper's experiments, beside today's peers.

``python -m voxprior.papers.palatucci2007.run [--data DIR] [--quick] [--figures DIR]``

Simulated subjects follow the picture-against-sentence experiment: about 5,000 voxels, 16 images a
trial, 20 trials per class, a few responding regions, noise smooth in space and unequal over voxels.
``--data`` adds the original StarPlus files (``data-starplus-*-v7.mat``) where a user has them.
"""

import itertools
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from voxprior import FeatureSharingNB, VoxelSpace
from voxprior.models.sharing import TimeAverage
from voxprior.papers import datasets, tables
from voxprior.papers.palatucci2007.protocol import Models, Scores, compare, interval
from voxprior.simulate import time_courses

HERE = Path(__file__).parent
SUBJECT = {
    "amplitude": 0.6,
    "noise_spread": 0.5,
    "noise_smoothness": 1.0,
    "n_regions": 16,
    "active_regions": 3,
}


def variants(space: VoxelSpace) -> Models:
    """The ablation of the paper, and our defaults."""
    return {
        "none (naive Bayes)": lambda: FeatureSharingNB.paper(space, means="none", variances="none"),
        "mean": lambda: FeatureSharingNB.paper(space, variances="none"),
        "variance": lambda: FeatureSharingNB.paper(space, means="none"),
        "both (as printed)": lambda: FeatureSharingNB.paper(space),
        "voxprior defaults": lambda: FeatureSharingNB(space),
    }


def peers(space: VoxelSpace) -> Models:
    """Stock classifiers; discriminant analysis on time averages, where its matrix still fits."""
    return {
        "scikit-learn GaussianNB": GaussianNB,
        "logistic regression": LogisticRegression,
        "linear SVM": LinearSVC,
        "shrinkage LDA, time average": lambda: make_pipeline(
            TimeAverage(space), LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
        ),
    }


def region(X: np.ndarray, space: VoxelSpace, inside: np.ndarray) -> tuple[np.ndarray, VoxelSpace]:
    """Trials and space of some voxels only."""
    courses = X.reshape(len(X), -1, space.n_voxels)[:, :, inside]
    return courses.reshape(len(X), -1), space.take(np.flatnonzero(inside))


def simulated(seed: int, shape: tuple[int, ...]) -> dict[str, Any]:
    """One subject: all voxels, and the region that stands for CALC."""
    data = time_courses(shape, 20, random_state=seed, **SUBJECT)
    calc, calc_space = region(data.X, data.space, data.truth["region"] == 1)
    return {"y": data.y, "all": (data.X, data.space), "roi": (calc, calc_space), "runs": None}


def starplus(path: Path) -> dict[str, Any]:
    """One original subject: images 1-16 labelled by the first stimulus."""
    from voxprior.images import load_starplus

    whole, calc = load_starplus(path), load_starplus(path, rois="CALC")
    return {
        "y": whole.y, "all": (whole.X, whole.space), "roi": (calc.X, calc.space), "runs": None
    }  # fmt: skip


def bars(subjects: list[dict], repeats: int) -> list[dict]:
    """Figures 2 and 3: accuracies by subject with two examples per class."""
    rows = []
    for number, subject in enumerate(subjects, start=1):
        row: dict[str, Any] = {"subject": number}
        for part in ("all", "roi"):
            X, space = subject[part]
            chosen = {name: variants(space)[name] for name in list(variants(space))}
            found = compare(X, subject["y"], chosen, 2, repeats, seed=number)
            row |= {f"{part}: {name}": result.accuracy for name, result in found.items()}
        rows.append(row)
    return rows


def by_examples(subjects: list[dict], part: str, counts: list[int], repeats: int) -> list[dict]:
    """Accuracy and log-loss of everybody for N examples per class, averaged over subjects."""
    found: dict[tuple[str, int], list[Scores]] = {}
    for number, subject in enumerate(subjects, start=1):
        X, space = subject[part]
        for n in counts:
            models = dict(variants(space)) | dict(peers(space))
            result = compare(X, subject["y"], models, n, repeats, number, subject["runs"])
            for name, scores in result.items():
                found.setdefault((name, n), []).append(scores)
    return grid(found, counts)


def grid(found: dict[tuple[str, int], list[Scores]], counts: list[int]) -> list[dict]:
    rows = []
    for name in dict.fromkeys(name for name, _ in found):
        row: dict[str, Any] = {"method": name}
        for n in counts:
            accuracy, loss, confidence = np.mean(found[name, n], axis=0)
            tail = "" if np.isnan(loss) else f" / {loss:.2f} / {confidence:.2f}"
            row[f"N = {n}"] = f"{accuracy:.3f}{tail}"
        rows.append(row)
    return rows


def haxby_subjects(n_pairs: int | None) -> list[dict]:
    """Haxby blocks of T = 9 volumes, z-scored by run: every pair of categories is a subject."""
    data = datasets.haxby_vt()
    scaled = datasets.standardize_by(data.X, data.run)
    blocks, first = np.unique(data.block, return_index=True)
    X = np.stack([scaled[data.block == block].ravel() for block in blocks])
    y, run = data.y[first], data.run[first]
    subjects = []
    for pair in list(itertools.combinations(np.unique(y), 2))[:n_pairs]:
        here = np.isin(y, pair)
        subjects.append({"y": y[here], "all": (X[here], data.space), "runs": run[here]})
    return subjects


def claims(rows: list[dict]) -> list[dict]:
    """The paper's four claims, tested on the bars."""
    mean = {
        (part, name): np.array([row[f"{part}: {name}"] for row in rows])
        for part in ("all", "roi")
        for name in ("none (naive Bayes)", "mean", "variance", "both (as printed)")
    }
    parts = ("all", "roi")
    none, both = "none (naive Bayes)", "both (as printed)"
    gain = {part: (mean[part, both] - mean[part, none]).mean() for part in parts}
    by_variance = {part: (mean[part, "variance"] - mean[part, none]).mean() for part in parts}
    by_mean = {part: (mean[part, "mean"] - mean[part, none]).mean() for part in parts}
    error = {part: mean[part, both].std(ddof=1) / np.sqrt(len(rows)) for part in parts}
    tests = {
        "naive Bayes is near chance (mean below .6)": [mean[p, none].mean() < 0.6 for p in parts],
        "feature sharing is clearly better (+.1 or more)": [gain[p] > 0.1 for p in parts],
        "sharing both is best, to a standard error": [
            mean[p, both].mean() + error[p]
            >= max(mean[p, name].mean() for name in (none, "mean", "variance"))
            for p in parts
        ],
        "variance sharing is the larger part of the gain": [
            by_variance[p] > by_mean[p] for p in parts
        ],
    }
    return [
        {"claim": claim, "all voxels": _holds(held[0]), "region": _holds(held[1])}
        for claim, held in tests.items()
    ]


def _holds(value: Any) -> str:
    return "holds" if value else "FAILS"


def summary(rows: list[dict]) -> list[dict]:
    """Means over subjects with 95 % intervals."""
    names = [name for name in rows[0] if name != "subject"]
    return [
        {"voxels: shared": name, "accuracy": interval(np.array([row[name] for row in rows]))}
        for name in names
    ]


def draw(subjects: list[dict], rows: list[dict], folder: Path) -> None:
    """Figures 1 to 3 as PNG files."""
    from voxprior.report.pictures.sharing import accuracy_bars, neighboring_courses

    folder.mkdir(parents=True, exist_ok=True)
    X, space = subjects[0]["roi"]
    course = X[subjects[0]["y"] == subjects[0]["y"][0]].mean(axis=0).reshape(-1, space.n_voxels)
    figure = neighboring_courses(course, space.adjacency(), t_r=0.5)
    figure.savefig(folder / "figure1.png")
    for part, number in (("all", 2), ("roi", 3)):
        shown = {
            name: [row[f"{part}: {name}"] for row in rows]
            for name in ("none (naive Bayes)", "both (as printed)", "voxprior defaults")
        }
        title = "all voxels" if part == "all" else "region of interest"
        accuracy_bars(shown, title=title).savefig(folder / f"figure{number}.png")


def experiments(options: Namespace) -> tuple[dict[str, Any], list[dict], list[dict]]:
    """All sections, with the subjects and rows that the figures need."""
    quick = options.quick
    shape, repeats = ((12, 12, 7), 3) if quick else ((22, 22, 10), 10)
    subjects = [simulated(seed, shape) for seed in range(4 if quick else 13)]
    rows = bars(subjects, repeats)
    sections: dict[str, Any] = {
        "Claims, on simulated subjects": claims(rows),
        "Figures 2 and 3, means over simulated subjects": summary(rows),
        "Figures 2 and 3, by simulated subject": rows,
    }
    counts = [2, 5] if quick else [2, 3, 4, 5, 6, 8, 10]
    few = subjects[: 2 if quick else 6]
    head = "accuracy / log-loss / stated confidence for N examples per class"
    sections[f"Simulated region, {head}"] = by_examples(few, "roi", counts, repeats)
    try:
        real = haxby_subjects(2 if quick else None)
    except FileNotFoundError as missing:
        sections["Haxby blocks"] = f"Not run: {missing}"
    else:
        counts = [2, 4] if quick else [2, 3, 4, 5, 6]
        sections[
            f"Haxby blocks (T = 9), 28 pairs, {head.replace('examples per class', 'runs')}"
        ] = by_examples(real, "all", counts, repeats)
    if files := datasets.starplus_files():
        original = bars([starplus(path) for path in files], repeats)
        sections["Claims, on StarPlus"] = claims(original)
        sections["Figures 2 and 3, by StarPlus subject"] = original
    return sections, subjects, rows


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Write the tables; stop with an error if a claim fails on the simulated subjects."""
    options = tables.options(__doc__, argv)
    sections, subjects, rows = experiments(options)
    tables.save(
        options.out and options.out / "results.md",
        "Palatucci & Mitchell 2007",
        sections,
        tables.machine(),
    )
    if options.out is not None:
        draw(subjects, rows, options.out)
    failed = [row["claim"] for row in sections["Claims, on simulated subjects"]
              if "FAILS" in row.values()]  # fmt: skip
    if failed:
        raise SystemExit("claims that failed: " + "; ".join(failed))
    return sections


if __name__ == "__main__":
    main()
