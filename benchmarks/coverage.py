"""How often nominal 95 % intervals of a cross-validated score hold the score they are meant for.

Many data sets of one design are drawn from a population; each is cross-validated and gets its
intervals. The score to hold is the mean over the data sets' estimates: that is the expected score
of a decoder trained on as many scans as the folds train on, for new scans of the same population.
With a single test set it is the score of that very decoder on new scans.

    coverage = share of the D data sets whose interval holds it,   standard error √(c(1-c)/D)

The designs differ in what could matter: scans, groups, classes, voxels, effect from chance to
ceiling, likeness of scans within a group, unequal groups and classes, split, decoder. They were
written down after the intervals were made, on other designs. One, classes 4 to 1, then fell short
and showed that rare classes train with more weight; two more of unequal classes were added to judge
that correction.

    python -m benchmarks.coverage [--quick]        writes benchmarks/coverage.md
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold

from voxprior.papers.tables import machine, save
from voxprior.validation import (
    FewShotSplit,
    Interval,
    Jackknife,
    LeaveOneGroupOut,
    LeaveOnePerClassOut,
    MonteCarloLeaveOnePerClassOut,
    Result,
    interval,
)
from voxprior.validation.folds import FoldOutcome, build_result
from voxprior.validation.intervals import bootstrap_variation, difference_interval, limits
from voxprior.validation.run import Outcome

N_DATA_SETS = 400  # standard error 1.5 points at a coverage of 90 %
N_DRAWS = 200
N_NEW = 200  # groups that judge the decoder of a single test set
N_LOSS = 200  # of log-loss, whose intervals are made twice
N_CEILING = 2500  # where next to no data set has the two errors that an interval needs
LOSS_TITLE = "Log-loss, as in version 0.1 and now"
CLASS_SCORES = ("accuracy", "balanced_accuracy", "log_loss", "brier", "auc")


class Design(NamedTuple):
    """A population, how it is sampled, split and decoded."""

    split: Any
    scans: Sequence[int]  # of each group, taken in turn; of single scans (1,)
    n_groups: int
    n_voxels: int
    effect: float  # distance of each class mean from the common mean, in noise deviations
    likeness: float = 0.0  # deviation of a group's own pattern, in the same unit
    n_classes: int = 2
    mixed: bool = True  # every group holds every class; or one class per group
    shares: tuple[int, ...] = (1,)  # how often each class comes, relative to the others
    decoder: str = "means"


class OneTestSet:
    """Train on the first half of the groups and test on the second, once."""

    def split(self, X, y, groups=None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the one pair of indices."""
        groups = np.arange(len(y)) if groups is None else groups
        yield (
            np.flatnonzero(groups <= groups.max() // 2),
            np.flatnonzero(groups > groups.max() // 2),
        )


def folds(k: int) -> StratifiedKFold:
    """K stratified folds."""
    return StratifiedKFold(k, shuffle=True, random_state=0)


RUNS, ONE = LeaveOneGroupOut(), (1,)
DESIGNS: dict[str, Design] = {
    "6 runs of 16 scans": Design(RUNS, (16,), 6, 70, 1.5, 0.35),
    "5 runs of 20": Design(RUNS, (20,), 5, 15, 1.1, 0.3),
    "11 runs of 5 to 15, 5 classes": Design(RUNS, (5, 10, 15), 11, 30, 2.2, 0.25, 5),
    "9 runs, near chance": Design(RUNS, (8,), 9, 40, 0.1, 0.3),
    "12 runs, near ceiling": Design(RUNS, (8,), 12, 25, 3.4, 0.25),
    "8 runs unlike each other": Design(RUNS, (18,), 8, 30, 2.0, 0.9),
    "36 subjects of 1 to 4 scans": Design(RUNS, (1, 3, 4), 36, 15, 1.4, 0.9, mixed=False),
    "25 subjects, 5 folds": Design(GroupKFold(5), (2,), 25, 20, 1.8, 0.7, mixed=False),
    "10 subjects, two-out": Design(LeaveOnePerClassOut(), (3,), 10, 30, 2.0, 0.7, mixed=False),
    "18 subjects, 2 runs of two-out": Design(
        MonteCarloLeaveOnePerClassOut(2), (2,), 18, 25, 1.6, 0.5, mixed=False
    ),
    "72 scans, 4 classes, 8 folds": Design(
        folds(8), ONE, 72, 10, 1.6, n_classes=4, decoder="discriminant"
    ),
    "120 scans, classes 4 to 1, 6 folds": Design(folds(6), ONE, 120, 25, 1.5, shares=(4, 1)),
    "110 scans, classes 5 to 1, 5 folds": Design(folds(5), ONE, 110, 15, 1.8, shares=(5, 1)),
    "10 runs, classes 3 to 2 to 1": Design(RUNS, (12,), 10, 30, 1.8, 0.3, 3, shares=(3, 2, 1)),
    "100 scans of 500 voxels, 5 folds": Design(folds(5), ONE, 100, 500, 2.2),
    "64 scans, 2 per class train": Design(FewShotSplit(2, 20), ONE, 64, 15, 2.0),
    "36 scans, 5 per class, 4 repeats": Design(FewShotSplit(5, 4), ONE, 36, 25, 1.8),
    "12 runs, 3 train": Design(FewShotSplit(3, 10, draw="group"), (4,), 12, 60, 1.8, 0.3),
    "14 runs, half train": Design(FewShotSplit(None, 12), (10,), 14, 30, 1.3, 0.35),
    "80 scans, one test set": Design(OneTestSet(), ONE, 80, 12, 1.4),
    "30 runs, one test set": Design(OneTestSet(), (3,), 30, 30, 2.0, 0.5),
    "regression: 20 groups of 1 to 5": Design(RUNS, (1, 3, 5), 20, 15, 1.0, 0.6, decoder="ridge"),
    "regression: 100 scans, 5 folds": Design(KFold(5), ONE, 100, 50, 1.0, decoder="ridge"),
    "regression: 44 scans, jackknife": Design(Jackknife(), ONE, 44, 12, 1.2, decoder="ridge"),
    "regression: near chance": Design(KFold(5), ONE, 75, 20, 0.15, decoder="ridge"),
    "regression: near ceiling": Design(KFold(5), ONE, 55, 8, 5.0, decoder="ridge"),
    "regression: 50 scans of 250 voxels": Design(KFold(5), ONE, 50, 250, 2.5, decoder="ridge"),
    "regression: random quarters test": Design(
        ShuffleSplit(20, test_size=0.25, random_state=0), ONE, 60, 15, 1.0, decoder="ridge"
    ),
    "regression: random halves": Design(
        ShuffleSplit(10, test_size=0.5, random_state=0), ONE, 56, 30, 1.4, decoder="ridge"
    ),
}
# Decoders that are too sure, and ceilings: log-loss varies through single scans.
LOSS_DESIGNS: dict[str, Design] = {
    "20 subjects 14:4:2, single scans, undamped": Design(
        folds(2), ONE, 20, 20, 1.5, n_classes=3, shares=(7, 2, 1), decoder="undamped"
    ),
    "20 subjects 14:4:2, 2 scans, discriminant": Design(
        RUNS, (2,), 20, 20, 1.5, 0.5, 3, mixed=False, shares=(7, 2, 1), decoder="discriminant"
    ),
    "5 runs of 8, undamped": Design(RUNS, (8,), 5, 20, 1.5, 0.3, decoder="undamped"),
    "5 runs of 20, discriminant": Design(RUNS, (20,), 5, 15, 1.1, 0.3, decoder="discriminant"),
    "6 runs of 16, discriminant": Design(RUNS, (16,), 6, 70, 1.5, 0.35, decoder="discriminant"),
    "7 runs of 16, 4 classes, discriminant": Design(
        RUNS, (16,), 7, 25, 1.6, 0.3, 4, decoder="discriminant"
    ),
    "24 subjects 3:1, undamped": Design(
        folds(6), ONE, 24, 15, 1.6, shares=(3, 1), decoder="undamped"
    ),
    "63 scans 6:2:1, discriminant": Design(
        folds(7), ONE, 63, 20, 1.6, n_classes=3, shares=(6, 2, 1), decoder="discriminant"
    ),
    "5 runs of 6, damped": Design(RUNS, (6,), 5, 20, 1.4, 0.3),
    "10 runs near ceiling, discriminant": Design(
        RUNS, (8,), 10, 15, 3.6, 0.25, decoder="discriminant"
    ),
    "10 runs, large effect, discriminant": Design(
        RUNS, (8,), 10, 15, 2.4, 0.25, decoder="discriminant"
    ),
    "40 scans near ceiling, undamped": Design(folds(5), ONE, 40, 15, 3.6, decoder="undamped"),
    "40 scans, large effect, undamped": Design(folds(5), ONE, 40, 15, 2.4, decoder="undamped"),
}
NEXT_TO_NO_ERRORS = ("40 scans near ceiling, undamped",)
# Two decoders on the same folds; how much the first scores above the second.
PAIRS: dict[str, tuple[Design, str]] = {
    "40 scans, 2 per class train": (Design(FewShotSplit(2, 10), ONE, 40, 20, 2.0), "discriminant"),
    "60 scans, 8 per class train": (Design(FewShotSplit(8, 10), ONE, 60, 12, 1.5), "discriminant"),
    "10 runs, 2 per class train": (
        Design(FewShotSplit(2, 10), (8,), 10, 30, 1.8, 0.3),
        "discriminant",
    ),
    "9 runs, leave one out": (Design(RUNS, (10,), 9, 20, 1.4, 0.3), "discriminant"),
    "60 scans, 2 per class, against chance": (
        Design(FewShotSplit(2, 10), ONE, 60, 30, 2.5),
        "shuffled",
    ),
}


# --- populations ------------------------------------------------------------------------------


def draw(design: Design, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One data set: scans (n, V), classes (n,), groups (n,)."""
    C, V, G = design.n_classes, design.n_voxels, design.n_groups
    sizes = np.resize(design.scans, G)
    group = np.repeat(np.arange(G), sizes)
    cycle = np.repeat(np.arange(C), np.resize(design.shares, C))
    if design.mixed and max(design.scans) > 1:
        y = np.concatenate([np.resize(cycle, size) for size in sizes])
    else:
        y = np.resize(cycle, G)[group]
    means = design.effect * np.eye(C, V)
    own = design.likeness * rng.normal(size=(G, C, V))
    return means[y] + own[group, y] + rng.normal(size=(len(y), V)), y, group


def draw_targets(design: Design, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """The same for regression: the target is a sum of all voxels, noise, and the group's own."""
    group = np.repeat(np.arange(design.n_groups), np.resize(design.scans, design.n_groups))
    X = rng.normal(size=(len(group), design.n_voxels))
    own = design.likeness * rng.normal(size=design.n_groups)[group]
    signal = design.effect * X.sum(axis=1) / np.sqrt(design.n_voxels)
    return X, signal + own + rng.normal(size=len(group)), group


# --- decoders, cheap enough for thousands of data sets ----------------------------------------


def nearest_mean(X, y, new, C) -> np.ndarray:
    """Log-odds of the nearest class mean, damped for many voxels."""
    means = np.array([X[y == c].mean(axis=0) for c in range(C)])
    noise = ((X - means[y]) ** 2).mean() * len(X) / max(len(X) - C, 1)
    return (new @ means.T - 0.5 * (means**2).sum(axis=1)) / (noise * np.sqrt(X.shape[1]))


def undamped(X, y, new, C) -> np.ndarray:
    """Log-odds of the nearest class mean as if voxels were independent: far too sure."""
    return nearest_mean(X, y, new, C) * np.sqrt(X.shape[1])


def discriminant(X, y, new, C) -> np.ndarray:
    """Log-odds of linear discriminant analysis, its covariance shrunk by a quarter."""
    means = np.array([X[y == c].mean(axis=0) for c in range(C)])
    S = (X - means[y]).T @ (X - means[y]) / max(len(X) - C, 1)
    S = 0.75 * S + 0.25 * np.trace(S) / len(S) * np.eye(len(S))
    W = np.linalg.solve(S, means.T)
    return new @ W - 0.5 * (means * W.T).sum(axis=1)


def shuffled(X, y, new, C) -> np.ndarray:
    """Nearest means of classes that mean nothing: a decoder at chance."""
    return nearest_mean(X, np.resize(np.sort(y), len(y))[np.argsort(X[:, -1])], new, C)


def ridge(X, y, new) -> np.ndarray:
    """Ridge regression, its penalty chosen by leave-one-out inside the training scans."""
    centre, mean, n = X.mean(axis=0), y.mean(), len(y)
    U, s, Vt = np.linalg.svd(X - centre, full_matrices=False)
    z = U.T @ (y - mean)
    penalties = np.logspace(-1, 4, 11)
    keep = s**2 / (s**2 + penalties[:, None])
    residual = (y - mean) - (keep * z) @ U.T
    leverage = keep @ (U**2).T + 1 / n
    best = penalties[((residual / (1 - leverage)) ** 2).mean(axis=1).argmin()]
    return (new - centre) @ (Vt.T @ (s / (s**2 + best) * z)) + mean


DECODERS: dict[str, Callable] = {
    "means": nearest_mean,
    "undamped": undamped,
    "discriminant": discriminant,
    "shuffled": shuffled,
}


# --- coverage ---------------------------------------------------------------------------------


def sample(design: Design, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """One data set of the design."""
    return (draw_targets if design.decoder == "ridge" else draw)(design, rng)


def predict(design: Design, X, y, new) -> tuple[np.ndarray, np.ndarray | None, str]:
    """Predictions for new scans, and probabilities where there are classes."""
    if design.decoder == "ridge":
        return ridge(X, y, new), None, ""
    score = DECODERS[design.decoder](X, y, new, design.n_classes)
    p = np.exp(score - score.max(axis=1, keepdims=True))
    return score.argmax(axis=1), p / p.sum(axis=1, keepdims=True), "p"


def validate(design: Design, data: tuple[np.ndarray, ...], split) -> Result:
    """Cross-validate one data set."""
    X, y, group = data
    groups = group if max(design.scans) > 1 else None
    outcomes = [
        FoldOutcome(test, len(train), *predict(design, X[train], y[train], X[test]), 0.0, 0.0, None)
        for train, test in split.split(X, y, groups)
    ]
    classes = np.array([]) if design.decoder == "ridge" else np.arange(design.n_classes)
    return build_result(Outcome(list(range(len(outcomes))), outcomes, True), y, groups, classes, {})


def decode(design: Design, seed: tuple[int, ...]) -> tuple[Result, dict[str, float] | None]:
    """A data set's result and, for a single test set, its decoder's scores on new groups."""
    rng = np.random.default_rng(seed)
    data = sample(design, rng)
    result = validate(design, data, design.split)
    if not isinstance(design.split, OneTestSet):
        return result, None
    train, _ = next(design.split.split(*data))
    X, y, group = sample(design._replace(n_groups=N_NEW), rng)
    whole = [np.concatenate([old[train], new]) for old, new in zip(data, (X, y, group))]
    judged = [(np.arange(len(train)), np.arange(len(train), len(whole[1])))]
    fresh = validate(design, tuple(whole), GivenFolds(judged))
    return result, fresh.pooled()


class GivenFolds(NamedTuple):
    """Folds that are known."""

    pairs: list

    def split(self, X, y, groups=None) -> list:
        """Return them."""
        return self.pairs


def coverage(design: Design, n_data_sets: int = N_DATA_SETS, seed: int = 1) -> dict[str, dict]:
    """By score: expected value, share of intervals that hold it, their mean width."""
    scores = ("r2", "mae") if design.decoder == "ridge" else CLASS_SCORES
    decoded = [decode(design, (seed, number)) for number in range(n_data_sets)]
    return {score: held(score, decoded) for score in scores}


def held(
    score: str, decoded: Sequence[tuple[Result, dict | None]], of: Callable = interval
) -> dict[str, Any]:
    """How many of the results' intervals hold what they are meant for."""
    found = [of(result, score, n_draws=N_DRAWS) for result, _ in decoded]
    mean = np.mean([f.estimate for f in found])
    return counted(found, [mean if fresh is None else fresh[score] for _, fresh in decoded])


def loss_coverage(design: Design, n_data_sets: int = N_DATA_SETS, seed: int = 1) -> dict[str, dict]:
    """Log-loss: intervals by (3) of `voxprior.validation.intervals`, as they were, and by (5)."""
    decoded = [decode(design, (seed, number)) for number in range(n_data_sets)]
    return {
        "before": held("log_loss", decoded, on_the_log_scale),
        "now": held("log_loss", decoded),
        "errors": {"mean": float(np.mean([errors(result) for result, _ in decoded]))},
    }


def loss_data_sets(name: str) -> int:
    """Data sets of a design: many more where few of them have an interval."""
    return N_CEILING if name in NEXT_TO_NO_ERRORS else N_LOSS


def on_the_log_scale(result: Result, score: str, n_draws: int) -> Interval:
    """The interval of log-loss of version 0.1."""
    found = bootstrap_variation(result, score, n_draws, 0)
    return Interval(score, found.estimate, *limits(found, score, np.nan, 0.95), 0.95, "before", "")


def errors(result: Result) -> int:
    """Wrong predictions."""
    return int((result.predictions["y_true"] != result.predictions["y_pred"]).sum())


def paired_coverage(
    design: Design, other: str, n_data_sets: int = N_DATA_SETS, seed: int = 1
) -> dict[str, dict]:
    """The same for the difference of two decoders."""
    pairs = [
        [
            decode(design._replace(decoder=name), (seed, number))[0]
            for name in (design.decoder, other)
        ]
        for number in range(n_data_sets)
    ]
    rows = {}
    for score in CLASS_SCORES:
        found = [difference_interval(*pair, score, n_draws=N_DRAWS) for pair in pairs]
        rows[score] = counted(found, [np.mean([f.estimate for f in found])] * len(found))
    return rows


def counted(found: Sequence[Interval], target: Sequence[float]) -> dict[str, Any]:
    """Expected score, coverage of the targets, mean width, and the share that has an interval."""
    estimate, low, high = np.array([(f.estimate, f.low, f.high) for f in found]).T
    mean, told = estimate.mean(), np.isfinite(low)
    return {
        "expected": float(mean),
        "coverage": float(((low <= target) & (target <= high))[told].mean()) if any(told) else None,
        "width": float((high - low)[told].mean()) if any(told) else None,
        "told": float(told.mean()),
        "intervals": int(told.sum()),
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description="Coverage of nominal 95 % intervals.")
    parser.add_argument("--quick", action="store_true", help="10 data sets per design")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".md"))
    arguments = parser.parse_args(argv)
    n = 10 if arguments.quick else N_DATA_SETS
    found = {name: coverage(design, n) for name, design in DESIGNS.items()}
    paired = {name: paired_coverage(*pair, n) for name, pair in PAIRS.items()}
    classes = {name: design for name, design in DESIGNS.items() if design.decoder != "ridge"}
    losses = {
        name: loss_coverage(design, n if n < N_LOSS else loss_data_sets(name))
        for name, design in (classes | LOSS_DESIGNS).items()
    }
    tables = {
        "Classification": rows_of(found, [s for s in CLASS_SCORES if s != "log_loss"]),
        "Regression": rows_of(found, ("r2", "mae")),
        "Differences of two decoders": rows_of(paired, CLASS_SCORES),
        LOSS_TITLE: loss_rows(losses),
    }
    note = (
        f"Share (%) of {n} data sets whose nominal 95 % interval holds the expected score, by "
        "score; *expected* and *width* (its mean) are those of the first score. Standard error of "
        f"a share of 90 %: {100 * np.sqrt(0.09 / n):.1f} points. Log-loss: {min(n, N_LOSS)} data "
        f"sets ({N_CEILING:,} of {' and '.join(NEXT_TO_NO_ERRORS)}), of which those that have an "
        f"interval, two wrong scans or more; *intervals* counts them. {machine('scipy')}."
    )
    save(arguments.out, "Coverage of intervals", tables, note)


def rows_of(found: dict[str, dict[str, dict]], scores: Sequence[str]) -> list[dict[str, object]]:
    """One row per design that has the scores, and the range of each column."""
    kept = {name: row for name, row in found.items() if scores[0] in row}
    rows: list[dict[str, object]] = [
        {"design": name, "expected": row[scores[0]]["expected"]}
        | {score: percent(row[score]["coverage"]) for score in scores}
        | {"width": row[scores[0]]["width"]}
        for name, row in kept.items()
    ]
    shares = {score: [row[score]["coverage"] for row in kept.values()] for score in scores}
    ends = {s: f"**{100 * min(c):.1f} to {100 * max(c):.1f}**" for s, c in shares.items()}
    return [*rows, {"design": "**all**", "expected": None} | ends | {"width": None}]


def loss_rows(found: dict[str, dict[str, dict]]) -> list[dict[str, object]]:
    """One row per design: coverage and width of log-loss intervals before and now."""
    return [
        {
            "design": name,
            "log_loss": row["now"]["expected"],
            "errors": row["errors"]["mean"],
            "before": percent(row["before"]["coverage"]),
            "width before": row["before"]["width"],
            "now": percent(row["now"]["coverage"]),
            "width now": row["now"]["width"],
            "has an interval": percent(row["now"]["told"]),
            "intervals": row["now"]["intervals"],
        }
        for name, row in found.items()
    ]


def percent(share: float | None) -> str | None:
    """A share in percent, or None."""
    return None if share is None else f"{100 * share:.1f}"


if __name__ == "__main__":
    main()
