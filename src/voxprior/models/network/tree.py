r"""The inverse tree from packed voxels: parents, clusters, latent states, and the class table.

Steps (the paper's Figure 5): greedy parents R_1 .. R_d of the class (`greedy`), validated
(`stability`); voxels equivalent to each (`equivalence`); a latent state L_i per cluster (`latent`);
the table of the class given L_1 .. L_d::

    (2)  laplace    θ_jk = (N_jk + 1) / (N_j + K)
    (3)  dirichlet  θ_jk = (N_jk + α) / (N_j + Kα)
         ml         θ_jk = N_jk / N_j

The paper calls (2) maximum likelihood and (3) maximum a posteriori; both are posterior means. A
configuration that training never met has θ = 1/K by (2) and (3), and the class frequencies under
``ml``, where it is undefined.

A new sample gets P(L_i = 1) from `latent`'s weights, or jointly with the training samples
(`joint`); ``hard`` takes the likelier state, ``soft``
averages the table::

    P(C = k) = Σ_j θ_jk ∏_i P(L_i = l_ij)

| symbol | variable | shape |
|---|---|---|
| R, parent voxels | `parents` | (d,) |
| E_i, voxels equivalent to each | `equivalents` | d index arrays |
| L, states of the training samples | `latent` | (n, d) |
| l_ij, the configurations that occur | `configurations` | (J, d) |
| θ | `table` | (J, K) |
| θ of every other configuration | `unseen` | (K,) |

Reference: Chen and Herskovits, KDD 2005, sections 3.1 and 3.2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from voxprior.models.network.bits import unpack
from voxprior.models.network.chance import Binarize, n_better_than_chance, permutation_null
from voxprior.models.network.equivalence import (
    belief_map,
    count_limit,
    equivalent,
    parent_evidence,
)
from voxprior.models.network.greedy import Equivalence, GreedyPath, grow
from voxprior.models.network.latent import infer_latent
from voxprior.models.network.score import cell_alpha, class_cells, gains
from voxprior.models.network.stability import (
    dominant_dimension,
    leave_one_out_paths,
    loses_a_parent,
    refit_without,
)


class Rules(NamedTuple):
    """How a network is learned; `InverseTreeClassifier` says what each rule means."""

    alpha: float | str = 1.0
    max_parents: int | None = None
    select: str = "permutation"
    equivalence: str = "dirichlet"
    tolerance: float = 0.1
    confidence: float = 0.5
    coupling: float = 0.5
    timing: str = "after"
    by_cluster: bool = True
    n_permutations: int = 39
    level: float = 0.05
    latent: str | None = "icm"
    start: str = "parent"
    n_restarts: int = 0
    table: str = "laplace"
    adjacency: csr_array | None = None
    # Whether the verdict reports by how much a parent is better than chance, or only that it is.
    tells_chance: bool = True


DEFAULT = Rules()


class InverseTree(NamedTuple):
    """A fitted network: what a new sample needs, and what a reader wants to see."""

    parents: np.ndarray
    scores: np.ndarray
    ties: np.ndarray
    equivalents: list[np.ndarray]
    beliefs: np.ndarray | None
    validated: bool | None
    verdict: str
    latent: np.ndarray
    biases: np.ndarray
    weights: list[np.ndarray]
    configurations: np.ndarray
    table: np.ndarray
    unseen: np.ndarray
    first_gain: np.ndarray
    last_gain: np.ndarray


def learn_tree(
    words: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    rules: Rules = DEFAULT,
    rng: np.random.Generator | None = None,
    binarize: Binarize | None = None,
    first_null: np.ndarray | None = None,
) -> InverseTree:
    """Learn the network from packed voxels.

    Parameters
    ----------
    words : ndarray of uint64 (V, W)
        Voxels, packed along the samples.
    y : ndarray of int (n,)
        Class codes 0 .. n_classes − 1.
    n_classes : int
        Number of classes.
    rules : Rules
        How.
    rng : numpy Generator, optional
        For restarts, Gibbs sampling and permutations.
    binarize : callable, optional
        Many labellings to packed voxels, where these were made binary with the help of the labels.
    first_null : ndarray, optional
        Best gains of a first parent under permuted labels, where they are known.

    Returns
    -------
    InverseTree

    Examples
    --------
    >>> from voxprior.models.network.bits import pack
    >>> a, b = np.repeat([0, 1], 20), np.tile(np.repeat([0, 1], 10), 2)
    >>> tree = learn_tree(pack(np.column_stack([a, b, a])), a & b, 2)
    >>> tree.parents, tree.equivalents[0]
    (array([0, 1]), array([2]))
    """
    rng = np.random.default_rng() if rng is None else rng
    found: dict[int, np.ndarray] = {}
    path = search(words, y, n_classes, rules, found)
    path, passed, verdict = validated(path, words, y, n_classes, rules, rng, binarize, first_null)
    latent, biases, weights = latent_states(words, len(y), path, rules, rng)
    beliefs = None
    if rules.equivalence == "belief":
        beliefs = np.array([found[p] for p in path.parents.tolist()]).reshape(-1, len(words))
    cells = class_table(latent, y, n_classes, rules.alpha, rules.table)
    return InverseTree(
        path.parents, path.scores, path.ties, path.equivalents or [], beliefs, passed, verdict,
        latent, biases, weights, *cells, path.first_gain, path.last_gain,
    )  # fmt: skip


def equivalence_of(
    words: np.ndarray,
    rules: Rules,
    weights: np.ndarray,
    beliefs: dict[int, np.ndarray] | None = None,
) -> Equivalence:
    """The equivalence of ``rules`` among samples counted by ``weights``: parent -> (V,) bool.

    ``beliefs`` keeps the belief map of every parent asked for.
    """
    if rules.equivalence == "belief":
        kept = {} if beliefs is None else beliefs

        def believed(parent: int) -> np.ndarray:
            kept[parent] = beliefs_of(words, parent, rules, weights)
            return kept[parent] > 0.5

        return believed
    n = int(weights.sum())
    limit = count_limit(rules.equivalence, n, rules.tolerance, rules.confidence)
    return lambda parent: equivalent(words, parent, limit, weights)


def beliefs_of(words: np.ndarray, parent: int, rules: Rules, weights: np.ndarray) -> np.ndarray:
    """P(equivalent to ``parent``) of every voxel; every time point of a space has its own field."""
    unary = parent_evidence(words, parent, weights, rules.tolerance)
    if rules.adjacency is None:
        return belief_map(unary, None, rules.coupling)
    volumes = unary.reshape(-1, rules.adjacency.shape[0])
    return np.concatenate([belief_map(u, rules.adjacency, rules.coupling) for u in volumes])


def search(
    words: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    rules: Rules,
    beliefs: dict[int, np.ndarray] | None = None,
) -> GreedyPath:
    """Greedy parents and their equivalents under ``rules``; ``beliefs`` keeps belief maps."""
    ones = np.ones(len(y), dtype=np.int64)
    alike = equivalence_of(words, rules, ones, beliefs)
    during = alike if rules.timing == "during" else None
    path = grow(words, y, n_classes, rules.alpha, rules.max_parents, during)
    if path.equivalents is not None:
        return path
    others = np.ones(len(words), dtype=bool)
    others[path.parents] = False
    clusters = [np.flatnonzero(alike(int(parent)) & others) for parent in path.parents]
    return path._replace(equivalents=clusters)


def jackknife_paths(
    words: np.ndarray, y: np.ndarray, n_classes: int, rules: Rules
) -> list[tuple[int, ...]]:
    """Parents of every leave-one-out sample, in order, under ``rules``."""
    search_rules = (rules.alpha, rules.max_parents)
    paths = leave_one_out_paths(words, y, n_classes, *search_rules)
    if rules.timing == "after":
        return paths
    belief = rules.equivalence == "belief"
    limit = 0
    if not belief:
        limit = count_limit(rules.equivalence, len(y) - 1, rules.tolerance, rules.confidence)
    for i, path in enumerate(paths):
        if belief or loses_a_parent(words, y, n_classes, rules.alpha, path, i, limit):
            weights = np.ones(len(y), dtype=np.int64)
            weights[i] = 0
            alike = equivalence_of(words, rules, weights)
            paths[i] = refit_without(words, y, n_classes, *search_rules, i, alike)
    return paths


def clusters_by_voxel(path: GreedyPath) -> dict[int, int]:
    """Voxel to the first parent whose cluster it is in."""
    groups: dict[int, int] = {}
    for parent, members in zip(path.parents.tolist(), path.equivalents or []):
        for v in [parent, *members.tolist()]:
            groups.setdefault(v, parent)
    return groups


def validated(
    path: GreedyPath,
    words: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    rules: Rules,
    rng: np.random.Generator,
    binarize: Binarize | None = None,
    first_null: np.ndarray | None = None,
) -> tuple[GreedyPath, bool | None, str]:
    """Lower the dimensionality until the model dominates, or beats chance; say whether it did."""
    parents = path.parents.tolist()
    if not parents:
        return path, None, "No voxel raises the score: the class frequencies are all there is."
    if rules.select == "gain":
        return path, None, "Not tested: among many voxels a positive gain is not evidence."
    if rules.select == "jackknife":
        groups = clusters_by_voxel(path) if rules.by_cluster else None
        paths = jackknife_paths(words, y, n_classes, rules)
        d = dominant_dimension(paths, parents, groups)
        verdict = f"The network of {d} of {len(parents)} parents dominates its jackknife."
        if d == 0:
            verdict = "No network dominates its jackknife; the first parent was kept all the same."
    elif not rules.tells_chance:
        chance = (rules.alpha, rules.n_permutations, rng, rules.level, binarize, first_null)
        d = n_better_than_chance(words, y, n_classes, parents, path.scores, *chance)
        verdict = f"{d} of {len(parents)} parents are better than chance."
    else:
        known = (rules.n_permutations, rng, rules.level, binarize, None, first_null)
        null = permutation_null(words, y, n_classes, parents, path.scores, rules.alpha, *known)
        d = int(np.sum(null.p_value <= rules.level))
        verdict = null.verdict(rules.level)
    return shortened(path, max(d, 1), words, y, n_classes, rules.alpha), d > 0, verdict


def shortened(path: GreedyPath, d: int, words, y, n_classes: int, alpha) -> GreedyPath:
    """The first d parents of a path, with the gains that remain after them."""
    if d == len(path.parents):
        return path
    last = gains(words, class_cells(words, y, n_classes, path.parents[:d], alpha))
    clusters = (path.equivalents or [])[:d]
    return GreedyPath(
        path.parents[:d], path.scores[: d + 1], path.first_gain, last, path.ties[:d], clusters
    )


def latent_states(
    words: np.ndarray, n: int, path: GreedyPath, rules: Rules, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """States (n, d), biases (d,), child weights; without a method, L is the parent itself."""
    states = unpack(words[path.parents], n).astype(np.int64)
    if rules.latent is None:
        # Log-odds ±1 from the parent alone; its equivalents have no say.
        weights = [np.append(2.0, np.zeros(len(E))) for E in path.equivalents or []]
        return states, np.full(len(path.parents), -1.0), weights
    biases, weights = [], []
    for i, (parent, members) in enumerate(zip(path.parents, path.equivalents or [])):
        children = words[np.concatenate([[parent], members])]
        voices = children if rules.start == "majority" else children[:1]
        first = starting_states(unpack(voices, n))
        found = infer_latent(
            children, n, first, rules.alpha, rules.latent, rules.n_restarts, rng=rng
        )
        states[:, i] = found.state
        biases.append(found.bias)
        weights.append(found.weight)
    return states, np.array(biases), weights


def starting_states(children: np.ndarray) -> np.ndarray:
    """The majority (n,) of children (n, M), ties to 0; of the parent alone its own state."""
    return (2 * children.sum(axis=1) > children.shape[1]).astype(np.int64)


def class_table(
    latent: np.ndarray, y: np.ndarray, n_classes: int, alpha: float | str, kind: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Configurations (J, d) that occur, their table (J, K), and the row (K,) of all others."""
    configurations, code = np.unique(latent, axis=0, return_inverse=True)
    N = np.zeros((len(configurations), n_classes))
    np.add.at(N, (code.ravel(), y), 1.0)
    if kind == "ml":
        return configurations, N / N.sum(axis=1, keepdims=True), N.sum(axis=0) / N.sum()
    a = 1.0 if kind == "laplace" else cell_alpha(alpha, n_classes, latent.shape[1])
    table = (N + a) / (N.sum(axis=1, keepdims=True) + n_classes * a)
    return configurations, table, np.full(n_classes, 1.0 / n_classes)


def latent_log_odds(
    biases: np.ndarray, weights: list[np.ndarray], states: list[np.ndarray], n: int
) -> np.ndarray:
    """Log-odds (n, d) that each latent variable is 1, from its cluster's states (n, 1 + M_i)."""
    odds = np.empty((n, len(biases)))
    for i, (w, x) in enumerate(zip(weights, states)):
        # Summed row by row, so that a sample's odds do not depend on its company in the batch.
        odds[:, i] = biases[i] + np.sum(x * w, axis=1)
    return odds


def class_probabilities(
    odds: np.ndarray, configurations: np.ndarray, table: np.ndarray, unseen: np.ndarray, soft: bool
) -> np.ndarray:
    """P(C) (n, K) from the log-odds (n, d) of the latent states."""
    on = expit(odds) if soft else (odds > 1e-9).astype(float)
    agreement = np.ones((len(odds), len(configurations)))
    for p, state in zip(on.T[:, :, None], configurations.T):
        agreement *= np.where(state == 1, p, 1.0 - p)
    rest = np.clip(1.0 - agreement.sum(axis=1, keepdims=True), 0.0, 1.0)
    P = np.einsum("ij,jk->ik", agreement, table, optimize=False) + rest * unseen
    return P / P.sum(axis=1, keepdims=True)
