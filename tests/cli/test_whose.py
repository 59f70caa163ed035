"""Results do not say whose machine they were made on: no folder of a user leaves with them."""

import shutil

import pandas as pd
import pytest

COMMANDS = {
    "decode": ("--model", "lda"),
    "compare": ("--models", "lda,svm"),
    "map": ("--despite-floor",),
}


@pytest.fixture
def at_home(maps, mask, tmp_path, monkeypatch):
    """The study in a user's home, two scans of which are copies, which the audit names."""
    home = tmp_path / "homes" / "anna"
    monkeypatch.setenv("HOME", str(home))
    shutil.copytree(maps, home / "study" / "maps")
    shutil.copy(mask, home / "study")
    table = pd.read_csv(maps.parent / "participants.tsv", sep="\t")
    table.to_csv(home / "study" / "participants.tsv", sep="\t", index=False)
    first, second = sorted((home / "study" / "maps").iterdir())[:2]
    shutil.copy(first, second)
    return home


def given(home):
    images = sorted(map(str, (home / "study" / "maps").iterdir()))
    labels = ["--labels", home / "study" / "participants.tsv", "--label", "group"]
    return [*images, *labels, "--mask", home / "study" / "mask.nii.gz"]


def naming(home, out):
    """Files of an output that name the user."""
    files = [out] if out.is_file() else [path for path in out.rglob("*") if path.is_file()]
    return [path.name for path in files if home.name.encode() in path.read_bytes()]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("here", ["in the study", "elsewhere"])
def test_no_output_names_the_user(run, at_home, tmp_path, monkeypatch, command, here):
    monkeypatch.chdir(at_home / "study" if here == "in the study" else tmp_path)
    allow = ["--allow", "duplicate-images,near-duplicate"] if command != "map" else []
    done = run(command, *given(at_home), *COMMANDS[command], *allow, "--out", at_home / "out")
    assert done.exit_code == 0, done.output
    assert not naming(at_home, at_home / "out")
    if command == "decode":
        table = pd.read_csv(at_home / "out" / "predictions.tsv", sep="\t")
        assert all((at_home / "study" / name).is_file() for name in table["scan"])
        images = given(at_home)[:3]
        predicted = ("predict", at_home / "out" / "model.skops", *images)
        done = run(*predicted, "--out", at_home / "new.tsv")
        assert done.exit_code == 0, done.output
        assert not naming(at_home, at_home / "new.tsv")
