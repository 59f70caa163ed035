"""Runs of an fMRIPrep-style folder, found by BIDS names: images, masks, events, repetition times.

<derivatives>/sub-01[/ses-1]/func/sub-01[_ses-1]_task-T[_run-1]_space-S_desc-preproc_bold.nii.gz
                                                         .../..._desc-brain_mask.nii.gz
<bids>/sub-01[/ses-1]/func/sub-01[_ses-1]_task-T[_run-1]_events.tsv, or task-T_events.tsv above

`describe_derivatives` makes a folder one of derivatives.
"""

import glob
import json
from pathlib import Path
from typing import NamedTuple

from voxprior import __version__
from voxprior.documents import read_json
from voxprior.errors import InputError, option
from voxprior.images.cleaning import LONGEST_T_R
from voxprior.images.volumes import header_t_r, load_volume
from voxprior.output import is_log
from voxprior.writing import write_whole

BIDS_VERSION = "1.9.0"
# Entities that distinguish runs of a subject; space, resolution and description come on top.
RUN_ENTITIES = ("sub", "ses", "task", "acq", "ce", "rec", "dir", "run", "echo")
# Share by which the JSON file and the header of an image may differ: both are rounded.
SAME_TIME = 0.01


class Run(NamedTuple):
    """One preprocessed run of a subject, with what belongs to it."""

    subject: str
    bold: Path
    mask: Path | None
    events: Path
    t_r: float | None


def entities(path: Path) -> dict[str, str]:
    """Take a BIDS name apart.

    >>> entities(Path("sub-01_task-faces_run-2_bold.nii.gz"))
    {'sub': '01', 'task': 'faces', 'run': '2'}
    """
    pairs = (part.partition("-") for part in path.name.split(".")[0].split("_"))
    return {key: value for key, dash, value in pairs if dash}


def find_derivatives(bids: Path, given: Path | None) -> Path:
    """Return the folder of preprocessed data: the one given, or fMRIPrep's usual place."""
    if not bids.is_dir():
        raise FileNotFoundError(f"{bids}: no such BIDS folder.")
    for folder in [given] if given else [bids / "derivatives" / "fmriprep", bids / "derivatives"]:
        if folder.is_dir():
            return folder
    raise InputError(
        f"{given or bids / 'derivatives'}: no such folder",
        remedy=f"Say where fMRIPrep's output is, {option('derivatives')}",
    )


def find_subjects(derivatives: Path, wanted: list[str]) -> list[str]:
    """Labels of the subjects that are there, or of those wanted, without ``sub-``."""
    there = sorted(p.name.removeprefix("sub-") for p in derivatives.glob("sub-*") if p.is_dir())
    if not there:
        raise FileNotFoundError(f"{derivatives}: has no folder sub-*.")
    labels = [label.removeprefix("sub-") for label in wanted] or there
    absent = [label for label in labels if label not in there]
    if absent:
        raise InputError(
            f"{derivatives}: has no participants {', '.join(absent)}",
            expected=f"{option('participants')} among {', '.join(there)}",
        )
    return labels


def find_task(derivatives: Path, labels: list[str]) -> str:
    """Return the task of all runs of these subjects, if there is one."""
    images = [
        path
        for label in labels
        for path in (derivatives / f"sub-{label}").rglob("*_desc-preproc_bold.nii.gz")
    ]
    tasks = sorted({known["task"] for known in map(entities, images) if "task" in known})
    if not tasks:
        raise FileNotFoundError(f"{derivatives}: has no preprocessed run of a task.")
    if len(tasks) > 1:
        raise InputError(
            f"{derivatives}: has runs of {len(tasks)} tasks",
            expected=f"{option('task')} among {', '.join(tasks)}",
        )
    return tasks[0]


def find_runs(
    bids: Path, derivatives: Path, subject: str, task: str, space: str, timed: bool = False
) -> list[Run]:
    """Runs of one subject, task and space, in the order of their names.

    `space` may name more than the space, as fMRIPrep writes it: ``MNI152NLin2009cAsym:res-2``.
    Repetition times are not read from JSON files where they are given (`timed`).
    """
    folder = derivatives / f"sub-{subject}"
    images = sorted(folder.rglob(f"sub-{subject}_*_desc-preproc_bold.nii.gz"))
    of_task = [path for path in images if entities(path).get("task") == task]
    name, *more = space.split(":")
    wanted = {"space": name} | dict(part.split("-", 1) for part in more)
    found = [path for path in of_task if wanted.items() <= entities(path).items()]
    if not found:
        _refuse(folder, images, of_task, task, space)
    runs = [_run(path, bids, subject, timed) for path in found]
    _check_unique(runs)
    return runs


def _refuse(folder: Path, images: list[Path], of_task: list[Path], task: str, space: str) -> None:
    tasks = sorted({entities(path).get("task", "?") for path in images})
    spaces = sorted({entities(path).get("space", "?") for path in of_task})
    if not of_task:
        raise FileNotFoundError(
            f"{folder}: no preprocessed run of task '{task}'. Tasks there: "
            f"{', '.join(tasks) or 'none'}."
        )
    raise FileNotFoundError(
        f"{folder}: no run of task '{task}' in space '{space}'. Spaces there: {', '.join(spaces)}."
    )


def _run(bold: Path, bids: Path, subject: str, timed: bool) -> Run:
    mask = bold.with_name(bold.name.replace("_desc-preproc_bold", "_desc-brain_mask"))
    t_r = None if timed else _repetition(bold)
    return Run(subject, bold, mask if mask.is_file() else None, _events(bold, bids), t_r)


def _events(bold: Path, bids: Path) -> Path:
    """Events of a run: of its own name, or shared by a task in a folder above."""
    known = entities(bold)
    name = "_".join(f"{key}-{known[key]}" for key in RUN_ENTITIES if key in known and key != "echo")
    func = bids / f"sub-{known['sub']}"
    func = func / f"ses-{known['ses']}" / "func" if "ses" in known else func / "func"
    shared = f"task-{known['task']}_events.tsv"
    places = [func / f"{name}_events.tsv", bids / f"sub-{known['sub']}" / shared, bids / shared]
    for place in places:
        if place.is_file():
            return place
    raise FileNotFoundError(f"{places[0]}: no such events table (wanted for {bold.name}).")


def read_beside(run: Run, confounds: bool) -> list[Path]:
    """Files next to an image that are read if they are there: its JSON, confounds of fMRIPrep."""
    known = entities(run.bold)
    name = "_".join(f"{key}-{known[key]}" for key in RUN_ENTITIES if key in known and key != "echo")
    tables = run.bold.parent.glob(f"{glob.escape(name)}_*confounds*") if confounds else ()
    return [_sidecar(run.bold), *sorted(tables)]


def _sidecar(bold: Path) -> Path:
    return bold.with_name(bold.name.replace(".nii.gz", ".json"))


def _repetition(bold: Path) -> float | None:
    """Repetition time from the JSON file of an image; without one the header must give it."""
    beside = _sidecar(bold)
    if not beside.exists():
        return None
    content = read_json(beside, "JSON file of an image")
    if not isinstance(content, dict):
        raise InputError(
            f"{beside}: does not describe an image",
            expected="an object with names such as RepetitionTime",
            got=f"{content!r:.40}",
        )
    if "RepetitionTime" not in content:
        return None
    seconds = content["RepetitionTime"]
    known = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not known or not 0 < seconds <= LONGEST_T_R:
        raise InputError(
            f"{beside}: its RepetitionTime cannot be used",
            expected=f"seconds, a number above 0, up to {LONGEST_T_R:g}",
            got=f"{seconds!r:.40}",
            remedy=f"Correct the file, or give {option('t_r')}",
        )
    return float(seconds)


def check_repetition(run: Run) -> None:
    """Refuse a run whose header gives other seconds between volumes than the JSON file does."""
    if run.t_r is None:
        return
    header = header_t_r(load_volume(run.bold, str(run.bold)))
    if header is not None and abs(header - run.t_r) > SAME_TIME * run.t_r:
        raise InputError(
            f"{run.bold}: its header says that a volume came every {header:g} s, but its JSON "
            f"file says {run.t_r:g} s",
            remedy=f"Correct the one that is wrong, or give {option('t_r')}",
        )


def _check_unique(runs: list[Run]) -> None:
    seen: dict[tuple, Path] = {}
    for run in runs:
        known = entities(run.bold)
        key = tuple(known.get(name) for name in RUN_ENTITIES)
        if key in seen:
            raise InputError(
                f"{run.bold.name} and {seen[key].name} are the same run",
                remedy=f"Say more in {option('space')}, for instance MNI152NLin2009cAsym:res-2",
            )
        seen[key] = run.bold


# ---------------------------------------------------------------- the folder that is written


def describe_derivatives(out: Path) -> None:
    """Write dataset_description.json, which makes the folder a BIDS derivative.

    One that is there stays as it is, since people add to it; one of another program is refused.
    """
    path = out / "dataset_description.json"
    if out.is_dir() and not all(map(is_log, out.iterdir())):
        if not _generated_by_us(path):
            raise InputError(
                f"{out}: is not empty and holds no {path.name} of voxprior",
                remedy="Choose another folder",
            )
        return
    content = {
        "Name": "voxprior: decoding",
        "BIDSVersion": BIDS_VERSION,
        "DatasetType": "derivative",
        "GeneratedBy": [{"Name": "voxprior", "Version": __version__}],
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"{out}: cannot be written ({error.strerror}).") from error
    write_whole(path, json.dumps(content, indent=1))


def _generated_by_us(path: Path) -> bool:
    try:
        makers = json.loads(path.read_text("utf-8"))["GeneratedBy"]
        return any(maker["Name"] == "voxprior" for maker in makers)
    except (OSError, ValueError, TypeError, KeyError):
        return False
