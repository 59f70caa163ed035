"""The doctor tells what is installed, and does not pass over a family that says something else."""

import json

import numpy as np
import pytest
from tests.cli.test_schema import check

from voxprior import __version__
from voxprior.decoder import selftest
from voxprior.decoder.selftest import TOLERANCE, Outcome, self_test


@pytest.fixture
def tested(monkeypatch):
    """Let the self-test find these outcomes."""

    def set_outcomes(**outcomes):
        monkeypatch.setattr(selftest, "self_test", lambda: iter(outcomes.items()))

    return set_outcomes


def test_every_family_gives_the_stored_digits():
    """Where one was changed on purpose: python -m voxprior.decoder.selftest writes them anew."""
    found = dict(self_test())
    assert {name: one for name, one in found.items() if not one.well} == {}
    assert {"auto", "sharing", "fields", "boosting", "gp", "rvm", "network"} <= set(found)


def test_the_study_tells_models_apart():
    """Digits that are all 0 or 1 would hide a change."""
    expected = json.loads(selftest.EXPECTED.read_text())
    for name, digits in expected.items():
        assert np.ptp(digits) > 10 * TOLERANCE, name
        size = np.abs(digits)
        assert np.any((size > 5 * TOLERANCE) & (size < 1 - 5 * TOLERANCE)), name


def test_a_model_that_has_changed_is_noticed(monkeypatch):
    from voxprior import registry

    changed = registry.Model("gp", "sklearn.naive_bayes:GaussianNB", "classifier", "")
    broken = registry.Model("rvm", "sklearn.neighbors:NearestCentroidd", "classifier", "")
    monkeypatch.setattr(registry, "MODELS", (changed, broken, registry.model("svm")))
    found = dict(self_test())
    assert list(found) == ["gp", "rvm"]
    assert not found["gp"].well
    assert found["gp"].difference > TOLERANCE
    assert "NearestCentroidd" in found["rvm"].failure


def test_answers_without_numbers_are_not_well(monkeypatch):
    monkeypatch.setattr(selftest, "answers", lambda model: np.full(6, np.nan))
    assert {one.failure for _, one in self_test()} == {"it says no numbers"}


def test_a_sound_installation(run, tested, monkeypatch, tmp_path):
    (tmp_path / "haxby_vt").mkdir()
    monkeypatch.setenv("VOXPRIOR_DATA", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    tested(gp=Outcome(1e-6, 0.1))
    result = run("doctor")
    assert result.exit_code == 0, result.output
    for told in (__version__, "numpy", "OMP_NUM_THREADS 3", "GB free", "holds haxby_vt"):
        assert told in result.output
    assert "Every family gives the stored result" in result.output


def test_an_unsound_one(run, tested, monkeypatch):
    monkeypatch.setattr("voxprior.modelfile.files.available_memory", lambda: None)
    monkeypatch.setenv("VOXPRIOR_DATA", "nowhere")
    tested(gp=Outcome(0.12, 0.1), rvm=Outcome(float("nan"), 0.1, "no module named x"))
    result = run("doctor")
    assert result.exit_code == 1
    words = " ".join(result.output.split())
    assert "gp does not give the stored result: it differs by 0.12." in words
    assert "rvm does not give the stored result: no module named x." in words
    assert "Do not trust results of this installation" in words
    assert "VOXPRIOR_DATA names nowhere, which is not a folder" in words
    assert "Memory: not reported by the system" in words


def test_json(run_json, run, tested, monkeypatch):
    monkeypatch.delenv("VOXPRIOR_DATA", raising=False)
    found = run_json("doctor", "--quick")
    check(found, "doctor")
    assert found["families"] == {}
    assert found["well"]
    assert found["data"] == {"folder": None, "there": False, "sets": []}
    assert "VOXPRIOR_DATA is not set" in run("doctor", "--quick").output
    tested(gp=Outcome(float("nan"), 0.1, "broken"))
    broken = run("doctor", "--json")
    assert broken.exit_code == 1
    content = json.loads(broken.stdout)
    check(content, "doctor")
    assert content["families"]["gp"]["difference"] is None
