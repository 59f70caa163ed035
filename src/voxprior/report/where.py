"""The section of a report, or a page of its own, on where in the brain classes differ.

`where_summary` puts the outcome of a map test into plain types: the hypothesis in words, the maps
as they are to be shown, the tables of clusters and peaks. The page of a decoding holds it as one
section, its maps drawn as those of the model are, and the page of `voxprior map` as its first one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from voxprior import __version__
from voxprior.mapping import ClusterTables, MapTest
from voxprior.report.figures import Album
from voxprior.report.guide import guide
from voxprior.report.page import Report, page_of
from voxprior.report.shown import Told, show_maps
from voxprior.space import VoxelSpace
from voxprior.validation.result import plain

__all__ = ["MapReport", "headline", "make_map_report", "table_cells", "where_summary"]

# Rows of a table that a page shows; all are in the files next to it.
MOST_ROWS = 50


def where_summary(found: MapTest, tables: ClusterTables) -> dict[str, Any]:
    """Report what a map test found: plain types, and under ``maps`` those that are to be shown."""
    symbol, claims = found.symbol, found.p_fwer is not None
    line = " A line encloses what is significant." if claims else ""
    text, kept = f"{symbol}: {found.contrast}.{line}", found.significant
    maps = [Told(symbol, text, found.statistic, symbol, kept if claims else None)]
    if found.p_fwer is not None:
        caption = f"{symbol} where {found.words()} is reached; elsewhere nothing is claimed."
        significant = np.where(kept, found.statistic, 0.0)
        maps.append(Told("Significant voxels", caption, significant, symbol, kept, peaks=False))
        p = -np.log10(found.p_fwer)
        text = "−log10 of p corrected for all voxels: 1.3 is p = 0.05, 2 is p = 0.01."
        maps.append(Told("Corrected p", text, p, "−log10 p", kept, peaks=False))
    said = {
        "headline": headline(found),
        "hypothesis": found.hypothesis,
        "how": f"Tested against {found.relabellings()}. "
        f"The smallest possible p is {found.smallest_p:.2g}.",
        "notes": list(found.notes),
        "clusters": table_cells(tables.clusters),
        "peaks": table_cells(tables.peaks),
        "test": found.summary(),
    }
    return plain(said) | {"maps": maps}


def headline(found: MapTest) -> str:
    """Say in a sentence what came out.

    Counts of voxels are not given for a map without claims about single voxels.
    """
    whole = f"p of the whole map {found.p_global:.2g}"
    if found.control == "global":
        return f"The {found.name} map: {whole}."
    n, total = int(found.significant.sum()), len(found.statistic)
    number = "No voxel is" if n == 0 else f"{n:,} of {total:,} voxels are"
    return f"{number} significant ({found.words()}); {whole}."


def table_cells(table: pd.DataFrame, most: int = MOST_ROWS) -> dict[str, Any] | None:
    """First rows of a table as text; None of an empty one."""
    if not len(table):
        return None
    rows = [[_cell(value) for value in row] for row in table.head(most).to_numpy(object)]
    return {"columns": list(table.columns), "rows": rows, "of": len(table)}


def _cell(value: Any) -> str:
    if isinstance(value, float):
        text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
        return "-" if np.isnan(value) else text.replace("-", "−")
    return str(value)


def make_map_report(
    title: str,
    where: Mapping[str, Any],
    sections: Sequence[Mapping[str, Any]],
    done: Mapping[str, Any],
    space: VoxelSpace,
    **ground: Any,
) -> MapReport:
    """Make the page of a map test.

    Parameters
    ----------
    title : str
        Heading.
    where : mapping
        What `where_summary` returns.
    sections : sequence of mapping
        On neighbourhoods and regions, see `voxprior.report.local`.
    done : mapping of str to value
        What was done.
    space : VoxelSpace
        Where the voxels are.
    **ground
        As in `voxprior.report.shown.show_maps`: names, mean, atlas.
    """
    parts = [where, *sections]
    shown = show_maps(space, [one for part in parts for one in part["maps"]], **ground)
    entries, album, drawn = iter(shown.maps), Album(), []
    for part in parts:
        own = [next(entries) for _ in part["maps"]]
        drawn.append(dict(part) | {"maps": album.add_maps(own, part.get("title", "where"))})
    summary = {
        "title": title,
        "software": {"voxprior": __version__},
        "where": drawn[0],
        "beside": drawn[1:],
        "done": dict(done),
        "guide": {name: guide()[name] for name in ("tested", "local")[: 1 + bool(sections)]},
        "stage": shown.stage,
        "viewers": shown.viewers,
    }
    return MapReport(plain(summary), tuple(album.drawn))


@dataclass(frozen=True)
class MapReport(Report):
    """Page of a map test: its summary has ``title``, ``software``, ``where`` and ``done``."""

    @property
    def html(self) -> str:
        """The page as text."""
        return page_of("map.html", self.summary, scripts=("viewers.js",))

    def __repr__(self) -> str:
        return f"MapReport({self.summary['title']!r}): {self.summary['where']['headline']}"
