"""``voxprior map``: images and labels in; maps of where they differ, tables and a page out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from voxprior.cli.command_line import command_line
from voxprior.cli.inputs import read, read_maps
from voxprior.cli.options import Json, Out, Preparation, Scans, Trials, Workers
from voxprior.cli.terminal import PlainConsole, say, versioned
from voxprior.output import RUN_FILE, Clock, output_folder

MAPPING = "Test of the map"
# Relabellings of neighbourhoods and regions where no number is given.
LOCAL = 1000


def _option(text: str, *flags: str, **limits: Any) -> Any:
    return typer.Option(*flags, help=text, rich_help_panel=MAPPING, **limits)


def map_(
    scans: Scans,
    trials: Trials,
    preparation: Preparation,
    workers: Workers,
    out: Out,
    one_sample: Annotated[
        bool, _option("Test the mean of maps without labels against zero.", "--one-sample")
    ] = False,
    statistic: Annotated[
        str,
        _option(
            "t, moderated, shared, tfce, cluster, pattern or weight; auto is t, moderated where "
            "scans are few."
        ),
    ] = "auto",
    correction: Annotated[str, _option("fwer, fdr or none.")] = "fwer",
    level: Annotated[float, _option("Level of significance.")] = 0.05,
    permutations: Annotated[
        int | None,
        _option("Relabellings; 10000 by default, 1000 for tfce and cluster.", min=1),
    ] = None,
    scheme: Annotated[
        str, _option("How labels are exchanged: auto, free, within or whole (groups).")
    ] = "auto",
    atlas: Annotated[Path | None, _option("Atlas image, to name places in the tables.")] = None,
    atlas_labels: Annotated[
        Path | None, _option("Table of the atlas, with columns index and name.")
    ] = None,
    searchlight: Annotated[
        float | None,
        _option("Also decode the voxels within this radius (mm) of every voxel."),
    ] = None,
    units: Annotated[
        str,
        _option("Units of --searchlight: mm, voxel, or rings (of edges of a mesh).", "--units"),
    ] = "mm",
    regions: Annotated[
        Path | None, _option("Also decode every region of this atlas; --atlas-labels names them.")
    ] = None,
    despite_floor: Annotated[
        bool, _option("Go on where the design cannot reach the level.", "--despite-floor")
    ] = False,
    seed: Annotated[int, _option("Random seed.", min=0)] = 0,
    as_json: Json = False,
) -> None:
    r"""Map where classes differ: every voxel tested against relabelled scans.

    Writes maps/ (statistic, effect, -log10 p and the statistic where it is significant),
    clusters.tsv, peaks.tsv, map.json and report.html into --out. Says before it starts how small p
    can get, and refuses a design that cannot reach the level. Runs, sites or subjects are --groups.

        voxprior map maps/*.nii.gz --labels participants.tsv --label group --out where

        voxprior map bold.nii.gz --volume-labels attributes.txt --mask mask.nii.gz \
            --conditions face,house --statistic tfce --atlas atlas.nii.gz --out where

        voxprior map contrasts/*.nii.gz --one-sample --out where

        voxprior map maps/*.nii.gz --labels participants.tsv --label group \
            --searchlight 6 --regions atlas.nii.gz --atlas-labels atlas.tsv --out where
    """
    if units != "mm" and searchlight is None:
        raise ValueError("--units: would have no effect without --searchlight.")
    clock = Clock(command_line())
    with output_folder(out, "map.json") as folder:
        with clock.phase("reading images"):
            data = read_maps(scans, preparation) if one_sample else read(scans, trials, preparation)
            named = _places(data, atlas, None if regions and not atlas else atlas_labels)
            decoder = _decoder(seed)
            places = decoder.places(data, searchlight, units, regions, atlas_labels)
        with clock.phase("testing", show=False):
            done = decoder.map(
                data,
                atlas=named,
                statistic=statistic,
                correction=correction,
                level=level,
                n_permutations=permutations,
                scheme=scheme,
                despite_floor=despite_floor,
                tell=say,
            )
            drawn = {"n_permutations": permutations or LOCAL, "scheme": scheme, "level": level}
            beside = decoder.locate(data, places, **drawn)
            done = replace(done, located=beside)
        with clock.phase("writing the report"):
            done.write(folder)
            clock.write(folder / RUN_FILE, {})
    if as_json:
        print(versioned(done.summary() | {"folder": str(out)}))
    else:
        _show(done, out)


def _places(data: Any, atlas: Path | None, labels: Path | None) -> Any:
    from voxprior.decoder.reading import atlas_of

    return atlas_of(data, atlas, labels)


def _decoder(seed: int) -> Any:
    from voxprior.decoder import Decoder

    return Decoder(verbose=1, random_state=seed)


def _show(done: Any, out: Path) -> None:
    """Print what was found, the largest clusters, and where the report is."""
    from rich import box
    from rich.table import Table

    from voxprior.report.where import headline, table_cells

    console = PlainConsole()
    console.print(done.title)
    console.print(headline(done.test))
    console.print(f"What a small p says: {done.test.hypothesis}")
    for note in done.test.notes:
        console.print(note)
    shown = table_cells(done.tables.clusters, most=10)
    if shown is not None:
        table = Table(box=box.SIMPLE)
        for column in shown["columns"]:
            table.add_column(column, no_wrap=column != "regions")
        for row in shown["rows"]:
            table.add_row(*row)
        console.print(table)
    for told in done.located.headlines() if done.located else ():
        console.print(told)
    console.print(f"Report: {out / 'report.html'}", soft_wrap=True)
