"""The methods that are compared, and how accuracies are taken from a protocol."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from sklearn.feature_selection import SelectKBest
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from voxprior import RandomFieldClassifier
from voxprior.models.fields.nodes import correlation_score
from voxprior.validation import cross_validate

# Pseudo-measurements after each scan with R = 200² and 41 scans amount to the same total strength,
# 0.04, as 40 of them at the end with R = 1000, at a fortieth of the time.
PRINTED_END = {"mode": "end", "r_eps": 1000.0}


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


def accuracies(methods: dict, X, y, cv, groups=None) -> dict[str, np.ndarray]:
    """Accuracy of every fold, by method."""
    folds = list(cv.split(X, y, groups))
    return {
        name: cross_validate(model, X, y, groups, folds).scores["accuracy"].to_numpy()
        for name, model in methods.items()
    }


def pooled(rounds: list[dict[str, np.ndarray]]) -> dict[str, float]:
    """Mean accuracy over all folds of all data sets."""
    return {name: float(np.mean([r[name].mean() for r in rounds])) for name in rounds[0]}


def spread(rounds: list[dict[str, np.ndarray]], first: str, second: str) -> str:
    """Mean difference of two methods with its standard error over data sets."""
    gain = np.array([r[second].mean() - r[first].mean() for r in rounds])
    if len(gain) < 2:
        return f"{gain[0]:+.3f}"
    return f"{gain.mean():+.3f} ± {gain.std(ddof=1) / np.sqrt(len(gain)):.3f}"


def published() -> list[dict[str, str]]:
    """Rows of published.csv."""
    with (Path(__file__).parent / "published.csv").open() as file:
        return list(csv.DictReader(file))


def printed_value(experiment: str, method: str) -> float:
    """One published accuracy."""
    rows = published()
    return next(
        float(row["accuracy"])
        for row in rows
        if row["experiment"] == experiment and row["method"] == method
    )
