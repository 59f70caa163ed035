"""The second level: one score per participant, and whether their mean is above chance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import ttest_1samp

from voxprior.decoder.comparison import decimals
from voxprior.validation.result import plain


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
    """Write the table of participants, and the tests of it, into a folder."""
    options: dict[str, Any] = {"float_format": "%.6g", "na_rep": "n/a"}
    table.to_csv(work / f"{name}.tsv", sep="\t", index=False, **options)
    (work / f"{name}.json").write_text(json.dumps(group_tests(table), indent=1), "utf-8")


def as_table(table: pd.DataFrame) -> dict[str, Any]:
    """The table of participants in the form of the report's tables."""
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
