"""What each family draws of itself, one file per family.

To add a picture, touch one file, ``pictures/<package>.py``, named as the family's package in
`voxprior.models`; it may hold any of three names:

* ``draw(model, X, y, space)`` returns a list of `Picture` objects. The model is fitted; X and y are
  its training scans, which controls and resampling need again; the space, or None, gives the places
  of the features. One more entry of the list is one more picture on the page.
* ``draw_maps(model, maps)`` returns pictures of what ``voxel_maps()`` gave, made once for the page.
* ``LEGENDS`` explains what maps show: a `Legend` by the name that a map has in ``voxel_maps()``.

Draw on ``voxprior.report.figures.blank(width, height)`` or ``panels``, whose figures belong to no
window. A family without such a file is reported without pictures of its own, its maps under their
plain names. A family of another package names its module in its entry of the registry
(``pictures=``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Picture(NamedTuple):
    """A figure of the report, and what it shows the reader."""

    title: str
    figure: Figure
    caption: str = ""


class Legend(NamedTuple):
    """What a map is called, what it shows, and in what unit.

    In the text, ``{sides}`` stands for what red and blue speak for.
    """

    title: str
    text: str
    unit: str = ""


WEIGHTS = Legend(
    "Weights",
    "What the decoder multiplies each voxel by; {sides}. A weight says what the decoder uses, not "
    "where the signal is.",
    "weight",
)
# Of linear models that are not of this package.
LINEAR_LEGENDS = {"weights": WEIGHTS}
# How models may name the map of one class.
CLASS_MAP_NAMES = ("{base}:{label}", "{base}[{label}]", "{base}_{label}")


def legend_of(name: str, legends: Mapping[str, Legend], classes: Sequence[Any] = ()) -> Legend:
    """Find what a map shows; the class in its name, as in ``weight:face``, goes into the title.

    Examples
    --------
    >>> legend_of("weights[cat]", LINEAR_LEGENDS, ["cat", "dog", "fox"]).title
    'Weights: cat'
    >>> legend_of("weights", LINEAR_LEGENDS, ["face", "house"]).text[43:86]
    'red (positive) speaks for house, blue (nega'
    """
    base, label = _base_and_class(name, legends, classes)
    found = legends.get(base, Legend(base.replace("_", " ").capitalize(), ""))
    text = found.text.replace("{sides}", _red_and_blue(label, classes))
    title = f"{found.title}: {label}" if label else found.title
    return Legend(title, text, found.unit)


def _base_and_class(
    name: str, legends: Mapping[str, Legend], classes: Sequence[Any]
) -> tuple[str, str]:
    """What a map is of, and the class that it is for, if any."""
    for label in map(str, classes):
        for base in legends:
            if name in [form.format(base=base, label=label) for form in CLASS_MAP_NAMES]:
                return base, label
    return name, ""


def _red_and_blue(label: str, classes: Sequence[Any]) -> str:
    if label and len(classes) > 2:
        return f"red speaks for {label}, blue against it"
    if len(classes) == 2:
        return f"red (positive) speaks for {classes[1]}, blue (negative) for {classes[0]}"
    return "red raises the predicted number, blue lowers it"
