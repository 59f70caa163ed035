"""The methods paragraph: what was done, in sentences to paste into a paper."""

from __future__ import annotations

import re
from collections.abc import Mapping

from voxprior.validation import PermutationResult, Result

# Splits in words; {n} and the like are parameters of the splitter.
SPLITS = {
    "LeaveOneGroupOut": "leaving one run, subject or other group out at a time",
    "Jackknife": "leaving one scan, or group of scans, out at a time",
    "LeaveOnePerClassOut": "leaving one scan or group of every class out, in all combinations",
    "MonteCarloLeaveOnePerClassOut": "leaving one scan or group of every class out, in {n_runs} "
    "random pairings",
    "FewShotSplit": "training on {n_per_class} scans a class drawn at random from one half of the "
    "runs, subjects or scans and testing on the other half, {n_repeats} times",
    "Bootstrap": "training on runs, subjects or scans drawn with replacement and testing on those "
    "not drawn, {n_repeats} times",
    "StratifiedGroupKFold": "{n_splits}-fold cross-validation, stratified by class, groups of "
    "scans kept together",
    "GroupKFold": "{n_splits}-fold cross-validation, groups of scans kept together",
    "StratifiedKFold": "{n_splits}-fold cross-validation, stratified by class",
    "KFold": "{n_splits}-fold cross-validation",
}
# What a representation leaves out because it is the default.
DEFAULTS = {"n_runs": "20", "n_per_class": "2", "n_repeats": "10", "n_splits": "5"}


def split_words(representation: str) -> str:
    """Say a splitter in words; one that is not known stays as it is.

    Examples
    --------
    >>> split_words("StratifiedKFold(n_splits=4, random_state=0, shuffle=True)")
    '4-fold cross-validation, stratified by class'
    >>> split_words("1 given folds")
    'one given division into training and test scans'
    """
    name, _, inside = representation.partition("(")
    given = re.fullmatch(r"(\d+) given folds", representation)
    if given:
        one = given[1] == "1"
        return "one given division into training and test scans" if one else representation
    if name not in SPLITS:
        return representation
    return SPLITS[name].format(**DEFAULTS | dict(re.findall(r"(\w+)=([^,)]+)", inside)))


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
