"""few_shot_decoder: what decodes best from two runs, assembled from its parts.

    1. whiten    remove the noise covariance of the training runs' volumes, learned without labels
    2. average   one pattern per trial: the mean over its time points
    3. classify  Gaussian naive Bayes with moderated variances shared over classes, means shared
                 between neighbouring voxels (without a space: drawn toward the run mean), and
                 calibrated probabilities

Trials must come with each run's own drift and mean removed (linear detrending, then centring on the
mean over the run), whatever the classifier: without it every classifier fails.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from voxprior.models.base import VoxelTransformer
from voxprior.models.noise import NoiseWhitening
from voxprior.models.sharing.estimator import FeatureSharingNB
from voxprior.space import VoxelSpace


def few_shot_decoder(
    space: VoxelSpace | None = None, volumes: Any = None, whiten: bool = True, **changes: Any
) -> Pipeline:
    """Assemble whitening, averaging and feature sharing for a handful of trials.

    Parameters
    ----------
    space : VoxelSpace, optional
        Where the voxels are. Without one a sample is a single volume and has no neighbours.
    volumes : array of shape (n_volumes, V), optional
        Volumes of the training runs, rest included, cleaned as the trials were; about a hundred
        are needed. Without them the trials' own time points are used.
    whiten : bool
        False leaves whitening out, for data that are whitened already or have too few volumes.
    **changes
        Parameters of :class:`FeatureSharingNB` to change.

    Returns
    -------
    sklearn.pipeline.Pipeline
        Steps ``whiten``, ``average`` and ``classify``.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior import VoxelSpace
    >>> from voxprior.models.sharing import few_shot_decoder
    >>> rng = np.random.default_rng(0)
    >>> space = VoxelSpace.grid((5, 5))
    >>> pattern, y = rng.normal(size=25), np.array([0, 1] * 4)
    >>> X = rng.normal(size=(8, 9 * 25)) + np.where(y, 1, -1)[:, None] * np.tile(pattern, 9)
    >>> few_shot_decoder(space).fit(X, y).score(X, y)
    1.0
    """
    steps: list[tuple[str, Any]] = [("whiten", NoiseWhitening(space, volumes))] if whiten else []
    changes = {"shrinkage": "james-stein" if space is None else None} | changes
    steps += [("average", TimeAverage(space)), ("classify", FeatureSharingNB(space, **changes))]
    return Pipeline(steps)


class TimeAverage(VoxelTransformer):
    """Average the time points of time-major samples: (n, T V) to (n, V).

    Parameters
    ----------
    space : VoxelSpace, optional
        Gives the number V of voxels. Without one a sample is a single volume and stays as it is.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior import VoxelSpace
    >>> TimeAverage(VoxelSpace.grid((2,))).fit_transform(np.array([[1.0, 2.0, 3.0, 6.0]]))
    array([[2., 4.]])
    """

    words = "averaging over time"
    _parameter_constraints: ClassVar[dict] = {"space": [VoxelSpace, None]}

    def __init__(self, space: VoxelSpace | None = None):
        self.space = space

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Check that the features are whole volumes."""
        self._checked_scans(X)
        self.n_voxels_ = self._n_voxels()
        return self

    def transform(self, X):
        """Mean over time points, summed in float64."""
        X = self._new_scans(X)
        return X.reshape(len(X), -1, self.n_voxels_).mean(axis=1, dtype=np.float64)

    def get_feature_names_out(self, input_features=None):
        """``voxel0``, ``voxel1``, ..."""
        check_is_fitted(self)
        return np.array([f"voxel{v}" for v in range(self.n_voxels_)], dtype=object)
