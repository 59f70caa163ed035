"""A saved model on a second labelled sample."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import SHAPE, save
from tests.cli.test_schema import check

from voxprior.modelfile import files


@pytest.fixture
def model(run_json, study, mask, tmp_path, bare_report):
    options = ["--mask", mask, "--model", "naive-bayes", "--scale", "none", "--covariates", "age"]
    options += ["--groups", "participant_id", "--out", tmp_path / "out"]
    run_json("decode", *study, *options)
    return tmp_path / "out" / "model.skops"


@pytest.fixture
def other(tmp_path):
    """Ten people of another study, and what `score` needs of them."""
    rng, group = np.random.default_rng(5), np.tile(["ill", "well"], 5)
    folder = tmp_path / "other"
    for n, label in enumerate(group):
        values = rng.normal(size=SHAPE) + (label == "ill") * np.eye(5, 4)[:, :, None] * 3
        save(values.astype("f4"), folder / f"sub-x{n}_map.nii.gz")
    table = pd.DataFrame({"participant_id": [f"sub-x{n}" for n in range(10)], "group": group})
    table["age"] = np.linspace(40, 60, 10)
    table.to_csv(folder / "participants.tsv", sep="\t", index=False)
    labels = ["--labels", folder / "participants.tsv", "--label", "group"]
    return [str(folder / "*.nii.gz"), *labels, "--groups", "participant_id"]


def test_what_is_printed_and_written(run_json, model, other, tmp_path):
    out = tmp_path / "scored"
    found = run_json("score", model, *other, "--out", out)
    check(found, "external")
    assert found["title"] == "ill against well, in a second sample"
    assert found["scores"]["accuracy"]["low"] < found["scores"]["accuracy"]["value"]
    assert {"accuracy", "balanced_accuracy", "log_loss", "auc"} <= set(found["scores"])
    assert ["scans", "12", "10", ""] in found["samples"]
    assert any(row[0] == "mean of age" for row in found["samples"])
    check(json.loads((out / "result.json").read_text()), "result")
    table = pd.read_csv(out / "predictions.tsv", sep="\t")
    predicted = run_json("predict", model, other[0], "--covariates", other[2])
    assert table["y_pred"].tolist() == [row["prediction"] for row in predicted]
    assert table["unlike"].tolist() == pytest.approx([row["unlike"] for row in predicted], rel=1e-4)
    assert not list(out.glob("*.skops"))


def test_for_people(run, model, other, tmp_path):
    shown = run("score", model, *other, "--out", tmp_path / "scored")
    assert shown.exit_code == 0, shown.output
    assert "The two samples" in shown.output
    assert "a second sample, on which the saved model was tested as it is" in " ".join(
        shown.output.split()
    )
    assert "Model: naive-bayes" in " ".join(shown.output.split())


def test_the_same_command_writes_the_same_bytes(run, model, other, tmp_path):
    for name in ("one", "two"):
        run("score", model, *other, "--out", tmp_path / name)
    for file in ("report.html", "result.json", "predictions.tsv"):
        first, second = ((tmp_path / name / file).read_bytes() for name in ("one", "two"))
        assert first.replace(b"/one", b"/two") == second


def test_training_scans_are_refused_and_nothing_is_left(refused, model, study, tmp_path):
    line = refused("score", model, *study, "--out", tmp_path / "scored")
    assert "[training-scans] 12 of 12 scans" in line
    assert "--allow training-scans" in line
    assert not (tmp_path / "scored").exists()


def test_renamed_and_scaled_copies_are_refused(refused, model, other, maps, tmp_path):
    import nibabel

    copied = nibabel.load(next(iter(sorted(maps.iterdir()))))
    save(copied.get_fdata() * 2, tmp_path / "other" / "sub-x0_map.nii.gz")
    line = refused("score", model, *other, "--out", tmp_path / "scored")
    assert "[training-scans] 1 of 10 scans" in line
    assert "sub-x0_map.nii.gz" in line


def test_people_are_refused_by_their_identifier(refused, run, model, other, tmp_path):
    table = pd.read_csv(other[2], sep="\t")
    for old in ("sub-x3", "sub-x4"):
        new = old.replace("x", "0")
        table = table.replace(old, new)
        place = tmp_path / "other"
        (place / f"{old}_map.nii.gz").rename(place / f"{new}_map.nii.gz")
    table.to_csv(other[2], sep="\t", index=False)
    line = refused("score", model, *other, "--out", tmp_path / "scored")
    assert "[training-people] 2 of 10 groups" in line
    assert "sub-03, sub-04" in line
    allowed = run("score", model, *other, "--allow", "training-people", "--out", tmp_path / "s")
    assert allowed.exit_code == 0, allowed.output


def test_a_model_file_of_version_02(run, model, other, tmp_path, monkeypatch):
    state = files.read(model)
    del state["training"], state["versions"]
    old = tmp_path / "old.skops"
    files.write(old, state)
    shown = run("score", old, *other, "--out", tmp_path / "scored")
    assert shown.exit_code == 0, shown.output
    assert (
        "warning: Training scans cannot be found: the model file is of version 0.2" in shown.output
    )
    result = json.loads((tmp_path / "scored" / "result.json").read_text())
    told = {check["name"]: check["outcome"] for check in result["checks"]}
    assert told["training-scans"] == told["training-people"] == "not checked"
    predicted = run("predict", old, other[0], "--covariates", other[2], "--json")
    assert "unlike" not in json.loads(predicted.stdout)[0]


def test_strange_scans_are_told(run, model, other, tmp_path):
    save(np.random.default_rng(0).normal(size=SHAPE) * 9, tmp_path / "other" / "sub-x0_map.nii.gz")
    for command in (
        ["predict", model, other[0], "--covariates", other[2]],
        ["score", model, *other, "--out", tmp_path / "scored"],
    ):
        shown = run(*command)
        assert shown.exit_code == 0, shown.output
        assert "farther from the training scans than the farthest" in " ".join(shown.output.split())


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--unit", "block"], "--unit: would have no effect"),
        (["--events", "e.tsv"], "exactly one of --labels"),
        (["--positive", "sick"], "sick"),
        (["--allow", "training-scan"], "training-scans"),
        (["--mask", "epi"], "No such option"),
    ],
)
def test_options_that_do_not_fit(run, model, other, tmp_path, more, told):
    done = run("score", model, *other, "--out", tmp_path / "scored", *more)
    assert done.exit_code == 2
    assert told in done.output
    assert not (tmp_path / "scored").exists()


def test_runs_with_events(run_json, refused, tmp_path, mask, bare_report):
    def runs(seed, names):
        rng, found = np.random.default_rng(seed), []
        onset = np.arange(0, 60, 5.0)
        kind = np.tile(["face", "house"], 6)
        for name in names:
            values = rng.normal(size=(*SHAPE, 60))
            values[2:4, 1:3] += np.repeat(kind == "face", 5)
            found.append(save(values.astype("f4"), tmp_path / f"{name}_bold.nii.gz", t_r=1.0))
            table = pd.DataFrame({"onset": onset, "duration": 5.0, "trial_type": kind})
            table.to_csv(tmp_path / f"{name}_events.tsv", sep="\t", index=False)
        return [*found, "--events", *(tmp_path / f"{name}_events.tsv" for name in names)]

    first = runs(0, ["run-1", "run-2", "run-3"])
    options = ["--mask", mask, "--model", "naive-bayes", "--delay", "1", "--out", tmp_path / "out"]
    run_json("decode", *first, *options)
    kept = tmp_path / "out" / "model.skops"
    found = run_json("score", kept, *runs(1, ["run-8", "run-9"]), "--out", tmp_path / "scored")
    assert found["samples"][1][2] == "2"
    assert found["samples"][0][2] == "22"
    assert "training-scans" in refused("score", kept, *first, "--out", tmp_path / "again")
