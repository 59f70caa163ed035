"""What the experiments share: their options, and tables as Markdown, printed and kept."""

import argparse
import os
import platform
from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def options(
    description: str, argv: Sequence[str] | None, sections: Collection[str] = ()
) -> argparse.Namespace:
    """Options that every paper takes: data, quick, out, and only where it has named sections."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, help="folder of the data sets, as VOXPRIOR_DATA")
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    parser.add_argument("--out", type=Path, help="folder for tables and figures; none by default")
    if sections:
        parser.add_argument("--only", nargs="+", choices=sections, default=list(sections))
    chosen = parser.parse_args(argv)
    if chosen.data is not None:
        os.environ["VOXPRIOR_DATA"] = str(chosen.data)
    if chosen.out is not None:
        chosen.out.mkdir(parents=True, exist_ok=True)
    return chosen


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
    lines += ["| " + " | ".join(_cell(row[name]) for name in names) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: object) -> str:
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
        path.write_text(text)
    print(text)
