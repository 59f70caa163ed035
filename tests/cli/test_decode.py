import errno
import json

import nibabel
import numpy as np
import pandas as pd
import pytest

import voxprior.validation.run as loop
from voxprior import Decoder
from voxprior.validation import Result


def test_maps_and_a_table(run_json, study, mask, tmp_path):
    out = tmp_path / "out"
    found = run_json("decode", *study, "--mask", mask, "--model", "logistic", "--out", out)
    assert {p.name for p in out.iterdir()} == {
        "report.html",
        "figures",
        "result.json",
        "manifest.json",
        "run.json",
        "predictions.tsv",
        "model.skops",
        "maps",
    }
    result = Result.from_json(out / "result.json")
    assert found["scores"]["accuracy"]["value"] == pytest.approx(result.pooled()["accuracy"])
    assert found["scores"]["accuracy"]["chance"] == 0.5
    assert found["n_samples"] == 12
    table = pd.read_csv(out / "predictions.tsv", sep="\t")
    assert table["scan"].str.contains("sub-").all()
    assert np.allclose(table["p_ill"] + table["p_well"], 1, atol=1e-5)
    image = nibabel.load(out / "maps" / "weights.nii.gz")
    assert np.array_equal(image.get_fdata() != 0, nibabel.load(mask).get_fdata() > 0)
    assert Decoder.load(out / "model.skops").classes_.tolist() == ["ill", "well"]
    page = (out / "report.html").read_text()
    assert "ill against well" in page
    ages = pd.read_csv(study[2], sep="\t")["age"]
    assert f"<td>{ages.mean():.1f} ({ages.std():.1f})</td>" in page


def test_numbers_with_all_defaults(run_json, study, mask, tmp_path):
    """Stock decoders give no distribution, which the default has."""
    table, out = tmp_path / "participants.tsv", tmp_path / "out"
    frame = pd.read_csv(table, sep="\t").assign(score=np.linspace(20, 60, 12))
    frame.to_csv(table, sep="\t", index=False)
    found = run_json("decode", *study[:-1], "score", "--mask", mask, "--out", out)
    assert "log_density" in found["scores"]
    assert "ridge regression" in (out / "report.html").read_text()


def test_numbers_that_are_all_equal_are_refused(refused, study, tmp_path):
    table = tmp_path / "participants.tsv"
    pd.read_csv(table, sep="\t").assign(score=5.5).to_csv(table, sep="\t", index=False)
    line = refused("decode", *study[:-1], "score", "--out", tmp_path / "out")
    assert "nothing to predict" in line


def test_the_same_command_gives_the_same_numbers(run_json, study, tmp_path, bare_report):
    first = run_json(
        "decode", *study, "-m", "logistic", "--split", "few-shot:2", "-o", tmp_path / "a"
    )
    again = run_json(
        "decode", *study, "-m", "logistic", "--split", "few-shot:2", "-o", tmp_path / "a"
    )
    other = run_json(
        "decode",
        *study,
        "-m",
        "logistic",
        "--split",
        "few-shot:2",
        "--seed",
        1,
        "-o",
        tmp_path / "b",
    )
    assert first["scores"] == again["scores"]
    assert first["scores"] != other["scores"]


def test_runs_with_events_leave_one_run_out(run, runs, mask, tmp_path):
    out = tmp_path / "out"
    events = sorted(runs.glob("*_events.tsv"))
    result = run(
        "decode", runs / "*_bold.nii.gz", "--events", *events, "--conditions", "face", "house",
        "--mask", mask, "--model", "logistic", "--out", out,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "face against house" in result.output
    assert "No interval where there is a dash: fewer than 5 independent groups." in result.output
    assert str(out / "report.html") in result.output.replace("\n", "")
    found = Result.from_json(out / "result.json")
    assert len(found.scores) == 4
    assert sorted(found.predictions["group"].unique()) == [f"run-{n}_bold" for n in range(1, 5)]
    assert found.scores["accuracy"].mean() > 0.9
    table = pd.read_csv(out / "predictions.tsv", sep="\t")
    assert set(table["scan"]) == {f"run-{n}_bold.nii.gz" for n in range(1, 5)}
    assert table["volumes"].str.fullmatch(r"\d+ to \d+").all()


def test_a_label_for_every_volume(run_json, runs, tmp_path, bare_report):
    image = nibabel.load(runs / "run-1_bold.nii.gz")
    labels = np.repeat(np.tile(["rest", "face", "rest", "house"], 2), 3)
    path = tmp_path / "labels.txt"
    path.write_text("\n".join(f"{label} {number // 12}" for number, label in enumerate(labels)))
    assert image.shape[3] == len(labels)
    found = run_json(
        "decode", runs / "run-1_bold.nii.gz", "--volume-labels", path, "--unit", "volume",
        "--mask", "data", "--model", "logistic", "--out", tmp_path / "out",
    )  # fmt: skip
    assert found["n_folds"] == 2
    assert found["n_samples"] == 12


def test_one_run_is_decoded_with_a_warning(run, runs, mask, tmp_path, bare_report):
    bold, events = runs / "run-1_bold.nii.gz", runs / "run-1_events.tsv"
    fixed = ["--mask", mask, "--model", "logistic", "--out", tmp_path / "out"]
    result = run("decode", bold, "--events", events, *fixed)
    assert result.exit_code == 0, result.output
    assert "warning: All scans are of one run" in result.output


def test_few_shot_takes_windows(run, runs, mask, tmp_path, bare_report):
    events = sorted(runs.glob("*_events.tsv"))
    fixed = ["--model", "few-shot", "--unit", "window", "--window", 3, "--set", "whiten=False"]
    out = tmp_path / "out"
    result = run(
        "decode", runs / "*_bold.nii.gz", "--events", *events, "--mask", mask, *fixed, "-o", out
    )
    assert result.exit_code == 0, result.output
    parameters = Result.from_json(out / "result.json").settings["parameters"]
    assert parameters["classify__shrinkage"] is None  # neighbours are known


def test_covariates_are_reported_beside_the_images(run, study, tmp_path):
    out = tmp_path / "out"
    result = run(
        "decode", *study, "--covariates", "age,sex", "--groups", "site", "--model", "logistic",
        "--out", out,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    page = (out / "report.html").read_text()
    assert "age, sex alone" in page
    assert "age, sex" in page
    assert Result.from_json(out / "result.json").settings["n_groups"] == 3


def test_the_report_says_what_it_is_asked_for(run_json, study, mask, tmp_path):
    out, atlas = tmp_path / "out", tmp_path / "regions.tsv"
    atlas.write_text("index\tname\n1\tthe only region\n")
    run_json(
        "decode", *study, "--mask", mask, "--model", "naive-bayes", "--positive", "ill",
        "--prevalence", 0.2, "--curve", "--atlas", mask, "--atlas-labels", atlas, "--out", out,
    )  # fmt: skip
    page = (out / "report.html").read_text()
    assert "The class of interest is <strong>ill</strong>, against well." in page
    assert "at a prevalence of 0.2" in page
    assert "the only region" not in page  # naive Bayes has no map
    assert "training scans per class the accuracy of naive-bayes" in page
    assert "This decoder and stock decoders on the same folds" in page
    sizes = pd.read_csv(out / "learning.tsv", sep="\t")["n_per_class"]
    assert sizes.unique().tolist() == [2, 3]
    assert (out / "figures" / "learning-curve.svg").exists()


def test_stock_decoders_can_be_left_out(run_json, study, mask, tmp_path):
    out = tmp_path / "out"
    options = ["--mask", mask, "--model", "naive-bayes", "--no-stock", "--out", out]
    run_json("decode", *study, *options)
    assert "Stock decoders" not in (out / "report.html").read_text()


def test_what_the_report_cannot_tell_is_refused(refused, study, mask, tmp_path):
    out = ["--mask", mask, "--out", tmp_path / "out"]
    assert "--positive" in refused("decode", *study, "--positive", "sick", *out)
    assert "--prevalence" in refused("decode", *study, "--prevalence", 2, *out)
    assert "without --atlas" in refused("decode", *study, "--atlas-labels", mask, *out)
    numbers = [*study[:-1], "age", "--model", "ridge"]
    assert "--curve needs classes" in refused("decode", *numbers, "--curve", *out)


def test_a_permutation_test(run_json, study, tmp_path):
    found = run_json(
        "decode", *study, "--permutations", 20, "--model", "naive-bayes", "--out", tmp_path / "out"
    )
    test = found["permutation"]
    assert 1 / 21 <= test["p_value"] <= 1
    assert test["n_relabellings"] == 20
    assert found["headline"]["detail"].startswith("Permutation test: ")


def test_a_number_is_predicted_by_regression(run_json, study, tmp_path, refused, bare_report):
    study = [*study[:-1], "age"]
    line = refused("decode", *study, "--model", "logistic", "--out", tmp_path / "out")
    assert "gp-regression" in line
    found = run_json("decode", *study, "--model", "ridge", "--out", tmp_path / "out")
    assert list(found["scores"]) == ["r2", "mae"]


def test_parameters_from_file_and_command(run_json, study, tmp_path, bare_report):
    config = tmp_path / "model.toml"
    config.write_text('variances = "median"\n')
    out = tmp_path / "out"
    chosen = ["--model", "sharing", "--config", config, "--set", "means=none"]
    run_json("decode", *study, *chosen, "--out", out)
    parameters = Result.from_json(out / "result.json").settings["parameters"]
    values = {name.rpartition("__")[2]: value for name, value in parameters.items()}
    assert values["variances"] == "median"
    assert values["means"] == "none"


def test_audit_findings_stop_or_warn(refused, run, study, tmp_path, bare_report):
    out = tmp_path / "out"
    fixed = [*study, "--groups", "site", "--model", "logistic", "--out", out]
    table = tmp_path / "participants.tsv"
    frame = pd.read_csv(table, sep="\t")
    frame["site"] = np.where(frame["group"] == "ill", "a", "b")
    frame.to_csv(table, sep="\t", index=False)
    line = refused("decode", *fixed)
    assert "class-missing" in line
    assert "--allow class-missing" in line
    assert not out.exists()
    frame["site"] = "a"
    frame.loc[:5, "site"] = "b"
    frame.to_csv(table, sep="\t", index=False)
    result = run("decode", *fixed, "--covariates", "age")
    assert result.exit_code == 0, result.output


def test_the_audit_asks_only_for_what_the_user_may_know(run, study, maps, mask, bare_report):
    found = maps.parent / "out" / "result.json"
    fixed = ["decode", *study, "--mask", mask, "--model", "logistic", "--out", found.parent]
    line = " ".join(run(*fixed).output.split())
    assert "could not be checked" not in line
    assert Result.from_json(found).checks[5].outcome == "not checked"
    for path in maps.iterdir():
        path.rename(maps / path.name.replace("sub-", "map"))
    table = maps.parent / "participants.tsv"
    frame = pd.read_csv(table, sep="\t")
    files = frame.pop("participant_id").str.replace("sub-", "map") + "_map.nii.gz"
    frame.assign(file=files).to_csv(table, sep="\t", index=False)
    line = " ".join(run(*fixed).output.split())
    told = "could not be checked: shared-group, group-offsets (no runs or subjects are given as"
    assert told in line
    assert "own-prior" not in line


def test_an_allowed_finding_stops_no_permutation_test(refused, run, study, maps, bare_report):
    (maps / "sub-03_map.nii.gz").write_bytes((maps / "sub-01_map.nii.gz").read_bytes())
    fixed = ["decode", *study, "--model", "logistic", "--permutations", 5]
    fixed += ["--split", "jackknife", "--out", maps.parent / "out"]
    assert "--allow duplicate-images" in refused(*fixed)
    result = run(*fixed, "--allow", "duplicate-images")
    assert result.exit_code == 0, result.output
    assert result.output.count("[leave-one-out]") == 1  # a warning, given once


def test_bad_input_is_one_line(refused, study, runs, mask, maps, tmp_path):
    out = ["--out", tmp_path / "out"]
    events = sorted(runs.glob("*_events.tsv"))
    bold = runs / "*_bold.nii.gz"
    assert "no model 'best'" in refused("decode", *study, "--model", "best", *out)
    assert "no parameter" in refused("decode", *study, "--set", "size=1", *out)
    assert "exactly one of" in refused("decode", study[0], *out)
    assert "no file matches" in refused("decode", "none-*.nii", *study[1:], *out)
    assert "no such image" in refused("decode", "none.nii", *study[1:], *out)
    labels = ["--volume-labels", tmp_path / "absent.txt", "--mask", mask, *out]
    assert "absent.txt: no such file" in refused("decode", bold, *labels)
    one = [runs / "run-1_bold.nii.gz", "--events", events[0], "--mask", mask, *out]
    assert "All scans are of one run" in refused("decode", *one, "--split", "groups")
    assert "--unit window" in refused("decode", *one, "--model", "few-shot")
    assert "Give --window" in refused("decode", *one, "--unit", "window")
    assert "no column 'gruop'" in refused("decode", *study[:-1], "gruop", *out)
    assert "say which column" in refused("decode", *study[:-2], *out)
    assert "absent.nii.gz" in refused("decode", *study, "--mask", "absent.nii.gz", *out)
    assert "would have no effect" in refused("decode", *study, "--delay", 5, *out)
    assert "need --labels" in refused("decode", bold, "--events", *events, "--key", "a", *out)
    assert "images without labels" in refused(
        "decode", bold, "--events", events[0], "--mask", mask, *out
    )
    assert "no scan has this label" in refused("decode", *study, "--conditions", "odd", *out)
    assert "--split" in refused("decode", *study, "--split", "loo", *out)
    assert "No finding is called" in refused("decode", *study, "--allow", "all", *out)
    other = nibabel.Nifti1Image(np.ones((3, 3, 3), "u1"), np.eye(4))
    other.to_filename(tmp_path / "other.nii.gz")
    assert "--resample" in refused("decode", *study, "--mask", tmp_path / "other.nii.gz", *out)
    (tmp_path / "participants.tsv").unlink()
    assert "no such table" in refused("decode", *study, *out)
    assert not any(path.name.startswith(".") for path in tmp_path.iterdir())


def test_a_full_disk_leaves_nothing(refused, study, tmp_path, monkeypatch, bare_report):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Decoder, "save", full)
    out = tmp_path / "out"
    line = refused("decode", *study, "--model", "logistic", "--out", out)
    assert line == "voxprior: no space left on device."
    assert not out.exists()


def test_a_stopped_run_goes_on(run, study, tmp_path, monkeypatch, bare_report):
    out = tmp_path / "out"
    command = ["decode", *study, "--model", "naive-bayes", "--out", out]
    fit, fitted = loop.fit_fold, []

    def stopping(*arguments):
        if len(fitted) == 2:
            raise KeyboardInterrupt
        fitted.append(1)
        return fit(*arguments)

    monkeypatch.setattr(loop, "fit_fold", stopping)
    result = run(*command)
    assert result.exit_code == 130
    assert "2 finished folds are kept; the same command goes on" in result.output
    assert not out.exists()

    def counting(*arguments):
        fitted.append(1)
        return fit(*arguments)

    monkeypatch.setattr(loop, "fit_fold", counting)
    result = run(*command)
    assert result.exit_code == 0, result.output
    stopped = Result.from_json(out / "result.json")
    assert len(fitted) == len(stopped.scores) == 5
    whole = tmp_path / "whole"
    run(*command[:-1], whole)
    assert stopped.equals(Result.from_json(whole / "result.json"))
    assert json.loads((out / "result.json").read_text())["complete"]


def test_haxby_slice(run_json, data_folder, tmp_path, bare_report):
    folder = data_folder("haxby_slice")
    found = run_json(
        "decode", folder / "bold.nii.gz", "--volume-labels", folder / "attributes_literal.txt",
        "--mask", folder / "mask.nii.gz", "--conditions", "face,house", "--model", "gp",
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert found["n_folds"] == 12
    assert found["scores"]["accuracy"]["value"] > 0.9
