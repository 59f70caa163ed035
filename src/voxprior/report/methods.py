"""What was done: tables for the page, and a paragraph to paste into a paper.

Facts are data by section and key. `ITEMS` says how the page calls and writes those that come from
the ``settings`` of a Result; every other key is already what the reader sees. The sections
follow the COBIDAS items: data, preprocessing, model, hyper-parameters, split, metric, inference,
software.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

from voxprior.report.scores import Score
from voxprior.validation import PermutationResult, Result
from voxprior.validation.scores import score_name
from voxprior.validation.second_sample import SECOND_SAMPLE

Facts = Mapping[str, Mapping[str, Any]]
SOFTWARE = ("voxprior", "numpy", "scipy", "scikit-learn", "nilearn", "nibabel")
# Parameters of pipelines that only repeat their parts, and the space, reported with the data.
UNTOLD = ("space", "steps", "memory", "verbose", "transform_input", "copy", "copy_X")


def in_words(value: Any) -> str:
    """Write a fact, numbers without digits that mean nothing to readers.

    >>> in_words(0.1 + 0.2), in_words(True)
    ('0.3', 'yes')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in counts.items())


class Item(NamedTuple):
    """How the page calls a fact, and how it writes one."""

    name: str
    write: Callable[[Any], str] = in_words


ITEMS = {
    "Data": {
        "n_samples": Item("scans"),
        "n_features": Item("values per scan", "{:,}".format),
        "class_counts": Item("classes", _counts),
        "n_groups": Item("groups (runs or subjects)"),
    },
    "Validation": {
        "cv": Item("splitter"),
        "n_folds": Item("folds"),
        "random_state": Item("seed"),
    },
}


# ---------------------------------------------------------------- facts and tables


def gather_facts(
    result: Result,
    known: Facts | None = None,
    permutation: PermutationResult | None = None,
) -> dict[str, dict[str, Any]]:
    """Collect the facts of a Result and those of its caller; the caller's take precedence."""
    settings = result.settings
    facts: dict[str, dict[str, Any]] = {
        "Data": {
            "n_samples": settings.get("n_samples"),
            "n_features": settings.get("n_features"),
            "class_counts": settings.get("class_counts") or None,
            "n_groups": settings.get("n_groups"),
        },
        "Model": {"estimator": settings.get("estimator")},
        "Hyper-parameters": _parameters(settings.get("parameters", {})),
        "Validation": {
            "split": settings.get("split", settings.get("cv")),
            "cv": settings.get("cv"),
            "n_folds": settings.get("n_folds"),
            "metric": score_name(result.score_names[0]),
            "random_state": settings.get("random_state"),
        },
    }
    if permutation is not None:
        facts["Inference"] = {"permutation test": permutation_sentence(permutation)}
    for section, items in (known or {}).items():
        facts[section] = facts.get(section, {}) | dict(items)
    facts["Software"] = {package: version(package) for package in SOFTWARE}
    return {
        section: {key: value for key, value in items.items() if value is not None and value != ""}
        for section, items in facts.items()
    }


def fact_tables(facts: Facts) -> dict[str, dict[str, str]]:
    """Write facts as the page shows them: sections of names and texts."""
    return {section: _table(section, items) for section, items in facts.items()}


def _table(section: str, items: Mapping[str, Any]) -> dict[str, str]:
    known = ITEMS.get(section, {})
    shown = [(known.get(key, Item(key)), value) for key, value in items.items()]
    return {item.name: item.write(value) for item, value in shown}


def _parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters to list: not the steps of a pipeline, because their parameters are listed."""
    parts = {name.partition("__")[0] for name in given if "__" in name}
    told = {k: v for k, v in given.items() if k not in parts and k.split("__")[-1] not in UNTOLD}
    return {k.replace("__", ": "): "none" if v is None else v for k, v in told.items()}


# ---------------------------------------------------------------- the paragraph


def methods_paragraph(
    result: Result, facts: Facts, score: Score, permutation: PermutationResult | None = None
) -> str:
    """Sentences over data, preprocessing, model, split, metric, inference and software."""
    software = facts["Software"]
    sentences = [
        _data(facts["Data"]),
        *_preprocessing(facts.get("Preprocessing", {})),
        _model(facts["Model"]),
        _split(result, facts["Validation"]),
        _outcome(score),
        permutation_sentence(permutation, cited=True),
        f"Analyses used voxprior {software['voxprior']} with scikit-learn "
        f"{software['scikit-learn']} (Pedregosa et al. 2011) and nilearn {software['nilearn']} "
        "(Abraham et al. 2014).",
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def _data(data: Mapping[str, Any]) -> str:
    text = f"We decoded {data.get('n_samples', '?')} scans"
    if "class_counts" in data:
        text += f" ({_counts(data['class_counts'])})"
    if "n_groups" in data:
        text += f" from {data['n_groups']} runs or subjects"
    if "n_features" in data:
        text += f", each of {data['n_features']:,} values"
    return text + "."


# What a methods section says of a step, where it was done and where it was not.
STEPS = {
    "voxels": ("The voxels analysed were {}.", ""),
    "mask": ("The mask was {}.", ""),
    "scaling": ("Images were scaled: {}.", ""),
    "smoothing": ("Images were smoothed ({}).", "No spatial smoothing was applied."),
    "temporal cleaning": ("Runs were cleaned by {}.", "No temporal filter was applied."),
    "standardising": ("Values were standardised: {}.", "Values were not standardised."),
    "covariates": ("Covariates were removed (Snoek et al. 2019): {}.", ""),
    "decided from the scans": ("{}", ""),  # whole sentences
}


def _preprocessing(steps: Mapping[str, Any]) -> list[str]:
    told = []
    for name, text in _table("Preprocessing", steps).items():
        done, not_done = STEPS.get(name, (f"{name[:1].upper()}{name[1:]}: {{}}.", ""))
        told.append(not_done if text == "none" and not_done else done.format(text))
    return told


def _model(model: Mapping[str, Any]) -> str:
    words = model.get("decoder", model.get("estimator", "?"))
    return f"The decoder was {words}, with the parameters listed below."


def _split(result: Result, split: Mapping[str, Any]) -> str:
    if result.settings.get("cv") == SECOND_SAMPLE:
        return "The model was fitted before, to other scans, and was tested as it is on these."
    folds = f"{split.get('n_folds', '?')} folds, seed {split.get('random_state', '?')}"
    text = f"It was tested on held-out scans by {split.get('split', '?')} ({folds})"
    allowed = [finding.name for finding in result.findings if finding.allowed]
    if allowed:
        text += "; audit findings overridden: " + ", ".join(allowed)
    return text + "."


# Who introduced the intervals.
INTERVALS = {
    "beta-binomial": "Brown et al. 2001",
    "corrected resampled t": "Nadeau & Bengio 2003",
    "group bootstrap": "Davison & Hinkley 1997",
}


def _outcome(score: Score) -> str:
    text = f"The {score.name} on held-out scans was {score.value}"
    if score.has_interval:
        after = INTERVALS.get(score.interval.method)
        text += f" (95 % interval {score.range}, {score.how}{f' after {after}' if after else ''})"
    if score.chance is not None:
        text += f" against a chance level of {score.chance:.3f}"
    return text + "."


def permutation_sentence(test: PermutationResult | None, cited: bool = False) -> str:
    """What a permutation test did and found; nothing where there was none."""
    if test is None:
        return ""
    return test.statement + (
        " (P-values were computed after Phipson & Smyth 2010.)" if cited else ""
    )
