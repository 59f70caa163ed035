"""The same command writes the same bytes: only the file of times may differ."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from voxprior.content import versions
from voxprior.simulate import scenes

# Files that differ between two runs of one command.
OF_THE_RUN = {"run.json"}


def contents(folder):
    """Bytes of every file below a folder that must not change, by name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(path.name.endswith(name) for name in OF_THE_RUN)
    }


def assert_same(first, second):
    assert list(first) == list(second)
    assert [name for name in first if first[name] != second[name]] == []


def run_elsewhere(*arguments):
    """Run a command in another process, where sets have another order."""
    script = "from voxprior.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env=os.environ | {"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_decode(run_json, study, mask, tmp_path):
    """Another folder, another process and another number of workers: the same files."""
    options = ["--mask", mask, "--covariates", "age", "--groups", "site", "--permutations", 9]
    command = ["decode", *study, *options, "--model", "logistic"]
    run_json(*command, "--out", tmp_path / "one")
    run_elsewhere(*command, "--jobs", 2, "--out", tmp_path / "deep" / "two")
    first, second = contents(tmp_path / "one"), contents(tmp_path / "deep" / "two")
    assert {"report.html", "result.json", "predictions.tsv", "maps/maps.tsv"} < set(first)
    assert {"figures/roc.svg", "figures/roc.png", "figures/map-weights.svg"} < set(first)
    assert_same(first, second)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["sharing", "fields", "boosting", "rvm", "network"])
def test_the_pages_of_all_families(run_json, study, mask, tmp_path, model):
    for out in ("one", "two"):
        run_json("decode", *study, "--mask", mask, "--model", model, "--out", tmp_path / out)
    assert_same(contents(tmp_path / "one"), contents(tmp_path / "two"))


@pytest.mark.slow
def test_compare(run_json, study, mask, tmp_path):
    command = ["compare", *study, "--mask", mask, "--models", "gp,logistic", "--repeats", 2]
    for out in ("one", "two"):
        run_json(*command, "--out", tmp_path / out)
    first = contents(tmp_path / "one")
    assert {"comparison.tsv", "comparison.json", "learning.tsv", "results/gp.json"} < set(first)
    assert_same(first, contents(tmp_path / "two"))


@pytest.mark.slow
def test_demo(run_json, tmp_path, monkeypatch):
    (whole,) = (one for one in scenes.SCENES if "gp" in one.families)
    monkeypatch.setattr(scenes, "SCENES", [replace(whole, sizes=(5,), decisive=5)])
    for out in ("one", "two"):
        run_json("demo", "--out", tmp_path / out, "--seeds", 2, "--jobs", 1)
    first = contents(tmp_path / "one")
    assert {"demo.png", "report.html", "scores.tsv"} < set(first)
    assert_same(first, contents(tmp_path / "two"))


@pytest.mark.slow
def test_bids(run_json, bids, tmp_path):
    for out in ("one", "two"):
        command = ["bids", bids, tmp_path / out, "participant", "--task", "faces"]
        run_json(*command, "--model", "logistic", "--participant-label", "01")
        run_json("bids", bids, tmp_path / out, "group", "--task", "faces", "--model", "logistic")
    first = contents(tmp_path / "one")
    assert any(name.endswith("_secondlevel.tsv") for name in first)
    assert_same(first, contents(tmp_path / "two"))


def test_times_are_kept_in_a_file_of_their_own(run_json, study, tmp_path, bare_report):
    out = tmp_path / "out"
    run_json("decode", *study, "--model", "logistic", "--permutations", 3, "--out", out)
    kept = json.loads((out / "run.json").read_text())
    assert list(kept["seconds"]) == [
        "reading images",
        "testing",
        "stock decoders",
        "permutation test",
        "fitting on all scans",
        "writing the report",
    ]
    (folds,) = kept["folds"].values()
    assert len(folds["fit_seconds"]) == len(folds["fold"]) == 5
    assert kept["started"][:2] == "20"
    assert kept["machine"]["cores"] >= 1
    assert kept["versions"] == versions()
