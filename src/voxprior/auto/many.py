"""The automatic classifier for many labellings of the same scans, as a permutation test needs it.

Labels change neither the views of the scans, nor their Gram matrices, nor the eigenvectors of
these, of all training scans and of all but a fold. What is left for each labelling are C x C
matrices (`voxprior.auto.discriminant`) and the posterior of the weights; labellings that share
their left-out folds go through the same matrix products. They share them where whole groups are
left out. Without groups folds are made by class, every labelling has its own, and the eigenvectors
of all training scans alone are shared.

| symbol | variable | shape |
|---|---|---|
| labellings of n training scans | `Y` | (n, B) |
| log p(c given x) of m other scans | by `ManyClassifiers.decision_function` | (m, B, C) |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import column_or_1d

from voxprior.auto.discriminant import Paths, Spectrum, spectrum_of
from voxprior.auto.folds import Folds, design_of
from voxprior.auto.members import fit_discriminants, with_nothing
from voxprior.auto.views import Views, crosses_of, views_of
from voxprior.auto.weights import Grid, mixture, posterior_of
from voxprior.labels import refuse_unclear

__all__ = ["Alike", "ManyClassifiers", "Prepared", "group_numbers", "known_groups"]

# Numbers in Gram matrices that are kept, 64 MB.
MOST_KEPT = 2**23
# Probability of a class that no training scan had.
LEAST = 1e-15


class Prepared(NamedTuple):
    """Checked scans (n, p), group numbers, the smoother, and views by training rows."""

    scans: NDArray
    groups: NDArray | None
    smoother: csr_array | None
    known: dict[bytes, Views]

    def views_of(self, rows: NDArray) -> Views:
        """Views of some of the scans, kept for other labels of the same ones."""
        key = np.ascontiguousarray(rows).tobytes()
        if key not in self.known:
            kept = sum(gram.size for views in self.known.values() for gram in views.grams)
            if kept > MOST_KEPT:
                self.known.clear()
            groups = group_numbers(self.groups, rows)
            self.known[key] = views_of(self.scans[rows], groups, self.smoother)
        return self.known[key]


class Alike(NamedTuple):
    """Fitted labellings that share classes and left-out folds."""

    columns: NDArray[np.intp]  # which of all labellings
    classes: NDArray[np.intp]  # which of all classes
    paths: list[Paths]
    grids: list[Grid]
    posterior: list[NDArray[np.float64]]
    log_prior: NDArray[np.float64]
    n_effective: NDArray[np.float64]

    def log_probabilities(self, crosses: list[NDArray]) -> NDArray[np.float64]:
        """Log p (m, B, C) of scans, given their inner products with the training scans by view."""
        scores = [one for paths, cross in zip(self.paths, crosses) for one in paths.scores(cross)]
        if len(self.grids) > len(scores):
            scores.append(np.zeros_like(scores[0]))  # nothing there
        known = (self.grids, self.posterior, self.log_prior, self.n_effective)
        return np.log(mixture(scores, *known))


class ManyClassifiers(NamedTuple):
    """Automatic classifiers of the same training scans, one per labelling."""

    prepared: Prepared
    rows: NDArray[np.intp]
    shape: tuple[int, int]  # labellings, classes
    fits: list[Alike]

    @classmethod
    def fitted(cls, prepared: Prepared, rows: NDArray, Y: NDArray, n_classes: int):
        """Fit class codes Y (n, B) of training scans."""
        views, groups = prepared.views_of(rows), group_numbers(prepared.groups, rows)
        spectra = [spectrum_of(gram) for gram in views.grams]
        fits = [
            _fit_alike(views, spectra, Y, *alike) for alike in _alike(Y, groups, views.centered)
        ]
        return cls(prepared, rows, (Y.shape[1], n_classes), fits)

    def decision_function(self, rows: NDArray) -> NDArray[np.float64]:
        """Log-odds (m, B) of class 1, or beyond two classes log-probabilities (m, B, C)."""
        views, scans = self.prepared.views_of(self.rows), self.prepared.scans
        found = crosses_of(scans[rows], scans[self.rows], views.voxels, views.names)
        crosses = [cross.gram for cross in found]
        values = np.full((len(rows), *self.shape), np.log(LEAST))
        for fit in self.fits:
            logs = fit.log_probabilities(crosses) if len(fit.classes) > 1 else 0.0
            values[:, fit.columns[:, None], fit.classes] = logs
        return values[..., 1] - values[..., 0] if self.shape[1] == 2 else values


def _alike(Y: NDArray, groups: NDArray | None, centered: bool) -> Iterator[tuple]:
    """Labellings that share classes and folds: which, their classes, folds and n_eff."""
    found: dict[tuple, list] = {}
    for column, labels in enumerate(Y.T):
        classes, codes = np.unique(labels, return_inverse=True)
        design = design_of(codes, len(classes), groups, centered)
        key = (classes.tobytes(), *(test.tobytes() for _, test in design.folds))
        found.setdefault(key, []).append((column, classes, design))
    for same in found.values():
        columns = np.array([column for column, _, _ in same])
        worth = np.array([design.n_effective for _, _, design in same])
        _, classes, design = same[0]
        yield columns, classes, design.folds, worth


def _fit_alike(
    views: Views,
    spectra: list[Spectrum],
    Y: NDArray,
    columns: NDArray,
    classes: NDArray,
    folds: Folds,
    worth: NDArray,
) -> Alike:
    """Fit the columns of Y that share their folds; a single class needs no fit."""
    n_classes, codes = len(classes), np.searchsorted(classes, Y[:, columns])
    if n_classes == 1:
        return Alike(columns, classes, [], [], [], np.zeros((len(columns), 1)), worth)
    members = with_nothing(fit_discriminants(views, spectra, codes, n_classes, folds))
    counts = (codes[..., None] == np.arange(n_classes)).sum(axis=0)
    log_prior = np.log(counts / len(codes))
    known = (members.left_out, members.grids, members.mass, members.codes)
    posterior = posterior_of(*known, log_prior, worth)
    return Alike(columns, classes, members.paths, members.grids, posterior, log_prior, worth)


def known_groups(X: NDArray, groups: Any) -> NDArray[np.intp] | None:
    """Groups of scans by number in sorted order, or None where they carry no information."""
    if groups is None:
        return None
    groups = column_or_1d(groups)
    check_consistent_length(X, groups)
    refuse_unclear("groups", groups)
    return group_numbers(groups, np.arange(len(groups)))


def group_numbers(groups: NDArray | None, rows: NDArray) -> NDArray[np.intp] | None:
    """Groups of some scans by number; None for a single one, which carries no information."""
    if groups is None:
        return None
    names, numbers = np.unique(groups[rows], return_inverse=True)
    return numbers if len(names) > 1 else None
