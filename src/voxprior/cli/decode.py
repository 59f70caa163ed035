"""``voxprior decode``: images and labels in; report, predictions, maps and a model out."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from voxprior import registry
from voxprior.cli.arguments import parameters
from voxprior.cli.command_line import command_line
from voxprior.cli.inputs import read, read_others
from voxprior.cli.options import (
    Config,
    DryRun,
    Json,
    LabelledScans,
    Map,
    Model,
    Out,
    Permutations,
    PermutationTest,
    Preparation,
    PriorFrom,
    Reporting,
    Scans,
    Set,
    Testing,
    Trials,
    Workers,
)
from voxprior.cli.terminal import PlainConsole, say, versioned
from voxprior.output import FINISHED, Clock, check_folder, output_folder


def decode(
    scans: Scans,
    trials: Trials,
    preparation: Preparation,
    testing: Testing,
    reporting: Reporting,
    workers: Workers,
    out: Out,
    permutations: Permutations = 0,
    test: PermutationTest = "auto",
    with_map: Map = False,
    prior_from: PriorFrom = None,
    model: Model = None,
    config: Config = None,
    changes: Set = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    r"""Decode images: test a model on held-out scans, fit it on all, write a report.

    Writes report.html, figures/, result.json, predictions.tsv, maps/ and model.skops into --out.
    A run that is stopped goes on with the same command, and the same command writes the same
    bytes: times are in run.json.

    One map per subject, and a table of subjects:

        voxprior decode maps/*.nii.gz --labels participants.tsv --label group \
            --covariates age,sex --model gp --out gp

    Runs with BIDS events:

        voxprior decode run-*_bold.nii.gz --events run-*_events.tsv \
            --conditions face,house --delay 5 --mask mask.nii.gz --out faces

    One file of several runs, with a label and a run for every volume:

        voxprior decode bold.nii.gz --volume-labels attributes.txt \
            --mask mask.nii.gz --conditions face,house --permutations 1000 --out faces

    A person of whom there are few scans, with a prior from others, one folder each:

        voxprior decode study/sub-01/*.nii.gz --labels study/sub-01/labels.tsv \
            --groups run --prior-from study --out sub-01
    """
    clock = Clock(command_line())
    with _place(out, dry_run) as folder:
        settings = parameters(config, changes)
        if model is not None:
            registry.model(model).make(**settings)  # what is wrong is refused before scans are read
        with clock.phase("reading images"):
            data = read(scans, trials, preparation)
        name = model or registry.default_model(data.y)
        estimator = registry.model(name).make(**settings)
        registry.check_kind(estimator, data.y, name)
        decoder = testing.decoder(estimator)
        if prior_from is not None:
            with clock.phase("learning from others"):
                others = read_others(prior_from, scans, trials, preparation)
                decoder = decoder if dry_run else _taught(decoder, others)
        asked: dict[str, Any] = {
            "cv": testing.split,
            "allow": testing.allowed,
            "permutations": permutations,
            "test": test,
            "title": subject_of(data, scans.label),
        }
        if dry_run:
            unplanned = {"--map": with_map, "--prior-from": prior_from is not None}
            _say_unplanned([flag for flag, given in unplanned.items() if given])
            _show_plan(decoder.plan(data, **asked, **reporting.settings()), as_json)
            return
        done = decoder.decode(
            data,
            **asked,
            target=target_of(scans),
            folder=folder / FINISHED,
            clock=clock,
            mapping=_mapping(decoder) if with_map else None,
            **reporting.settings(),
        )
        done.write(folder)
    if kept := done.decoder.scans_kept:
        say(
            f"note: model.skops holds {kept} training scans, or parts of them, as they are: pass "
            "it on as you would pass on the scans."
        )
    found = done.summary()
    if as_json:
        print(versioned(found | {"folder": str(out)}))
    else:
        show_scores(found, out / "report.html")


def _place(out: Path, dry_run: bool) -> AbstractContextManager[Path]:
    """Return the folder to write into; for a dry run it is only checked."""
    if not dry_run:
        return output_folder(out, "result.json")
    check_folder(out, "result.json")
    return nullcontext(out)


def _say_unplanned(flags: list[str]) -> None:
    if flags:
        say(f"note: the plan is without {' and '.join(flags)}, which take more time.")


def _show_plan(plan: Any, as_json: bool) -> None:
    """Print a plan, then what the audit would warn of or stop at."""
    from voxprior.validation.audit import heed
    from voxprior.validation.result import plain

    if as_json:
        print(versioned(plain(plan.summary())))
    else:
        console = PlainConsole()
        for line in repr(plan).splitlines():
            console.print(line)
    heed(plan.audit)


def _taught(decoder: Any, others: dict[str, Any]) -> Any:
    from voxprior.decoder import with_prior_from

    return with_prior_from(decoder, others)


def _mapping(decoder: Any) -> Callable[[Any, Any], Any]:
    """Make what tests the map; a level out of reach is told, and stops nothing."""
    return lambda data, atlas: decoder.map(data, atlas=atlas, despite_floor=True, tell=say)


def subject_of(data: Any, label: str | None) -> str:
    """What is decoded, the heading of a page."""
    from voxprior.decoder.facts import subject

    return subject(data, label)


def target_of(scans: LabelledScans) -> str:
    """What is decoded, as the verdict calls it."""
    if scans.label is not None:
        return scans.label
    return "the labels" if scans.labels is not None else "the condition"


def show_scores(found: dict[str, Any], page: Path) -> None:
    """Print the verdict, the scores that are read first, and where the report is."""
    from rich import box
    from rich.table import Table

    from voxprior.decoder.comparison import decimals

    console = PlainConsole()
    console.print(f"{found['title']}: {found['verdict']}")
    console.print(found["setting"])
    table = Table(box=box.SIMPLE)
    for column in ("score", "value", "95 % interval", "chance"):
        table.add_column(column, justify="left" if column == "score" else "right", no_wrap=True)
    shown = {n: one for n, one in found["scores"].items() if n in found["main_scores"]}
    for name, score in shown.items():
        limits = "-" if score["low"] is None else f"{score['low']:.3f} to {score['high']:.3f}"
        cells = (decimals(score["value"]), limits, decimals(score["chance"]))
        table.add_row(name.replace("_", " "), *cells)
    console.print(table)
    unknown = [one["interval"] for one in shown.values() if one["low"] is None]
    for reason in dict.fromkeys(unknown):
        console.print(f"No interval where there is a dash: {reason}.")
    if "map" in found:
        console.print(found["map"]["headline"])
    if found["headline"]["detail"]:
        console.print(found["headline"]["detail"])
    console.print(_audit(found["checks"]))
    console.print(f"Report: {page}", soft_wrap=True)


def _audit(checks: list[dict[str, str]]) -> str:
    """Say in a line what the audit could look for; findings were told, the report has reasons."""
    found = sum(check["outcome"] == "found" for check in checks)
    made = sum(check["outcome"] != "not checked" for check in checks)
    told = f"Audit: {made} checks made, {found or 'nothing'} found"
    asked: dict[str, list[str]] = {}
    for check in checks:
        if check["askable"]:
            asked.setdefault(check["reason"], []).append(check["name"])
    left = [f"{', '.join(names)} ({why})" for why, names in asked.items()]
    return f"{told}; could not be checked: {'; '.join(left)}." if left else f"{told}."
