"""A study: every participant decoded alone, then the group, in BIDS derivatives layout.

    <out>/dataset_description.json, index.html
    <out>/sub-01/func/sub-01_<name>_report.html, .._result.json, .._predictions.tsv, ...
    <out>/group/<name>_report.html, .._secondlevel.tsv, ...

A participant who is finished with the same settings is not run again: ``.._decoding.json`` holds
all that decides the outcome and is written last, see `voxprior.study.kept`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from voxprior.decoder import Decoder, Decoding, Naming, with_prior_from
from voxprior.decoder.comparison import summary_of
from voxprior.decoder.facts import subject
from voxprior.decoder.mapping import Mapped, map_data
from voxprior.decoder.preparation import name_of, named
from voxprior.errors import InputError, InputWarning, option
from voxprior.images import Dataset, load_runs
from voxprior.images.findings import repetition_findings
from voxprior.mapping import Atlas, neighborhoods
from voxprior.output import FINISHED, Clock, output_files
from voxprior.registry import check_kind, default_model
from voxprior.report.where import headline
from voxprior.study.derivatives import (
    Run,
    check_repetition,
    describe_derivatives,
    find_derivatives,
    find_runs,
    find_subjects,
    find_task,
)
from voxprior.study.group import decode_group
from voxprior.study.index import write_index
from voxprior.study.kept import (
    code_is_known,
    recorded,
    refuse_changed,
    refuse_other_contrast,
    result_of,
    settings_of,
)
from voxprior.study.names import contrast_of, stem_of
from voxprior.study.participants import are_tasks, check_outputs, decode_on_workers
from voxprior.validation import Result
from voxprior.writing import write_whole


@dataclass(frozen=True)
class Study:
    """Runs by participant, and all that decides how they are decoded.

    Attributes
    ----------
    runs : dict of str to list of Run
        By label of the participant, without ``sub-``.
    out : Path
        Output folder.
    name : str
        What files are called by, see `voxprior.study.names`.
    model : str
        What the model is called.
    decoder : Decoder
        Model, workers and seed.
    reading : dict
        Keywords of `voxprior.images.load_runs`: conditions, delay, confounds, smoothing_fwhm, ...
    cv, allow, permutations, test
        As in `Decoder.decode`.
    mapping : bool
        Whether to test where in the brain classes differ: of each participant over runs, of the
        group over participants.
    progress : callable or None
        Called with a line on each participant.
    prior_from : {None, "group"}
        ``group`` decodes every participant with a prior from all others, see `voxprior.transfer`.
    reporting : dict
        What reports are asked for: positive, prevalence, curve, stock, atlas and atlas_labels of
        `voxprior.decoder.decoding.decode`.
    searchlight : float, optional
        Millimetres within which voxels of each participant are decoded together, for a map of the
        group.
    contrast : str
        What the contrast, or this way to decode it, is called.

    Examples
    --------
    >>> from voxprior.study import Study
    >>> study = Study.from_bids("study", "out", task="faces", delay=5)  # doctest: +SKIP
    >>> study.decode_participants()  # doctest: +SKIP
    >>> study.decode_group()["second_level"]  # doctest: +SKIP
    """

    runs: dict[str, list[Run]]
    out: Path
    name: str
    model: str = field(default_factory=default_model)
    decoder: Decoder = field(default_factory=Decoder)
    reading: Mapping[str, Any] = field(default_factory=dict)
    cv: Any = None
    allow: Sequence[str] = ()
    permutations: int = 0
    mapping: bool = False
    progress: Callable[[str], None] | None = None
    prior_from: str | None = None
    reporting: Mapping[str, Any] = field(default_factory=dict)
    test: str = "auto"
    searchlight: float | None = None
    contrast: str = ""

    @classmethod
    def from_bids(
        cls,
        bids: Path | str,
        out: Path | str,
        *,
        task: str | None = None,
        name: str | None = None,
        decoder: Decoder | None = None,
        derivatives: Path | str | None = None,
        space: str = "MNI152NLin2009cAsym",
        participants: Sequence[str] = (),
        cv: Any = None,
        allow: Sequence[str] = (),
        permutations: int = 0,
        mapping: bool = False,
        progress: Callable[[str], None] | None = None,
        model: str | None = None,
        prior_from: str | None = None,
        reporting: Mapping[str, Any] | None = None,
        test: str = "auto",
        searchlight: float | None = None,
        **reading: Any,
    ) -> Study:
        """Find the runs of a BIDS folder and its fMRIPrep derivatives.

        Parameters
        ----------
        bids : path
            BIDS folder, which has the events tables.
        out : path
            Output folder.
        task : str, optional
            Task, without ``task-``; the one that there is if absent.
        name : str, optional
            Part of the name of every file, such as ``faces-houses``: contrasts and models with
            names of their own are side by side in one folder. Made of the conditions if absent.
        decoder : Decoder, optional
            Model, workers and seed; the default model if absent.
        derivatives : path, optional
            fMRIPrep's output; ``<bids>/derivatives/fmriprep`` if absent.
        space : str
            Space of the images; ``MNI152NLin2009cAsym:res-2`` to name a grid.
        participants : sequence of str
            Labels; all if absent.
        model : str, optional
            What the model is called; its name in the registry by default.
        cv, allow, permutations, mapping, progress, prior_from, reporting, test, searchlight, \
**reading
            As in the class.
        """
        bids = Path(bids)
        folder = find_derivatives(bids, None if derivatives is None else Path(derivatives))
        labels = find_subjects(folder, list(participants))
        contrast = contrast_of(name, reading.get("conditions"))
        if task is None:
            task = find_task(folder, labels)
        where, timed = (task, space), reading.get("t_r") is not None
        runs = {label: find_runs(bids, folder, label, *where, timed) for label in labels}
        decoder = Decoder() if decoder is None else decoder
        model = model or name_of(decoder.estimator)
        stem = stem_of(task, contrast, space, model)
        settings: dict[str, Any] = {"cv": cv, "allow": allow, "permutations": permutations}
        settings["mapping"] = mapping
        settings |= {"prior_from": prior_from, "reporting": dict(reporting or {})}
        settings |= {"test": test, "searchlight": searchlight, "contrast": contrast}
        if prior_from not in (None, "group"):
            raise InputError(
                f"{option('prior_from', prior_from)} is not a choice", expected="group"
            )
        if prior_from and len(labels) < 2:
            raise InputError("There are no other participants to learn from", expected="at least 2")
        if prior_from:
            stem += "prior"
        return cls(runs, Path(out), stem, model, decoder, reading, progress=progress, **settings)

    def __repr__(self) -> str:
        n_runs = sum(map(len, self.runs.values()))
        return f"Study({self.name!r}: {len(self.runs)} participants, {n_runs} runs)"

    # ---------------------------------------------------------------- each participant alone

    def decode_participants(self) -> dict[str, Any]:
        """Decode every participant alone; those finished with the same settings are kept.

        Returns
        -------
        dict
            Scores by participant, in JSON's types.
        """
        check_outputs(self, map(self.place, self.runs))
        describe_derivatives(self.out)
        labels = self._unfinished()
        try:
            self._decode_alone(labels)
        finally:
            write_index(self.out)
        results = {f"sub-{label}": result_of(self, label) for label in self.runs}
        found = {name: summary_of(result) for name, result in results.items() if result}
        return {"level": "participant", "participants": found, "folder": str(self.out)}

    def _decode_alone(self, labels: list[str]) -> None:
        if are_tasks(self, labels):
            decode_on_workers(self, labels)
            return
        datasets: dict[str, Dataset] = {}
        for label in labels:
            runs = self.runs[label]
            self.tell(f"sub-{label}: {len(runs)} runs")
            decoder = self._taught(label, datasets)
            self.decode_runs(*self.place(label), runs, title=f"sub-{label}", decoder=decoder)

    def _unfinished(self) -> list[str]:
        """Participants whose outcome with these very settings is not there yet."""
        labels, known = [], code_is_known(self, "No participant is kept")
        for label, runs in self.runs.items():
            if len(runs) == 1 and self.cv in (None, "auto"):
                raise InputError(
                    f"sub-{label}: has one run, so none can be held out",
                    remedy=f"Give another split, {option('cv')}",
                )
            refuse_other_contrast(self, label)
            if known and recorded(self, label) == settings_of(self, runs):
                self.tell(f"sub-{label}: finished before with these settings, kept")
            else:
                labels.append(label)
        return labels

    def _taught(self, label: str, datasets: dict[str, Dataset]) -> Decoder:
        """The decoder of a participant, with a prior from all others if that is asked for."""
        if self.prior_from is None:
            return self.decoder
        others = {}
        for other, runs in self.runs.items():
            if other == label:
                continue
            if other not in datasets:
                datasets[other] = self.read(runs)
            others[f"sub-{other}"] = datasets[other]
        return with_prior_from(self.decoder, others)

    def read(self, runs: list[Run], groups: list[str] | None = None) -> Dataset:
        """Read runs and cut them into trials."""
        for run in runs:
            check_repetition(run)
        times = {run.t_r for run in runs}
        masks = [str(run.mask) for run in runs if run.mask is not None]
        given = dict(self.reading)
        t_r = given.pop("t_r", None)
        # Where the JSON files of the images differ, the header of each image counts.
        settings = {"t_r": t_r or (times.pop() if len(times) == 1 else None), "groups": groups}
        if given.get("mask") is None and len(masks) == len(runs):
            given["mask"] = masks
        events = [str(run.events) for run in runs]
        data = load_runs([str(run.bold) for run in runs], events, **settings, **given)
        data = data.named_near(Path.cwd())
        if t_r or "repetition-time" in dict(data.findings):
            return data
        found = repetition_findings([run.t_r for run in runs], [run.bold.name for run in runs])
        looked = tuple(dict.fromkeys(("repetition-time", *data.looked)))
        return replace(data, findings=(*found, *data.findings), looked=looked)

    def decode_into(self, work: Path, label: str) -> None:
        """Decode a participant alone, and write all files into a folder."""
        naming, title = self.place(label)[1], f"sub-{label}"
        self._write_decoding(work, naming, self.runs[label], title)

    def decode_runs(self, folder: Path, naming: Naming, runs: list[Run], **how: Any) -> Result:
        """Decode and write runs, whole or not at all."""
        with output_files(folder, naming.prefix.strip("_"), naming.file("decoding.json")) as work:
            return self._write_decoding(work, naming, runs, **how)

    def _write_decoding(
        self,
        work: Path,
        naming: Naming,
        runs: list[Run],
        title: str,
        groups: list[str] | None = None,
        mapping: Callable[..., Mapped] = map_data,
        beside: Callable[[Result], list[dict[str, Any]]] | None = None,
        write_more: Callable[[Path, Dataset], None] | None = None,
        decoder: Decoder | None = None,
        check: Callable[[Dataset], None] | None = None,
    ) -> Result:
        """Read, decode and write runs; the file of settings comes last."""
        clock, settings = Clock(), settings_of(self, runs)
        with clock.phase("reading images", show=bool(self.decoder.verbose)):
            data = self.read(runs, groups)
        check_kind(named(self.decoder.estimator, data.y), data.y, self.model)
        if check is not None:
            check(data)
        if self.searchlight is not None:
            neighborhoods(data.space, self.searchlight)  # refused before anything long
        if data.dropped:
            told = f"{title}: {len(data.dropped)} trials left out: {data.dropped[0]}"
            warnings.warn(InputWarning(told), stacklevel=4)
        made = contrast_of(None, self.reading.get("conditions"))
        called = [] if self.contrast in ("", made) else [self.contrast]
        done: Decoding = (decoder or self.decoder).decode(
            data,
            cv=self.cv,
            allow=self.allow,
            permutations=self.permutations,
            test=self.test,
            title=f"{', '.join([title, *called, self.model])}: {subject(data)}",
            beside=beside,
            folder=work / FINISHED,
            clock=clock,
            mapping=self._mapping(mapping),
            **self.reporting,
        )
        done.write(work, naming)
        if write_more is not None:
            write_more(work, data)
        refuse_changed(self, runs, settings)
        write_whole(work / naming.file("decoding.json"), json.dumps(settings, indent=1))
        return done.result

    def _mapping(self, test: Callable[..., Mapped]) -> Callable[..., Mapped] | None:
        """Make what tests the map of a data set, if that is wanted."""

        def mapped(data: Dataset, atlas: Atlas | None) -> Mapped:
            found = test(data, atlas, random_state=self.decoder.random_state, tell=self.tell)
            self.tell(headline(found.test))
            return found

        return mapped if self.mapping else None

    def place(self, label: str) -> tuple[Path, Naming]:
        """Folder and names of a participant's files."""
        start = f"sub-{label}_{self.name}_"
        return self.out / f"sub-{label}" / "func", Naming(start, f"{start}stat-{{}}_statmap", "")

    def tell(self, text: str) -> None:
        """Report a line, if there is a callback."""
        if self.progress is not None:
            self.progress(text)

    # ---------------------------------------------------------------- the group

    def decode_group(self) -> dict[str, Any]:
        """Train on all participants but one, test on that one, and put both numbers into a table.

        Returns
        -------
        dict
            Scores, and the tests of the second level, in JSON's types.
        """
        return decode_group(self)

    def all_runs(self) -> list[Run]:
        """Runs of all participants."""
        return [run for of_one in self.runs.values() for run in of_one]
