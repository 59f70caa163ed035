"""Decoders of many neighbourhoods under many labellings: operators that hold no labels.

In the neighbourhood c of m voxels, scans of fold g are tested by a ridge decoder of all other scans
T: least squares on labels ±1, which is the shrinkage discriminant up to scale. With the voxels
minus their training mean x̄,

    A_g = Σ_T (x - x̄)(x - x̄)ᵀ,   λ = α tr(A_g)/n_T
    M_c[g, T] = (x_g - x̄)ᵀ (A_g + λI)⁻¹ (X_T - x̄)ᵀ,   own fold 0                            (1)
    P = M_c Y + mean of the training labels                                                 (2)

The penalty is a share α of the mean squared length of the n_T training scans: little where voxels
are few and their correlations well known, much where they are many. M_c holds no labels, so all
relabellings cost one product per neighbourhood. Where voxels are more than scans the same M_c comes
from the Gram matrix, (C̃ + λI)⁻¹ on scans instead of voxels. Beyond two classes Y has a column of 0
and 1 per class, and the highest value decides.

Scores of the held-out values of a labelling; values that are equal up to the rounding of single
precision share a decision:

* ``accuracy``: share of scans labelled rightly; in comparisons equal shares are ordered by the
  margin, since few scans make many sets alike
* ``auc``: share of pairs of scans of two classes, of the same fold where folds hold both, that are
  ordered rightly; averaged over classes, each against the rest, beyond two
* ``margin``: mean of y_i p_i (beyond two classes, of the value of the true class minus the mean of
  the others), divided by its standard deviation over all relabellings of the neighbourhood

| symbol | variable | shape |
|---|---|---|
| X of a neighbourhood | `x` | (n, m) |
| g | `fold` | (n,) |
| M_c | `operator` | (n, n) |
| Y | `columns` | (n, B) or (n, B K) |
| P | `values` | (n, B) or (n, B, K) |
| differences of P that are rounding | `tie` | one per neighbourhood |

Reference: R. A. Fisher's discriminant by least squares, T. Hastie, R. Tibshirani, J. Friedman, The
Elements of Statistical Learning, 2009, exercise 4.2.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from voxprior.mapping.vicinity import Neighborhoods
from voxprior.validation.ridge import center_by_training, label_columns

SCORES = ("accuracy", "auc", "margin")
# Bytes of the held-out values that are scored at once.
BUFFER = 2**24
# Variance of training scans, relative to that of all, below which they are alike up to rounding.
NOTHING = 1e-14
# Rounding of a value, relative to the largest that labels of one size could give.
SINGLE = 2e-6
# Standard deviations of a margin over which equal accuracies are ordered best.
SPREADS = 3.0


class Labellings(NamedTuple):
    """All labellings of a test as the product wants them, the true one first."""

    codes: np.ndarray  # (n, 1 + B) class codes
    columns: np.ndarray  # (n, 1 + B) of ±1, or (n, (1 + B) K) of 0 and 1, float32
    bias: np.ndarray  # (G, ...) means of the training labels of each fold
    fold: np.ndarray  # (n,)
    n_classes: int
    pooled: bool  # whether pairs of scans of different folds are ordered too


def labellings(codes: np.ndarray, fold: np.ndarray, n_classes: int, pooled: bool) -> Labellings:
    """Prepare labellings (1 + B, n) for all neighbourhoods."""
    columns = label_columns(codes.T, n_classes)
    n_folds = int(fold.max()) + 1
    # Sums of whole numbers are exact: balanced labels have a mean of exactly 0.
    totals = np.stack([columns[fold != g].sum(axis=0) for g in range(n_folds)])
    trained = np.array([np.sum(fold != g) for g in range(n_folds)])
    bias = (totals / trained[:, None]).astype(np.float32)
    return Labellings(
        np.ascontiguousarray(codes.T.astype(np.int16)),
        columns.astype(np.float32),
        bias,
        fold.astype(np.int64),
        n_classes,
        pooled,
    )


# --- operators --------------------------------------------------------------------------------


def operators(
    X: np.ndarray, near: Neighborhoods, centers: np.ndarray, fold: np.ndarray, alpha: float
) -> np.ndarray:
    """M_c (1) of some neighbourhoods, (number of them, n, n) in float32.

    Parameters
    ----------
    X : array (n, V)
    near : Neighborhoods
    centers : array
        Numbers of the neighbourhoods.
    fold : array (n,)
        Fold of each scan, 0 to G - 1.
    alpha : float
        Penalty relative to the mean squared length of training scans.
    """
    n = len(X)
    out = np.zeros((len(centers), n, n), dtype=np.float32)
    for place, center in enumerate(centers):
        x = np.ascontiguousarray(X[:, near.members(center)], dtype=float)
        if x.shape[1] <= n:
            _by_voxels(x, fold, alpha, out[place])
        else:
            out[place] = _by_scans(x, fold, alpha)
    return out


def _by_scans(x: np.ndarray, fold: np.ndarray, alpha: float) -> np.ndarray:
    """M_c from the Gram matrix, for more voxels than scans."""
    gram, operator = x @ x.T, np.zeros((len(x), len(x)))
    for g in range(int(fold.max()) + 1):
        train, test = np.flatnonzero(fold != g), np.flatnonzero(fold == g)
        inner, cross = center_by_training(gram, train, test)
        penalty = alpha * np.trace(inner) / len(train)
        if np.trace(inner) > NOTHING * np.trace(gram):
            rows = np.linalg.solve(inner + penalty * np.eye(len(train)), cross.T).T
            operator[np.ix_(test, train)] = rows - rows.mean(axis=1, keepdims=True)
    return operator


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def _by_voxels(x, fold, alpha, out):  # pragma: no cover - compiled
    """M_c by the covariance of the voxels, which are centred here, for no more than scans."""
    n, m = x.shape
    n_folds = fold.max() + 1
    moments, sums, counts = _moments(x, fold, n_folds)
    A, mean, scan = np.empty((m, m)), np.empty(m), np.empty(m)
    for g in range(n_folds):
        k = n - counts[g]
        if k == 0:
            continue
        trace, total = 0.0, 0.0
        for v in range(m):
            mean[v] = (sums[n_folds, v] - sums[g, v]) / k
            for w in range(v + 1):
                A[v, w] = moments[n_folds, v, w] - moments[g, v, w] - k * mean[v] * mean[w]
            trace += A[v, v]
            total += moments[n_folds, v, v]
        if trace <= NOTHING * total:
            continue
        for v in range(m):
            A[v, v] += alpha * trace / k
        _cholesky(A)
        for i in range(n):
            if fold[i] != g:
                continue
            shift = 0.0
            for v in range(m):
                scan[v] = x[i, v] - mean[v]
            _solve(A, scan)
            for v in range(m):
                shift += scan[v] * mean[v]
            for j in range(n):
                if fold[j] != g:
                    product = 0.0
                    for v in range(m):
                        product += scan[v] * x[j, v]
                    out[i, j] = product - shift


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def _moments(x, fold, n_folds):  # pragma: no cover - compiled
    """Sums of xxᵀ (lower half), of x and of 1 in every fold, and in all of them last."""
    n, m = x.shape
    moments, sums = np.zeros((n_folds + 1, m, m)), np.zeros((n_folds + 1, m))
    counts = np.zeros(n_folds, dtype=np.int64)
    for v in range(m):
        x[:, v] -= x[:, v].mean()
    for i in range(n):
        g = fold[i]
        counts[g] += 1
        for v in range(m):
            sums[g, v] += x[i, v]
            for w in range(v + 1):
                moments[g, v, w] += x[i, v] * x[i, w]
    for g in range(n_folds):
        sums[n_folds] += sums[g]
        moments[n_folds] += moments[g]
    return moments, sums, counts


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def _cholesky(A):  # pragma: no cover - compiled
    """Lower factor in place; the diagonal holds inverses."""
    m = len(A)
    for i in range(m):
        for j in range(i + 1):
            entry = A[i, j]
            for p in range(j):
                entry -= A[i, p] * A[j, p]
            A[i, j] = entry * A[j, j] if i > j else 1.0 / np.sqrt(entry)


@numba.njit(cache=True, fastmath=True, error_model="numpy")
def _solve(L, b):  # pragma: no cover - compiled
    """Solve L Lᵀ x = b in place."""
    m = len(L)
    for i in range(m):
        entry = b[i]
        for p in range(i):
            entry -= L[i, p] * b[p]
        b[i] = entry * L[i, i]
    for i in range(m - 1, -1, -1):
        b[i] *= L[i, i]
        for p in range(i):
            b[p] -= L[i, p] * b[i]


# --- values and scores ------------------------------------------------------------------------


class Scores(NamedTuple):
    """Scores of some sets (number of sets, 1 + B), the true labelling first."""

    compared: np.ndarray  # equal accuracies ordered by their margins
    observed: np.ndarray  # (number of sets,) of the true labels, as reported


def neighborhood_scores(
    X: np.ndarray,
    near: Neighborhoods,
    centers: np.ndarray,
    labels: Labellings,
    score: str,
    alpha: float,
) -> Scores:
    """Score some neighbourhoods under all labellings."""
    n, n_labellings = labels.codes.shape
    width = 1 if labels.n_classes == 2 else labels.n_classes
    at_once = max(1, BUFFER // (4 * n * n))
    scores = np.empty((len(centers), n_labellings))
    margins = np.empty((len(centers), n_labellings if score == "accuracy" else 0))
    for start in range(0, len(centers), at_once):
        part = operators(X, near, centers[start : start + at_once], labels.fold, alpha)
        per_block = max(1, BUFFER // (4 * n * width * len(part)))
        for first in range(0, n_labellings, per_block):
            block = slice(first, min(first + per_block, n_labellings))
            here = slice(start, start + at_once)
            scores[here, block], more = _scored(part, labels, block, score)
            if score == "accuracy":
                margins[here, block] = more
    if score == "accuracy":
        return Scores(ordered(scores, margins, n), scores[:, 0].copy())
    scores = standardized(scores) if score == "margin" else scores
    return Scores(scores, scores[:, 0])


def ordered(accuracies: np.ndarray, margins: np.ndarray, n: int) -> np.ndarray:
    """Accuracies of n scans with less than a quarter of a scan added or taken by the margin.

    >>> found = ordered(np.array([[0.5, 1.0, 1.0]]), np.array([[9.0, 1.0, -1.0]]), 4)
    >>> np.argsort(found[0]).tolist(), bool(abs(found - [0.5, 1, 1]).max() < 1 / 16)
    ([0, 2, 1], True)
    """
    return accuracies + np.tanh(standardized(margins) / SPREADS) / (4 * n)


def _scored(
    part: np.ndarray, labels: Labellings, block: slice, score: str
) -> tuple[np.ndarray, np.ndarray | None]:
    """Scores of a block of labellings and, with accuracies, margins."""
    n, width = len(labels.fold), labels.columns.shape[1] // labels.codes.shape[1]
    wide = slice(block.start * width, block.stop * width)
    values = part.reshape(-1, n) @ np.ascontiguousarray(labels.columns[:, wide])
    values = values.reshape(len(part), n, -1)
    bias = np.ascontiguousarray(labels.bias[:, wide])
    tie = SINGLE * np.abs(part).sum(axis=2).max(axis=1)
    out = np.zeros((len(part), block.stop - block.start), dtype=np.float32)
    if score == "accuracy" and width == 1:
        signs = np.ascontiguousarray(labels.columns[:, wide])
        margins = np.zeros_like(out)
        _accuracies(values, bias, labels.fold, signs, tie, out, margins)
        return out, margins
    codes, kind = np.ascontiguousarray(labels.codes[:, block]), SCORES.index(score)
    given = values, bias, labels.fold, codes, labels.n_classes, tie
    _scores(*given, kind, labels.pooled, out)
    if score != "accuracy":
        return out, None
    margins = np.zeros_like(out)
    _scores(*given, SCORES.index("margin"), labels.pooled, margins)
    return out, margins


def standardized(margins: np.ndarray) -> np.ndarray:
    """Margins divided by their standard deviation over labellings; 0 where they do not vary."""
    spread = margins.std(axis=1, keepdims=True)
    return np.divide(margins, spread, out=np.zeros_like(margins), where=spread > 0)


def predicted(operator: np.ndarray, labels: Labellings) -> np.ndarray:
    """Held-out values of the true labels, (n, K); ±half of them for two classes."""
    width = 1 if labels.n_classes == 2 else labels.n_classes
    values = operator @ labels.columns[:, :width] + labels.bias[labels.fold, :width]
    return np.hstack([-values / 2, values / 2]) if width == 1 else values


@numba.njit(cache=True)
def _accuracies(values, bias, fold, signs, tie, out, margins):  # pragma: no cover - compiled
    """Two classes: right where the value has the sign of the label; the margin is their product."""
    n_centers, n, n_labellings = values.shape
    for c in range(n_centers):
        for i in range(n):
            g = fold[i]
            for b in range(n_labellings):
                agreement = (values[c, i, b] + bias[g, b]) * signs[i, b]
                out[c, b] += 1.0 if agreement > tie[c] else (0.5 if agreement >= -tie[c] else 0.0)
                margins[c, b] += agreement
        for b in range(n_labellings):
            out[c, b] /= n
            margins[c, b] /= n


@numba.njit(cache=True)
def _scores(values, bias, fold, codes, n_classes, tie, kind, pooled, out):  # pragma: no cover
    """Score any number of classes by accuracy (0), AUC (1) or margin (2)."""
    n_centers, n, _ = values.shape
    n_labellings = codes.shape[1]
    v = np.empty((n, n_classes))
    for c in range(n_centers):
        for b in range(n_labellings):
            for i in range(n):
                if n_classes == 2:
                    half = 0.5 * (values[c, i, b] + bias[fold[i], b])
                    v[i, 0], v[i, 1] = -half, half
                else:
                    for k in range(n_classes):
                        column = b * n_classes + k
                        v[i, k] = values[c, i, column] + bias[fold[i], column]
            if kind == 1:
                out[c, b] = _area(v, codes[:, b], fold, pooled, tie[c])
            else:
                out[c, b] = _mean_over_scans(v, codes[:, b], kind, tie[c])


@numba.njit(cache=True)
def _mean_over_scans(v, code, kind, tie):  # pragma: no cover - compiled
    n, n_classes = v.shape
    total = 0.0
    for i in range(n):
        own, highest, others, ties = v[i, code[i]], -np.inf, 0.0, 1
        for k in range(n_classes):
            if k != code[i]:
                highest = max(highest, v[i, k])
                others += v[i, k]
                ties += abs(v[i, k] - own) <= tie
        if kind == 2:
            total += own - others / (n_classes - 1)
        elif own >= highest - tie:
            total += 1.0 / ties
    return total / n


@numba.njit(cache=True)
def _area(v, code, fold, pooled, tie):  # pragma: no cover - compiled
    n, n_classes = v.shape
    total, counted = 0.0, 0
    for k in range(1 if n_classes == 2 else 0, n_classes):
        won, pairs = 0.0, 0
        for i in range(n):
            if code[i] != k:
                continue
            for j in range(n):
                if code[j] != k and (pooled or fold[i] == fold[j]):
                    pairs += 1
                    ahead = v[i, k] - v[j, k]
                    won += 1.0 if ahead > tie else (0.5 if ahead >= -tie else 0.0)
        if pairs > 0:
            total += won / pairs
            counted += 1
    return total / counted if counted > 0 else 0.5
