"""Compressed random fields: sparse conditional structure per class, learned by Kalman filtering."""

from voxprior.models.fields.estimator import RandomFieldClassifier

__all__ = ["RandomFieldClassifier"]
