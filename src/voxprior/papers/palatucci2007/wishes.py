"""What the paper names and leaves out: learned groups and metrics, hyper-parameters integrated out.

All are options of ``FeatureSharingNB``; here each is paired with the default on the same splits.
"""

import itertools
from typing import Any

import numpy as np

from voxprior import FeatureSharingNB, VoxelSpace
from voxprior.papers import datasets
from voxprior.papers.claims import Claim, paired
from voxprior.papers.palatucci2007.protocol import Models, compare, interval

DEFAULT = "neighbours (default)"
WISHES = {
    "learned metric": {"means": "metric"},
    "26 most correlated": {"means": "correlated"},
    "hyper-parameters integrated out": {"hyperparameters": "integrated"},
    "means not shared": {"means": "none"},
}


def options(space: VoxelSpace | None) -> Models:
    """The default and its alternatives; without places there are no neighbours to weigh."""
    chosen = {DEFAULT: {}} | WISHES
    if space is None:
        del chosen["learned metric"]

    def maker(changes: dict[str, str]) -> Any:
        return lambda: FeatureSharingNB(space, **changes)

    return {name: maker(changes) for name, changes in chosen.items()}


def accuracies(subjects: list[dict], part: str, n: int, repeats: int) -> dict[str, list[float]]:
    """Accuracy of every option in every subject, n examples per class (or runs)."""
    found: dict[str, list[float]] = {}
    for number, subject in enumerate(subjects, start=1):
        X, space = subject[part]
        scores = compare(X, subject["y"], options(space), n, repeats, number, subject["runs"])
        for name, one in scores.items():
            found.setdefault(name, []).append(one.accuracy)
    return found


def rows(found: dict[str, list[float]], data: str) -> list[dict]:
    """Accuracy, and the paired difference to the default."""
    table = []
    for name, values in found.items():
        row = {"data": data, "means and hyper-parameters": name, "accuracy": interval(values)}
        gain = paired(values, found[DEFAULT])
        row["minus default"] = interval(gain) if name != DEFAULT else None
        table.append(row)
    return table


def claims(found: dict[str, list[float]], data: str, differs: str) -> list[Claim]:
    """The paper hopes that learned groups and metrics help; the default has plain neighbours, or
    without places draws means toward the run mean.
    """
    return [
        Claim(f"{text} beats the default", paired(found[name], found[DEFAULT]), data,
              "conclusion: future work", differs)
        for name, text in (("26 most correlated", "a group of the most correlated voxels"),
                           ("learned metric", "a learned metric between neighbours"))
        if name in found
    ]  # fmt: skip


def finger_subjects(n_subjects: int) -> list[dict]:
    """Pairs of fingers at 7 T, without places; every pair of every subject is a subject."""
    subjects = []
    for number in range(1, n_subjects + 1):
        data = datasets.finger7t(number)
        X = datasets.standardize_by(data.X, data.run)
        for pair in itertools.combinations(np.unique(data.y), 2):
            here = np.isin(data.y, pair)
            subjects.append({"y": data.y[here], "all": (X[here], None), "runs": data.run[here]})
    return subjects
