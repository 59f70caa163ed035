import json

import nibabel
import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.naive_bayes import GaussianNB

from voxprior.decoder import Comparison
from voxprior.errors import InputError
from voxprior.validation import cross_validate

SHAPE = (5, 4, 3)


def save(values, path):
    nibabel.Nifti1Image(values, np.diag([3.0, 3.0, 3.0, 1.0])).to_filename(path)


def test_models_are_held_against_the_best_baseline(rng):
    y, runs = np.tile([0, 1], 12), np.repeat(range(6), 4)
    X = rng.normal(size=(24, 3)) + 2 * y[:, None]
    models = {"sharing": GaussianNB(), "logistic": DummyClassifier(), "svm": DummyClassifier()}
    table = Comparison({name: cross_validate(m, X, y, runs) for name, m in models.items()}).table
    assert table["model"].iloc[0] == "sharing"
    row = table.set_index("model").loc["sharing"]
    assert row["against"] in ("logistic", "svm")
    assert row["difference"] == pytest.approx(row["accuracy"] - 0.5)
    assert row["p"] == pytest.approx(2 / 2**6)
    assert not table.set_index("model").loc["sharing", "baseline"]


def test_files_and_page(run, study, tmp_path):
    out = tmp_path / "out"
    models = ["gp", "logistic", "naive-bayes"]
    asked = ["--repeats", 2, "--positive", "ill", "--prevalence", 0.2]
    result = run("compare", *study, "--models", ",".join(models), *asked, "--out", out)
    assert result.exit_code == 0, result.output
    table = pd.read_csv(out / "comparison.tsv", sep="\t")
    assert set(table["model"]) == set(models)
    content = json.loads((out / "comparison.json").read_text())
    assert content["best"] == "gp"
    assert content["best_corrected_for_choice"] is None  # one family: nothing was chosen
    assert content["failed"] == {}
    curve = pd.read_csv(out / "learning.tsv", sep="\t")
    assert set(curve["estimator"]) == set(models)
    assert curve["n_per_class"].min() == 2
    page = (out / "report.html").read_text()
    assert "gain in " in page
    assert "The class of interest is <strong>ill</strong>" in page
    assert "at a prevalence of 0.2" in page
    assert "Learning curve" in page
    assert sorted(p.stem for p in (out / "results").iterdir()) == sorted(models)


def test_the_best_of_several_is_corrected_for_the_choice(run, study, tmp_path):
    out = tmp_path / "out"
    result = run("compare", *study, "--models", "gp,rvm,sharing", "--no-curve", "--out", out)
    assert result.exit_code == 0, result.output
    content = json.loads((out / "comparison.json").read_text())
    corrected = content["best_corrected_for_choice"]
    assert 0.5 < corrected <= 1
    line = f"{content['best']} was chosen as the best of 3"
    assert line in " ".join(result.output.split())
    assert f"corrected for the choice: {corrected:.3f}" in (out / "report.html").read_text()


def test_covariates_are_taken_out_of_the_learning_curve_too(run, study, tmp_path, bare_report):
    """Images that show nothing but age tell the groups apart by it, unless it is taken out."""
    table = tmp_path / "participants.tsv"
    frame = pd.read_csv(table, sep="\t")
    rng = np.random.default_rng(1)
    frame["age"] = 30 + 10 * (frame["group"] == "ill") + rng.normal(size=12)
    frame.to_csv(table, sep="\t", index=False)
    for name, age in zip(frame["participant_id"], frame["age"]):
        save((age + rng.normal(size=SHAPE)).astype("f4"), tmp_path / "maps" / f"{name}_map.nii.gz")
    options = ["--models", "logistic", "--repeats", 4, "--allow", "fitted-outside"]
    options += ["--scale", "none"]  # age is in the means of the maps, which look like gains
    means = {}
    for out, more in {"raw": [], "taken": ["--covariates", "age"]}.items():
        result = run("compare", *study, *options, *more, "--out", tmp_path / out)
        assert result.exit_code == 0, result.output
        curve = pd.read_csv(tmp_path / out / "learning.tsv", sep="\t")
        means[out] = curve.groupby("n_per_class")["accuracy"].mean().iloc[-1]
    assert means["raw"] == 1.0
    assert means["taken"] < 0.9


def test_numbers_are_compared_by_regressors(run_json, study, tmp_path):
    study = [*study[:-1], "age"]
    found = run_json(
        "compare", *study, "--models", "gp-regression,ridge", "--out", tmp_path / "out"
    )
    assert {row["model"] for row in found["models"]} == {"gp-regression", "ridge"}
    assert all("mae" in row for row in found["models"])
    rows = {row["model"]: row for row in found["models"]}
    less = rows["ridge"]["mae"] - rows["gp-regression"]["mae"]
    assert rows["gp-regression"]["difference"] == pytest.approx(less)  # a smaller error is a gain


@pytest.fixture
def failing(monkeypatch):
    """Let naive Bayes fail with an error, while logistic regression goes on."""

    def fail_with(error):
        def fail(*_):
            raise error

        monkeypatch.setattr(GaussianNB, "fit", fail)
        return ["--models", "logistic,naive-bayes", "--repeats", 0]

    return fail_with


def test_a_model_that_refuses_the_data_is_told(run_json, study, tmp_path, failing):
    models = failing(InputError("The scans are too few"))
    found = run_json("compare", *study, *models, "--out", tmp_path / "out")
    assert found["failed"] == {"naive-bayes": "The scans are too few."}
    assert [row["model"] for row in found["models"]] == ["logistic"]


def test_a_model_with_a_fault_loses_no_other(run, study, tmp_path, failing):
    out = tmp_path / "out"
    result = run("compare", *study, *failing(ZeroDivisionError("by zero")), "--out", out)
    assert result.exit_code == 1
    content = json.loads((out / "comparison.json").read_text())
    assert content["failed"] == {"naive-bayes": "internal error: ZeroDivisionError: by zero."}
    assert content["best"] == "logistic"
    (log,) = out.glob("voxprior-error-*.log")
    assert "ZeroDivisionError" in log.read_text()


def test_nothing_is_written_where_every_model_fails(refused, study, tmp_path, failing):
    models = failing(InputError("The scans are too few"))
    models[1] = "naive-bayes"
    line = refused("compare", *study, *models, "--out", tmp_path / "out")
    assert line == "voxprior: The scans are too few."
    assert not (tmp_path / "out").exists()


def test_bad_input_is_one_line(refused, study, tmp_path):
    out = ["--out", tmp_path / "out"]
    assert "no model 'best'" in refused("compare", *study, "--models", "best", *out)
    assert "predicts a number" in refused("compare", *study, "--models", "ridge", *out)
