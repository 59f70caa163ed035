"""What the defaults rest on: one choice changed at a time, on chains and on Haxby patterns."""

from __future__ import annotations

from contextlib import suppress
from itertools import combinations

import numpy as np
from sklearn.model_selection import LeaveOneGroupOut

from voxprior import RandomFieldClassifier
from voxprior.papers import datasets
from voxprior.papers.carmi2009 import arms
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


def run(quick: bool) -> list[dict]:
    """One table, rows are choices."""
    columns = {"chains, 80 nodes, 19 scans": _on_chains(quick)}
    # Where the data are absent the column is left out; the run says so elsewhere.
    with suppress(FileNotFoundError):
        columns["Haxby block means, 100 nodes, 11 scans"] = _on_haxby(quick)
    return [
        {"choice": name, **{title: values[name] for title, values in columns.items()}}
        for name in CHANGES
    ]


def _methods(n_nodes: int) -> dict:
    fixed = {"gamma": 10.0, "compression": 1.0, "temperature": 1.0}
    return {name: RandomFieldClassifier(n_nodes, **fixed | c) for name, c in CHANGES.items()}


def _on_chains(quick: bool) -> dict[str, float]:
    rounds = []
    for seed in range(1 if quick else 5):
        data = chains(n_per_class=20, n_nodes=80, coupling=0.5, random_state=200 + seed)
        cv = MonteCarloLeaveOnePerClassOut(1, n_pairs=2 if quick else None, random_state=seed)
        rounds.append(arms.accuracies(_methods(80), data.X, data.y, cv))
    return arms.pooled(rounds)


def bias_and_compression(quick: bool) -> list[dict]:
    """Plain and compressed fields under a free and a penalised bias, on Haxby block means."""
    rows = []
    for bias in ("centered", "penalized"):
        for gamma in (1.0, 10.0):
            methods = {
                name: RandomFieldClassifier(
                    100, gamma=gamma, compression=rho, bias=bias, temperature=1.0
                )
                for name, rho in (("plain", None), ("compressed", 1.0))
            }
            rows.append({"bias": bias, "gamma": gamma, **_haxby_pairs(methods, quick)})
    return rows


def _on_haxby(quick: bool) -> dict[str, float]:
    return _haxby_pairs(_methods(100), quick)


def _haxby_pairs(methods: dict, quick: bool) -> dict[str, float]:
    data = datasets.haxby_vt(volumes=False)
    X = datasets.standardize_by(data.X, data.run)
    pairs = list(combinations(np.unique(data.y), 2))
    rounds = []
    for number in np.random.default_rng(2).permutation(len(pairs))[: 1 if quick else 8]:
        part = np.isin(data.y, pairs[number])
        if quick:
            part &= np.isin(data.run, np.unique(data.run)[:4])
        cv = LeaveOneGroupOut()
        rounds.append(arms.accuracies(methods, X[part], data.y[part], cv, data.run[part]))
    return arms.pooled(rounds)
