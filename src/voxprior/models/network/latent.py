r"""The latent state of a cluster of equivalent voxels, by iterated conditional modes.

Model. A parent R and its equivalents E_1 .. E_M are children of one binary variable L (Figure 2)::

    p(L, R, E) = p(L) p(R | L) ∏_m p(E_m | L),      scored by (1) with L filled in

Changing L in one sample from u to v changes one count in L's own table, equation (7), and moves the
sample to another row of each child's table, equation (8); with the counts before the move::

    (7)  Δ_L = log(α_L + N_v) − log(α_L + N_u − 1)
    (8)  Δ_X = log(2α_X + N_u − 1) − log(α_X + N_ux − 1) − log(2α_X + N_v) + log(α_X + N_vx)

ICM gives every sample the state of higher score while the other samples stay, until nothing
changes; in sequence the score never falls. All at once (``synchronous``) it may oscillate;
``gibbs`` draws states under falling temperature. The best state met is kept.

| symbol | variable | shape |
|---|---|---|
| X_m, packed children, distinct ones only | `words` | (M, W) |
| how many voxels have this very column | `copies` | (M,) |
| L, 0 or 1 | `state` | (n,) |
| N_u, samples in each latent state | `n_state` | (2,) |
| N_u1, samples of state u in which the child is on | `on` | (2, M) |
| α_L, α_X: 1, 1 (K2), or 1/2, 1/4 (BDeu) | `alpha` | scalar |

A new sample gets its state from the score of appending it, which is naive Bayes with the predictive
tables (α + N)/(Σα + N): log-odds = `bias` + Σ_m `weight_m` x_m.

Reference: Chen and Herskovits, KDD 2005, section 3.1.3.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.special import gammaln

from voxprior.models.network.bits import pack, unpack
from voxprior.models.network.score import cell_alpha, log_score

# A flip must gain more than rounding does, or equal states would be exchanged for ever.
GAIN = 1e-10
# Temperatures of the annealed Gibbs sampler, from the posterior's own down to nearly greedy.
HOT, COLD = 1.0, 0.05


class Latent(NamedTuple):
    """State of every sample, score after each sweep, and the weights of a new sample's log-odds."""

    state: np.ndarray
    scores: np.ndarray
    bias: float
    weight: np.ndarray


def infer_latent(
    words: np.ndarray,
    n_samples: int,
    start: np.ndarray,
    alpha: float | str = 1.0,
    method: str = "icm",
    n_restarts: int = 0,
    n_sweeps: int = 100,
    rng: np.random.Generator | None = None,
) -> Latent:
    """Latent state of a cluster.

    Parameters
    ----------
    words : ndarray of uint64 (M, W)
        Packed children; the first is the parent R.
    n_samples : int
        Number of samples.
    start : ndarray of int (n,)
        Where to start.
    alpha : float or "bdeu"
        Dirichlet parameter.
    method : {"icm", "synchronous", "gibbs"}
        How the states are visited.
    n_restarts : int
        Further starts at random; the best score wins.
    n_sweeps : int
        At most so many sweeps (exactly so many for ``gibbs``, before a last descent).
    rng : numpy Generator, optional
        Needed for restarts and for ``gibbs``.

    Returns
    -------
    Latent

    Examples
    --------
    >>> from voxprior.models.network.bits import pack
    >>> children = np.array([[1, 1, 1], [1, 1, 0], [0, 0, 0], [0, 1, 0], [1, 1, 1], [0, 0, 0]])
    >>> infer_latent(pack(children), 6, start=children[:, 0]).state
    array([1, 1, 0, 0, 1, 0])
    """
    columns, where, copies = np.unique(words, axis=0, return_inverse=True, return_counts=True)
    rng = np.random.default_rng() if rng is None else rng
    starts = [np.asarray(start)]
    if n_restarts:
        starts += list(rng.integers(0, 2, (n_restarts, n_samples)))
    runs = [_descend(columns, copies, s, alpha, method, n_sweeps, rng) for s in starts]
    state, scores = max(runs, key=lambda run: run[1][-1])  # the first of equals
    # The score is the same with L's states exchanged: name them so that L agrees with R.
    if np.sum(state == unpack(words[:1], n_samples)[:, 0]) * 2 < n_samples:
        state = 1 - state
    bias, weight = predictive_weights(columns, state, alpha, copies)
    return Latent(state, scores, bias, weight[where.ravel()])


def latent_score(
    words: np.ndarray, state: np.ndarray, alpha: float | str, copies: np.ndarray | None = None
) -> float:
    """Equation (1) of the whole cluster with L filled in."""
    copies = np.ones(len(words)) if copies is None else copies
    n_state, on = _tables(words, state)
    a = cell_alpha(alpha, 2, 1)
    cells = gammaln(a + on) + gammaln(a + n_state[:, None] - on) - 2 * gammaln(a)
    rows = gammaln(2 * a) - gammaln(2 * a + n_state)
    children = np.sum(copies * (cells.sum(axis=0) + rows.sum()))
    return log_score(n_state[None, :], cell_alpha(alpha, 2, 0)) + float(children)


def flip_changes(
    words: np.ndarray, state: np.ndarray, alpha: float | str, copies: np.ndarray | None = None
) -> np.ndarray:
    """Score change (n,) of flipping each sample's state alone: (7) + Σ (8)."""
    copies = np.ones(len(words), dtype=np.int64) if copies is None else copies
    n_state, on = _tables(words, state)
    logs = _log_tables(len(state), alpha)
    return np.array(
        [_change(words, copies, state, n_state, on, *logs, j) for j in range(len(state))]
    )


def predictive_weights(
    words: np.ndarray, state: np.ndarray, alpha: float | str, copies: np.ndarray | None = None
) -> tuple[float, np.ndarray]:
    """Bias and weights (M,) of a new sample's log-odds of L = 1; one weight for each copy."""
    copies = np.ones(len(words)) if copies is None else copies
    n_state, on = _tables(words, state)
    a = cell_alpha(alpha, 2, 1)
    log_on = np.log(a + on)
    log_off = np.log(a + n_state[:, None] - on)
    rows = np.log(2 * a + n_state)
    own = np.log(cell_alpha(alpha, 2, 0) + n_state)
    zero = (log_off[1] - rows[1]) - (log_off[0] - rows[0])
    one = (log_on[1] - rows[1]) - (log_on[0] - rows[0])
    return float(own[1] - own[0] + np.sum(copies * zero)), one - zero


def _tables(words: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """N_u (2,) and N_u1 (2, M)."""
    masks = pack(np.column_stack([state == 0, state == 1]))
    on = np.bitwise_count(words[None] & masks[:, None]).sum(axis=2, dtype=np.int64)
    return np.bincount(state, minlength=2), on


def _log_tables(n: int, alpha: float | str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log(α + c) for c = 0 .. n: own table of L, cells of a child, rows of a child."""
    c, a = np.arange(n + 1), cell_alpha(alpha, 2, 1)
    return np.log(cell_alpha(alpha, 2, 0) + c), np.log(a + c), np.log(2 * a + c)


def _descend(columns, copies, start, alpha, method, n_sweeps, rng) -> tuple[np.ndarray, np.ndarray]:
    """One run from one start: final state and the score at the start and after each sweep."""
    state = np.array(start, dtype=np.int64)
    n_state, on = _tables(columns, state)
    logs = _log_tables(len(state), alpha)
    scores = [latent_score(columns, state, alpha, copies)]
    if method == "gibbs":
        heat = np.geomspace(HOT, COLD, n_sweeps)
        # A flip is drawn with probability 1/(1 + exp(−Δ/T)): it happens if Δ > T · logit(uniform).
        draws = rng.logistic(size=(n_sweeps, len(state))) * heat[:, None]
        for bars in draws:
            change, _ = _sweep(columns, copies, state, n_state, on, *logs, bars)
            scores.append(scores[-1] + change)
    if method == "synchronous":
        return _synchronous(columns, copies, state, alpha, n_sweeps, scores)
    bars = np.full(len(state), GAIN)
    for _ in range(n_sweeps):
        change, n_flips = _sweep(columns, copies, state, n_state, on, *logs, bars)
        if n_flips == 0:
            break
        scores.append(scores[-1] + change)
    return state, np.array(scores)


def _synchronous(columns, copies, state, alpha, n_sweeps, scores) -> tuple[np.ndarray, np.ndarray]:
    """All samples move at once; ends at rest or in a cycle of two, and keeps the best state met."""
    best, before = state, None
    for _ in range(n_sweeps):
        flips = flip_changes(columns, state, alpha, copies) > GAIN
        if not flips.any():
            break
        after = np.where(flips, 1 - state, state)
        if before is not None and np.array_equal(after, before):
            break
        before, state = state, after
        scores.append(latent_score(columns, state, alpha, copies))
        if scores[-1] >= max(scores):
            best = state
    return best, np.array([*scores, max(scores)])


@njit(cache=True)
def _sweep(words, copies, state, n_state, on, log_own, log_cell, log_row, bars):
    """Visit every sample in turn; flip where the change exceeds its bar."""
    total, n_flips = 0.0, 0
    for j in range(len(state)):
        change = _change(words, copies, state, n_state, on, log_own, log_cell, log_row, j)
        if change > bars[j]:
            u, v = state[j], 1 - state[j]
            bit = np.uint64(j & 63)
            for m in range(len(words)):
                x = np.int64((words[m, j >> 6] >> bit) & np.uint64(1))
                on[u, m] -= x
                on[v, m] += x
            n_state[u] -= 1
            n_state[v] += 1
            state[j] = v
            total += change
            n_flips += 1
    return total, n_flips


@njit(cache=True)
def _change(words, copies, state, n_state, on, log_own, log_cell, log_row, j):
    """(7) + Σ_m (8) of flipping sample j."""
    u, v = state[j], 1 - state[j]
    bit = np.uint64(j & 63)
    rows = log_row[n_state[u] - 1] - log_row[n_state[v]]
    change = log_own[n_state[v]] - log_own[n_state[u] - 1]
    for m in range(len(words)):
        if (words[m, j >> 6] >> bit) & np.uint64(1):
            a, b = on[u, m], on[v, m]
        else:
            a, b = n_state[u] - on[u, m], n_state[v] - on[v, m]
        change += copies[m] * (rows - log_cell[a - 1] + log_cell[b])
    return change
