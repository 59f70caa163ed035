"""The benchmarks of the family run, in their short form, and say what they should."""

from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.speed import fields as speed

from voxprior.papers.carmi2009 import arms, chain
from voxprior.papers.frame import reproduce


def test_published_numbers():
    assert arms.printed_value("Fig 3.4", "plain") == 0.59
    assert arms.printed_value("Fig 3.6", "adapted") == 0.77


def test_effective_connections_count_equal_ones_whatever_their_scale():
    coef = np.zeros((2, 6, 6))
    coef[0, :, :3], coef[1, :, :5] = -0.001, 7.0
    assert arms.effective_connections(SimpleNamespace(coef_=coef)) == pytest.approx(4.0)


@pytest.mark.slow
def test_short_reproduction():
    (found,) = reproduce(["carmi2009"], quick=True)
    sections = {title: table.rows for title, table in found.part.tables.items()}
    two_out = sections[chain.TWO_OUT]
    assert [row["nodes / scans per class"] for row in two_out] == [
        "100 / 41",
        "80 / 19",
        "100 / 16",
    ]
    assert sections["Published"][0]["experiment"] == "Fig 3.2"
    assert all(0 <= row["compressed, printed"] <= 1 for row in two_out)
    drawn = {"figure2.1_two_circles", "figure3.2_accuracies", "figure3.6_accuracies"}
    assert set(found.part.figures) >= drawn
    assert len(found.part.claims) >= 15


@pytest.mark.slow
def test_short_race():
    sections = speed.main(["--quick"])
    assert sections["All nodes of one class, 82 scans"][0]["nodes"] == 100
