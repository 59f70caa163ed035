"""What the defaults rest on: one choice changed at a time, and the same on data not chosen on."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from sklearn.model_selection import LeaveOneGroupOut

from voxprior import RandomFieldClassifier
from voxprior.papers import datasets
from voxprior.papers.carmi2009 import arms
from voxprior.papers.carmi2009.chain import on_new_scans
from voxprior.papers.frame import Part, Run, Table
from voxprior.simulate import chains
from voxprior.validation import MonteCarloLeaveOnePerClassOut

CHANGES: dict[str, dict] = {
    "default (fixed strength)": {},
    "sigma of each class": {"variance_scope": "class"},
    "sigma by innovations": {"variance": "innovation"},
    "c = 0": {"threshold": "zero"},
    "c tuned on training scans": {"threshold": "tuned"},
    "penalised bias": {"bias": "penalized"},
    "no bias": {"bias": None},
    "nodes by mutual information": {"ranking": "mutual_information"},
    "quasi-norm 0.5": {"norm": 0.5},
    "10 times stronger": {"compression": 10.0},
    "10 times weaker": {"compression": 0.1},
}
TITLE = "One choice at a time, strength fixed at gamma = 10, rho = 1 (ours)"


def run_choices(run: Run) -> Part:
    """One table, rows are choices; two columns the defaults were chosen on, two they were not."""
    columns = {
        "chosen on: chains, 80 nodes, 19 scans": _on_chains(run),
        "other: chains, 60 nodes, 25 scans": _on_other_chains(run),
    }
    for title, work in (
        ("chosen on: Haxby block means, 2 pairs", _on_haxby),
        ("other: finger7T, 4 pairs", _on_fingers),
    ):
        try:
            columns[title] = work(run.quick)
        except datasets.DataAbsentError:  # other steps say where to get the data
            continue
    rows = [
        {"choice": name, **{title: values[name] for title, values in columns.items()}}
        for name in CHANGES
    ]
    differs = "The first row was chosen on the columns that say so; read its rank in the others."
    return Part({TITLE: Table(rows, differs)})


def _methods(n_nodes: int) -> dict:
    fixed = {"gamma": 10.0, "compression": 1.0, "temperature": 1.0}
    return {name: RandomFieldClassifier(n_nodes, **fixed | c) for name, c in CHANGES.items()}


def _on_chains(run: Run) -> dict[str, float]:
    rounds = []
    for seed in arms.data_sets(run):
        data = chains(n_per_class=20, n_nodes=80, coupling=0.5, random_state=200 + seed)
        cv = MonteCarloLeaveOnePerClassOut(1, n_pairs=2 if run.quick else 4, random_state=seed)
        folds = cv.split(data.X, data.y)
        rounds.append(arms.accuracies(_methods(80), data.X, data.y, folds))
    return arms.pooled(rounds)


def _on_other_chains(run: Run) -> dict[str, float]:
    rounds = []
    for seed in arms.data_sets(run):
        data = chains(n_per_class=175, n_nodes=60, coupling=0.5, random_state=900 + seed)
        rounds.append(on_new_scans(_methods(60), data.X, data.y, 25))
    return arms.pooled(rounds)


def bias_and_compression(run: Run) -> Part:
    """Plain and compressed fields under a free and a penalised bias, on Haxby block means."""
    rows = []
    for bias, gamma in run.each((b, g) for b in ("centered", "penalized") for g in (1.0, 10.0)):
        methods = {
            name: RandomFieldClassifier(
                100, gamma=gamma, compression=rho, bias=bias, temperature=1.0
            )
            for name, rho in (("plain", None), ("compressed", 1.0))
        }
        rounds = pairs_of(methods, datasets.haxby_vt(volumes=False), 10, run.quick)
        rows.append({"bias": bias, "gamma": gamma, "pairs": len(rounds), **arms.pooled(rounds)})
    title = "Section 1.3.3: a penalised bias flatters compression (Haxby block means)"
    return Part({title: Table(rows)})


def _on_haxby(quick: bool) -> dict[str, float]:
    return arms.pooled(pairs_of(_methods(100), datasets.haxby_vt(volumes=False), 2, quick))


def _on_fingers(quick: bool) -> dict[str, float]:
    subjects = (1,) if quick else (1, 2, 3, 4)
    rounds = [pairs_of(_methods(100), datasets.finger7t(s), 1, quick) for s in subjects]
    return arms.pooled([r for subject in rounds for r in subject])


def pairs_of(
    methods: dict, data: datasets.Patterns, wanted: int, quick: bool, seed: int = 2
) -> list[arms.Round]:
    """Accuracies of every left-out run, for pairs of classes drawn at random."""
    X = datasets.standardize_by(data.X, data.run)
    pairs = list(combinations(np.unique(data.y), 2))
    rounds = []
    for number in np.random.default_rng(seed).permutation(len(pairs))[: 1 if quick else wanted]:
        part = np.isin(data.y, pairs[number])
        if quick:
            part &= np.isin(data.run, np.unique(data.run)[:4])
        folds = LeaveOneGroupOut().split(X[part], data.y[part], data.run[part])
        rounds.append(arms.accuracies(methods, X[part], data.y[part], folds))
    return rounds
