"""``voxprior reproduce``: run the experiments of the papers again, beside the published figures."""

import ast
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer


def reproduce(
    paper: Annotated[
        str | None, typer.Argument(help="Which paper; without it they are listed.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the real data sets, for papers that use them.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Seconds instead of minutes.")] = False,
) -> None:
    """Reproduce a paper: its experiment on simulated or real data, published figures beside ours.

    Runs benchmarks/papers of a source checkout and writes its tables there.

    For instance:

        voxprior reproduce

        voxprior reproduce palatucci2007 --quick
    """
    root = checkout()
    papers = described(root / "benchmarks" / "papers")
    if paper is None:
        for name, text in papers.items():
            typer.echo(f"{name:<24}{text}")
        return
    if paper not in papers:
        raise ValueError(f"unknown paper '{paper}': choose one of {', '.join(papers) or 'none'}.")
    if data is not None and not data.is_dir():
        raise FileNotFoundError(f"{data}: no such folder of data sets.")
    arguments = ([] if data is None else ["--data", str(data)]) + (["--quick"] if quick else [])
    sys.path.insert(0, str(root))
    try:
        import_module(f"benchmarks.papers.{paper}.run").main(arguments)
    finally:
        sys.path.remove(str(root))


def checkout() -> Path:
    """Return the root of the source checkout that this package runs from."""
    import voxprior

    root = Path(voxprior.__file__).resolve().parents[2]
    if not (root / "benchmarks" / "papers").is_dir():
        raise FileNotFoundError(
            "Papers are reproduced from a source checkout, which has a folder benchmarks beside "
            f"src; there is none at {root}. Get the sources and install them with "
            "pip install --editable."
        )
    return root


def described(folder: Path) -> dict[str, str]:
    """Names of the papers with the first line that each says of itself; nothing is imported."""
    return {
        script.parent.name: _first_line(script.parent / "__init__.py")
        for script in sorted(folder.glob("*/run.py"))
    }


def _first_line(module: Path) -> str:
    text = ast.get_docstring(ast.parse(module.read_text("utf-8"))) if module.is_file() else None
    return (text or "").partition("\n")[0]
