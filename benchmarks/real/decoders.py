"""Who is compared: the families, and the stock decoders that users would take instead.

Stock decoders see the principal components of voxels scaled by the training scans: the same answers
in a fraction of the time where a penalty does not depend on directions, and better ones for LDA,
whose probabilities are 0 or 1 on all voxels (log-loss 6.9 on noise with two scans per class).
``None`` stands for "cannot be fitted": most need two scans of every class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import euclidean_distances
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.real.tasks import Scans
from voxprior import registry

# Families that are slow, or whose assumption is far from most tasks, run on few tasks.
SLOW = ("boosting", "network", "fields", "rvm")
# Largest problems of decoders whose time grows with the cube of scans, many times over.
MOST_SCANS = {"GPC (sklearn)": 60}


def _inner(scans: Scans) -> Any:
    """Folds inside the training scans, by group where there are some; None where there are none."""
    fewest = int(np.unique(scans.y, return_counts=True)[1].min())
    if scans.groups is not None and len(np.unique(scans.groups)) > 1:
        folds = GroupKFold(min(5, len(np.unique(scans.groups))))
        made = list(folds.split(scans.X, scans.y, scans.groups))
    elif fewest > 1:
        made = list(StratifiedKFold(min(5, fewest)).split(scans.X, scans.y))
    else:
        return None
    n_classes = len(np.unique(scans.y))
    return made if all(len(np.unique(scans.y[i])) == n_classes for i, _ in made) else None


def _rotated(model: Any) -> Pipeline:
    kept = PCA(1 - 1e-9, svd_solver="full")  # all but what is rounding
    return make_pipeline(StandardScaler(), kept, model)


def logistic(scans: Scans) -> Any:
    model, folds = LogisticRegression(max_iter=2000), _inner(scans)
    if folds is not None:
        grid = {"C": 10.0 ** np.arange(-5, 3)}
        model = GridSearchCV(model, grid, scoring="neg_log_loss", cv=folds)
    return _rotated(model)


def svm(scans: Scans) -> Any:
    folds = _inner(scans)
    if folds is None:
        return None
    return _rotated(CalibratedClassifierCV(SVC(kernel="linear"), ensemble=False, cv=folds))


def lda(scans: Scans) -> Any:
    if len(scans.y) <= len(np.unique(scans.y)):
        return None
    return _rotated(LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"))


def gpc(scans: Scans) -> Any:
    kernel = ConstantKernel(1.0 / scans.X.shape[1], (1e-8, 1e3)) * DotProduct(0.0, "fixed")
    return _rotated(GaussianProcessClassifier(kernel))


class PlainCentroid(NearestCentroid):
    """Nearest centroid whose decision values are distances, not scaled by component."""

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Squared distances to centroids with their sign changed, less their mean."""
        near = -(euclidean_distances(X, self.centroids_) ** 2)
        return near[:, 1] - near[:, 0] if near.shape[1] == 2 else near - near.mean(axis=1)[:, None]


def centroid(scans: Scans) -> Any:
    folds = _inner(scans)
    if folds is None:
        return None
    return _rotated(CalibratedClassifierCV(PlainCentroid(), ensemble=False, cv=folds))


def family(name: str) -> Callable[[Scans], Any]:
    def make(scans: Scans) -> Any:
        model = registry.model(name).make(scans.space)
        return (
            model
            if getattr(model, "scales_voxels", False)
            else make_pipeline(StandardScaler(), model)
        )

    return make


STOCK: dict[str, Callable[[Scans], Any]] = {
    "logistic": logistic, "LDA": lda, "SVM (Platt)": svm, "centroid": centroid,
    "GPC (sklearn)": gpc,
}  # fmt: skip
FAMILIES = {name: family(name) for name in registry.models("classifier", "family")}
