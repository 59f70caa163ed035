"""Feature sharing: neighbouring voxels lend each other means, all voxels share a noise level."""

from voxprior.models.sharing.estimator import FeatureSharingNB

__all__ = ["FeatureSharingNB"]
