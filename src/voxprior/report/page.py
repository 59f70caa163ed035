"""The summary of a decoding as one self-contained HTML page that opens offline.

Everything shown is in the dictionary that ``voxprior.report.summarize`` makes, so the same content
is available as JSON. Style sheet, script, pictures and data are inlined; nothing is fetched.
"""

import json
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment

from voxprior.validation.result import write_whole


def render(summary: dict[str, Any]) -> str:
    """Render the page of one summary.

    Parameters
    ----------
    summary : dict
        What :func:`voxprior.report.summarize` returns.

    Returns
    -------
    str
        A complete HTML document.
    """
    return fill(
        "page.html",
        s=summary,
        css=template("page.css"),
        js=template("page.js"),
        data=_embedded(summary),
        where=where_section(summary.get("where")),
    )


def where_section(where: dict[str, Any] | None) -> str:
    """HTML of the section on where classes differ; nothing where no map was tested."""
    return "" if where is None else fill("where.html", w=where)


def fill(name: str, **values: Any) -> str:
    """Fill a template; values are escaped unless it says that they are HTML."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template(name)).render(**values)


def template(name: str) -> str:
    """Text of a file that pages are made of."""
    return (files("voxprior.report") / "template" / name).read_text("utf-8")


def _embedded(summary: dict[str, Any]) -> str:
    """The numbers the page's script works on; ``<`` is escaped: no label can end the script."""
    keys = ("classes", "priors", "probabilities", "truth")
    return json.dumps({key: summary.get(key) for key in keys}).replace("<", "\\u003c")


@dataclass(frozen=True)
class Report:
    """A finished report: the plain summary and its page.

    In a notebook it shows itself; `save` writes the page.
    """

    summary: dict[str, Any]

    @property
    def html(self) -> str:
        """The page as text."""
        return render(self.summary)

    def save(self, path) -> Path:
        """Write the page to a file, entirely or not at all."""
        path = Path(path)
        write_whole(path, self.html)
        return path

    def __repr__(self) -> str:
        headline = (self.summary.get("headline") or {}).get("text", "")
        return f"Report({self.summary.get('title', '')!r}): {headline}".rstrip(": ")

    def _repr_html_(self) -> str:
        return (
            '<iframe style="width:100%;height:40rem;border:0" sandbox="allow-scripts" '
            f'srcdoc="{escape(self.html)}"></iframe>'
        )
