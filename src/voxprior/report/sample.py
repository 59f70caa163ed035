"""Who was scanned, as the first table of a paper, and how well parts of them are decoded.

Columns come from the table that was handed over. What is the same in all scans of a group counts
once per group, so that the ages of people are not weighted by their scans.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from voxprior.report.scores import Score
from voxprior.validation import Result, chance_level, interval
from voxprior.validation.audit.association import Column
from voxprior.validation.scores import score_name, score_predictions

# What a first table shows before all else, and the columns that scores are split by.
TELLING = re.compile(r"(.*_)?(age|sex|gender|site|scanner|cent(er|re))(_.*)?", re.IGNORECASE)
MOST_COLUMNS, MOST_LEVELS, MOST_CLASSES = 10, 12, 6
NUMBER = "{:.3g}".format


def sample_tables(
    result: Result,
    y: np.ndarray,
    groups: np.ndarray | None,
    columns: Mapping[str, pd.Series],
    asked: tuple[str, ...] = (),
) -> list[dict[str, Any]]:
    """Tables of the sample by class, and of the score by parts of it; none without columns.

    Parameters
    ----------
    result : Result
        Whose samples are rows of the columns.
    y, groups : arrays
        Labels and groups of the scans.
    columns : mapping of str to Series
        What is known of each scan, without its name and label.
    asked : tuple of str
        Columns that come first, such as covariates.
    """
    if not columns:
        return []
    order = sorted(columns, key=lambda name: (name not in asked, not _is_telling(name)))
    shown = {name: columns[name] for name in order[:MOST_COLUMNS]}
    classes = list(np.unique(y)) if result.task == "classification" else []
    tables = [_first_table(classes, y, groups, shown, len(columns))]
    told = {name: v for name, v in shown.items() if name in asked or _is_telling(name)}
    parts = [row for name, values in told.items() for row in _scores_by(result, name, values)]
    if parts:
        score = _score_of_parts(result)
        chance = chance_level(result, score) if result.task == "classification" else None
        against = "" if chance is None else f" (chance {chance:.3f})"
        name = score_name(score)
        caption = f"{name[0].upper()}{name[1:]}{against} on held-out scans, by part of the sample"
        heads = ["part", "scans", name, "95 % interval", "interval by"]
        tables.append({"caption": caption, "columns": heads, "rows": parts})
    return tables


def _is_telling(name: str) -> bool:
    return TELLING.fullmatch(str(name)) is not None


# ---------------------------------------------------------------- the first table


def _first_table(
    classes: list, y: np.ndarray, groups: np.ndarray | None, columns: Mapping, n_known: int
) -> dict[str, Any]:
    """Numbers as mean (sd), words as counts; missing values where there are some."""
    heads = classes if len(classes) <= MOST_CLASSES else []
    chosen = [y == label for label in heads] + [np.ones(len(y), dtype=bool)]
    rows = [["scans", *(str(one.sum()) for one in chosen)]]
    if groups is not None:
        rows.append(["groups", *(str(len(np.unique(groups[one]))) for one in chosen)])
    for name, values in columns.items():
        once = _once(values, y, groups)
        rows += _described(name, values, [one & once for one in chosen])
    caption = "The sample: numbers are mean (standard deviation), words are counts"
    if groups is not None:
        caption += "; what a group has in common counts once"
    if n_known > len(columns):
        caption += f"; {len(columns)} of {n_known} columns"
    return {"caption": caption, "columns": ["", *map(str, heads), "all"], "rows": rows}


def _once(values: pd.Series, y: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Scans that count: the first of each class in a group, where groups have one value each."""
    if groups is None or values.groupby(groups).nunique(dropna=False).max() > 1:
        return np.ones(len(y), dtype=bool)
    return ~pd.DataFrame({"group": groups, "y": y}).duplicated().to_numpy()


def _described(name: str, values: pd.Series, chosen: list[np.ndarray]) -> list[list[str]]:
    parts = [values[one] for one in chosen]
    missing = [int(part.isna().sum()) for part in parts]
    if Column(values, False).quantity:
        rows = [[name, *map(_mean, parts)]]
    else:
        levels = values.value_counts().index
        most = levels if len(levels) <= MOST_LEVELS else levels[: MOST_LEVELS - 1]
        rows = [[f"{name}: {_level(level)}", *(str((part == level).sum()) for part in parts)]
                for level in most]  # fmt: skip
        if len(most) < len(levels):
            rest = [str(part.isin(levels[len(most) :]).sum()) for part in parts]
            rows.append([f"{name}: {len(levels) - len(most)} others", *rest])
    return rows + ([[f"{name}: missing", *map(str, missing)]] if any(missing) else [])


def _mean(part: pd.Series) -> str:
    if part.notna().sum() < 2:
        return ", ".join(map(NUMBER, part.dropna())) or "-"
    return f"{part.mean():.1f} ({part.std():.1f})"


def _level(level: Any) -> str:
    return NUMBER(level) if isinstance(level, float) else str(level)


# ---------------------------------------------------------------- scores by part


def _score_of_parts(result: Result) -> str:
    """The score that has the same chance level in every part."""
    return "balanced_accuracy" if result.task == "classification" else "mae"


def _scores_by(result: Result, name: str, values: pd.Series) -> list[list[str]]:
    score, rows = _score_of_parts(result), []
    for part, inside in _parts(name, values):
        rows_in = inside[result.predictions["sample"].to_numpy()]
        tested = result.predictions[rows_in].reset_index(drop=True)
        if tested.empty:
            continue
        head = [part, str(tested["sample"].nunique())]
        present = tested["y_true"].unique()
        if result.task == "classification" and len(present) < len(result.classes):
            only = ", ".join(map(str, present))
            rows.append([*head, "-", "-", f"{only} only, so that there is nothing to tell apart"
                         if len(present) == 1 else "not all classes are there"])  # fmt: skip
            continue
        grouped = result.settings.get("n_groups") is not None
        found = Score(score, interval(_only(result, tested), score), None, grouped)
        rows.append([*head, found.value, found.range, found.how])
    return rows


def _parts(name: str, values: pd.Series) -> Iterator[tuple[str, np.ndarray]]:
    """Levels of words, halves of numbers."""
    if Column(values, False).quantity:
        middle = values.median()
        yield f"{name} up to {NUMBER(middle)}", (values <= middle).to_numpy()
        yield f"{name} above {NUMBER(middle)}", (values > middle).to_numpy()
        return
    levels = values.value_counts().index
    if 1 < len(levels) <= MOST_LEVELS:
        for level in levels:
            yield f"{name}: {_level(level)}", (values == level).to_numpy()


def _only(result: Result, tested: pd.DataFrame) -> Result:
    """Return the result of some predictions, with their scores fold by fold."""
    rows = []
    for fold, part in tested.groupby("fold", sort=True):
        known = result.scores[result.scores["fold"] == fold].iloc[0]
        sizes = {"fold": fold, "n_train": known["n_train"], "n_test": len(part)}
        scores = score_predictions(part, result.task, result.classes)
        rows.append(sizes | {name: scores[name] for name in result.score_names})
    return replace(result, predictions=tested, scores=pd.DataFrame(rows))
