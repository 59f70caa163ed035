"""One dataset through one decoder: test, fit, report, files. Shared by decode and bids."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from voxprior.cli.folder import FINISHED
from voxprior.cli.terminal import PlainConsole
from voxprior.cli.testing import Testing
from voxprior.cli.timing import RUN_FILE, Clock

if TYPE_CHECKING:
    from voxprior.images import Dataset
    from voxprior.validation import PermutationResult, Result


class Naming(NamedTuple):
    """How the files of a decoding are called.

    `map` has ``{}`` for the name of the map, in which `joint` stands for all but letters and
    digits: a value in a BIDS name has nothing else.
    """

    prefix: str = ""
    map: str = "maps/{}"
    joint: str = "-"

    def file(self, name: str) -> str:
        """Return the name of a file."""
        return f"{self.prefix}{name}"

    def maps(self, names: Iterable[str]) -> dict[str, str]:
        """Return what the files of maps are called, without their extension."""
        from voxprior.images.write import file_stems

        stems = file_stems(names, r"[^A-Za-z0-9]+", self.joint)
        return {name: Path(self.map).name.format(stem) for name, stem in stems.items()}


PLAIN = Naming()


def decode_dataset(
    data: Dataset,
    estimator: Any,
    testing: Testing,
    folder: Path,
    clock: Clock,
    *,
    title: str,
    permutations: int = 0,
    naming: Naming = PLAIN,
    beside: Callable[[Result], list[dict[str, Any]]] | None = None,
) -> tuple[Result, dict[str, Any]]:
    """Test a model on held-out scans, fit it on all, and write everything into a folder.

    Parameters
    ----------
    data : Dataset
    estimator : classifier or regressor
    testing : Testing
        Split, seed, workers and the like.
    folder : Path
        Exists; finished folds and relabellings are looked for and kept in its subfolder
        ``finished``.
    clock : Clock
        Of the run, for the file of times.
    title : str
        Heading of the report.
    permutations : int
        Relabellings of a permutation test; 0 for none.
    naming : Naming
        How files are called.
    beside : callable
        Makes further tables for the report from the Result.

    Returns
    -------
    Result, dict
        The second one has the scores in JSON's types.
    """
    from voxprior.decoder import Decoder
    from voxprior.validation.result import plain

    decoder = Decoder(estimator, n_jobs=testing.jobs, verbose=1, random_state=testing.seed)
    cv = testing.splitter(data)
    with clock.phase("testing", show=False):
        result = decoder.evaluate(data, cv=cv, allow=testing.allowed, folder=folder / FINISHED)
        if not result.complete:
            raise KeyboardInterrupt
        tables = [] if data.covariates is None else [_beside_covariates(data, result, decoder, cv)]
    test = None
    if permutations:
        kept = folder / FINISHED
        with clock.phase("permutation test", show=False):
            test = _permuted(data, estimator, result, testing, cv, permutations, kept)
    with clock.phase("fitting on all scans"):
        decoder.fit(data)
    with clock.phase("writing the report"):
        tables += beside(result) if beside else []
        report = decoder.generate_report(
            result, title, data, done=facts(data), permutation=test, beside=tables
        )
        _write(decoder, data, result, report, folder, naming)
    clock.write(folder / naming.file(RUN_FILE), {result.settings["estimator"]: result})
    found = {"title": title, **told(result), "headline": report.summary["headline"]}
    if test is not None:
        found["permutation"] = plain(test.summary() | {"null": None})
    return result, found


def _permuted(
    data: Dataset,
    estimator: Any,
    result: Result,
    testing: Testing,
    cv: Any,
    permutations: int,
    folder: Path,
) -> PermutationResult:
    """Test the first score against relabelled data; the bar counts relabellings."""
    from voxprior.decoder import prepared
    from voxprior.validation import permutation_test
    from voxprior.validation.audit import SEVERITY

    # The same scans and folds were audited when the decoder was evaluated.
    test = permutation_test(
        prepared(estimator, data),
        rows_of(data),
        data.y,
        data.groups,
        cv,
        score=result.score_names[0],
        blocks=data.blocks,
        n_permutations=permutations,
        n_jobs=testing.jobs,
        random_state=testing.seed,
        progress=True,
        **data.known(),
        allow=list(SEVERITY),
        folder=folder,
    )
    if not test.complete:
        raise KeyboardInterrupt
    return test


def rows_of(data: Dataset) -> Any:
    """Rows as a prepared estimator takes them: covariates, if there are any, come last."""
    from voxprior.validation import covariate_matrix, with_covariates

    if data.covariates is None:
        return data.X
    return with_covariates(data.X, covariate_matrix(data.covariates)[0])


def _beside_covariates(data: Dataset, result: Result, decoder: Any, cv: Any) -> dict[str, Any]:
    """Scores of the images beside those of the covariates alone, on the same folds."""
    from sklearn.dummy import DummyClassifier, DummyRegressor

    from voxprior.validation import compare_with_covariates
    from voxprior.validation.audit import SEVERITY

    blank = DummyClassifier() if result.task == "classification" else DummyRegressor()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the audit of these folds has been told
        alone = compare_with_covariates(
            blank,
            data.X[:, :1],  # only the decoder of the covariates is wanted here
            data.y,
            data.covariates,
            data.groups,
            cv,
            random_state=decoder.random_state,
            allow=list(SEVERITY),
        ).covariates
    rows = [
        ["images, covariates regressed out", *map(number, result.pooled().values())],
        ["covariates alone", *map(number, alone.pooled().values())],
    ]
    return {
        "caption": f"Images beside the covariates {', '.join(data.covariates.columns)}",
        "columns": ["decoded from", *(name.replace("_", " ") for name in result.score_names)],
        "rows": rows,
    }


def _write(
    decoder: Any, data: Dataset, result: Result, report: Any, folder: Path, naming: Naming
) -> None:
    report.save(folder / naming.file("report.html"))
    table = result.predictions.copy()
    if data.names:
        table.insert(0, "scan", [data.names[sample] for sample in table["sample"]])
    path = folder / naming.file("predictions.tsv")
    table.to_csv(path, sep="\t", index=False, float_format="%.6g")
    _write_maps(decoder, folder, naming)
    decoder.save(folder / naming.file("model.skops"))
    result.to_json(folder / naming.file("result.json"))


def _write_maps(decoder: Any, folder: Path, naming: Naming) -> None:
    """Write the maps, and a table that says which file is which: a label may be any text."""
    import pandas as pd

    from voxprior.images import write_maps

    maps = decoder.voxel_maps()
    place = folder / Path(naming.map).parent
    files = write_maps(maps, decoder.masker_, place, naming.maps(maps))
    rows = [{"file": path.name, "map": name} for name, paths in files.items() for path in paths]
    if rows:
        table = pd.DataFrame(rows)
        table.to_csv(place / naming.file("maps.tsv"), sep="\t", index=False)


def facts(data: Dataset) -> dict[str, dict[str, Any]]:
    """Say in the report's words what is known of the data beyond the Result."""
    trials = data.trials or {}
    return {
        "Data": {
            "a scan is": _cut(trials) if trials else None,
            "conditions": ", ".join(trials.get("conditions") or []) or None,
            "response delay": f"{trials['delay']:g} s" if trials.get("delay") else None,
            "left out": "; ".join(data.dropped) or None,
            "voxels dropped": (data.images and data.images.voxels_dropped) or None,
            "notes": "; ".join(data.notes) or None,
        },
        "Preprocessing": {
            "covariates": None
            if data.covariates is None
            else f"{', '.join(data.covariates.columns)} regressed out of every voxel, as learned "
            "on the training scans"
        },
    }


def _cut(trials: dict[str, Any]) -> str:
    return {
        "block": "the mean over the volumes of a block",
        "volume": "a single volume of a block",
        "window": f"{trials['window']} volumes from the onset of a block",
    }[trials["unit"]]


def subject(data: Dataset, name: str | None = None) -> str:
    """Say what is decoded: the classes, or a range of numbers, called by the name of its column."""
    import numpy as np

    from voxprior.registry import kind_of

    if kind_of(data.y) == "regressor":
        return f"{name or 'a number'} from {np.min(data.y):g} to {np.max(data.y):g}"
    labels = np.unique(data.y)
    return " against ".join(map(str, labels)) if len(labels) <= 4 else f"{len(labels)} classes"


def told(result: Result) -> dict[str, Any]:
    """Return the scores of a Result for programs: value, interval, chance, and the findings."""
    from voxprior.validation import chance_level
    from voxprior.validation.intervals import interval
    from voxprior.validation.result import plain

    found = {name: interval(result, name) for name in result.score_names}
    scores = {
        name: {
            "value": one.estimate,
            "low": one.low,
            "high": one.high,
            "interval": one.method,
            "chance": chance_level(result, name),
        }
        for name, one in found.items()
        if one.estimate == one.estimate  # a decoder without probabilities has no log-loss
    }
    return plain(
        {
            "model": result.settings["estimator"],
            "n_samples": result.settings["n_samples"],
            "n_folds": len(result.scores),
            "split": result.settings["cv"],
            "scores": scores,
            "findings": [finding.to_dict() for finding in result.findings],
        }
    )


def show(found: dict[str, Any], page: Path) -> None:
    """Print the scores as a table, and where the report is."""
    from rich import box
    from rich.table import Table

    console = PlainConsole()
    table = Table(title=found["title"], box=box.SIMPLE, title_justify="left")
    for column in ("score", "value", "95 % interval", "chance"):
        table.add_column(column, justify="left" if column == "score" else "right", no_wrap=True)
    for name, score in found["scores"].items():
        limits = "-" if score["low"] is None else f"{score['low']:.3f} to {score['high']:.3f}"
        table.add_row(
            name.replace("_", " "), number(score["value"]), limits, number(score["chance"])
        )
    console.print(table)
    if found["headline"]["detail"]:
        console.print(found["headline"]["detail"])
    console.print(f"Report: {page}", soft_wrap=True)


def number(value: float | None) -> str:
    """Three decimals, or a dash."""
    if value is None or value != value:
        return "-"
    return f"{round(value, 3) + 0.0:.3f}"  # never -0.000
