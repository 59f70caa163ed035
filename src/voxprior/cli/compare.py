"""``voxprior compare``: every family and flat baselines on one data set, the same folds for all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voxprior import registry
from voxprior.cli.arguments import names
from voxprior.cli.choice import caution
from voxprior.cli.errors import fault, one_line
from voxprior.cli.folder import FINISHED, output_folder
from voxprior.cli.pipeline import facts, number, rows_of, subject, told
from voxprior.cli.reading import Labelled, Preparation, Trials, read
from voxprior.cli.terminal import PlainConsole, say
from voxprior.cli.testing import PANEL, Json, Out, Testing
from voxprior.cli.timing import RUN_FILE, Clock
from voxprior.errors import refuses_input

if TYPE_CHECKING:
    import pandas as pd

    from voxprior.images import Dataset
    from voxprior.validation import LearningCurve, Result


def compare(
    labelled: Labelled,
    trials: Trials,
    preparation: Preparation,
    testing: Testing,
    out: Out,
    models: Annotated[
        list[str] | None,
        typer.Option(help="Models to compare; all families and baselines if absent."),
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(
            min=0,
            help="Splits at every size of the learning curve; 0 for no curve.",
            rich_help_panel=PANEL,
        ),
    ] = 10,
    as_json: Json = False,
) -> None:
    r"""Compare priors: all families and flat baselines on one data set, on the same folds.

    Every model is held against the best baseline by a paired test over runs or subjects. The
    learning curve, from 2 scans a class to all, says which prior pays and when it stops paying.
    Writes comparison.tsv, comparison.json, learning.tsv and a report of the best family.

        voxprior compare maps/*.nii.gz --labels participants.tsv --label group --out compared

        voxprior compare bold.nii.gz --volume-labels attributes.txt --mask mask.nii.gz \
            --conditions face,house --models sharing,gp,logistic --out compared
    """
    clock = Clock()
    for name in names(models):
        registry.model(name)  # a wrong name is refused before anything long
    with output_folder(out, "comparison.json") as folder:
        with clock.phase("reading images"):
            data = read(labelled, trials, preparation)
        chosen = names(models) or all_models(data.y)
        with clock.phase("testing", show=False):
            results, failures = _test_all(chosen, data, testing, folder)
            failed = {name: _reason(error) for name, error in failures.items()}
        comparison = compared(results)
        with clock.phase("learning curve", show=False):
            curve = _learn(list(results), data, testing, repeats, folder) if repeats else None
        with clock.phase("writing the report"):
            warned = _write(comparison, failed, results, curve, data, folder)
        clock.write(folder / RUN_FILE, results)
    if as_json:
        print((out / "comparison.json").read_text("utf-8"))
    else:
        _show(comparison, results, failed, subject(data, labelled.label), warned, out)
    for error in failures.values():
        if not refuses_input(error):  # the others are kept, and the fault is told with its log
            raise error


def _test_all(
    chosen: list[str], data: Dataset, testing: Testing, folder: Path
) -> tuple[dict[str, Result], dict[str, Exception]]:
    """Results by model, and what models failed with, if some did."""
    from voxprior.decoder import Decoder
    from voxprior.validation import AuditError

    results: dict[str, Result] = {}
    failures: dict[str, Exception] = {}
    cv = testing.splitter(data)
    for name in chosen:
        estimator = registry.model(name).make()
        registry.check_kind(estimator, data.y, name)
        decoder = Decoder(estimator, n_jobs=testing.jobs, verbose=1, random_state=testing.seed)
        say(name)
        try:
            result = decoder.evaluate(data, cv=cv, allow=testing.allowed, folder=folder / FINISHED)
        except (AuditError, OSError, MemoryError):  # not of this model alone
            raise
        except Exception as error:
            failures[name] = error
            say(f"warning: {name} failed: {_reason(error)}")
            continue
        if not result.complete:
            raise KeyboardInterrupt
        results[name] = result
    if not results:
        raise next(iter(failures.values()))
    return results, failures


def _reason(error: Exception) -> str:
    return one_line(error) if refuses_input(error) else fault(error)


def all_models(y: Any) -> list[str]:
    """Families, then baselines, for such a target."""
    kind = registry.kind_of(y)
    return [*registry.models(kind, "family"), *registry.models(kind, "baseline")]


def _is_baseline(name: str) -> bool:
    return registry.model(name).role == "baseline"


def compared(results: dict[str, Result]) -> pd.DataFrame:
    """One row a model, best first: scores, and the paired test against the best baseline.

    The difference is that of the first score (mean absolute error for numbers).
    """
    import numpy as np
    import pandas as pd

    from voxprior.validation import compare_decoders

    first = next(iter(results.values())).score_names[0]
    score = {name: result.pooled()[first] for name, result in results.items()}
    baselines = [name for name in results if _is_baseline(name)]
    best = max(baselines, key=lambda name: score[name]) if baselines else None
    rows = []
    for name, result in results.items():
        row: dict[str, Any] = {"model": name, "baseline": _is_baseline(name)}
        row |= result.pooled()
        row |= {"against": None, "difference": np.nan, "p": np.nan}
        if best is not None and name != best and result.predictions["group"].nunique() > 1:
            paired = "mae" if result.task == "regression" else first
            test = compare_decoders(result, results[best], paired)
            row |= {"against": best, "difference": test.difference, "p": test.p_value}
        rows.append(row)
    order = [first] + (["log_loss"] if "log_loss" in rows[0] else [])
    table = pd.DataFrame(rows).sort_values(order, ascending=[False, True][: len(order)])
    return table.reset_index(drop=True)


def _learn(chosen: list[str], data: Dataset, testing: Testing, repeats: int, folder: Path) -> Any:
    """Learning curve of the models; None for numbers, which have no scans a class."""
    from voxprior.decoder import prepared
    from voxprior.validation import learning_curve
    from voxprior.validation.audit import SEVERITY

    if registry.kind_of(data.y) == "regressor":
        return None
    # The same scans were audited when the models were tested.
    curve = learning_curve(
        {name: prepared(registry.model(name).make(), data) for name in chosen},
        rows_of(data),
        data.y,
        data.groups,
        n_repeats=repeats,
        n_jobs=testing.jobs,
        random_state=testing.seed,
        progress=True,
        **data.known(),
        allow=list(SEVERITY),
        folder=folder / FINISHED,
    )
    if not curve.complete:
        raise KeyboardInterrupt
    return curve


def _write(
    comparison: pd.DataFrame,
    failures: dict[str, str],
    results: dict[str, Result],
    curve: LearningCurve | None,
    data: Dataset,
    folder: Path,
) -> str:
    """Write tables and the report of the best family; returns what to keep in mind about it."""
    from voxprior.decoder import Decoder
    from voxprior.validation import score_after_choice
    from voxprior.validation.result import plain

    own = comparison[~comparison["baseline"]]
    best = (own if len(own) else comparison)["model"].iloc[0]
    rivals = {name: results[name] for name in (own if len(own) else comparison)["model"]}
    warned = caution(best, rivals)
    decoder = Decoder(registry.model(best).make()).fit(data)
    report = decoder.generate_report(
        results[best],
        f"{best}{f', the best of {len(rivals)}' if len(rivals) > 1 else ''}: {subject(data)}",
        data,
        beside=[_as_table(comparison)],
        learning=curve,
        done=facts(data),
        caution=warned,
    )
    report.save(folder / "report.html")
    options: dict[str, Any] = {"sep": "\t", "index": False, "float_format": "%.6g", "na_rep": "n/a"}
    comparison.to_csv(folder / "comparison.tsv", **options)
    if curve is not None:
        curve.table.to_csv(folder / "learning.tsv", **options)
    (folder / "results").mkdir()
    for name, result in results.items():
        result.to_json(folder / "results" / f"{name}.json")
    content = {
        "models": comparison.to_dict("records"),
        "failed": failures,
        "best": best,
        "best_corrected_for_choice": score_after_choice(rivals),
        "scores": told(results[best]),
    }
    (folder / "comparison.json").write_text(json.dumps(plain(content), indent=1), "utf-8")
    return warned


def _columns(comparison: pd.DataFrame) -> list[str]:
    """Scores to print: the one that ranks, and those that say something else."""
    ranking = "balanced_accuracy" if comparison.columns[2] == "balanced_accuracy" else "accuracy"
    wanted = (ranking, "log_loss", "auc", "r2", "mae")
    return [name for name in comparison.columns if name in wanted]


def _cells(comparison: pd.DataFrame) -> list[list[str]]:
    rows = []
    for row in comparison.to_dict("records"):
        name = f"{row['model']} *" if row["baseline"] else str(row["model"])
        gain = "-" if row["difference"] != row["difference"] else f"{row['difference']:+.3f}"
        scores = [number(row[c]) for c in _columns(comparison)]
        rows.append([name, *scores, gain, number(row["p"])])
    return rows


def _headings(comparison: pd.DataFrame) -> list[str]:
    scores = [name.replace("_", " ") for name in _columns(comparison)]
    return ["model", *scores, "gain", "p"]


def _caption(comparison: pd.DataFrame) -> str:
    against = comparison["against"].dropna()
    if not len(against):
        return "* flat baseline"
    return f"* flat baseline; gain over {against.iloc[0]}, and its two-sided p by sign flips"


def _as_table(comparison: pd.DataFrame) -> dict[str, Any]:
    return {
        "caption": f"All models on the same folds; {_caption(comparison)}",
        "columns": _headings(comparison),
        "rows": _cells(comparison),
    }


def _show(
    comparison: pd.DataFrame,
    results: dict[str, Result],
    failures: dict[str, str],
    what: str,
    warned: str,
    out: Path,
) -> None:
    from rich import box
    from rich.table import Table

    console = PlainConsole()
    table = Table(title=what, caption=_caption(comparison), box=box.SIMPLE)
    for heading in [*_headings(comparison), "seconds"]:
        table.add_column(heading, justify="left" if heading == "model" else "right", no_wrap=True)
    for model, row in zip(comparison["model"], _cells(comparison)):
        table.add_row(*row, f"{results[model].timings['fit_seconds'].sum():.1f}")
    console.print(table)
    if warned:
        console.print(warned)
    for name, reason in failures.items():
        console.print(f"{name} failed: {reason}")
    console.print(f"Report: {out / 'report.html'}", soft_wrap=True)
