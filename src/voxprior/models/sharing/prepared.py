"""Fits to many labellings of the same scans: what labels do not change is made once.

A permutation test fits the same scans again and again under other labels. Their check, the groups
of voxels and the sketch of the examples stay the same, and class statistics need only the row
numbers of a fold, not a copy of its scans:

    prepared = model.prepare(X)
    model.fit_prepared(prepared, rows, y)         # the same model as model.fit(X[rows], y)

======== ============ =========== ====================================================
symbol   variable     shape       meaning
======== ============ =========== ====================================================
X        ``scans``    (n, J)      checked scans; the user's own array where it will do
         ``sketch``   (n, m)      scans at the features that calibration looks at
G        ``groups``   (V, V) CSR  members of each voxel's group
======== ============ =========== ====================================================
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from voxprior.models.sharing.calibration import Sketch, sketch_features
from voxprior.models.sharing.groups import members, voxel_groups
from voxprior.models.sharing.statistics import class_statistics


class Prepared(NamedTuple):
    """What a fit needs of the scans whatever their labels."""

    scans: np.ndarray
    sketch: np.ndarray
    groups: sparse.csr_array


class PreparedFit:
    """The two methods by which validation reuses work between labellings."""

    calibration: str | None

    def prepare(self, X) -> Prepared:
        """Check scans (n, J) and find all that labels do not change, once for many fits.

        Examples
        --------
        >>> import numpy as np
        >>> from voxprior import FeatureSharingNB, VoxelSpace
        >>> X = np.random.default_rng(0).normal(size=(6, 8))
        >>> model = FeatureSharingNB(VoxelSpace.grid((8,)))
        >>> prepared, y, train = model.prepare(X), np.array([0, 1, 0, 1]), np.array([0, 2, 3, 5])
        >>> again = model.fit_prepared(prepared, train, y).theta_
        >>> np.array_equal(again, model.fit(X[train], y).theta_)
        True
        """
        model: Any = self
        model._validate_params()
        X = validate_data(model, X, dtype=[np.float64, np.float32])
        groups = voxel_groups(
            model.means, model.space, X.shape[1], model.connectivity, model.radius
        )
        features = sketch_features(0 if self.calibration is None else X.shape[1])
        return Prepared(X, np.ascontiguousarray(X[:, features]), members(groups))

    def fit_prepared(self, prepared: Prepared, rows, y):
        """Fit to some rows of the prepared scans; the same model as ``fit(X[rows], y)``.

        Parameters
        ----------
        prepared : Prepared
            What :meth:`prepare` returned for an estimator of the same parameters.
        rows : integer array of shape (m,)
            Which scans train.
        y : array of shape (m,)
            Their labels.
        """
        model: Any = self
        rows = np.asarray(rows)
        codes = model._name_classes(y)
        model.n_features_in_ = prepared.scans.shape[1]
        statistics = class_statistics(prepared.scans, codes, len(model.classes_), rows)
        model._remember(statistics, Sketch(prepared.sketch[rows], codes))
        model._settle(prepared.groups)
        return self
