r"""Is the network an artefact: model and edge frequencies, dominance, the best gain of chance.

* Frequencies over resampled data sets D_i (4), (5), of parent sets and of single edges::

      f(R) = (1/n) Σ_i [R = R_i],        f(E) = (1/n) Σ_i [E ∈ R_i]

  Parent sets are compared as sets; `groups` lets voxels of one cluster count as one and the same
  parent.
* Dominance: the most frequent model has f ≥ 1/2, or at least twice the frequency of the runner-up.
  While no model dominates, the dimensionality is lowered by one: greedy paths are nested, so their
  first d parents are the models.
* Permutation null: with a million voxels some gain is large by chance (12 nats among 1.5 million
  noise voxels). Labels permuted within the configurations of the present parents keep every count
  but the link with further voxels; the distribution of the largest gain is what a further parent
  has to beat.

Reference: Chen and Herskovits, KDD 2005, section 3.1.2 and (4), (5). The null is not in the paper.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from voxprior.bits import pack
from voxprior.models.network.bdeu import family, top_gains
from voxprior.models.network.greedy import grow

DOMINANT_FREQUENCY = 0.5
DOMINANT_RATIO = 2.0


class Frequencies(NamedTuple):
    """Models and edges by falling frequency, and whether the first model dominates.

    `models` are sorted tuples of voxels, `edges` voxels; `selected` is the place in `models` of the
    network learned from all samples (−1 where no resample found it).
    """

    models: list[tuple[int, ...]]
    model_frequency: np.ndarray
    edges: np.ndarray
    edge_frequency: np.ndarray
    dominant: bool
    selected: int


class Null(NamedTuple):
    """Gain of each greedy step, the best under permuted labels (steps, permutations), p-values."""

    gain: np.ndarray
    null: np.ndarray
    p_value: np.ndarray

    def verdict(self, level: float = 0.05) -> str:
        """One plain sentence a step."""
        if len(self.gain) == 0:
            return "No voxel raises the score: there is no parent to test."
        lines = []
        for step, (gain, null, p) in enumerate(zip(self.gain, self.null, self.p_value), start=1):
            high = np.quantile(null, 1 - level)
            word = "better" if p <= level else "no better"
            lines.append(
                f"Parent {step}: its gain of {gain:.2f} nats is {word} than chance "
                f"(p = {p:.3g}; {1 - level:.0%} of label permutations stay below {high:.2f} nats)."
            )
        return "\n".join(lines)


def frequencies(
    paths: Sequence[tuple[int, ...]],
    parents: Sequence[int],
    groups: dict[int, int] | None = None,
) -> Frequencies:
    """Frequencies (4) and (5) of the resampled ``paths`` at the dimensionality of ``parents``.

    Parameters
    ----------
    paths : sequence of tuples of int
        Parents of each resample in order of entry.
    parents : sequence of int
        Parents learned from all samples; paths are cut to their number.
    groups : dict, optional
        Voxel to the parent that stands for its cluster.

    Returns
    -------
    Frequencies

    Examples
    --------
    >>> f = frequencies([(1,), (1,), (0,), (1, 2)], parents=[1])
    >>> f.models, f.model_frequency, f.dominant
    ([(1,), (0,)], array([0.75, 0.25]), True)
    """
    names = {} if groups is None else groups
    sets = [tuple(sorted({names.get(v, v) for v in path[: len(parents)]})) for path in paths]
    n = max(len(paths), 1)
    models = sorted(Counter(sets).items(), key=lambda item: (-item[1], item[0]))
    edges = sorted(
        Counter(v for s in sets for v in s).items(), key=lambda item: (-item[1], item[0])
    )
    f = np.array([count / n for _, count in models])
    found = [model for model, _ in models]
    own = tuple(sorted({names.get(v, v) for v in map(int, parents)}))
    return Frequencies(
        found,
        f,
        np.array([v for v, _ in edges], dtype=np.intp),
        np.array([count / n for _, count in edges]),
        is_dominant(f),
        found.index(own) if own in found else -1,
    )


def is_dominant(frequency: np.ndarray) -> bool:
    """Whether the first of falling model frequencies stands out."""
    runner_up = frequency[1] if len(frequency) > 1 else 0.0
    return bool(frequency[0] >= DOMINANT_FREQUENCY or frequency[0] >= DOMINANT_RATIO * runner_up)


def dominant_dimension(
    paths: Sequence[tuple[int, ...]], parents: Sequence[int], groups: dict[int, int] | None = None
) -> int:
    """Largest number of parents at which the learned model dominates; 0 if at none."""
    for d in range(len(parents), 0, -1):
        f = frequencies(paths, parents[:d], groups)
        if f.dominant and f.selected == 0:
            return d
    return 0


def bootstrap_paths(
    words: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    alpha: float | str,
    max_parents: int | None,
    n_bootstrap: int,
    rng: np.random.Generator,
) -> list[tuple[int, ...]]:
    """Parents found in samples drawn with replacement; repeated samples are counted, not copied."""
    paths = []
    for _ in range(n_bootstrap):
        weights = np.bincount(rng.integers(0, len(y), len(y)), minlength=len(y))
        path = grow(words, y, n_classes, alpha, max_parents, weights=weights)
        paths.append(tuple(path.parents.tolist()))
    return paths


def null_gains(
    words: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    parents: Sequence[int],
    alpha: float | str,
    n_permutations: int,
    rng: np.random.Generator,
    binarize: Callable[[np.ndarray], np.ndarray] | None = None,
    used: np.ndarray | None = None,
) -> np.ndarray:
    """Largest gain of a further parent (n_permutations,), labels permuted within configurations.

    Where voxels were made binary with the help of the labels, ``binarize`` does it again for
    permuted ones. ``used`` (n,) leaves samples out.
    """
    weights = None if used is None else np.asarray(used, dtype=np.int64)
    cells = family(words, y, n_classes, list(parents), alpha, weights)
    J = len(cells.counts)
    labels = np.tile(y, (n_permutations, 1))
    for j in range(J):
        inside = np.flatnonzero(cells.configuration == j)
        labels[:, inside] = rng.permuted(labels[:, inside], axis=1)
    cell = cells.configuration * n_classes + labels
    members = cell.T[:, :, None] == np.arange(J * n_classes)
    masks = pack(members.reshape(len(y), -1)).reshape(n_permutations, J, n_classes, 1, -1)
    permuted = [cells._replace(masks=m) for m in masks]
    if binarize is None:
        return top_gains(words, permuted)
    return np.concatenate([top_gains(binarize(k), [f]) for k, f in zip(labels, permuted)])


def permutation_null(
    words: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    parents: Sequence[int],
    scores: np.ndarray,
    alpha: float | str,
    n_permutations: int,
    rng: np.random.Generator,
    level: float | None = None,
    binarize: Callable[[np.ndarray], np.ndarray] | None = None,
    used: np.ndarray | None = None,
) -> Null:
    """Test every step of a greedy path; with ``level``, stop after the first that fails."""
    gain, null, p_value = np.diff(scores), [], []
    for step in range(len(parents)):
        before = parents[:step]
        top = null_gains(words, y, n_classes, before, alpha, n_permutations, rng, binarize, used)
        null.append(top)
        p_value.append((1 + np.sum(top >= gain[step] - 1e-9)) / (n_permutations + 1))
        if level is not None and p_value[-1] > level:
            break
    tops = np.array(null).reshape(-1, n_permutations)
    return Null(gain[: len(null)], tops, np.array(p_value))
