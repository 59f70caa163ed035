"""What a prior from others decided for a new subject, in sentences with their numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from voxprior.transfer.map_trust import SHARES
from voxprior.transfer.prior import GroupPrior
from voxprior.transfer.weights import GUARDED

MEANING = {"geometry": "how classes relate", "readout": "how scores are read"}


def decisions(
    prior: GroupPrior, size: int, n_scans: int, levels: Mapping[str, float], evidence: float
) -> list[str]:
    """One sentence per decision."""
    said = [_calibration(prior, size), *(_level(prior, size, one) for one in GUARDED)]
    if any(one in prior.levels[size] for one in GUARDED):
        said.append(
            f"The subject's own scans speak {'for' if evidence >= 0 else 'against'} the others' "
            f"geometry ({evidence:+.2f} nats); weights: "
            + ", ".join(f"{name} {weight:.2f}" for name, weight in levels.items() if weight > 0)
            + "."
        )
    if prior.maps is not None:
        said.append(_maps(prior, size, levels["maps"]))
    if n_scans == 1 and levels["base"] < 1:
        said.append(
            "With one scan per class it cannot be checked whether this subject is like the others: "
            "what they teach is taken from others on trust."
        )
    if size != n_scans:
        said.append(
            f"The others teach up to {max(prior.lessons)} scans per class; the lesson for {size} "
            f"serves this subject, who has {n_scans}."
        )
    return [one for one in said if one]


def _calibration(prior: GroupPrior, size: int) -> str:
    m, losses = len(prior.subjects), prior.left_out[size]
    if np.isnan(losses["base"]).all():
        return "One other subject teaches how sure to be; nothing more can be checked with one."
    base, own = losses["base"].mean(), losses["calibration"].mean()
    if not prior.levels[size]:
        return (
            f"Nothing is taken from the {m} others: calibrated by each other they have a mean "
            f"log-loss of {own:.3f}, by the base {base:.3f}."
        )
    return (
        f"How sure to be is learned from {m} others: with {size} per class, each left out in turn, "
        f"their mean log-loss falls from {base:.3f} (base) to {own:.3f}."
    )


def _level(prior: GroupPrior, size: int, level: str) -> str:
    losses = prior.left_out[size]
    if not prior.levels[size] or np.isnan(losses["base"]).all():
        return ""
    gain = losses[level].mean() - losses["calibration"].mean()
    verb = "is taken" if level in prior.levels[size] else "is not taken"
    word = MEANING[level][0].upper() + MEANING[level][1:]
    return f"{word} ({level}) {verb} from them: it changes their mean log-loss by {gain:+.3f}."


def _maps(prior: GroupPrior, size: int, share: float) -> str:
    lesson = prior.map_lessons[size]
    own, pooled = lesson.losses[0], lesson.losses[SHARES.index(lesson.share)]
    if lesson.share == 0:
        return f"Maps of the others are not used: own scans alone did best for them ({own:.3f})."
    if share == 0:
        return "Maps of the others are not used: this subject is in another space."
    return (
        f"Maps of the others, smoothed by {prior.maps.smoothing:g} voxels, have a share of "  # type: ignore[union-attr]
        f"{share:g}: they lower the others' mean log-loss from {own:.3f} to {pooled:.3f}."
    )
