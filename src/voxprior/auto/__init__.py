"""Estimators that need no choice: the data decide, and they say what was decided."""

from voxprior.auto.classifier import AutoClassifier
from voxprior.auto.regressor import AutoRegressor

__all__ = ["AutoClassifier", "AutoRegressor"]
