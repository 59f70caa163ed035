"""Networks learned in folds, from the packed voxels of all subjects.

Leaving subjects out is weighting them 0, and drawing one twice is weighting it 2, so nothing is
packed again. A fold keeps its parents and clusters (`Choice`) for the comparators, whose variables
are the parents' states, or one vote per cluster: the parent's and its equivalents' majority.
"""

from typing import NamedTuple

import numpy as np
from sklearn.model_selection import KFold

from voxprior.models.network.bits import pack, unpack
from voxprior.models.network.chance import permutation_null
from voxprior.models.network.greedy import GreedyPath, grow
from voxprior.models.network.joint import joint_probabilities
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

    def clusters(self) -> list[np.ndarray]:
        """Each parent, first, with its equivalents."""
        pairs = zip(self.parents, self.equivalents)
        return [np.append(parent, E).astype(np.intp) for parent, E in pairs]


def training_masks(n: int, n_folds: int | None) -> list[np.ndarray]:
    """Which subjects each fold trains on; None is leave-one-out."""
    splitter = KFold(n_folds or n, shuffle=n_folds is not None, random_state=0 if n_folds else None)
    masks = []
    for _, test in splitter.split(np.zeros((n, 1))):
        masks.append(np.ones(n, dtype=bool))
        masks[-1][test] = False
    return masks


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


def parent_states(words: np.ndarray, n: int, choice: Choice) -> np.ndarray:
    """The states (n, d) of the parents."""
    return unpack(words[choice.parents], n)


def cluster_votes(words: np.ndarray, n: int, choice: Choice) -> np.ndarray:
    """One vote (n, d) per cluster: the majority of a parent and its equivalents, ties to 0."""
    votes = [2 * unpack(words[c], n).sum(axis=1) > len(c) for c in choice.clusters()]
    return np.array(votes, dtype=np.uint8).reshape(-1, n).T


def probabilities(
    words: np.ndarray,
    y: np.ndarray,
    train: np.ndarray,
    choice: Choice,
    rules: Rules,
    soft: bool,
    joint: bool = False,
) -> np.ndarray:
    """P(class 1) of the subjects not in training; latent states and table are of the training.

    ``joint`` infers each of them together with the training subjects.
    """
    states = [unpack(words[members], len(y)) for members in choice.clusters()]
    if not states:
        return np.full(np.sum(~train), (y[train].sum() + 1) / (train.sum() + 2))
    new = [x[~train] for x in states]
    if joint:
        known = [x[train] for x in states]
        return joint_probabilities(known, new, y[train], 2, rules, soft, 0)[:, 1]
    # The clusters' training states become a small data set of their own.
    small = pack(np.hstack(states)[train])
    begins = np.cumsum([0, *(x.shape[1] for x in states)])
    where = [np.arange(b + 1, e) for b, e in zip(begins[:-1], begins[1:])]
    empty = np.empty(0)
    path = GreedyPath(begins[:-1], empty, empty, empty, empty, where)
    n = int(train.sum())
    latent, biases, weights = latent_states(small, n, path, rules, np.random.default_rng(0))
    cells = class_table(latent, y[train], 2, rules.alpha, rules.table)
    odds = latent_log_odds(biases, weights, new, int(np.sum(~train)))
    return class_probabilities(odds, *cells, soft)[:, 1]
