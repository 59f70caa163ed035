"""Simulated chains: two-out, new scans, scans per node, connectivity or means, adaptation."""

from __future__ import annotations

import numpy as np

from voxprior import RandomFieldClassifier
from voxprior.papers.carmi2009 import arms
from voxprior.papers.claims import Claim, paired, told
from voxprior.papers.frame import Part, Run, Table, drawing
from voxprior.report.pictures.fields import accuracy_histograms
from voxprior.simulate import chains
from voxprior.validation import MonteCarloLeaveOnePerClassOut

# Figure of the report: nodes, subjects per class, scans per subject, Monte-Carlo runs.
SIZES = {"Fig 3.2": (100, 42, 1, 20), "Fig 3.4": (80, 20, 1, 20), "Fig 3.5": (100, 9, 2, 40)}
ADAPTED = (50, 9, 2, 40)  # Fig 3.6
TWO_OUT = "Figures 3.2, 3.4 and 3.5: two-out as printed, classes that differ in connectivity only"
NEW_SCANS = "Figures 3.2, 3.4 and 3.5: the same sizes, 300 new scans, settings chosen in training"
CHAINS = "simulated chains in the place of the report's scans"


def two_out(figure: str, run: Run) -> Part:
    """Plain against compressed under two-out, as many runs and pairs as in the report."""
    n, subjects, scans, runs = SIZES[figure]
    rounds = []
    for seed in run.each(range(2 if run.quick else runs)):
        data = chains(
            n_per_class=subjects, n_nodes=n, coupling=0.5, n_runs=scans, random_state=seed
        )
        cv = MonteCarloLeaveOnePerClassOut(1, n_pairs=2 if run.quick else None, random_state=seed)
        folds = cv.split(data.X, data.y, data.groups)
        rounds.append(arms.accuracies(arms.some(n, *arms.PRINTED), data.X, data.y, folds))
    effects = arms.gain(rounds, *arms.PRINTED)
    row = {
        "figure": figure,
        "nodes / scans per class": f"{n} / {(subjects - 1) * scans}",
        "runs x pairs": f"{len(rounds)} x {len(rounds[0][arms.PRINTED[0]])}",
        "published plain": arms.printed_value(figure, "plain"),
        "published compressed": arms.printed_value(figure, "compressed"),
        **arms.pooled(rounds),
        "printed: gain of compression": told(effects),
    }
    units = f"{len(rounds)} runs of two-out, a new data set in each, settings as printed"
    claim = Claim(
        f"Compression raises the accuracy ({n} nodes)", effects, units,
        arms.printed_pair(figure), CHAINS,
    )  # fmt: skip
    return Part({TWO_OUT: Table([row], DIFFERS)}, _histogram(figure, rounds, arms.PRINTED), [claim])


DIFFERS = (
    "The report permutes one data set in every run; here every run draws a new one, so that runs "
    "are independent."
)


def _histogram(figure: str, rounds: list, methods: tuple[str, ...]) -> dict:
    values = {name: arms.by_round(rounds, name) for name in methods}
    second = "adapted" if figure == "Fig 3.6" else "compressed"
    printed = dict(zip(methods, (arms.printed_value(figure, m) for m in ("plain", second))))
    caption = (
        f"Distribution of the accuracy over {len(rounds)} runs, as in {figure} of the report; "
        "dotted, the means that the report prints. Differs: simulated chains."
    )
    name = figure.replace("Fig ", "figure") + "_accuracies"
    return {name: drawing(accuracy_histograms(values, printed), caption)}


def new_scans(run: Run) -> Part:
    """The same sizes and numbers of runs on 300 new scans: two-out has wide errors."""
    rows, claims = [], []
    for figure, (n, subjects, scans, runs) in run.each(SIZES.items()):
        k, rounds = (subjects - 1) * scans, []
        sparse: dict[str, list] = {"as printed": [], "chosen in training": []}
        for seed in range(2 if run.quick else runs):
            data = chains(n_per_class=k + 150, n_nodes=n, coupling=0.5, random_state=300 + seed)
            methods = arms.some(n, *arms.PRINTED, *arms.CHOSEN, "naive Bayes", "linear SVM")
            rounds.append(on_new_scans(methods, data.X, data.y, k))
            for kept, pair in zip(sparse.values(), (arms.PRINTED, arms.CHOSEN)):
                kept.append([arms.effective_connections(methods[name]) for name in pair])
        effects = arms.gain(rounds, *arms.CHOSEN)
        rows.append(
            {
                "figure": figure,
                "nodes / scans per class": f"{n} / {k}",
                "data sets": len(rounds),
                **arms.pooled(rounds),
                "chosen: gain of compression": told(effects),
                **{f"connections {settings}": _arrow(kept) for settings, kept in sparse.items()},
            }
        )
        units = f"{len(rounds)} data sets, 300 new scans each"
        text = f"Compression raises the accuracy ({n} nodes), gamma and strength chosen in training"
        differs = f"{CHAINS}; settings are ours, chosen in each data set's training scans"
        claims.append(Claim(text, effects, units, arms.printed_pair(figure), differs))
        for settings, kept in sparse.items():
            plain, compressed = np.transpose(kept)
            text = f"Compressed fields have fewer connections per node ({n} nodes, {settings})"
            fewer = paired(plain, compressed)
            claims.append(Claim(text, fewer, units, "Figures 2.1 and 3.3", CHAINS))
    return Part({NEW_SCANS: Table(rows, EFFECTIVE)}, claims=claims)


EFFECTIVE = (
    "Connections are the effective number per node, without and with compression: the square of "
    "the sum of abs β over the sum of its squares, which does not change with the scale of β. "
    "Compression as printed makes all of β larger, so that a count above a fixed bound would grow."
)


def _arrow(pairs: list) -> str:
    """Means of both columns.

    >>> _arrow([[3, 1], [5, 2]])
    '4.0 -> 1.5'
    """
    before, after = np.mean(pairs, axis=0)
    return f"{before:.1f} -> {after:.1f}"


def after_each_scan(run: Run) -> Part:
    """`each` with R = 200² beside `end` with the same total strength, same folds."""
    n, subjects = (30, 10) if run.quick else (80, 20)
    rounds = []
    for seed in run.each(arms.data_sets(run)):
        data = chains(n_per_class=subjects, n_nodes=n, coupling=0.5, random_state=100 + seed)
        cv = MonteCarloLeaveOnePerClassOut(1, n_pairs=2 if run.quick else None, random_state=seed)
        methods = {
            "plain": RandomFieldClassifier.paper(n_nodes=n, r_eps=None, compression=None),
            "each, R = 200²": RandomFieldClassifier.paper(n_nodes=n),
            "end, R = 1000": RandomFieldClassifier.paper(n_nodes=n, **arms.PRINTED_END),
        }
        rounds.append(arms.accuracies(methods, data.X, data.y, cv.split(data.X, data.y)))
    row = {"nodes": n, "scans per class": subjects - 1, "data sets": len(rounds)}
    gain = {"each minus end": told(arms.gain(rounds, "end, R = 1000", "each, R = 200²"))}
    title = "Section 2.3: compression after each scan, as published"
    return Part({title: Table([row | arms.pooled(rounds) | gain])})


def scans_per_node(run: Run) -> Part:
    """Accuracy on new scans as the number of training scans passes the number of nodes."""
    n, rows = 42, []
    for k in run.each((10, 41) if run.quick else (10, 20, 30, 41, 60, 120)):
        rounds = []
        for seed in arms.data_sets(run):
            data = chains(n_per_class=k + 150, n_nodes=n, coupling=0.45, random_state=seed)
            rounds.append(on_new_scans(arms.fields(n), data.X, data.y, k))
        row = {"nodes": n, "scans per class": k, "data sets": len(rounds)}
        rows.append(row | arms.pooled(rounds))
    return Part({"Scans per node: where the plain filter collapses (ours)": Table(rows)})


def connectivity_or_means(run: Run) -> Part:
    """Three designs of 60 nodes and 25 scans: chains, means, both."""
    n, k = (20, 10) if run.quick else (60, 25)
    rows = []
    for name, coupling, shift in run.each(
        (("connectivity", 0.5, 0), ("means", 0, 0.35), ("both", 0.5, 0.35))
    ):
        rounds = []
        for seed in arms.data_sets(run):
            data = chains(n_per_class=k + 150, n_nodes=n, coupling=coupling, random_state=seed)
            pattern = np.random.default_rng(seed + 50).normal(size=n)
            data.X[data.y == 1] += (shift * pattern).astype(np.float32)
            methods = arms.fields(n) | arms.rivals(n)
            rounds.append(on_new_scans(methods, data.X, data.y, k))
        row = {"classes differ in": name, "data sets": len(rounds)}
        rows.append(row | arms.pooled(rounds))
    return Part({"Connectivity or means (ours)": Table(rows)})


def adaptation(run: Run) -> Part:
    """Subjects of two scans, two or more left out adapt the plain field before it decides."""
    ways = ("none", "literal", "assigned", "sigma")
    rows, figures, claims = [], {}, []
    for n, subjects, tested in run.each(((50, 9, 1), (20, 13, 40))):
        rounds = []
        for seed in range(2 if run.quick else ADAPTED[-1]):
            total = subjects if tested == 1 else subjects - 1 + tested
            data = chains(n_per_class=total, n_nodes=n, coupling=0.5, n_runs=2, random_state=seed)
            folds = _subjects_out(data, tested, seed, 2 if run.quick else None)
            found = {way: [_adapted(way, data, *fold) for fold in folds] for way in ways}
            rounds.append({way: np.array(values) for way, values in found.items()})
        printed = arms.printed_pair("Fig 3.6", "adapted") if n == 50 else ""
        size = {"nodes": n, "scans per class": 2 * (subjects - 1), "new scans": 4 * tested}
        runs = {"runs x pairs": f"{len(rounds)} x {len(rounds[0]['none'])}", "published": printed}
        rows.append(size | runs | arms.pooled(rounds))
        for way in ways[1:]:
            effects = paired(arms.by_round(rounds, way), arms.by_round(rounds, "none"))
            text = f"Adaptation to the scans left out raises the accuracy ({n} nodes, {way})"
            units = f"{len(rounds)} runs, {4 * tested} new scans at a time"
            claims.append(Claim(text, effects, units, printed, CHAINS))
        if n == 50:
            figures = _histogram("Fig 3.6", rounds, ("none", "literal"))
    title = "Figure 3.6: adaptation to the scans left out, no compression"
    differs = (
        "Literal is (1.26) as printed: every class absorbs every scan. Assigned and sigma are ours."
    )
    return Part({title: Table(rows, differs)}, figures, claims)


def _subjects_out(data, tested: int, seed: int, n_pairs: int | None) -> list:
    """Two-out by subject; or the last ``tested`` subjects of each class together."""
    if tested == 1:
        cv = MonteCarloLeaveOnePerClassOut(1, n_pairs=n_pairs, random_state=seed)
        return list(cv.split(data.X, data.y, data.groups))
    test = np.concatenate([np.flatnonzero(data.y == c)[-2 * tested :] for c in (0, 1)])
    return [(np.setdiff1d(np.arange(len(data.y)), test), test)]


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


def on_new_scans(methods: dict, X, y, k: int) -> arms.Round:
    """Accuracy of methods that learn from the first k scans of each class, on all others."""
    train = np.concatenate([np.flatnonzero(y == c)[:k] for c in (0, 1)])
    return arms.accuracies(methods, X, y, [(train, np.setdiff1d(np.arange(len(y)), train))])
