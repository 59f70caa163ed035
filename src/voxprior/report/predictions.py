"""The held-out predictions as a table that can be filtered, sorted and downloaded, and by group."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from voxprior.validation import Result
from voxprior.validation.scores import score_name, score_predictions

# Names of trials and volumes, as readers of runs make them.
VOLUMES = re.compile(r"(?P<file>.*?), volumes? (\d+)(?: to (\d+))?(?:, .*)?", re.DOTALL)
# Columns of the predictions as the page calls them; p_<class> becomes P(<class>).
COLUMNS = {"y_true": "truth", "y_pred": "prediction"}


def prediction_table(result: Result, names: Sequence[str] = ()) -> dict[str, Any]:
    """One row per held-out prediction: columns, and rows of texts."""
    table = result.predictions.copy()
    sample = table.pop("sample")
    if result.settings.get("n_groups") is None:
        table = table.drop(columns="group")
    columns = name_columns(names) or {"scan": list(map(str, range(sample.max() + 1)))}
    columns["scan"] = without_folder(columns["scan"])
    for place, (column, cells) in enumerate(columns.items()):
        table.insert(place, column, [cells[i] for i in sample])
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


def name_columns(names: Sequence[str]) -> dict[str, list[str]]:
    """Take names of scans apart into columns: the file, and volumes where some are of a run.

    Volumes are counted from 0, and the last is included. What a trial was called is its label,
    which has a column of its own.

    >>> name_columns(["a.nii, volumes 3 to 8, face", "b.nii, volume 2"])
    {'scan': ['a.nii', 'b.nii'], 'volumes': ['3 to 8', '2']}
    >>> name_columns(["a.nii", "b.nii"])
    {'scan': ['a.nii', 'b.nii']}
    """
    parts = [VOLUMES.fullmatch(name) for name in names]
    if not any(parts):
        return {"scan": list(names)} if names else {}
    files = [part["file"] if part else name for part, name in zip(parts, names)]
    ends = [
        [] if part is None else list(dict.fromkeys(filter(None, part.groups()[1:])))
        for part in parts
    ]
    return {"scan": files, "volumes": [" to ".join(some) for some in ends]}


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
