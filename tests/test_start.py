"""The page for beginners: its blocks run as they are pasted."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from voxprior.simulate import blobs

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "start.md"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the page is not beside the tests")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)


@pytest.mark.filterwarnings("ignore")
def test_python_runs_as_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in blocks("python"):
        exec(compile(block, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    assert "accuracy" in printed
    assert {path.name for path in tmp_path.iterdir()} == {
        "pattern.nii.gz", "decoder.skops", "report.html",
    }  # fmt: skip


@pytest.mark.slow
def test_commands_run_as_pasted(tmp_path, monkeypatch):
    """All that need no clone, on the files that they speak of."""
    from typer.testing import CliRunner

    from voxprior.cli import app

    monkeypatch.chdir(tmp_path)
    for folder, table, seed in (("maps", "participants.tsv", 0), ("second", "second.tsv", 1)):
        people = blobs((5, 5, 5), n_blobs=1, n_per_class=8, effect=2.0, random_state=seed)
        Path(folder).mkdir()
        rows = [(f"sub-{seed}{n:02d}", ["control", "patient"][y]) for n, y in enumerate(people.y)]
        for (name, _), image in zip(rows, people.images()):
            image.to_filename(f"{folder}/{name}_map.nii.gz")
        pd.DataFrame(rows, columns=["participant_id", "group"]).to_csv(table, sep="\t", index=False)
    Path("new").mkdir()
    people.images()[0].to_filename("new/sub-900_map.nii.gz")
    (block,) = (one for one in blocks("console") if "voxprior families" in one)
    lines = [line.removeprefix("$ ").split("#")[0] for line in block.splitlines()]
    assert len(lines) == 6
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "voxprior"
        if words == ["demo"]:  # it has a test of its own
            continue
        given = [str(path) for word in words for path in (sorted(Path().glob(word)) or [word])]
        result = CliRunner().invoke(app, given)
        assert result.exit_code == 0, (line, result.output)
    assert np.isfinite(pd.read_csv("compared/comparison.tsv", sep="\t")["accuracy"]).all()
