"""Gaussian processes and relevance vectors: smooth or sparse functions chosen by evidence."""

from voxprior.models.gaussian.estimator import GPClassifier
from voxprior.models.gaussian.regressor import GPRegressor

__all__ = ["GPClassifier", "GPRegressor"]
