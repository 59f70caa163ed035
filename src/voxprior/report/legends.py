"""What maps show, in words: from the names that models give them to titles, texts and units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from voxprior.report.pictures import Legend

# Of linear models that are not of this package.
LINEAR = {
    "weights": Legend(
        "Weights",
        "What the decoder multiplies each voxel by; {sides}. A weight says what the decoder uses, "
        "not where the signal is.",
        "weight",
    )
}


def legend_of(name: str, legends: Mapping[str, Legend], classes: Sequence[Any] = ()) -> Legend:
    """Find what a map shows; the class in its name, as in ``weight:face``, goes into the title.

    Examples
    --------
    >>> legend_of("weights[cat]", LINEAR, ["cat", "dog", "fox"]).title
    'Weights: cat'
    >>> legend_of("weights", LINEAR, ["face", "house"]).text[:71]
    'What the decoder multiplies each voxel by; red speaks for house, blue f'
    """
    base, label = _parted(name, legends, classes)
    found = legends.get(base, Legend(base.replace("_", " ").capitalize(), ""))
    text = found.text.format(sides=_sides(label, classes), label=label)
    title = f"{found.title}: {label}" if label else found.title
    return Legend(title, text, found.unit)


def _parted(name: str, legends: Mapping[str, Legend], classes: Sequence[Any]) -> tuple[str, str]:
    """Part the name of a map into what it is of and the class it is for, if any."""
    for label in map(str, classes):
        for base in legends:
            if name in (f"{base}:{label}", f"{base}[{label}]", f"{base}_{label}"):
                return base, label
    return name, ""


def _sides(label: str, classes: Sequence[Any]) -> str:
    if label and len(classes) > 2:
        return f"red speaks for {label}, blue against it"
    if len(classes) == 2:
        return f"red speaks for {classes[1]}, blue for {classes[0]}"
    return "red raises the predicted number, blue lowers it"
