"""How far prior maps can be trusted: their temperature and share, learned from the others.

Each other subject gets maps made without it. At every size of an episode

    t      minimises the log-loss of softmax(t S_maps) over the others' episodes
    s      in {0, ¼, ½, ¾, 1} minimises that of (1 − s) log p_own + s log p_maps

with p_own by the subject's own class means, calibrated by the others. s = 0 where maps disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voxprior.algebra import log_softmax_rows
from voxprior.space import VoxelSpace
from voxprior.transfer.episodes import Episode, Scans, Split, episodes_of, moments
from voxprior.transfer.levels import Lesson, best_temperature, log_probabilities
from voxprior.transfer.maps import GroupMaps, group_maps, map_scorer, smoothed_means, smoother

Array = NDArray[np.float64]

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
FEWEST_SUBJECTS = 3  # two are left when one is left out, and less than two do not make a group


@dataclass(frozen=True)
class MapLesson:
    """Temperature of the scores by maps, their share, and what the share was chosen by."""

    temperature: float
    share: float
    losses: list[float]  # of SHARES


def learn_maps(
    space: VoxelSpace | None,
    subjects: Sequence[Scans],
    lessons: Mapping[int, Lesson],
    episodes: Mapping[int, Sequence[Sequence[Episode]]],
    most: int,
) -> tuple[GroupMaps | None, dict[int, MapLesson]]:
    """Prior maps of subjects who share a space, and how far they can be trusted at every size."""
    if space is None or len(subjects) < FEWEST_SUBJECTS:
        return None, {}
    smooth = smoother(space)
    known = [moments(one, np.arange(len(one.X))) for one in subjects]
    smoothed = smoothed_means(known, smooth)
    without = []
    for o in range(len(subjects)):
        rest = [i for i in range(len(subjects)) if i != o]
        without.append(group_maps([known[i] for i in rest], [K[rest] for K in smoothed], smooth))
    learned = {}
    for size, lesson in lessons.items():
        splits = [episodes_of(one, size, most) for one in subjects]
        parts = [
            (_map_scores(*three), _own(own, lesson), np.concatenate([one.y for one in own]))
            for three, own in zip(zip(subjects, splits, without), episodes[size])
        ]
        learned[size] = _learn(parts)
    return group_maps(known, smoothed, smooth), learned


def _learn(parts: Sequence[tuple[Array, Array, NDArray[np.intp]]]) -> MapLesson:
    """Temperature and share from scores by maps, own log-probabilities and classes per subject."""
    S, own, y = (np.concatenate(part) for part in zip(*parts))
    weights = np.concatenate([np.full(len(p[2]), 1 / (len(parts) * len(p[2]))) for p in parts])
    t = best_temperature(S, y, weights)
    of_maps = log_softmax_rows(t * S)
    losses = [
        float(-weights @ log_softmax_rows((1 - s) * own + s * of_maps)[np.arange(len(y)), y])
        for s in SHARES
    ]
    return MapLesson(t, SHARES[int(np.argmin(losses))], losses)


def _map_scores(scans: Scans, splits: Sequence[Split], group: GroupMaps) -> Array:
    """Scores by maps of the test scans of all episodes of a subject, one below the other."""
    found = []
    for split in splits:
        known = moments(scans, split.train)
        found.append(map_scorer(group, known).scores(scans.X[split.test] - known.center))
    return np.concatenate(found)


def _own(episodes: Sequence[Episode], lesson: Lesson) -> Array:
    """Calibrated log-probabilities by the subject's own class means."""
    return np.concatenate([log_probabilities(one, lesson)["calibration"] for one in episodes])
