"""Are permutation p-values uniform where nothing is decoded, and small where something is?

Accuracy takes few values. Relabellings that tie with the true labels count as well as they, so p
by accuracy alone is too large on average. `permutation_test` breaks ties by the mean
log-probability that held-out scans give their own label. Each data set here is judged by both
orders, and by log-probability and AUC alone.

    6 runs of 4 scans, 2 classes, 10 voxels, labels exchanged within runs, one run left out

The decoder is normal classes of unit variance; its means are linear in the labels, so all
relabellings of a data set are a few products. The first data set is also put through
`permutation_test`, which must give the same p.

    python -m benchmarks.permutation_values [--quick]    writes benchmarks/permutation_values.md
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.special import log_expit, softmax
from scipy.stats import kstest
from sklearn.base import BaseEstimator, ClassifierMixin

from voxprior.papers.tables import machine, save
from voxprior.validation import permutation_test, relabelling
from voxprior.validation.batch import column_score
from voxprior.validation.ranks import p_value
from voxprior.validation.relabel import random_relabellings

N_NULL, N_SIGNAL, N_RELABELLINGS = 2000, 1000, 99
EFFECT = 0.28
Y, RUNS = np.tile([0, 1], 12), np.repeat(np.arange(6), 4)
ORDERS = {
    "accuracy (before)": ("accuracy",),
    "accuracy, then log-probability (now)": ("accuracy", "log-probability"),
    "log-probability alone": ("log-probability",),
    "AUC": ("auc",),
}


class NearestMeans(ClassifierMixin, BaseEstimator):
    """Normal classes of unit variance."""

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


def data_set(seed: int, effect: float) -> np.ndarray:
    """Scans of six runs of four."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(24, 10)) + rng.normal(size=(6, 10))[RUNS]
    X -= np.array([X[run == RUNS].mean(axis=0) for run in range(6)])[RUNS]
    return X + effect * (2 * Y - 1)[:, None] * np.array([1.0] * 5 + [0.0] * 5)


def labels_of(seed: int) -> np.ndarray:
    """Labels (24, 1 + B), the true ones first, as `permutation_test` draws them."""
    structure = relabelling(Y, RUNS)
    drawn = random_relabellings(structure, N_RELABELLINGS, np.random.default_rng((seed, 1)))
    return np.vstack([structure.code, drawn])[:, structure.unit].T


def held_out(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Log-odds of class 1 of every scan under every labelling, (24, 1 + B)."""
    odds = np.empty(labels.shape)
    for run in range(6):
        train, test = run != RUNS, run == RUNS
        one = labels[train] == 1
        high, low = (X[train].T @ part / part.sum(axis=0) for part in (one, ~one))
        odds[test] = X[test] @ (high - low) - 0.5 * ((high**2).sum(0) - (low**2).sum(0))
    return odds


def values(seed: int, effect: float) -> dict[str, float]:
    """p-values of one data set by each order of results."""
    X, labels = data_set(seed, effect), labels_of(seed)
    odds = held_out(X, labels)
    results = {name: column_score(name, odds, labels, 2) for name in ("accuracy", "auc")}
    results["log-probability"] = log_expit((2 * labels - 1) * odds).mean(axis=0)
    found = {}
    for order, names in ORDERS.items():
        ranks = np.column_stack([results[name] for name in names])
        found[order] = p_value(ranks[0], ranks[1:])[0]
    return found


def check(seed: int) -> None:
    """Refuse to go on where `permutation_test` says something else."""
    options = {"n_permutations": N_RELABELLINGS, "stop_after": None, "random_state": seed}
    found = permutation_test(NearestMeans(), data_set(seed, EFFECT), Y, RUNS, audited=(), **options)
    expected = values(seed, EFFECT)[list(ORDERS)[1]]
    if not np.isclose(found.p_value, expected):
        raise RuntimeError(f"permutation_test gives p = {found.p_value}, here {expected}")


def row(name: str, null: np.ndarray, signal: np.ndarray) -> dict:
    """How values are spread without signal, and how often small with it."""
    return {
        "order of results": name,
        "mean p": f"{null.mean():.3f}",
        "P(p <= .05)": f"{np.mean(null <= 0.05 + 1e-9):.3f}",
        "P(p <= .1)": f"{np.mean(null <= 0.1 + 1e-9):.3f}",
        "distance from uniform (KS)": f"{kstest(null, 'uniform').statistic:.3f}",
        "power at .05": f"{np.mean(signal <= 0.05 + 1e-9):.3f}",
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description="Spread of permutation p-values.")
    parser.add_argument("--quick", action="store_true", help="few data sets, nothing written")
    quick = parser.parse_args(argv).quick
    n_null, n_signal = (20, 10) if quick else (N_NULL, N_SIGNAL)
    check(10_000)
    null = [values(seed, 0.0) for seed in range(n_null)]
    signal = [values(seed, EFFECT) for seed in range(10_000, 10_000 + n_signal)]
    columns = {
        name: [np.array([one[name] for one in many]) for many in (null, signal)] for name in ORDERS
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
