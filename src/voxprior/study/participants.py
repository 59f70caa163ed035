"""Participants on the workers of a cluster: a worker decodes a participant, this process writes.

Where there are more participants than folds of each, participants are what goes over workers: one
reads the runs, tests, fits, draws, and sends the files back, which are put into place here as ever,
whole or not at all. The places are taken before the work begins, so that a folder that cannot be
used is reported at once.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from copy import copy
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from voxprior.output import FINISHED, check_files, output_files
from voxprior.validation.cluster import active_cluster, within_a_task
from voxprior.validation.run import run_tasks
from voxprior.writing import check_name, reading, write_whole

if TYPE_CHECKING:
    from voxprior.decoder import Naming
    from voxprior.study.study import Study


class Decoded(NamedTuple):
    """What a worker sends back: files by their names, lines to print, and warnings."""

    files: dict[str, bytes]
    told: list[str]
    warned: list[Warning]


def check_outputs(study: Study, places: Iterable[tuple[Path, Naming]]) -> None:
    """Refuse to write over files that the study reads, before anything is read."""
    runs = [run for of_one in study.runs.values() for run in of_one]
    found = [file for run in runs for file in (run.bold, run.mask, run.events) if file]
    named = [*study.reading.values(), *study.reporting.values()]
    for file in found:
        check_name(str(file))
    with reading([*found, *(value for value in named if isinstance(value, str | Path))]):
        for folder, naming in places:
            check_files(folder, naming.prefix.strip("_"), naming.file("decoding.json"))


def are_tasks(study: Study, labels: list[str]) -> bool:
    """Whether participants go over workers, and not the folds of one after the other.

    With a prior from the others everybody's scans are needed for each.
    """
    if active_cluster() is None or study.prior_from is not None or len(labels) < 2:
        return False
    return len(labels) > max(len(study.runs[label]) for label in labels)


def decode_on_workers(study: Study, labels: list[str]) -> None:
    """Decode participants on workers; each is written as soon as it is there.

    An error of one ends the work; those who were finished before it are written.
    """
    places = {label: ExitStack() for label in labels}
    works: dict[str, Path] = {}

    def write(number: int, found: Decoded) -> None:
        label = labels[number]
        for line in (f"sub-{label}: {len(study.runs[label])} runs", *found.told):
            study.tell(line)
        for warning in found.warned:
            warnings.warn(warning, stacklevel=2)
        with places.pop(label):
            for name, content in found.files.items():
                path = works[label] / name
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, content)

    try:
        for label in labels:
            folder, naming = study.place(label)
            place = output_files(folder, naming.prefix.strip("_"), naming.file("decoding.json"))
            works[label] = places[label].enter_context(place)
        shown = bool(study.decoder.verbose)
        quiet = copy(study.decoder)
        quiet.verbose = 0
        shared = [replace(study, decoder=quiet, progress=None)]
        done = run_tasks(
            _decode_one,
            labels,
            shared,
            progress=shown,
            name="participants",
            on_result=write,
            long=True,
        )
        if not done.complete:
            raise KeyboardInterrupt
    except BaseException as error:
        for left in places.values():
            with suppress(KeyboardInterrupt):  # one report is enough
                left.__exit__(type(error), error, error.__traceback__)
        raise


def _decode_one(label: str, seed: Any, study: Study) -> Decoded:
    """Decode a participant into files that are sent back; its folds stay where it is."""
    told: list[str] = []
    study = replace(study, progress=told.append)
    with within_a_task(), TemporaryDirectory() as folder:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            study.decode_into(Path(folder), label)
        written = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
        names = {path.relative_to(folder).as_posix(): path for path in written}
        files = {name: p.read_bytes() for name, p in names.items() if FINISHED not in p.parts}
    return Decoded(files, told, [one.message for one in caught if isinstance(one.message, Warning)])
