"""How to read the report: one line per part, and a page about it that is part of every report.

`guide.md` and the table `audit.md` are the one source: the documentation includes them, and the
page carries at its end what it needs of them, so that its links work offline.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from importlib.resources import files
from typing import Any


def guide(without: Collection[str] = ()) -> dict[str, dict[str, Any]]:
    """Parts by id, but for some: ``title``, ``line`` (how to read it) and ``more``, paragraphs.

    >>> guide()["sure"]["line"]
    "Whether the decoder's probabilities can be believed, and what they decide."
    """
    text = (files("voxprior.report") / "guide.md").read_text("utf-8")
    parts: dict[str, dict[str, Any]] = {}
    for section in text.removeprefix("## ").split("\n## "):
        title, line, *more = (part.replace("\n", " ").strip() for part in section.split("\n\n"))
        if title.lower() not in without:
            parts[title.lower()] = {"title": title, "line": line, "more": more}
    return parts


def about_findings(names: Collection[str]) -> dict[str, dict[str, str]]:
    """What findings of the audit mean, why they matter and what to do, by name.

    >>> about_findings(["duplicate-images"])["duplicate-images"]["why"]
    'it is recognised, not decoded'
    """
    text = (files("voxprior.report") / "audit.md").read_text("utf-8")
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in plain.splitlines()[2:]]
    return {
        name: {"when": when, "why": why, "do": do}
        for name, _, when, why, do in rows
        if name in names
    }
