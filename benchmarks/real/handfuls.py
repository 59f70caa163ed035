"""Handfuls of scans: sharing without coordinates on fingers, and the network's gated confidence.

Fingers: betas of motor cortex, five fingers, two runs to learn from, 12 draws per subject, as they
are and centred by run; FeatureSharingNB and logistic regression get the same draws. Network: 216
voxels of white noise, with and without an effect of 1.5 in 20 of them, 12 draws.

    python -m benchmarks.real.handfuls        prints what docs/families quote
"""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression

from voxprior import FeatureSharingNB, InverseTreeClassifier
from voxprior.papers.datasets import folder
from voxprior.papers.tables import markdown

N_DRAWS, N_TEST, N_VOXELS = 12, 40, 216


def scores(model, X, y, train, test) -> np.ndarray:
    """Accuracy and log-loss."""
    p = model.fit(X[train], y[train]).predict_proba(X[test])
    code = np.searchsorted(model.classes_, y[test])
    told = np.clip(p[np.arange(len(code)), code], 1e-15, 1)
    return np.array([np.mean(p.argmax(axis=1) == code), -np.log(told).mean()])


def fingers(subject: str, centered: bool) -> dict[str, np.ndarray]:
    with np.load(folder("finger7t") / "finger7t_subjects1-4.npz") as file:
        X, y, run = (file[name + subject] for name in ("X", "finger", "run"))
    X, runs = X.astype(float), np.unique(run)
    for r in runs if centered else []:
        X[run == r] -= X[run == r].mean(axis=0)
    rng, found = np.random.default_rng(int(subject)), {"sharing": [], "logistic": []}
    for _ in range(N_DRAWS):
        train = np.isin(run, rng.choice(runs, 2, replace=False))
        for name, model in (
            ("sharing", FeatureSharingNB()),
            ("logistic", LogisticRegression(max_iter=2000)),
        ):
            found[name].append(scores(model, X, y, train, ~train))
    return {name: np.mean(rows, axis=0) for name, rows in found.items()}


def network(n: int, effect: float, doubt: str | None) -> float:
    """Mean log-loss with n scans per class."""
    losses = []
    for seed in range(N_DRAWS):
        y = np.arange(2 * n + N_TEST) % 2
        X = np.random.default_rng(seed).normal(size=(len(y), N_VOXELS))
        X[:, :20] += effect * y[:, None]
        train = np.arange(len(y)) < 2 * n
        losses.append(scores(InverseTreeClassifier(doubt=doubt), X, y, train, ~train)[1])
    return float(np.mean(losses))


def main() -> None:
    rows = []
    for centered in (True, False):
        told = [fingers(subject, centered) for subject in "1234"]
        for name in told[0]:
            row = {"betas": "centred by run" if centered else "as they are", "model": name}
            rows.append(row | {f"subject {i}": "{:.3f} / {:.2f}".format(*one[name])
                               for i, one in enumerate(told, 1)})  # fmt: skip
    print(markdown(rows))
    print(markdown([
        {"effect": effect, "n": n, "table": network(n, effect, None),
         "gated": network(n, effect, "gated")}
        for effect in (0.0, 1.5) for n in (2, 5, 10)
    ]))  # fmt: skip


if __name__ == "__main__":
    main()
