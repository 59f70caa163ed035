"""The inverse-tree Bayesian network: a small parent set of voxels drives the class."""

from voxprior.models.network.estimator import InverseTreeClassifier

__all__ = ["InverseTreeClassifier"]
