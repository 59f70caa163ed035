"""``voxprior families``: the models there are, and what each takes for granted."""

import inspect
import json
from typing import Annotated

import typer

from voxprior.cli.terminal import PlainConsole
from voxprior.cli.testing import Json


def families(
    name: Annotated[
        str | None, typer.Argument(help="A family, to list its parameters; all if absent.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the families: name, estimator, and the prior knowledge each brings.

    With a name, list the parameters that --set and --config take:

        voxprior families sharing
    """
    if name is not None:
        _parameters(name, as_json)
    else:
        _all(as_json)


def _parameters(name: str, as_json: bool) -> None:
    from voxprior.cli.models import RECIPES, make_model

    model = make_model("sharing" if name in RECIPES else name)
    if as_json:
        defaults = {n: repr(v) for n, v in model.get_params(deep=False).items()}
        print(json.dumps({"estimator": type(model).__name__, "parameters": defaults}, indent=1))
        return
    text = inspect.getdoc(type(model)) or ""
    described = text.partition("Parameters\n----------\n")[2].partition("\n\nAttributes\n")[0]
    print(f"{name}: {type(model).__name__}\n\n{described}")


def _all(as_json: bool) -> None:
    from rich import box
    from rich.table import Table

    from voxprior.cli.models import BASELINES, RECIPES
    from voxprior.families import FAMILIES

    rows = [(f.name, f.estimator, f.kind, f.prior) for f in FAMILIES.values()]
    rows += [(n, r.function, "classifier", r.prior) for n, r in RECIPES.items()]
    rows += [(n, b.estimator, b.kind, "none: a flat baseline") for n, b in BASELINES.items()]
    columns = ("name", "estimator", "kind", "prior")
    if as_json:
        print(json.dumps([dict(zip(columns, row)) for row in rows], indent=1))
        return
    table = Table(box=box.SIMPLE)
    for column, heading in zip(columns, ("name", "estimator", "kind", "prior knowledge")):
        table.add_column(heading, overflow="fold", no_wrap=column == "name")
    for row in rows:
        table.add_row(*row)
    PlainConsole().print(table)
