"""Gaussian processes and relevance vectors: smooth or sparse functions chosen by evidence."""

from voxprior.models.gaussian.estimator import GPClassifier
from voxprior.models.gaussian.regressor import GPRegressor
from voxprior.models.gaussian.relevance_estimator import RVMClassifier, RVMRegressor

__all__ = ["GPClassifier", "GPRegressor", "RVMClassifier", "RVMRegressor"]
