"""The methods that are compared, and how accuracies are taken from a protocol."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from sklearn.feature_selection import SelectKBest
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from voxprior import RandomFieldClassifier
from voxprior.models.fields.nodes import correlation_score
from voxprior.papers.frame import Run

# Pseudo-measurements after each scan with R = 200² and 41 scans amount to the same total strength,
# 0.04, as 40 of them at the end with R = 1000, at a fortieth of the time.
PRINTED_END = {"mode": "end", "r_eps": 1000.0}
PRINTED = ("plain, printed", "compressed, printed")
CHOSEN = ("plain, gamma chosen", "compressed, chosen")

Round = dict[str, np.ndarray]


def score_by_class(X, y):
    """|correlation| with the class, so that every method sees the same nodes."""
    return correlation_score(X, np.unique(y, return_inverse=True)[1])


def fields(n_nodes: int) -> dict:
    """Random fields: as printed, and as this package would have them."""
    ours = {"n_nodes": n_nodes, "temperature": 1.0}
    return {
        "plain, printed": RandomFieldClassifier.paper(
            n_nodes=n_nodes, r_eps=None, compression=None
        ),
        "compressed, printed": RandomFieldClassifier.paper(n_nodes=n_nodes, **PRINTED_END),
        "plain, gamma = 0.01": RandomFieldClassifier(gamma=0.01, compression=None, **ours),
        "plain, gamma chosen": RandomFieldClassifier(compression=None, **ours),
        "compressed, fixed": RandomFieldClassifier(gamma=10.0, compression=1.0, **ours),
        "compressed, chosen": RandomFieldClassifier(**ours),
    }


def rivals(n_nodes: int) -> dict:
    """Ridge so strong that the field is naive Bayes, naive Bayes itself, and a linear SVM."""

    def on_nodes(model):
        return make_pipeline(SelectKBest(score_by_class, k=n_nodes), StandardScaler(), model)

    return {
        "plain, gamma = 1000": RandomFieldClassifier(
            n_nodes, gamma=1000.0, compression=None, temperature=1.0
        ),
        "naive Bayes": on_nodes(GaussianNB()),
        "linear SVM": on_nodes(SVC(kernel="linear", C=0.01)),
    }


def some(n_nodes: int, *names: str) -> dict:
    """Methods by name."""
    both = fields(n_nodes) | rivals(n_nodes)
    return {name: both[name] for name in names}


def accuracies(methods: dict, X, y, folds: Iterable) -> Round:
    """Accuracy of every fold, by method."""
    found: dict[str, list[float]] = {name: [] for name in methods}
    for train, test in folds:
        for name, model in methods.items():
            found[name].append(float(model.fit(X[train], y[train]).score(X[test], y[test])))
    return {name: np.array(values) for name, values in found.items()}


def effective_connections(model: RandomFieldClassifier) -> float:
    """How many connections a node has, (Σ|β|)² / Σβ² averaged over classes and nodes."""
    size = np.abs(model.coef_)
    return float(np.mean(size.sum(axis=-1) ** 2 / (size**2).sum(axis=-1)))


def data_sets(run: Run) -> range:
    """Seeds of simulated data sets, where the report says nothing of how many runs."""
    return range(1 if run.quick else 20)


def by_round(rounds: Sequence[Round], method: str) -> np.ndarray:
    """Mean accuracy of a method in every data set."""
    return np.array([r[method].mean() for r in rounds])


def pooled(rounds: Sequence[Round]) -> dict[str, float]:
    """Mean accuracy over all folds of all data sets."""
    return {name: float(by_round(rounds, name).mean()) for name in rounds[0]}


def gain(rounds: Sequence[Round], first: str, second: str) -> np.ndarray:
    """What the second method adds to the first in every data set."""
    return by_round(rounds, second) - by_round(rounds, first)


def published() -> list[dict[str, str]]:
    """Rows of published.csv."""
    with (Path(__file__).parent / "published.csv").open() as file:
        return list(csv.DictReader(file))


def printed_value(experiment: str, method: str) -> float:
    """One published accuracy."""
    return next(
        float(row["accuracy"])
        for row in published()
        if row["experiment"] == experiment and row["method"] == method
    )


def printed_pair(experiment: str, second: str = "compressed") -> str:
    """Published accuracies without and with, in words."""
    before, after = (printed_value(experiment, method) for method in ("plain", second))
    return f"{before:.2f} -> {after:.2f} ({experiment})"
