"""The second level: scores of participants in a table, tested over participants, and maps.

Two scores of each: **within**, on held-out runs of their own, and **between**, held out from all
others.

* Within, participants are independent. Their scores minus chance are tested by flipping signs,
  which assumes that they are symmetric around chance where there is no effect; the smallest p that
  so few participants can reach is reported. The interval of the mean is that of the same flips.
* Between, any two participants are tested by decoders that share the scans of all others. A test or
  an interval over participants would take them for independent: the interval is that of a
  cross-validation, see `voxprior.validation.intervals`, and p that of the permutation test if one
  was asked for. The same holds within, where a prior was learned from the other participants.

A small p means that the mean over participants is above chance, not that most of them are.

A map of the group is tested by what each participant shows: how well the voxels around every voxel
decode held-out runs of their own, minus chance, with signs flipped of whole maps.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from voxprior.decoder.comparison import decimals
from voxprior.decoder.mapping import Mapped, mapped
from voxprior.images import Dataset
from voxprior.mapping import accuracy_map, group_accuracy_test
from voxprior.report import plots
from voxprior.report.pictures import Picture
from voxprior.validation import Result, chance_level, interval
from voxprior.validation.comparison import flip_signs
from voxprior.validation.result import plain
from voxprior.validation.scores import score_name, score_predictions
from voxprior.writing import write_whole

COLUMNS = {
    "within": "Within (held-out runs of each participant)",
    "between": "Between (each participant held out from the others)",
}
SHARED = "no p by sign flips, because the decoders share training participants"
FEW = "no interval, because it takes 6 participants"


def second_level(result: Result, alone: Mapping[str, Result | None]) -> pd.DataFrame:
    """One row per participant: scores within (held-out runs), and between (held out itself).

    The score is balanced accuracy where the classes of somebody are unequal, so that chance is the
    same for all. Limits are those of the interval over a participant's runs, where it has any.
    """
    table = result.predictions
    tested = {label: table[table["group"] == f"sub-{label}"] for label in alone}
    score, rows = _same_chance(result, tested, alone), []
    for label, own in alone.items():
        found = None if own is None else interval(own, score)
        rows.append(
            {
                "participant_id": f"sub-{label}",
                "n_trials": tested[label]["sample"].nunique(),
                "score": score,
                "within": float("nan") if own is None else own.pooled()[score],
                "within_low": float("nan") if found is None else found.low,
                "within_high": float("nan") if found is None else found.high,
                "between": score_predictions(tested[label], result.task, result.classes)[score],
                "chance": chance_level(result, score),
            }
        )
    return pd.DataFrame(rows)


def _same_chance(
    result: Result, tested: Mapping[str, pd.DataFrame], alone: Mapping[str, Result | None]
) -> str:
    score = result.score_names[0]
    if score != "accuracy":
        return score
    shares = [one.drop_duplicates("sample")["y_true"].value_counts() for one in tested.values()]
    unequal = any(len({*counts}) > 1 for counts in shares)
    unequal |= any(own is not None and not own.balanced for own in alone.values())
    return "balanced_accuracy" if unequal else score


# ---------------------------------------------------------------- tests over participants


def group_tests(table: pd.DataFrame, result: Result, shared: bool = False) -> dict[str, Any]:
    """Mean over participants against chance, of both columns, each with a line in words.

    `shared`: the decoders of single participants also learned from the others.
    """
    score, chance = str(table["score"].iloc[0]), float(table["chance"].iloc[0])
    within = over_participants(table["within"] - chance, two_sided=False, shared=shared)
    tests = {"within": _above(within, chance), "between": _between(table, result, score)}
    for column, test in tests.items():
        test["line"] = _line(COLUMNS[column], test, score, chance)
    return plain({"score": score, "chance": chance, **tests})


def over_participants(
    differences: pd.Series, *, two_sided: bool, shared: bool = False
) -> dict[str, Any]:
    """Mean of differences, one per participant, with its interval, and p by sign flips."""
    known = differences.dropna().to_numpy(float)
    n = len(known)
    test: dict[str, Any] = {"n": n, "mean": float(known.mean()) if n else None}
    test |= {"sd": float(known.std(ddof=1)) if n > 1 else None, "low": None, "high": None}
    if n == 0:
        return test
    if shared:
        return test | {"interval": "", "test": SHARED}
    if n < 2:
        return test | {"interval": FEW, "test": "no p, because there is one participant"}
    found = flip_signs(known, two_sided=two_sided)
    given = np.isfinite(found.low)
    test |= {"low": found.low, "high": found.high} if given else {}
    test["interval"] = "sign flips" if given else FEW
    return test | {"test": found.words, "p": found.p_value, "smallest_p": found.smallest_p}


def _above(test: dict[str, Any], chance: float) -> dict[str, Any]:
    """Move a test of differences from chance to the scores themselves."""
    moved = {k: test[k] + chance for k in ("mean", "low", "high") if test[k] is not None}
    return test | moved


def _between(table: pd.DataFrame, result: Result, score: str) -> dict[str, Any]:
    """Mean over held-out participants, with what is valid where decoders share scans."""
    found, values = interval(result, score), table["between"]
    given = found.method != "none"
    test: dict[str, Any] = {
        "n": len(values),
        "mean": float(values.mean()),
        "sd": float(values.std()),
    }
    test |= {"low": found.low if given else None, "high": found.high if given else None}
    test["interval"] = found.method if given else f"no interval: {found.reason}"
    test["pooled"] = found.estimate
    relabelled = result.settings.get("permutation")
    if relabelled is None:
        return test | {"test": f"{SHARED}; a permutation test gives one"}
    name, p = score_name(relabelled["score"]), relabelled["p_value"]
    smallest = relabelled["smallest_p"]
    of = f" of {relabelled['decoder']}" if relabelled["stands_for"] else ""
    how = f"permutation test of the {name}{of}, smallest possible p {smallest:.3g}"
    return test | {"test": how, "p": p, "smallest_p": smallest}


def _line(what: str, test: Mapping[str, Any], score: str, chance: float) -> str:
    """Put a test into a line, for terminal and page."""
    if not test["n"]:
        return f"{what}: no scores; run the level participant first."
    people = f"{test['n']} participant{'s' if test['n'] > 1 else ''}"
    said = f"{what}: mean {score_name(score)} {decimals(test['mean'])} over {people}, "
    said += f"chance {decimals(chance)}"
    return f"{said}; {interval_words(test)}{p_words(test)}."


def interval_words(test: Mapping[str, Any]) -> str:
    """The interval of a test, or why there is none."""
    if test["low"] is None:
        return test["interval"]
    pooled = decimals(test.get("pooled", test["mean"]))
    of = "" if pooled == decimals(test["mean"]) else f" of all trials together ({pooled})"
    limits = f"{decimals(test['low'])} to {decimals(test['high'])}"
    return f"95 % interval{of} {limits} ({test['interval']})"


def p_words(test: Mapping[str, Any]) -> str:
    """P of a test with how it was found, or why there is none."""
    between = "; " if interval_words(test) else ""
    if "p" not in test:
        return f"{between}{test['test']}"
    return f"{between}p = {test['p']:.3g} ({test['test']})"


def write_tests(table: pd.DataFrame, tests: Mapping[str, Any], work: Path, name: str) -> None:
    """Write the table of participants and the tests of its columns."""
    write_whole(work / f"{name}.tsv", table_text(table))
    write_whole(work / f"{name}.json", json.dumps(tests, indent=1))


def table_text(table: pd.DataFrame) -> str:
    """Return the table of participants as it is written."""
    return table.to_csv(sep="\t", index=False, float_format="%.6g", na_rep="n/a")


# ---------------------------------------------------------------- what the page shows


def as_tables(table: pd.DataFrame, tests: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return lines, tables and the figure of the second level as the report shows them."""
    score = score_name(table["score"].iloc[0])
    rivals = [one for one in tests["compared"] if "scores" in one]
    rows = [_row(row) for row in table.to_dict("records")]
    means = [_mean(tests[column]) for column in COLUMNS]
    rows.append(["mean", "", *means])
    for one in rivals:
        for column in COLUMNS:
            scores = pd.Series(one["scores"][column], dtype=float)
            cells = [decimals(value) for value in (*scores, scores.mean())]
            rows = [[*row, cell] for row, cell in zip(rows, cells)]
    dots = {column: table[column].tolist() for column in COLUMNS}
    limits = {column: _limits(tests[column]) for column in COLUMNS}
    figure = plots.participants(dots, limits, score, tests["chance"])
    caption = "Each dot is a participant, a line joins the two scores of one; the bar is the mean, "
    picture = Picture("Participants", figure, f"{caption}with its 95 % interval if it has one.")
    blank: dict[str, Any] = {"caption": "", "columns": [], "rows": []}
    of_all = {
        "caption": f"{score} of every participant, with 95 % intervals over runs: on held-out "
        "runs of their own, and held out from the others",
        "columns": ["participant", "trials", *COLUMNS]
        + [f"{column}, {one['name']}" for one in rivals for column in COLUMNS],
        "rows": rows,
        "line": tests["within"]["line"],
        "picture": picture,
    }
    lines = [tests["between"]["line"], *(one["line"] for one in tests["compared"])]
    return [of_all, *(blank | {"line": line} for line in lines)]


def _row(row: Mapping[Any, Any]) -> list[str]:
    within = decimals(row["within"])
    if row["within_low"] == row["within_low"]:
        within += f" ({decimals(row['within_low'])} to {decimals(row['within_high'])})"
    return [row["participant_id"], str(row["n_trials"]), within, decimals(row["between"])]


def _limits(test: Mapping[str, Any]) -> tuple[float, float] | None:
    same = decimals(test.get("pooled", test["mean"])) == decimals(test["mean"])
    return (test["low"], test["high"]) if test["low"] is not None and same else None


def _mean(test: Mapping[str, Any]) -> str:
    limits, mean = _limits(test), decimals(test["mean"])
    return mean if limits is None else f"{mean} ({decimals(limits[0])} to {decimals(limits[1])})"


def map_accuracies(
    of_participants: Iterable[Dataset], group: Dataset, radius: float, **options: Any
) -> Mapped:
    """Test maps of decoding accuracy, one per participant, against chance by flipping signs.

    Parameters
    ----------
    of_participants : iterable of Dataset
        Trials of each participant, with runs as groups, in the voxels of `group`.
    group : Dataset
        Trials of all.
    radius : float
        Of the neighbourhoods that are decoded, in millimetres.
    **options
        As in `voxprior.mapping.map_test`.
    """
    maps = np.array(
        [
            accuracy_map(data.X, data.y, data.groups, data.space, radius, blocks=data.blocks)
            for data in of_participants
        ]
    )
    found = group_accuracy_test(maps, space=group.space, **options)
    title = f"Decoding within {radius:g} mm, over {len(maps)} participants"
    return mapped(group, found, title=title)
