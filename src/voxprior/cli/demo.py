"""``voxprior demo``: what each prior is worth where it is right, beside stock decoders."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voxprior.cli.command_line import command_line
from voxprior.cli.options import Json
from voxprior.cli.terminal import PlainConsole, print_table, versioned
from voxprior.output import RUN_FILE, Clock, output_folder
from voxprior.writing import write_whole, written_whole

if TYPE_CHECKING:
    import pandas as pd

    from voxprior.simulate import Scene
    from voxprior.validation import Result

PAGE, PICTURE, SCORES = "report.html", "demo.png", "scores.tsv"


class Data(StrEnum):
    """What to learn from."""

    SIMULATED = "simulated"
    HAXBY = "haxby"


def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for scores, picture and report.")
    ] = Path("voxprior-demo"),
    data: Annotated[
        Data,
        typer.Option(
            help="Simulated scenes, which need no data and no network, or real scans: those of "
            "Haxby et al. 2001, from the folder VOXPRIOR_DATA or fetched (300 MB)."
        ),
    ] = Data.SIMULATED,
    seeds: Annotated[int, typer.Option(min=2, max=100, help="Experiments in each scene.")] = 6,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", help="Number of worker processes; -1: one per core.")
    ] = -1,
    as_json: Json = False,
) -> None:
    """Show what each family is worth where its assumption is true.

    One scene per family, in each the family and the automatic default beside tuned logistic
    regression, shrinkage LDA and nearest centroid, all with their defaults on the same scans.
    Prints mean scores by training scans per class, and says where a stock decoder is as good.
    Writes all scores, one picture (maps, learning curves with 95 % bands) and the report of the
    automatic default in one scene.

        voxprior demo --data haxby
    """
    from voxprior.decoder.race import race, warm_up

    clock = Clock(command_line())
    with output_folder(out, PAGE) as folder:
        with clock.phase("compiling"):
            scenes = _scenes(data)
            warm_up(scenes)
        with clock.phase("testing", show=False):
            table = race(scenes, seeds, n_jobs=jobs, progress=True)
        with clock.phase("writing picture and report"):
            kept = table.drop(columns="seconds")
            text = kept.to_csv(sep="\t", index=False, float_format="%.6g", na_rep="n/a")
            write_whole(folder / SCORES, text)
            _write_picture(table, scenes, folder)
            result = _write_report(table, scenes, folder)
        clock.write(folder / RUN_FILE, {"auto": result})
    seconds = sum(clock.seconds.values()) - clock.seconds["compiling"]
    if as_json:
        print(versioned(_summary(table, scenes, out) | {"seconds": seconds}))
    else:
        _show(table, scenes, seeds, out, seconds)


def _scenes(data: Data) -> Sequence[Scene]:
    if data is Data.SIMULATED:
        from voxprior.simulate.scenes import SCENES

        return SCENES
    from voxprior.decoder.race import real_scenes
    from voxprior.images import load_haxby

    return real_scenes(load_haxby)


# ---------------------------------------------------------------- files


def _write_picture(table: pd.DataFrame, scenes: Sequence[Scene], folder: Path) -> None:
    from voxprior.report.scenes import draw_strips

    figure = draw_strips([_strip(table, scene) for scene in scenes])
    with written_whole(folder / PICTURE) as file:
        figure.savefig(file, dpi=110)


def _strip(table: pd.DataFrame, scene: Scene) -> Any:
    """What the picture shows of a scene: maps of its first experiment, at most scans."""
    import numpy as np

    from voxprior.decoder.race import DEFAULT, STOCK, fitted, rows_of, spread
    from voxprior.report.scenes import Curve, Strip

    data, size = scene.draw(0), scene.sizes[-1]
    maps = {} if scene.truth is None else {"truth": scene.truth(data)}
    for name, map_of in scene.maps.items():
        maps[name] = map_of(fitted(name, data, rows_of(data, slice(size)), size))
    maps = {name: np.asarray(values, dtype=float) for name, values in maps.items()}

    def curves(names: Sequence[str]) -> dict[str, Curve]:
        part = table[(table["scene"] == scene.title) & table[scene.score].notna()]
        found = {}
        for name in names:
            by_size = part[part["decoder"] == name].groupby("size")[scene.score]
            if len(by_size):
                half = [spread(values.to_numpy()) for _, values in by_size]
                found[name] = Curve(scene.sizes, by_size.mean().tolist(), half)
        return found

    return Strip(
        scene.title,
        scene.claim,
        scene.score,
        np.log(2) if scene.score == "log_loss" else 0.5,
        data.space,
        maps,
        curves(scene.families),
        curves([DEFAULT]),
        curves(list(STOCK)),
    )


def _write_report(table: pd.DataFrame, scenes: Sequence[Scene], folder: Path) -> Result:
    """Write the report of the automatic default in the scene that has the truest blob."""
    from voxprior.decoder import Decoder
    from voxprior.decoder.race import rows_of
    from voxprior.images import Dataset

    scene = next((one for one in scenes if "boosting" in one.families), scenes[0])
    drawn, size = scene.draw(0), scene.sizes[-1]
    rows = rows_of(drawn, slice(size))
    data = Dataset(drawn.X[rows], drawn.y[rows].astype(str), drawn.space)
    decoder = Decoder()
    result = decoder.evaluate(data)
    beside = []
    for one in scenes:
        headings, cells = _cells(table, one)
        beside.append({"caption": _caption(one), "columns": headings, "rows": cells})
    title = f"auto in the demo: {scene.title}, {size} scans per class"
    report = decoder.fit(data).generate_report(result, title, data, names=(), beside=beside)
    report.save(folder / PAGE)
    return result


# ---------------------------------------------------------------- words


def _caption(scene: Scene) -> str:
    score = "log-loss, small is good" if scene.score == "log_loss" else "accuracy"
    return f"{scene.title}: {scene.claim}; mean {score}, by training scans per class"


def _cells(table: pd.DataFrame, scene: Scene) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of a scene's table; stock decoders have an asterisk."""
    from voxprior.decoder.comparison import decimals
    from voxprior.decoder.race import STOCK, means, verdict

    found = means(table, scene)
    rows = []
    for name, scores in found.iterrows():
        stock, told = name in STOCK, ["", ""]
        if not stock:
            held = verdict(table, scene, str(name))
            told = [f"{held.gain:+.3f} [{held.low:+.3f}, {held.high:+.3f}]", held.word]
        rows.append([f"{name} *" if stock else str(name), *map(decimals, scores), *told])
    rival = verdict(table, scene, scene.families[0]).rival
    against = f"gain over {rival} at {scene.decisive}"
    return ["decoder", *map(str, found.columns), against, "verdict"], rows


def _over_all(table: pd.DataFrame, scenes: Sequence[Scene]) -> list[list[str]]:
    """Rows of the automatic default, a scene each."""
    from voxprior.decoder.comparison import decimals
    from voxprior.decoder.race import DEFAULT, means, verdict

    rows = []
    for scene in scenes:
        held, at = verdict(table, scene, DEFAULT), means(table, scene)[scene.decisive]
        best = (min if scene.score == "log_loss" else max)(at[list(scene.families)])
        scores = map(decimals, (at[DEFAULT], best, at[held.rival]))
        rows.append([scene.title, str(scene.decisive), *scores, held.rival, held.word])
    return rows


def _decisions(table: pd.DataFrame, scene: Scene) -> list[list[str]]:
    """Rows of what decisions cost, at the largest size."""
    from voxprior.decoder.comparison import decimals
    from voxprior.decoder.race import means

    keys = ("cost_of_likeliest", "cost", "open")
    found = {key: means(table, scene, key)[scene.sizes[-1]].dropna() for key in keys}
    return [
        [str(name), *(decimals(found[key][name]) for key in keys)] for name in found["cost"].index
    ]


def _summary(table: pd.DataFrame, scenes: Sequence[Scene], out: Path) -> dict[str, Any]:
    from voxprior.decoder.race import DEFAULT, means, verdict
    from voxprior.validation.result import plain

    told = []
    for scene in scenes:
        held = {name: verdict(table, scene, name) for name in (*scene.families, DEFAULT)}
        told.append(
            {
                "scene": scene.title,
                "claim": scene.claim,
                "score": scene.score,
                "decisive": scene.decisive,
                "means": {str(n): dict(row) for n, row in means(table, scene).iterrows()},
                "against_stock": {n: v._asdict() | {"word": v.word} for n, v in held.items()},
            }
        )
    files = {"scores": SCORES, "picture": PICTURE, "report": PAGE}
    return plain({"scenes": told, **{key: str(out / name) for key, name in files.items()}})


def _show(
    table: pd.DataFrame, scenes: Sequence[Scene], seeds: int, out: Path, seconds: float
) -> None:
    from voxprior.decoder.race import COSTS, UNDECIDED

    console = PlainConsole()
    for scene in scenes:
        headings, rows = _cells(table, scene)
        print_table(console, headings, rows, _caption(scene))
    console.print(
        f"* stock decoder. Means of {seeds} experiments; gains over the stock decoder that is best "
        "there, with 95 % intervals, paired: 'as good' where the interval holds 0."
    )
    if any(scene.truth is None for scene in scenes):
        console.print("Experiments that share real scans are alike: these intervals are short.")
    headings = ["scene", "scans per class", "auto", "best family", "best stock", "which", "auto is"]
    print_table(console, headings, _over_all(table, scenes), "The automatic default in all scenes")
    for scene in scenes:
        if scene.score == "log_loss":
            headings = ["decoder", "likeliest class", "least expected cost", "share left open"]
            told = (
                f"a miss costs {COSTS[0, 1]:g}, a false alarm {COSTS[1, 0]:g}, to leave a scan "
                f"open {UNDECIDED:g}; {scene.sizes[-1]} scans per class"
            )
            title = f"Mean cost of decisions, {scene.title}"
            print_table(console, headings, _decisions(table, scene), title, told)
    console.print(f"{seconds:.0f} seconds, after compiling.")
    for what, name in {"Scores": SCORES, "Picture": PICTURE, "Report of auto": PAGE}.items():
        console.print(f"{what}: {out / name}", soft_wrap=True)
