"""Decoding: one data set through one decoder, from the test to the files.

`Decoder.decode` makes it; `Decoding.write` leaves on disk

    report.html        the page
    figures/           its figures, as SVG and PNG
    result.json        the Result, without times
    predictions.tsv    one row per test scan and fold
    learning.tsv       the learning curve, if one was asked for
    maps/              maps of the model as images, and maps.tsv, which says which is which
    model.skops        the fitted decoder
    run.json           when it ran and how long it took: the one file that differs between two runs
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd
from sklearn.dummy import DummyClassifier, DummyRegressor

from voxprior.blocks import TooLargeError
from voxprior.decoder.comparison import decimals, summary_of
from voxprior.decoder.experiment import Experiment, whole
from voxprior.decoder.facts import choices, facts, sample, setting, subject
from voxprior.decoder.others import curve_decoders
from voxprior.decoder.reading import atlas_of
from voxprior.decoder.stock import StockTest, stock_results, stock_tables
from voxprior.errors import InputError, InputWarning, option
from voxprior.images import Dataset, write_maps
from voxprior.images.write import file_stems
from voxprior.mapping import Atlas
from voxprior.output import RUN_FILE, Clock
from voxprior.registry import kind_of
from voxprior.report import Report
from voxprior.report.decisions import check_interest
from voxprior.report.predictions import name_columns
from voxprior.report.scores import main_scores
from voxprior.validation import (
    LearningCurve,
    PermutationResult,
    Result,
    Verdict,
    compare_with_covariates,
    verdict,
)
from voxprior.validation.result import plain
from voxprior.validation.scores import score_name
from voxprior.writing import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from voxprior.decoder.decoder import Decoder
    from voxprior.decoder.mapping import Mapped


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
        stems = file_stems(names, r"[^A-Za-z0-9]+", self.joint)
        return {name: Path(self.map).name.format(stem) for name, stem in stems.items()}


PLAIN = Naming()


@dataclass(frozen=True, eq=False, repr=False)
class Decoding:
    """Outcome of `Decoder.decode`.

    Attributes
    ----------
    decoder : Decoder
        Fitted on all scans.
    data : Dataset
        The scans.
    result : Result
        Of held-out scans.
    verdict : Verdict
        What the result shows, in words.
    permutation : PermutationResult or None
        Of the first score, if it was asked for.
    mapping : Mapped or None
        Where in the brain classes differ, if it was asked for.
    report : Report
        The page.
    title : str
        Its heading.
    clock : Clock
        When the parts were done, and how long they took.
    learning : LearningCurve or None
        Scores at growing numbers of training scans, if they were asked for.
    """

    decoder: Decoder
    data: Dataset
    result: Result
    verdict: Verdict
    permutation: PermutationResult | None
    mapping: Mapped | None
    report: Report
    title: str
    clock: Clock
    learning: LearningCurve | None = None

    def summary(self) -> dict[str, Any]:
        """Return the outcome in JSON's types: scores, intervals, chance, findings."""
        headline = self.report.summary["headline"]
        found = {"title": self.title, "verdict": self.verdict.text, **summary_of(self.result)}
        found |= {"headline": headline, "main_scores": main_scores(self.result.score_names)}
        found["setting"] = setting(self.decoder.estimator, self.data, self.result.settings["split"])
        found["decisions"] = list(self.data.decisions)
        if self.permutation is not None:
            found["permutation"] = _told(self.permutation)
        if self.mapping is not None:
            found["map"] = self.mapping.summary()
        return found

    def write(self, folder: Path, naming: Naming = PLAIN) -> None:
        """Write all files into a folder that exists."""
        self.report.save(folder / naming.file("report.html"))
        self.report.save_figures(folder / "figures", naming.prefix)
        table = prediction_rows(self.data, self.result)
        path = folder / naming.file("predictions.tsv")
        write_whole(path, table.to_csv(sep="\t", index=False, float_format="%.6g"))
        if self.learning is not None:
            write_curve(self.learning, folder / naming.file("learning.tsv"))
        self._write_maps(folder, naming)
        if self.mapping is not None:
            self.mapping.write_maps(folder, naming, prefix="where ")
        self._write_model(folder / naming.file("model.skops"))
        self.result.to_json(folder / naming.file("result.json"))
        timed = {self.result.settings["estimator"]: self.result}
        self.clock.write(folder / naming.file(RUN_FILE), timed)

    def _write_model(self, path: Path) -> None:
        """Write the decoder; one that keeps scans too large for memory is left out, with a word."""
        try:
            self.decoder.save(path)
        except TooLargeError:
            told = (
                f"{path.name} was not written: the model keeps its training scans, which are too "
                f"many for {option('max_memory')}. Raise it; auto, sharing, network and fields "
                "keep no scans."
            )
            warnings.warn(InputWarning(told), stacklevel=3)

    def _write_maps(self, folder: Path, naming: Naming) -> None:
        """Write the maps, and a table that says which file is which: a label may be any text."""
        maps = self.decoder.voxel_maps()
        place = folder / Path(naming.map).parent
        files = write_maps(maps, self.decoder.masker_, place, naming.maps(maps))
        rows = [{"file": path.name, "map": name} for name, paths in files.items() for path in paths]
        if rows:
            text = pd.DataFrame(rows).to_csv(sep="\t", index=False)
            write_whole(place / naming.file("maps.tsv"), text)

    def plot(self) -> Figure:
        """Return the first figure of the page: this decoder and others, with chance."""
        return self.report.standing

    def plot_maps(self, *names: str) -> Figure:
        """Draw maps of the decoder over the anatomy of the page; without names all of them."""
        return self.decoder.plot_maps(*names, data=self.data)

    def __repr__(self) -> str:
        return f"{self.title}\n{self.result!r}"

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def decode(
    decoder: Decoder,
    known: Experiment,
    *,
    permutations: int = 0,
    test: str = "auto",
    curve: bool = False,
    stock: bool | None = None,
    title: str | None = None,
    beside: Callable[[Result], list[dict[str, Any]]] | None = None,
    clock: Clock | None = None,
    positive: str | None = None,
    prevalence: float | None = None,
    atlas: Any = None,
    atlas_labels: Any = None,
    target: str = "the labels",
    mapping: Callable[[Dataset, Atlas | None], Mapped] | None = None,
) -> Decoding:
    """Test a decoder on held-out scans, fit it on all, and make the report.

    Parameters
    ----------
    decoder : Decoder
        What is tested.
    known : Experiment
        The scans, and how they are split.
    permutations, test : int and str
        Relabellings, 0 for none, and the way of `voxprior.validation.permutation_test`.
    curve : bool
        Whether to make a learning curve, which shows whether more scans would help.
    stock : bool, optional
        Whether to test stock decoders on the same folds, see `voxprior.decoder.stock`; by default
        where that takes no more than minutes.
    title : str, optional
        Heading of the report.
    beside : callable, optional
        Makes further tables for the report from the Result.
    clock : Clock, optional
        The clock that timed the steps before.
    positive, prevalence : str and float, optional
        Class of interest of two, and its share where the decoder is to be used.
    atlas, atlas_labels : Atlas, or path or image, and path, optional
        Names of places, see `voxprior.mapping.read_atlas`.
    target : str
        What is decoded, as the verdict calls it: the name of a column, for instance.
    mapping : callable, optional
        Makes the map of the data, with an atlas, for the report and the files.
    """
    data, shown, clock = known.data, bool(decoder.verbose), clock or Clock()
    check_asked(data, curve, positive, prevalence)
    places, mapped = atlas_of(data, atlas, atlas_labels), None
    if mapping is not None:
        with clock.phase("testing the map", show=False):
            mapped = mapping(data, places)
    with clock.phase("testing", show=False):
        result = whole(known.evaluate(decoder.estimator))
        others = _covariates_alone(data, result, known.cv, decoder.random_state)
        tables = covariate_tables(data, result, others)
    tested = StockTest({}, {})
    if stock is not False:
        with clock.phase("stock decoders", shown):
            tested = stock_results(known, result, asked=bool(stock))
            tables += stock_tables(tested, result)
    found = verdict(result, tested.results, target)
    learning = None
    if curve:
        with clock.phase("learning curve", show=False):
            rivals, options = curve_decoders(decoder.estimator, data, decoder.random_state)
            learning = whole(known.learning_curve(rivals, result, **options))
    relabelled = None
    if permutations:
        with clock.phase("permutation test", show=False):
            options = {"n_permutations": permutations, "test": test}
            relabelled = whole(known.permutation_test(decoder.estimator, result, **options))
        told = {"permutation": _told(relabelled)}
        result = replace(result, settings=result.settings | told)
    with clock.phase("fitting on all scans", shown):
        decoder.fit(data)
    with clock.phase("writing the report", shown):
        title = title or subject(data)
        tables += beside(result) if beside else []
        parts = {"done": facts(data), "permutation": relabelled, "beside": tables, "atlas": places}
        parts |= {"positive": positive, "prevalence": prevalence, "learning": learning}
        parts["decisions"] = choices(data, known.cv, result)
        split = result.settings["split"]
        parts |= {"verdict": found, "setting": setting(decoder.estimator, data, split)}
        parts["command"] = clock.command
        parts["others"] = tested.results | others
        parts["sample"] = sample(data, result)
        parts["where"] = None if mapped is None else mapped.where
        report = decoder.generate_report(result, title, data, **parts)
    parts_done = (relabelled, mapped, report, title, clock, learning)
    return Decoding(decoder, data, result, found, *parts_done)


def check_asked(data: Dataset, curve: bool, positive: Any, prevalence: float | None) -> None:
    """Refuse requests that do not fit such labels."""
    check_interest(data.y, positive, prevalence)
    if curve and kind_of(data.y) == "regressor":
        raise InputError(
            f"{option('curve')} needs classes, but the labels are numbers",
            remedy="Leave it out",
        )


def prediction_rows(data: Dataset, result: Result) -> pd.DataFrame:
    """One row per test scan and fold, with the name of the scan where it is known."""
    table = result.predictions.copy()
    if data.names:
        names = data.named_near(Path.cwd()).names
        for place, (column, cells) in enumerate(name_columns(names).items()):
            table.insert(place, column, [cells[sample] for sample in table["sample"]])
    return table


def write_curve(curve: LearningCurve, path: Path) -> None:
    """Write a learning curve as a table: one row per decoder, size and repeat."""
    options: dict[str, Any] = {"sep": "\t", "float_format": "%.6g", "na_rep": "n/a"}
    write_whole(path, curve.table.to_csv(index=False, **options))


def _told(test: PermutationResult) -> dict[str, Any]:
    """What files keep of a permutation test: all but the scores of the relabellings."""
    return plain(test.summary() | {"null": None})


# ---------------------------------------------------------------- covariates alone


def _covariates_alone(
    data: Dataset, result: Result, cv: Any, random_state: Any
) -> dict[str, Result]:
    """Result of the covariates alone, on the same folds; none without covariates."""
    if data.covariates is None:
        return {}
    blank = DummyClassifier() if result.task == "classification" else DummyRegressor()
    alone = compare_with_covariates(
        blank,
        data.X[:, :1],  # only the decoder of the covariates is wanted here
        data.y,
        data.covariates,
        data.groups,
        cv,
        random_state=random_state,
        audited=result.audit,
    ).covariates
    return {f"{', '.join(data.covariates.columns)} alone": alone}


def covariate_tables(data: Dataset, result: Result, alone: Mapping[str, Result]) -> list:
    """Scores of the images and of the covariates alone, in the form of the report's tables."""
    if data.covariates is None:
        return []
    names = ", ".join(data.covariates.columns)
    rows = [[f"images, {names} regressed out", *map(decimals, result.pooled().values())]]
    rows += [[name, *map(decimals, one.pooled().values())] for name, one in alone.items()]
    caption = f"Images compared with {names} alone"
    columns = ["decoded from", *map(score_name, result.score_names)]
    return [{"caption": caption, "columns": columns, "rows": rows}]
