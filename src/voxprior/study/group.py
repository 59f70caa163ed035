"""The level group: all participants but one train, that one is tested, and both scores of each are
put into a table, see `voxprior.study.second_level`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from voxprior.decoder import Naming
from voxprior.decoder.comparison import summary_of
from voxprior.decoder.mapping import map_participants
from voxprior.errors import InputError
from voxprior.images import Dataset
from voxprior.report.where import headline
from voxprior.study.derivatives import describe_derivatives
from voxprior.study.index import write_index
from voxprior.study.kept import other_names, refuse_other_classes, results_alone
from voxprior.study.participants import check_outputs
from voxprior.study.rivals import compared
from voxprior.study.second_level import (
    as_tables,
    group_tests,
    map_accuracies,
    second_level,
    write_tests,
)
from voxprior.validation import Result

if TYPE_CHECKING:
    from voxprior.study.study import Study


def decode_group(study: Study) -> dict[str, Any]:
    """Decode the group of a study; returns scores and tests in JSON's types."""
    if len(study.runs) < 2:
        raise InputError(
            "The group level compares participants",
            expected="at least 2",
            got=str(len(study.runs)),
        )
    folder, start = study.out / "group", f"{study.name}_"
    naming = Naming(start, f"{start}stat-{{}}_statmap", "")
    check_outputs(study, [(folder, naming)])
    describe_derivatives(study.out)
    level = Level(study, results_alone(study))
    result = study.decode_runs(
        folder,
        naming,
        study.all_runs(),
        title=f"{len(study.runs)} participants",
        groups=[f"sub-{label}" for label, of_one in study.runs.items() for _ in of_one],
        mapping=map_participants,
        beside=level.tables,
        write_more=level.write,
        check=partial(refuse_other_classes, level.alone),
    )
    write_index(study.out)
    found = {"level": "group", **summary_of(result), "second_level": level.tests}
    return found | {"folder": str(study.out)}


@dataclass
class Level:
    """The second level of a study, once the group was decoded."""

    study: Study
    alone: dict[str, Result | None]
    result: Result | None = None

    def tables(self, result: Result) -> list[dict[str, Any]]:
        """Return what the page shows of it."""
        self.result = result
        return as_tables(self.table, self.tests)

    @cached_property
    def table(self) -> pd.DataFrame:
        """Scores of every participant."""
        assert self.result is not None
        return second_level(self.result, self.alone)

    @cached_property
    def tests(self) -> dict[str, Any]:
        """Means over participants, tested, and compared with those of other models."""
        assert self.result is not None
        shared = self.study.prior_from is not None
        tests = group_tests(self.table, self.result, shared)
        others = other_names(self.study)
        if not tests["within"]["n"] and others:
            tests["within"]["line"] += f" There are scores of {', '.join(others)}."
        return tests | {"compared": compared(self.study, self.alone, self.result)}

    def write(self, work: Path, data: Dataset) -> None:
        """Write scores of participants with their tests, and the map of their accuracies."""
        study = self.study
        write_tests(self.table, self.tests, work, f"{study.name}_secondlevel")
        if study.searchlight is None:
            return
        everywhere = data.images.inverse_transform(np.ones(data.space.n_voxels))
        same = replace(study, reading={**study.reading, "mask": everywhere})
        seed, tell = study.decoder.random_state, study.tell
        of_participants = (same.read(runs) for runs in study.runs.values())
        found = map_accuracies(
            of_participants, data, study.searchlight, random_state=seed, tell=tell
        )
        study.tell(headline(found.test))
        start = f"{study.name}_searchlight_"
        found.write(work, Naming(start, f"{start}stat-{{}}_statmap", ""))
