"""``voxprior compare``: every family and flat baselines on one data set, the same folds for all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voxprior import registry
from voxprior.cli.arguments import names
from voxprior.cli.command_line import command_line
from voxprior.cli.inputs import read
from voxprior.cli.options import (
    TESTING,
    Interest,
    Json,
    Out,
    Preparation,
    Scans,
    Testing,
    Trials,
    Workers,
)
from voxprior.cli.terminal import PlainConsole, print_table, versioned
from voxprior.cli.words import in_command_words
from voxprior.errors import refuses_input
from voxprior.output import FINISHED, RUN_FILE, Clock, output_folder
from voxprior.writing import write_whole

if TYPE_CHECKING:
    from voxprior.decoder import Comparison
    from voxprior.images import Dataset


def compare(
    scans: Scans,
    trials: Trials,
    preparation: Preparation,
    testing: Testing,
    workers: Workers,
    interest: Interest,
    out: Out,
    models: Annotated[
        list[str] | None,
        typer.Option(help="Models to compare; all families and baselines by default."),
    ] = None,
    curve: Annotated[
        bool, typer.Option(help="Learning curve, from few scans to all.", rich_help_panel=TESTING)
    ] = True,
    repeats: Annotated[
        int,
        typer.Option(
            min=0,
            help="Splits at every size of the learning curve; 0: no curve.",
            rich_help_panel=TESTING,
        ),
    ] = 10,
    as_json: Json = False,
) -> None:
    r"""Compare priors: all families and baselines without a prior, on the same folds.

    Every model is compared with the baseline of the lowest log-loss (absolute error) by a paired
    test over runs or subjects. The learning curve, from 2 scans per class to all, shows which
    prior helps, and up to which size. Writes comparison.tsv,
    comparison.json, learning.tsv and a report of the best family.

        voxprior compare maps/*.nii.gz --labels participants.tsv --label group --out compared

        voxprior compare bold.nii.gz --volume-labels attributes.txt --mask mask.nii.gz \
            --conditions face,house --models sharing,gp,logistic --out compared
    """
    clock = Clock(command_line())
    for name in names(models):
        registry.model(name)  # a wrong name is refused before anything long
    with output_folder(out, "comparison.json") as folder:
        with clock.phase("reading images"):
            data = read(scans, trials, preparation)
        told = _told(data, interest)  # what is wrong is refused before anything long
        for name in names(models):
            registry.check_kind(registry.model(name).make(), data.y, name)
        with clock.phase("testing", show=False):
            comparison = testing.decoder().compare(
                data,
                models=names(models) or None,
                cv=testing.split,
                allow=testing.allowed,
                repeats=repeats if curve else 0,
                folder=folder / FINISHED,
            )
        with clock.phase("writing the report"):
            _write(comparison, data, folder, told | {"command": clock.command})
        clock.write(folder / RUN_FILE, comparison.results)
    if as_json:
        print((out / "comparison.json").read_text("utf-8"))
    else:
        _show(comparison, data, scans.label, out)
    for error in comparison.failures.values():
        if not refuses_input(error):  # the others are kept, and the fault is told with its log
            raise error


def _told(data: Dataset, interest: Interest) -> dict[str, Any]:
    """What the report is asked for, checked, as keywords of `Decoder.generate_report`."""
    from voxprior.decoder.reading import atlas_of
    from voxprior.report.decisions import check_interest

    check_interest(data.y, interest.positive, interest.prevalence)
    atlas = atlas_of(data, interest.atlas, interest.atlas_labels)
    return {"positive": interest.positive, "prevalence": interest.prevalence, "atlas": atlas}


def _write(comparison: Comparison, data: Dataset, folder: Path, told: dict[str, Any]) -> None:
    """Write tables, and the report of the best family."""
    from voxprior.decoder import Decoder
    from voxprior.decoder.decoding import write_curve
    from voxprior.decoder.facts import facts, sample, subject

    best, of_many = comparison.best, len(comparison.rivals)
    columns, rows = comparison.cells()
    caption = f"All models on the same folds; {comparison.legend}"
    report = (
        Decoder(best)
        .fit(data)
        .generate_report(
            comparison.results[best],
            f"{best}{f', the best of {of_many}' if of_many > 1 else ''}: {subject(data)}",
            data,
            beside=[{"caption": caption, "columns": columns, "rows": rows}],
            learning=comparison.curve,
            done=facts(data),
            sample=sample(data, comparison.results[best]),
            caution=comparison.caution,
            **told,
        )
    )
    report.save(folder / "report.html")
    report.save_figures(folder / "figures")
    options: dict[str, Any] = {"sep": "\t", "index": False, "float_format": "%.6g", "na_rep": "n/a"}
    write_whole(folder / "comparison.tsv", comparison.table.to_csv(**options))
    if comparison.curve is not None:
        write_curve(comparison.curve, folder / "learning.tsv")
    (folder / "results").mkdir()
    for name, result in comparison.results.items():
        result.to_json(folder / "results" / f"{name}.json")
    write_whole(folder / "comparison.json", versioned(comparison.to_dict()))


def _show(comparison: Comparison, data: Dataset, label: str | None, out: Path) -> None:
    from voxprior.decoder.facts import subject

    console = PlainConsole()
    headings, rows = comparison.cells()
    for model, row in zip(comparison.table["model"], rows):
        row.append(f"{comparison.results[model].timings['fit_seconds'].sum():.1f}")
    print_table(console, [*headings, "seconds"], rows, subject(data, label), comparison.legend)
    if comparison.caution:
        console.print(comparison.caution)
    for name, why in comparison.reasons.items():
        console.print(f"{name} failed: {in_command_words(why)}")
    console.print(f"Report: {out / 'report.html'}", soft_wrap=True)
