"""Networks learned in folds, from the packed voxels of all subjects.

Leaving subjects out is weighting them 0, so nothing is packed again. A fold keeps its parents and
clusters (`Choice`) for the comparators, which get the parents' states as their variables.
"""

from typing import NamedTuple

import numpy as np

from voxprior.models.network.bits import pack, unpack
from voxprior.models.network.greedy import GreedyPath, grow
from voxprior.models.network.stability import permutation_null
from voxprior.models.network.tree import (
    Rules,
    class_probabilities,
    class_table,
    equivalence_of,
    latent_log_odds,
    latent_states,
)


class Choice(NamedTuple):
    """Selected parents and the voxels equivalent to each."""

    parents: np.ndarray
    equivalents: list[np.ndarray]


def choose(words: np.ndarray, y: np.ndarray, train: np.ndarray, rules: Rules) -> Choice:
    """Parents and clusters from the training subjects (n,) bool."""
    weights = train.astype(np.int64)
    alike = equivalence_of(words, rules, weights)
    removal = alike if rules.timing == "during" else None
    path = grow(words, y, 2, rules.alpha, rules.max_parents, removal, weights)
    d = len(path.parents)
    if rules.select == "permutation" and d:
        null = permutation_null(
            words, y, 2, path.parents.tolist(), path.scores, rules.alpha, rules.n_permutations,
            np.random.default_rng(0), rules.level, used=train,
        )  # fmt: skip
        d = max(int(np.sum(null.p_value <= rules.level)), 1)
    if path.equivalents is not None:
        return Choice(path.parents[:d], path.equivalents[:d])
    others = np.ones(len(words), dtype=bool)
    others[path.parents] = False
    clusters = [np.flatnonzero(alike(int(p)) & others) for p in path.parents[:d]]
    return Choice(path.parents[:d], clusters)


def probabilities(
    words: np.ndarray, y: np.ndarray, train: np.ndarray, choice: Choice, rules: Rules, soft: bool
) -> np.ndarray:
    """P(class 1) of the subjects not in training; latent states and table are of the training."""
    clusters = [np.append(p, E).astype(np.intp) for p, E in zip(choice.parents, choice.equivalents)]
    states = [unpack(words[members], len(y)) for members in clusters]
    if not states:
        return np.full(np.sum(~train), (y[train].sum() + 1) / (train.sum() + 2))
    # The clusters' training states become a small data set of their own.
    small = pack(np.hstack(states)[train])
    begins = np.cumsum([0, *map(len, clusters)])
    where = [np.arange(b + 1, e) for b, e in zip(begins[:-1], begins[1:])]
    empty = np.empty(0)
    path = GreedyPath(begins[:-1], empty, empty, empty, empty, where)
    n = int(train.sum())
    latent, biases, weights = latent_states(small, n, path, rules, np.random.default_rng(0))
    cells = class_table(latent, y[train], 2, rules.alpha, rules.table)
    odds = latent_log_odds(biases, weights, [x[~train] for x in states], int(np.sum(~train)))
    return class_probabilities(odds, *cells, soft)[:, 1]
