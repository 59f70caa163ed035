"""``voxprior bids``: a BIDS App over fMRIPrep derivatives, for each participant or the group."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voxprior import __version__, registry
from voxprior.cli.arguments import names
from voxprior.cli.derivatives import Run, find_derivatives, find_runs, find_subjects
from voxprior.cli.errors import is_log
from voxprior.cli.folder import output_files
from voxprior.cli.pipeline import Naming, decode_dataset, number, subject, told
from voxprior.cli.reading import Preparation, Trials, read_runs
from voxprior.cli.settings import parameters
from voxprior.cli.terminal import PlainConsole, say
from voxprior.cli.testing import Config, Json, Model, Permutations, Set, Testing
from voxprior.cli.timing import Clock
from voxprior.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from voxprior.images import Dataset
    from voxprior.validation import Result

BIDS_VERSION = "1.9.0"


class Level(StrEnum):
    """Levels of analysis of a BIDS App."""

    participant = "participant"
    group = "group"


def bids(
    bids_dir: Annotated[Path, typer.Argument(help="BIDS folder, which has the events tables.")],
    out: Annotated[Path, typer.Argument(help="Output folder, in derivatives layout.")],
    level: Annotated[
        Level,
        typer.Argument(
            help="participant: each one alone, one run held out at a time; "
            "group: all together, one participant held out at a time."
        ),
    ],
    trials: Trials,
    preparation: Preparation,
    testing: Testing,
    task: Annotated[str, typer.Option("--task", "--task-id", help="Task, without task-.")],
    derivatives: Annotated[
        Path | None,
        typer.Option(help="fMRIPrep's output; BIDS_DIR/derivatives/fmriprep if absent."),
    ] = None,
    space: Annotated[
        str, typer.Option(help="Space of the images; MNI152NLin2009cAsym:res-2 to name a grid.")
    ] = "MNI152NLin2009cAsym",
    participant_label: Annotated[
        list[str] | None,
        typer.Option(
            "--participant-label", "--participant_label", help="Participants; all if absent."
        ),
    ] = None,
    mask: Annotated[
        Path | None, typer.Option(help="Mask; if absent, where fMRIPrep's masks of all runs meet.")
    ] = None,
    permutations: Permutations = 0,
    model: Model = "sharing",
    config: Config = None,
    changes: Set = None,
    as_json: Json = False,
) -> None:
    r"""Decode fMRIPrep derivatives: every participant, then the group.

    participant writes sub-XX/func with a report for each; a participant who is finished is not
    run again. group trains on all participants but one, tests on that one, and puts both numbers
    of every participant into a table.

        voxprior bids study out participant --task faces --conditions face house \
            --delay 5 --confounds motion wm_csf high_pass

        voxprior bids study out group --task faces --conditions face house --delay 5
    """
    # What is wrong with the model is refused before anything is read.
    registry.model(model).make(**parameters(config, changes))
    folder = find_derivatives(bids_dir, derivatives)
    subjects = find_subjects(folder, names(participant_label))
    study = Study(
        runs={label: find_runs(bids_dir, folder, label, task, space) for label in subjects},
        trials=trials,
        preparation=preparation,
        testing=testing,
        permutations=permutations,
        mask=mask,
        model=model,
        parameters=parameters(config, changes),
        name=f"task-{task}_space-{space.replace(':', '_')}_desc-{model.replace('-', '')}",
        out=out,
    )
    _describe(out)
    found = _each(study) if level is Level.participant else _group(study)
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        _show(found)


@dataclass(frozen=True)
class Study:
    """Runs by participant, and all that decides how they are decoded."""

    runs: dict[str, list[Run]]
    trials: Trials
    preparation: Preparation
    testing: Testing
    permutations: int
    mask: Path | None
    model: str
    parameters: dict[str, Any]
    name: str
    out: Path

    def read(self, runs: list[Run], groups: list[str] | None = None) -> Dataset:
        """Read runs and cut them into trials."""
        from voxprior.images.findings import repetition_findings

        times = {run.t_r for run in runs}
        masks = [str(run.mask) for run in runs if run.mask is not None]
        settings = self.preparation.settings()
        # Where the files beside the images differ, each image's header says its own.
        settings["t_r"] = self.preparation.t_r or (times.pop() if len(times) == 1 else None)
        settings["mask"] = str(self.mask) if self.mask else None
        if self.mask is None and len(masks) == len(runs):
            settings["mask"] = masks
        events = [str(run.events) for run in runs]
        images = [str(run.bold) for run in runs]
        data = read_runs(images, events, None, self.trials, groups=groups, **settings)
        if self.preparation.t_r or "repetition-time" in dict(data.findings):
            return data
        found = repetition_findings([run.t_r for run in runs], [run.bold.name for run in runs])
        return replace(data, findings=(*found, *data.findings))

    def settings(self, runs: list[Run]) -> dict[str, Any]:
        """All that decides the outcome, in JSON's types; equal settings, equal outcome."""
        files = [file for run in runs for file in (run.bold, run.mask, run.events) if file]
        testing = {k: v for k, v in asdict(self.testing).items() if k != "jobs"}
        return {
            "Description": f"Decoding of task trials by the model '{self.model}'",
            "Sources": [str(file) for file in files],
            "SourceStates": [[file.stat().st_size, file.stat().st_mtime_ns] for file in files],
            "Trials": asdict(self.trials),
            "Preparation": asdict(self.preparation),
            "Testing": testing | {"permutations": self.permutations},
            "Mask": str(self.mask) if self.mask else None,
            "Model": self.model,
            "Parameters": {k: repr(v) for k, v in sorted(self.parameters.items())},
            "Version": __version__,
        }


# ---------------------------------------------------------------- each participant alone


def _each(study: Study) -> dict[str, Any]:
    """Decode every participant alone; those finished with the same settings are kept."""
    found = {}
    for label, runs in study.runs.items():
        if len(runs) == 1 and study.testing.split == "auto":
            raise ValueError(
                f"sub-{label}: has one run, so none can be held out; give another --split."
            )
        folder, naming = _place(study, label)
        if _finished(folder / naming.file("decoding.json"), study.settings(runs)):
            say(f"sub-{label}: finished before with these settings, kept")
        else:
            say(f"sub-{label}: {len(runs)} runs")
            _decode(study, folder, naming, runs, title=f"sub-{label}")
        found[f"sub-{label}"] = told(_result(folder / naming.file("result.json")))
    return {"level": "participant", "participants": found, "folder": str(study.out)}


def _place(study: Study, label: str) -> tuple[Path, Naming]:
    """Folder and names of a participant's files."""
    start = f"sub-{label}_{study.name}_"
    return study.out / f"sub-{label}" / "func", Naming(start, f"{start}stat-{{}}_statmap", "")


def _decode(
    study: Study,
    folder: Path,
    naming: Naming,
    runs: list[Run],
    title: str,
    groups: list[str] | None = None,
    beside: Callable[[Result], list[dict[str, Any]]] | None = None,
    write_more: Callable[[Result, Path], None] | None = None,
) -> Result:
    """Read, decode and write runs; the file of settings comes last."""
    from voxprior.validation.result import plain

    clock = Clock()
    sign = naming.file("decoding.json")
    estimator = registry.model(study.model).make(**study.parameters)
    with output_files(folder, naming.prefix.strip("_"), sign) as work:
        with clock.phase("reading images"):
            data = study.read(runs, groups)
        if data.dropped:
            say(f"warning: {title}: {len(data.dropped)} trials left out: {data.dropped[0]}")
        registry.check_kind(estimator, data.y, study.model)
        heading = f"{title}, {study.model}: {subject(data)}"
        result, _ = decode_dataset(
            data,
            estimator,
            study.testing,
            work,
            clock,
            title=heading,
            permutations=study.permutations,
            naming=naming,
            beside=beside,
        )
        if write_more is not None:
            write_more(result, work)
        (work / sign).write_text(json.dumps(plain(study.settings(runs)), indent=1), "utf-8")
    return result


def _finished(path: Path, settings: dict[str, Any]) -> bool:
    """Tell whether the outcome of these very settings is there."""
    from voxprior.validation.result import plain

    return path.is_file() and json.loads(path.read_text("utf-8")) == plain(settings)


def _result(path: Path) -> Result:
    from voxprior.validation import Result

    return Result.from_json(path)


# ---------------------------------------------------------------- the group


def _group(study: Study) -> dict[str, Any]:
    """Hold out one participant at a time, and put what is known of each into a table."""
    if len(study.runs) < 2:
        raise ValueError(f"The group level needs at least 2 participants. Got {len(study.runs)}.")
    runs = [run for of_one in study.runs.values() for run in of_one]
    groups = [f"sub-{label}" for label, of_one in study.runs.items() for _ in of_one]
    start = f"{study.name}_"
    folder, naming = study.out / "group", Naming(start, f"{start}stat-{{}}_statmap", "")
    name = naming.file("secondlevel")

    def write_table(result: Result, work: Path) -> None:
        table = second_level(study, result)
        options: dict[str, Any] = {"float_format": "%.6g", "na_rep": "n/a"}
        table.to_csv(work / f"{name}.tsv", sep="\t", index=False, **options)
        (work / f"{name}.json").write_text(json.dumps(group_tests(table), indent=1), "utf-8")

    result = _decode(
        study,
        folder,
        naming,
        runs,
        title=f"{len(study.runs)} participants",
        groups=groups,
        beside=lambda result: [_as_table(second_level(study, result))],
        write_more=write_table,
    )
    tests = group_tests(second_level(study, result))
    return {"level": "group", **told(result), "second_level": tests, "folder": str(study.out)}


def second_level(study: Study, result: Result) -> pd.DataFrame:
    """One row a participant: score within (held-out runs) and between (held out themselves)."""
    import pandas as pd

    from voxprior.validation import chance_level
    from voxprior.validation.scores import score_predictions

    score = result.score_names[0]
    rows = []
    for label in study.runs:
        tested = result.predictions[result.predictions["group"] == f"sub-{label}"]
        folder, naming = _place(study, label)
        own = folder / naming.file("result.json")
        rows.append(
            {
                "participant_id": f"sub-{label}",
                "n_trials": tested["sample"].nunique(),
                "score": score,
                "within": _result(own).pooled()[score] if own.is_file() else float("nan"),
                "between": score_predictions(tested, result.task, result.classes)[score],
                "chance": chance_level(result, score),
            }
        )
    return pd.DataFrame(rows)


def group_tests(table: pd.DataFrame) -> dict[str, Any]:
    """Mean over participants against chance, by a one-sided t-test, of both columns.

    It says that the mean is above chance, not that most participants show the effect.
    """
    from scipy.stats import ttest_1samp

    from voxprior.validation.result import plain

    tests = {}
    for column in ("within", "between"):
        gains = (table[column] - table["chance"]).dropna()
        test = {"n": len(gains), "mean": table[column].mean(), "sd": table[column].std()}
        if len(gains) > 1 and gains.std() > 0:
            t, p = ttest_1samp(gains, 0.0, alternative="greater")
            test |= {"t": float(t), "p": float(p)}
        tests[column] = test
    chance = float(table["chance"].iloc[0])
    return plain({"score": table["score"].iloc[0], "chance": chance, **tests})


def _as_table(table: pd.DataFrame) -> dict[str, Any]:
    rows = [
        [row["participant_id"], str(row["n_trials"]), number(row["within"]), number(row["between"])]
        for row in table.to_dict("records")
    ]
    return {
        "caption": f"{table['score'].iloc[0].replace('_', ' ')} of every participant: on held-out "
        "runs of their own, and held out from the others",
        "columns": ["participant", "trials", "within", "between"],
        "rows": rows,
    }


# ---------------------------------------------------------------- what is written and printed


def _describe(out: Path) -> None:
    """Write dataset_description.json, which makes the folder a BIDS derivative.

    One that is there stays as it is, since people add to it; one of another program is refused.
    """
    from voxprior.validation.result import write_whole

    path = out / "dataset_description.json"
    if out.is_dir() and not all(map(is_log, out.iterdir())):
        if not _generated_by_us(path):
            raise InputError(
                f"{out}: is not empty and holds no {path.name} of voxprior",
                remedy="Choose another folder",
            )
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
        content = {
            "Name": "voxprior: decoding",
            "BIDSVersion": BIDS_VERSION,
            "DatasetType": "derivative",
            "GeneratedBy": [{"Name": "voxprior", "Version": __version__}],
        }
        write_whole(path, json.dumps(content, indent=1))
    except OSError as error:
        raise OSError(f"{out}: cannot be written ({error.strerror}).") from error


def _generated_by_us(path: Path) -> bool:
    try:
        makers = json.loads(path.read_text("utf-8"))["GeneratedBy"]
        return any(maker["Name"] == "voxprior" for maker in makers)
    except (OSError, ValueError, TypeError, KeyError):
        return False


def _show(found: dict[str, Any]) -> None:
    from rich import box
    from rich.table import Table

    console = PlainConsole()
    if found["level"] == "participant":
        table = Table(box=box.SIMPLE)
        for column in ("participant", "score", "value", "chance"):
            table.add_column(column)
        for label, one in found["participants"].items():
            name, score = next(iter(one["scores"].items()))
            table.add_row(label, name, number(score["value"]), number(score["chance"]))
        console.print(table)
    else:
        tests = found["second_level"]
        for column in ("within", "between"):
            test = tests[column]
            p = f", p = {test['p']:.2g}" if "p" in test else ""
            console.print(
                f"{column}: {tests['score']} {number(test['mean'])} over {test['n']} participants, "
                f"chance {number(tests['chance'])}{p}"
            )
    console.print(f"Output: {found['folder']}", soft_wrap=True)
