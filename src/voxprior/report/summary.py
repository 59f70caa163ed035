"""From a Result to a plain dictionary with everything the page shows.

The dictionary holds Python's own types only, so it is also the machine-readable report. No date
and no duration is in it: the same run gives the same page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from voxprior.decision import reliability_curve, risk_coverage_curve
from voxprior.report import plots
from voxprior.report.checklist import checklist
from voxprior.report.citations import bibtex
from voxprior.report.decisions import check_interest, decided, positive_class, scans_once
from voxprior.report.guide import about_findings, guide
from voxprior.report.learning import learning_sentence
from voxprior.report.methods import (
    fact_tables,
    gather_facts,
    methods_paragraph,
    permutation_sentence,
)
from voxprior.report.pictures import Picture
from voxprior.report.predictions import group_table, prediction_table
from voxprior.report.scores import Score, main_scores, scores_of
from voxprior.validation import (
    LearningCurve,
    PermutationResult,
    Result,
    Verdict,
    chance_level,
    interval,
)
from voxprior.validation.result import plain


def summarize(
    result: Result,
    *,
    title: str = "Decoding report",
    done: Mapping[str, Mapping[str, Any]] | None = None,
    maps: Sequence[Mapping[str, Any]] = (),
    pictures: Sequence[Mapping[str, Any]] = (),
    figures: Sequence[Mapping[str, Any]] = (),
    names: Sequence[str] = (),
    permutation: PermutationResult | None = None,
    beside: Sequence[Mapping[str, Any]] = (),
    learning: LearningCurve | None = None,
    verdict: Verdict | None = None,
    setting: str = "",
    standing: Mapping[str, Any] | None = None,
    caution: str = "",
    command: str = "",
    sample: Sequence[Mapping[str, Any]] = (),
    where: Mapping[str, Any] | None = None,
    decisions: Sequence[str] = (),
    positive: str | None = None,
    prevalence: float | None = None,
    stage: Mapping[str, Any] | None = None,
    viewers: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Put into plain types what was done and what came out.

    Parameters
    ----------
    result : Result
        Of a validation run.
    title : str
        Heading of the page.
    done : mapping of section to mapping of item to value
        Facts beyond the result: data, preprocessing and the like. An item is called
        as the reader shall see it, or as in ``result.settings``, whose value it then replaces.
    maps : sequence of dict
        ``name``, ``caption``, ``image`` (data URI; none for an empty map) and, if any, ``peaks``
        and ``viewer``.
    pictures, figures : sequence of dict
        What the family draws, and what `result_pictures` draws of the result: ``title``,
        ``caption``, ``image``.
    names : sequence of str
        Name of each sample, where the predictions are listed.
    permutation : PermutationResult, optional
        Test of the score against relabelled data.
    beside : sequence of dict
        Tables shown with the scores: ``caption``, ``columns``, ``rows``, ``line`` for what they
        show, if anything, and ``figure``, as `pictures`, if there is one.
    learning : LearningCurve, optional
        Scores by training scans per class.
    verdict : Verdict, optional
        What the result shows, in words.
    setting : str
        What the scores are of: scans, groups, voxels, split and model, on one line.
    standing : dict, optional
        The first figure, as `pictures`.
    caution : str
        What to keep in mind when reading the scores, in a sentence below them.
    command : str
        The command line that asked for all this.
    sample : sequence of dict
        Tables of who was scanned, and of scores by parts of them, as `beside`.
    where : dict, optional
        Where classes differ, see `voxprior.report.where.where_summary`.
    decisions : sequence of str
        What was chosen automatically, and why, a sentence each.
    positive, prevalence : str and float, optional
        The class of interest of two, and its prevalence, see `voxprior.report.decisions`.
    stage, viewers : dict and sequence of dict, optional
        What interactive viewers of the maps draw from, see `voxprior.report.viewers`.
    """
    facts = gather_facts(result, done, permutation)
    scores, tables = scores_of(result), fact_tables(facts)
    methods = methods_paragraph(result, facts, scores[0], permutation)
    findings = [finding.to_dict() for finding in result.findings]
    shown = {
        "findings": [finding["name"] for finding in findings],
        "maps": [one["name"] for one in (*(where or {}).get("maps", ()), *maps)],
        "beside": [one["caption"] for one in beside if one["caption"]],
    }
    summary: dict[str, Any] = {
        "title": title,
        "software": facts["Software"],
        "incomplete": None if result.complete else _incomplete(result),
        "headline": _headline(result, scores[0], permutation) | {"caution": caution},
        "verdict": None if verdict is None else verdict.text,
        "setting": setting,
        "standing": standing,
        "front": next((n for n, one in enumerate(maps) if one.get("image")), None),
        "scores": [score.row() for score in scores],
        "main_scores": main_scores(result.score_names),
        "decisions": list(decisions),
        "beside": list(beside),
        "sample": list(sample),
        "learning": None if learning is None else learning_sentence(learning),
        "audit": findings,
        "checks": [check.to_dict() for check in result.checks],
        "predictions": prediction_table(result, names),
        "groups": group_table(result),
        "maps": list(maps),
        "where": where,
        "done": tables,
        "command": command,
        "methods": methods,
        "bibtex": bibtex(methods),
        "checklist": checklist(tables, scores[0], permutation_sentence(permutation), shown),
        "guide": guide(without=("local",) if where else ("local", "tested")),
        "about_findings": about_findings(shown["findings"]),
        "classes": [], "priors": [], "probabilities": [], "truth": [], "confusion": [],
        "positive": None, "prevalence": [], "clinic": None, "clinic_note": "",
        "figures": list(figures), "pictures": list(pictures),
        "stage": stage, "viewers": list(viewers),
    }  # fmt: skip
    check_interest(result.predictions["y_true"], positive, prevalence)
    if result.task == "classification" and result.has_probabilities:
        summary |= decided(result, positive, prevalence)
    return plain(summary)


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
    detail = "" if permutation is None else f"Permutation test: {permutation.line}."
    return {"text": text + ".", "detail": detail}


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


# ---------------------------------------------------------------- pictures of the result


def standing_picture(
    result: Result, others: Mapping[str, Result], permutation: PermutationResult | None = None
) -> Picture:
    """Draw the first score of a decoder with its interval, and those of others below it."""
    first = result.score_names[0]
    rows = [("this decoder", interval(result, first))]
    rows += [(name, interval(other, first)) for name, other in others.items()]
    null = None if permutation is None else permutation.null_of(first)
    figure = plots.standing(rows, first, chance_level(result, first), null)
    text = "Held-out scans; lines are 95 % intervals. All decoders were tested on the same folds."
    return Picture("This decoder and others", figure, text)


def result_pictures(
    result: Result,
    permutation: PermutationResult | None = None,
    learning: LearningCurve | None = None,
    positive: str | None = None,
) -> list[Picture]:
    """Draw scores by fold, probabilities, relabellings and the learning curve, as far as known."""
    first = result.score_names[0]
    chance = chance_level(result, first)
    drawn = []
    if learning is not None:
        curve = plots.scores_by_size(learning.table, first, chance)
        text = "Mean over random splits, with its standard error; dashed is chance."
        drawn.append(Picture("Learning curve", curve, text))
    if result.scores[first].notna().sum() > 1:  # a fold of one scan has no R²
        folds = plots.fold_scores(result.scores, first, chance)
        drawn.append(Picture("Score of every fold", folds, "Each dot is a fold of held-out scans."))
    if result.task == "regression":
        table = result.predictions
        scatter = plots.predicted_against_true(
            table["y_true"].to_numpy(float), table["y_pred"].to_numpy(float)
        )
        text = "Each dot is a held-out scan; on the dashed line the prediction is right."
        drawn.append(Picture("Predicted against true", scatter, text))
    elif result.has_probabilities:
        drawn += _probability_pictures(result, positive)
    if permutation is not None:
        null = (permutation.null, permutation.observed, permutation.p_value, permutation.score)
        text = "Scores that the same test gives when labels are exchanged: what luck can do."
        drawn.append(Picture("Scores under relabelling", plots.null_distribution(*null), text))
    return drawn


def _probability_pictures(result: Result, positive: str | None) -> list[Picture]:
    scans, chosen = scans_once(result), positive_class(result.classes, positive)
    bins = reliability_curve(scans, n_draws=200)
    curve = risk_coverage_curve(scans)
    roc = plots.roc(scans.code, scans.probabilities, result.classes, chosen)
    against = (
        "Each class against all others, with its area: 0.5 is chance, 1 perfect."
        if chosen is None
        else f"Scans called {result.classes[chosen]} above a threshold, from strict (left) to "
        "lenient; numbers are thresholds."
    )
    return [
        Picture("ROC", roc, against),
        Picture(
            "Reliability",
            plots.reliability(bins),
            "Is a scan of 80 % confidence right in 80 % of cases? On the dashed line it is; above, "
            f"the decoder is too modest. Mean distance (calibration error) {bins.ece:.2f}. Bins of "
            f"fewer than {plots.FEWEST_IN_BIN} scans are not drawn.",
        ),
        Picture(
            "Risk and coverage",
            plots.risk_coverage(curve.coverage, curve.risk),
            "Errors among the scans decided, when only the most certain ones are.",
        ),
    ]
