r"""Whether a parent is better than chance: the largest gain of all voxels under permuted labels.

With a million voxels some gain is large by chance (12 nats among 1.5 million noise voxels). Labels
permuted within the configurations of the present parents keep every count but the link with further
voxels; the distribution of the largest gain is what a further parent has to beat::

    p = (1 + #{permutations whose largest gain reaches that of the parent}) / (1 + permutations)

Where only the decision p ≤ level is needed, voxels are compared directly with the gain of the
parent, which few reach, and a parent is given up as soon as too many permutations have reached it.

The null is not in the paper (Chen and Herskovits, KDD 2005).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from voxprior.models.network.bits import pack
from voxprior.models.network.score import (
    TIE,
    Cells,
    class_cells,
    n_reaching,
    top_gains,
    top_gains_each,
)

# Labels (P, n) to packed voxels, in blocks (P, v, W).
Binarize = Callable[[np.ndarray], Iterable[np.ndarray]]


class GainTest(NamedTuple):
    """Gain of each greedy step, the best under permuted labels (steps, permutations), p-values."""

    gain: np.ndarray
    null: np.ndarray
    p_value: np.ndarray

    def verdict(self, level: float = 0.05) -> str:
        """One plain sentence per step."""
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


def null_gains(
    words: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    parents: Sequence[int],
    alpha: float | str,
    n_permutations: int,
    rng: np.random.Generator,
    binarize: Binarize | None = None,
    used: np.ndarray | None = None,
) -> np.ndarray:
    """Largest gain of a further parent (n_permutations,), labels permuted within configurations.

    Where voxels were made binary with the help of the labels, ``binarize`` does it again for all
    permuted ones (P, n), in blocks (P, v, W) of voxels. ``used`` (n,) leaves samples out.
    """
    labels, permuted = _permuted(words, y, n_classes, parents, alpha, n_permutations, rng, used)
    if binarize is None:
        return top_gains(words, permuted)
    return top_gains_each(binarize(labels), permuted)


def _permuted(
    words: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    parents: Sequence[int],
    alpha: float | str,
    n_permutations: int,
    rng: np.random.Generator,
    used: np.ndarray | None,
) -> tuple[np.ndarray, list[Cells]]:
    """Labels (P, n) permuted within configurations, and the cells of each labelling."""
    weights = None if used is None else np.asarray(used, dtype=np.int64)
    cells = class_cells(words, y, n_classes, list(parents), alpha, weights)
    J = len(cells.counts)
    labels = np.tile(y, (n_permutations, 1))
    for j in range(J):
        inside = np.flatnonzero(cells.configuration == j)
        labels[:, inside] = rng.permuted(labels[:, inside], axis=1)
    cell = cells.configuration * n_classes + labels
    members = cell.T[:, :, None] == np.arange(J * n_classes)
    masks = pack(members.reshape(len(y), -1)).reshape(n_permutations, J, n_classes, 1, -1)
    return labels, [cells._replace(masks=m) for m in masks]


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
    binarize: Binarize | None = None,
    used: np.ndarray | None = None,
    first: np.ndarray | None = None,
) -> GainTest:
    """Test every step of a path, with ``level`` to the first failure; ``first``: a known null."""
    gain, null, p_value = np.diff(scores), [], []
    chance = (alpha, n_permutations, rng, binarize, used)
    for step in range(len(parents)):
        known = first if step == 0 else None
        top = null_gains(words, y, n_classes, parents[:step], *chance) if known is None else known
        null.append(top)
        p_value.append((1 + np.sum(top >= gain[step] - TIE)) / (n_permutations + 1))
        if level is not None and p_value[-1] > level:
            break
    tops = np.array(null).reshape(-1, n_permutations)
    return GainTest(gain[: len(null)], tops, np.array(p_value))


def n_better_than_chance(
    words: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    parents: Sequence[int],
    scores: np.ndarray,
    alpha: float | str,
    n_permutations: int,
    rng: np.random.Generator,
    level: float,
    binarize: Binarize | None = None,
    first: np.ndarray | None = None,
) -> int:
    """How many steps of a path pass before the first that does not, as `permutation_null` decides.

    The same permutations are drawn; ``first`` is a known null of the first step.
    """
    most = sum((1 + k) / (n_permutations + 1) <= level for k in range(n_permutations + 1)) - 1
    for step, gain in enumerate(np.diff(scores)):
        chance = (parents[:step], alpha, n_permutations, rng)
        if step == 0 and first is not None:
            reaching = int(np.sum(first >= gain - TIE))
        elif binarize is None:
            reaching = int(np.sum(null_gains(words, y, n_classes, *chance) >= gain - TIE))
        else:
            labels, permuted = _permuted(words, y, n_classes, *chance, None)
            reaching = n_reaching(binarize(labels), permuted, gain - TIE, most)
        if reaching > most:
            return step
    return len(parents)
