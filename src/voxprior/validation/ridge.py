"""Ridge decoders of many labellings at once: what labels do not change is factorised once per fold.

With the Gram matrix C = XXᵀ, training scans T (k of them) and new scans E of a fold, centred by the
training scans,

    C̃ = C_TT centred,   C̃x = C_ET centred likewise,   R = (C̃ + λI)⁻¹
    values of the new scans for labels Y:   P = C̃x R (Y_T - mean) + mean                     (1)

is linear in the labels. With a penalty that labels do not decide, λ = α tr(C̃)/k, all folds and all
labellings are one product P = M Y (`ridge_operator`). With the penalty of highest evidence, anew
for every fold and labelling (`EvidenceRidge`), they are a few: on C̃ = U diag(s) Uᵀ of rank r, with
T = Uᵀ(Y_T - mean) and the noise variance at its best value,

    log evidence(λ) = - r/2 log Σ_i T_i²/(s_i + λ) - ½ Σ_i log(s_i + λ)                      (2)

for λ = e^-6, ..., e^6 times the mean of s. Two classes are labels ±1; of more each is one against
the rest, 1 and 0. The penalty is chosen from training scans alone.

| symbol | variable | shape |
|---|---|---|
| C | `gram` | (n, n) |
| C̃, C̃x | `inner`, `cross` | (k, k), (m, k) |
| U, s | `vectors`, `spectrum` | (k, r), (r,) |
| T | `rotated` | (r, B) |
| λ | `penalties` | (9,) |
| Y | `Y` | (n, B) |
| M | returned | (tested scans, n) |

Reference: D. J. C. MacKay, "Bayesian interpolation", Neural Computation 4 (1992) 415-447.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from voxprior.blocks import gram_matrix
from voxprior.errors import InputError

# Eigenvalues below this part of the largest are rounding.
NEGLIGIBLE = 1e-10
LOG_PENALTIES = np.linspace(-6.0, 6.0, 9)
# Numbers of a block of voxels that is converted at once.
BLOCK = 2**22


class CenteredGram(NamedTuple):
    """Inner products of training scans, and of new scans with them, all minus the training mean."""

    inner: np.ndarray  # (k, k)
    cross: np.ndarray  # (m, k)


def center_by_training(gram: np.ndarray, train: np.ndarray, test: np.ndarray) -> CenteredGram:
    """Centre the inner products of a fold by the mean of its training scans."""
    inner, cross = gram[np.ix_(train, train)], gram[np.ix_(test, train)]
    means = inner.mean(axis=0)
    total = means.mean()
    return CenteredGram(
        inner - means - means[:, None] + total,
        cross - means - cross.mean(axis=1, keepdims=True) + total,
    )


def ridge_operator(
    gram: np.ndarray, folds: Sequence[tuple[np.ndarray, np.ndarray]], alpha: float = 1.0
) -> np.ndarray:
    """M of (1): one row per tested scan, fold after fold; M @ Y are the held-out values of Y.

    Parameters
    ----------
    gram : array (n, n)
    folds : sequence of (train, test)
    alpha : float
        Penalty relative to the mean of the diagonal of the centred Gram matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.validation.ridge import ridge_operator
    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> half = (np.array([0, 1]), np.array([2, 3]))
    >>> ridge_operator(x @ x.T, [half], alpha=0.0) @ np.array([0.0, 1.0, 0.0, 0.0])
    array([2., 3.])
    """
    rows = []
    for train, test in folds:
        inner, cross = center_by_training(gram, train, test)
        spectrum, vectors = _spectrum(inner)
        weight = 1.0 / (spectrum + alpha * np.trace(inner) / len(train))
        by_label = (cross @ vectors * weight) @ vectors.T
        row = np.zeros((len(test), len(gram)))
        row[:, train] = by_label - by_label.mean(axis=1, keepdims=True) + 1.0 / len(train)
        rows.append(row)
    return np.concatenate(rows)


def _spectrum(inner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues that are not rounding, and their vectors."""
    spectrum, vectors = np.linalg.eigh(inner)
    kept = spectrum > NEGLIGIBLE * max(spectrum[-1], np.finfo(float).tiny)
    return spectrum[kept], vectors[:, kept]


class ManyRidges(NamedTuple):
    """Ridge decoders of one training set, one per column of labels."""

    gram: np.ndarray
    train: np.ndarray
    vectors: np.ndarray
    rotated: np.ndarray  # (r, B C) labels on the eigenvectors, divided by s + λ of their column
    mean: np.ndarray  # (B C,) of the training labels
    n_classes: int

    def decision_function(self, rows: np.ndarray) -> np.ndarray:
        """Values of other scans: (m, B) for numbers and two classes, (m, B, C) for more."""
        cross = center_by_training(self.gram, self.train, rows).cross
        values = cross @ self.vectors @ self.rotated + self.mean
        if self.n_classes <= 2:
            return values
        return values.reshape(len(values), -1, self.n_classes)


class EvidenceRidge:
    """Ridge whose penalty has the highest evidence, for many labellings at once.

    It offers what a family offers that can be tested in batch: ``prepare`` and ``fit_many``.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.validation.ridge import EvidenceRidge
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(12, 5)), np.tile([0, 1], 6)
    >>> Y = np.column_stack([y, 1 - y])
    >>> ridge, train = EvidenceRidge(), np.arange(8)
    >>> many = ridge.fit_many(ridge.prepare(X + 3 * y[:, None]), train, Y[train], 2)
    >>> (many.decision_function(np.arange(8, 12)) > 0).astype(int).T
    array([[0, 1, 0, 1],
           [1, 0, 1, 0]])
    """

    fit_many_words: ClassVar[str] = (
        "a ridge decoder with its penalty chosen by evidence in every fold and relabelling"
    )
    labels_at_once: ClassVar[int] = 4096

    def prepare(self, X: Any) -> np.ndarray:
        """Gram matrix of all scans, which must be finite."""
        gram = gram_matrix(X)
        if not np.isfinite(np.diag(gram)).all():
            raise InputError(
                "X contains NaN, infinity or values too large to be squared",
                remedy="Leave these voxels or scans out",
            )
        return gram

    def fit_many(
        self, prepared: np.ndarray, rows: np.ndarray, Y: np.ndarray, n_classes: int = 0
    ) -> ManyRidges:
        """Decoders of scans `rows` for the columns of Y: class codes, or numbers (no classes)."""
        columns = label_columns(Y, n_classes)
        mean = columns.mean(axis=0)
        columns -= mean
        inner, _ = center_by_training(prepared, rows, rows[:0])
        spectrum, vectors = _spectrum(inner)
        rotated = vectors.T @ columns
        if len(spectrum):
            penalties = np.exp(LOG_PENALTIES) * spectrum.mean()
            best = evidence(spectrum, rotated, penalties).argmax(axis=0)
            rotated /= spectrum[:, None] + penalties[best]
        return ManyRidges(prepared, rows, vectors, rotated, mean, n_classes)


def evidence(spectrum: np.ndarray, rotated: np.ndarray, penalties: np.ndarray) -> np.ndarray:
    """Log evidence (2) of every penalty (rows) and column of labels, up to a constant."""
    weights = 1.0 / (spectrum + penalties[:, None])
    # Labels that are all alike have nothing to explain: every penalty is then as good.
    explained = np.maximum(weights @ rotated**2, np.finfo(float).tiny)
    volume = np.log(weights).sum(axis=1)
    return 0.5 * volume[:, None] - 0.5 * len(spectrum) * np.log(explained)


def label_columns(Y: np.ndarray, n_classes: int) -> np.ndarray:
    """Labels to be fitted: numbers as they are, ±1 for two classes, beyond them C of 0 and 1 each.

    >>> label_columns(np.array([[0, 2], [1, 0]]), 3)
    array([[1., 0., 0., 0., 0., 1.],
           [0., 1., 0., 1., 0., 0.]])
    """
    Y = np.asarray(Y)
    if n_classes == 0:
        return Y.astype(float)
    if n_classes == 2:
        return 2.0 * (Y == 1) - 1.0
    return np.eye(n_classes)[Y].reshape(len(Y), -1)
