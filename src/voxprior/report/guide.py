"""How to read the report: one line per part, and a page about it that is part of every report.

`guide.md` is the one source: the documentation includes it, and the page carries it at its end, so
that its links work offline.
"""

from __future__ import annotations

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
