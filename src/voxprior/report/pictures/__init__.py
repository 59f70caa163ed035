"""What each family draws, one file a family.

A file has ``draw(model, X, y)``, which returns the `Picture` objects of a fitted model, and
``LEGENDS``, which says in words what each of its maps shows.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Picture(NamedTuple):
    """A figure of the report, and what it tells the reader."""

    title: str
    figure: "Figure"
    caption: str = ""


class Legend(NamedTuple):
    """What a map is called, what it shows, and in what unit.

    In the text, ``{sides}`` stands for what red and blue speak for.
    """

    title: str
    text: str
    unit: str = ""
