"""The second level: scores of participants in a table, their means against chance, and maps.

A map of the group is tested by what each participant shows: how well the voxels around every voxel
decode held-out runs of their own, minus chance. Signs of these maps are flipped, so that a small p
says that the mean over participants is not chance; not that most of them are above it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import ttest_1samp

from voxprior.decoder.comparison import decimals
from voxprior.decoder.mapping import Mapped, mapped
from voxprior.images import Dataset
from voxprior.mapping import accuracy_map, group_accuracy_test
from voxprior.validation import Result, chance_level
from voxprior.validation.result import plain
from voxprior.validation.scores import score_predictions
from voxprior.writing import write_whole


def second_level(result: Result, alone: Mapping[str, Result | None]) -> pd.DataFrame:
    """One row per participant: scores within (held-out runs), and between (held out itself).

    The score is balanced accuracy where the classes of somebody are unequal, so that chance is the
    same for all.
    """
    table = result.predictions
    tested = {label: table[table["group"] == f"sub-{label}"] for label in alone}
    score, rows = _same_chance(result, tested, alone), []
    for label, own in alone.items():
        rows.append(
            {
                "participant_id": f"sub-{label}",
                "n_trials": tested[label]["sample"].nunique(),
                "score": score,
                "within": float("nan") if own is None else own.pooled()[score],
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


def group_tests(table: pd.DataFrame) -> dict[str, Any]:
    """Mean over participants against chance, by a one-sided t-test, of both columns.

    It says that the mean is above chance, not that most participants show the effect.
    """
    tests = {}
    for column in ("within", "between"):
        gains = (table[column] - table["chance"]).dropna()
        test = {"n": len(gains), "mean": table[column].mean(), "sd": table[column].std()}
        if len(gains) > 1 and gains.std() > 0:
            t, p = ttest_1samp(gains, 0.0, alternative="greater")
            test |= {"t": float(t), "p": float(p)}
        tests[column] = test
    chance = float(table["chance"].iloc[0])
    return plain({"score": table["score"].iloc[0], "chance": chance, **tests})


def write_tests(table: pd.DataFrame, work: Path, name: str) -> None:
    """Write the table of participants and the tests of its columns."""
    options: dict[str, Any] = {"float_format": "%.6g", "na_rep": "n/a"}
    write_whole(work / f"{name}.tsv", table.to_csv(sep="\t", index=False, **options))
    write_whole(work / f"{name}.json", json.dumps(group_tests(table), indent=1))


def as_table(table: pd.DataFrame) -> dict[str, Any]:
    """Return the table of participants as the report shows it."""
    rows = [
        [
            row["participant_id"],
            str(row["n_trials"]),
            *map(decimals, (row["within"], row["between"])),
        ]
        for row in table.to_dict("records")
    ]
    return {
        "caption": f"{table['score'].iloc[0].replace('_', ' ')} of every participant: on held-out "
        "runs of their own, and held out from the others",
        "columns": ["participant", "trials", "within", "between"],
        "rows": rows,
    }


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
