"""The methods paragraph: what was done, in sentences to paste into a paper."""

from __future__ import annotations

from collections.abc import Mapping

from voxprior.validation import PermutationResult, Result


def methods_paragraph(
    result: Result,
    done: Mapping[str, Mapping[str, str]],
    score: Mapping[str, str],
    permutation: PermutationResult | None,
) -> str:
    """Sentences over data, preprocessing, model, split, metric, inference and software."""
    sentences = [_data(done), _preprocessing(done), _model(done), _split(result, done)]
    sentences += [_outcome(score), permutation_sentence(permutation)]
    software = done["Software"]
    sentences.append(f"Analyses used voxprior {software['voxprior']} with scikit-learn "
                     f"{software['scikit-learn']} and nilearn {software['nilearn']}.")  # fmt: skip
    return " ".join(s for s in sentences if s)


def _data(done: Mapping[str, Mapping[str, str]]) -> str:
    data = done["Data"]
    text = f"We decoded {data.get('scans', '?')} scans"
    if "classes" in data:
        text += f" ({data['classes']})"
    if "groups (runs or subjects)" in data:
        text += f" from {data['groups (runs or subjects)']} runs or subjects"
    if "values a scan" in data:
        text += f", each of {data['values a scan']} values"
    return text + "."


def _preprocessing(done: Mapping[str, Mapping[str, str]]) -> str:
    steps = done.get("Preprocessing", {})
    if not steps:
        return ""
    return "Preprocessing: " + "; ".join(f"{k}: {v}" for k, v in steps.items()) + "."


def _model(done: Mapping[str, Mapping[str, str]]) -> str:
    model = done["Model"]
    words = model.get("decoder", model["estimator"])
    return f"The decoder was {words}, with the parameters listed below."


def _split(result: Result, done: Mapping[str, Mapping[str, str]]) -> str:
    split = done["Validation"]
    folds = f"{split['folds']} folds, seed {split['seed']}"
    text = f"It was tested on held-out scans by {split['split']} ({folds})"
    allowed = [finding.name for finding in result.findings if finding.allowed]
    if allowed:
        text += "; audit findings overridden: " + ", ".join(allowed)
    return text + "."


def _outcome(score: Mapping[str, str]) -> str:
    text = f"The {score['name']} on held-out scans was {score['mean']}"
    if score["interval"] != "-":
        text += f" (95 % interval {score['interval']}, {score['method']})"
    if score["chance"] != "-":
        text += f" against a chance level of {score['chance']}"
    return text + "."


def permutation_sentence(test: PermutationResult | None) -> str:
    """What a permutation test did and found; nothing where there was none."""
    if test is None:
        return ""
    many = "all" if test.exact else "random"
    text = (
        f"In a permutation test ({len(test.null)} {many} relabellings, {test.scheme}; "
        f"{test.hyperparameters}) the {test.score.replace('_', ' ')} of {test.observed:.3f} had "
        f"p = {test.p_value:.3g}; the smallest p this design can give is {test.smallest_p:.3g}"
    )
    return text + (" (stopped early)." if test.stopped_early else ".")
