"""Feature sharing: neighbouring voxels lend each other means, all voxels share a noise level."""

from voxprior.models.sharing.estimator import FeatureSharingNB
from voxprior.models.sharing.few_shot import TimeAverage, few_shot_decoder

__all__ = ["FeatureSharingNB", "TimeAverage", "few_shot_decoder"]
