"""``voxprior reproduce``: run the experiments of the papers again, beside the published figures."""

import ast
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from voxprior.errors import InputError


def reproduce(
    paper: Annotated[
        str | None, typer.Argument(help="Which paper; without it they are listed.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the real data sets, for papers that use them.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Seconds instead of minutes.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for tables and figures.")
    ] = None,
) -> None:
    """Reproduce a paper: its experiment on simulated or real data, published figures beside ours.

    Prints its tables; with --out they are written there too, with the figures.

    For instance:

        voxprior reproduce

        voxprior reproduce palatucci2007 --quick
    """
    papers = described()
    if paper is None:
        for name, text in papers.items():
            typer.echo(f"{name:<24}{text}")
        return
    if paper not in papers:
        raise InputError(
            f"There is no paper '{paper}'", expected=f"one of {', '.join(papers) or 'none'}"
        )
    if data is not None and not data.is_dir():
        raise FileNotFoundError(f"{data}: no such folder of data sets.")
    given = {"--data": data, "--out": out}
    arguments = [text for name, value in given.items() if value for text in (name, str(value))]
    run = import_module(f"voxprior.papers.{paper}.run")
    run.main(arguments + (["--quick"] if quick else []))


def described() -> dict[str, str]:
    """Names of the papers with the first line that each says of itself; nothing is imported."""
    folder = Path(__file__).parents[1] / "papers"
    return {
        script.parent.name: _first_line(script.parent / "__init__.py")
        for script in sorted(folder.glob("*/run.py"))
    }


def _first_line(module: Path) -> str:
    text = ast.get_docstring(ast.parse(module.read_text("utf-8"))) if module.is_file() else None
    return (text or "").partition("\n")[0]
