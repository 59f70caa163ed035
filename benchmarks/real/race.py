"""The race: every decoder on every draw of every task, scored on the scans that were not drawn."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from benchmarks.real.decoders import FAMILIES, MOST_SCANS, SLOW, STOCK
from benchmarks.real.tasks import Scans, Task
from voxprior import ScanPreparation
from voxprior.decision.base import offer_groups

# Probabilities below this count as this: a decoder that is sure and wrong is not infinitely wrong.
LEAST = 1e-6
# Stock decoders that are also given scans as we prepare them.
PREPARED, OURS = ("logistic", "LDA"), " + our preparation"
# Slow families run on the first draw of these.
SLOW_TASKS = (
    "finger, n = 4",
    "haxby-pairs, n = 4",
    "slice, n = 4",
    "digits, n = 20",
    "cohort, n = 30",
)


def race(tasks: Iterable[Task], keep: Path | None = None) -> pd.DataFrame:
    """One row per task, draw and decoder: accuracy, log-loss and seconds.

    Finished tasks are kept in a file, if one is named, and not run again.
    """
    found = (
        []
        if keep is None or not keep.exists()
        else [pd.read_csv(keep, dtype={"n": str}, keep_default_na=False)]
    )
    known = {name for part in found for name in part["task"]}
    for task in tasks:
        if task.name in known:
            continue
        found.append(_run(task))
        print(f"{task.name}: {found[-1]['seconds'].sum():.0f} s", flush=True)
        if keep is not None:
            pd.concat(found).to_csv(keep, index=False, float_format="%.5g")
    return pd.concat(found, ignore_index=True)


def _run(task: Task) -> pd.DataFrame:
    known = {
        "task": task.name,
        "data": task.data,
        "n": task.n,
        "half": task.half,
        "null": task.null,
    }
    return pd.DataFrame(
        {**known, "draw": draw, **row}
        for draw, (scans, train, test) in enumerate(task.make())
        for row in _draw(task, draw, scans, train, test)
    )


def _draw(task: Task, draw: int, scans: Scans, train: np.ndarray, test: np.ndarray) -> list[dict]:
    plain = _parts(scans, train, test)
    ours = _prepared(plain)
    rows = []
    for name, make in (FAMILIES | STOCK).items():
        if name in SLOW and (task.name not in SLOW_TASKS or draw > 0):
            continue
        if len(train) > MOST_SCANS.get(name, np.inf):
            continue
        entered = {name: ours} if name in FAMILIES else {name: plain}
        if name in PREPARED:
            entered[name + OURS] = ours
        found = {}
        for label, parts in entered.items():
            same = label != name and parts is plain  # nothing to prepare in this draw
            found[label] = found[name] if same else _scored(make, *parts)
        rows += [{"decoder": label, **one} for label, one in found.items() if one is not None]
    return rows


def _parts(scans: Scans, train: np.ndarray, test: np.ndarray) -> tuple[Scans, Scans]:
    def take(rows: np.ndarray) -> Scans:
        groups = None if scans.groups is None else scans.groups[rows]
        return replace(scans, X=scans.X[rows], y=scans.y[rows], groups=groups)

    return take(train), take(test)


def _prepared(parts: tuple[Scans, Scans]) -> tuple[Scans, Scans]:
    """What `voxprior.Decoder` does to scans by itself; the same parts where that is nothing."""
    learn, ask = parts
    preparation = ScanPreparation()
    X = preparation.fit_transform(learn.X, learn.y, learn.groups)
    if preparation.scale_ == "none" and preparation.standardize_ == "none":
        return parts
    return replace(learn, X=X), replace(ask, X=preparation.transform(ask.X, ask.groups))


def _scored(make: Callable[[Scans], Any], learn: Scans, ask: Scans) -> dict | None:
    model = make(learn)
    if model is None:
        return None
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        try:
            p = _probabilities(model, learn, ask)
        except ValueError:  # too few scans for this decoder
            return None
    seconds = time.perf_counter() - start
    classes = np.unique(learn.y)
    right = np.searchsorted(classes, ask.y)
    told = np.clip(p[np.arange(len(p)), right], LEAST, 1)
    return {
        "accuracy": float(np.mean(p.argmax(axis=1) == right)),
        "log_loss": float(-np.log(told).mean()),
        "seconds": seconds,
    }


def _probabilities(model: Any, learn: Scans, ask: Scans) -> np.ndarray:
    model.fit(learn.X, learn.y, **offer_groups(model, learn.groups))
    p = model.predict_proba(ask.X)
    if not np.isfinite(p).all():
        raise ValueError("no probabilities")
    return p
