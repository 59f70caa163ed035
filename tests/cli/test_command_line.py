"""The command line that results keep: all that decides them, and no folder of the machine."""

import json
import os
import shlex
from pathlib import Path

import pytest

from voxprior.cli.command_line import _near, _quoted, _shortened


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The home of a user who works in a folder of it."""
    home = tmp_path / "home" / "ann"
    (home / "study").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home / "study")
    return home


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("{home}/study/maps/a.nii", "maps/a.nii"),
        ("../study/maps/a.nii", "maps/a.nii"),
        ("{home}/other/p.tsv", "~/other/p.tsv"),
        ("../p.tsv", "~/p.tsv"),
        ("{home}", "~"),
        ("~/p.tsv", "~/p.tsv"),
        ("/data/of/bob/p.tsv", ".../p.tsv"),
        ("../../bob/p.tsv", ".../p.tsv"),
    ],
)
def test_paths_tell_no_home(home, path, told):
    assert _near(path.format(home=home)) == told


@pytest.mark.parametrize("where", ["/", "home", "above"])
def test_work_above_or_in_a_home(home, monkeypatch, where):
    monkeypatch.chdir({"/": "/", "home": home, "above": home.parent}[where])
    told = _near(f"{home}/study/a.nii")
    assert told == ("study/a.nii" if where == "home" else "~/study/a.nii")


def test_many_files_of_a_pattern():
    files = [f"maps/{n}.nii" for n in range(9)]
    told = list(_shortened([*files, "--label", "group", "--covariates", "age", "sex"]))
    assert told[:3] == ["maps/0.nii", "[7 more]", "maps/8.nii"]
    assert told[3:] == ["--label", "group", "--covariates", "age", "sex"]


@pytest.mark.parametrize("word", ["a b", "it's", "*.nii", "$HOME", ""])
def test_words_are_quoted_for_a_shell(word):
    assert shlex.split(_quoted(word)) == [word]
    assert _quoted("~/a b") == "~/'a b'"


def answers(run, command, study, out, *more):
    result = run(command, *study, "--mask", out.parent / "mask.nii.gz", "--out", out, *more)
    assert result.exit_code == 0, result.output
    return json.loads((out / "run.json").read_text())["command"]


@pytest.mark.parametrize("command", ["decode", "compare", "map"])
@pytest.mark.parametrize("near", [True, False], ids=["in the folder", "elsewhere"])
def test_run_json_has_the_command(run, study, mask, monkeypatch, bare_report, command, near):
    monkeypatch.chdir(mask.parent if near else Path(__file__).parent)
    models = {"decode": ["-m", "logistic"], "compare": ["--models", "logistic,lda"], "map": []}
    told = answers(run, command, study, mask.parent / "out", *models[command])
    place = "" if near else ".../"
    maps = "'maps/*.nii.gz'" if near else "'.../*.nii.gz'"
    expected = ["voxprior", command, maps, "--labels", f"{place}participants.tsv"]
    expected += ["--label", "group", "--mask", f"{place}mask.nii.gz", *models[command]]
    assert told == " ".join(expected)
    assert str(mask.parent) not in told


def test_the_page_has_what_decides_it_alone(run, study, mask):
    """The same page, wherever it is written and by however many workers."""
    out, pages = mask.parent / "out", []
    for options in (["--jobs", 1], ["-j2", "--json", "--max-memory=2GB"]):
        told = answers(run, "decode", study, out, "-m", "logistic", "--no-stock", *options)
        pages.append((out / "report.html").read_text())
        out = out.with_name(f"out{len(pages)}")
    assert pages[0] == pages[1]
    assert told.endswith("-m logistic --no-stock")
    assert f'<pre id="command" tabindex="0">{told}'.replace("'", "&#39;") in pages[0]
    assert os.path.expanduser("~") not in told
