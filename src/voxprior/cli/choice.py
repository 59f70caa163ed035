"""A word of caution where the best of several models is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from voxprior.validation import Result


def caution(best: str, results: dict[str, Result]) -> str:
    """Say that the best of several was chosen by its score, and what that choice is worth."""
    from voxprior.validation import score_after_choice

    if len(results) < 2:
        return ""
    score = next(iter(results.values())).score_names[0].replace("_", " ")
    text = (
        f"{best} was chosen as the best of {len(results)} by this very {score}, which flatters it"
    )
    honest = score_after_choice(results)
    return f"{text}." if honest is None else f"{text}; corrected for the choice: {honest:.3f}."
