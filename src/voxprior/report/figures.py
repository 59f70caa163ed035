"""Figures on a page: how they are made, and how they become text that a page can hold.

All figures of a report are made by `blank` or `panels` and belong to no window. On the page they
are SVG whose inks follow the reader's light or dark setting: `INK`, `SOFT` and `PAPER` are colours
by name for anything that is neither data nor colour scale. `write_all` writes the same figures as
SVG and PNG files for a paper, where ink is dark.
"""

from __future__ import annotations

import base64
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voxprior.writing import write_whole, written_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL.Image import Image

# Of lines and letters, of those that matter less, and of what lies below them.
INK, SOFT, PAPER = "#1b1f24", "#57606a", "#fffffe"
IN_THE_DARK = {INK: "#e6edf3", SOFT: "#9aa5b1", PAPER: "#11161c"}
# On the page, pixels per inch; and the width in inches above which a figure gets a row of its own.
PIXELS, WIDE = 88, 6.0
DPI = 150
# The same figure gives the same bytes; letters stay letters, and a dollar sign is not a formula.
WRITTEN: Any = {"svg.hashsalt": "voxprior", "svg.fonttype": "none", "text.parse_math": False}
# A figure that is laid out needs no engine, and is drawn once where it would be drawn twice.
LAID_OUT: Any = {"figure.autolayout": False, "figure.constrained_layout.use": False}
NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def blank(width: float, height: float) -> Figure:
    """Make an empty figure of a size in inches that belongs to no window.

    A notebook shows it, whether or not pyplot was imported.
    """
    return _shown_figure()(figsize=(width, height), layout="constrained")


@cache
def _shown_figure() -> type[Figure]:
    from matplotlib.figure import Figure

    class PageFigure(Figure):
        def _repr_png_(self) -> bytes:
            written = io.BytesIO()
            self.savefig(written, format="png", dpi=PIXELS)
            return written.getvalue()

    return PageFigure


def panels(
    count: int, width: float, height: float, *, across: int | None = None, margin: float = 0.0
) -> tuple[Figure, list[Axes]]:
    """Make panels side by side, and below each other where there are more than fit across.

    Parameters
    ----------
    count : int
        How many.
    width, height : float
        Of each, in inches.
    across : int, optional
        Most of them in a row; without it they are all in one.
    margin : float
        Width to add to the figure, for instance for a colour bar.

    Examples
    --------
    >>> figure, axes = panels(5, 3.0, 2.0, across=4)
    >>> len(axes), figure.get_size_inches()
    (5, array([12.,  4.]))
    """
    columns = count if across is None else min(count, across)
    rows = -(-count // columns)
    figure = blank(width * columns + margin, height * rows)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for spare in grid[count:]:
        spare.set_axis_off()
    return figure, list(grid[:count])


# ---------------------------------------------------------------- onto the page, and into files


@dataclass(frozen=True, eq=False)
class Drawn:
    """A figure under the name that its files have."""

    name: str
    figure: Figure

    @cached_property
    def svg(self) -> str:
        """The figure as SVG, dark on light."""
        return as_svg(self.figure)

    def entry(self) -> dict[str, Any]:
        """Return the image as a data URI, its file's name, and how much room it takes on a page."""
        return as_image(self.figure, self.svg) | {"file": self.name}


def write_all(drawn: Iterable[Drawn], folder: Path, prefix: str = "") -> list[Path]:
    """Write ``<name>.svg`` and ``<name>.png`` of figures, dark on light; returns where they are.

    While a figure is drawn, the one before is packed into its PNG file by another thread.
    """
    paths: list[Path] = []
    packed: list[Future] = []
    with ThreadPoolExecutor(1) as packer:
        for one in drawn:
            svg, png = (folder / f"{prefix}{one.name}.{kind}" for kind in ("svg", "png"))
            write_whole(svg, one.svg)
            packed.append(packer.submit(copy_context().run, _write_png, _pixels(one.figure), png))
            paths += [svg, png]
    for file in packed:
        file.result()  # raises what went wrong
    return paths


def _write_png(image: Image, path: Path) -> None:
    with written_whole(path) as new:
        image.save(new, dpi=(2 * DPI, 2 * DPI))


def _pixels(figure: Figure) -> Image:
    from PIL import Image

    buffer, dpi = io.BytesIO(), 2 * DPI
    _save(figure, buffer, format="raw", dpi=dpi, transparent=False)
    width, height = (int(inches * dpi) for inches in figure.get_size_inches())
    return Image.frombuffer("RGBA", (width, height), buffer.getvalue(), "raw", "RGBA", 0, 1)


def as_image(figure: Figure, svg: str | None = None) -> dict[str, Any]:
    """SVG of a figure as a data URI, light or dark as the reader has it, and the room it takes."""
    svg = follow_the_reader(as_svg(figure) if svg is None else svg)
    text = base64.b64encode(svg.encode("utf-8")).decode("ascii")
    inches = figure.get_figwidth()
    return {
        "image": f"data:image/svg+xml;base64,{text}",
        "width": round(PIXELS * inches),
        "wide": inches > WIDE,
    }


def as_svg(figure: Figure) -> str:
    """SVG of a figure; characters that XML does not allow, which a label may have, become �."""
    buffer = io.StringIO()
    _save(figure, buffer, format="svg", dpi=DPI, metadata={"Date": None, "Creator": None})
    return NOT_XML.sub("\ufffd", buffer.getvalue())


def _save(figure: Figure, target: Any, **options: Any) -> None:
    from matplotlib import rc_context

    _ink(figure)
    with rc_context(WRITTEN | LAID_OUT):
        engine = figure.get_layout_engine()
        if engine is not None:
            # Left to savefig, everything would be drawn once more, to see how large it is.
            engine.execute(figure)
            figure.set_layout_engine(None)
        figure.savefig(target, **({"transparent": True} | options))


def _ink(figure: Figure) -> None:
    """Give the ink of the page to what matplotlib has drawn in black by default.

    Text is not read as formulas: labels may have dollar signs.
    """
    from matplotlib.axes import Axes
    from matplotlib.colors import to_hex
    from matplotlib.legend import Legend
    from matplotlib.spines import Spine
    from matplotlib.text import Text

    def black(color: Any) -> bool:
        return to_hex(color) == "#000000"

    for part in figure.findobj():
        if isinstance(part, Text):
            part.set_parse_math(False)
            if black(part.get_color()):
                part.set_color(INK)
        elif isinstance(part, Spine) and black(part.get_edgecolor()):
            part.set_edgecolor(INK)
        elif isinstance(part, Axes):
            part.tick_params(which="both", color=INK, labelcolor=INK)
        elif isinstance(part, Legend):
            part.get_frame().set(facecolor=PAPER, edgecolor=SOFT)


def follow_the_reader(svg: str) -> str:
    """Let the inks of an SVG follow the light or dark setting of whoever looks at it.

    >>> follow_the_reader('<svg><path style="stroke: #1b1f24"/></svg>')[-48:]
    '</style><path style="stroke: var(--ink)"/></svg>'
    """
    names = {INK: "--ink", SOFT: "--soft", PAPER: "--paper"}
    for color, name in names.items():
        svg = svg.replace(color, f"var({name})")
    light = "".join(f"{name}:{color};" for color, name in names.items())
    dark = "".join(f"{name}:{IN_THE_DARK[color]};" for color, name in names.items())
    style = f"<style>:root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}</style>"
    head, opening, rest = svg.partition("<svg")
    attributes, end, body = rest.partition(">")
    return f"{head}{opening}{attributes}{end}{style}{body}"


class Album:
    """Figures of one page, each under a file name of its own.

    >>> album = Album()
    >>> [album.name(title) for title in ("ROC", "Risk and coverage", "ROC")]
    ['roc', 'risk-and-coverage', 'roc-2']
    """

    def __init__(self) -> None:
        self.drawn: list[Drawn] = []
        self._taken: Counter[str] = Counter()

    def name(self, title: str) -> str:
        """File name for a title that no other figure has."""
        plain = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "figure"
        self._taken[plain] += 1
        return plain if self._taken[plain] == 1 else f"{plain}-{self._taken[plain]}"

    def add(self, title: str, figure: Figure) -> dict[str, Any]:
        """Take a figure in; returns what the page needs of it, see `Drawn.entry`."""
        self.drawn.append(Drawn(self.name(title), figure))
        return self.drawn[-1].entry()

    def add_maps(self, entries: Iterable[Mapping[str, Any]], prefix: str) -> list[dict[str, Any]]:
        """Entries of maps with their figures taken in; those without one stay as they are."""
        found = []
        for one in entries:
            kept = {key: value for key, value in one.items() if key != "figure"}
            if one.get("figure") is not None:
                kept |= self.add(f"{prefix} {one['name']}", one["figure"])
            found.append(kept)
        return found
