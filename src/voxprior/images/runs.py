"""4-D runs with their timing to a Dataset of trials, one run in memory at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from os.path import isfile
from typing import Any, NamedTuple

import numpy as np

from voxprior.errors import InputError, option
from voxprior.images.cleaning import check_settings
from voxprior.images.confounds import confounds_of
from voxprior.images.dataset import Dataset
from voxprior.images.findings import listed, repetition_findings, warn_of_constant
from voxprior.images.finite import read_where_finite
from voxprior.images.imagespace import ImageSpace, fit_image_space
from voxprior.images.reading import Source, find_sources, n_volumes, stem
from voxprior.images.trials import (
    UNITS,
    Block,
    Cut,
    Event,
    blocks_of_events,
    blocks_of_labels,
    cut,
    read_volume_labels,
    repeated_events,
    rest_volumes,
)
from voxprior.images.volumes import header_t_r

__all__ = ["load_runs"]

LONGEST_DELAY = 3600  # seconds; a response lags by some


class Timing(NamedTuple):
    """Runs inside one file: name, volumes and blocks of each; and of the file the seconds between
    volumes, where known, and events that repeat others.
    """

    runs: list[Any]
    parts: list[np.ndarray] | None
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
    events : path, DataFrame, glob, or list with one a run
        BIDS events tables: onset and duration in seconds, and a label column.
    labels : path, DataFrame, sequence, or list with one a file
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
    confounds : None, dict, or table(s), one a run
        A dict holds options of `read_confounds` (fMRIPrep); otherwise tables of regressors.
    images : ImageSpace, optional
        Read with these fitted settings (scans to be predicted) instead of fitting new ones.
    **settings
        Parameters of `fit_image_space`: mask, mesh, smoothing_fwhm, detrend, high_pass, low_pass,
        t_r, standardize, resample.

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
    _check_choices(unit, window, group_by, images, settings)
    check_settings(**settings)
    _check_delay(delay)
    mesh = settings.get("mesh")
    sources = find_sources(runs, mesh)
    fixed = images is not None
    if images is None:
        images = fit_image_space(sources, **settings)
    quiet = (rest,) if isinstance(rest, str) else tuple(rest)
    given = _one_each(labels if events is None else events, sources, labels is not None)
    tables = _confounds_each(confounds, sources)
    if groups is not None and len(groups) != len(sources):
        raise ValueError(f"groups must have one value a file, {len(sources)}. Got {len(groups)}.")
    timings = [
        _timing(one, events is not None, source, images, delay, label_column)
        for one, source in zip(given, sources)
    ]
    if label_column is not None:
        _check_conditions(conditions, timings, quiet)

    def cut_all(images: ImageSpace) -> list[Cut]:
        return [
            one
            for file in zip(sources, timings, tables)
            for one in _cut_file(*file, images, quiet, conditions, unit, window, label_column)
        ]

    if fixed:
        cuts = cut_all(images)
    else:
        images, cuts = read_where_finite(cut_all, images, sources)
    run_names: list[Any] = []
    for number, timing in enumerate(timings):
        own = None if groups is None else groups[number]
        run_names += [_run_name(run, own, timing, number, sources) for run in timing.runs]
    trials: dict[str, Any] = {"unit": unit, "window": window, "delay": delay}
    trials["conditions"] = None if conditions is None else list(conditions)
    trials |= {"rest": list(quiet), "label_column": label_column}
    data = _assemble(cuts, run_names, groups is not None, group_by, images, trials)
    if fixed:
        warn_of_constant(data.findings)  # of new scans, which no audit looks at
    return replace(data, findings=(*_findings(timings, sources, conditions, quiet), *data.findings))


def _check_choices(
    unit: str, window: int | None, group_by: str, images: Any, settings: dict[str, Any]
) -> None:
    if unit not in UNITS:
        raise ValueError(f"unit must be one of {', '.join(UNITS)}. Got {unit!r} instead.")
    if (unit == "window") != (window is not None) or (window is not None and window < 1):
        raise ValueError(
            "unit='window' needs window=T, a number of volumes >= 1, and only it. "
            f"Got unit={unit!r} and window={window!r}."
        )
    if group_by not in ("auto", "run", "block"):
        raise ValueError(f"group_by must be auto, run or block. Got {group_by!r} instead.")
    given = set(settings) - {"mesh"}
    if images is not None and given:
        raise ValueError(f"images= is already fitted; leave out {', '.join(sorted(given))}.")


def _check_delay(delay: Any) -> None:
    if not isinstance(delay, Real) or not abs(float(delay)) <= LONGEST_DELAY:
        raise InputError(
            f"{option('delay', delay)} cannot be used",
            expected=f"seconds from -{LONGEST_DELAY} to {LONGEST_DELAY}",
        )


def _one_each(timing: Any, sources: list[Source], per_volume: bool) -> list[Any]:
    """Match tables with runs; a list of tables must have one a run."""
    if timing is None:
        raise ValueError(
            "Give events= (a table for each run) or labels= (a label for each volume)."
        )
    if len(sources) == 1 and per_volume and not _is_list_of_tables(timing):
        return [timing]
    if isinstance(timing, str):
        timing = [source.item for source in find_sources(timing)]
    tables = list(timing) if isinstance(timing, (list, tuple)) else [timing]
    if len(tables) != len(sources):
        few = "labels without images" if len(tables) > len(sources) else "images without labels"
        extra = tables[-1] if len(tables) > len(sources) else sources[len(tables)].name
        named = f" The first too many: {extra}." if isinstance(extra, str) else ""
        raise ValueError(f"{len(sources)} runs but {len(tables)} tables: {few}.{named}")
    return tables


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
        raise ValueError(f"confounds must have one table a run, {len(sources)}. Got {len(tables)}.")
    return tables


def _timing(
    table: Any,
    is_events: bool,
    source: Source,
    images: ImageSpace,
    delay: float,
    label_column: str | None,
) -> Timing:
    """Find the runs of one file and their blocks."""
    image = source.load()
    n = n_volumes(image)
    if n < 2:
        raise ValueError(
            f"{source.name}: a 4-D run is due, but the image is one volume of shape {image.shape}."
        )
    t_r = images.cleaning.t_r or (header_t_r(image) if images.parts is None else None)
    if t_r is None and (is_events or delay):
        raise ValueError(
            f"{source.name}: onsets and delays are in seconds, and the image header does not say "
            "how many are between volumes. Give t_r."
        )
    if is_events:
        blocks = blocks_of_events(table, n, t_r or 1.0, delay, label_column, source.name)
        repeated = repeated_events(table, label_column, source.name) if label_column else []
        return Timing([0], None, [blocks], t_r, repeated)
    found = read_volume_labels(table, n, source.name)
    shift = round(delay / t_r) if t_r else 0
    if found.runs is None:
        return Timing([0], None, [blocks_of_labels(found.labels, shift)], t_r, [])
    order = list(dict.fromkeys(found.runs.tolist()))
    parts = [np.flatnonzero(found.runs == run) for run in order]
    blocks_of_runs = [blocks_of_labels(found.labels[part], shift) for part in parts]
    return Timing(order, parts, blocks_of_runs, t_r, [])


def _cut_file(
    source: Source,
    timing: Timing,
    table: Any,
    images: ImageSpace,
    rest: tuple[str, ...],
    conditions: Sequence[str] | None,
    unit: str,
    window: int | None,
    label_column: str | None,
) -> list[Cut]:
    n = n_volumes(source.load())
    path = list(source.item.values()) if isinstance(source.item, dict) else source.path
    confounds = confounds_of(table, path, n, source.name)
    regressors, kept = (None, None) if confounds is None else confounds
    cuts = []
    for run, blocks in zip(images.read_run(source, regressors, kept, timing.parts), timing.blocks):
        quiet = rest_volumes(blocks, len(run.kept), rest)
        run = images.standardized(run, quiet)
        # An event without a label (n/a) is no sample, unless labels are what is to be predicted.
        nameless = [] if label_column is None else [b for b in blocks if b.label is None]
        chosen = [b for b in blocks if b not in nameless and _wanted(b.label, conditions, rest)]
        found = cut(run.values, run.kept, chosen, unit, window, run.name)
        found.dropped.extend(f"{run.name}, event at volume {b.first}: no label" for b in nameless)
        found.findings.extend(run.findings)
        cuts.append(found)
    return cuts


def _wanted(label: str | None, conditions: Sequence[str] | None, rest: tuple[str, ...]) -> bool:
    if conditions is not None and label is not None:
        return label in conditions
    return label not in rest


def _run_name(run: Any, own: Any, timing: Timing, number: int, sources: list[Source]) -> Any:
    """Name a run: the user's group, its number in the file, the file's stem, or both of these."""
    if own is not None or len(sources) == 1:
        return run if own is None else own
    stems = [stem(source.name) for source in sources]
    name = stems[number] if len(set(stems)) == len(stems) else str(number)
    return name if timing.parts is None else f"{name}:{run}"


def _assemble(
    cuts: list[Cut],
    runs: list[Any],
    own_groups: bool,
    group_by: str,
    images: ImageSpace,
    trials: dict[str, Any],
) -> Dataset:
    dropped = [line for c in cuts for line in c.dropped]
    counts = [len(c.labels) for c in cuts]
    if sum(counts) == 0:
        raise ValueError(
            "No trial is left: " + (dropped[0] if dropped else "no block has a wanted label") + "."
        )
    labels = [label for c in cuts for label in c.labels]
    lost = sorted(set(trials["conditions"] or []) - set(labels))
    if lost and trials["label_column"] is not None:
        raise ValueError(f"No trial is left of {', '.join(map(repr, lost))}: {dropped[0]}.")
    offsets = np.cumsum([0] + [max(c.blocks, default=-1) + 1 for c in cuts[:-1]])
    blocks = np.concatenate([np.array(c.blocks, int) + o for c, o in zip(cuts, offsets)])
    by_run = np.repeat(np.array(runs), counts)
    several = len(set(runs)) > 1
    groups: np.ndarray | None = by_run
    if not own_groups and group_by != "run" and not (group_by == "auto" and several):
        groups = blocks if group_by == "block" or trials["unit"] == "volume" else None
    return Dataset(
        X=np.concatenate([c.rows for c in cuts]),
        y=None if trials["label_column"] is None else np.array(labels, dtype=str),
        space=images.space,
        groups=groups,
        names=tuple(name for c in cuts for name in c.names),
        blocks=blocks,
        images=images,
        standardize=images.standardize,
        trials=trials,
        dropped=tuple(dropped),
        notes=images.notes,
        findings=tuple(finding for c in cuts for finding in c.findings),
    )


def _findings(
    timings: list[Timing],
    sources: list[Source],
    conditions: Sequence[str] | None,
    rest: tuple[str, ...],
) -> list[tuple[str, str]]:
    """Say what cannot be right about repetition times and events."""
    found = repetition_findings([t.t_r for t in timings], [s.name for s in sources])
    repeated = [
        f"{event.label} at {event.onset:g} s in {source.name}"
        for timing, source in zip(timings, sources)
        for event in timing.repeated
        if _wanted(event.label, conditions, rest)
    ]
    if repeated:
        message = (
            f"Events lie upon others of the same label: {listed(repeated)} ({len(repeated)} in "
            "all), so the same volumes count as several trials. Remove repeated rows of the "
            "events tables."
        )
        found.append(("repeated-events", message))
    return found


def _check_conditions(
    conditions: Sequence[str] | None, timings: list[Timing], rest: tuple[str, ...]
) -> None:
    """Refuse a condition that no block has, before any image is read."""
    known = {block.label for timing in timings for blocks in timing.blocks for block in blocks}
    absent = sorted(set(conditions or []) - known)
    if absent:
        raise ValueError(
            f"conditions {', '.join(map(repr, absent))} have no trial in these runs. There are "
            f"{', '.join(sorted(str(label) for label in known - {None, *rest}))}."
        )
