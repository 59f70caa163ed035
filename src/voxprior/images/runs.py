"""4-D runs with their timing to a Dataset of trials, one run in memory at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os.path import isfile
from typing import Any, NamedTuple

import numpy as np

from voxprior.errors import InputError, option
from voxprior.images.confounds import check_strategy, confounds_of
from voxprior.images.dataset import Dataset
from voxprior.images.findings import (
    listed,
    mask_findings,
    repetition_findings,
    warn_of_constant,
)
from voxprior.images.fitting import check_fitting, fit_image_space, read_where_finite
from voxprior.images.imagespace import ImageSpace, not_a_run
from voxprior.images.matching import check_entities
from voxprior.images.sources import Source, find_sources, n_volumes, stem
from voxprior.images.trials import (
    Block,
    Event,
    Samples,
    TrialPlan,
    blocks_of_events,
    blocks_of_labels,
    check_trials,
    cut_trials,
    read_volume_labels,
    repeated_events,
    rest_volumes,
)
from voxprior.images.volumes import header_t_r
from voxprior.labels import refuse_alike

__all__ = ["load_runs"]

GROUP_BY = ("auto", "run", "block")
TRIAL_REMEDY = f"Check onsets (seconds from the first volume), {option('delay')} and the labels"


class FileTiming(NamedTuple):
    """Runs inside one file: name, volumes and blocks of each; and of the file the seconds between
    volumes, where known, and events that repeat others.
    """

    runs: list[Any]
    run_volumes: list[np.ndarray] | None
    blocks: list[list[Block]]
    t_r: float | None
    repeated: list[Event]


def load_runs(
    runs: Any,
    events: Any = None,
    *,
    labels: Any = None,
    unit: str = "block",
    window: int | None = None,
    delay: float = 0.0,
    conditions: Sequence[str] | None = None,
    rest: str | Sequence[str] = "rest",
    label_column: str | None = "trial_type",
    groups: Sequence[Any] | None = None,
    group_by: str = "auto",
    confounds: Any = None,
    images: ImageSpace | None = None,
    **settings: Any,
) -> Dataset:
    """Read 4-D runs and cut them into trials.

    Parameters
    ----------
    runs : path, glob, 4-D image, SurfaceImage or list of these
    events : path, DataFrame, glob, or list with one per run
        BIDS events tables: onset and duration in seconds, and a label column.
    labels : path, DataFrame, sequence, or list with one per file
        In place of `events`: a label for every volume, and perhaps its run, as PyMVPA's
        attribute files have; a DataFrame has columns labels (or trial_type) and chunks (or run).
    unit : {"block", "volume", "window"}
        A sample is the mean of a block, one volume of a block, or `window` volumes from its onset.
    window : int
        Volumes T in a window.
    delay : float
        Seconds by which the response lags the stimulus; the same shift for every block.
    conditions : sequence of str, optional
        Labels to keep; all but rest by default.
    rest : str or sequence of str
        Labels of rest. Volumes outside every other block are the baseline.
    label_column : str or None
        Column of the labels in `events`; None where labels are unknown (`y` is then None).
    groups : sequence, optional
        One value for each file, for instance the subject.
    group_by : {"auto", "run", "block"}
        Without `groups`: "auto" groups samples by run where there are several runs, else by block
        where samples are volumes. Blocks are kept in `Dataset.blocks` in any case.
    confounds : None, dict, or table(s), one per run
        A dict holds options of `read_confounds` (fMRIPrep); otherwise tables of regressors.
    images : ImageSpace, optional
        Read with these fitted settings (scans to be predicted) instead of fitting new ones.
    **settings
        Parameters of `fit_image_space`: mask, mesh, smoothing_fwhm, detrend, high_pass, low_pass,
        t_r, standardize, scale, resample.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import nibabel, numpy as np
    >>> from voxprior.images import load_runs
    >>> run = nibabel.Nifti1Image(np.random.default_rng(0).normal(size=(3, 3, 2, 12)), np.eye(4))
    >>> labels = ["rest", "rest", "face", "face", "rest", "house"] * 2
    >>> load_runs(run, labels=labels, mask="data")
    Dataset(4 samples, 18 voxels, labels face: 2, house: 2)
    """
    check_fitting(images, settings)
    check_trials(unit, window, delay)
    _check_choices(events, labels, group_by, confounds, settings.get("standardize"))
    sources = find_sources(runs, settings.get("mesh"))
    given = _one_each(labels if events is None else events, sources, labels is not None)
    tables = _confounds_each(confounds, sources)
    for source, *beside in zip(sources, given, tables):
        for table in beside:
            check_entities(_name_of(source), table)
    _check_groups(groups, sources)
    fixed = images is not None
    if images is None:
        images = fit_image_space(sources, **settings)
    plan = TrialPlan(
        unit,
        window,
        delay,
        None if conditions is None else list(conditions),
        [rest] if isinstance(rest, str) else list(rest),
        label_column,
    )
    timings = [
        _timing(one, events is not None, source, images, plan)
        for one, source in zip(given, sources)
    ]
    _check_conditions(plan, timings)

    def cut_all(images: ImageSpace) -> list[Samples]:
        files = zip(sources, timings, tables)
        return [samples for file in files for samples in _cut_file(*file, images, plan)]

    if fixed:
        found = cut_all(images)
    else:
        images, found = read_where_finite(cut_all, images, sources)
    names = _run_names(groups, timings, sources)
    data = _assemble(found, names, groups is not None, group_by, images, plan)
    if fixed:
        warn_of_constant(data.findings)  # of new scans, which no audit checks
    timed = images.cleaning.t_r is None and all(timing.t_r for timing in timings)
    looked = ("mask-size",) + ("repetition-time",) * timed
    looked += ("repeated-events",) * (events is not None)
    # Standardising has removed offsets of runs; differences between people are not such offsets.
    looked += ("group-offsets",) * (images.standardize == "run")
    findings = (
        *_findings(timings, sources, plan),
        *data.findings,
        *mask_findings(images.space),
    )
    return replace(data, findings=findings, looked=looked, settings=dict(settings))


def _check_choices(
    events: Any, labels: Any, group_by: Any, confounds: Any, standardize: Any
) -> None:
    """Refuse impossible values of the other parameters, before anything is read."""
    if (events is None) == (labels is None):
        both = "both are there" if events is not None else "neither is there"
        raise InputError(
            f"{option('events')} (a table per run) or {option('labels')} (a label per volume) must "
            f"say where the trials are, but {both}",
            remedy="Give one of them",
        )
    if group_by not in GROUP_BY:
        raise InputError(
            f"{option('group_by', group_by)} is not a choice",
            expected=f"one of {', '.join(GROUP_BY)}",
        )
    if standardize == "group":
        raise InputError(
            f"{option('standardize', 'group')} is for maps that are given one by one",
            remedy=f"Set {option('standardize', 'run')}, by which every run is centred too",
        )
    if isinstance(confounds, dict) and "strategy" in confounds:
        check_strategy(confounds["strategy"])


def _one_each(timing: Any, sources: list[Source], per_volume: bool) -> list[Any]:
    """Match tables with runs; a list of tables must have one per run."""
    if len(sources) == 1 and per_volume and not _is_list_of_tables(timing):
        return [timing]
    if isinstance(timing, str):
        timing = [source.item for source in find_sources(timing)]
    tables = list(timing) if isinstance(timing, (list, tuple)) else [timing]
    if len(tables) != len(sources):
        few = "labels without images" if len(tables) > len(sources) else "images without labels"
        extra = tables[-1] if len(tables) > len(sources) else sources[len(tables)].name
        named = f". The first too many is {extra}" if isinstance(extra, str) else ""
        raise InputError(f"{len(sources)} runs but {len(tables)} tables: {few}{named}")
    return tables


def _name_of(source: Source) -> str:
    """The file of a run, the first of two hemispheres."""
    return str(next(iter(source.item.values()))) if isinstance(source.item, dict) else source.name


def _is_list_of_tables(timing: Any) -> bool:
    if not isinstance(timing, (list, tuple)) or len(timing) != 1:
        return False
    only = timing[0]
    return not isinstance(only, (str, int, float)) or (isinstance(only, str) and isfile(only))


def _confounds_each(confounds: Any, sources: list[Source]) -> list[Any]:
    if confounds is None or isinstance(confounds, dict):
        return [confounds] * len(sources)
    tables = list(confounds) if isinstance(confounds, (list, tuple)) else [confounds]
    if len(tables) != len(sources):
        raise InputError(
            f"{option('confounds')} must have one table per run",
            expected=f"{len(sources)}",
            got=f"{len(tables)}",
        )
    return tables


def _check_groups(groups: Any, sources: list[Source]) -> None:
    if groups is not None and len(groups) != len(sources):
        raise InputError(
            f"{option('groups')} must have one value per file",
            expected=f"{len(sources)}",
            got=f"{len(groups)}",
        )


def _timing(
    table: Any, is_events: bool, source: Source, images: ImageSpace, plan: TrialPlan
) -> FileTiming:
    """Find the runs of one file and their blocks."""
    image = source.load()
    n = n_volumes(image)
    if n < 2:
        raise not_a_run(image, source.name)
    t_r = images.cleaning.t_r or (header_t_r(image) if images.parts is None else None)
    if t_r is None and (is_events or plan.delay):
        raise InputError(
            f"{source.name}: onsets and delays are in seconds, and the image header does not say "
            "how many are between volumes",
            remedy=f"Give {option('t_r')}",
        )
    if is_events:
        column = plan.label_column
        blocks = blocks_of_events(table, n, t_r or 1.0, plan.delay, column, source.name)
        repeated = repeated_events(table, column, source.name) if column else []
        return FileTiming([0], None, [blocks], t_r, repeated)
    found = read_volume_labels(table, n, source.name)
    shift = round(plan.delay / t_r) if t_r else 0
    if found.runs is None:
        return FileTiming([0], None, [blocks_of_labels(found.labels, shift)], t_r, [])
    order = list(dict.fromkeys(found.runs.tolist()))
    run_volumes = [np.flatnonzero(found.runs == run) for run in order]
    blocks_of_runs = [blocks_of_labels(found.labels[part], shift) for part in run_volumes]
    return FileTiming(order, run_volumes, blocks_of_runs, t_r, [])


def _cut_file(
    source: Source, timing: FileTiming, table: Any, images: ImageSpace, plan: TrialPlan
) -> list[Samples]:
    n = n_volumes(source.load())
    path = list(source.item.values()) if isinstance(source.item, dict) else source.path
    confounds = confounds_of(table, path, n, source.name)
    regressors, kept = (None, None) if confounds is None else confounds
    cut = []
    runs = images.read_run(source, regressors, kept, timing.run_volumes)
    for run, blocks in zip(runs, timing.blocks):
        quiet = rest_volumes(blocks, len(run.kept), plan.rest)
        run = images.standardized(run, quiet)
        # An event without a label (n/a) is not a sample, unless labels are what is to be predicted.
        nameless = [] if plan.label_column is None else [b for b in blocks if b.label is None]
        chosen = [b for b in blocks if b not in nameless and plan.wants(b.label)]
        samples = cut_trials(run.values, run.kept, chosen, plan.unit, plan.window, run.name)
        samples.dropped.extend(f"{run.name}, event at volume {b.first}: no label" for b in nameless)
        samples.findings.extend(run.findings)
        cut.append(samples)
    return cut


def _run_names(groups: Any, timings: list[FileTiming], sources: list[Source]) -> list[Any]:
    """Name every run: the user's group, its number in the file, the file's stem, or both."""
    stems = [stem(source.name) for source in sources]
    unique = len(set(stems)) == len(stems)
    names: list[Any] = []
    for number, timing in enumerate(timings):
        if groups is not None and groups[number] is not None:
            names += [groups[number]] * len(timing.runs)
        elif len(sources) == 1:
            names += timing.runs
        else:
            name = stems[number] if unique else str(number)
            whole = timing.run_volumes is None
            names += [name if whole else f"{name}:{run}" for run in timing.runs]
    return names


def _assemble(
    found: list[Samples],
    runs: list[Any],
    own_groups: bool,
    group_by: str,
    images: ImageSpace,
    plan: TrialPlan,
) -> Dataset:
    dropped = [line for samples in found for line in samples.dropped]
    counts = [len(samples.labels) for samples in found]
    if sum(counts) == 0:
        why = dropped[0] if dropped else "no block has a wanted label"
        raise InputError(f"No trial is left: {why}", remedy=TRIAL_REMEDY)
    labels = [label for samples in found for label in samples.labels]
    lost = sorted(set(plan.conditions or []) - set(labels))
    if lost and plan.label_column is not None:
        raise InputError(
            f"No trial is left of {', '.join(map(repr, lost))}: {dropped[0]}", remedy=TRIAL_REMEDY
        )
    offsets = np.cumsum([0] + [max(s.blocks, default=-1) + 1 for s in found[:-1]])
    blocks = np.concatenate([np.array(s.blocks, int) + o for s, o in zip(found, offsets)])
    by_run = np.repeat(np.array(runs), counts)
    several = len(set(runs)) > 1
    groups: np.ndarray | None = by_run
    if not own_groups and group_by != "run" and not (group_by == "auto" and several):
        groups = blocks if group_by == "block" or plan.unit == "volume" else None
    return Dataset(
        X=np.concatenate([samples.rows for samples in found]),
        y=None if plan.label_column is None else np.array(labels, dtype=str),
        space=images.space,
        groups=groups,
        names=tuple(name for samples in found for name in samples.names),
        blocks=blocks,
        images=images,
        standardize=images.standardize,
        trials=plan._asdict(),
        dropped=tuple(dropped),
        notes=images.notes,
        findings=tuple(finding for samples in found for finding in samples.findings),
    )


def _findings(
    timings: list[FileTiming], sources: list[Source], plan: TrialPlan
) -> list[tuple[str, str]]:
    """Report what cannot be right about repetition times and events."""
    found = repetition_findings([t.t_r for t in timings], [s.name for s in sources])
    repeated = [
        f"{event.label} at {event.onset:g} s in {source.name}"
        for timing, source in zip(timings, sources)
        for event in timing.repeated
        if plan.wants(event.label)
    ]
    if repeated:
        message = (
            f"Events lie upon others of the same label: {listed(repeated)} ({len(repeated)} in "
            "all), so the same volumes count as several trials. Remove repeated rows of the "
            "events tables."
        )
        found.append(("repeated-events", message))
    return found


def _check_conditions(plan: TrialPlan, timings: list[FileTiming]) -> None:
    """Refuse a condition that no block has, before any image is read."""
    if plan.label_column is None:
        return
    blocks = (block for timing in timings for blocks in timing.blocks for block in blocks)
    known = {block.label for block in blocks}
    refuse_alike("labels", sorted({*known, *plan.rest, *(plan.conditions or [])} - {None}))
    absent = sorted(set(plan.conditions or []) - known)
    if absent:
        there = ", ".join(sorted(str(label) for label in known - {None, *plan.rest}))
        raise InputError(
            f"{option('conditions', absent)}: has no trial in these runs",
            expected=f"labels among {there}",
        )
