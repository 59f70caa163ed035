"""What the score of the best of several models is worth: three figures, and the truth.

Eight models (nearest class mean, each on its own half of forty voxels, which overlap) are
cross-validated on the same runs, many data sets of each design:

* best: the highest of the eight scores, as it stands;
* bootstrap: `voxprior.validation.score_after_choice`, groups drawn out of finished predictions;
* nested: `voxprior.validation.score_after_nested_choice`, the choice made anew for every run;
* truth: the accuracy on new scans of the model with the highest score, trained on all runs.

Nested may be a little below the truth, as its folds train on all runs but one and choose on all but
two.

    python -m benchmarks.choice [--quick]        writes benchmarks/choice.md
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from voxprior.papers.tables import machine, save
from voxprior.validation import score_after_choice
from voxprior.validation.choice import nested_score

N_MODELS, N_VOXELS, N_NEW = 8, 40, 1000


class Design(NamedTuple):
    """Runs, scans of each, the effect in the voxels of the first model, and data sets."""

    n_runs: int
    n_scans: int
    effect: float
    n_data_sets: int


DESIGNS = {
    "nothing there, 6 runs of 4": Design(6, 4, 0.0, 400),
    "nothing there, 12 runs of 4": Design(12, 4, 0.0, 200),
    "one model better, much, 6 runs of 4": Design(6, 4, 0.55, 300),
    "one model better, little, 6 runs of 4": Design(6, 4, 0.3, 300),
}


def voxels_of_models() -> np.ndarray:
    """Which voxels each model has, (M, V)."""
    rng = np.random.default_rng(0)
    return np.array([rng.permutation(N_VOXELS) < N_VOXELS // 2 for _ in range(N_MODELS)])


def draw(design: Design, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Scans and labels; the signal is in voxels that the first model has and most do not."""
    members = voxels_of_models()
    own = members[0] & (members[1:].sum(axis=0) <= 3)
    y = np.tile([0, 1], n // 2)
    return rng.normal(size=(n, N_VOXELS)) + design.effect * np.outer(2 * y - 1, own), y


def guesses(X, y, new) -> np.ndarray:
    """Labels by the nearest class mean of each model, (M, n_new)."""
    means = np.array([X[y == c].mean(axis=0) for c in (0, 1)])
    odds = (new - means.mean(axis=0)) * (means[1] - means[0])
    return (voxels_of_models() @ odds.T > 0).astype(int)


class Held(NamedTuple):
    """As much of a Result as the bootstrap reads."""

    predictions: pd.DataFrame
    score_names: list[str]


def measure(design: Design, seed: int) -> dict[str, float]:
    """The four figures of one data set."""
    rng, G = np.random.default_rng([seed, design.n_runs]), design.n_runs
    X, y = draw(design, G * design.n_scans, rng)
    run = np.repeat(np.arange(G), design.n_scans)
    predicted = np.empty((N_MODELS, len(y)), dtype=int)
    for g in range(G):
        predicted[:, run == g] = guesses(X[run != g], y[run != g], X[run == g])
    alone = np.array([(predicted == y)[:, run == g].mean(axis=1) for g in range(G)]).T
    without = np.full((N_MODELS, G, G), np.nan)
    for g, h in combinations(range(G), 2):
        kept = (run != g) & (run != h)
        for left_out, tested in ((g, h), (h, g)):
            part = run == tested
            right = guesses(X[kept], y[kept], X[part]) == y[part]
            without[:, left_out, tested] = right.mean(axis=1)
    tables = [pd.DataFrame({"y_true": y, "y_pred": p, "group": run}) for p in predicted]
    results = {f"{m}": Held(table, ["accuracy"]) for m, table in enumerate(tables)}
    fresh, truth = draw(design, N_NEW, rng)
    best = int((predicted == y).mean(axis=1).argmax())
    return {
        "best": float((predicted == y).mean(axis=1).max()),
        "bootstrap": float(score_after_choice(results) or np.nan),  # type: ignore[arg-type]
        "nested": nested_score(alone, without),
        "truth": float((guesses(X, y, fresh)[best] == truth).mean()),
    }


def row(name: str, design: Design, n: int) -> dict[str, object]:
    """Means over data sets, and the standard error of the nested score."""
    found = pd.DataFrame([measure(design, seed) for seed in range(n)])
    return {"design": name, "data sets": n, **found.mean().to_dict()} | {
        "s.e. of nested": found["nested"].std() / np.sqrt(n)
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description="Scores after a choice among models.")
    parser.add_argument("--quick", action="store_true", help="5 data sets per design")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".md"))
    arguments = parser.parse_args(argv)
    rows = [
        row(name, design, 5 if arguments.quick else design.n_data_sets)
        for name, design in DESIGNS.items()
    ]
    note = (
        "Accuracy of the best of eight models: as it stands, corrected by a bootstrap of finished "
        "predictions (before), corrected by a choice made anew for every run (now), and on new "
        f"scans. {machine('scipy')}."
    )
    save(arguments.out, "The score after choosing", {"Accuracy": rows}, note)


if __name__ == "__main__":
    main()
