"""``voxprior demo``: a brain decoded from two scans per class, by every family."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voxprior import registry
from voxprior.cli.options import Json
from voxprior.cli.terminal import PlainConsole
from voxprior.output import RUN_FILE, Clock, output_folder

if TYPE_CHECKING:
    from voxprior.images import Dataset
    from voxprior.validation import Result

TEST_SCANS = 30
PAGE = "report.html"


def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for maps, picture and report.")
    ] = Path("voxprior-demo"),
    scans: Annotated[int, typer.Option(min=2, help="Training scans per class.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated experiment.")] = 0,
    as_json: Json = False,
) -> None:
    """Simulate a small experiment in the MNI brain and decode it with every family.

    Needs no data and no network. Prints accuracy, log-loss and time beside Gaussian naive Bayes,
    and writes each family's map (NIfTI), a picture of the truth beside the maps, and the report
    of the best family.
    """
    from voxprior.decoder.comparison import caution

    clock = Clock()
    families = list(registry.models("classifier", "family"))
    with output_folder(out, PAGE) as folder:
        with clock.phase("simulating a brain"):
            data, truth = _simulate(scans, seed)
        results = {}
        for name in ["naive-bayes", *families]:
            with clock.phase(f"fitting {name}"):
                results[name] = _test(name, data, scans)
        with clock.phase("writing maps and report"):
            _write_maps(results, truth, data, folder)
            best = max(families, key=lambda name: results[name].pooled()["accuracy"])
            warned = caution(best, {name: results[name] for name in families})
            _write_report(best, results[best], data, scans, warned, folder)
        clock.write(folder / RUN_FILE, results)
    _print(results, best, data, scans, warned, out, as_json)


def _simulate(scans: int, seed: int) -> tuple[Dataset, Any]:
    """Scans of two classes, and the map of where they differ."""
    import numpy as np

    from voxprior.images import Dataset
    from voxprior.simulate import blobs, brain

    simulated = blobs(
        brain(6),
        scans + TEST_SCANS,
        n_blobs=4,
        blob_radius=3,
        effect=2,
        noise="correlated",
        noise_smoothness=1.0,
        random_state=seed,
    )
    labels = np.array(["A", "B"])[simulated.y]
    return Dataset(simulated.X, labels, simulated.space), simulated.truth["signal"]


def _fold(data: Dataset, scans: int) -> tuple[Any, Any]:
    """Training scans, the first of each class, and test scans, the others."""
    import numpy as np

    order = np.argsort(data.y, kind="stable").reshape(2, -1)
    return order[:, :scans].ravel(), order[:, scans:].ravel()


def _test(name: str, data: Dataset, scans: int) -> Result:
    from voxprior.decoder import prepared
    from voxprior.validation import cross_validate

    model, X = prepared(name, data)
    return cross_validate(model, X, data.y, cv=[_fold(data, scans)], keep_models=True)


def _write_maps(results: dict[str, Result], truth: Any, data: Dataset, out: Path) -> None:
    from voxprior.images import write_maps
    from voxprior.report import draw_maps

    maps = {"truth": truth}
    for name, result in results.items():
        if hasattr(result.models[0], "voxel_maps"):
            maps[name] = next(iter(result.models[0].voxel_maps().values()))
    write_maps(maps, data.space, out)
    draw_maps(data.space, maps).savefig(out / "maps.png", dpi=120)


def _write_report(
    name: str, result: Result, data: Dataset, scans: int, warned: str, out: Path
) -> None:
    from voxprior.decoder import Decoder

    training = data.take(_fold(data, scans)[0])
    decoder = Decoder(name).fit(training)
    title = f"{name}: a simulated brain from {scans} scans per class"
    report = decoder.generate_report(result, title, training, names=(), caution=warned)
    report.save(out / PAGE)


def _print(
    results: dict[str, Result],
    best: str,
    data: Dataset,
    scans: int,
    warned: str,
    out: Path,
    as_json: bool,
) -> None:
    from rich.table import Table

    rows: list[dict[str, Any]] = [
        {
            "model": name,
            "accuracy": result.pooled()["accuracy"],
            "log_loss": result.pooled()["log_loss"],
            "seconds": result.seconds,
        }
        for name, result in results.items()
    ]
    if as_json:
        found = {"rows": rows, "best": best, "caution": warned}
        print(json.dumps(found | {"folder": str(out), "report": str(out / PAGE)}))
        return
    told = "chance: accuracy .50, log-loss .69; seconds of a first run include compiling"
    table = Table(caption=told)
    table.add_column("model")
    for column in ("accuracy", "log-loss", "seconds"):
        table.add_column(column, justify="right")
    for row in rows:
        numbers = (f"{row[key]:.2f}" for key in ("accuracy", "log_loss", "seconds"))
        table.add_row(row["model"], *numbers)
    console = PlainConsole()
    console.print(
        f"A simulated brain of {data.space.n_voxels:,} voxels: {scans} scans per class to train, "
        f"{TEST_SCANS} per class to test"
    )
    console.print(table)
    console.print(warned)
    for what, where in {
        "Maps": f"{out}/<model>.nii.gz",
        "Picture": out / "maps.png",
        f"Report of {best}": out / PAGE,
    }.items():
        console.print(f"{what}: {where}", soft_wrap=True)
