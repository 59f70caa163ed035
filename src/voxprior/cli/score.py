"""``voxprior score``: a model that ``voxprior decode`` wrote, on a second labelled sample."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from voxprior.cli.arguments import names
from voxprior.cli.command_line import command_line
from voxprior.cli.decode import show_scores, subject_of, target_of
from voxprior.cli.inputs import (
    check_one_source,
    label_column,
    map_files,
    mesh,
    named_from,
    only,
    read_runs,
    refuse,
)
from voxprior.cli.options import Interest, Json, LabelledScans, Out, Trials, Trust
from voxprior.cli.predict import as_in_training
from voxprior.cli.terminal import PlainConsole, print_table, versioned
from voxprior.output import Clock, output_folder


def score(
    model: Annotated[Path, typer.Argument(help="model.skops, written by voxprior decode.")],
    scans: LabelledScans,
    trials: Trials,
    interest: Interest,
    out: Out,
    resample: Annotated[
        bool, typer.Option("--resample", help="Resample images that are on another grid.")
    ] = False,
    allow: Annotated[
        list[str] | None, typer.Option(help="Audit findings to override, by name.")
    ] = None,
    trust: Trust = None,
    as_json: Json = False,
) -> None:
    r"""Test a saved model on a second labelled sample: external validation.

    Nothing is fitted: mask, preparation and model are those of training, and covariates of the
    model are looked for in the table of labels. Scans and people of the training sample are found
    and refused. What differs between the samples is named with numbers. Writes report.html,
    figures/, result.json and predictions.tsv into --out; the column unlike is the distance of a
    scan from the training scans, 1 for the farthest of these.

        voxprior score decoded/model.skops other-clinic/*.nii.gz \
            --labels other-clinic/participants.tsv --label group --groups participant_id --out other

        voxprior score faces/model.skops run-9_bold.nii.gz --events run-9_events.tsv --out run-9
    """
    from voxprior.decoder import Decoder
    from voxprior.decoder.external import validate_externally

    clock = Clock(command_line())
    with output_folder(out, "result.json") as folder:
        decoder = Decoder.load(model, trusted=trust or ())
        if resample:
            decoder.masker_ = replace(decoder.masker_, resample=True)
        with clock.phase("reading images"):
            data = _read(decoder, scans, trials)
        title = f"{subject_of(data, scans.label)}, in a second sample"
        done = validate_externally(
            decoder,
            data,
            title=title,
            target=target_of(scans),
            allow=names(allow),
            clock=clock,
            **interest.settings(),
        )
        done.write(folder)
    found = done.summary()
    if as_json:
        print(versioned(found | {"folder": str(out)}))
        return
    if found["samples"]:
        headings = ["", "training", "here", "p"]
        print_table(PlainConsole(), headings, found["samples"], "The two samples")
    show_scores(found, out / "report.html")


def _read(decoder: Any, scans: LabelledScans, trials: Trials) -> Any:
    """Read the sample as training was read."""
    from voxprior.images import load_maps

    check_one_source(scans)
    images = map_files(scans)
    settings = {"images": decoder.masker_, "mesh": mesh(scans.surface)}
    if scans.labels is None:
        refuse(scans, "label", "key", "groups", because="need --labels")
        cut = as_in_training(trials, decoder)
        return named_from(
            read_runs(images, scans.events, scans.volume_labels, cut, **settings), scans
        )
    others = [name for name in asdict(trials) if name != "conditions"]
    refuse(trials, *others, because="are for runs")
    coding = decoder.covariates_
    data = load_maps(
        images,
        table=scans.labels,
        label=label_column(scans),
        key=scans.key,
        groups=scans.groups,
        covariates=None if coding is None else list(coding.levels),
        unmatched=scans.unmatched,
        **settings,
    )
    return named_from(only(data, names(trials.conditions)), scans)
