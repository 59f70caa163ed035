"""The summary of a decoding as one self-contained HTML page that opens offline.

Everything shown is in the dictionary that ``voxprior.report.summarize`` makes, so the same content
is available as JSON. Style sheet, script, pictures and data are inlined; nothing is fetched.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader

from voxprior.report.figures import Drawn, write_all
from voxprior.writing import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCRIPTS = ("decisions.js", "predictions.js", "viewers.js", "copy.js", "scroll.js")
# What the scripts work on.
EMBEDDED = (
    "classes", "priors", "prevalence", "positive", "probabilities", "truth", "predictions", "stage",
    "viewers",
)  # fmt: skip


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
    return page_of("page.html", summary, SCRIPTS)


def page_of(name: str, summary: dict[str, Any], scripts: Sequence[str]) -> str:
    """Fill the template of a page, which has the frame of all pages, with a summary."""
    return fill(
        name,
        s=summary,
        css=template("page.css"),
        js="".join(map(template, scripts)),
        data=_embedded(summary),
    )


def fill(name: str, **values: Any) -> str:
    """Fill a template; values are escaped unless the template marks them as HTML."""
    environment = Environment(
        loader=PackageLoader("voxprior.report", "template"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name).render(**values)


def template(name: str) -> str:
    """Text of a file that pages are made of."""
    return (files("voxprior.report") / "template" / name).read_text("utf-8")


def _embedded(summary: dict[str, Any]) -> str:
    """The numbers the page's scripts work on; ``<`` is escaped: no label can end the script."""
    data = {key: summary.get(key) for key in EMBEDDED}
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


@dataclass(frozen=True)
class Report:
    """A finished report: the plain summary, its page, and its figures.

    In a notebook it shows itself; `save` writes the page.
    """

    summary: dict[str, Any]
    drawn: tuple[Drawn, ...] = ()

    @property
    def html(self) -> str:
        """The page as text."""
        return render(self.summary)

    @property
    def standing(self) -> Figure:
        """The first figure: this decoder and others, with chance and exchanged labels."""
        return self.drawn[0].figure

    def save(self, path) -> Path:
        """Write the page to a file, entirely or not at all."""
        path = Path(path)
        write_whole(path, self.html)
        return path

    def save_figures(self, folder, prefix: str = "") -> list[Path]:
        """Write every figure as SVG and PNG, under the names that the page gives.

        Parameters
        ----------
        folder : path
            Made if it does not exist.
        prefix : str
            Put before every name.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        return write_all(self.drawn, folder, prefix)

    def __repr__(self) -> str:
        headline = (self.summary.get("headline") or {}).get("text", "")
        return f"Report({self.summary.get('title', '')!r}): {headline}".rstrip(": ")

    def _repr_html_(self) -> str:
        return (
            '<iframe style="width:100%;height:40rem;border:0" sandbox="allow-scripts" '
            f'srcdoc="{escape(self.html)}"></iframe>'
        )
