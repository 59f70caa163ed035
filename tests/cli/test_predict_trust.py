"""Model files of others at the command line: refused with exit code 2, or trusted by name."""

import pytest
from tests.modelfile.forging import call, mapping, value, with_field
from tests.modelfile.models import OWN, OwnClassifier, fitted, scans

from voxprior import registry


@pytest.fixture
def scan(tmp_path):
    path = tmp_path / "scan.nii.gz"
    scans(1)[0].to_filename(path)
    return path


@pytest.mark.parametrize(
    "attack",
    [
        lambda path: call("numpy.testing._private.utils.runstring", f"open({path!r}, 'w')", {}),
        lambda path: call("os.system", f"touch {path}"),
        lambda path: mapping({f"touch {path}": value(1)}, key="os.system"),
    ],
)
def test_a_model_that_would_run_code_is_refused(attack, refused, scan, tmp_path):
    canary = tmp_path / "canary"
    model = fitted(registry.model("naive-bayes").make()).save(tmp_path / "model.skops")
    model.write_bytes(with_field(model.read_bytes(), "trials", attack(str(canary))))
    line = refused("predict", model, scan)
    assert "holds what voxprior does not trust" in line
    assert not canary.exists()


def test_own_types_are_trusted_by_name(run, refused, scan, tmp_path):
    model = fitted(OwnClassifier()).save(tmp_path / "model.skops")
    assert "name them in --trust" in refused("predict", model, scan)
    options = [part for name in OWN for part in ("--trust", name)]
    refused("predict", model, scan, *options[:-2])
    result = run("predict", model, scan, *options)
    assert result.exit_code == 0, result.output
    assert "face" in result.output


def test_a_damaged_model_is_refused(refused, scan, tmp_path):
    model = fitted(registry.model("naive-bayes").make()).save(tmp_path / "model.skops")
    model.write_bytes(model.read_bytes()[:-100])
    assert "is cut off" in refused("predict", model, scan)


def test_decode_says_that_a_model_holds_scans(run, study, tmp_path):
    told = {}
    for name in ("gp", "naive-bayes"):
        options = ["--mask", "data", "--model", name, "--no-stock", "--out", tmp_path / name]
        result = run("decode", *study, *options)
        assert result.exit_code == 0, result.output
        told[name] = result.stderr
    assert "training scans, or parts of them, as they are" in told["gp"]
    assert "as they are" not in told["naive-bayes"]
