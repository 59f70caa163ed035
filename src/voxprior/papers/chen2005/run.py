"""Tables 2 and 3 and Figures 6 and 7 again on simulated maps, selection nested and leaky."""

import warnings
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import gammaln
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold

from voxprior.models.network.bits import pack, unpack
from voxprior.models.network.latent import flip_changes
from voxprior.models.network.stability import frequencies, permutation_null
from voxprior.models.network.tree import Rules, clusters_by_voxel, jackknife_paths, search
from voxprior.papers.chen2005.comparators import COMPARATORS, predict
from voxprior.papers.chen2005.data import Study, simulate
from voxprior.papers.chen2005.folds import Choice, choose, probabilities
from voxprior.papers.frame import Drawing, Paper, Part, Run, Step, Table, drawing
from voxprior.papers.measure import measure
from voxprior.report.pictures.network import draw_frequencies
from voxprior.report.plots import roc

HERE = Path(__file__).parent
PRINTED = Rules(select="gain", timing="during", max_parents=4)
DEFAULT = Rules(max_parents=4)
SINGLE = PRINTED._replace(latent=None)
FOLDS = {"CV(2)": 2, "CV(3)": 3, "CV(5)": 5, "CV(10)": 10, "leave-one-out": None}


def training_masks(n: int, n_folds: int | None) -> list[np.ndarray]:
    """Which subjects each fold trains on."""
    splitter = KFold(n_folds or n, shuffle=n_folds is not None, random_state=0 if n_folds else None)
    masks = []
    for _, test in splitter.split(np.zeros((n, 1))):
        masks.append(np.ones(n, dtype=bool))
        masks[-1][test] = False
    return masks


class Choices(NamedTuple):
    """What each fold of each scheme selected from its training subjects, or (leaky) from all."""

    nested: dict[str, list[Choice]]
    validated: dict[str, list[Choice]]
    leaky: Choice


def select(words, y, folds: dict[str, int | None]) -> Choices:
    """All selections; leave-one-out is not validated by permutations, which would take too long."""
    masks = {fold: training_masks(len(y), k) for fold, k in folds.items()}
    nested = {fold: [choose(words, y, train, PRINTED) for train in masks[fold]] for fold in folds}
    validated = {
        fold: [choose(words, y, train, DEFAULT) for train in masks[fold]]
        for fold, k in folds.items()
        if k is not None
    }
    return Choices(nested, validated, choose(words, y, np.ones(len(y), dtype=bool), PRINTED))


def cross_validated(words, y, fold: str, choices, rules: Rules, soft=False) -> np.ndarray:
    """P(class 1) of every subject from the fold that leaves it out."""
    p, masks = np.empty(len(y)), training_masks(len(y), FOLDS[fold])
    for i, train in enumerate(masks):
        choice = choices if isinstance(choices, Choice) else choices[i]
        p[~train] = probabilities(words, y, train, choice, rules, soft)
    return p


def accuracy(p: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean((p >= 0.5) == y))


def table_two(words, y, name: str, published, choices: Choices) -> list[dict[str, object]]:
    """Accuracy by number of folds: nested and leaky, with and without the latent variable."""
    rows = []
    for fold, nested in choices.nested.items():
        validated = None
        if fold in choices.validated:
            p = cross_validated(words, y, fold, choices.validated[fold], DEFAULT, soft=True)
            validated = accuracy(p, y)
        rows.append(
            {
                "data": name,
                "folds": fold,
                "published": float(published.loc[("Table 2", fold), name]),
                "leaky": accuracy(cross_validated(words, y, fold, choices.leaky, PRINTED), y),
                "nested": accuracy(cross_validated(words, y, fold, nested, PRINTED), y),
                "nested, no latent": accuracy(cross_validated(words, y, fold, nested, SINGLE), y),
                "nested, our defaults": validated,
            }
        )
    return rows


def table_three(words, y, name: str, published, choices: Choices) -> list[dict[str, object]]:
    """The network and the comparators on the parents it selected, in the finest folds there are."""
    fold = list(choices.nested)[-1]
    masks = training_masks(len(y), FOLDS[fold])
    rows = []
    for method in ("inverse tree", *COMPARATORS):
        row: dict[str, object] = {"data": name, "method": method}
        row["published"] = float(published.loc[("Table 3", method), name])
        for kind, chosen in (
            ("leaky", [choices.leaky] * len(masks)),
            ("nested", choices.nested[fold]),
        ):
            if method == "inverse tree":
                row[kind] = accuracy(cross_validated(words, y, fold, chosen, PRINTED), y)
            else:
                row[kind] = float(np.mean(compared(method, words, y, masks, chosen) == y))
        rows.append(row)
    return rows


def compared(method: str, words, y, masks: list[np.ndarray], choices: list[Choice]) -> np.ndarray:
    """Out-of-fold labels of a comparator."""
    labels = np.empty(len(y), dtype=np.int64)
    for train, choice in zip(masks, choices):
        X = unpack(words[choice.parents], len(y))
        labels[~train] = predict(method, X[train], y[train], X[~train])
    return labels


def validation(study: Study, name: str) -> tuple[dict[str, object], Drawing]:
    """Figure 7's frequencies, the clusters found, and the permutation null."""
    words, y = study.words, study.labels[name]
    path = search(words, y, 2, PRINTED)
    parents = path.parents.tolist()
    paths = jackknife_paths(words, y, 2, PRINTED)
    by_voxel = frequencies(paths, parents)
    by_cluster = frequencies(paths, parents, clusters_by_voxel(path))
    pair = {1, 2} if name.endswith("Age") else {3, 4}
    null = permutation_null(words, y, 2, parents, path.scores, 1.0, 99, np.random.default_rng(0))
    own = [i for i, v in enumerate(by_voxel.edges) if v in parents]
    chart = draw_frequencies(
        by_voxel.model_frequency, by_voxel.edge_frequency, by_voxel.selected, own, name
    )
    row = {
        "data": name,
        "gains": " ".join(f"{g:.1f}" for g in np.diff(path.scores)),
        "in planted clusters": " ".join(
            "yes" if study.cluster[v] in pair else "no" for v in parents
        ),
        "p against chance": " ".join(f"{p:.2g}" for p in null.p_value),
        "models": len(by_voxel.models),
        "top": by_voxel.model_frequency[0],
        "top by cluster": by_cluster.model_frequency[0],
        "edges": len(by_voxel.edges),
        "edges by cluster": len(by_cluster.edges),
    }
    return row, drawing(chart, dpi=70)


def figure_six(
    words, y, name: str, published, choices: Choices
) -> tuple[dict[str, object], Drawing]:
    """Aggregated ROC of five folds."""
    p = cross_validated(words, y, "CV(5)", choices.nested["CV(5)"], PRINTED)
    soft = cross_validated(words, y, "CV(5)", choices.validated["CV(5)"], DEFAULT, soft=True)
    optimistic = cross_validated(words, y, "CV(5)", choices.leaky, PRINTED)
    curve = roc(y, np.column_stack([1 - p, p]), ["rest", name], positive=1)
    row = {
        "data": name,
        "published": float(published.loc[("Figure 6", "AUC"), name]),
        "leaky": roc_auc_score(y, optimistic),
        "nested": roc_auc_score(y, p),
        "nested, our defaults": roc_auc_score(y, soft),
    }
    return row, drawing(curve, dpi=70)


def noise_control(words, n: int) -> dict[str, object]:
    """Labels that have nothing to do with the maps."""
    y = np.random.default_rng(0).permutation(np.arange(n) % 2)
    choices = select(words, y, {"CV(10)": 10})
    path = search(words, y, 2, PRINTED)
    chance = (1.0, 39, np.random.default_rng(0))
    null = permutation_null(words, y, 2, path.parents.tolist(), path.scores, *chance)
    nested = cross_validated(words, y, "CV(10)", choices.nested["CV(10)"], PRINTED)
    ours = cross_validated(words, y, "CV(10)", choices.validated["CV(10)"], DEFAULT, soft=True)
    return {
        "best gain, nats": float(np.diff(path.scores)[0]),
        "parents": len(path.parents),
        "p against chance": " ".join(f"{p:.2g}" for p in null.p_value),
        "leaky CV(10)": accuracy(cross_validated(words, y, "CV(10)", choices.leaky, PRINTED), y),
        "nested CV(10)": accuracy(nested, y),
        "nested CV(10), our defaults": accuracy(ours, y),
    }


def incremental_cost(n: int, n_children: int = 50) -> dict[str, object]:
    """All n single flips of a latent variable: whole-sample scores against (7) and (8)."""
    rng = np.random.default_rng(0)
    X, state = rng.integers(0, 2, (n, n_children)), rng.integers(0, 2, n)
    words = pack(X)

    def whole_sample():
        scores = []
        for j in range(n):
            L = state.copy()
            L[j] = 1 - L[j]
            on = np.array([X[u == L].sum(axis=0) for u in (0, 1)])
            N = np.stack([np.bincount(L, minlength=2)[:, None] - on, on])
            children = gammaln(1 + N).sum() - gammaln(2 + N.sum(axis=0)).sum()
            scores.append(children + gammaln(1 + np.bincount(L, minlength=2)).sum())
        return np.array(scores)

    full, fast = measure(whole_sample), measure(lambda: flip_changes(words, state, 1.0))
    np.testing.assert_allclose(np.diff(fast.value), np.diff(full.value), atol=1e-7)
    return {
        "samples": n,
        "children": n_children,
        "incremental / whole sample": fast.seconds / full.seconds,
        "paper's estimate": 1 / (24 * n),
    }


def tissue_step(tissue: str, run: Run) -> Part:
    """Everything on the two labels of one tissue."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    published = pd.read_csv(HERE / "published.csv", index_col=["table", "row"])
    folds = {"CV(2)": 2, "CV(5)": 5} if run.quick else FOLDS
    study, found = simulate(tissue, run.quick), Part()
    for name, y in run.each(study.labels.items()):
        choices = select(study.words, y, folds)
        six, roc_curve = figure_six(study.words, y, name, published, choices)
        seven, chart = validation(study, name)
        tables = {
            TABLE_2: Table(table_two(study.words, y, name, published, choices)),
            TABLE_3: Table(table_three(study.words, y, name, published, choices)),
            FIGURE_6: Table([six]),
            FIGURE_7: Table([seven]),
        }
        figures = {f"figure6_{name}": roc_curve, f"figure7_{name}": chart}
        found.join(Part(tables, figures))
    return found


def controls(run: Run) -> Part:
    """Labels without a link to the maps, and what a latent flip costs."""
    study = simulate("WM", run.quick)
    noise = noise_control(study.words, len(next(iter(study.labels.values()))))
    cost = [incremental_cost(n) for n in (20, 119)]
    return Part(
        {
            "Labels without any link to the maps": Table([noise]),
            "Cost of a latent flip": Table(cost),
        }
    )


TABLE_2 = "Table 2: accuracy by number of folds"
TABLE_3 = "Table 3: leave-one-out accuracy on the selected variables"
FIGURE_6 = "Figure 6: area under the ROC of five folds"
FIGURE_7 = "Figure 7: jackknife frequencies, and the gains against chance"
PAPER = Paper(
    "Chen and Herskovits 2005",
    [
        Step("gray matter", partial(tissue_step, "GM"), 2.0),
        Step("white matter", partial(tissue_step, "WM"), 2.0),
        Step("controls", controls, 0.5),
    ],
)
