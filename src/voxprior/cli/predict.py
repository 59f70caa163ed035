"""``voxprior predict``: new images through a model that ``voxprior decode`` wrote."""

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from voxprior.cli.arguments import NAMES_FILES, names
from voxprior.cli.inputs import groups_of_maps, mesh, paired, read_runs, refuse
from voxprior.cli.options import ImageFiles, Json, Trials, Trust
from voxprior.cli.terminal import printable, say
from voxprior.errors import InputError
from voxprior.writing import check_place, is_stream, write_whole

DECIDING, REJECT = "Decisions", "reject"


def predict(
    model: Annotated[Path, typer.Argument(help="model.skops, written by voxprior decode.")],
    images: ImageFiles,
    trials: Trials,
    table_file: Annotated[
        Path | None, typer.Option("--out", "-o", help="Table to write, TSV.")
    ] = None,
    events: Annotated[
        list[str] | None,
        NAMES_FILES,
        typer.Option(help="Events tables of runs; only their times are used."),
    ] = None,
    volume_labels: Annotated[
        list[str] | None,
        NAMES_FILES,
        typer.Option(
            help="Text file with the label, and the run, of every volume, where a file holds "
            "several runs; the labels are used only to find where trials start and end."
        ),
    ] = None,
    surface: Annotated[
        list[str] | None,
        NAMES_FILES,
        typer.Option(help="Mesh of GIFTI images, as in voxprior decode."),
    ] = None,
    resample: Annotated[
        bool, typer.Option("--resample", help="Resample images that are on another grid.")
    ] = False,
    covariates: Annotated[
        Path | None,
        typer.Option(help="Table with the covariates of these scans, if the model has any."),
    ] = None,
    groups: Annotated[
        Path | None,
        typer.Option(
            help="Table with the run of each map, if the model centres maps by run: a column that "
            "names the file, and a column run."
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Column of these tables that names the file or subject.")
    ] = None,
    trust: Trust = None,
    costs: Annotated[
        Path | None,
        typer.Option(
            help="Table of costs: one row per action, one column per class.",
            rich_help_panel=DECIDING,
        ),
    ] = None,
    priors: Annotated[
        list[str] | None,
        typer.Option(
            help="Frequencies of the classes where the scans come from: ill=.1,well=.9.",
            rich_help_panel=DECIDING,
        ),
    ] = None,
    reject: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Abstain where no class reaches this probability.",
            rich_help_panel=DECIDING,
        ),
    ] = None,
    train_priors: Annotated[
        list[str] | None,
        typer.Option(
            help="Frequencies of the classes inside the model, if not those of training.",
            rich_help_panel=DECIDING,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Predict the classes (or numbers) of new images: one row per scan, with probabilities.

    For numbers, low and high are the ends of the 90 % interval, if the model gives one. The column
    unlike is the distance of a scan from the training scans; 1 is that of the farthest of these.

    A 4-D run gives one row per volume; with --events or --volume-labels one per trial, cut as in
    training unless --unit, --window or --delay say otherwise.

    For instance:

        voxprior predict faces/model.skops new/*.nii.gz --out predictions.tsv

        voxprior predict faces/model.skops run-9_bold.nii.gz --events run-9_events.tsv

        voxprior predict fingers/model.skops run-9/*.nii.gz --groups run-9.tsv

        voxprior predict ill/model.skops scan.nii.gz --priors ill=.02,well=.98 --costs costs.tsv
    """
    from rich.console import Console

    from voxprior.decoder import Decoder

    if table_file is not None:
        check_place(table_file)
    if train_priors is not None and priors is None:
        raise ValueError("--train-priors would have no effect; it goes with --priors.")
    decoder = Decoder.load(model, trusted=trust or ())
    if resample:
        decoder.masker_ = replace(decoder.masker_, resample=True)
    with Console(stderr=True).status("reading images"):
        data = _read(decoder, images, events, volume_labels, surface, trials, groups, key)
    if covariates is not None:
        data = _with_covariates(data, decoder, covariates, key)
    table = _predictions(decoder, data.named_near(Path.cwd()))
    deciding = {"costs": costs, "priors": priors, "reject": reject, "train_priors": train_priors}
    if any(value is not None for value in deciding.values()):
        table = _decided(table, decoder, model, **deciding)
    _write(table, table_file, as_json)


def _read(
    decoder: Any,
    images: Any,
    events: Any,
    volume_labels: Any,
    surface: Any,
    trials: Trials,
    groups: Path | None,
    key: str | None,
) -> Any:
    from voxprior.images import load_maps

    files = paired(images) if surface else images
    if events and volume_labels:
        raise ValueError("Give --events or --volume-labels, not both.")
    if groups and (events or volume_labels):
        raise ValueError("--groups: would have no effect; it is for maps, and these are runs.")
    if groups and decoder.masker_.standardize in ("train", "none"):
        raise ValueError("--groups: would have no effect; the model does not centre maps by group.")
    if events or volume_labels:
        settings = {"images": decoder.masker_, "mesh": mesh(surface), "label_column": None}
        cut = as_in_training(trials, decoder)
        return read_runs(files, events, volume_labels, cut, **settings)
    refuse(trials, *asdict(trials), because="need --events or --volume-labels")
    by = None if groups is None else groups_of_maps(files, groups, key, mesh(surface))
    data = load_maps(files, images=decoder.masker_, groups=by, mesh=mesh(surface))
    if decoder.trials_ is not None and decoder.masker_.standardize in ("run", "baseline"):
        say(
            "note: every volume is predicted, and every 4-D file standardised as one run. To cut "
            "trials as in training, or where a file holds several runs, give --events or "
            "--volume-labels."
        )
    return data


def as_in_training(trials: Trials, decoder: Any) -> Trials:
    """Cut runs as the model's were, except where an option says otherwise."""
    trained = decoder.trials_ or {}
    unset = {
        name: trained[name]
        for name in ("unit", "window", "delay")
        if name in trained and getattr(trials, name) is None
    }
    return replace(trials, **unset)


def _with_covariates(data: Any, decoder: Any, path: Path, key: str | None) -> Any:
    """Give every scan its covariates; the table may have rows of others."""
    from voxprior.images import join_table

    if decoder.covariates_ is None:
        raise ValueError("--covariates: would have no effect; the model was trained without any.")
    wanted = list(decoder.covariates_.levels)
    joined = join_table(data.names, path, covariates=wanted, key=key, unmatched="drop")
    if len(joined.positions) < data.n_samples:
        raise ValueError(f"Every scan needs its covariates. {joined.dropped[0]}.")
    return replace(data, covariates=joined.covariates)


def _predictions(decoder: Any, data: Any) -> Any:
    """One row per scan: name, prediction, and the probability of each class or the interval."""
    import pandas as pd

    table = pd.DataFrame({"scan": list(data.names), "prediction": decoder.predict(data)})
    if hasattr(decoder.estimator_, "predict_proba"):
        P = decoder.predict_proba(data)
        for c, label in enumerate(decoder.classes_):
            table[f"p_{label}"] = P[:, c]
    if decoder.has_intervals:
        table[["low", "high"]] = decoder.predict_interval(data)
    unlike = decoder.unlikeness(data)
    if unlike is not None:
        table["unlike"] = unlike
    return table


def _decided(
    table: Any, decoder: Any, model: Path, costs: Any, priors: Any, reject: Any, train_priors: Any
) -> Any:
    """Re-weight the probabilities to the priors and add the decision of least expected cost."""
    import numpy as np

    from voxprior.decision import correct_priors, decide
    from voxprior.decision.priors import prior_vector

    columns = [c for c in table.columns if c.startswith("p_")]
    if not columns:
        raise ValueError(
            f"{model}: gives no probabilities, which --costs, --priors and --reject need. "
            "Decode with a model that does."
        )
    classes = decoder.classes_
    if priors is not None:
        trained = (
            _trained_at(decoder)
            if train_priors is None
            else prior_vector(_by_class(train_priors, classes), classes, "train-priors")
        )
        wanted = prior_vector(_by_class(priors, classes), classes)
        table[columns] = correct_priors(table[columns].to_numpy(), trained, wanted)
        table["prediction"] = classes[table[columns].to_numpy().argmax(axis=1)]
    P = table[columns].to_numpy()
    L, actions = (None, classes) if costs is None else _costs(costs, classes)
    chosen = decide(P, L, threshold=reject)
    if REJECT in map(str, actions):
        raise ValueError(f"'{REJECT}' stands for an abstention; call the action otherwise.")
    # Index -1 is the last entry: the abstention.
    decision = np.array([*map(str, actions), REJECT])[chosen]
    table.insert(2, "decision", decision)
    if L is not None:
        table["expected_cost"] = np.where(chosen < 0, np.nan, (P @ L.T)[range(len(P)), chosen])
    return table


def _by_class(values: list[str], classes: Any) -> dict[Any, float]:
    """Numbers by class, from ``ill=.1,well=.9``."""
    from voxprior.labels import refuse_alike

    label_of = {str(label): label for label in classes.tolist()}
    found: dict[Any, float] = {}
    for text in names(values):
        name, _, number = text.partition("=")
        label = label_of.get(name.strip(" \t"), name.strip(" \t"))
        try:
            value = float(number)
        except ValueError:
            raise ValueError(f"'{text}': class=number was expected, for instance ill=.1.") from None
        if label in found and found[label] != value:
            raise InputError(
                f"{label!r} is given twice, with {found[label]:g} and {value:g}",
                remedy="Give each class once",
            )
        found[label] = value
    refuse_alike("classes", [*label_of, *map(str, found)])
    return found


def _trained_at(decoder: Any) -> Any:
    """Class frequencies inside the model's probabilities: its own prior, or those in training."""
    from voxprior.decision.base import trained_prior

    own = trained_prior(decoder.estimator_)
    return decoder.class_frequencies_ if own is None else own / own.sum()


def _costs(path: Path, classes: Any) -> tuple[Any, list[str]]:
    """Costs [action, class] in the order of the classes, and the names of the actions."""
    import numpy as np
    import pandas as pd

    from voxprior.images.tables import read_cells
    from voxprior.labels import refuse_alike

    table = read_cells(path, "table of costs").drop_duplicates()
    table = table.set_index(table.columns[0])
    labels = [str(label) for label in classes]
    refuse_alike("classes", [*labels, *table.columns])
    refuse_alike("actions", table.index)
    twice = table.index[table.index.duplicated()]
    if len(twice):
        raise InputError(
            f"{path}: the action {twice[0]!r} stands there twice, with different costs",
            remedy="Give each action one row",
        )
    if sorted(table.columns) != sorted(labels):
        raise ValueError(
            f"{path}: after the actions, one column per class was expected: {', '.join(labels)}. "
            f"Got {', '.join(table.columns)}."
        )
    L = table[labels].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=float)
    if len(L) == 0 or not np.isfinite(L).all():
        raise ValueError(f"{path}: every cost must be a number.")
    return L, [str(action) for action in table.index]


def _write(table: Any, out: Path | None, as_json: bool) -> None:
    from voxprior.validation.result import plain

    if out is not None:
        write_whole(out, table.to_csv(sep="\t", index=False, float_format="%.6g"))
    if as_json:
        print(json.dumps(plain(table.to_dict("records")), indent=1))
    elif out is None:
        text = table.to_csv(sep="\t", index=False, float_format="%.6g")
        print(_for_people(text) if sys.stdout.isatty() else text, end="")
    elif not is_stream(out):  # else the line might end up in the table
        print(f"{len(table)} predictions: {out}")


def _for_people(text: str) -> str:
    """Show a table on a terminal, on which no label of a model may act."""
    return "".join(c if c in "\t\n" else printable(c) for c in text)
