"""Spatially regularised boosting: discriminative voxels are spatially compact."""

from voxprior.models.boosting.controls import Controls
from voxprior.models.boosting.coordinate_descent import Boosted, Settings, boost
from voxprior.models.boosting.estimator import SpatialBoostingClassifier

__all__ = ["Boosted", "Controls", "Settings", "SpatialBoostingClassifier", "boost"]
