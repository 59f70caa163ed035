"""One job by the command, by Decoder and by hand: every number is the same."""

import json
from types import SimpleNamespace

import nibabel
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

from voxprior import Decoder, ScanPreparation, registry
from voxprior.cli import app
from voxprior.decoder import prepared
from voxprior.images import load_maps
from voxprior.validation import (
    AuditWarning,
    Result,
    cross_validate,
    learning_curve,
    permutation_test,
)

MODELS = ["gp", "logistic"]
N, COVARIATES, PERMUTATIONS = 20, ["age"], 19


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Maps of two groups from four sites on disk, and their table."""
    folder = tmp_path_factory.mktemp("study")
    rng = np.random.default_rng(0)
    rows = []
    for number in range(N):
        group = "ill" if number % 2 else "well"
        values = 5 + rng.normal(size=(4, 4, 3)) + (group == "ill") * np.linspace(0, 1, 3)
        path = folder / f"map{number:02d}.nii.gz"
        nibabel.save(nibabel.Nifti1Image(values.astype("f4"), np.eye(4)), path)
        site, age = f"site{number // 5}", 30 + 10 * rng.random()
        rows.append({"file": path.name, "group": group, "site": site, "age": age})
    table = folder / "participants.tsv"
    pd.DataFrame(rows).to_csv(table, sep="\t", index=False)
    images = sorted(map(str, folder.glob("*.nii.gz")))
    return SimpleNamespace(folder=folder, images=images, table=table)


@pytest.fixture(scope="module")
def data(study):
    return load_maps(study.images, table=study.table, label="group", groups="site",
                     covariates=COVARIATES)  # fmt: skip


def command(name, study, out, *options):
    labelled = ["--labels", study.table, "--label", "group", "--groups", "site"]
    labelled += ["--covariates", ",".join(COVARIATES), "--out", out]
    arguments = [name, *study.images, *labelled, *options]
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("split", ["auto", "few-shot:3"])
@pytest.mark.parametrize("model", MODELS)
def test_decoding(model, split, study, data, tmp_path, bare_report):
    options = ["-m", model, "--split", split, "--permutations", PERMUTATIONS]
    command("decode", study, tmp_path / "out", *options)
    by_command = Result.from_json(tmp_path / "out" / "result.json")

    decoder = Decoder(model)
    by_decoder = decoder.evaluate(data, cv=split)
    test = decoder.permutation_test(data, cv=split, n_permutations=PERMUTATIONS, result=by_decoder)
    decoder.fit(data)

    estimator, X = prepared(registry.model(model).make(), data)
    cv = registry.splitter(split)
    by_hand = cross_validate(estimator, X, data.y, data.groups, cv)
    test_by_hand = permutation_test(
        estimator, X, data.y, data.groups, cv, n_permutations=PERMUTATIONS
    )

    assert by_command.equals(by_decoder)
    assert by_decoder.equals(by_hand)
    assert_array_equal(test.null, test_by_hand.null)
    assert test.p_value == test_by_hand.p_value
    kept = Decoder.load(tmp_path / "out" / "model.skops")
    by_kept, fitted = (one.predict_proba(data) for one in (kept, decoder))
    assert_array_equal(by_kept, fitted)
    assert_allclose(estimator.fit(X, data.y).predict_proba(X), fitted, rtol=1e-12)


def test_comparison_and_learning_curve(study, data, tmp_path):
    options = ["--models", ",".join(MODELS), "--repeats", 2]
    command("compare", study, tmp_path / "out", *options)
    by_command = json.loads((tmp_path / "out" / "comparison.json").read_text("utf-8"))
    learned = pd.read_csv(tmp_path / "out" / "learning.tsv", sep="\t")

    by_decoder = Decoder().compare(data, models=MODELS, repeats=2)
    own = Decoder(MODELS[0]).learning_curve(data, models=MODELS[1:], n_repeats=2)

    tasks = {name: prepared(name, data) for name in MODELS}
    models = {name: task.estimator for name, task in tasks.items()}
    X = tasks[MODELS[0]].X
    by_hand = learning_curve(models, X, data.y, data.groups, n_repeats=2)

    assert by_command.pop("schema_version") == 1
    assert by_command == by_decoder.to_dict()
    for curve in (by_decoder.curve, own):
        pd.testing.assert_frame_equal(curve.table, by_hand.table)
    assert_allclose(learned["accuracy"], by_hand.table["accuracy"], atol=1e-6)
    for name, result in by_decoder.results.items():
        alone = cross_validate(models[name], X, data.y, data.groups)
        assert result.equals(alone)


def test_models_are_compared_with_one_warning(data):
    y = np.where(np.arange(N) < 10, "a", "b")
    allow = ["class-missing", "shared-group"]
    with pytest.warns(AuditWarning) as told:
        Decoder().compare(data, y, models=MODELS, cv=5, allow=allow, repeats=0)
    texts = [str(one.message) for one in told]
    assert len(texts) == len(set(texts))


def test_one_audit_serves_all(study, data, recwarn):
    """What `evaluate` has told is not told again by what follows it."""
    y = np.where(np.arange(N) < 10, "a", "b")  # each site has one class
    decoder = Decoder("logistic")
    result = decoder.evaluate(data, y, cv=5, allow=["class-missing", "shared-group"])
    assert result.findings
    recwarn.clear()
    test = decoder.permutation_test(data, y, cv=5, n_permutations=3, result=result)
    curve = decoder.learning_curve(data, y, n_repeats=1, sizes=[2], result=result)
    assert test.findings == result.findings
    assert next(iter(curve.results.values())).findings == result.findings
    assert not [w for w in recwarn if "Audit" in w.category.__name__]


def test_betas_of_runs_by_their_files(tmp_path, bare_report):
    """Maps that are centred by run: the choice is made once, and every door has made it."""
    model, rng = "logistic", np.random.default_rng(2)
    runs, fingers = np.repeat([1, 2, 3, 4], 6), np.tile(["thumb", "index"], 12)
    values = rng.normal(size=(24, 4, 4, 3)) + 3 * rng.normal(size=(4, 4, 4, 3))[runs - 1]
    values[fingers == "thumb", 1] += 1
    images = [tmp_path / f"beta_{i:02d}.nii" for i in range(24)]
    for path, value in zip(images, values):
        nibabel.save(nibabel.Nifti1Image(value.astype("f4"), np.eye(4)), path)
    frame = pd.DataFrame({"file": [p.name for p in images], "finger": fingers, "run": runs})
    frame.to_csv(tmp_path / "betas.tsv", sep="\t", index=False)

    options = ["--labels", tmp_path / "betas.tsv", "--label", "finger", "-m", model]
    arguments = ["decode", *images, *options, "--out", tmp_path / "out"]
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    by_command = Result.from_json(tmp_path / "out" / "result.json")

    decoder = Decoder(model)
    by_decoder = decoder.evaluate(images, fingers, runs)

    X = ScanPreparation().fit_transform(values.astype("f4").reshape(24, -1), fingers, runs)
    by_hand = cross_validate(registry.model(model).make(), X, fingers, runs)

    assert by_command.equals(by_decoder)
    assert_array_equal(by_hand.predictions["y_pred"], by_decoder.predictions["y_pred"])
    assert_allclose(by_hand.probabilities(), by_decoder.probabilities(), rtol=1e-6)
    kept = Decoder.load(tmp_path / "out" / "model.skops")
    fitted = decoder.fit(images, fingers, runs)
    assert_array_equal(
        kept.predict_proba(images[:6], ["new"] * 6), fitted.predict_proba(images[:6], ["new"] * 6)
    )
