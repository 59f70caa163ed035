"""From a Result to a plain dictionary that says everything the page shows.

The dictionary holds Python's own types only, so it is also the machine-readable report. No date
and no duration is in it: the same run gives the same page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from voxprior.decision import (
    average_repeats,
    confusion_table,
    reliability_curve,
    risk_coverage_curve,
)
from voxprior.report import figures
from voxprior.report.methods import (
    fact_tables,
    gather_facts,
    methods_paragraph,
    permutation_sentence,
)
from voxprior.report.pictures import Picture
from voxprior.report.scores import Score, scores_of
from voxprior.validation import LearningCurve, PermutationResult, Result, chance_level
from voxprior.validation.result import plain

# Columns of the predictions as the page calls them; p_<class> becomes P(<class>).
COLUMNS = {"y_true": "truth", "y_pred": "prediction"}
UNDECIDED = "undecided"


def summarize(
    result: Result,
    *,
    title: str = "Decoding report",
    done: Mapping[str, Mapping[str, Any]] | None = None,
    maps: Sequence[Mapping[str, str]] = (),
    pictures: Sequence[Picture] = (),
    names: Sequence[str] = (),
    permutation: PermutationResult | None = None,
    beside: Sequence[Mapping[str, Any]] = (),
    learning: LearningCurve | None = None,
    caution: str = "",
    where: Mapping[str, Any] | None = None,
    decisions: Sequence[str] = (),
) -> dict[str, Any]:
    """Say in plain types what was done and what came out.

    Parameters
    ----------
    result : Result
        Of a validation run.
    title : str
        Heading of the page.
    done : mapping of section to mapping of item to value
        What the caller knows beyond the result: data, preprocessing and the like. An item is called
        as the reader shall see it, or as in ``result.settings``, whose value it then replaces.
    maps : sequence of dict
        ``name``, ``caption``, ``image`` (data URI; none for an empty map) and, if any, ``viewer``
        (HTML).
    pictures : sequence of Picture
        What the family draws.
    names : sequence of str
        Name of each sample, where the predictions are listed.
    permutation : PermutationResult, optional
        Test of the score against relabelled data.
    beside : sequence of dict
        Tables shown with the scores: ``caption``, ``columns``, ``rows``.
    learning : LearningCurve, optional
        Scores by training scans per class.
    caution : str
        What to keep in mind when reading the scores, in a sentence below them.
    where : dict, optional
        Where classes differ, see `voxprior.report.where.where_summary`.
    decisions : sequence of str
        What was chosen automatically, one sentence per choice.
    """
    facts = gather_facts(result, done, permutation)
    scores = scores_of(result)
    summary: dict[str, Any] = {
        "title": title,
        "software": facts["Software"],
        "incomplete": None if result.complete else _incomplete(result),
        "headline": _headline(result, scores[0], permutation) | {"caution": caution},
        "scores": [score.row() for score in scores],
        "decisions": list(decisions),
        "beside": list(beside),
        "audit": [finding.to_dict() for finding in result.findings],
        "checks": [check.to_dict() for check in result.checks],
        "predictions": _predictions(result, names),
        "maps": list(maps),
        "where": where,
        "done": fact_tables(facts),
        "methods": methods_paragraph(result, facts, scores[0], permutation),
        "classes": [], "priors": [], "probabilities": [], "truth": [], "confusion": [],
    }  # fmt: skip
    if result.task == "classification" and result.has_probabilities:
        summary |= _decisions(result)
    summary["figures"] = _shown(_figures(result, permutation, learning))
    summary["pictures"] = _shown(pictures)
    return plain(summary)


def _shown(drawn: Sequence[Picture]) -> list[dict[str, Any]]:
    return [
        {"title": one.title, "caption": one.caption, **figures.as_image(one.figure)}
        for one in drawn
    ]


# ---------------------------------------------------------------- the headline


def _headline(
    result: Result, score: Score, permutation: PermutationResult | None
) -> dict[str, str]:
    name = score.name
    text = f"{name[0].upper()}{name[1:]} {score.value}{_counted(result, score.key)}"
    if score.has_interval:
        text += f", 95 % interval {score.range}"
    else:
        text += f", no interval ({score.interval.reason})"
    if score.chance is not None:
        text += f", chance {score.chance:.3f}"
    return {"text": text + ".", "detail": permutation_sentence(permutation)}


def _counted(result: Result, score: str) -> str:
    """How many scans an accuracy is of, where each was tested once."""
    table = result.predictions
    if score != "accuracy" or table["sample"].duplicated().any():
        return ""
    right = int((table["y_true"] == table["y_pred"]).sum())
    return f" ({right} of {len(table)} scans right)"


def _incomplete(result: Result) -> str:
    planned = result.settings.get("n_folds", "?")
    return f"This run was interrupted: {len(result.scores)} of {planned} folds are shown."


# ---------------------------------------------------------------- predictions and decisions


def _predictions(result: Result, names: Sequence[str]) -> dict[str, Any]:
    table = result.predictions.copy()
    sample = table.pop("sample")
    if result.settings.get("n_groups") is None:
        table = table.drop(columns="group")
    told = without_folder(names)
    table.insert(0, "scan", [told[i] for i in sample] if told else sample.to_numpy())
    if result.task == "classification":
        right = np.where(table["y_true"] == table["y_pred"], "yes", "no")
        table.insert(list(table.columns).index("y_pred") + 1, "right", right)
    for column in table.select_dtypes("float").columns:
        table[column] = table[column].map(lambda v: f"{v:.3f}")
    chances = {f"p_{label}": f"P({label})" for label in result.classes}
    table = table.rename(columns=COLUMNS | chances)
    return {
        "columns": [str(c) for c in table.columns],
        "rows": table.astype(str).to_numpy().tolist(),
    }


def without_folder(names: Sequence[str]) -> list[str]:
    """Names without the folder that all share, which would hide what differs.

    >>> without_folder(["maps/a/one.nii.gz", "maps/b/two.nii.gz"])
    ['a/one.nii.gz', 'b/two.nii.gz']
    """
    paths = [name.split("/") for name in names]
    levels = zip(*(path[:-1] for path in paths))
    shared = len(list(takewhile(lambda parts: len(set(parts)) == 1, levels)))
    return ["/".join(path[shared:]) for path in paths]


def _decisions(result: Result) -> dict[str, Any]:
    """What the page's controls work on: one row of probabilities per scan, repeats averaged."""
    scans = _scans(result)
    counts = np.bincount(scans.code, minlength=len(result.classes))
    answer = scans.probabilities.argmax(axis=1)
    table = confusion_table(scans.code, answer, range(len(result.classes)))
    labels = [str(c) for c in result.classes]
    rows = [{"decision": c, "counts": row} for c, row in zip(labels, table.to_numpy().tolist())]
    return {
        "classes": labels,
        "priors": (counts / counts.sum()).tolist(),
        "probabilities": np.round(scans.probabilities, 6).tolist(),
        "truth": scans.code.tolist(),
        "confusion": [*rows, {"decision": UNDECIDED, "counts": [0] * len(labels)}],
    }


def _scans(result: Result):
    table = result.predictions
    return average_repeats(
        table["y_true"], result.probabilities(), result.classes, table["sample"], table["group"]
    )


# ---------------------------------------------------------------- figures


def _figures(
    result: Result, permutation: PermutationResult | None, learning: LearningCurve | None
) -> list[Picture]:
    first = result.score_names[0]
    chance = chance_level(result, first)
    drawn = []
    if result.scores[first].notna().sum() > 1:  # a fold of one scan has no R²
        folds = figures.fold_scores(result.scores, first, chance)
        drawn.append(Picture("Score of every fold", folds, "Each dot is a fold of held-out scans."))
    if result.task == "regression":
        table = result.predictions
        scatter = figures.predicted_against_true(
            table["y_true"].to_numpy(float), table["y_pred"].to_numpy(float)
        )
        text = "Each dot is a held-out scan; on the dashed line the prediction is right."
        drawn.append(Picture("Predicted against true", scatter, text))
    elif result.has_probabilities:
        drawn += _probability_figures(result)
    if permutation is not None:
        null = (permutation.null, permutation.observed, permutation.p_value, permutation.score)
        text = "Scores that the same test gives when labels are exchanged: what luck can do."
        drawn.append(Picture("Scores under relabelling", figures.null_distribution(*null), text))
    if learning is not None:
        curve = figures.scores_by_size(learning.table, first, chance)
        text = "Mean over random splits, with its standard error; dashed is chance."
        drawn.append(Picture("Learning curve", curve, text))
    return drawn


def _probability_figures(result: Result) -> list[Picture]:
    scans = _scans(result)
    bins = reliability_curve(scans, n_draws=200)
    curve = risk_coverage_curve(scans)
    roc = figures.roc(scans.code, scans.probabilities, result.classes)
    against = (
        f"Scans called {result.classes[1]} above a threshold, from strict (left) to lenient; "
        "numbers are thresholds."
        if len(result.classes) == 2
        else "Each class against all others, with its area: 0.5 is chance, 1 perfect."
    )
    return [
        Picture("ROC", roc, against),
        Picture(
            "Reliability",
            figures.reliability(bins),
            "Is a scan of 80 % confidence right in 80 % of cases? On the dashed line it is; above, "
            f"the decoder is too modest. Mean distance (calibration error) {bins.ece:.2f}.",
        ),
        Picture(
            "Risk and coverage",
            figures.risk_coverage(curve.coverage, curve.risk),
            "Errors among the scans decided, when only the most certain ones are.",
        ),
    ]
