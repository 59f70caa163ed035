r"""Probabilistically equivalent voxels: those in the state of a parent in nearly every sample.

V is equivalent to R if P(V=0, R=1) ≈ 0 and P(V=1, R=0) ≈ 0. Four readings of "≈ 0", from counts
alone:

* ``dirichlet``  (θ_00, θ_01, θ_10, θ_11) ~ Dirichlet(1 + counts), so θ_01 | D ~ Beta(1 + n_01, 3 +
  n − n_01); equivalent if P(θ_01 < tolerance | D) ≥ confidence, and likewise θ_10.
* ``mean``       the posterior mean (n_01 + 1)/(n + 4) < tolerance, and likewise n_10.
* ``frequency``  n_01/n ≤ tolerance, and likewise n_10.
* ``belief``     a label z_v (equivalent or not) with a Potts field over neighbouring voxels::

      log P(z) = Σ_v u_v z_v + β Σ_{v~w} [z_v = z_w] + const
      u_v = log evidence of the counts under Dirichlet(d, o, o, d) − under Dirichlet(1, 1, 1, 1)

  with o = 1/2 and 2d = 1/tolerance − 1, so that the off-diagonal mass is expected to be
  `tolerance`. Loopy belief propagation gives b_v = P(z_v = 1); equivalent if b_v > 1/2. With odds
  instead of log-odds a message needs no logarithm::

      r_{v→w} = (e^β O_v + r_{w→v}) / (O_v + e^β r_{w→v}),        O_v = e^{u_v} Π_w r_{w→v}

  and only voxels that have received something new send messages again.

The first three accept n_01, n_10 ≤ a limit that depends on n only, so a voxel costs two population
counts; u_v is read from a table of (n_01, n_10) where there are more voxels than such pairs.

| symbol | variable | shape |
|---|---|---|
| V, packed voxels | `words` | (V, W) uint64 |
| R, a voxel | `parent` | scalar |
| n_01, samples with V = 0, R = 1 | `off` | (V,) |
| n_10, samples with V = 1, R = 0 | `on` | (V,) |
| u, log evidence ratio | `unary` | (V,) |
| r, odds that each voxel receives from each of its neighbours | `message` | (E,) |
| O, odds of z_v = 1 before the neighbours are heard, e^u | `odds` | (V,) |
| b, P(z_v = 1) | `belief` | (V,) |

Reference: Chen and Herskovits, KDD 2005, section 3.1.1. The paper names "Bayesian thresholding"
(Herskovits, Peng and Davatzikos 2004) and "belief map learning" without formulas; these are
readings of those words.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from scipy.sparse import csr_array
from scipy.special import betainc, expit, gammaln

from voxprior.algebra import launch
from voxprior.errors import InputError
from voxprior.models.network.bits import pack, popcount, unpack
from voxprior.models.network.scan import VOXEL_WORK

# Log-odds of certainty, and a coupling that makes neighbours one: more is the same to a double.
CERTAIN = 400.0
STRONG = 40.0


def count_limit(rule: str, n: int, tolerance: float, confidence: float = 0.5) -> int:
    """Largest n_01 (and n_10) that ``rule`` accepts among n samples; −1 if not even 0 is accepted.

    Examples
    --------
    >>> [count_limit(rule, 119, 0.1) for rule in ("dirichlet", "mean", "frequency")]
    [11, 11, 11]
    """
    count = np.arange(n + 1)
    if rule == "dirichlet":
        accepted = betainc(1 + count, 3 + n - count, tolerance) >= confidence
    elif rule == "mean":
        accepted = (count + 1) / (n + 4) < tolerance
    elif rule == "frequency":
        accepted = count <= tolerance * n + 1e-9
    else:
        raise InputError(
            "The rule of equivalence is not one of counts",
            expected="'dirichlet', 'mean' or 'frequency'",
            got=repr(rule),
        )
    return int(np.sum(accepted)) - 1


def equivalent(words: np.ndarray, parent: int, limit: int, weights: np.ndarray) -> np.ndarray:
    """Which voxels (V,) differ from ``parent`` at most ``limit`` times each way, by weight."""
    off, on = disagreement_counts(words, parent, weights)
    return (off <= limit) & (on <= limit)


def disagreement_counts(
    words: np.ndarray, parent: int, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """n_01 (V,) and n_10 (V,) of every voxel with ``parent``."""
    counts = np.empty((2, len(words)), dtype=np.int32)
    reference, planes = words[parent].copy(), weight_planes(weights)
    launch(_disagree, VOXEL_WORK * len(words), words, reference, planes, counts)
    return counts[0], counts[1]


def weight_planes(weights: np.ndarray) -> np.ndarray:
    """Packed bit planes (B, W) of integer sample weights."""
    n_planes = max(int(weights.max()).bit_length(), 1)
    return pack((weights[:, None] >> np.arange(n_planes)) & 1)


@njit(cache=True, parallel=True)
def _disagree(words, reference, planes, counts):
    for v in prange(len(words)):
        off, on = 0, 0
        for b in range(planes.shape[0]):
            for w in range(planes.shape[1]):
                mine, other, mask = words[v, w], reference[w], planes[b, w]
                off += popcount(~mine & other & mask) << b  # type: ignore[call-arg]
                on += popcount(mine & ~other & mask) << b  # type: ignore[call-arg]
        counts[0, v] = off
        counts[1, v] = on


def evidence_ratio(counts: np.ndarray, tolerance: float) -> np.ndarray:
    """u_v: log evidence that voxel and parent are equivalent, against any relation at all."""
    diagonal, off = (1.0 / tolerance - 1.0) / 2.0, 0.5
    return _dirichlet_evidence(
        counts, np.array([diagonal, off, off, diagonal])
    ) - _dirichlet_evidence(counts, np.ones(4))


def parent_evidence(
    words: np.ndarray, parent: int, weights: np.ndarray, tolerance: float
) -> np.ndarray:
    """u_v (V,) of every voxel with ``parent``."""
    off, on = disagreement_counts(words, parent, weights)
    state = unpack(words[[parent]], len(weights))[:, 0]
    ones, zeros = int(weights[state].sum()), int(weights[~state].sum())
    every = (ones + 1) * (zeros + 1) <= len(words)
    n_01, n_10 = np.indices((ones + 1, zeros + 1)).reshape(2, -1) if every else (off, on)
    counts = np.column_stack([zeros - n_10, n_01, n_10, ones - n_01])
    ratio = evidence_ratio(counts, tolerance)
    return ratio[off * (zeros + 1) + on] if every else ratio


def _dirichlet_evidence(counts: np.ndarray, prior: np.ndarray) -> np.ndarray:
    size, strength = counts.sum(axis=1), prior.sum()
    cells = gammaln(prior + counts) - gammaln(prior)
    return gammaln(strength) - gammaln(strength + size) + cells.sum(axis=1)


def belief_map(
    unary: np.ndarray,
    adjacency: csr_array | None,
    coupling: float,
    n_sweeps: int = 100,
    tol: float = 1e-7,
) -> np.ndarray:
    """P(z_v = 1) of the Potts field by loopy belief propagation; exact where the graph is a forest.

    Parameters
    ----------
    unary : ndarray (V,)
        Log-odds of z_v = 1 before the neighbours are heard.
    adjacency : sparse (V, V) or None
        Symmetric neighbour graph; None for no neighbours.
    coupling : float
        β, log weight of two neighbours having the same label.
    n_sweeps, tol
        At most so many sweeps, or until no message moves by more than ``tol`` nats; a voxel is
        left out of a sweep while no message to it has moved by as much.

    Returns
    -------
    ndarray (V,)

    Examples
    --------
    >>> from voxprior.space import VoxelSpace
    >>> line = VoxelSpace.grid(3).adjacency(6)
    >>> belief_map(np.array([3.0, -0.5, 3.0]), line, coupling=1.0).round(3)
    array([0.96 , 0.783, 0.96 ])
    """
    if adjacency is None or adjacency.nnz == 0:
        return expit(unary)
    graph = csr_array(adjacency)
    if not graph.has_sorted_indices:
        graph = graph.sorted_indices()
    message = np.ones(graph.nnz)
    # Past these bounds nothing changes in double precision.
    beta = np.clip(coupling, -STRONG, STRONG)
    long = float(np.diff(graph.indptr).max()) * abs(beta) > CERTAIN / 2
    odds = np.exp(np.clip(unary, -CERTAIN, CERTAIN))
    back = np.empty(graph.nnz, dtype=np.int32 if graph.nnz < 2**31 else np.int64)
    _ways_back(graph.indptr, graph.indices, back)
    _propagate(odds, graph.indptr, graph.indices, back, np.exp(beta), long, n_sweeps, tol, message)
    return expit(unary + _heard(graph.indptr, message))


@njit(cache=True)
def _ways_back(indptr, indices, back):
    """Write the number of edge (w, v) for every edge (v, w); symmetric graph, sorted rows."""
    # Rows are visited in rising order, and that is the order in which v stands in the row of w.
    following = indptr[:-1].copy()
    for e in range(len(indices)):
        w = indices[e]
        back[e] = following[w]
        following[w] += 1


@njit(cache=True)
def _heard(indptr, message):
    """Sum of the log-odds that each voxel receives."""
    total = np.zeros(len(indptr) - 1)
    for v in range(len(total)):
        for e in range(indptr[v], indptr[v + 1]):
            total[v] += np.log(message[e])
    return total


@njit(cache=True)
def _propagate(odds, indptr, indices, back, b, long, n_sweeps, tol, message):
    # message[e], e in row v, is what neighbour indices[e] sends to v; v replies in back[e].
    news = np.ones(len(odds), np.bool_)
    for _ in range(n_sweeps):
        at_rest = True
        for v in range(len(odds)):
            if not news[v]:
                continue
            news[v] = False
            own = _product(odds[v], message, indptr[v], indptr[v + 1], long)
            for e in range(indptr[v], indptr[v + 1]):
                answer = (b * own + message[e]) / (own + b * message[e])
                before = message[back[e]]
                message[back[e]] = answer
                if abs(answer - before) > tol * before:
                    news[indices[e]] = True
                    at_rest = False
        if at_rest:
            break


@njit(cache=True)
def _product(odds, message, begin, end, long):
    """Odds of a voxel after all messages; ``long`` products are taken as sums, and bounded."""
    if not long:
        for e in range(begin, end):
            odds *= message[e]
        return odds
    total = np.log(odds)
    for e in range(begin, end):
        total += np.log(message[e])
    return np.exp(min(max(total, -CERTAIN), CERTAIN))
