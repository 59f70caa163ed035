"""``voxprior decode``: images and labels in; report, predictions, maps and a model out."""

import json

from voxprior import registry
from voxprior.cli.folder import output_folder
from voxprior.cli.pipeline import decode_dataset, show, subject
from voxprior.cli.reading import Labelled, Preparation, Trials, read
from voxprior.cli.settings import parameters
from voxprior.cli.testing import Config, Json, Model, Out, Permutations, Set, Testing
from voxprior.cli.timing import Clock


def decode(
    labelled: Labelled,
    trials: Trials,
    preparation: Preparation,
    testing: Testing,
    out: Out,
    permutations: Permutations = 0,
    model: Model = "sharing",
    config: Config = None,
    changes: Set = None,
    as_json: Json = False,
) -> None:
    r"""Decode images: test a model on held-out scans, fit it on all, write a report.

    Writes report.html, result.json, predictions.tsv, maps/ and model.skops into --out. A run
    that is stopped goes on with the same command. The same command writes the same bytes again;
    times are in run.json.

    One map a subject, and a table of subjects:

        voxprior decode maps/*.nii.gz --labels participants.tsv --label group \
            --covariates age,sex --model gp --out gp

    Runs with BIDS events:

        voxprior decode run-*_bold.nii.gz --events run-*_events.tsv \
            --conditions face,house --delay 5 --mask mask.nii.gz --out faces

    One file of several runs, with a label and a run for every volume:

        voxprior decode bold.nii.gz --volume-labels attributes.txt \
            --mask mask.nii.gz --conditions face,house --permutations 1000 --out faces
    """
    clock = Clock()
    settings = parameters(config, changes)
    estimator = registry.model(model).make(**settings)
    with output_folder(out, "result.json") as folder:
        with clock.phase("reading images"):
            data = read(labelled, trials, preparation)
        registry.check_kind(estimator, data.y, model)
        title = f"{model}: {subject(data, labelled.label)}"
        _, found = decode_dataset(
            data, estimator, testing, folder, clock, title=title, permutations=permutations
        )
    if as_json:
        print(json.dumps(found | {"folder": str(out)}, indent=1))
    else:
        show(found, out / "report.html")
