"""Other models of the same participants in one folder, compared with this one, paired.

A group that was decoded under another name is compared if the files are the same by content, and if
the two differ in their model only; else a line gives the reason. Within, differences of
participants are tested by flipping signs. Between, they share training participants: the interval
of the difference is that of two decoders on the same folds, without p.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voxprior.documents import read_json
from voxprior.errors import InputError
from voxprior.output import as_written
from voxprior.study.kept import differences, result_of, settings_of
from voxprior.study.second_level import (
    COLUMNS,
    SHARED,
    interval_words,
    over_participants,
    p_words,
    second_level,
    table_text,
)
from voxprior.validation import Result
from voxprior.validation.intervals import difference_interval
from voxprior.validation.result import plain
from voxprior.validation.scores import check_same_scans, score_name

if TYPE_CHECKING:
    from voxprior.study.study import Study

RECORD = "decoding.json"
# Of a group, and of its participants alone.
Outcome = tuple[Result, dict[str, Result | None]]
# Two models of the same participants may differ in these.
OF_THE_MODEL = ("Model", "Parameters", "Code", "Contrast", "Seed", "PriorFrom")


def compared(study: Study, alone: dict[str, Result | None], result: Result) -> list[dict[str, Any]]:
    """Compare the group with those that were decoded before, under other names.

    Parameters
    ----------
    study : Study
        Of this group.
    alone : dict of str to Result or None
        Results of its participants alone, by label.
    result : Result
        Of the group.

    Returns
    -------
    list of dict
        By name of the other: differences within and between in JSON's types, with a line; or the
        line alone, which explains why the two cannot be compared.
    """
    folder, found = study.out / "group", []
    records = [path for path in sorted(folder.glob(f"*_{RECORD}")) if _is_other(study, path)]
    settings = settings_of(study, study.all_runs()) if records else {}
    for path in records:
        record = read_json(path, "record of a group")
        if record.get("Contents") != settings["Contents"]:
            continue
        other = Result.from_json(path.with_name(path.name.replace(RECORD, "result.json")))
        if other.classes != result.classes:
            continue
        name = _name(record, settings)
        try:
            _refuse_unlike(record, settings)
            theirs = _alone(study, path, other)
            _refuse_other_folds((alone | {"": result}).values(), (theirs | {"": other}).values())
            found.append(_comparison(name, study, (result, alone), (other, theirs), record))
        except InputError as error:
            found.append({"name": name, "line": f"Not compared with {name}: {error}"})
    return plain(found)


def _is_other(study: Study, path: Path) -> bool:
    """Whether a record is of another group, whose files are as they were written."""
    stem = path.name.removesuffix(f"_{RECORD}")
    files = [f"{stem}_{name}" for name in (RECORD, "result.json", "secondlevel.tsv")]
    return stem != study.name and as_written(path.parent, stem, *files)


def _name(record: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    same = record.get("Contrast") == settings["Contrast"]
    return record["Model"] if same else f"{record['Contrast']} ({record['Model']})"


def _refuse_unlike(record: dict[str, Any], settings: dict[str, Any]) -> None:
    unlike = [*differences(record, settings, OF_THE_MODEL)]
    if unlike:
        raise InputError(f"it differs in {', '.join(unlike)}")


def _alone(study: Study, path: Path, other: Result) -> dict[str, Result | None]:
    """Results of participants alone under the name of another group, as it has taken them."""
    stem = path.name.removesuffix(f"_{RECORD}")
    there = replace(study, name=stem)
    alone = {label: result_of(there, label) for label in study.runs}
    written = path.with_name(f"{stem}_secondlevel.tsv").read_text("utf-8")
    if table_text(second_level(other, alone)) != written:
        raise InputError("its participants have changed since", remedy="Run its group again")
    return alone


def _refuse_other_folds(mine: Iterable[Result | None], theirs: Iterable[Result | None]) -> None:
    for own, other in zip(mine, theirs):
        if own is not None and other is not None:
            check_same_scans(own, other)


def _comparison(
    name: str, study: Study, mine: Outcome, theirs: Outcome, record: Mapping[str, Any]
) -> dict[str, Any]:
    own, other = second_level(*mine), second_level(*theirs)
    score = str(own["score"].iloc[0])
    if other["score"].iloc[0] != score:
        raise InputError(f"its score is {score_name(other['score'].iloc[0])}")
    shared = bool(study.prior_from or record.get("PriorFrom"))
    within = over_participants(own["within"] - other["within"], two_sided=True, shared=shared)
    difference = difference_interval(mine[0], theirs[0], score)
    given = difference.method != "none"
    between: dict[str, Any] = {
        "n": len(own),
        "mean": float((own["between"] - other["between"]).mean()),
        "pooled": difference.estimate,
        "low": difference.low if given else None,
        "high": difference.high if given else None,
        "interval": difference.method if given else f"no interval: {difference.reason}",
        "test": SHARED,
    }
    said = [
        f"{column} {test['mean']:+.3f}, {interval_words(test)}{p_words(test)}"
        for column, test in (("within", within), ("between", between))
        if test["n"]
    ]
    line = f"Compared with {name} on the same participants, difference in {score_name(score)}: "
    of_each = {column: other[column].tolist() for column in COLUMNS}
    found = {"name": name, "within": within, "between": between, "scores": of_each}
    return found | {"line": f"{line}{'. '.join(said).replace('. between', '. Between')}."}
