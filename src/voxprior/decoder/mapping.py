"""Mapped: where in the brain classes differ, from images to maps, tables and a page.

`Decoder.map` makes it; `Mapped.write` leaves on disk

    report.html        the page
    figures/           its figures, as SVG and PNG
    map.json           what was found, without times
    maps/              statistic, effect, -log10 p and the statistic where it is significant
    clusters.tsv       clusters of significant voxels, with their peaks in peaks.tsv

The images are those that are decoded, read and cleaned in the same way. Means of runs are removed
by the test itself, and covariates are its nuisance variables. Scaling voxels by the training scans,
which a decoder does inside its folds, does not change a t and is not done.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from voxprior.decoder.decoding import PLAIN, Naming
from voxprior.decoder.facts import mean_image, subject
from voxprior.decoder.local_maps import Located
from voxprior.errors import InputError, option
from voxprior.images import Dataset, ImageSpace, write_maps
from voxprior.mapping import (
    Atlas,
    ClusterTables,
    MapTest,
    cluster_tables,
    group_map_test,
    map_test,
)
from voxprior.report.where import MapReport, headline, make_map_report, where_summary
from voxprior.validation.covariates import covariate_matrix
from voxprior.validation.result import plain
from voxprior.writing import write_whole

__all__ = ["Mapped", "map_data", "map_participants", "mapped"]


@dataclass(frozen=True, eq=False, repr=False)
class Mapped:
    """Outcome of `Decoder.map`.

    Attributes
    ----------
    test : MapTest
        What was found in every voxel.
    tables : ClusterTables
        Clusters of significant voxels and their peaks.
    data : Dataset
        The scans.
    title : str
        Heading of the page.
    located : Located or None
        Results of neighbourhoods or regions.
    atlas : Atlas or None
        Names of places.
    """

    test: MapTest
    tables: ClusterTables
    data: Dataset
    title: str
    located: Located | None = None
    atlas: Atlas | None = None

    @property
    def images(self) -> ImageSpace:
        """What the scans were read with."""
        return self.data.images or ImageSpace(self.data.space)

    def voxel_maps(self) -> dict[str, np.ndarray]:
        """Maps by name: statistic, effect and, of single voxels, -log10 p and what is significant.

        >>> from voxprior.images import Dataset
        >>> from voxprior.space import VoxelSpace
        >>> X = np.random.default_rng(0).normal(size=(12, 8)).astype("f4")
        >>> runs = np.repeat(range(6), 2)
        >>> data = Dataset(X, np.tile(["a", "b"], 6), VoxelSpace.grid((2, 2, 2)), groups=runs)
        >>> list(map_data(data).voxel_maps())
        ['statistic', 'effect', 'logp', 'significant']
        """
        test = self.test
        maps = {"statistic": test.statistic}
        if test.effect.ndim == 1:
            maps["effect"] = test.effect
        if test.p_fwer is not None:
            maps["logp"] = -np.log10(test.p_fwer)
            maps["significant"] = np.where(test.significant, test.statistic, 0.0)
        return maps

    @property
    def where(self) -> dict[str, Any]:
        """What the report says in plain types, and the maps that it shows."""
        return where_summary(self.test, self.tables)

    @property
    def report(self) -> MapReport:
        """The page."""
        data, cleaning = self.data, self.images
        done = {
            "scans": data.n_samples,
            "groups": None if data.groups is None else len(np.unique(data.groups)),
            "mask": cleaning.mask_words,
            "smoothing": f"{cleaning.smoothing_fwhm:g} mm FWHM"
            if cleaning.smoothing_fwhm
            else None,
            "covariates": None if data.covariates is None else ", ".join(data.covariates.columns),
            "left out": "; ".join(data.dropped) or None,
            "notes": "; ".join(data.notes) or None,
        }
        shown = {name: value for name, value in done.items() if value is not None}
        beside = [] if self.located is None else self.located.sections()
        ground = {"names": data.names, "mean": mean_image(data), "atlas": self.atlas}
        return make_map_report(self.title, self.where, beside, shown, data.space, **ground)

    def summary(self) -> dict[str, Any]:
        """Return what was found in JSON's types, without the maps."""
        tables = {name: table.to_dict("records") for name, table in self.tables._asdict().items()}
        found = {"title": self.title, "headline": headline(self.test), **self.test.summary()}
        located = {} if self.located is None else self.located.summary()
        return plain(found | tables | located)

    def write_maps(self, folder: Path, naming: Naming = PLAIN, prefix: str = "") -> None:
        """Write the maps as images, by their names after a prefix, the tables and map.json."""
        maps = {f"{prefix}{name}": values for name, values in self.voxel_maps().items()}
        write_maps(maps, self.images, folder / Path(naming.map).parent, naming.maps(maps))
        options: dict[str, Any] = {"sep": "\t", "index": False, "float_format": "%.6g"}
        for name, table in self.tables._asdict().items():
            write_whole(folder / naming.file(f"{name}.tsv"), table.to_csv(na_rep="n/a", **options))
        content = json.dumps(self.summary(), indent=1)
        write_whole(folder / naming.file("map.json"), content)

    def write(self, folder: Path, naming: Naming = PLAIN) -> None:
        """Write all files into a folder that exists."""
        self.write_maps(folder, naming)
        if self.located is not None:
            self.located.write(folder, folder / Path(PLAIN.map).parent)
        report = self.report
        report.save(folder / naming.file("report.html"))
        report.save_figures(folder / naming.file("figures"))

    def __repr__(self) -> str:
        return f"{self.title}\n{self.test!r}"

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def map_data(
    data: Dataset, atlas: Atlas | None = None, title: str | None = None, **options: Any
) -> Mapped:
    """Test the scans of a data set voxel by voxel; options are those of `map_test`."""
    nuisance = None if data.covariates is None else covariate_matrix(data.covariates)[0]
    options = {"nuisance": nuisance, "blocks": data.blocks, "space": data.space} | options
    found = map_test(_values(data), data.y, data.groups, **options)
    return mapped(data, found, atlas, title, options.get("radius"))


def map_participants(
    data: Dataset, atlas: Atlas | None = None, title: str | None = None, **options: Any
) -> Mapped:
    """Test over participants, who are the groups of a data set, where their classes differ."""
    found = group_map_test(_values(data), data.y, data.groups, space=data.space, **options)
    return mapped(data, found, atlas, title, options.get("radius"))


def _values(data: Dataset) -> np.ndarray:
    if data.n_times > 1:
        raise InputError(
            "A map test takes one value per voxel and scan",
            got=f"windows of {data.n_times} volumes",
            remedy=f"Take {option('unit', 'block')}",
        )
    return data.X


def mapped(
    data: Dataset,
    found: MapTest,
    atlas: Atlas | None = None,
    title: str | None = None,
    radius: float | None = None,
) -> Mapped:
    """Put what a test of a data set found with its tables and a title."""
    tables = ClusterTables(pd.DataFrame(), pd.DataFrame())  # of points that nothing joins
    if data.space.kind != "points" or radius is not None:
        tables = cluster_tables(found, data.space, atlas, radius)
    what = "maps against zero" if data.y is None else subject(data)
    return Mapped(found, tables, data, title or f"Map of {what}", atlas=atlas)
