"""How to read the report: one line per part, and a page about it that is part of every report.

`guide.md` and `audit.md` are the one source: the documentation includes them, and the
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
    "Whether the decoder's probabilities can be trusted, and which decisions follow from them."
    """
    text = (files("voxprior.report") / "guide.md").read_text("utf-8")
    parts: dict[str, dict[str, Any]] = {}
    for section in text.removeprefix("## ").split("\n## "):
        title, line, *more = (part.replace("\n", " ").strip() for part in section.split("\n\n"))
        if title.lower() not in without:
            parts[title.lower()] = {"title": title, "line": line, "more": more}
    return parts


def about_findings(names: Collection[str]) -> dict[str, dict[str, str]]:
    """What findings of the audit mean, why they matter and how to fix them, by name.

    >>> about_findings(["own-prior"])["own-prior"]["when"]
    'A subject that is decoded is among those from whom the prior was learned.'
    """
    text = (files("voxprior.report") / "audit.md").read_text("utf-8")
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)|`", r"\1", text)
    # After the name, every part opens with a word of its own: *Error.*, **Why it matters.** ...
    parts = [re.split(r"\s+\*+[\w ]+\.\*+\s+", one) for one in plain.split("### ")[1:]]
    told = {name: [" ".join(part.split()) for part in said] for name, *said in parts}
    return {
        name: dict(zip(("when", "why", "do"), said)) for name, said in told.items() if name in names
    }
