"""What the outcome of a participant was made of, and whether that is unchanged.

``.._decoding.json`` holds all that decides an outcome: settings, and by content every file that is
read or looked for, the source of the model, and versions. The outcome is kept where all of it is
the same and the result is as it was written. The group level takes the scores of participants, who
must have been decoded as the group is; what each level does besides decoding may differ.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from voxprior.content import content_of, file_digest, versions
from voxprior.decoder.preparation import named
from voxprior.documents import read_json
from voxprior.errors import InputError, InputWarning, option
from voxprior.images import Dataset
from voxprior.output import as_written
from voxprior.source_code import UnreadableCodeError, code_digest
from voxprior.study.derivatives import Run, read_beside
from voxprior.validation import Result
from voxprior.validation.result import plain

if TYPE_CHECKING:
    from voxprior.study.study import Study

# What may differ between a participant and the group: reports, tests besides the score, findings
# that are overridden. The split divides runs there, participants here: it is compared among
# participants.
OF_A_LEVEL = ("Description", "Allow", "Permutations", "Test", "Searchlight", "Map", "Report")
# What users set these by.
SET_BY = {"Contrast": "name", "Seed": "random_state", "Model": "estimator", "Split": "cv"}
TOLD = 4
AGAIN = "Run the level participant again"


def _read_for(study: Study, runs: list[Run]) -> list[Run]:
    """Runs that are read for these: with a prior from the others, those of everybody."""
    return runs if study.prior_from is None else [r for of_1 in study.runs.values() for r in of_1]


def contents(study: Study, runs: list[Run]) -> dict[str, str | None]:
    """Digests of the files that are read for runs, by path; None for one that is not there."""
    confounds = isinstance(study.reading.get("confounds"), Mapping)
    found: dict[str, str | None] = {}
    for run in _read_for(study, runs):
        files = [run.bold, run.mask, run.events, *read_beside(run, confounds)]
        found |= {str(file): file_digest(file) for file in files if file}
    return found


def settings_of(study: Study, runs: list[Run]) -> dict[str, Any]:
    """All that decides the outcome, in JSON's types; equal settings, equal outcome.

    Unless ``Code`` is None: see `code_is_known`.
    """
    model = named(study.decoder.estimator)
    parameters = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    read = _read_for(study, runs)
    return plain(
        {
            "Description": f"Decoding of task trials by the model '{study.model}'",
            "Sources": [str(f) for run in read for f in (run.bold, run.mask, run.events) if f],
            "Contents": contents(study, runs),
            "Reading": {k: content_of(v) for k, v in sorted(study.reading.items())},
            "Split": content_of(study.cv),
            "Allow": list(study.allow),
            "Permutations": study.permutations,
            "Test": study.test,
            "Searchlight": study.searchlight,
            "Map": study.mapping,
            "Report": {k: content_of(v) for k, v in sorted(study.reporting.items())},
            "Seed": study.decoder.random_state,
            "Contrast": study.contrast,
            "Model": study.model,
            "PriorFrom": study.prior_from,
            "Parameters": {k: content_of(v) for k, v in sorted(parameters.items())},
            "Code": _code(study),
            "Versions": versions(),
        }
    )


def _code(study: Study) -> str | None:
    try:
        return code_digest(named(study.decoder.estimator), study.cv)
    except UnreadableCodeError:
        return None


def code_is_known(study: Study, otherwise: str) -> bool:
    """Whether the source of the model and of the split can be read; a warning says so if not."""
    try:
        code_digest(named(study.decoder.estimator), study.cv)
        return True
    except UnreadableCodeError as error:
        why = f"the source of the model or of the split cannot be read ({error})"
        warnings.warn(InputWarning(f"{otherwise}: {why}."), stacklevel=3)
        return False


def refuse_changed(study: Study, runs: list[Run], settings: dict[str, Any]) -> None:
    """Refuse files that changed while they were read: what was read of them is unknown."""
    now, before = contents(study, runs), settings["Contents"]
    changed = sorted(file for file in {*now, *before} if now.get(file) != before.get(file))
    if changed:
        raise InputError(
            f"{changed[0]}: was changed while it was read", remedy="Give the same command again"
        )


def recorded(study: Study, label: str) -> dict[str, Any] | None:
    """What the outcome of a participant was made of, if that and the result are as written."""
    folder, naming = study.place(label)
    record, result = naming.file("decoding.json"), naming.file("result.json")
    with suppress(InputError, OSError):
        found = read_json(folder / record, "record of a participant")
        if isinstance(found, dict) and as_written(folder, naming.prefix.strip("_"), record, result):
            return found
    return None


def refuse_other_contrast(study: Study, label: str) -> None:
    """Refuse to replace the outcome of a contrast whose name leads to the same files."""
    before = (recorded(study, label) or {}).get("Contrast", study.contrast)
    if before != study.contrast:
        raise InputError(
            f"sub-{label}: files of the contrast {before} have the names that {study.contrast} "
            "would have",
            remedy=f"Give another {option('name')}",
        )


def other_names(study: Study) -> list[str]:
    """Names under which participants of the study were decoded otherwise."""
    found = set()
    for label in study.runs:
        start, end = f"sub-{label}_", "_decoding.json"
        for path in study.place(label)[0].glob(f"{start}*{end}"):
            found.add(path.name.removeprefix(start).removesuffix(end))
    return sorted(found - {study.name})


def result_of(study: Study, label: str) -> Result | None:
    """What was found of a participant alone, if anything was."""
    folder, naming = study.place(label)
    path = folder / naming.file("result.json")
    return Result.from_json(path) if path.is_file() else None


def results_alone(study: Study) -> dict[str, Result | None]:
    """Results of participants for the group, who were decoded as the group will be, or are refused.

    Where the source of the model cannot be read, no result can be matched with it, with a warning.
    """
    found: dict[str, Result | None] = dict.fromkeys(study.runs)
    records: dict[str, dict[str, Any]] = {}
    for label, runs in study.runs.items():
        folder, naming = study.place(label)
        if not (folder / naming.file("result.json")).is_file():
            continue
        if not code_is_known(study, "Scores of participants alone are left out"):
            return dict.fromkeys(study.runs)
        record = recorded(study, label)
        if record is None:
            what = f"sub-{label}: its result or its record was changed since, or is of voxprior 0.2"
            raise InputError(what, remedy=AGAIN)
        records[label] = record
        first = next(iter(records.values()))
        _refuse_others(label, record, settings_of(study, runs) | {"Split": first.get("Split")})
        found[label] = result_of(study, label)
    return found


def _refuse_others(label: str, record: dict[str, Any], settings: dict[str, Any]) -> None:
    """Refuse a participant who was decoded otherwise than the group, or the first participant."""
    unlike = [*differences(record, settings)]
    if unlike:
        more = [f"{len(unlike) - TOLD} more"] if len(unlike) > TOLD else []
        raise InputError(
            f"sub-{label} was not decoded as the group is: {'; '.join(unlike[:TOLD] + more)}",
            remedy=f"Give both levels the same. {AGAIN} where files, code or versions have changed",
        )


def differences(
    record: dict[str, Any], settings: dict[str, Any], apart_from: Sequence[str] = ()
) -> Iterator[str]:
    """Name what differs, in the words of who sets it, with both values where they are short."""
    for key in [key for key in settings if key not in (*OF_A_LEVEL, *apart_from)]:
        there, here = record.get(key), settings[key]
        if there == here:
            continue
        if key in ("Reading", "Parameters", "Contents", "Versions") and isinstance(there, dict):
            names = sorted(n for n in {*there, *here} if there.get(n, "") != here.get(n, ""))
            for name in names:
                values = f"{there.get(name)}, here {here.get(name)}"
                if key == "Contents":
                    yield f"other content of {name}"
                else:
                    yield f"{name if key == 'Versions' else option(name)} ({values})"
        elif key in SET_BY:
            yield f"{option(SET_BY[key])} ({there}, here {here})"
        else:
            yield {"Code": "source of the model", "Sources": "other files"}.get(key, key)


def refuse_other_classes(alone: Mapping[str, Result | None], data: Dataset) -> None:
    """Refuse participants whose results are of other classes than the scans of the group."""
    for label, own in alone.items():
        classes = () if own is None or not own.classes else tuple(np.unique(data.y).tolist())
        if own is not None and own.classes != classes:
            raise InputError(
                f"sub-{label} was decoded with other classes than the group",
                expected=", ".join(map(str, classes)),
                got=", ".join(map(str, own.classes)),
                remedy=f"Give both levels the same {option('conditions')}, of which everybody has "
                "trials",
            )
