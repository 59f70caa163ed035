"""voxprior decodes brain images from handfuls of scans with prior-driven models.

Public names are imported on first use, so that ``import voxprior`` and the command line answer at
once.
"""

from importlib import import_module

__version__ = "0.1.0"

_HOME = {
    "VoxelSpace": "voxprior.space",
    "FeatureSharingNB": "voxprior.models.sharing",
    "NoiseWhitening": "voxprior.models.noise",
    "RandomFieldClassifier": "voxprior.models.fields",
    "SpatialBoostingClassifier": "voxprior.models.boosting",
    "GPClassifier": "voxprior.models.gaussian",
    "GPRegressor": "voxprior.models.gaussian",
    "RVMClassifier": "voxprior.models.gaussian",
    "RVMRegressor": "voxprior.models.gaussian",
    "InverseTreeClassifier": "voxprior.models.network",
    "BayesDecision": "voxprior.decision",
    "Decoder": "voxprior.decoder",
}

__all__ = [*_HOME, "__version__"]


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module 'voxprior' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
