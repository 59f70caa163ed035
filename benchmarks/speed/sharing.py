"""Feature sharing raced against scikit-learn's naive Bayes: time and memory of fit and predict.

``python -m benchmarks.speed.sharing [--quick]`` writes ``sharing.md``. Both see the same float32
trials in the same run; the neighbour graph is prepared once, as it would be for any experiment.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.naive_bayes import GaussianNB
from threadpoolctl import threadpool_limits

from voxprior import FeatureSharingNB, VoxelSpace
from voxprior.papers.measure import measure
from voxprior.papers.tables import machine, save

HERE = Path(__file__).parent
SIZES = {"80,000": ((25, 20, 10), 16), "1,500,000": ((50, 50, 40), 15)}
QUICK = {"2,400": ((10, 8, 5), 6)}


def race(name: str, shape: tuple[int, ...], n_times: int, repeats: int) -> list[dict]:
    """Rows of one size: every contender's times as ratios to GaussianNB's, and its memory."""
    space = VoxelSpace.grid(shape)
    space.adjacency()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, space.n_voxels * n_times), dtype=np.float32)
    y = np.arange(40) % 2
    contenders = {
        "scikit-learn GaussianNB": GaussianNB(),
        "FeatureSharingNB": FeatureSharingNB(space),
        "FeatureSharingNB.paper()": FeatureSharingNB.paper(space),
        "FeatureSharingNB, nothing shared": FeatureSharingNB(
            means="none", variances="none", calibration=None
        ),
    }
    rows: list[dict] = []
    base = None
    for contender, model in contenders.items():
        fit = measure(lambda model=model: model.fit(X, y), repeats)
        predict = measure(lambda model=model: model.predict(X), repeats)
        both = fit.seconds + predict.seconds
        base = both if base is None else base
        rows.append({
            "features": name, "method": contender,
            "fit, ms": 1e3 * fit.seconds, "predict, ms": 1e3 * predict.seconds,
            "both, GaussianNB = 1": both / base,
            "peak memory beyond the input, inputs": (
                max(fit.peak_mb, predict.peak_mb) / (X.nbytes / 2**20)
            ),
        })  # fmt: skip
    return rows


def main(argv: list[str] | None = None) -> list[dict]:
    """Write and return the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small size, for a smoke test")
    parser.add_argument("--output", type=Path, default=HERE / "sharing.md")
    options = parser.parse_args(argv)
    sizes = QUICK if options.quick else SIZES
    rows = []
    # Tiny matrix products gain nothing from BLAS threads; numba keeps its own.
    with threadpool_limits(1, user_api="blas"):
        for name, (shape, n_times) in sizes.items():
            rows += race(name, shape, n_times, repeats=3 if options.quick else 7)
    note = (
        "40 trials of two classes, float32, fitted and predicted; best of several. Ratios are to "
        "GaussianNB in the same run. " + machine("numba")
    )
    save(options.output, "Feature sharing against naive Bayes", {"Fit and predict": rows}, note)
    return rows


if __name__ == "__main__":
    main()
