"""From a Result to a plain dictionary that says everything the page shows.

The dictionary holds Python's own types only, so it is also the machine-readable report. What was
done follows the COBIDAS items (data, preprocessing, model, hyper-parameters, split, metric,
inference, software), once as tables and once as a paragraph to paste. No date and no duration is
in it: the same run gives the same page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
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
from voxprior.report.methods import methods_paragraph, permutation_sentence
from voxprior.report.pictures import Picture
from voxprior.validation import LearningCurve, PermutationResult, Result, chance_level, interval
from voxprior.validation.result import plain

SOFTWARE = ("voxprior", "numpy", "scipy", "scikit-learn", "nilearn", "nibabel")
NAMES = {"r2": "R²", "mae": "mean absolute error", "auc": "area under ROC", "brier": "Brier score"}
SMALL_IS_GOOD = ("log_loss", "brier", "mae", "mse")
# Columns of the predictions as the page calls them; p_<class> becomes P(<class>).
COLUMNS = {"y_true": "truth", "y_pred": "prediction"}
# Parameters of pipelines that say nothing beyond their parts, and the space, told with the data.
UNTOLD = ("space", "steps", "memory", "verbose", "transform_input", "copy", "copy_X")
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
) -> dict[str, Any]:
    """Say in plain types what was done and what came out.

    Parameters
    ----------
    result : Result
        Of a validation run.
    title : str
        Heading of the page.
    done : mapping of section to mapping of item to value
        What the caller knows beyond the result: data, preprocessing and the like.
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
        Scores by training scans a class.
    caution : str
        What to keep in mind when reading the scores, in a sentence below them.
    """
    sections = _done(result, done or {}, permutation)
    rows = _score_rows(result)
    summary: dict[str, Any] = {
        "title": title,
        "software": {package: version(package) for package in SOFTWARE},
        "incomplete": None if result.complete else _incomplete(result),
        "headline": _headline(result, rows[0], permutation) | {"caution": caution},
        "scores": rows,
        "beside": list(beside),
        "audit": [finding.to_dict() for finding in result.findings],
        "predictions": _predictions(result, names),
        "maps": list(maps),
        "done": sections,
        "methods": methods_paragraph(result, sections, rows[0], permutation),
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


# ---------------------------------------------------------------- scores


def _score_rows(result: Result) -> list[dict[str, Any]]:
    rows = []
    for name in result.score_names:
        found = interval(result, name)
        chance = chance_level(result, name)
        rows.append(
            {
                "key": name,
                "name": NAMES.get(name, name.replace("_", " ")),
                "better": "lower" if name in SMALL_IS_GOOD else "higher",
                "mean": _number(found.estimate),
                "interval": "-"
                if found.method == "none"
                else f"{found.low:.3f} to {found.high:.3f}",
                "method": found.reason if found.method == "none" else found.method,
                "chance": "-" if chance is None else _number(chance),
            }
        )
    return rows


def _number(value: float) -> str:
    return "-" if value is None or not np.isfinite(value) else f"{value:.3f}"


def _headline(
    result: Result, row: Mapping[str, str], permutation: PermutationResult | None
) -> dict[str, str]:
    text = f"{row['name'][0].upper()}{row['name'][1:]} {row['mean']}{_counted(result, row['key'])}"
    if row["interval"] != "-":
        text += f", 95 % interval {row['interval']}"
    else:
        text += f", no interval ({row['method']})"
    if row["chance"] != "-":
        text += f", chance {row['chance']}"
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
    """What the page's controls work on: one row of probabilities a scan, repeats averaged."""
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
        curve = figures.learning_curve(learning.table, first, chance)
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


# ---------------------------------------------------------------- what was done


def _done(
    result: Result, known: Mapping[str, Mapping[str, Any]], permutation: PermutationResult | None
) -> dict[str, dict]:
    settings = result.settings
    counts = ", ".join(f"{c}: {n}" for c, n in settings.get("class_counts", {}).items())
    sections: dict[str, dict[str, Any]] = {
        "Data": {
            "scans": settings.get("n_samples"),
            "values a scan": _thousands(settings.get("n_features")),
            "classes": counts or None,
            "groups (runs or subjects)": settings.get("n_groups"),
        },
        "Model": {"estimator": settings.get("estimator")},
        "Hyper-parameters": _parameters(settings.get("parameters", {})),
        "Validation": {
            "split": settings.get("split", settings.get("cv")),
            "splitter": settings.get("cv"),
            "folds": settings.get("n_folds"),
            "metric": result.score_names[0].replace("_", " "),
            "seed": settings.get("random_state"),
        },
    }
    if permutation is not None:
        sections["Inference"] = {"permutation test": permutation_sentence(permutation)}
    for section, items in known.items():
        sections[section] = sections.get(section, {}) | dict(items)
    sections["Software"] = {package: version(package) for package in SOFTWARE}
    return {
        name: {k: _said(v) for k, v in items.items() if v is not None and v != ""}
        for name, items in sections.items()
    }


def _parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters worth reading: not the steps of a pipeline, whose own parameters are listed."""
    parts = {name.partition("__")[0] for name in given if "__" in name}
    told = {k: v for k, v in given.items() if k not in parts and k.split("__")[-1] not in UNTOLD}
    return {k.replace("__", ": "): "none" if v is None else v for k, v in told.items()}


def _thousands(number: int | None) -> str | None:
    return None if number is None else f"{number:,}"


def _said(value: Any) -> str:
    """Numbers without the digits that only a computer means."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
