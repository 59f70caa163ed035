"""How objects are shown in a notebook."""

from collections.abc import Mapping
from html import escape
from typing import Any


def facts_html(title: str, facts: Mapping[str, Any]) -> str:
    """A table of facts by name; whatever labels hold is shown and not read as markup.

    >>> facts_html("Scans", {"classes": "<a>, b"})
    '<div><p>Scans</p><table><tr><th>classes</th><td>&lt;a&gt;, b</td></tr></table></div>'
    """
    cells = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<div><p>{escape(title)}</p><table>{cells}</table></div>"
