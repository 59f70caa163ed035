"""Neighbourhoods and regions of images: the searchlight and the region test of a `Decoder`.

The mathematics are in `voxprior.mapping`; here images are read as for decoding, and what was found
becomes maps and tables that can be written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from voxprior.decoder.reading import ImageReader
from voxprior.errors import InputError, option
from voxprior.images import Dataset, ImageSpace, write_maps
from voxprior.mapping import (
    Atlas,
    RegionTest,
    SearchlightResult,
    read_atlas,
    region_test,
    searchlight,
)

__all__ = ["LocalMaps", "searchlight_maps", "write_regions", "write_searchlight"]


class LocalMaps(ImageReader):
    """What a `Decoder` finds in neighbourhoods and regions of images that it reads."""

    mesh: Any
    verbose: int
    random_state: int

    def searchlight(
        self, images, y=None, groups=None, *, radius: float = 6.0, **options: Any
    ) -> SearchlightResult:
        """Decode the voxels around every voxel, tested over the whole map.

        Parameters
        ----------
        images, y, groups
            As in `fit`.
        radius : float
            How far neighbourhoods reach, in millimetres.
        **options
            As in `voxprior.mapping.searchlight`: units, score, estimator, n_permutations, ...

        Returns
        -------
        SearchlightResult
            Its maps have one value per voxel of ``read(images).space``; `searchlight_maps` names
            them, ``read(images).images.inverse_transform`` makes an image of each.
        """
        data = self._local_data(images, y, groups)
        given = self._local_options(data) | {"radius": radius} | options
        return searchlight(data.X, data.y, data.groups, data.space, **given)

    def region_test(
        self, images, y=None, groups=None, *, atlas: Any, names: Any = None, **options: Any
    ) -> RegionTest:
        """Decode every region of an atlas, tested over all regions.

        Parameters
        ----------
        images, y, groups
            As in `fit`.
        atlas : path, image, nilearn atlas, Atlas, or array of shape (V,)
            Which voxels belong to which region, see `voxprior.mapping.read_atlas`.
        names : path, DataFrame, mapping or sequence, optional
            Names of the atlas values.
        **options
            As in `voxprior.mapping.region_test`: score, estimator, n_permutations, ...
        """
        data = self._local_data(images, y, groups)
        if not isinstance(atlas, Atlas | np.ndarray):
            places = data.images or ImageSpace(data.space)
            atlas, names = read_atlas(atlas, places, names, self.mesh), None
        given = self._local_options(data) | {"names": names, "space": data.space} | options
        return region_test(data.X, data.y, data.groups, atlas, **given)

    def _local_data(self, images, y, groups) -> Dataset:
        data = self._labelled(images, y, groups, None)
        if data.covariates is not None:
            raise InputError(
                "Neighbourhoods and regions are decoded without covariates",
                remedy=f"Leave out {option('covariates')}; map_test takes them as nuisance",
            )
        return data

    def _local_options(self, data: Dataset) -> dict[str, Any]:
        running = {"n_jobs": self.n_jobs, "progress": bool(self.verbose)}
        return {"blocks": data.blocks, "random_state": self.random_state} | running


def searchlight_maps(found: SearchlightResult) -> dict[str, np.ndarray]:
    """Maps of a searchlight by name: the score, -log10 of the corrected p, and what is claimed."""
    name = found.name.replace(" ", "_")
    return {
        name: found.score,
        "minus_log10_p": -np.log10(found.p_fwer),
        f"{name}_significant": np.where(found.significant, found.score, 0.0),
    }


def write_searchlight(found: SearchlightResult, images: ImageSpace, folder: Path) -> list[Path]:
    """Write the maps of a searchlight as images into a folder."""
    files = write_maps(searchlight_maps(found), images, folder)
    return [path for paths in files.values() for path in paths]


def write_regions(found: RegionTest, path: Path) -> None:
    """Write the table of regions, tab-separated."""
    found.table.to_csv(path, sep="\t", index=False, float_format="%.6g")
