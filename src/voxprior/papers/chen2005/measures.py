"""What is measured on one labelled sample: accuracies by folds and by classifier, areas, stability.

Everything is leave-one-out or k-fold, with the variables selected inside the training part
(nested), or once from all subjects (leaky: the reading of "with the selected variables").
"""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score

from voxprior.models.network.chance import permutation_null
from voxprior.models.network.stability import frequencies
from voxprior.models.network.tree import Rules, clusters_by_voxel, jackknife_paths, search
from voxprior.papers.chen2005.comparators import COMPARATORS, predict
from voxprior.papers.chen2005.data import Study
from voxprior.papers.chen2005.folds import (
    Choice,
    choose,
    cluster_votes,
    parent_states,
    probabilities,
    training_masks,
)

PRINTED = Rules(select="gain", timing="during", max_parents=4)
DEFAULT = Rules(max_parents=4)
SINGLE = PRINTED._replace(latent=None)
FOLDS: dict[str, int | None] = {
    "CV(2)": 2, "CV(3)": 3, "CV(5)": 5, "CV(10)": 10, "leave-one-out": None,
}  # fmt: skip
TREE, JOINT = "inverse tree", "inverse tree, new subject jointly"
VARIABLES = {"voxels": parent_states, "votes": cluster_votes}


class Scheme(NamedTuple):
    """Folds, and what each selected from its training subjects."""

    masks: list[np.ndarray]
    choices: Sequence[Choice]


class Sample:
    """Packed voxels and labels of all subjects; a scheme is selected once."""

    def __init__(self, words: np.ndarray, y: np.ndarray):
        self.words, self.y = words, y
        self._schemes: dict[tuple, Scheme] = {}

    def scheme(self, fold: str, rules: Rules = PRINTED, leaky: bool = False) -> Scheme:
        """Select in every fold; leaky, once for all of them."""
        key = (fold, rules, leaky)
        if key not in self._schemes:
            masks = training_masks(len(self.y), FOLDS[fold])
            parts = [np.ones(len(self.y), dtype=bool)] if leaky else masks
            choices = [choose(self.words, self.y, train, rules) for train in parts]
            self._schemes[key] = Scheme(masks, choices * len(masks) if leaky else choices)
        return self._schemes[key]

    def held_out(self, folds: Scheme, rules: Rules, soft=False, joint=False) -> np.ndarray:
        """P(class 1) of every subject from the fold that leaves it out."""
        p = np.empty(len(self.y))
        for train, choice in zip(*folds):
            p[~train] = probabilities(self.words, self.y, train, choice, rules, soft, joint)
        return p

    def accuracy(self, folds: Scheme, rules: Rules, soft=False, joint=False) -> float:
        """Share of subjects on the right side of one half."""
        return float(np.mean((self.held_out(folds, rules, soft, joint) >= 0.5) == self.y))

    def compared(self, method: str, variables: str, folds: Scheme) -> float:
        """Accuracy of a comparator on the parents' states, or on one vote per cluster."""
        labels = np.empty(len(self.y), dtype=np.int64)
        for train, choice in zip(*folds):
            X = VARIABLES[variables](self.words, len(self.y), choice)
            labels[~train] = predict(method, X[train], self.y[train], X[~train])
        return float(np.mean(labels == self.y))


def by_folds(sample: Sample, folds: Sequence[str], defaults: Sequence[str]) -> dict[str, dict]:
    """Table 2: accuracy by number of folds, nested and leaky, with and without latent variable."""
    found = {}
    for fold in folds:
        nested, leaky = sample.scheme(fold), sample.scheme(fold, leaky=True)
        ours = None
        if fold in defaults:
            ours = sample.accuracy(sample.scheme(fold, DEFAULT), DEFAULT, soft=True)
        found[fold] = {
            "leaky": sample.accuracy(leaky, PRINTED),
            "nested": sample.accuracy(nested, PRINTED),
            "nested, no latent": sample.accuracy(nested, SINGLE),
            "nested, our defaults": ours,
        }
    return found


def by_method(
    sample: Sample, fold: str, methods: Sequence[str] = tuple(COMPARATORS)
) -> dict[str, dict[str, float | None]]:
    """Table 3: network and comparators on the variables it selected, voxels and votes."""
    found: dict[str, dict[str, float | None]] = {name: {} for name in (TREE, JOINT, *methods)}
    joint = sample.accuracy(sample.scheme(fold), PRINTED, joint=True)
    for kind, variables in product(("leaky", "nested"), VARIABLES):
        folds = sample.scheme(fold, leaky=kind == "leaky")
        column = f"{kind}, {variables}"
        found[TREE][column] = sample.accuracy(folds, PRINTED)
        found[JOINT][column] = joint if kind == "nested" else None
        for method in methods:
            found[method][column] = sample.compared(method, variables, folds)
    return found


def areas(sample: Sample) -> tuple[dict[str, float], np.ndarray]:
    """Figure 6: areas under the aggregated ROC of five folds, and the nested probabilities."""
    p = sample.held_out(sample.scheme("CV(5)"), PRINTED)
    leaky = sample.held_out(sample.scheme("CV(5)", leaky=True), PRINTED)
    ours = sample.held_out(sample.scheme("CV(5)", DEFAULT), DEFAULT, soft=True)
    kinds = {"leaky": leaky, "nested": p, "nested, our defaults": ours}
    return {name: float(roc_auc_score(sample.y, values)) for name, values in kinds.items()}, p


def stability(study: Study, name: str):
    """Figure 7: the frequencies of the jackknife, and a row that describes them."""
    words, y = study.words, study.labels[name]
    path = search(words, y, 2, PRINTED)
    parents = path.parents.tolist()
    paths = jackknife_paths(words, y, 2, PRINTED)
    by_voxel = frequencies(paths, parents)
    by_cluster = frequencies(paths, parents, clusters_by_voxel(path))
    pair = {1, 2} if name.endswith("Age") else {3, 4}
    null = permutation_null(words, y, 2, parents, path.scores, 1.0, 99, np.random.default_rng(0))
    shares = sorted(by_voxel.model_frequency, reverse=True)
    row = {
        "gains": " ".join(f"{g:.1f}" for g in np.diff(path.scores)),
        "in planted clusters": " ".join(
            "yes" if study.cluster[v] in pair else "no" for v in parents
        ),
        "p against chance": " ".join(f"{p:.2g}" for p in null.p_value),
        "models": len(by_voxel.models),
        "top": float(shares[0]),
        "next": float(shares[1]) if len(shares) > 1 else 0.0,
        "top by cluster": float(by_cluster.model_frequency[0]),
        "edges": len(by_voxel.edges),
        "edges by cluster": len(by_cluster.edges),
    }
    return by_voxel, parents, row
