"""One map per participant and class: what a group of participants is tested by.

Trials of one participant are not independent, so a group is tested by what each shows: the mean
over the trials of each class. Of two classes their difference is a contrast map, tested against
zero by flipping signs; of more, labels are exchanged within participants.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxprior.errors import InputError
from voxprior.mapping.maptest import map_test
from voxprior.mapping.verdict import MapTest

__all__ = ["class_means", "group_map_test"]


def class_means(X: NDArray, y: NDArray, groups: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Average the scans of each participant and class: means (m, V), their classes and groups.

    A participant who lacks a class is left out.

    >>> class_means(np.arange(4.0)[:, None], np.array([0, 1, 0, 0]), np.array([7, 7, 7, 8]))
    (array([[1.], [1.]]), array([0, 1]), array([7, 7]))
    """
    classes = np.unique(y)
    whole = [g for g in np.unique(groups) if len(np.unique(y[groups == g])) == len(classes)]
    pairs = [(g, c) for g in whole for c in classes]
    means = [np.mean(X[(groups == g) & (y == c)], axis=0, dtype=float) for g, c in pairs]
    named = [np.array([pair[k] for pair in pairs]) for k in (1, 0)]
    return np.array(means).reshape(len(pairs), X.shape[1]), named[0], named[1]


def group_map_test(X: Any, y: Any, groups: Any, **options: Any) -> MapTest:
    """Test over participants where classes differ, each participant counting once.

    Parameters
    ----------
    X : array of shape (n, V)
        Scans of all participants, without what differs between their runs.
    y, groups : arrays of shape (n,)
        Class and participant of each scan.
    **options
        As in `voxprior.mapping.map_test`.

    Examples
    --------
    >>> y, people = np.tile([0, 0, 1, 1], 8), np.repeat(range(8), 4)
    >>> X = np.random.default_rng(0).normal(size=(32, 20))
    >>> X[:, 3] += 3.0 * y
    >>> np.flatnonzero(group_map_test(X, y, people).significant)
    array([3])
    """
    X, y, groups = np.asarray(X), np.asarray(y), np.asarray(groups)
    means, classes, people = class_means(X, y, groups)
    if len(np.unique(people)) < 2:
        raise InputError(
            "A group map needs participants who each have all classes",
            expected="2 or more",
            got=str(len(np.unique(people))),
        )
    labels = np.unique(classes)
    if len(labels) > 2:
        return map_test(means, classes, people, **options)
    contrast = means[classes == labels[1]] - means[classes == labels[0]]
    found = map_test(contrast, None, **options)
    differ = f"the mean difference of {labels[1]} and {labels[0]} over participants is not zero"
    return found._replace(
        contrast=f"positive where {labels[1]} is above {labels[0]}",
        hypothesis=found.hypothesis.replace("the mean of the maps is not zero", differ),
    )
