"""``voxprior demo``: which prior helps where, compared with stock decoders."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from voxprior.cli.command_line import command_line
from voxprior.cli.options import Json
from voxprior.cli.terminal import PlainConsole, print_table, versioned
from voxprior.output import RUN_FILE, Clock, output_folder
from voxprior.writing import write_whole, written_whole

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from voxprior.decoder.race import Verdict
    from voxprior.simulate import Scene
    from voxprior.validation import Result

PAGE, PICTURE, SCORES = "report.html", "demo.png", "scores.tsv"
QUESTION = "Which prior for which truth"
ANSWER = ("decoder", "score", "gain over stock", "verdict")
NEXT = "voxprior decode maps/*.nii.gz --labels table.tsv --label group"


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
    details: Annotated[
        bool, typer.Option("--details", help="Print all scores, and what decisions cost.")
    ] = False,
    # Processes take longer to start than six experiments take.
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", help="Number of worker processes; -1: one per core.")
    ] = 1,
    as_json: Json = False,
) -> None:
    """Show which prior helps where: one simulated scene per family, in which its assumption holds.

    In each scene the family and the automatic default are compared with tuned logistic
    regression, shrinkage LDA and nearest centroid, all with their defaults on the same scans. The
    table has the gain over the best of these three with its interval, and says where there is
    none. Writes all scores, one picture (maps, learning curves with 95 % bands) and the report of
    the automatic default in one scene.

        voxprior demo --details
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
        _show(table, scenes, seeds, details)
        _lead_on(out, seconds)


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
    beside = [_answer_for_the_page(table, scenes)]
    for one in scenes:
        headings, cells = _cells(table, one)
        beside.append({"caption": _caption(one), "columns": headings, "rows": cells})
    title = f"auto in the demo: {scene.title}, {size} scans per class"
    report = decoder.fit(data).generate_report(result, title, data, names=(), beside=beside)
    report.save(folder / PAGE)
    return result


# ---------------------------------------------------------------- words


def _caption(scene: Scene) -> str:
    better = ", small is good" if scene.score == "log_loss" else ""
    return (
        f"{scene.title}: {scene.claim}; mean {_score(scene)}{better}, by training scans per class"
    )


def _score(scene: Scene) -> str:
    return scene.score.replace("_", "-")


def _gain(held: Verdict) -> str:
    return f"{held.gain:+.3f} [{held.low:+.3f}, {held.high:+.3f}]"


def _cells(table: pd.DataFrame, scene: Scene) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of a scene's table; stock decoders have an asterisk."""
    from voxprior.decoder.comparison import decimals
    from voxprior.decoder.race import STOCK, means, verdict

    found = means(table, scene)
    rows = []
    for name, scores in found.iterrows():
        stock, said = name in STOCK, ["", ""]
        if not stock:
            held = verdict(table, scene, str(name))
            said = [_gain(held), held.word]
        rows.append([f"{name} *" if stock else str(name), *map(decimals, scores), *said])
    rival = verdict(table, scene, scene.families[0]).rival
    against = f"gain over {rival} at {scene.decisive}"
    return ["decoder", *map(str, found.columns), against, "verdict"], rows


def _answer(table: pd.DataFrame, scene: Scene) -> tuple[str, list[list[str]]]:
    """What is true in a scene, and rows of its families, the default and the best stock decoder."""
    from voxprior.decoder.comparison import decimals
    from voxprior.decoder.race import DEFAULT, means, verdict

    at = means(table, scene)[scene.decisive]
    held = {name: verdict(table, scene, name) for name in (*scene.families, DEFAULT)}
    rows = [[name, decimals(at[name]), _gain(one), one.word] for name, one in held.items()]
    rival = held[DEFAULT].rival
    # Nobody knows what is true of real scans: their title says what they are.
    truth = scene.claim if scene.truth else f"{scene.title}: {scene.claim}"
    said = f"{truth}\n{_score(scene)}, {scene.decisive} per class"
    return said, [*rows, [f"{rival} *", decimals(at[rival]), "", ""]]


def _answer_for_the_page(table: pd.DataFrame, scenes: Sequence[Scene]) -> dict[str, Any]:
    rows = []
    for scene in scenes:
        said, of_scene = _answer(table, scene)
        rows += [
            [*cells[:1], said if n == 0 else "", *cells[1:]] for n, cells in enumerate(of_scene)
        ]
    columns = ["decoder", "what is true, score, training scans per class", *ANSWER[1:]]
    return {"caption": QUESTION, "columns": columns, "rows": rows}


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


def _show(table: pd.DataFrame, scenes: Sequence[Scene], seeds: int, details: bool) -> None:
    console = PlainConsole()
    _print_answer(console, table, scenes)
    console.print(
        f"* the best stock decoder there. Means of {seeds} experiments; gains over it with 95 % "
        "intervals, paired, positive where better. 'not ahead': the interval holds 0."
    )
    if any(scene.truth is None for scene in scenes):
        console.print("Experiments that share real scans are alike: these intervals are short.")
    if details:
        _print_details(console, table, scenes)
    else:
        console.print("'per class' counts training scans; --details shows other numbers of them.")


def _print_answer(console: Console, table: pd.DataFrame, scenes: Sequence[Scene]) -> None:
    """Print a row per scene, with a line for each of its decoders."""
    from rich.table import Table

    answer = Table(title=QUESTION, box=None, padding=(0, 2, 0, 0), pad_edge=False)
    answer.add_column("what is true", width=24)
    for heading in ANSWER:
        left = heading in ("decoder", "verdict")
        answer.add_column(heading, justify="left" if left else "right", no_wrap=True)
    for scene in scenes:
        said, rows = _answer(table, scene)
        answer.add_row()
        answer.add_row(Text(said), *(Text("\n".join(cells)) for cells in zip(*rows)))
    console.print(answer)
    console.print()


def _print_details(console: Console, table: pd.DataFrame, scenes: Sequence[Scene]) -> None:
    from voxprior.decoder.race import COSTS, UNDECIDED

    for scene in scenes:
        headings, rows = _cells(table, scene)
        print_table(console, headings, rows, _caption(scene))
    for scene in scenes:
        if scene.score == "log_loss":
            headings = ["decoder", "likeliest class", "least expected cost", "share left open"]
            said = (
                f"a miss costs {COSTS[0, 1]:g}, a false alarm {COSTS[1, 0]:g}, to leave a scan "
                f"open {UNDECIDED:g}; {scene.sizes[-1]} scans per class"
            )
            title = f"Mean cost of decisions, {scene.title}"
            print_table(console, headings, _decisions(table, scene), title, said)


def _lead_on(out: Path, seconds: float) -> None:
    console = PlainConsole()
    console.print(f"{seconds:.0f} seconds, after compiling.")
    for what, name in {"scores": SCORES, "picture": PICTURE, "report of auto": PAGE}.items():
        console.print(f"{what}: {out / name}", soft_wrap=True)
    console.print(f"your own images: {NEXT}", soft_wrap=True)
