"""The benchmarks of the Gaussian family run, in their quick form, and show what they claim."""

import numpy as np
import pytest
from benchmarks.speed import gaussian as speed
from benchmarks.speed import jobs

from voxprior.papers.frame import Part, Run
from voxprior.papers.rao2017 import claims
from voxprior.papers.rao2017 import run as rao2017


@pytest.mark.slow
def test_claims_run():
    found = Part()
    for step in rao2017.PAPER.steps:
        if step.name in ("three groups", "prevalence", "severity and noisy labels"):
            found.join(step.work(Run(quick=True)))
    tables = {title: table.rows for title, table in found.tables.items()}
    assert len(found.claims) == 5
    for row in tables["Reject: accuracy among the most confident"]:
        assert row["accuracy, 25% answered"] > row["accuracy, 100% answered"]
    before, after = tables["Prevalence: one patient in ten"]
    assert after["log-loss"] < before["log-loss"]
    assert tables["Severity"][0]["lowest of all studies"] > 0.3


@pytest.mark.slow
def test_speed_runs(tmp_path):
    tables = speed.main(["--quick", "--output", str(tmp_path / "s.md")])
    rows = [row for rows in tables.values() for row in rows]
    seconds = [row[name] for row in rows for name in row if name.startswith("s, ")]
    assert len(seconds) >= len(rows) > 20
    assert min(seconds) > 0


def test_calibration_error_of_known_cases():
    p = np.array([[0.75, 0.25]] * 4)
    assert claims.calibration_error(p, np.array([0, 0, 0, 1])) == 0
    assert claims.calibration_error(p, np.zeros(4, dtype=int)) == 0.25


@pytest.mark.slow
def test_workers_give_the_same_scores_in_the_benchmark(capsys):
    jobs.main(["--quick"])
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 4
    assert all("True" in row for row in rows[1::2])
