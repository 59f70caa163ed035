"""``voxprior families``: the models there are, and what each takes for granted."""

import inspect
from typing import Annotated

import typer

from voxprior import registry
from voxprior.cli.options import Json
from voxprior.cli.terminal import PlainConsole


def families(
    name: Annotated[
        str | None,
        typer.Argument(help="A family, to list its parameters; by default, all."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the families: name, estimator and prior knowledge.

    With a name, list the parameters that --set and --config take:

        voxprior families sharing
    """
    if name is not None:
        _parameters(name, as_json)
    else:
        _all(as_json)


def _parameters(name: str, as_json: bool) -> None:
    import json

    registered = registry.model(name)
    model = registered.make()
    if as_json:
        defaults = {n: repr(v) for n, v in model.get_params(deep=False).items()}
        print(json.dumps(registered.describe() | {"parameters": defaults}, indent=1))
        return
    text = inspect.getdoc(registered.estimator) or ""
    described = text.partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    print(f"{name}: {registered.label}\n\n{described}")


def _all(as_json: bool) -> None:
    import json

    from rich import box
    from rich.table import Table

    rows = [one.describe() for one in registry.models().values()]
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    columns = {"name": "name", "estimator": "estimator", "kind": "kind", "prior": "prior knowledge"}
    table = Table(box=box.SIMPLE)
    for column, heading in columns.items():
        table.add_column(heading, overflow="fold", no_wrap=column == "name")
    for row in rows:
        table.add_row(*(row[column] for column in columns))
    PlainConsole().print(table)
