"""The held-out predictions as a table that can be filtered, sorted and downloaded, and by group."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from voxprior.validation import Result
from voxprior.validation.scores import score_name, score_predictions

# Columns of the predictions as the page calls them; p_<class> becomes P(<class>).
COLUMNS = {"y_true": "truth", "y_pred": "prediction"}


def prediction_table(result: Result, names: Sequence[str] = ()) -> dict[str, Any]:
    """One row per held-out prediction: columns, and rows of texts."""
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


def group_table(result: Result) -> dict[str, Any] | None:
    """Scans and first score of every group (run, subject); None where scans have no groups."""
    if result.settings.get("n_groups") is None:
        return None
    score = "accuracy" if result.task == "classification" else "mae"
    rows = []
    for group, part in result.predictions.groupby("group", sort=True):
        found = score_predictions(part, result.task, result.classes)[score]
        rows.append([str(group), str(part["sample"].nunique()), f"{found:.3f}"])
    return {"columns": ["group", "scans", score_name(score)], "rows": rows}
