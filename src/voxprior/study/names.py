"""Names of the files of a study: task, contrast, space and model, each an entity of BIDS.

    task-faces_contrast-faceHouse_space-MNI152NLin2009cAsym_desc-logistic

The contrast is what the user calls it, or made of the conditions, so that contrasts and models are
side by side in one folder. A value has letters and digits alone; one that would lose something else
ends in a digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from voxprior.errors import InputError, option

EVERYTHING = "all"
LONGEST = 40
PLAIN = re.compile(r"[A-Za-z0-9]+([-_. ][A-Za-z0-9]+)*")


def contrast_of(name: str | None, conditions: Sequence[str] | None) -> str:
    """Return what the contrast is called: the name given, or the conditions in their order.

    >>> contrast_of(None, ["house", "face"])
    'face-house'
    """
    if name is None:
        return "-".join(sorted(map(str, conditions or ()))) or EVERYTHING
    if not PLAIN.fullmatch(name) or len(name) > LONGEST:
        raise InputError(
            f"{option('name', name)} cannot be part of a file name",
            expected=f"up to {LONGEST} letters and digits, joined by -, as in faces-houses",
        )
    return name


def value_of(text: str) -> str:
    """Return a text as the value of a BIDS entity.

    >>> value_of("faces-houses"), value_of("a+b")
    ('facesHouses', 'aB300273da')
    """
    first, *more = re.findall(r"[A-Za-z0-9]+", text) or [""]
    joined = first + "".join(part[0].upper() + part[1:] for part in more)
    if PLAIN.fullmatch(text) and len(joined) <= LONGEST:
        return joined
    return joined[: LONGEST - 8] + hashlib.sha256(text.encode()).hexdigest()[:8]


def stem_of(task: str, contrast: str, space: str, model: str) -> str:
    """Return what the names of all files have in common."""
    return (
        f"task-{task}_contrast-{value_of(contrast)}_space-{space.replace(':', '_')}"
        f"_desc-{''.join(re.findall('[A-Za-z0-9]+', model))}"
    )
