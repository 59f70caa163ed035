"""Files to arrays and back: volumes, surfaces, trials, confounds, tables, StarPlus.

Everything here ends in a `Dataset` (X, y, groups, covariates, space) or in an image file. Names are
imported on first use, so that ``import voxprior.images`` costs neither nibabel nor nilearn.
"""

from importlib import import_module

_MODULE_OF = {
    "Cleaning": "voxprior.images.cleaning",
    "Dataset": "voxprior.images.dataset",
    "ImageSpace": "voxprior.images.imagespace",
    "ScanPreparation": "voxprior.images.preparation",
    "fit_image_space": "voxprior.images.fitting",
    "join_table": "voxprior.images.tables",
    "load_differences": "voxprior.images.maps",
    "load_haxby": "voxprior.images.haxby",
    "load_maps": "voxprior.images.maps",
    "load_runs": "voxprior.images.runs",
    "pack_maps": "voxprior.images.packing",
    "load_starplus": "voxprior.images.starplus",
    "read_confounds": "voxprior.images.confounds",
    "read_table": "voxprior.images.tables",
    "scaled_by_training": "voxprior.images.cleaning",
    "write_map": "voxprior.images.write",
    "write_maps": "voxprior.images.write",
}

__all__ = [*_MODULE_OF]


def __getattr__(name: str):
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'voxprior.images' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
