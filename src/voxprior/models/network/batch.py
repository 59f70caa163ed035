"""Inverse-tree networks of many labellings at once, for permutation tests.

Voxels are cut and packed for many labellings by one pass over the data (`relabelled`), or once for
all where labels do not matter to the cut. Whether the first parent of a network is better than
chance depends on the labels only through the number of scans of each class, because these are
permuted freely: the permutations are drawn once for all labellings of the same numbers. Further
parents, which few meaningless labellings have, are tested as in a single fit. Probabilities are
those of the table, without doubt.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils.validation import validate_data

from voxprior.algebra import floored_log
from voxprior.models.base import ManyLabellings, class_values
from voxprior.models.network.bits import above, class_cuts, learn_cut, n_words
from voxprior.models.network.chance import null_gains
from voxprior.models.network.relabelled import cut_and_pack, cut_and_pack_many
from voxprior.models.network.tree import (
    InverseTree,
    class_probabilities,
    latent_log_odds,
    learn_tree,
)

# Bytes that the packed voxels of some labellings may take.
MOST_BYTES = 1 << 28


class Prepared(NamedTuple):
    """All scans (n, V), and the chance distribution of the first parent's gain, once known.

    That is by the bytes of the training scans' numbers, and by the number of scans of each class.
    """

    X: np.ndarray
    nulls: dict[bytes, dict[tuple[int, ...], np.ndarray]]


class OneOfMany(NamedTuple):
    """The network of one labelling, with the voxels of each cluster and their cuts."""

    tree: InverseTree
    clusters: list[np.ndarray]
    cuts: list[np.ndarray]


class ManyTrees(NamedTuple):
    """Networks of one training set, for every labelling."""

    X: np.ndarray  # (n, V), all scans
    labellings: list[OneOfMany]
    soft: bool

    def decision_function(self, rows: np.ndarray) -> np.ndarray:
        """Log-odds (m, B) for two classes, log-probabilities (m, B, C) for more."""
        X = self.X[rows]
        log_p = np.stack([self._log_probabilities(X, one) for one in self.labellings], axis=1)
        return class_values(log_p)

    def _log_probabilities(self, X: np.ndarray, one: OneOfMany) -> np.ndarray:
        tree = one.tree
        states = [
            above(X[:, members], cut, slice(None)) for members, cut in zip(one.clusters, one.cuts)
        ]
        odds = latent_log_odds(tree.biases, tree.weights, states, len(X))
        cells = (tree.configurations, tree.table, tree.unseen)
        return floored_log(class_probabilities(odds, *cells, self.soft))


class TreesInBatch(ManyLabellings):
    """What `InverseTreeClassifier` offers to permutation tests."""

    fit_many_words: ClassVar[str] = (
        "an inverse-tree network, whose first parent is held against the same chance in all "
        "relabellings, by its own probabilities"
    )
    labels_at_once: ClassVar[int] = 32

    def prepare(self: Any, X: Any) -> Prepared:
        """Scans (n, n_features), checked; `fit_many` fits parts of them."""
        self._validate_params()
        return Prepared(validate_data(self, X, dtype=self._scan_dtype), {})

    def _can_fit_many(self: Any) -> bool:
        return self.new_samples != "joint" or self.latent is None

    def _fit_many(
        self: Any, prepared: Prepared, rows: np.ndarray, Y: np.ndarray, n_classes: int
    ) -> ManyTrees:
        """Fit many labellings of the same scans, each without doubt.

        With ``select="gain"`` or ``"jackknife"`` each is what ``fit`` gives with ``doubt=None``;
        with ``"permutation"`` the first parents of all labellings are tested against the same
        permutations.
        """
        X, nulls = prepared.X[rows], prepared.nulls.setdefault(rows.tobytes(), {})
        rules = self._rules()._replace(tells_chance=False)
        cut = learn_cut(X, Y[:, 0], n_classes, self.cut)
        by_labels = len(cut) > 1 and self.cut != "median"
        binarize = (lambda labels: cut_and_pack_many(X, labels, n_classes)) if by_labels else None
        labellings = []
        for y, words in _packed(X, Y, n_classes, None if by_labels else cut):
            first = None
            if rules.select == "permutation":
                counts = tuple(np.bincount(y, minlength=n_classes).tolist())
                if counts not in nulls:
                    like = np.repeat(np.arange(n_classes), counts)
                    chance = (rules.alpha, rules.n_permutations, self._rng(), binarize)
                    nulls[counts] = null_gains(words, like, n_classes, [], *chance)
                first = nulls[counts]
            tree = learn_tree(words, y, n_classes, rules, self._rng(), binarize, first)
            clusters = [
                np.append(p, E).astype(np.intp) for p, E in zip(tree.parents, tree.equivalents)
            ]
            cuts = [
                class_cuts(X[:, members], y[None], n_classes)[0]
                if by_labels
                else cut[members if len(cut) > 1 else slice(None)]
                for members in clusters
            ]
            labellings.append(OneOfMany(tree, clusters, cuts))
        return ManyTrees(prepared.X, labellings, self.state == "soft")


def _packed(
    X: np.ndarray, Y: np.ndarray, n_classes: int, cut: np.ndarray | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Every labelling with its packed voxels (V, W); ``cut`` is None where labels decide it."""
    labels = np.ascontiguousarray(Y.T)
    if cut is not None:
        words = cut_and_pack(X, cut)
        yield from ((y, words) for y in labels)
        return
    some = max(MOST_BYTES // (8 * X.shape[1] * n_words(len(X))), 1)
    for first in range(0, len(labels), some):
        part = labels[first : first + some]
        packed = np.concatenate(list(cut_and_pack_many(X, part, n_classes)), axis=1)
        yield from zip(part, packed)
