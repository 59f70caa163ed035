import json

import nibabel
import numpy as np
import pandas as pd
import pytest

from voxprior import Decoder
from voxprior.cli.predict import _write


@pytest.fixture
def model(maps, tmp_path):
    images = sorted(maps.glob("*.nii.gz"))
    return Decoder("logistic").fit(images, ["ill", "well"] * 6).save(tmp_path / "model.skops")


def predicted(run, *arguments):
    result = run("predict", *arguments)
    assert result.exit_code == 0, result.output
    lines = [line for line in result.output.splitlines() if "\t" in line]
    return pd.DataFrame([line.split("\t") for line in lines[1:]], columns=lines[0].split("\t"))


def test_a_row_a_scan(run, maps, tmp_path):
    images = sorted(maps.glob("*.nii.gz"))
    model = Decoder().fit(images, ["ill", "well"] * 6).save(tmp_path / "model.skops")
    table = predicted(run, model, maps / "*.nii.gz")
    assert table.columns.tolist() == ["scan", "prediction", "p_ill", "p_well", "unlike"]
    assert table["prediction"].tolist() == ["ill", "well"] * 6
    alone = predicted(run, model, maps / "sub-03_map.nii.gz")
    assert alone.iloc[0].tolist() == table.iloc[2].tolist()


def test_an_image_on_another_grid(run, refused, model, tmp_path):
    values = np.random.default_rng(0).normal(size=(7, 6, 5))
    path = tmp_path / "new.nii.gz"
    nibabel.save(nibabel.Nifti1Image(values, np.diag([2.5, 2.5, 2.5, 1.0])), path)
    assert "--resample" in refused("predict", model, path)
    assert len(predicted(run, model, path, "--resample")) == 1


def test_numbers_have_intervals(run, maps, tmp_path):
    images = sorted(maps.glob("*.nii.gz"))
    decoder = Decoder().fit(images, np.linspace(20, 60, 12))
    table = predicted(run, decoder.save(tmp_path / "model.skops"), maps / "*.nii.gz")
    assert table.columns.tolist() == ["scan", "prediction", "low", "high", "unlike"]
    ends = table[["low", "high"]].astype(float).to_numpy()
    np.testing.assert_allclose(ends, decoder.predict_interval(images), rtol=1e-5)
    without = Decoder("ridge").fit(images, np.linspace(20, 60, 12)).save(tmp_path / "ridge.skops")
    assert predicted(run, without, maps / "*.nii.gz").columns.tolist() == [
        "scan",
        "prediction",
        "unlike",
    ]


def test_files_and_json(run, model, maps, tmp_path):
    out = tmp_path / "predictions.tsv"
    result = run("predict", model, maps / "*.nii.gz", "--out", out)
    assert "12 predictions" in result.output
    table = pd.read_csv(out, sep="\t")
    assert len(table) == 12
    rows = json.loads(run("predict", model, maps / "*.nii.gz", "--json").stdout)
    assert [row["prediction"] for row in rows] == table["prediction"].tolist()


def test_priors_costs_and_rejection(run, model, maps, tmp_path):
    plain = predicted(run, model, maps / "*.nii.gz")
    p = plain["p_ill"].astype(float).to_numpy()
    rare = predicted(run, model, maps / "*.nii.gz", "--priors", "ill=.01,well=.99")
    odds = p / (1 - p) * 0.01 / 0.99
    assert np.allclose(rare["p_ill"].astype(float), odds / (1 + odds), rtol=1e-3)
    assert rare["prediction"].tolist() == np.where(odds > 1, "ill", "well").tolist()
    costs = tmp_path / "costs.tsv"
    costs.write_text("action\twell\till\ntreat\t1\t0\nwait\t0\t100\n")
    acted = predicted(run, model, maps / "*.nii.gz", "--costs", costs)
    expected = np.where(100 * p < 1 - p, "wait", "treat")
    assert acted["decision"].tolist() == expected.tolist()
    assert np.allclose(
        acted["expected_cost"].astype(float), np.minimum(100 * p, 1 - p), rtol=1e-3, atol=1e-4
    )
    sure = float(np.median(np.maximum(p, 1 - p)))
    careful = predicted(run, model, maps / "*.nii.gz", "--reject", sure)
    assert careful["decision"].eq("reject").tolist() == (np.maximum(p, 1 - p) < sure).tolist()


def test_the_model_alone_knows_how_frequent_classes_were(
    run, refused, study, maps, tmp_path, bare_report
):
    table = maps.parent / "participants.tsv"
    frame = pd.read_csv(table, sep="\t")
    frame.loc[[3, 5], "group"] = "ill"  # 8 ill, 4 well
    frame.to_csv(table, sep="\t", index=False)
    result = run("decode", *study, "--model", "logistic", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    alone = (tmp_path / "out" / "model.skops").rename(tmp_path / "moved.skops")
    p = predicted(run, alone, maps / "*.nii.gz")["p_ill"].astype(float)
    odds = p / (1 - p) * (0.5 / (8 / 12)) / (0.5 / (4 / 12))
    even = predicted(run, alone, maps / "*.nii.gz", "--priors", "ill=.5,well=.5")
    assert np.allclose(even["p_ill"].astype(float), odds / (1 + odds), rtol=1e-4)
    told = predicted(
        run, alone, maps / "*.nii.gz", "--priors", "ill=.5,well=.5",
        "--train-priors", "ill=.5,well=.5",
    )  # fmt: skip
    assert np.allclose(told["p_ill"].astype(float), p)
    alone_given = ["predict", alone, maps / "*.nii.gz", "--train-priors", "ill=.5,well=.5"]
    assert "it goes with --priors" in refused(*alone_given)


def test_several_runs_in_one_file(run, refused, runs, mask, tmp_path, bare_report):
    images = [nibabel.load(path) for path in sorted(runs.glob("*_bold.nii.gz"))]
    values = [image.get_fdata(dtype="f4") for image in images]
    values[-1] = 3 * values[-1] - 150  # another scale: runs must be kept apart

    def save(name, values):
        nibabel.Nifti1Image(values, images[0].affine).to_filename(tmp_path / name)
        return tmp_path / name

    file, last = save("all.nii.gz", np.concatenate(values, -1)), save("last.nii.gz", values[-1])
    shown = np.repeat(["rest", "face", "rest", "house"] * 2, 3).tolist()
    labels = tmp_path / "labels.txt"
    labels.write_text("\n".join(f"{label} {r}" for r in range(4) for label in shown))
    fixed = ["--mask", mask, "--model", "logistic", "--out", tmp_path / "out"]
    result = run("decode", file, "--volume-labels", labels, *fixed)
    assert result.exit_code == 0, result.output
    model = tmp_path / "out" / "model.skops"
    joint = predicted(run, model, file, "--volume-labels", labels)
    assert joint["prediction"].tolist() == ["face", "house"] * 8
    labels.write_text("\n".join(shown))
    alone = predicted(run, model, last, "--volume-labels", labels)
    assert alone["p_face"].tolist() == joint["p_face"].tolist()[-4:]
    assert "one run" in run("predict", model, file).output
    assert "not both" in refused(
        "predict", model, file, "--volume-labels", labels, "--events", labels
    )


def test_trials_of_a_new_run(run, runs, mask, tmp_path, bare_report):
    events = sorted(runs.glob("*_events.tsv"))
    result = run(
        "decode", runs / "*_bold.nii.gz", "--events", *events, "--mask", mask,
        "--model", "logistic", "--out", tmp_path / "out",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    new = runs / "run-2_bold.nii.gz"
    shown = pd.read_csv(events[1], sep="\t")["trial_type"].tolist()
    blank = tmp_path / "times.tsv"
    pd.read_csv(events[1], sep="\t").drop(columns="trial_type").to_csv(blank, sep="\t", index=False)
    model = tmp_path / "out" / "model.skops"
    table = predicted(run, model, new, "--events", blank)
    assert table["prediction"].tolist() == shown
    assert len(predicted(run, model, new)) == 24


def test_covariates_of_new_scans(run, refused, study, maps, tmp_path, bare_report):
    table = maps.parent / "participants.tsv"
    out = tmp_path / "out"
    fixed = ["--covariates", "age,site", "--allow", "labels-confounded", "--model", "logistic"]
    result = run("decode", *study, *fixed, "--out", out)
    assert result.exit_code == 0, result.output
    model, scans = out / "model.skops", maps / "sub-0[12]_map.nii.gz"
    assert "Give those of the new images too, --covariates" in refused("predict", model, scans)
    found = predicted(run, model, scans, "--covariates", table)
    assert len(found) == 2
    frame = pd.read_csv(table, sep="\t")
    frame["age"] += 30
    frame.to_csv(table, sep="\t", index=False)
    older = predicted(run, model, scans, "--covariates", table)
    assert (older["p_ill"] != found["p_ill"]).all()
    frame[1:].to_csv(table, sep="\t", index=False)
    assert "sub-01_map.nii.gz: has no row" in refused(
        "predict", model, scans, "--covariates", table
    )


def test_bad_input_is_one_line(refused, model, maps, tmp_path):
    scans = maps / "*.nii.gz"
    assert "no such model" in refused("predict", tmp_path / "absent.skops", scans)
    (tmp_path / "text.skops").write_text("text")
    assert "not a model that voxprior saved" in refused("predict", tmp_path / "text.skops", scans)
    assert "Expected every class" in refused("predict", model, scans, "--priors", "ill=1")
    assert "class=number" in refused("predict", model, scans, "--priors", "ill,well")
    assert "Expected a sum of 1" in refused("predict", model, scans, "--priors", "ill=1,well=1")
    assert "no such table" in refused("predict", model, scans, "--costs", tmp_path / "absent.tsv")
    costs = tmp_path / "costs.tsv"
    costs.write_text("action\tsick\ntreat\t1\n")
    assert "one column per class" in refused("predict", model, scans, "--costs", costs)
    costs.write_text("action\till\twell\ntreat\t1\tx\n")
    assert "must be a number" in refused("predict", model, scans, "--costs", costs)
    costs.write_text("action\till\twell\nreject\t1\t1\n")
    assert "abstention" in refused("predict", model, scans, "--costs", costs)
    assert "would have no effect" in refused("predict", model, scans, "--delay", 3)
    table = maps.parent / "participants.tsv"
    assert "without any" in refused("predict", model, scans, "--covariates", table)
    assert "cannot be written" in refused("predict", model, scans, "--out", "/dev/null/a.tsv")


def test_a_folder_is_not_a_table_to_write(refused, model, maps, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in (".", "maps", maps):
        said = refused("predict", model, maps / "sub-01_map.nii.gz", "--out", folder)
        assert f"{folder}: is a folder" in said


def test_new_runs_are_cut_as_in_training(run, runs, mask, tmp_path, bare_report):
    events = sorted(runs.glob("*_events.tsv"))
    result = run(
        "decode", runs / "*_bold.nii.gz", "--events", *events, "--mask", mask, "--unit", "volume",
        "--model", "logistic", "--out", tmp_path / "out",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    model, new = tmp_path / "out" / "model.skops", runs / "run-2_bold.nii.gz"
    volumes = predicted(run, model, new, "--events", events[1])
    blocks = predicted(run, model, new, "--events", events[1], "--unit", "window", "--window", "1")
    assert len(volumes) > len(blocks) == len(pd.read_csv(events[1], sep="\t"))


@pytest.mark.parametrize("terminal", [True, False])
def test_labels_do_not_act_on_a_terminal(capsys, monkeypatch, terminal):
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    _write(pd.DataFrame({"scan": ["a"], "prediction": ["\x1b[2Jface"]}), None, as_json=False)
    shown = "\\x1b[2Jface" if terminal else "\x1b[2Jface"
    assert capsys.readouterr().out == f"scan\tprediction\na\t{shown}\n"


def test_a_delay_of_zero_is_not_that_of_training(run, runs, mask, tmp_path, bare_report):
    events = sorted(runs.glob("*_events.tsv"))
    result = run(
        "decode", runs / "*_bold.nii.gz", "--events", *events, "--mask", mask, "--delay", 2,
        "--model", "logistic", "--out", tmp_path / "out",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    model, new = tmp_path / "out" / "model.skops", runs / "run-2_bold.nii.gz"
    trained = predicted(run, model, new, "--events", events[1])
    at_once = predicted(run, model, new, "--events", events[1], "--delay", 0)
    assert trained["scan"][0] != at_once["scan"][0]
