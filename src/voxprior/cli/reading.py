"""Options that name images, labels and their preparation, and the Dataset that they lead to."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voxprior.cli.arguments import names
from voxprior.cli.terminal import say

if TYPE_CHECKING:
    from voxprior.images import Dataset

LABELS, RUNS, PREPARING = "Labels of maps", "Labels of runs", "Preparation"


def _option(panel: str, text: str, *flags: str) -> Any:
    return typer.Option(*flags, help=text, rich_help_panel=panel)


ImageFiles = Annotated[
    list[str],
    typer.Argument(help="Image files or quoted patterns: one 3-D map a scan, or 4-D runs."),
]


@dataclass
class Labelled:
    """Images, and where their labels are."""

    images: ImageFiles
    mask: Annotated[
        str | None,
        _option(PREPARING, "Mask image, or how to compute one: epi, background, data."),
    ] = None
    surface: Annotated[
        list[str] | None,
        _option(PREPARING, "Mesh of GIFTI images: fsaverage5 and the like, or two mesh files."),
    ] = None
    labels: Annotated[
        Path | None, _option(LABELS, "Table (TSV, CSV) with one row a file or subject.")
    ] = None
    label: Annotated[
        str | None, _option(LABELS, "Column of the classes, or of the number to predict.")
    ] = None
    key: Annotated[str | None, _option(LABELS, "Column that names the file or subject.")] = None
    groups: Annotated[
        str | None, _option(LABELS, "Column of the subject or site to hold out together.")
    ] = None
    covariates: Annotated[
        list[str] | None, _option(LABELS, "Columns to regress out: age,sex,site.")
    ] = None
    unmatched: Annotated[
        str, _option(LABELS, "Files without a row and rows without a file: raise or drop.")
    ] = "raise"
    events: Annotated[
        list[str] | None, _option(RUNS, "BIDS events tables, one a run, in the order of the runs.")
    ] = None
    volume_labels: Annotated[
        list[str] | None,
        _option(RUNS, "Text file with the label, and the run, of every volume; one an image."),
    ] = None


@dataclass
class Trials:
    """How runs are cut into samples."""

    conditions: Annotated[
        list[str] | None, _option(RUNS, "Labels to decode: face,house. All but rest by default.")
    ] = None
    unit: Annotated[
        str, _option(RUNS, "What a sample is: block (its mean), volume, or window.")
    ] = "block"
    window: Annotated[int | None, _option(RUNS, "Volumes of a window, with --unit window.")] = None
    delay: Annotated[
        float, _option(RUNS, "Seconds by which the response lags the stimulus; try 5.")
    ] = 0.0
    confounds: Annotated[
        list[str] | None,
        _option(RUNS, "fMRIPrep noise to take out, motion,wm_csf,scrub, or tables, one a run."),
    ] = None


@dataclass
class Preparation:
    """How values are cleaned before decoding."""

    smoothing: Annotated[float | None, _option(PREPARING, "Smoothing, FWHM in millimetres.")] = None
    detrend: Annotated[
        bool, _option(PREPARING, "Remove a linear trend from every run.", "--detrend")
    ] = False
    high_pass: Annotated[float | None, _option(PREPARING, "High-pass filter of runs, Hz.")] = None
    low_pass: Annotated[float | None, _option(PREPARING, "Low-pass filter of runs, Hz.")] = None
    t_r: Annotated[
        float | None, _option(PREPARING, "Seconds between volumes; from the header by default.")
    ] = None
    standardize: Annotated[
        str,
        _option(
            PREPARING,
            "run, baseline (by rest volumes), train or none; auto is run for runs, train for maps.",
        ),
    ] = "auto"
    resample: Annotated[
        bool, _option(PREPARING, "Resample images that are on another grid.", "--resample")
    ] = False

    def __post_init__(self) -> None:
        numbers = (self.smoothing, self.high_pass, self.low_pass, self.t_r)
        if any(number is not None for number in numbers):
            from voxprior.images.cleaning import check_settings

            check_settings(**self.settings())

    def settings(self) -> dict[str, Any]:
        """Return the keywords of `voxprior.images.fit_image_space`."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"smoothing_fwhm": given.pop("smoothing"), **given}


def read(labelled: Labelled, trials: Trials, preparation: Preparation) -> Dataset:
    """Read what the options name: trials of runs, or one map a scan."""
    from voxprior.images import load_maps

    _check_one_source(labelled)
    images = paired(labelled.images) if labelled.surface else labelled.images
    settings = preparation.settings() | {"mask": labelled.mask, "mesh": mesh(labelled.surface)}
    if labelled.labels is None:
        refuse(labelled, "label", "key", "groups", "covariates", because="need --labels")
        data = read_runs(images, labelled.events, labelled.volume_labels, trials, **settings)
    else:
        refuse(trials, "unit", "window", "delay", "confounds", because="are for runs")
        data = load_maps(
            images,
            table=labelled.labels,
            label=_column(labelled),
            key=labelled.key,
            groups=labelled.groups,
            covariates=names(labelled.covariates) or None,
            unmatched=labelled.unmatched,
            **settings,
        )
        data = _only(data, names(trials.conditions))
    if data.dropped:
        say(f"warning: {len(data.dropped)} left out, the first: {data.dropped[0]}")
    return data


def read_runs(
    runs: Any,
    events: list[str] | None,
    volume_labels: list[str] | None,
    trials: Trials,
    **settings: Any,
) -> Dataset:
    """Read runs and cut them into trials."""
    from voxprior.images import load_runs

    return load_runs(
        runs,
        _tables(events) if events else None,
        labels=_tables(volume_labels) if volume_labels else None,
        unit=trials.unit,
        window=trials.window,
        delay=trials.delay,
        conditions=names(trials.conditions) or None,
        confounds=_confounds(trials.confounds),
        **settings,
    )


def files(values: list[str]) -> list[str]:
    """List the files that names and patterns stand for; a pattern must match something."""
    from glob import glob, has_magic
    from os.path import exists

    found: list[str] = []
    for name in names(values):
        matching = sorted(glob(name)) if has_magic(name) and not exists(name) else [name]
        if not matching:
            raise FileNotFoundError(f"{name}: no file matches this pattern.")
        found += matching
    return found


def _tables(values: list[str]) -> list[str]:
    """List files that must exist: a name that is none would be taken for a label."""
    found = files(values)
    for name in found:
        if not Path(name).is_file():
            raise FileNotFoundError(f"{name}: no such file.")
    return found


def mesh(surface: list[str] | None) -> Any:
    """Return the template's name, or the mesh files by hemisphere."""
    given = names(surface)
    if len(given) > 1 or (given and given[0].endswith(".gii")):
        return {_side(Path(name)): name for name in given}
    return given[0] if given else None


def paired(images: list[str]) -> list[Any]:
    """Put the two hemispheres of a scan together, told by hemi-L and hemi-R in the file's name."""
    scans: dict[str, dict[str, str]] = {}
    for name in files(images):
        side = _side(Path(name))
        scan = name.replace("hemi-L", "hemi-?").replace("hemi-R", "hemi-?")
        scans.setdefault(scan, {})[side] = name
    return list(scans.values())


def _side(path: Path) -> str:
    for letter, side in (("L", "left"), ("R", "right")):
        if f"hemi-{letter}" in path.name:
            return side
    raise ValueError(f"{path}: the name of a surface file must tell hemi-L or hemi-R.")


def _check_one_source(labelled: Labelled) -> None:
    given = [
        f"--{name.replace('_', '-')}"
        for name in ("labels", "events", "volume_labels")
        if getattr(labelled, name)
    ]
    if len(given) != 1:
        raise ValueError(
            "Say where the labels are by exactly one of --labels, --events and --volume-labels. "
            f"Got {' and '.join(given) or 'none'}."
        )


def refuse(group: Any, *unwanted: str, because: str) -> None:
    """Refuse options that would have no effect."""
    default = {field.name: field.default for field in fields(group)}
    given = [name for name in unwanted if getattr(group, name) != default[name]]
    if given:
        told = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise ValueError(f"{told}: would have no effect; these options {because}.")


def _column(labelled: Labelled) -> str:
    """Return the label column, where none is named the one column it can be."""
    from voxprior.images import read_table

    if labelled.label is not None:
        return labelled.label
    columns = list(read_table(labelled.labels).columns)
    if "label" in columns:
        return "label"
    raise ValueError(
        f"{labelled.labels}: say which column holds the labels with --label. It has "
        f"{', '.join(map(str, columns))}."
    )


def _confounds(values: list[str] | None) -> Any:
    """Return tables, one a run, where files are named, else the strategy for fMRIPrep's."""
    given = names(values)
    if not given:
        return None
    if any(name.endswith((".tsv", ".csv")) for name in given):
        return files(given)
    return {"strategy": tuple(given)}


def _only(data: Dataset, conditions: list[str]) -> Dataset:
    """Keep the scans of these labels."""
    import numpy as np

    if not conditions:
        return data
    found = np.array([str(label) for label in data.y]) if data.y is not None else np.array([])
    missing = [label for label in conditions if label not in found]
    if missing:
        raise ValueError(
            f"--conditions {','.join(missing)}: no scan has this label. There are "
            f"{', '.join(np.unique(found)[:10])}."
        )
    return data.take(np.isin(found, conditions))
