"""``voxprior bids``: a BIDS App over fMRIPrep derivatives, for each participant or the group."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from voxprior import registry
from voxprior.cli.arguments import names, parameters
from voxprior.cli.options import (
    Config,
    Json,
    Map,
    Model,
    Permutations,
    PermutationTest,
    Preparation,
    Reporting,
    Set,
    Testing,
    Trials,
    Workers,
)
from voxprior.cli.terminal import PlainConsole, say, versioned


class Level(StrEnum):
    """Levels of analysis of a BIDS App."""

    participant = "participant"
    group = "group"


def bids(
    bids_dir: Annotated[Path, typer.Argument(help="BIDS folder, with the events tables.")],
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
    workers: Workers,
    reporting: Reporting,
    task: Annotated[
        str | None,
        typer.Option(
            "--task", "--task-id", help="Task, without task-; the one that there is if absent."
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="Part of the name of every file, such as faces-houses, so that contrasts and "
            "models are side by side in one folder; made of the conditions if absent."
        ),
    ] = None,
    derivatives: Annotated[
        Path | None,
        typer.Option(help="Output of fMRIPrep; by default BIDS_DIR/derivatives/fmriprep."),
    ] = None,
    space: Annotated[
        str, typer.Option(help="Space of the images; MNI152NLin2009cAsym:res-2 to name a grid.")
    ] = "MNI152NLin2009cAsym",
    participant_label: Annotated[
        list[str] | None,
        typer.Option(
            "--participant-label", "--participant_label", help="Participants; all by default."
        ),
    ] = None,
    mask: Annotated[
        Path | None,
        typer.Option(help="Mask; by default what fMRIPrep's masks share."),
    ] = None,
    permutations: Permutations = 0,
    test: PermutationTest = "auto",
    with_map: Map = False,
    searchlight: Annotated[
        float | None,
        typer.Option(
            help="At level group, also map how well the voxels within this radius (mm) decode, "
            "over participants."
        ),
    ] = None,
    prior_from: Annotated[
        str | None,
        typer.Option(help="group: at level participant, a prior from all other participants."),
    ] = None,
    model: Model = None,
    config: Config = None,
    changes: Set = None,
    as_json: Json = False,
) -> None:
    r"""Decode fMRIPrep derivatives: every participant, then the group.

    participant writes sub-XX/func with a report for each; a participant who is finished is not
    run again. group trains on all participants but one, tests on that one, and puts both scores
    of every participant into a table, with those of other models (--name, --model) of the same
    participants. index.html links all reports.

        voxprior bids study out participant --task faces --conditions face house \
            --delay 5 --confounds motion wm_csf high_pass

        voxprior bids study out group --task faces --conditions face house --delay 5

    With --prior-from group every participant is decoded with what all others teach.
    """
    from voxprior.study import Study

    if prior_from is not None and level is Level.group:
        raise ValueError("--prior-from would have no effect; it is for the level participant.")
    if searchlight is not None and level is Level.participant:
        raise ValueError("--searchlight would have no effect; it is for the level group.")
    model = model or registry.default_model()
    estimator = registry.model(model).make(**parameters(config, changes))
    study = Study.from_bids(
        bids_dir,
        out,
        task=task,
        name=name,
        decoder=testing.decoder(estimator),
        derivatives=derivatives,
        space=space,
        participants=names(participant_label),
        cv=testing.split,
        allow=testing.allowed,
        permutations=permutations,
        mapping=with_map,
        prior_from=prior_from,
        reporting=reporting.settings(),
        test=test,
        searchlight=searchlight,
        progress=say,
        model=model,
        mask=None if mask is None else str(mask),
        **trials.settings(),
        **preparation.settings(),
    )
    participants = level is Level.participant
    found = study.decode_participants() if participants else study.decode_group()
    if as_json:
        print(versioned(found))
    else:
        _show(found)


def _show(found: dict[str, Any]) -> None:
    from rich import box
    from rich.table import Table

    from voxprior.decoder.comparison import decimals

    console = PlainConsole()
    if found["level"] == "participant":
        table = Table(box=box.SIMPLE)
        for column in ("participant", "score", "value", "95 % interval", "chance"):
            table.add_column(column)
        for label, one in found["participants"].items():
            name, score = next(iter(one["scores"].items()))
            low, high = decimals(score["low"]), decimals(score["high"])
            limits = f"{low} to {high}" if low != "-" else "none"
            table.add_row(label, name, decimals(score["value"]), limits, decimals(score["chance"]))
        console.print(table)
    else:
        tests = found["second_level"]
        for test in (tests["within"], tests["between"], *tests["compared"]):
            console.print(test["line"], soft_wrap=True)
    console.print(f"Output: {found['folder']}", soft_wrap=True)
