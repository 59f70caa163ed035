"""Options that commands share, in groups; each group knows the keywords that it stands for."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from voxprior import registry
from voxprior.cli.arguments import NAMES_FILES, files, names
from voxprior.registry import split_names

LABELS, RUNS, PREPARING = "Labels of maps", "Labels of runs", "Preparation"


def _option(panel: str, text: str, *flags: str) -> Any:
    return typer.Option(*flags, help=text, rich_help_panel=panel)


ImageFiles = Annotated[
    list[str],
    NAMES_FILES,
    typer.Argument(help="Image files or quoted patterns: one 3-D map per scan, or 4-D runs."),
]


@dataclass
class LabelledScans:
    """Images, and where their labels are."""

    images: ImageFiles
    surface: Annotated[
        list[str] | None,
        NAMES_FILES,
        _option(PREPARING, "Mesh of GIFTI images: fsaverage5 and the like, or two mesh files."),
    ] = None
    labels: Annotated[
        Path | None,
        _option(LABELS, "Table (TSV, CSV): a row per file, subject, or volume of a 4-D file."),
    ] = None
    label: Annotated[
        str | None, _option(LABELS, "Column of the classes, or of the number to predict.")
    ] = None
    key: Annotated[str | None, _option(LABELS, "Column that names the file or subject.")] = None
    groups: Annotated[
        str | None, _option(LABELS, "Column of the run, subject or site to hold out together.")
    ] = None
    unmatched: Annotated[
        str, _option(LABELS, "Files without a row and rows without a file: raise or drop.")
    ] = "raise"
    events: Annotated[
        list[str] | None,
        NAMES_FILES,
        _option(RUNS, "BIDS events tables, one per run, in their order."),
    ] = None
    volume_labels: Annotated[
        list[str] | None,
        NAMES_FILES,
        _option(RUNS, "Text file with the label, and the run, of every volume; one per image."),
    ] = None


@dataclass
class Scans(LabelledScans):
    """Images and labels to learn from: the mask and the covariates are chosen."""

    mask: Annotated[
        str | None,
        NAMES_FILES,
        _option(
            PREPARING,
            "Mask image, or how to compute one: epi (nilearn's; the default for runs), background, "
            "data (all that varies), auto (data, but the brain alone in MNI space; for maps).",
        ),
    ] = None
    covariates: Annotated[
        list[str] | None, _option(LABELS, "Columns to regress out: age,sex,site.")
    ] = None


@dataclass
class Trials:
    """How runs are cut into samples."""

    conditions: Annotated[
        list[str] | None, _option(RUNS, "Labels to decode: face,house. All but rest by default.")
    ] = None
    unit: Annotated[
        str | None,
        _option(RUNS, "What a sample is: block (its mean, the default), volume, or window."),
    ] = None
    window: Annotated[int | None, _option(RUNS, "Volumes of a window, with --unit window.")] = None
    delay: Annotated[
        float | None,
        _option(RUNS, "Seconds by which the response lags the stimulus; try 5. 0 by default."),
    ] = None
    confounds: Annotated[
        list[str] | None,
        NAMES_FILES,
        _option(RUNS, "Noise to remove: motion,wm_csf,scrub of fMRIPrep, or tables, one per run."),
    ] = None

    def settings(self) -> dict[str, Any]:
        """Return the keywords of `voxprior.images.load_runs`."""
        return {
            "unit": "block" if self.unit is None else self.unit,
            "window": self.window,
            "delay": 0.0 if self.delay is None else self.delay,
            "conditions": names(self.conditions) or None,
            "confounds": self._confounds(),
        }

    def _confounds(self) -> Any:
        """Return tables, one per run, where files are named, else the strategy for fMRIPrep's."""
        given = names(self.confounds)
        if not given:
            return None
        if any(name.endswith((".tsv", ".csv")) for name in given):
            return files(given)
        return {"strategy": tuple(given)}


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
            "run, baseline (by rest volumes), group (maps minus the mean of their group), train or "
            "none; auto is run for runs, and group or train for maps, by their values.",
        ),
    ] = "auto"
    scale: Annotated[
        str,
        _option(
            PREPARING,
            "global (each image divided by its mean in the mask) or none; auto decides by the "
            "values of maps.",
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


# ---------------------------------------------------------------- what the report says

REPORT = "Report"


@dataclass
class Interest:
    """What readers of the report want to know of: a class, its prevalence, names of places."""

    positive: Annotated[
        str | None,
        _option(REPORT, "Class of interest of two; for sensitivity and predictive values."),
    ] = None
    prevalence: Annotated[
        float | None,
        _option(REPORT, "Its share where the decoder is to be used, for predictive values."),
    ] = None
    atlas: Annotated[
        Path | None,
        _option(REPORT, "Atlas image, for the names of the peaks of maps."),
    ] = None
    atlas_labels: Annotated[
        Path | None, _option(REPORT, "Table of the atlas, with columns index and name.")
    ] = None

    def settings(self) -> dict[str, Any]:
        """Return keywords of `voxprior.decoder.decoding.decode`."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass
class Reporting(Interest):
    """What the report is asked for."""

    curve: Annotated[bool, _option(REPORT, "Learning curve: would more scans help?", "--curve")] = (
        False
    )
    stock: Annotated[
        bool | None,
        _option(
            REPORT,
            "Also test stock decoders on the same folds; the default unless they take long.",
        ),
    ] = None


# ---------------------------------------------------------------- how a model is tested

TESTING = "Test on held-out scans"

Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="Family or baseline; `voxprior families` lists them. By default chosen by the labels: "
        + " for classes, ".join(registry.DEFAULT.values())
        + " for numbers.",
    ),
]
PriorFrom = Annotated[
    Path | None,
    typer.Option(
        help="Learn a prior from other subjects: a folder with a folder per subject, each with "
        "images and a table of the same name as that of --labels."
    ),
]
Config = Annotated[Path | None, typer.Option(help="TOML or JSON file of model parameters.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Model parameter, for instance radius=2; overrides --config."),
]
Trust = Annotated[
    list[str] | None,
    typer.Option(
        help="Full name of a type beyond voxprior's own that the model may hold, for instance "
        "package.module.Type; its code runs. Repeat for several."
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        "--out", "-o", help="Output folder. Files of an earlier run of voxprior in it are replaced."
    ),
]
Map = Annotated[
    bool,
    typer.Option(
        "--map", help="Also test where in the brain classes differ, as voxprior map does."
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Only say what would be done: scans, mask, split, findings of the audit, smallest "
        "possible p, estimated time and memory. Nothing is written.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table.")]
Permutations = Annotated[
    int,
    typer.Option(
        min=0, help="Relabellings of a permutation test; 0 for none.", rich_help_panel=TESTING
    ),
]
PermutationTest = Annotated[
    str,
    typer.Option(
        "--test",
        help="What is relabelled: batch (the family, many at once), fast (a ridge decoder in its "
        "place), refit (the model itself). auto chooses by the model.",
        rich_help_panel=TESTING,
    ),
]


@dataclass
class Testing:
    """How folds are made, judged and run."""

    split: Annotated[
        str,
        typer.Option(
            help=f"{split_names()}. auto holds out one run or group at a time; 5 folds with every "
            "class where there are no groups, each scan is one, or most groups are of one class.",
            rich_help_panel=TESTING,
        ),
    ] = "auto"
    allow: Annotated[
        list[str] | None,
        typer.Option(help="Audit findings to override, by name.", rich_help_panel=TESTING),
    ] = None
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            "-j",
            help="Number of worker processes; -1: one per core.",
            rich_help_panel=TESTING,
        ),
    ] = 1
    seed: Annotated[int, typer.Option(min=0, help="Random seed.", rich_help_panel=TESTING)] = 0

    def __post_init__(self) -> None:
        if self.jobs != 1:
            from voxprior.validation.run import check_jobs

            check_jobs(self.jobs)

    @property
    def allowed(self) -> list[str]:
        """Names of the findings that the user overrides."""
        return names(self.allow)

    def decoder(self, estimator: Any = None) -> Any:
        """Build the decoder that tests a model in this way."""
        from voxprior.decoder import Decoder

        return Decoder(estimator, n_jobs=self.jobs, verbose=1, random_state=self.seed)


# ---------------------------------------------------------------- where it runs

MACHINES = "Many machines"


@dataclass
class Workers:
    """Dask workers for all that a command does in parallel, for as long as it runs."""

    cluster: Annotated[
        str | None, _option(MACHINES, "Worker processes of Dask on this machine: local:4.")
    ] = None
    scheduler: Annotated[
        str | None,
        _option(MACHINES, "Workers of a running Dask scheduler, by its address: tls://host:8786."),
    ] = None
    dashboard: Annotated[
        bool,
        _option(
            MACHINES,
            "With --cluster: a page that shows what workers do; all users of this machine can "
            "read it.",
            "--dashboard",
        ),
    ] = False

    def __enter__(self) -> Any:
        if self.dashboard and self.cluster is None:
            raise ValueError("--dashboard: would have no effect without --cluster.")
        if self.cluster is None and self.scheduler is None:
            self._context: Any = nullcontext()
        else:
            from voxprior.cli.terminal import say
            from voxprior.validation import Cluster

            self._context = Cluster(self.cluster, self.scheduler, say, self.dashboard)
        self._context.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)
