"""External validation as a whole: a saved decoder, a second sample, its Result, and the files.

`External.write` leaves on disk what `voxprior.decoder.decoding.Decoding.write` leaves, but for the
model and its maps, which are those of training. Each row of predictions.tsv says how unlike the
training scans the scan is.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voxprior.decoder.comparison import summary_of
from voxprior.decoder.decoding import prediction_rows
from voxprior.decoder.facts import facts, sample, setting
from voxprior.decoder.reading import atlas_of
from voxprior.decoder.second_sample import sample_table
from voxprior.images import Dataset
from voxprior.output import RUN_FILE, Clock
from voxprior.report import Report
from voxprior.report.decisions import check_interest
from voxprior.report.scores import main_scores
from voxprior.validation import Result, Verdict, verdict
from voxprior.validation.folds import last_step
from voxprior.validation.second_sample import SPLIT
from voxprior.writing import write_whole

if TYPE_CHECKING:
    from voxprior.decoder.decoder import Decoder


@dataclass(frozen=True, eq=False, repr=False)
class External:
    """Outcome of `validate_externally`: the Result, what it shows in words, and the page."""

    decoder: Decoder
    data: Dataset
    result: Result
    verdict: Verdict
    report: Report
    title: str
    clock: Clock

    def summary(self) -> dict[str, Any]:
        """Return the outcome in JSON's types."""
        found = {"title": self.title, "verdict": self.verdict.text, **summary_of(self.result)}
        found["headline"] = self.report.summary["headline"]
        found["main_scores"] = main_scores(self.result.score_names)
        found["setting"] = setting(last_step(self.decoder.estimator_), self.data, SPLIT)
        found["decisions"] = list(self.data.decisions)
        return found | {"samples": self.result.settings["samples"]}

    def write(self, folder: Path) -> None:
        """Write all files into a folder that exists."""
        self.report.save(folder / "report.html")
        self.report.save_figures(folder / "figures")
        table = prediction_rows(self.data, self.result)
        unlike = self.decoder.unlikeness(self.data)
        if unlike is not None:
            table["unlike"] = unlike[table["sample"]]
        text = table.to_csv(sep="\t", index=False, float_format="%.6g")
        write_whole(folder / "predictions.tsv", text)
        self.result.to_json(folder / "result.json")
        self.clock.write(folder / RUN_FILE, {self.result.settings["estimator"]: self.result})


def validate_externally(
    decoder: Decoder,
    data: Dataset,
    *,
    title: str,
    target: str = "the labels",
    allow: Collection[str] = (),
    clock: Clock | None = None,
    positive: str | None = None,
    prevalence: float | None = None,
    atlas: Any = None,
    atlas_labels: Any = None,
) -> External:
    """Test a fitted decoder on a second sample, and make the report.

    Parameters
    ----------
    decoder : Decoder
        Fitted, or loaded.
    data : Dataset
        The second sample, read with ``images=decoder.masker_``.
    title, target : str
        Heading of the page, and what is decoded, as the verdict calls it.
    allow : sequence of str
        Findings to override, see `Decoder.evaluate_on`.
    clock, positive, prevalence, atlas, atlas_labels
        As in `voxprior.decoder.decoding.decode`.
    """
    clock = clock or Clock()
    check_interest(data.y, positive, prevalence)
    places = atlas_of(data, atlas, atlas_labels)
    with clock.phase("testing", show=False):
        result = decoder.evaluate_on(data, allow=allow)
        found = verdict(result, target=target)
    with clock.phase("writing the report"):
        samples = sample_table(result)
        parts: dict[str, Any] = {
            "done": facts(data),
            "beside": [samples] if samples["rows"] else [],
        }
        parts |= {"positive": positive, "prevalence": prevalence, "atlas": places}
        parts |= {"verdict": found, "setting": setting(last_step(decoder.estimator_), data, SPLIT)}
        parts |= {"names": data.names, "decisions": list(map(str, data.decisions))}
        parts |= {"command": clock.command, "sample": sample(data, result)}
        report = decoder.generate_report(result, title, **parts)
    return External(decoder, data, result, found, report, title, clock)
