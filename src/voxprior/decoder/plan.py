"""Plan: what a decoding would test and how long it would take, before the first fit of all scans.

Nothing is written. The scans are read, the folds made and the audit is done as `Decoder.decode`
does them. Times come from fits of growing parts of one training set, one after the other:

    seconds(n) ≈ seconds(m) · (n / m)^b,     b from the last two parts, 1 to 3

A permutation test in batch is timed too, with few relabellings of two folds of such a part.
"""

from __future__ import annotations

import resource
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import joblib
import numpy as np
from sklearn.base import is_classifier

from voxprior.blocks import BlockedScans, blocked, memory_limit
from voxprior.blocks.memory import in_words
from voxprior.decoder.decoding import check_asked
from voxprior.decoder.experiment import Experiment
from voxprior.decoder.facts import setting, subject
from voxprior.decoder.others import curve_decoders
from voxprior.decoder.preparation import prepared
from voxprior.decoder.reading import atlas_of
from voxprior.decoder.stock import MOST_SECONDS, seconds_of
from voxprior.models.growth import time_in_words
from voxprior.validation.audit import Audit, audit
from voxprior.validation.folds import (
    check_data,
    describe,
    fit_fold,
    make_folds,
    refuse_what_memory_cannot_hold,
)
from voxprior.validation.learning import usable_sizes
from voxprior.validation.permutation import Exchange, permutation_test, planned_exchange
from voxprior.validation.run import run_tasks

if TYPE_CHECKING:
    from voxprior.decoder.decoder import Decoder

# Seconds that trial fits may take in all; below the second number times do not show growth.
TRIALS, SHORT = 5.0, 0.02
# Scans per class of the first trial fit.
FIRST = 4
# Relabellings of two trial tests, whose difference is the time of each.
FEW_LABELS = (2, 12)
# Copies of the scans that a fit may hold in addition to them, and the seconds that a report takes.
COPIES, REPORT = 3, 4.0
# Bytes that a report and libraries take in addition to the scans.
BESIDE = 1e8
# A learning curve, as `voxprior.validation.learning_curve` draws it by default.
CURVE: dict[str, Any] = {"n_repeats": 10, "pool": 0.5, "draw": "sample", "random_state": 0}


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """What `Decoder.decode` would do, see `Decoder.plan`.

    Attributes
    ----------
    title : str
        The question.
    setting : str
        Scans, groups, voxels and mask, split and model, on one line.
    class_counts : dict of str to int
        Scans of each class; empty for numbers.
    left_out : tuple of str
        One line for each scan left out, with the reason.
    decisions : list of str
        How images were read where nobody asked, and why.
    audit : Audit
        Findings and checks. Findings that would stop the decoding are among them.
    permutation : Exchange or None
        How labels would be exchanged, and the smallest p that this could give.
    seconds : dict of str to float, or None
        Estimate for each part; None where no part of the scans could be fitted.
    memory : int
        Estimated bytes of the process, and of its workers.
    """

    title: str
    setting: str
    class_counts: dict[str, int]
    left_out: tuple[str, ...]
    decisions: list[str]
    audit: Audit
    permutation: Exchange | None
    seconds: dict[str, float] | None
    memory: int

    def summary(self) -> dict[str, Any]:
        """Return the plan in JSON's types."""
        return {
            "title": self.title,
            "setting": self.setting,
            "class_counts": self.class_counts,
            "left_out": list(self.left_out),
            "decisions": self.decisions,
            "findings": [finding.to_dict() for finding in self.audit],
            "checks": [check.to_dict() for check in self.audit.checks],
            "permutation": None if self.permutation is None else self.permutation._asdict(),
            "estimated_seconds": self.seconds,
            "estimated_bytes": self.memory,
        }

    def __repr__(self) -> str:
        return "\n".join([f"{self.title}: a plan, nothing was written", *self._lines()])

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(line)}</li>" for line in self._lines())
        return f"<div><p>{escape(self.title)}: a plan</p><ul>{items}</ul></div>"

    def _lines(self) -> list[str]:
        counts = [f"{label} {n}" for label, n in self.class_counts.items()]
        left = len(self.left_out)
        return [
            self.setting,
            *([f"Scans per class: {', '.join(counts)}."] if counts else []),
            *([f"Left out: {left}, the first: {self.left_out[0]}."] if left else []),
            *self.decisions,
            self._found(),
            *([] if self.permutation is None else [self._exchange(self.permutation)]),
            self._effort(),
        ]

    def _found(self) -> str:
        told = ", ".join(dict.fromkeys(f"{f.name} ({f.severity})" for f in self.audit))
        return f"Audit: {told or 'nothing found'}."

    @staticmethod
    def _exchange(how: Exchange) -> str:
        return (
            f"Permutation test: {how.n} relabellings ({how.test}), {how.scheme}; smallest possible "
            f"p {how.smallest_p:.3g}."
        )

    def _effort(self) -> str:
        memory = f"about {in_words(self.memory)} of memory"
        if self.seconds is None:
            return f"Estimate: {memory}; no part of the scans could be fitted to estimate the time."
        long = {name: s for name, s in self.seconds.items() if s >= 1.5}
        parts = "; ".join(f"{name} {time_in_words(s)}" for name, s in long.items())
        total = time_in_words(sum(self.seconds.values()))
        return f"Estimate, from fits of some of the scans: {total} ({parts}) and {memory}."


def plan(
    decoder: Decoder,
    known: Experiment,
    *,
    permutations: int = 0,
    test: str = "auto",
    curve: bool = False,
    stock: bool | None = None,
    title: str | None = None,
    positive: Any = None,
    prevalence: float | None = None,
    atlas: Any = None,
    atlas_labels: Any = None,
) -> Plan:
    """Plan a decoding: parameters are those of `voxprior.decoder.decoding.decode`."""
    data = known.data
    check_asked(data, curve, positive, prevalence)
    atlas_of(data, atlas, atlas_labels)
    model, rows = prepared(decoder.estimator, data)
    X = blocked(rows)
    y, groups, classes = check_data(model, X, data.y, data.groups)
    folds, split = make_folds(model, X, y, groups, known.cv)
    refuse_what_memory_cannot_hold(model, X, folds)
    found = audit(model, X, y, groups, folds, **data.known(), allow=known.allow)
    exchange = None
    if permutations:
        options: dict[str, Any] = {"test": test, "n_permutations": permutations}
        options["blocks"] = data.blocks
        exchange = planned_exchange(model, X, y, groups, known.cv, folds, **options)
    described = describe(model, X, y, groups, classes) | {"n_folds": len(folds)}
    growth = _growth(model, X, y, groups, folds)
    seconds = None
    if growth is not None:
        seconds = _seconds(growth, folds, len(y), known.running["n_jobs"])
        seconds |= _stock_seconds(described, stock)
        seconds |= _curve_seconds(decoder, known, growth) if curve else {}
        if exchange is not None:
            scans = (model, X, y, groups)
            seconds |= _exchange_seconds(exchange, scans, folds, growth, seconds["testing"])
    return Plan(
        title or subject(data),
        setting(decoder.estimator, data, split["split"]),
        described["class_counts"],
        data.dropped,
        list(data.decisions),
        found,
        exchange,
        seconds,
        _memory(X, _workers(known.running["n_jobs"], len(folds))),
    )


# ---------------------------------------------------------------- how long, and how much memory


class Growth(NamedTuple):
    """Seconds of a fit of m scans, and the power with which they grow."""

    rows: np.ndarray
    seconds: float
    power: float

    def of(self, n: float) -> float:
        """Seconds of a fit of n scans."""
        return self.seconds * (n / len(self.rows)) ** self.power


def _growth(model: Any, X: Any, y: np.ndarray, groups: Any, folds: list) -> Growth | None:
    """Time fits of growing parts of the largest training set; None where none of them works."""
    train, test = max(folds, key=lambda fold: len(fold[0]))
    order = train[_every_class_in_turn(y[train]) if is_classifier(model) else slice(None)]
    classes = np.unique(y) if is_classifier(model) else np.array([])
    timed: list[tuple[np.ndarray, float]] = []
    size, spent = FIRST * max(2, len(classes)), 0.0
    while not timed or (size < 2 * len(order) and spent + 8 * timed[-1][1] < TRIALS):
        rows = np.sort(order[:size])
        if not timed:  # what has to be compiled is compiled
            _trial(model, X, y, groups, (rows, test), classes)
        took = _trial(model, X, y, groups, (rows, test), classes)
        if took is None and size >= len(order):
            return None
        if took is not None:
            timed.append((rows, took))
            spent += took
        size *= 2
    return _fitted_power(timed)


def _fitted_power(timed: list[tuple[np.ndarray, float]]) -> Growth:
    (fewer, before), (rows, last) = timed[-2:] if len(timed) > 1 else timed * 2
    grown = len(rows) / len(fewer)
    power = np.log(last / before) / np.log(grown) if grown > 1 and before > SHORT else 1.0
    return Growth(rows, last, float(np.clip(power, 1.0, 3.0)))


def _every_class_in_turn(y: np.ndarray) -> np.ndarray:
    """Order of scans in which every beginning has about as many of each class."""
    place = np.empty(len(y), dtype=int)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        place[rows] = np.arange(len(rows))
    return np.argsort(place, kind="stable")


def _trial(
    model: Any, X: Any, y: np.ndarray, groups: Any, fold: tuple, classes: np.ndarray
) -> float | None:
    """Seconds of a fold; None where the model cannot be fitted to so few scans."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            shared: tuple = (model, X, y, groups, {}, classes, False)
            (done,) = run_tasks(fit_fold, [fold], shared, n_jobs=1).values
        except MemoryError:
            raise
        except Exception:  # each model raises a different error when something is missing
            return None
    return done.fit_seconds + done.predict_seconds


def _workers(n_jobs: int, n_tasks: int) -> int:
    return max(1, min(joblib.effective_n_jobs(n_jobs), joblib.cpu_count(), n_tasks))


def _seconds(growth: Growth, folds: list, n: int, n_jobs: int) -> dict[str, float]:
    fits = sum(growth.of(len(train)) for train, _ in folds)
    testing = fits / _workers(n_jobs, len(folds))
    return {"testing": testing, "fitting on all scans": growth.of(n), "report": REPORT}


def _stock_seconds(described: Mapping[str, Any], stock: bool | None) -> dict[str, float]:
    seconds = seconds_of(described)
    left_out = stock is False or (stock is None and seconds > MOST_SECONDS)
    return {} if left_out else {"stock decoders": seconds}


def _curve_seconds(decoder: Decoder, known: Experiment, growth: Growth) -> dict[str, float]:
    y, groups = np.asarray(known.data.y), known.data.groups
    decoders, options = curve_decoders(decoder.estimator, known.data, decoder.random_state)
    options = CURVE | options
    drawn = {name: options[name] for name in CURVE}
    sizes = options.get("sizes") or usable_sizes(y, groups, drawn)
    fits = options["n_repeats"] * len(decoders)
    seconds = fits * sum(growth.of(size * len(np.unique(y))) for size in sizes)
    return {"learning curve": seconds / _workers(known.running["n_jobs"], fits * len(sizes))}


def _exchange_seconds(
    how: Exchange, scans: tuple, folds: list, growth: Growth, testing: float
) -> dict[str, float]:
    """Seconds of a permutation test; empty where a part of the scans has no such test."""
    if how.test == "refit":
        return {"permutation test, if it does not stop early": how.n * testing}
    model, X, y, groups = scans
    rows = growth.rows
    parts = [tuple(np.flatnonzero(np.isin(rows, side)) for side in fold) for fold in folds]
    parts = [part for part in parts if all(map(len, part))][:2]
    share = len(folds) / max(1, len(parts))
    larger = max(len(train) for train, _ in folds) / max([1, *(len(p[0]) for p in parts)])
    given = (model, X[rows], y[rows], None if groups is None else groups[rows], parts)
    took = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for n in (1, *FEW_LABELS):  # what has to be compiled is compiled by the first
                began = perf_counter()
                permutation_test(*given, test=how.test, n_permutations=n, audited=())
                took.append(perf_counter() - began)
        except ValueError:
            return {}
    each = max(0.0, took[2] - took[1]) / (FEW_LABELS[1] - FEW_LABELS[0])
    seconds = share * larger**growth.power * (took[1] + how.n * each)
    return {"permutation test": seconds}


def _memory(X: Any, n_workers: int) -> int:
    """Peak memory of this process, and copies of the scans for every fit at a time."""
    unit = 1 if sys.platform == "darwin" else 1024
    so_far = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    size = int(np.prod(X.shape)) * np.dtype(X.dtype).itemsize
    copies = memory_limit() if isinstance(X, BlockedScans) else COPIES * size
    return int(so_far + BESIDE + n_workers * copies)
