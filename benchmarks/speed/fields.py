"""Race all nodes of a random field against per-node LassoCV and GraphicalLasso.

python -m benchmarks.speed.fields [--quick] [--repeat N]

The table is kept in fields.md. Times are wall-clock, best of a few; ratios within one run are what
counts. Peers that would take hours are timed on a few nodes and scaled up, and marked with ~.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.covariance import GraphicalLasso
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LassoCV
from threadpoolctl import threadpool_limits

from voxprior import RandomFieldClassifier
from voxprior.models.fields.dual import compressed_field, dual_system, plain_field
from voxprior.models.fields.field import Training, log_partition, noise_from_strength
from voxprior.models.fields.kalman import kalman_filter
from voxprior.models.fields.kalman_compiled import solve_compiled
from voxprior.papers.measure import measure
from voxprior.papers.tables import machine, save
from voxprior.validation import MonteCarloLeaveOnePerClassOut

GAMMA, RHO, N_PSEUDO = 10.0, 1.0, 40
SCANS, VOXELS, RUNS, PAIRS = 82, 14_043, 20, 42


def scans_of(k: int, n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(k, n))


def compressed(X):
    n = X.shape[1]
    return compressed_field(dual_system(X, GAMMA), noise_from_strength(RHO, n, GAMMA), N_PSEUDO)


def node_by_node(X, work, nodes):
    """Seconds for ``nodes`` regressions of one node on all others, scaled to all nodes."""
    began = time.perf_counter()
    for i in range(nodes):
        work(np.delete(X, i, axis=1), X[:, i])
    return (time.perf_counter() - began) * X.shape[1] / nodes


def race(sizes, repeats: int) -> list[dict]:
    """All nodes of one class of 82 scans: ours and the peers, as times and ratios."""
    rows = []
    for n, lasso_nodes, kalman_nodes, glasso in sizes:
        X = scans_of(SCANS, n)
        plain = measure(lambda X=X: plain_field(dual_system(X, GAMMA)), repeats).seconds
        squeezed = measure(lambda X=X: compressed(X), repeats).seconds
        lasso = node_by_node(X, lambda G, x: LassoCV(cv=5).fit(G, x), lasso_nodes)
        kalman = node_by_node(X, lambda G, x: kalman_filter(G, x, GAMMA), kalman_nodes)
        graph = None
        if glasso:
            model = GraphicalLasso(alpha=0.3)
            graph = measure(lambda X=X, m=model: m.fit(X), 1, warm_up=False).seconds
        rows.append(
            {
                "nodes": n,
                "plain, s": plain,
                "compressed, s": squeezed,
                "sequential filters, s": f"~{kalman:.3g}",
                "LassoCV per node, s": f"~{lasso:.3g}",
                "GraphicalLasso, s": graph,
                "plain over filters": f"{kalman / plain:.0f} x",
                "compressed over LassoCV": f"{lasso / squeezed:.0f} x",
                "compressed over GraphicalLasso": f"{graph / squeezed:.2g} x" if graph else None,
            }
        )
    return rows


def modes(repeats: int) -> list[dict]:
    """One class of the report's size, n = 100 and k = 41."""
    X = scans_of(41, 100)
    each = Training(GAMMA, noise_from_strength(RHO, 100, GAMMA), N_PSEUDO, mode="each")
    calls = {
        "plain": lambda: plain_field(dual_system(X, GAMMA)),
        "compressed at the end (target 0.05 s)": lambda: compressed(X),
        "compressed after each scan": lambda: solve_compiled(X, each),
    }
    with threadpool_limits(1):
        return [
            {"one class, n = 100, k = 41": name, "ms": 1000 * measure(call, repeats).seconds}
            for name, call in calls.items()
        ]


def protocol(n_voxels: int, n_folds: int) -> list[dict]:
    """Folds of the Princeton protocol with ranking of all voxels in each; 840 are the whole."""
    X, y = scans_of(2 * PAIRS, n_voxels).astype(np.float32), np.repeat([-1, 1], PAIRS)
    splitter = MonteCarloLeaveOnePerClassOut(RUNS, random_state=0)
    folds = [fold for fold, _ in zip(splitter.split(X, y), range(n_folds))]
    settings = {
        "fixed strength (target 120 s)": {"gamma": GAMMA, "compression": RHO, "temperature": 1.0},
        "fixed strength, probabilities": {"gamma": GAMMA, "compression": RHO},
        "strength chosen in every fold (target 600 s)": {"temperature": 1.0},
        "strength chosen, probabilities": {},
    }
    rows = []
    for name, parameters in settings.items():
        model = RandomFieldClassifier(100, **parameters)

        def run(model=model):
            for train, test in folds:
                model.fit(X[train], y[train]).predict(X[test])

        with threadpool_limits(1):
            seconds = measure(run, 2).seconds
        whole = seconds / n_folds * RUNS * PAIRS
        rows.append(
            {
                "protocol": name,
                "folds timed": n_folds,
                "s per fold": seconds / n_folds,
                "840 folds on one core, s": f"~{whole:.0f}",
            }
        )
    return rows


def whole_brain(n_voxels: int) -> list[dict]:
    """Both classes with all voxels as nodes, compressed, then their partition functions."""
    X, y = scans_of(2 * PAIRS, n_voxels), np.repeat([-1, 1], PAIRS)
    model = RandomFieldClassifier(
        None, gamma=GAMMA, compression=RHO, temperature=1.0, threshold="zero"
    )
    began = time.process_time()
    fit = measure(lambda: model.fit(X, y), repeats=1, warm_up=False)
    processor = time.process_time() - began
    partition = measure(lambda: [log_partition(B) for B in model.coef_], 1, warm_up=False)
    return [
        {
            "all voxels as nodes, both classes": n_voxels,
            "fit, s (target 300)": fit.seconds,
            "fit, s of processor": processor,
            "peak GB (target 8)": fit.peak_mb / 1024,
            "exact log Z of both, s": partition.seconds,
            "further GB": partition.peak_mb / 1024,
        }
    ]


def main(argv: list[str] | None = None) -> dict:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="seconds long; writes no table")
    parser.add_argument("--repeat", type=int, default=5, help="best of so many")
    arguments = parser.parse_args(argv)
    warnings.simplefilter("ignore", ConvergenceWarning)
    repeats = 1 if arguments.quick else arguments.repeat
    full = ((100, 10, 10, True), (500, 3, 3, True), (2000, 1, 1, False))
    sizes = ((100, 1, 2, True),) if arguments.quick else full
    sections = {
        "All nodes of one class, 82 scans": race(sizes, repeats),
        "One class of the report's size": modes(repeats),
        "The Princeton protocol": protocol(
            2000 if arguments.quick else VOXELS, 1 if arguments.quick else 8
        ),
        "The whole brain at once": whole_brain(600 if arguments.quick else VOXELS),
    }
    if not arguments.quick:
        note = f"Written by `python -m benchmarks.speed.fields`. {machine('numba', 'scipy')}."
        path = Path(__file__).with_suffix(".md")
        save(path, "Random fields: speed", sections, note)
    return sections


if __name__ == "__main__":
    main()
