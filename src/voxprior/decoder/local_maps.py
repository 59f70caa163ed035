"""Neighbourhoods and regions of images: the searchlight and the region test of a `Decoder`.

The mathematics are in `voxprior.mapping`; here images are read as for decoding, and what was found
becomes maps and tables that can be written.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from voxprior.decoder.decoding import PLAIN
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
from voxprior.mapping.local_test import check_groups
from voxprior.mapping.vicinity import neighborhoods
from voxprior.report.local import light_headline, light_section, region_headline, region_section
from voxprior.validation.result import plain
from voxprior.writing import write_whole

__all__ = ["LocalMaps", "Located", "searchlight_maps", "write_regions"]


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

    def places(
        self, data: Dataset, radius: float | None, units: str, atlas: Any, names: Any
    ) -> Places:
        """Refuse, before anything long, what cannot be decoded; read the atlas."""
        if radius is not None or atlas is not None:
            check_groups(self._local_data(data, None, None).groups)
        if radius is not None:
            neighborhoods(data.space, radius, units)
        if atlas is not None:
            atlas = read_atlas(atlas, data.images or ImageSpace(data.space), names, self.mesh)
        return Places(radius, units, atlas)

    def locate(self, data: Dataset, places: Places, **options: Any) -> Located | None:
        """Test neighbourhoods of a radius, regions of an atlas, or both, where asked for."""
        light = regions = None
        if places.radius is not None:
            reach: dict[str, Any] = {"radius": places.radius, "units": places.units}
            light = self.searchlight(data, **reach, **options)
        if places.atlas is not None:
            regions = self.region_test(data, atlas=places.atlas, **options)
        return Located(data, light, regions) if light or regions else None

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


class Places(NamedTuple):
    """What to decode besides single voxels: neighbourhoods of a radius, regions, or both."""

    radius: float | None
    units: str
    atlas: Atlas | None


@dataclass(frozen=True, eq=False)
class Located:
    """What was found in neighbourhoods, in regions, or in both."""

    data: Dataset
    light: SearchlightResult | None = None
    regions: RegionTest | None = None

    def headlines(self) -> list[str]:
        """Report the outcome of each, and what a small p would claim."""
        told, says = [], "What a small p says:"
        if self.light is not None:
            told.append(f"{light_headline(self.light)} {says} {self.light.hypothesis}")
        if self.regions is not None:
            told.append(f"{region_headline(self.regions)} {says} {self.regions.hypothesis}")
        return told

    def sections(self) -> list[dict[str, Any]]:
        """Sections of a page."""
        shown = []
        if self.light is not None:
            shown.append(light_section(self.light))
        if self.regions is not None:
            shown.append(region_section(self.regions))
        return shown

    def summary(self) -> dict[str, Any]:
        """Return what was found in JSON's types, without the maps."""
        found: dict[str, Any] = {}
        if self.light is not None:
            n_significant = int(self.light.significant.sum())
            found["searchlight"] = self.light.told() | {"n_significant": n_significant}
        if self.regions is not None:
            table = self.regions.table.to_dict("records")
            found["regions"] = self.regions.told() | {"table": table}
        return plain(found)

    def write(self, folder: Path, maps: Path) -> None:
        """Write maps of the searchlight, and the table of regions, into folders that exist."""
        if self.light is not None:
            places = self.data.images or ImageSpace(self.data.space)
            named = {f"searchlight {k}": v for k, v in searchlight_maps(self.light).items()}
            write_maps(named, places, maps, PLAIN.maps(named))
        if self.regions is not None:
            write_regions(self.regions, folder / "regions.tsv")


def searchlight_maps(found: SearchlightResult) -> dict[str, np.ndarray]:
    """Maps of a searchlight by name: the score, -log10 of the corrected p, and what is claimed."""
    return {
        found.name: found.score,
        "logp": -np.log10(found.p_fwer),
        "significant": np.where(found.significant, found.score, 0.0),
    }


def write_regions(found: RegionTest, path: Path) -> None:
    """Write the table of regions, tab-separated."""
    write_whole(path, found.table.to_csv(sep="\t", index=False, float_format="%.6g"))
