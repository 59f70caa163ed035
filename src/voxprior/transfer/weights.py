"""Which levels are trusted, and how far: leave one subject out, then ask the new subject itself.

For each other subject o all levels are learned from the remaining m − 1, and L_l(o) is the mean
log-loss of level l on the episodes of o. A level is admitted where it helps the others on average:

    calibration          mean_o [L_calibration(o) − L_base(o)] < 0, else the base decides alone
    geometry, readout    mean_o [L_l(o) − L_calibration(o)] < 0

The new subject can only weigh an admitted level l down, by what its own scans say:

    u_l = exp(min(0, E, J_l − J_calibration))                                                (1)

    E     t V (ℓ(Ḡ) − ℓ(H)), the evidence of its class means for the others' geometry
    J_l   (1 − 1/C) times the log-probabilities of its own scans, one run left out at a time

Calibration keeps 1 − max u, all are divided by their sum, and probabilities are the weighted
geometric mean of the levels.

| symbol | variable | shape |
|---|---|---|
| L | `left_out[level]` | (m,) |
| u, and what remains | `weights[level]` | scalars |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from voxprior.algebra import log_softmax_rows
from voxprior.transfer.episodes import Episode, Traits
from voxprior.transfer.levels import (
    Lesson,
    Rules,
    evidence_for_shape,
    learn,
    log_probabilities,
    scaled,
)

Array = NDArray[np.float64]

LEVELS = ("base", "calibration", "geometry", "readout")
GUARDED = ("geometry", "readout")


def left_out_losses(
    episodes: Sequence[Sequence[Episode]], subjects: Sequence[Traits], rules: Rules
) -> dict[str, Array]:
    """Mean log-loss (m,) of each level on each subject, learned from the others."""
    m = len(episodes)
    losses: dict[str, Array] = {level: np.full(m, np.nan) for level in LEVELS}
    for o in range(m if m > 1 else 0):
        rest = [i for i in range(m) if i != o]
        lesson = learn([episodes[i] for i in rest], [subjects[i] for i in rest], rules)
        for level, hits in _hits(episodes[o], lesson).items():
            losses[level][o] = -hits.mean()
    return losses


def _hits(episodes: Sequence[Episode], lesson: Lesson) -> dict[str, Array]:
    """Log-probability of the true class of each test scan of a subject, by level."""
    found: dict[str, list[Array]] = {level: [] for level in LEVELS}
    for one in episodes:
        for level, log_p in log_probabilities(one, lesson).items():
            found[level].append(log_p[np.arange(len(one.y)), one.y])
    return {level: np.concatenate(parts) for level, parts in found.items()}


def admitted(losses: Mapping[str, Array], from_base: bool) -> tuple[str, ...]:
    """Levels that helped the others; with one other nothing but calibration can be tried."""
    if np.isnan(losses["base"]).all():
        return ("calibration",)
    if not (losses["calibration"] - losses["base"]).mean() < 0:
        return ()
    tried = ("readout",) if from_base else GUARDED
    better = [one for one in tried if (losses[one] - losses["calibration"]).mean() < 0]
    return ("calibration", *better)


def own_evidence(episode: Episode, lesson: Lesson) -> float:
    """E of (1): nats that the subject's own class means give for the others' geometry."""
    known = scaled(episode, lesson.units)
    per_voxel = evidence_for_shape(known, lesson.shape, lesson.trust)
    return float(lesson.temperature * known.n_voxels * per_voxel)


def own_fit(episodes: Sequence[Episode], lesson: Lesson) -> dict[str, float]:
    """J of (1): how well each level predicts the subject's own scans, a run left out at a time."""
    C = len(episodes[0].Q)
    return {
        level: float((1 - 1 / C) * hits.sum()) for level, hits in _hits(episodes, lesson).items()
    }


def level_weights(
    levels: Sequence[str], evidence: float, fits: Mapping[str, float] | None
) -> dict[str, float]:
    """Weights of the levels; the base has all the weight where nothing was admitted.

    >>> level_weights(("calibration", "geometry"), evidence=0.5, fits=None)["geometry"]
    1.0
    """
    weights = dict.fromkeys(LEVELS, 0.0)
    if not levels:
        return weights | {"base": 1.0}
    for one in (level for level in levels if level in GUARDED):
        gain = 0.0 if fits is None else fits[one] - fits["calibration"]
        weights[one] = float(np.exp(min(0.0, evidence, gain)))
    weights["calibration"] = 1 - max(weights[one] for one in GUARDED)
    total = sum(weights.values())
    return {level: weight / total for level, weight in weights.items()}


def pooled(log_p: Mapping[str, Array], weights: Mapping[str, float]) -> Array:
    """Logarithm of the normalised geometric mean of probabilities (scans, C)."""
    used = [level for level, weight in weights.items() if weight > 0]
    return log_softmax_rows(sum(weights[level] * log_p[level] for level in used))
