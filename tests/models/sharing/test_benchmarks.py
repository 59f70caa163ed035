"""The benchmarks run, in their quick form, and the paper's claims hold on simulated subjects."""

import pytest
from benchmarks.papers.palatucci2007 import fewshot, run
from benchmarks.speed import sharing


@pytest.mark.slow
def test_paper(tmp_path):
    sections = run.main(
        ["--quick", "--output", str(tmp_path / "results.md"), "--figures", str(tmp_path)]
    )
    claims = sections["Claims, on simulated subjects"]
    assert len(claims) == 4
    assert all(row["all voxels"] == row["region"] == "holds" for row in claims)
    assert {path.name for path in tmp_path.glob("*.png")} == {
        "figure1.png", "figure2.png", "figure3.png"
    }  # fmt: skip


@pytest.mark.slow
def test_few_shot(data_folder, tmp_path):
    data_folder("haxby_vt")
    rows = fewshot.main(["--quick", "--output", str(tmp_path / "fewshot.md")])
    methods = [row["method"] for table in rows.values() for row in table]
    assert "**few_shot_decoder**" in methods


def test_speed(tmp_path):
    rows = sharing.main(["--quick", "--output", str(tmp_path / "sharing.md")])
    assert len(rows) == 4
    assert (tmp_path / "sharing.md").read_text().startswith("# Feature sharing")
