"""``voxprior reproduce``: run the experiments of the papers again, beside the published figures."""

from pathlib import Path
from typing import Annotated

import typer

from voxprior.cli.options import Workers
from voxprior.errors import InputError, nearest, option

ALL = "all"


def reproduce(
    workers: Workers,
    paper: Annotated[
        str | None,
        typer.Argument(help="A paper, or all; by default papers are listed."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of the real data sets; by default that of VOXPRIOR_DATA."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Seconds instead of minutes.")] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the page of claims, tables and figures."),
    ] = None,
) -> None:
    """Reproduce a paper: repeat its experiments, and give each claim a verdict.

    A claim holds, is undecided, or is refuted. Every paper runs on simulated data; real data sets
    are added where they are found, and for a missing one you are shown where to get it. Without
    --out the tables are printed and nothing is written.

    For instance:

        voxprior reproduce

        voxprior reproduce palatucci2007 --quick

        voxprior reproduce all --out claims
    """
    from voxprior.papers import frame

    papers = frame.names()
    if paper is None:
        for name, text in papers.items():
            typer.echo(f"{name:<24}{text}")
        return
    if paper not in (*papers, ALL):
        raise InputError(
            f"There is no paper '{paper}'{nearest(paper, papers)}",
            expected=f"one of {', '.join(papers)}, or {ALL}",
        )
    if data is not None and not data.is_dir():
        raise InputError(
            f"{data}: no such folder of data sets",
            remedy=f"Check {option('data')}, or leave it out",
        )
    _run(list(papers) if paper == ALL else [paper], data, quick, out)


def _run(names: list[str], data: Path | None, quick: bool, out: Path | None) -> None:
    """Run papers; the page is written whole or not at all."""
    from voxprior.output import output_folder
    from voxprior.papers import datasets, frame, page

    with datasets.looking_in(data):
        if out is None:
            found = frame.reproduce(names, quick)
            typer.echo("\n".join(page.results(one, pictures=False) for one in found))
        else:
            with output_folder(out, page.PAGE) as folder:
                found = frame.reproduce(names, quick)
                page.write_all(found, folder)
            typer.echo(page.claims_in_markdown(found))
            typer.echo(f"All of it: {out / page.PAGE}")
