"""Random fields of many labellings at once, for permutation tests.

What labels do not change is computed once: the deviations of all voxels from their mean, and their
squares. The correlation of every voxel with every labelling is one matrix product of them,

    ρ̂²_jb = Σ_c S_cjb² / n_cb / Σ_i x̃_ij²,   S_cjb = Σ_{i in class c of labelling b} x̃_ij

Nodes are the best voxels of each labelling, and its fields are trained on them. The strength of the
fields is not chosen anew for every labelling, which would cost ten times the rest: unless it is
given, it is the default for data where nothing can be held out. Scores are not divided by a
temperature.

| symbol | variable | shape |
|---|---|---|
| x̃, deviations from the mean of the training scans | `deviation` | (k, V) |
| S, sums of them by labelling and class | `sums` | (B, C, V) |
| n, scans of each class | `counts` | (B, C) |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils.validation import validate_data

from voxprior.algebra import blas_threads_for
from voxprior.models.base import ManyLabellings, class_prior, class_values
from voxprior.models.fields.blocks import blocks_at
from voxprior.models.fields.field import Fields, class_scores
from voxprior.models.fields.nodes import Nodes, choose_nodes, rank_features
from voxprior.models.fields.threshold import class_offsets
from voxprior.models.fields.training import (
    PATH_RHO,
    UNTUNED_GAMMA,
    check_parameters,
    check_two_scans,
    choose_training,
    train_fields,
)

# Numbers that the scores of some labellings may take in memory.
MOST_SCORES = 1 << 24


class OneOfMany(NamedTuple):
    """The fields of one labelling."""

    nodes: Nodes
    fields: Fields
    shift: np.ndarray  # (C,) log prior less threshold


class ManyFields(NamedTuple):
    """Fields of one training set, for every labelling."""

    X: np.ndarray  # (n, V), all scans
    labellings: list[OneOfMany]
    normalize: bool

    def decision_function(self, rows: np.ndarray) -> np.ndarray:
        """Scores of other scans: (m, B) for two classes, (m, B, C) for more."""
        X = self.X[rows]
        scores = np.stack(
            [
                class_scores(one.nodes.take(X), one.fields, self.normalize) + one.shift
                for one in self.labellings
            ],
            axis=1,
        )
        return class_values(scores)


class FieldsInBatch(ManyLabellings):
    """What `RandomFieldClassifier` offers to permutation tests."""

    fit_many_words: ClassVar[str] = (
        "random fields whose nodes are chosen in every fold and relabelling, and their strength "
        "beforehand"
    )
    labels_at_once: ClassVar[int] = 16

    def prepare(self: Any, X: Any) -> np.ndarray:
        """Scans (n, n_features), checked; `fit_many` fits parts of them."""
        self._validate_params()
        check_parameters(vars(self))
        return validate_data(self, X, dtype=self._scan_dtype, ensure_min_samples=2)

    def _fit_many(
        self: Any, prepared: np.ndarray, rows: np.ndarray, Y: np.ndarray, n_classes: int
    ) -> ManyFields:
        """Fit many labellings of the same scans, with a strength that they do not choose.

        Each is what ``fit`` gives with ``temperature=1``, and ``gamma=10`` and ``compression=1``
        where these are "auto".
        """
        X, parameters = prepared[rows], _untuned(vars(self))
        labellings = [
            self._one_of_many(X, y, score, n_classes, parameters)
            for y, score in zip(Y.T, _scores(X, Y, n_classes, self.ranking))
        ]
        return ManyFields(prepared, labellings, self.normalize)

    def _one_of_many(self: Any, X, codes, score, n_classes: int, parameters: dict) -> OneOfMany:
        counts = np.bincount(codes, minlength=n_classes)
        check_two_scans(np.arange(n_classes), np.repeat(np.arange(n_classes), counts))
        prior = class_prior(self.priors, counts, positive=True)
        how = (self.nodes, self.n_nodes, self.min_score, self.standardize)
        nodes = choose_nodes(X, score, *how)
        Z = nodes.take(X)
        blocks = blocks_at(self.blocks, nodes.features, X.shape[1])
        fields = train_fields(Z, codes, choose_training(parameters, Z, codes, blocks))
        offsets = class_offsets(self.threshold, fields, Z, codes, prior, self.normalize)
        return OneOfMany(nodes, fields, np.log(prior) - offsets)


def _untuned(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters, with numbers where the strength would be chosen."""
    chosen = {"gamma": UNTUNED_GAMMA, "compression": PATH_RHO}
    return parameters | {name: v for name, v in chosen.items() if parameters[name] == "auto"}


def _scores(X: np.ndarray, Y: np.ndarray, n_classes: int, ranking: str) -> Iterator[np.ndarray]:
    """Score (V,) of every voxel, labelling by labelling."""
    if ranking != "correlation":
        yield from (rank_features(X, y, ranking) for y in Y.T)
        return
    some = max(MOST_SCORES // (X.shape[1] * n_classes), 1)
    for first in range(0, Y.shape[1], some):
        yield from many_correlations(X, Y[:, first : first + some], n_classes)


def many_correlations(X: np.ndarray, Y: np.ndarray, n_classes: int) -> np.ndarray:
    """|ρ̂| of every voxel with every labelling, (B, V); 0 for constant voxels.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1.0], [2], [3], [2], [4], [6]])
    >>> many_correlations(x, np.array([[0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1]]).T, 2).round(6)
    array([[0.612372],
           [0.204124]])
    """
    deviation = np.asarray(X, dtype=float)
    deviation = deviation - deviation.mean(axis=0)
    deviation[:, (X[0] == X).all(axis=0)] = 0.0
    total = np.einsum("ij,ij->j", deviation, deviation)
    members = (Y.T[:, None, :] == np.arange(n_classes)[:, None]).astype(float)
    with blas_threads_for(len(X)):
        sums = np.tensordot(members, deviation, axes=1)
    counts = np.maximum(members.sum(axis=2), 1.0)
    between = np.einsum("bcj,bc->bj", sums**2, 1.0 / counts)
    share = np.divide(between, total, out=np.zeros_like(between), where=total > 0)
    return np.sqrt(share)
