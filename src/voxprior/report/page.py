"""The summary of a decoding as one self-contained HTML page that opens offline.

``summary dict -> page``: everything shown is in the dict that ``voxprior.report.summarize`` makes, so the same
content is available as JSON. Style sheet, script, pictures and data are inlined; nothing is fetched.
"""

import json
from importlib.resources import files
from typing import Any

from jinja2 import Environment


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
    template = files("voxprior.report") / "template"
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    page = environment.from_string((template / "page.html").read_text("utf-8"))
    return page.render(
        s=summary,
        css=(template / "page.css").read_text("utf-8"),
        js=(template / "page.js").read_text("utf-8"),
        data=_embedded(summary),
    )


def _embedded(summary: dict[str, Any]) -> str:
    """The numbers the page's script works on; ``</`` is escaped so that no label can end the script."""
    keys = ("classes", "priors", "probabilities", "truth")
    return json.dumps({key: summary.get(key) for key in keys}).replace("</", "<\\/")
