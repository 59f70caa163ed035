"""Estimators that need no choice: the data decide, and they say what was decided."""

from voxprior.auto.regressor import AutoRegressor

__all__ = ["AutoRegressor"]
