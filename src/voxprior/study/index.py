"""``index.html`` at the root of a study: links to the pages of the groups and of participants.

It is made anew, from what is in the folder, whenever a level has ended. A file of that name that is
not ours stays as it is.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from voxprior import __version__
from voxprior.decoder.comparison import decimals
from voxprior.documents import read_json
from voxprior.errors import InputError, InputWarning
from voxprior.report.page import fill, template
from voxprior.validation import Result, chance_level
from voxprior.validation.scores import score_name
from voxprior.writing import write_whole

INDEX = "index.html"
SIGN = '<meta name="generator" content="voxprior">'
PAGE = "_report.html"


def write_index(out: Path) -> None:
    """Write the page that links all reports of a folder, if there are any."""
    path, studies = out / INDEX, _studies(out)
    if not studies:
        return
    if not _is_ours(path):
        told = f"{path}: is not of voxprior and stays as it is; no page links the reports"
        warnings.warn(InputWarning(told), stacklevel=3)
        return
    page = fill("study.html", studies=studies, version=__version__, css=template("page.css"))
    write_whole(path, page)


def _is_ours(path: Path) -> bool:
    if path.is_symlink():
        return False
    if not path.exists():
        return True
    return path.is_file() and SIGN in path.read_text("utf-8", "replace")[:1000]


def _studies(out: Path) -> list[dict[str, Any]]:
    """What there is of every contrast and model: the group, and participants by label."""
    found: dict[str, dict[str, Any]] = {}
    for page in sorted(out.glob(f"sub-*/func/sub-*{PAGE}")):
        label = page.parent.parent.name
        stem = page.name.removeprefix(f"{label}_").removesuffix(PAGE)
        one = found.setdefault(stem, {"name": stem, "group": None, "participants": []})
        one["participants"] += _participant(out, page, label)
    for page in sorted((out / "group").glob(f"*{PAGE}")):
        stem = page.name.removesuffix(PAGE)
        if page.with_name(f"{stem}_secondlevel.json").is_file():
            one = found.setdefault(stem, {"name": stem, "participants": []})
            one["group"] = {"link": page.relative_to(out).as_posix(), "lines": _lines(page, stem)}
    kept = [one for one in found.values() if one["group"] or one["participants"]]
    return sorted(kept, key=lambda one: one["name"])


def _participant(out: Path, page: Path, label: str) -> list[dict[str, Any]]:
    """Return a participant's score with the link to the page; nothing where no result is read."""
    start = page.name.removesuffix(PAGE)
    try:
        result = Result.from_json(page.with_name(f"{start}_result.json"))
    except (OSError, InputError):
        return []
    score = result.score_names[0]
    return [
        {
            "label": label,
            "link": page.relative_to(out).as_posix(),
            "score": score_name(score),
            "value": decimals(result.pooled()[score]),
            "chance": decimals(chance_level(result, score)),
        }
    ]


def _lines(page: Path, stem: str) -> list[str]:
    with suppress(InputError, OSError):
        tests = read_json(page.with_name(f"{stem}_secondlevel.json"), "second level")
        parts = [tests["within"], tests["between"], *tests["compared"]]
        return [str(part["line"]) for part in parts]
    return []
