"""Sections of a page on neighbourhoods (searchlight) and regions: plain types, and their maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from voxprior.mapping import RegionTest, SearchlightResult
from voxprior.report.shown import Told
from voxprior.report.where import table_cells

__all__ = ["light_headline", "light_section", "region_headline", "region_section"]


def light_headline(found: SearchlightResult) -> str:
    """Say in a sentence what a searchlight found."""
    n, total = int(found.significant.sum()), len(found.score)
    number = "No neighbourhood is" if n == 0 else f"{n:,} of {total:,} neighbourhoods are"
    return (
        f"{number} significant (familywise error {found.level:g}); highest {found.name} "
        f"{np.nanmax(found.score):.3f}.{_out_of_reach(found)}"
    )


def region_headline(found: RegionTest) -> str:
    """Say in a sentence what a region test found."""
    claimed = found.table.loc[found.table["p_fwer"] <= found.level, "region"].tolist()
    number = "No region is" if not claimed else f"{len(claimed)} of {len(found.table)} regions are"
    named = f": {', '.join(claimed[:5])}{', ...' if len(claimed) > 5 else ''}" if claimed else ""
    return f"{number} significant (familywise error {found.level:g}){named}.{_out_of_reach(found)}"


def _out_of_reach(found: SearchlightResult | RegionTest) -> str:
    """Report it where no score, however high, exceeds the threshold; else empty."""
    return "" if found.reachable else f" {found.needed[0].upper()}{found.needed[1:]}."


def light_section(found: SearchlightResult) -> dict[str, Any]:
    """Put a searchlight into a section: what it shows, and its maps."""
    score, kept = np.nan_to_num(found.score), found.significant
    text = f"Held-out {found.name} of the voxels around each voxel, decoded by {found.decoder}."
    claimed = f"The same where a familywise error of {found.level:g} is reached."
    return {
        "title": "Searchlight",
        "headline": light_headline(found),
        "hypothesis": found.hypothesis,
        "how": _how(found),
        "maps": [
            Told(
                found.name, f"{text} A line encloses what is significant.", score, found.name, kept
            ),
            Told(
                "Significant neighbourhoods",
                claimed,
                np.where(kept, score, 0.0),
                found.name,
                kept,
                peaks=False,
            ),
        ],
        "table": None,
    }


def region_section(found: RegionTest) -> dict[str, Any]:
    """Put a region test into a section: what it shows, and its table."""
    return {
        "title": "Regions",
        "headline": region_headline(found),
        "hypothesis": found.hypothesis,
        "how": _how(found),
        "maps": [],
        "table": table_cells(found.table),
    }


def _how(found: SearchlightResult | RegionTest) -> str:
    many = "all" if found.exact else "random"
    return (
        f"{len(found.null_max):,} {many} relabellings, {found.scheme}; decoded by "
        f"{found.decoder}, whole groups held out. The smallest possible p is "
        f"{found.smallest_p:.2g}."
    )
