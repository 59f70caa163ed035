"""What held-out probabilities decide: the confusion table, and the numbers that a clinic asks for.

Of two classes one is the class of interest, called positive. Where it has the prevalence q, with
sensitivity s (positive scans called positive) and specificity t (others called negative),

    positive predictive value  s q / (s q + (1 - t)(1 - q))                                 (1)
    negative predictive value  t (1 - q) / (t (1 - q) + (1 - s) q)                          (2)

Decisions are those at that prevalence: posteriors are re-weighted first, see
`voxprior.decision.correct_priors`. The script of the page does the same when a control is moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from voxprior.decision import average_repeats, confusion_table, correct_priors
from voxprior.decision.curves import Scans
from voxprior.errors import InputError, option
from voxprior.registry import kind_of
from voxprior.validation import Result
from voxprior.validation.intervals import beta_binomial

UNDECIDED = "undecided"
DEPENDENT = (
    "Sensitivity and specificity have no interval, because scans of one group, or repeats of one "
    "scan, are not independent of each other."
)


def scans_once(result: Result) -> Scans:
    """Every tested scan once, its probabilities averaged over repeats."""
    table = result.predictions
    return average_repeats(
        table["y_true"], result.probabilities(), result.classes, table["sample"], table["group"]
    )


def positive_class(classes: Sequence[Any], asked: str | None = None) -> int | None:
    """Place of the class of interest among two classes, the last where none is asked for.

    None where there are not two classes.

    >>> positive_class(["ill", "well"], "ill"), positive_class(["a", "b", "c"])
    (0, None)
    """
    labels = [str(label) for label in classes]
    if asked is not None and str(asked) not in labels:
        raise InputError(
            f"{option('positive', asked)} is not a class",
            expected=f"one of {', '.join(labels)}" if labels else "classes, but labels are numbers",
        )
    if len(labels) != 2:
        return None
    return 1 if asked is None else labels.index(str(asked))


def check_interest(y: Any, positive: str | None, prevalence: float | None) -> None:
    """Refuse a class of interest that is not among the labels, and a prevalence that is not one."""
    classes = np.unique(y).tolist() if kind_of(y) == "classifier" else []
    chosen = positive_class(classes, positive)
    if prevalence is None:
        return
    if chosen is None:
        raise InputError(
            f"{option('prevalence', prevalence)} is for two classes", got=f"{len(classes)}"
        )
    if not 0 < prevalence < 1:
        raise InputError(
            f"{option('prevalence', prevalence)} is not a share", expected="above 0 and below 1"
        )


def decided(
    result: Result, positive: str | None = None, prevalence: float | None = None
) -> dict[str, Any]:
    """What the page's controls work on, and what they show before anybody moves them.

    Parameters
    ----------
    result : Result
        With probabilities.
    positive : str, optional
        The class of interest of two.
    prevalence : float, optional
        Its share where the decoder is to be used; by default its share of the tested scans.
    """
    scans, chosen = scans_once(result), positive_class(result.classes, positive)
    counts = np.bincount(scans.code, minlength=len(result.classes))
    tested_at = counts / counts.sum()
    used_at = tested_at.copy()
    if chosen is not None and prevalence is not None:
        used_at[chosen], used_at[1 - chosen] = prevalence, 1 - prevalence
    # A class that no scan has cannot be re-weighted, and need not be.
    floor = np.maximum(tested_at, 1e-12), np.maximum(used_at, 1e-12)
    answer = correct_priors(scans.probabilities, *floor).argmax(axis=1)
    table = confusion_table(scans.code, answer, range(len(result.classes))).to_numpy()
    labels = [str(c) for c in result.classes]
    rows = [{"decision": c, "counts": row} for c, row in zip(labels, table.tolist())]
    return {
        "classes": labels,
        "priors": tested_at.tolist(),
        "prevalence": used_at.tolist(),
        "probabilities": np.round(scans.probabilities, 6).tolist(),
        "truth": scans.code.tolist(),
        "confusion": [*rows, {"decision": UNDECIDED, "counts": [0] * len(labels)}],
        "positive": chosen,
        "clinic": None if chosen is None else clinic(table, chosen, used_at, _alone(result)),
        "clinic_note": "" if _alone(result) else DEPENDENT,
    }


def _alone(result: Result) -> bool:
    """Whether every tested scan stands for itself: no group, no repeat."""
    return result.settings.get("n_groups") is None or bool(
        result.predictions.drop_duplicates("sample")["group"].is_unique
    )


def clinic(
    table: np.ndarray, positive: int, prevalence: np.ndarray, alone: bool
) -> list[dict[str, str]]:
    """Sensitivity, specificity and predictive values, each with its counts.

    Parameters
    ----------
    table : array of shape (2, 2)
        Scans by decision (rows) and truth (columns).
    positive : int
        The class of interest.
    prevalence : array of shape (2,)
        Of the classes.
    alone : bool
        Whether scans are independent, so that a share can have an interval.

    Examples
    --------
    >>> rows = clinic(np.array([[18, 4], [2, 16]]), 1, np.array([0.9, 0.1]), alone=True)
    >>> [(row["name"], row["value"], row["of"]) for row in rows][:3]
    [('sensitivity', '0.800', '16 of 20'), ('specificity', '0.900', '18 of 20'), ...]
    """
    negative, q = 1 - positive, float(prevalence[positive])
    hit, clear = int(table[positive, positive]), int(table[negative, negative])
    ill, well = int(table[:, positive].sum()), int(table[:, negative].sum())
    s, t = (part / whole if whole else np.nan for part, whole in ((hit, ill), (clear, well)))
    found = predictive_values(s, t, q)
    at = f"at a prevalence of {q:.3g}"
    return [
        _share("sensitivity", hit, ill, alone),
        _share("specificity", clear, well, alone),
        {"name": "positive predictive value", "value": _told(found[0]), "interval": "-", "of": at},
        {"name": "negative predictive value", "value": _told(found[1]), "interval": "-", "of": at},
    ]


def predictive_values(s: float, t: float, q: float) -> tuple[float, float]:
    """Positive and negative predictive value, (1) and (2); NaN where no scan is called that.

    >>> [round(value, 3) for value in predictive_values(0.8, 0.9, 0.1)]
    [0.471, 0.976]
    """
    called, cleared = s * q + (1 - t) * (1 - q), t * (1 - q) + (1 - s) * q
    return (
        s * q / called if called > 0 else np.nan,
        t * (1 - q) / cleared if cleared > 0 else np.nan,
    )


def _share(name: str, part: int, whole: int, alone: bool) -> dict[str, str]:
    interval = "-"
    if alone and whole:
        low, high = beta_binomial(part, whole)
        interval = f"{low:.3f} to {high:.3f}"
    value = _told(part / whole if whole else np.nan)
    return {"name": name, "value": value, "interval": interval, "of": f"{part} of {whole}"}


def _told(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "-"
