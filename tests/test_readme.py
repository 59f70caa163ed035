"""The blocks of the README run as they stand, in a folder that has the files they name."""

import re
import shlex
from pathlib import Path

import nibabel
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from voxprior.cli import app

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
BLOCKS = dict(
    re.findall(r"## ([^\n]+)\n(?:(?!\n## ).)*?```python\n(from.*?)```", README, re.DOTALL)
)
COMMANDS = re.findall(r"^\$ voxprior (decode .*)$", README, re.MULTILINE)
SHAPE = (12, 12, 10)
# A head in air, so that there is a brain to find.
HEAD = sum((np.indices(SHAPE)[i] - (n - 1) / 2) ** 2 for i, n in enumerate(SHAPE)) < 20


@pytest.fixture
def study(tmp_path, monkeypatch, rng):
    """Maps of twelve people with their table, and four runs with their events."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "maps").mkdir()
    people = [f"sub-{n:02}" for n in range(12)]
    for person in people:
        save(rng.normal(1, 1, SHAPE), f"maps/{person}.nii.gz")
    table = pd.DataFrame({"participant_id": people, "group": ["patient", "control"] * 6})
    table.to_csv("participants.tsv", sep="\t", index=False)
    for run in range(1, 5):
        volumes = HEAD[..., None] * rng.normal(1000, 10, (*SHAPE, 60))
        save(volumes, f"run-{run}_bold.nii.gz")
        onsets = 10 + 20 * np.arange(4)
        events = {"onset": onsets, "duration": 8, "trial_type": ["face", "house"] * 2}
        pd.DataFrame(events).to_csv(f"run-{run}_events.tsv", sep="\t", index=False)
    return tmp_path


def save(values, path):
    image = nibabel.Nifti1Image(values.astype("f4"), np.diag([3.0, 3, 3, 1]))
    image.header.set_zooms((3.0, 3.0, 3.0, 2.0)[: values.ndim])
    nibabel.save(image, path)


@pytest.mark.parametrize("title", BLOCKS)
@pytest.mark.filterwarnings("ignore")
def test_recipes_run_as_pasted(title, study):
    exec(BLOCKS[title], {})
    assert list(study.glob("*.html"))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.filterwarnings("ignore")
def test_commands_run_as_pasted(command, study):
    given = [part for word in shlex.split(command) for part in expanded(word)]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    assert (study / "decoded" / "report.html").exists()


def expanded(word):
    """Return what a shell makes of a word."""
    return sorted(map(str, Path().glob(word))) if "*" in word else [word]


def test_there_are_recipes():
    assert len(BLOCKS) == len(COMMANDS) == 1


def test_figures_are_those_of_the_benchmark():
    """Cells of the table of real data stand in the benchmark's page, in one of its columns."""
    rows = re.findall(r"^\|[^|]+\| (?:\d+|all) \|(.+)\|$", README, re.MULTILINE)
    page = Path(__file__).parents[1] / "benchmarks/real/README.md"
    there = set(re.findall(r"0?(\.\d{3}|\d\.\d{3}) / 0?(\.\d{3}|\d\.\d{3})", page.read_text()))
    found = [
        tuple(cell.replace("*", "").strip().split(" / ")) for r in rows for cell in r.split("|")
    ]
    assert len(found) == 21
    assert [cell for cell in found if cell not in there] == []


def test_local_links_lead_somewhere():
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    assert len(links) > 15
    root = Path(__file__).parents[1]
    if not (root / "src").exists():  # the tests of an installed package
        links = [link for link in links if not link.startswith("src/")]
    assert [link for link in links if not (root / link).exists()] == []
