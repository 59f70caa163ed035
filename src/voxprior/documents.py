"""JSON and TOML that people and other programs write, read within bounds and without a guess.

A file is refused, in one line, where it is not a regular file of bounded size, is not UTF-8, is
nested too deep, or has the same key twice with different values: parsers take the last one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from voxprior.errors import InputError, nearest_file

__all__ = ["read_json", "read_toml"]

# More than sidecars with the fields of every volume have; parsed they are fifty times as large.
MOST_BYTES = 2**23
DEEPEST = 50  # sidecars of scanners have a few levels
# The parser of TOML takes the square of the dots of a key, in time and in memory.
MOST_BYTES_OF_TOML, MOST_DOTS = 2**16, 1000


def read_json(path: str | Path, what: str = "JSON file", most_bytes: int = MOST_BYTES) -> Any:
    """Read a JSON file; a key that stands twice with different values is refused.

    Parameters
    ----------
    path : path
        A regular file.
    what : str
        What the file is, for error messages.
    most_bytes : int
        What it may have; 8 MB by default.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "bold.json")
    ...     _ = path.write_text('{"RepetitionTime": 2.0}')
    ...     read_json(path)
    {'RepetitionTime': 2.0}
    """
    return _read(Path(path), what, "JSON", _parse_json, most_bytes)


def read_toml(path: str | Path, what: str = "TOML file") -> dict[str, Any]:
    """Read a TOML file as `read_json` reads JSON; TOML itself allows no key twice."""
    return _read(Path(path), what, "TOML", _parse_toml, MOST_BYTES_OF_TOML)


def _parse_toml(text: str) -> dict[str, Any]:
    import tomllib

    if any(line.count(".") > MOST_DOTS for line in text.splitlines()):
        raise ValueError(f"a line of it has more than {MOST_DOTS} dots")
    return tomllib.loads(text)


def _parse_json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_without_contradiction)


def _without_contradiction(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        # As text, because 1 == 1.0 == true.
        if key in found and repr(found[key]) != repr(value):
            raise ValueError(
                f"{key!r} stands there twice, with different values: {_short(found[key])} and "
                f"{_short(value)}"
            )
        found[key] = value
    return found


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _read(path: Path, what: str, form: str, parse: Callable[[str], Any], most_bytes: int) -> Any:
    if not path.is_file():
        there = "is not a regular file, which it must be as a" if path.exists() else "no such"
        near = "" if path.exists() else nearest_file(path)
        raise FileNotFoundError(f"{path}: {there} {what}{near}.")
    with path.open("rb") as file:
        content = file.read(most_bytes + 1)
    too_deep = f"it is nested more than {DEEPEST} deep"
    try:
        if len(content) > most_bytes:
            most = (
                f"{most_bytes / 2**20:.3g} MB"
                if most_bytes >= 2**20
                else f"{most_bytes // 2**10} kB"
            )
            raise ValueError(f"it has more than {most}")
        found = parse(content.decode("utf-8-sig"))
        if not _is_shallow(found):
            raise ValueError(too_deep)
        return found
    except RecursionError:
        why = too_deep
    except ValueError as error:  # of both formats, and of a text that is not UTF-8
        why = str(error)
    raise InputError(f"{path}: cannot be read as {form} ({what}): {why}")


def _is_shallow(found: Any) -> bool:
    """Whether nesting ends, looked at level by level: a walk into the depth may overflow."""
    level = [found]
    for _ in range(DEEPEST):
        held = [one for one in level if isinstance(one, dict | list)]
        level = [two for one in held for two in (one.values() if isinstance(one, dict) else one)]
    return not any(isinstance(one, dict | list) for one in level)
