"""Simulated chains: two-out, scans per node, connectivity or means, adaptation."""

from __future__ import annotations

import numpy as np

from voxprior import RandomFieldClassifier
from voxprior.papers.carmi2009 import arms
from voxprior.simulate import chains
from voxprior.validation import MonteCarloLeaveOnePerClassOut

# Figure of the report: nodes, subjects per class, scans per subject.
SIZES = {"Fig 3.2": (100, 42, 1), "Fig 3.4": (80, 20, 1), "Fig 3.5": (100, 9, 2)}


def two_out(figure: str, quick: bool) -> list[dict]:
    """Plain against compressed under two-out cross-validation of chains of one size."""
    n, subjects, scans = SIZES[figure]
    rounds = []
    for seed in range(1 if quick else 5):
        data = chains(
            n_per_class=subjects, n_nodes=n, coupling=0.5, n_runs=scans, random_state=seed
        )
        pairs = 2 if quick else min(subjects, 12)
        cv = MonteCarloLeaveOnePerClassOut(1, n_pairs=pairs, random_state=seed)
        methods = arms.fields(n) | arms.rivals(n)
        rounds.append(arms.accuracies(methods, data.X, data.y, cv, data.groups))
    return [
        {
            "figure": figure,
            "nodes / scans per class": f"{n} / {(subjects - 1) * scans}",
            "published plain": arms.printed_value(figure, "plain"),
            "published compressed": arms.printed_value(figure, "compressed"),
            **arms.pooled(rounds),
            "gain of compression": arms.spread(rounds, "plain, gamma chosen", "compressed, chosen"),
        }
    ]


def many_new_scans(quick: bool) -> list[dict]:
    """The same sizes, tested on 300 new scans of each data set: two-out leaves wide errors."""
    rows = []
    for figure, (n, subjects, scans) in SIZES.items():
        k, rounds = (subjects - 1) * scans, []
        for seed in range(1 if quick else 8):
            data = chains(n_per_class=k + 150, n_nodes=n, coupling=0.5, random_state=300 + seed)
            train = np.concatenate([np.flatnonzero(data.y == c)[:k] for c in (0, 1)])
            rounds.append(_new_scans(arms.fields(n) | arms.rivals(n), data, train))
        gain = arms.spread(rounds, "plain, gamma chosen", "compressed, chosen")
        size = {"figure": figure, "nodes / scans per class": f"{n} / {k}"}
        rows.append(size | arms.pooled(rounds) | {"gain of compression": gain})
    return rows


def after_each_scan(quick: bool) -> list[dict]:
    """`each` with R = 200² beside `end` with the same total strength, same folds."""
    n, subjects = (30, 10) if quick else (80, 20)
    data = chains(n_per_class=subjects, n_nodes=n, coupling=0.5, random_state=100)
    cv = MonteCarloLeaveOnePerClassOut(1, n_pairs=2 if quick else 20, random_state=0)
    methods = {
        "plain": RandomFieldClassifier.paper(n_nodes=n, r_eps=None, compression=None),
        "each, R = 200²": RandomFieldClassifier.paper(n_nodes=n),
        "end, R = 1000": RandomFieldClassifier.paper(n_nodes=n, **arms.PRINTED_END),
    }
    rounds = [arms.accuracies(methods, data.X, data.y, cv)]
    return [{"nodes": n, "scans per class": subjects - 1, **arms.pooled(rounds)}]


def scans_per_node(quick: bool) -> list[dict]:
    """Accuracy on new scans as the number of training scans passes the number of nodes."""
    n, rows = 42, []
    for k in (10, 41) if quick else (10, 20, 30, 41, 60, 120):
        rounds = []
        for seed in range(1 if quick else 4):
            data = chains(n_per_class=k + 150, n_nodes=n, coupling=0.45, random_state=seed)
            train = np.concatenate([np.flatnonzero(data.y == c)[:k] for c in (0, 1)])
            rounds.append(_new_scans(arms.fields(n), data, train))
        rows.append({"nodes": n, "scans per class": k, **arms.pooled(rounds)})
    return rows


def connectivity_or_means(quick: bool) -> list[dict]:
    """Three designs of 60 nodes and 25 scans: chains, means, both."""
    n, k = (20, 10) if quick else (60, 25)
    rows = []
    for name, coupling, shift in (
        ("connectivity", 0.5, 0),
        ("means", 0, 0.35),
        ("both", 0.5, 0.35),
    ):
        rounds = []
        for seed in range(1 if quick else 4):
            data = chains(n_per_class=k + 150, n_nodes=n, coupling=coupling, random_state=seed)
            pattern = np.random.default_rng(seed + 50).normal(size=n)
            data.X[data.y == 1] += (shift * pattern).astype(np.float32)
            train = np.concatenate([np.flatnonzero(data.y == c)[:k] for c in (0, 1)])
            rounds.append(_new_scans(arms.fields(n) | arms.rivals(n), data, train))
        rows.append({"classes differ in": name, **arms.pooled(rounds)})
    return rows


def adaptation(quick: bool) -> list[dict]:
    """Subjects of two scans, two or more left out adapt the plain field before it decides."""
    rows = []
    ways = ("none", "literal", "assigned", "sigma")
    for n, subjects, tested in ((50, 9, 1), (20, 13, 40)):
        right: dict[str, list[float]] = {way: [] for way in ways}
        for seed in range(2 if quick else 300 if tested == 1 else 30):
            total = subjects - 1 + tested
            data = chains(n_per_class=total, n_nodes=n, coupling=0.5, n_runs=2, random_state=seed)
            test = np.concatenate([np.flatnonzero(data.y == c)[-2 * tested :] for c in (0, 1)])
            train = np.setdiff1d(np.arange(len(data.y)), test)
            for way in ways:
                right[way].append(_adapted(way, data, train, test))
        rows.append(
            {
                "nodes": n,
                "scans per class": 2 * (subjects - 1),
                "new scans": 4 * tested,
                "published": "0.73 -> 0.77" if n == 50 else None,
                **{way: float(np.mean(values)) for way, values in right.items()},
            }
        )
    return rows


def _adapted(way: str, data, train, test) -> float:
    model = RandomFieldClassifier(
        gamma=0.01,
        compression=None,
        variance="residual",
        variance_scope="class",
        temperature=1.0,
        adaptation=way,
    ).fit(data.X[train], data.y[train])
    if way != "none":
        model = model.adapt(data.X[test])
    return float(model.score(data.X[test], data.y[test]))


def _new_scans(methods: dict, data, train) -> dict[str, np.ndarray]:
    """Accuracy on all scans that are not in ``train``, as arrays of one entry."""
    test = np.setdiff1d(np.arange(len(data.y)), train)
    return {
        name: np.array([model.fit(data.X[train], data.y[train]).score(data.X[test], data.y[test])])
        for name, model in methods.items()
    }
