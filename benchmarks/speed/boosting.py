"""Boosted stumps against scikit-learn, LightGBM and XGBoost; spatial decoders against nilearn's.

``python -m benchmarks.speed.boosting [--quick]``. Set-up is a fit of one iteration; an iteration is
what more of them add. Peers that would take minutes make fewer iterations, and sit out 1.5 million.
"""

import argparse
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import AdaBoostClassifier
from sklearn.metrics import average_precision_score
from sklearn.tree import DecisionTreeClassifier

from voxprior import SpatialBoostingClassifier, VoxelSpace
from voxprior.papers.measure import measure
from voxprior.papers.tables import machine, markdown, save
from voxprior.simulate import blobs

SHAPES = {10_000: (20, 25, 20), 80_000: (40, 50, 40), 1_500_000: (100, 125, 120)}
PEER_LIMIT = 100_000


def ours(space: VoxelSpace, **parameters) -> Callable[[int], Any]:
    def make(n: int):
        return SpatialBoostingClassifier(space, n_iterations=n, tol=0.0, **parameters)

    return make


def scikit_learn(n: int):
    return AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=n)


def lightgbm(n: int):
    from lightgbm import LGBMClassifier

    return LGBMClassifier(
        n_estimators=n, num_leaves=2, min_child_samples=1, min_child_weight=0, verbose=-1, n_jobs=2
    )


def xgboost(n: int):
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=n, max_depth=1, tree_method="hist", n_jobs=2)


def stumps(n_samples: int, n_voxels: int, repeats: int) -> list[dict]:
    """Set-up and time per iteration of each learner on noise with one informative blob."""
    space = VoxelSpace.grid(SHAPES.get(n_voxels, (10, 10, n_voxels // 100)))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, n_voxels), dtype=np.float32)
    y = np.arange(n_samples) % 2
    X[y == 1, :20] += 1
    # (how it is made, iterations to time)
    learners = {
        "voxprior, λ = 0": (ours(space, regularization=0.0), 100),
        "voxprior, λ = 10, r = 1": (ours(space), 100),
        "scikit-learn AdaBoost": (scikit_learn, 4),
        "LightGBM": (lightgbm, 20),
        "XGBoost": (xgboost, 20),
    }
    rows = []
    for name, (make, n_iterations) in learners.items():
        if n_voxels > PEER_LIMIT and not name.startswith("voxprior"):
            continue
        times = repeats if name.startswith("voxprior") else min(repeats, 2)
        longer = 1 + n_iterations
        try:
            one = measure(lambda make=make: make(1).fit(X, y), times)
        except ImportError:
            print(f"{name} is not installed: left out")
            continue
        more = measure(lambda make=make, n=longer: make(n).fit(X, y), times, warm_up=False)
        rows.append(
            {
                "samples": n_samples,
                "voxels": n_voxels,
                "learner": name,
                "set-up, s": one.seconds,
                "an iteration, ms": 1e3 * (more.seconds - one.seconds) / n_iterations,
            }
        )
    best = rows[1]["an iteration, ms"]
    for row in rows:
        row["over voxprior's λ = 10"] = row["an iteration, ms"] / best
    print(markdown(rows), flush=True)
    return rows


def memory(n_samples: int, n_voxels: int) -> dict:
    """Peak of what a fit allocates, sorted orders and all, beside the X it was given."""
    space = VoxelSpace.grid(SHAPES[n_voxels])
    X = np.random.default_rng(0).standard_normal((n_samples, n_voxels), dtype=np.float32)
    y = np.arange(n_samples) % 2
    ours(space)(1).fit(X, y)  # compilation allocates too
    tracemalloc.start()
    ours(space)(5).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    per_value = peak / (n_samples * n_voxels)
    return {"samples": n_samples, "voxels": n_voxels, "bytes per sample and voxel": per_value}


def decoders(shape: tuple[int, ...], n_per_class: int, with_nilearn: bool) -> list[dict]:
    """Accuracy, blob found and time of spatial decoders on the same images."""
    data = blobs(
        shape, n_per_class + 100, effect=0.8, blob_radius=3.0, noise="correlated", random_state=0
    )
    train = np.arange(len(data.y)) < 2 * n_per_class  # classes alternate
    truth = np.abs(data.truth["signal"]) > 0.4
    images = np.array(data.images(), dtype=object)
    rows = []

    def race(name: str, fit: Callable[[], tuple]) -> None:
        done = measure(fit, repeats=1, warm_up=not with_nilearn or name.startswith("voxprior"))
        predicted, weights = done.value
        best = np.argsort(-np.abs(weights), kind="stable")[: truth.sum()]
        rows.append(
            {
                "decoder": name,
                "accuracy": float(np.mean(predicted == data.y[~train])),
                f"precision = recall of the top {truth.sum()}": float(truth[best].mean()),
                "average precision": float(average_precision_score(truth, np.abs(weights))),
                "fit and predict, s": done.seconds,
            }
        )
        print(rows[-1], flush=True)

    def boosted(**parameters):
        model = SpatialBoostingClassifier(data.space, **parameters).fit(
            data.X[train], data.y[train]
        )
        return model.predict(data.X[~train]), model.importance_

    race("voxprior, λ = 10, r = 1", boosted)
    race("voxprior, λ = 10, r = 3", lambda: boosted(radius=3.0))
    race("voxprior, λ = 10, r = 3, T = 500", lambda: boosted(radius=3.0, n_iterations=500))
    race("voxprior, AdaBoost", lambda: boosted(regularization=0.0))
    race(
        "voxprior, λ and r by 5 inner folds",
        lambda: boosted(regularization="auto", radius=(1.0, 3.0), random_state=0),
    )
    if with_nilearn:
        for name, make in nilearn_decoders(data).items():
            race(name, lambda make=make: images_fit(make(), data, images, train))
    return rows


def nilearn_decoders(data) -> dict[str, Callable[[], Any]]:
    from nilearn.decoding import Decoder, FREMClassifier, SpaceNetClassifier

    mask = data.mask_image()
    return {
        "nilearn SpaceNet, graph-net": lambda: SpaceNetClassifier(penalty="graph-net", mask=mask),
        "nilearn SpaceNet, tv-l1": lambda: SpaceNetClassifier(penalty="tv-l1", mask=mask),
        "nilearn FREM": lambda: FREMClassifier(mask=mask),
        "nilearn Decoder, svc": lambda: Decoder(mask=mask),
    }


def images_fit(model, data, images, train) -> tuple:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(list(images[train]), data.y[train])
        predicted = model.predict(list(images[~train]))
    coefficients = model.coef_
    return predicted, np.atleast_2d(coefficients)[-1]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="seconds long; writes nothing")
    arguments = parser.parse_args(argv)
    if arguments.quick:
        stumps(20, 1_000, repeats=1)
        decoders((14, 14, 10), 10, with_nilearn=False)
        return
    rows = []
    for n_voxels in SHAPES:
        for n_samples in (40, 100):
            rows += stumps(n_samples, n_voxels, repeats=3)
    used = [memory(n_samples, n_voxels) for n_voxels in SHAPES for n_samples in (40, 100)]
    raced = decoders((30, 30, 30), 42, with_nilearn=True)
    versions = machine("numba", "lightgbm", "xgboost", "nilearn")
    note = (
        f"Written by `python -m benchmarks.speed.boosting`. {versions}. Best of 3, of 2 for peers; "
        "times are for comparison within a table."
    )
    sections = {
        "Boosted stumps": rows,
        "Memory of voxprior beyond X (λ = 10)": used,
        "Spatial decoders: 84 scans of 27,000 voxels, two smooth blobs in smooth noise": raced,
    }
    save(Path(__file__).with_suffix(".md"), "Boosting: speed against peers", sections, note)


if __name__ == "__main__":
    main()
