"""The inverse-tree network at the paper's size, 119 x 1,540,096, against pgmpy and pyAgrum.

``python -m benchmarks.speed.network [--quick]``. The peers score one voxel at a time; they are
timed on a thousand voxels and extrapolated to all, which is kind to pyAgrum: the time of one of its
scores grows with the number of columns. Their scores must equal ours.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from voxprior import InverseTreeClassifier, VoxelSpace
from voxprior.models.network.bits import pack
from voxprior.models.network.score import best_voxel, class_cells, gains
from voxprior.models.network.stability import leave_one_out_paths
from voxprior.models.network.tree import Rules, beliefs_of, latent_states, learn_tree, search
from voxprior.papers.measure import measure
from voxprior.papers.tables import machine, save
from voxprior.simulate import latent_clusters

# Hours, as the paper gives them for a Silicon Graphics Origin.
PAPER = {"selection": 1.0, "latent": 20.0, "label": 0.5}


def peers(X: np.ndarray, y: np.ndarray, n: int) -> dict[str, float]:
    """Seconds per voxel of the peers that are installed; their scores must equal ours."""
    table = pd.DataFrame(X[:, :n], columns=[f"v{v}" for v in range(n)]).assign(C=y)
    words = pack(X[:, :n])
    cells = class_cells(words, y, 2, [])
    ours = gains(words, cells) + cells.score
    # Peers infer the states of a constant voxel from the data, and so differ there.
    varies = np.ptp(X[:, :n], axis=0) > 0
    found = {}
    for name, scorer in (("pgmpy", pgmpy_scores), ("pyAgrum", pyagrum_scores)):
        try:
            times = []
            for _ in range(3):
                score = scorer(table)  # made anew: both peers remember what they have scored
                began = time.perf_counter()
                theirs = np.array([score(f"v{v}") for v in range(n)])
                times.append((time.perf_counter() - began) / n)
        except ImportError:
            print(f"{name} is not installed: left out")
            continue
        np.testing.assert_allclose(theirs[varies], ours[varies], rtol=1e-6)
        found[name] = min(times)
    return found


def pgmpy_scores(table: pd.DataFrame) -> Callable[[str], float]:
    from pgmpy.structure_score import K2

    k2 = K2(table)
    return lambda voxel: k2.local_score("C", (voxel,))


def pyagrum_scores(table: pd.DataFrame) -> Callable[[str], float]:
    import pyagrum

    learner = pyagrum.BNLearner(table)
    learner.useScoreK2()
    return lambda voxel: np.log(2) * learner.score("C", [voxel])  # its scores are in bits


def timings(
    X: np.ndarray, y: np.ndarray, space: VoxelSpace, repeats: int
) -> list[dict[str, object]]:
    """Every stage of the method, best of ``repeats``."""
    rows: list[dict[str, object]] = []

    def clock(
        stage: str, call: Callable[[], object], paper: float | None = None, once: bool = False
    ):
        cpu = []

        def counted():
            began = time.process_time()
            value = call()
            cpu.append(time.process_time() - began)
            return value

        done = measure(counted, 1 if once else repeats, warm_up=not once)
        ratio = None if paper is None else round(paper * 3600 / done.seconds)
        rows.append(
            {
                "stage": stage,
                "ms": done.seconds * 1e3,
                "CPU ms": min(cpu) * 1e3,
                "MB above start": done.peak_mb,
                "paper / ours": ratio,
            }
        )
        return done.value

    words = clock("pack bytes into words", lambda: pack(X))
    rules = Rules(select="gain", max_parents=4)
    path = search(words, y, 2, rules)
    for d in range(len(path.parents) + 1):
        before = path.parents[:d].tolist()
        clock(
            f"greedy step with {d} parents",
            lambda p=before: best_voxel(gains(words, class_cells(words, y, 2, p))),
        )
    clock(
        f"search for {len(path.parents)} parents and their clusters",
        lambda: search(words, y, 2, rules),
        PAPER["selection"],
    )
    for d in (2, 4):
        clock(
            f"jackknife of all subjects, up to {d} parents",
            lambda d=d: leave_one_out_paths(words, y, 2, 1.0, d),
        )
    rng = np.random.default_rng(0)
    clock(
        "latent states of all clusters",
        lambda: latent_states(words, len(y), path, rules, rng),
        PAPER["latent"],
    )
    complete = PAPER["selection"] + PAPER["latent"]
    clock("complete fit from words", lambda: learn_tree(words, y, 2, rules), complete)
    by_jackknife = rules._replace(select="jackknife")
    clock(
        "complete fit, validated by jackknife",
        lambda: learn_tree(words, y, 2, by_jackknife),
        complete,
    )
    by_chance = rules._replace(select="permutation")
    clock(
        "complete fit, validated by 39 permutations",
        lambda: learn_tree(words, y, 2, by_chance, np.random.default_rng(0)),
        complete,
    )
    # Once only: a space remembers its neighbours.
    graph = clock("neighbours of all voxels, once", lambda: space.adjacency(6), once=True)
    by_belief = rules._replace(equivalence="belief", adjacency=graph)
    first = int(path.parents[0])
    ones = np.ones(len(y), dtype=np.int64)
    clock("belief map of one parent", lambda: beliefs_of(words, first, by_belief, ones))
    clock(
        "complete fit, clusters by belief map", lambda: learn_tree(words, y, 2, by_belief), complete
    )
    model = InverseTreeClassifier(max_parents=4, random_state=0)
    clock("InverseTreeClassifier().fit from bytes", lambda: model.fit(X, y), complete)
    clock("label one new subject", lambda: model.predict_proba(X[:1]), PAPER["label"])
    return rows


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="a small brain, in seconds; writes nothing"
    )
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(argv)
    shape = (24, 24, 20) if options.quick else (128, 128, 94)
    data = latent_clusters(
        shape, n_samples=119, cluster_radius=3.0 if options.quick else 6.0, random_state=0
    )
    rows = timings(data.X, data.y, data.space, 1 if options.quick else options.repeats)
    n = 20 if options.quick else 1000
    first = next(row["ms"] for row in rows if row["stage"] == "greedy step with 0 parents")
    ratios = []
    for name, each in peers(data.X, data.y, n).items():
        whole = each * data.X.shape[1]
        ratios.append(
            {
                "peer": name,
                "ms per voxel": each * 1e3,
                "first step, s": whole,
                "peer / ours": round(whole / first * 1e3),
            }
        )
    title = f"Inverse-tree network, {data.X.shape[0]} subjects x {data.X.shape[1]:,} voxels"
    note = (
        f"{machine('numba', 'pgmpy', 'pyagrum')}. Best of {options.repeats}; "
        f"{sum(data.truth['cluster'] > 0)} voxels in two planted clusters. CPU time is "
        "summed over the threads, so a quiet machine needs about half of it; 'paper / ours' is by "
        "the hours the paper gives."
    )
    sections = {
        "Stages": rows,
        "First greedy step against peers (extrapolated)": ratios or "no peer installed",
    }
    path = Path("/dev/null") if options.quick else Path(__file__).with_suffix(".md")
    save(path, title, sections, note)


if __name__ == "__main__":
    main()
