"""Are permutation p-values uniform where nothing is decoded, and small where something is?

Accuracy takes few values. Relabellings that tie with the true labels count as well as they, so p
by accuracy alone is too large on average. `permutation_test` breaks ties by the mean
log-probability that held-out scans give their own label. Each data set here is tested with both
orders (from one test: its null scores are those of the accuracy), by log-loss and by AUC alone.

    6 runs of 4 scans, 2 classes, 10 voxels with run offsets, labels exchanged within runs

    python -m benchmarks.permutation_values [--quick]    writes benchmarks/permutation_values.md
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.special import softmax
from scipy.stats import kstest
from sklearn.base import BaseEstimator, ClassifierMixin
from threadpoolctl import threadpool_limits

from voxprior.papers.tables import machine, save
from voxprior.validation import permutation_test
from voxprior.validation.permutation import p_value

N_NULL, N_SIGNAL, N_RELABELLINGS = 600, 200, 99
EFFECT = 0.28
OLD, NEW = "accuracy (before)", "accuracy, then log-probability (now)"


class NearestMeans(ClassifierMixin, BaseEstimator):
    """Normal classes of unit variance: quick to fit, so that many data sets can be tested."""

    def fit(self, X, y):
        """Learn the class means."""
        self.classes_ = np.unique(y)
        self.means_ = np.array([X[y == label].mean(axis=0) for label in self.classes_])
        return self

    def predict_proba(self, X):
        """Probabilities from distances to the means."""
        return softmax(X @ self.means_.T - 0.5 * (self.means_**2).sum(axis=1), axis=1)

    def predict(self, X):
        """Nearest mean."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


DECODER = NearestMeans()


def data_set(seed: int, effect: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Six runs of four scans."""
    rng = np.random.default_rng(seed)
    y, runs = np.tile([0, 1], 12), np.repeat(np.arange(6), 4)
    X = rng.normal(size=(24, 10)) + rng.normal(size=(6, 10))[runs]
    X -= np.array([X[runs == run].mean(axis=0) for run in range(6)])[runs]
    return X + effect * (2 * y - 1)[:, None] * np.array([1.0] * 5 + [0.0] * 5), y, runs


def values(seed: int, effect: float) -> dict[str, float]:
    """p-values of one data set by each order of results."""
    X, y, runs = data_set(seed, effect)
    options = {"n_permutations": N_RELABELLINGS, "stop_after": None, "random_state": seed}
    options |= {"audited": ()}
    found = permutation_test(DECODER, X, y, runs, **options)
    return {
        OLD: p_value(found.observed, found.null)[0],
        NEW: found.p_value,
        "log-probability alone": permutation_test(
            DECODER, X, y, runs, score="log_loss", **options
        ).p_value,
        "AUC": permutation_test(DECODER, X, y, runs, score="auc", **options).p_value,
    }


def row(name: str, null: np.ndarray, signal: np.ndarray) -> dict:
    """How values are spread without signal, and how often small with it."""
    return {
        "order of results": name,
        "mean p": round(null.mean(), 3),
        "P(p <= .05)": round(np.mean(null <= 0.05 + 1e-9), 3),
        "P(p <= .1)": round(np.mean(null <= 0.1 + 1e-9), 3),
        "distance from uniform (KS)": round(kstest(null, "uniform").statistic, 3),
        "power at .05": round(np.mean(signal <= 0.05 + 1e-9), 3),
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description="Spread of permutation p-values.")
    parser.add_argument("--quick", action="store_true", help="few data sets, nothing written")
    quick = parser.parse_args(argv).quick
    n_null, n_signal = (8, 4) if quick else (N_NULL, N_SIGNAL)
    with threadpool_limits(1):
        null = [values(seed, 0.0) for seed in range(n_null)]
        signal = [values(seed, EFFECT) for seed in range(10_000, 10_000 + n_signal)]
    columns = {
        name: [np.array([one[name] for one in many]) for many in (null, signal)] for name in null[0]
    }
    rows = [row(name, *both) for name, both in columns.items()]
    note = (
        f"{n_null} data sets without signal, {n_signal} with signal (standard error of a share of "
        f".05: {np.sqrt(0.05 * 0.95 / n_null):.3f}); {N_RELABELLINGS} relabellings, nearest class "
        f"means, leave-one-run-out. The mean of a uniform p on 1/100, ..., 1 is .505. "
        f"{machine()}."
    )
    path = Path("/dev/null") if quick else Path(__file__).with_suffix(".md")
    save(path, "Permutation p-values", {"Order of results": rows}, note)


if __name__ == "__main__":
    main()
