"""voxprior decodes brain images from handfuls of scans with prior-driven models.

Public names are imported on first use, so that ``import voxprior`` and the command line answer at
once.
"""

from importlib import import_module

from voxprior.compiled import keep_kernels_privately

__version__ = "0.2.0"

# Where public names live; the estimators of the families come from the registry.
_PUBLIC = {
    "VoxelSpace": "voxprior.space",
    "NoiseWhitening": "voxprior.models.noise",
    "ScanPreparation": "voxprior.images",
    "BayesDecision": "voxprior.decision",
    "Decoder": "voxprior.decoder",
    "max_memory": "voxprior.blocks",
}

keep_kernels_privately()


def _names() -> dict[str, str]:
    """Module of each public name."""
    from voxprior.registry import MODELS

    families = (one.target.split(":") for one in MODELS if one.role == "family")
    return _PUBLIC | {name: module for module, name in families}


def __getattr__(name: str):
    if name == "__all__":
        return [*_names(), "__version__"]
    module = _PUBLIC.get(name) or (None if name.startswith("_") else _names().get(name))
    if module is None:
        raise AttributeError(f"module 'voxprior' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_names(), "__version__"])
