import nibabel
import pytest

from voxprior import registry


@pytest.fixture
def two_families(monkeypatch):
    few = [one for one in registry.MODELS if one.name in ("gp", "network", "naive-bayes")]
    monkeypatch.setattr(registry, "MODELS", few)


def test_it_ends_in_a_report(run, two_families, tmp_path):
    out = tmp_path / "demo"
    result = run("demo", "--out", out)
    assert result.exit_code == 0, result.output
    assert "Report of " in result.output
    assert "was chosen as the best of 2" in result.output
    assert "a simulated brain" in (out / "report.html").read_text()
    truth = nibabel.load(out / "truth.nii.gz")
    assert nibabel.load(out / "gp.nii.gz").shape == truth.shape
    assert (out / "maps.png").stat().st_size > 0


def test_json(run_json, two_families, tmp_path, bare_report):
    found = run_json("demo", "--out", tmp_path / "demo", "--scans", 3)
    assert [row["model"] for row in found["rows"]] == ["naive-bayes", "gp", "network"]
    assert all(0 <= row["accuracy"] <= 1 for row in found["rows"])
