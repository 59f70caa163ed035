r"""The state of a new sample inferred together with the states of the training samples.

`latent` gives a new sample its state while those of the training samples stay as they were learned.
Here the sample is appended to the training samples, and iterated conditional modes infer all n + 1
states of a cluster anew, as if it had been there from the start::

    L_1 .. L_n, L_new = argmax p(L, R, E)  over the training samples and the new one,  by ICM

The class table is then counted from L_1 .. L_n, and the sample's log-odds are those of its state
given L_1 .. L_n. Samples are inferred one by one: the result for one does not depend on others.
The cost of a sample is that of learning the latent states once.

| symbol | variable | shape |
|---|---|---|
| R, E of a cluster in training | `children` | d arrays (n, 1 + M_i), 0 or 1 |
| the same of the new sample | `sample` | d arrays (1 + M_i,) |
| L_1 .. L_n | `latent` | (n, d) |
| log-odds of L_new | `odds` | (1, d) |

Reference: Chen and Herskovits, KDD 2005, sections 3.1.3 and 3.2, which infer a new subject's latent
states and report 30 minutes for it, but do not say how.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from voxprior.models.network.bits import pack
from voxprior.models.network.latent import infer_latent, predictive_weights
from voxprior.models.network.tree import Rules, class_probabilities, class_table, starting_states


def joint_states(
    children: Sequence[np.ndarray],
    sample: Sequence[np.ndarray],
    rules: Rules,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """States (n, d) of the training samples, and log-odds (1, d) of the new one, inferred jointly.

    Examples
    --------
    >>> cluster = np.array([[1, 1, 1], [1, 1, 0], [0, 0, 0], [0, 1, 0], [1, 1, 1], [0, 0, 0]])
    >>> latent, odds = joint_states([cluster], [np.array([1, 0, 1])], Rules(), None)
    >>> latent[:, 0], odds.round(3)
    (array([1, 1, 0, 0, 1, 0]), array([[1.386]]))
    """
    n = len(children[0])
    latent, odds = np.empty((n, len(children)), dtype=np.int64), np.empty((1, len(children)))
    for i, (bits, new) in enumerate(zip(children, sample, strict=True)):
        together = np.vstack([bits, new])
        first = starting_states(together if rules.start == "majority" else together[:, :1])
        found = infer_latent(
            pack(together), n + 1, first, rules.alpha, str(rules.latent), rules.n_restarts, rng=rng
        )
        latent[:, i] = found.state[:n]
        bias, weight = predictive_weights(pack(bits), latent[:, i], rules.alpha)
        odds[0, i] = bias + np.sum(weight * new)
    return latent, odds


def joint_probabilities(
    children: Sequence[np.ndarray],
    samples: Sequence[np.ndarray],
    y: np.ndarray,
    n_classes: int,
    rules: Rules,
    soft: bool,
    seed: int,
) -> np.ndarray:
    """P(C) (m, K) of samples (m, 1 + M_i), each inferred jointly with the training samples.

    ``y`` (n,) are class codes of the training samples; ``seed`` starts the draws of every sample.
    """
    rows = []
    for new in zip(*samples, strict=True):
        latent, odds = joint_states(children, new, rules, np.random.default_rng(seed))
        cells = class_table(latent, y, n_classes, rules.alpha, rules.table)
        rows.append(class_probabilities(odds, *cells, soft))
    return np.concatenate(rows)
