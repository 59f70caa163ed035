"""What preparation is worth on real data: betas centred by run, and faces at gains of their own.

    python -m benchmarks.preparation [--quick]    writes benchmarks/preparation.md

The data sets are those of `voxprior.papers.datasets`: finger movements at 7 T (betas of seven or
eight runs, five fingers each, four people), and faces of 40 people, frontal or turned by 30 degrees
to either side (-1, 0, 1), at 40 x 30 pixels.
"""

import argparse
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import r2_score
from threadpoolctl import threadpool_limits

from voxprior import GPRegressor, ScanPreparation, registry
from voxprior.decoder.one_class import ClassSpread
from voxprior.decoder.rows import TOLD_APART, told_apart
from voxprior.images import scaled_by_training
from voxprior.papers.datasets import finger7t, folder, standardize_by
from voxprior.papers.tables import machine, save
from voxprior.validation import cross_validate

MODELS = ("logistic", "gp", "sharing")
TURNED = {1: 0.0, 2: 0.0, 3: 1.0, 4: -1.0}  # pictures of a person by their kind
GAIN = 0.4  # standard deviation of the logarithm of the gains


def by_run(X: np.ndarray, run: np.ndarray) -> np.ndarray:
    """Betas minus the mean of their run."""
    return ScanPreparation("none", "group").fit_transform(X, groups=run)


def fingers(models: Sequence[str], people: Sequence[int]) -> list[dict[str, Any]]:
    """Every preparation with every model, one run held out at a time."""
    rows = []
    for name in (
        "training scans",
        "run, mean and deviation",
        "run, mean (group)",
        "group, then training scans",
    ):
        row: dict[str, Any] = {"standardised by": name}
        for model in models:
            scores = []
            for person in people:
                X, y, run, *_ = finger7t(person)
                estimator = registry.model(model).make()
                estimator = scaled_by_training(estimator) if "training" in name else estimator
                X = standardize_by(X, run) if "deviation" in name else X
                X = by_run(X, run) if "group" in name else X
                found = cross_validate(estimator, X, y, run, audited=()).pooled()
                scores.append([found["accuracy"], found["log_loss"]])
            row[model] = "{:.3f} / {:.3f}".format(*np.mean(scores, axis=0))
        rows.append(row)
    return rows


def held_out(model: str, people: Sequence[int]) -> Iterator[tuple]:
    """Every run held out: the fitted model, the mean of its betas, and the new run."""
    for person in people:
        X, y, run, *_ = finger7t(person)
        for new in np.unique(run):
            train = run != new
            preparation = ScanPreparation("none", "group")
            Z = preparation.fit_transform(X[train], groups=run[train])
            yield registry.model(model).make().fit(Z, y[train]), preparation, X[~train], y[~train]


def few_new_scans(people: Sequence[int], repeats: int) -> list[dict[str, Any]]:
    """Some scans of a new run, centred by their own mean or by that of training."""
    rng = np.random.default_rng(0)
    right: dict[tuple[int, str], list[float]] = {}
    for model, preparation, X, y in held_out("logistic", people):
        for n in (2, 3, 4, 5):
            for _ in range(repeats):
                some = rng.permutation(len(y))[:n]
                for name, groups in (("own", ["new"] * n), ("training", None)):
                    answer = model.predict(preparation.transform(X[some], groups))
                    right.setdefault((n, name), []).append(float(np.mean(answer == y[some])))
    means = {key: round(float(np.mean(values)), 3) for key, values in right.items()}
    return [
        {"new scans of a run": n, "centred by own mean": means[n, "own"],
         "by training mean": means[n, "training"]}
        for n in (2, 3, 4, 5)
    ]  # fmt: skip


def one_class(models: Sequence[str], people: Sequence[int]) -> list[dict[str, Any]]:
    """How often runs are warned about: by the scans alone, and by the probabilities of models."""
    rows = [{"by": "scans and class means, whatever the model"} | _spread_shares(people)]
    for name in models:
        mixed = [told_apart(m.predict_proba(p.transform(X, ["new"] * len(X))))
                 for m, p, X, _ in held_out(name, people)]  # fmt: skip
        single = []
        for person in people:
            X, y, run, *_ = finger7t(person)
            Z, test = by_run(X, run), run <= np.median(run)
            model = registry.model(name).make().fit(Z[~test], y[~test])
            for finger in np.unique(y):
                part = Z[test & (y == finger)]
                single.append(told_apart(model.predict_proba(part - part.mean(axis=0))))
        told = {"runs of five fingers": mixed, "runs of one finger": single}
        shares = {kind: f"{np.mean(np.array(v) < TOLD_APART):.0%}" for kind, v in told.items()}
        rows.append({"by": f"probabilities of {name}"} | shares)
    return rows


def _spread_shares(people: Sequence[int]) -> dict[str, str]:
    """Shares of runs that spread along the class means as one class does."""
    mixed, single = [], []
    for person in people:
        X, y, run, *_ = finger7t(person)
        Z = by_run(X, run)
        for new in np.unique(run):
            train = run != new
            known = ClassSpread.of(Z[train], y[train], run[train])
            mixed.append(known is not None and known.is_one_class(Z[~train]))
        test = run <= np.median(run)
        known = ClassSpread.of(Z[~test], y[~test], run[~test])
        for finger in np.unique(y):
            part = Z[test & (y == finger)]
            single.append(known is not None and known.is_one_class(part - part.mean(axis=0)))
    told = {"runs of five fingers": mixed, "runs of one finger": single}
    return {kind: f"{np.mean(found):.0%} of {len(found)}" for kind, found in told.items()}


def faces(sizes: Sequence[int], repeats: int) -> list[dict[str, Any]]:
    """How faces are turned, from pictures at gains of their own: R² of a Gaussian process."""
    X, y, person = _pictures()
    rng = np.random.default_rng(0)
    X *= np.exp(rng.normal(0, GAIN, size=(len(X), 1)))
    rows = []
    for n in sizes:
        row: dict[str, Any] = {"people to learn from": n}
        for name, scale in (("as they are", "none"), ("divided by their means (auto)", "auto")):
            Z = ScanPreparation(scale, "none").fit_transform(X)
            scores = []
            for seed in range(repeats):
                chosen = np.random.default_rng(seed).permutation(np.unique(person))[:n]
                train = np.isin(person, chosen)
                model = scaled_by_training(GPRegressor()).fit(Z[train], y[train])
                scores.append(r2_score(y[~train], model.predict(Z[~train])))
            row[name] = round(float(np.mean(scores)), 3)
        rows.append(row)
    return rows


def _pictures() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    from PIL import Image

    root = folder("imm_faces")
    paths = [path for path in sorted(root.glob("*.jpg")) if int(path.stem[3]) in TURNED]
    X = [
        np.asarray(Image.open(path).convert("L").resize((40, 30)), float).ravel() for path in paths
    ]
    turned = [TURNED[int(path.stem[3])] for path in paths]
    return np.array(X), np.array(turned), np.array([path.stem[:2] for path in paths])


def main(argv: Sequence[str] | None = None) -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description="What preparation is worth on real data.")
    parser.add_argument("--quick", action="store_true", help="one person, nothing written")
    quick = parser.parse_args(argv).quick
    people, models, repeats = ([1], MODELS[:1], 1) if quick else ([1, 2, 3, 4], MODELS, 8)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scans without a group, which is what is measured
        sections = {
            "Betas of finger movements, accuracy / log-loss": fingers(models, people),
            "Few scans of a new run, logistic regression, accuracy": few_new_scans(people, repeats),
            "New runs that are warned about": one_class(models, people),
            "Pictures of faces at random gains, R²": faces((5, 10, 20)[: len(people)], repeats),
        }
    path = None if quick else Path(__file__).with_suffix(".md")
    save(path, "Preparation", sections, f"Gains are exp(N(0, {GAIN}²)). {machine()}.")


if __name__ == "__main__":
    main()
