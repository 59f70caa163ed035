"""Tables as Markdown, printed and kept, and what they were measured on."""

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from voxprior.writing import write_whole


def machine(*packages: str) -> str:
    """One line that says what the figures were measured on, without naming a host."""
    versions = []
    for package in ("numpy", "scikit-learn", *packages):
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            versions.append(f"{package} absent")
    python = f"Python {platform.python_version()}"
    return f"{os.cpu_count()} cores, {platform.machine()}, {python}; {', '.join(versions)}"


def markdown(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows of equal keys as a Markdown table; floats to three significant digits."""
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(cell(row[name]) for name in names) + " |" for row in rows]
    return "\n".join(lines)


def cell(value: object) -> str:
    """One value of a table."""
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def save(
    path: Path | None,
    title: str,
    sections: Mapping[str, Sequence[Mapping[str, object]] | str],
    note: str = "",
) -> None:
    """Write ``# title``, a note, then one section per table (or paragraph); None only prints."""
    parts = [f"# {title}"] + ([note] if note else [])
    for heading, body in sections.items():
        parts += [f"## {heading}", body if isinstance(body, str) else markdown(body)]
    text = "\n\n".join(parts) + "\n"
    if path is not None:
        write_whole(path, text)
    print(text)


def renew(path: Path, heading: str, body: Sequence[Mapping[str, object]] | str) -> None:
    """Put a section at the end of a page, in place of the one of the same heading there."""
    kept = path.read_text().split(f"## {heading}\n")[0].rstrip("\n")
    text = f"## {heading}\n\n{body if isinstance(body, str) else markdown(body)}\n"
    write_whole(path, f"{kept}\n\n{text}")
    print(text)
