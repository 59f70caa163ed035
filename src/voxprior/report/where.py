"""The section of a report, or a page of its own, on where in the brain classes differ.

What a map test says is put into a plain dictionary by `where_summary`: the hypothesis in words, the
maps drawn, the tables of clusters and peaks. The page of a decoding holds it as one section, and
the page of `voxprior map` as its only one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from voxprior.mapping import ClusterTables, MapTest
from voxprior.report.figures import as_image
from voxprior.report.maps import draw_maps
from voxprior.report.page import Report, fill, template, where_section
from voxprior.space import VoxelSpace
from voxprior.validation.result import plain

__all__ = ["MapReport", "drawn", "headline", "table_cells", "where_summary"]

# Rows of a table that a page shows; all are in the files beside it.
MOST_ROWS = 50


def where_summary(found: MapTest, space: VoxelSpace, tables: ClusterTables) -> dict[str, Any]:
    """Say in plain types what a map test found, with its maps as pictures."""
    symbol = found.symbol
    shown = [drawn(symbol, f"{symbol}: {found.contrast}.", found.statistic, space, symbol)]
    if found.p_fwer is not None:
        kept = np.where(found.significant, found.statistic, 0.0)
        caption = f"{symbol} where {found.words()} is reached; elsewhere nothing is claimed."
        shown.append(drawn("Significant voxels", caption, kept, space, symbol))
        p = -np.log10(found.p_fwer)
        text = "−log10 of p corrected for all voxels: 1.3 is p = 0.05, 2 is p = 0.01."
        shown.append(drawn("Corrected p", text, p, space, "−log10 p"))
    return plain(
        {
            "headline": headline(found),
            "hypothesis": found.hypothesis,
            "how": f"Tested against {found.relabellings()}. "
            f"The smallest possible p is {found.smallest_p:.2g}.",
            "notes": list(found.notes),
            "maps": shown,
            "clusters": table_cells(tables.clusters),
            "peaks": table_cells(tables.peaks),
            "test": found.summary(),
        }
    )


def headline(found: MapTest) -> str:
    """Say in a sentence what came out.

    Counts of voxels are not given for a map that says nothing of single voxels.
    """
    whole = f"p of the whole map {found.p_global:.2g}"
    if found.control == "global":
        return f"The {found.name} map: {whole}."
    n, total = int(found.significant.sum()), len(found.statistic)
    number = "No voxel is" if n == 0 else f"{n:,} of {total:,} voxels are"
    return f"{number} significant ({found.words()}); {whole}."


def drawn(
    name: str, caption: str, values: np.ndarray, space: VoxelSpace, unit: str
) -> dict[str, Any]:
    """Draw a map for a page; without an image where it is zero in every voxel."""
    entry: dict[str, Any] = {"name": name, "caption": caption}
    if np.any(values):
        entry |= as_image(draw_maps(space, {"": values}, unit=unit))
    return entry


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


@dataclass(frozen=True)
class MapReport(Report):
    """Page of a map test: its summary has ``title``, ``software``, ``where`` and ``done``."""

    @property
    def html(self) -> str:
        """The page as text."""
        where = where_section(self.summary["where"])
        return fill("map.html", s=self.summary, css=template("page.css"), where=where)

    def __repr__(self) -> str:
        return f"MapReport({self.summary['title']!r}): {self.summary['where']['headline']}"
