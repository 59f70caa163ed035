"""One map per participant and class: what a group of participants is tested by.

Trials of one participant are not independent, so a group is tested by what each shows: the mean
over the trials of each class. Of two classes their difference is a contrast map, tested against
zero by flipping signs; of more, labels are exchanged within participants. Another map per
participant is how well its neighbourhoods decode, minus chance, with signs flipped as well.

Reference: C. Allefeld, K. Görgen, J.-D. Haynes, "Valid population inference for information-based
imaging", NeuroImage 141, 2016: a mean above chance may come from few participants.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxprior.errors import InputError
from voxprior.mapping.maptest import map_test
from voxprior.mapping.searchlight import searchlight
from voxprior.mapping.verdict import MapTest
from voxprior.space import VoxelSpace

__all__ = ["accuracy_map", "class_means", "group_accuracy_test", "group_map_test"]


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


def accuracy_map(
    X: Any, y: Any, groups: Any, space: VoxelSpace, radius: float, **options: Any
) -> NDArray:
    """How much better than chance the voxels around each voxel decode held-out runs, (V,).

    Accuracy where classes are equally frequent, else the area under the ROC curve, whose chance is
    a half whatever the frequencies. Options are those of `searchlight`.

    >>> y, runs = np.tile([0, 1], 16), np.repeat(range(8), 4)
    >>> X = np.random.default_rng(0).normal(size=(32, 20))
    >>> X[:, 5] += 5.0 * y
    >>> accuracy_map(X, y, runs, VoxelSpace.grid((20,), np.eye(4)), 1.0)[4:7].round(2)
    array([0.5, 0.5, 0.5])
    """
    counts = np.unique(np.asarray(y), return_counts=True)[1]
    even = counts.min() == counts.max()
    options = {"score": "accuracy" if even else "auc", "n_permutations": 1} | options
    found = searchlight(X, y, groups, space, radius=radius, **options)
    return found.score - (1 / len(counts) if even else 0.5)


def group_accuracy_test(maps: Any, **options: Any) -> MapTest:
    """Test maps of `accuracy_map`, one per participant (m, V), against zero by flipping signs.

    Options are those of `voxprior.mapping.map_test`.
    """
    found = map_test(maps, None, **options)
    above = "the mean decoding accuracy over participants is not that of chance"
    return found._replace(
        contrast="positive where decoding is above chance",
        hypothesis=found.hypothesis.replace("the mean of the maps is not zero", above).replace(
            "In this voxel", "Around this voxel"
        )
        + " A mean above chance may come from few participants.",
    )
