"""Parameters of a model from the command line: ``--config FILE`` and ``--set name=value``."""

from ast import literal_eval
from pathlib import Path
from typing import Any


def parameters(config: Path | None, changes: list[str] | None = None) -> dict[str, Any]:
    """Read a TOML or JSON file of parameters, then apply ``name=value`` changes.

    Values are read as Python literals; what is none stays text.

    >>> parameters(None, ["radius=2.5", "variances=median"])
    {'radius': 2.5, 'variances': 'median'}
    """
    found = {} if config is None else _read(config)
    for change in changes or []:
        name, equals, value = change.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(
                f"--set takes name=value, for instance --set radius=2. Got '{change}'."
            )
        found[name] = _literal(value)
    return found


def _literal(text: str) -> Any:
    try:
        return literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _read(path: Path) -> dict[str, Any]:
    import json
    import tomllib

    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such config file.")
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:  # of both formats, and of a text that is not UTF-8
        raise ValueError(f"{path}: is neither JSON (.json) nor TOML: {error}.") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path}: a table of parameters was expected. Got {type(found).__name__}.")
    return found
