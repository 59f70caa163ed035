"""The demo, on scenes small enough for a test; the scenes themselves are tested where they live."""

from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import Bunch
from tests.cli.conftest import SHAPE, save

from voxprior import registry
from voxprior.images import haxby
from voxprior.simulate import Scene, blobs, scenes, time_courses

demo = import_module("voxprior.cli.demo")
NAMED = ("sharing", "auto", "logistic *")


def _courses(seed):
    return time_courses((5, 4, 3), 12, n_times=2, amplitude=1.0, random_state=seed)


def _blobs(seed):
    return blobs((5, 4, 3), 12, n_blobs=1, blob_radius=1, effect=2.0, random_state=seed)


SMALL = (
    Scene(
        "courses", "neighbours are alike", ("sharing",), _courses, (2, 3), 2,
        truth=lambda data: data.truth["difference"],
        maps={"sharing": lambda model: model.voxel_maps()["group_size"]},
    ),
    Scene("one blob", "a ball", ("boosting", "gp"), _blobs, (3, 4), 4, score="log_loss"),
)  # fmt: skip


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(scenes, "SCENES", SMALL)


@pytest.fixture
def few_families(monkeypatch):
    few = [one for one in registry.MODELS if one.name in ("auto", "sharing", "gp")]
    monkeypatch.setattr(registry, "MODELS", few)


def test_one_table_picture_and_report(run, small, tmp_path):
    out = tmp_path / "demo"
    result = run("demo", "--out", out, "--seeds", 2, "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.replace(str(out), "").splitlines())) <= 80
    words = " ".join(result.stdout.split())
    assert "Which prior for which truth" in words
    assert "neighbours are alike" in words
    assert "by training scans per class" not in words
    assert "seconds, after compiling" in words
    assert result.stdout.splitlines()[-1].startswith("your own images: voxprior decode ")
    page = (out / "report.html").read_text()
    assert "auto in the demo: one blob, 4 scans per class" in page
    assert "Which prior for which truth" in page
    assert (out / "demo.png").stat().st_size > 10_000


def test_details(run, small, tmp_path):
    words = run("demo", "--out", tmp_path / "o", "--seeds", 2, "--jobs", 1, "--details").stdout
    assert max(map(len, words.replace(str(tmp_path), "").splitlines())) <= 80
    words = " ".join(words.split())
    assert "courses: neighbours are alike; mean accuracy" in words
    assert "Mean cost of decisions, one blob" in words
    assert "--details" not in words


@pytest.mark.parametrize("gain", [-0.2, 0.0, 0.2])
def test_a_family_that_is_not_ahead_is_called_so(gain, capsys):
    """Of known scores the words are those of the interval, for families and default alike."""
    scene, rows, noise = SMALL[0], [], (-0.01, 0.0, 0.01)
    for seed in range(3):
        for name in ("sharing", "auto", "logistic", "lda", "centroid"):
            own = {"sharing": 0.5 + gain + noise[seed], "auto": 0.5, "logistic": 0.5}.get(name, 0.4)
            at = {"scene": scene.title, "seed": seed, "size": 2, "decoder": name}
            rows.append(at | {"accuracy": own})
    demo._show(pd.DataFrame(rows), [scene], 3, details=False)
    printed = capsys.readouterr().out
    lines = {name: next(s for s in printed.splitlines() if f" {name} " in s) for name in NAMED}
    word = "ahead" if gain > 0 else "behind" if gain < 0 else "not ahead"
    assert lines["sharing"].split("]")[1].strip() == word
    assert f"{gain:+.3f} [{gain - 0.025:+.3f}, {gain + 0.025:+.3f}]" in lines["sharing"]
    assert lines["auto"].endswith("not ahead")
    assert lines["logistic *"].split()[-1] == "0.500"


def test_json(run_json, small, tmp_path, bare_report):
    found = run_json("demo", "--out", tmp_path / "demo", "--seeds", 2, "--jobs", 1)
    first, second = found["scenes"]
    assert list(first["means"]) == ["sharing", "auto", "logistic", "lda", "centroid"]
    assert all(0 <= score <= 1 for row in first["means"].values() for score in row.values())
    assert list(second["against_stock"]) == ["boosting", "gp", "auto"]
    assert second["means"]["centroid"] == {"3": None, "4": None}
    assert found["seconds"] > 0


def test_real_scans_of_a_folder(run_json, few_families, data_folder, tmp_path, bare_report):
    data_folder("haxby_slice")  # or the test is skipped
    found = run_json("demo", "--data", "haxby", "--seeds", 2, "--jobs", 1, "--out", tmp_path / "o")
    assert [one["scene"] for one in found["scenes"]] == ["face and house", "bottle and shoe"]
    assert found["scenes"][0]["means"]["auto"]["8"] > 0.6


def test_real_scans_are_fetched_where_there_are_none(tmp_path, monkeypatch, rng):
    """The files that nilearn fetches have a heading above the labels."""
    kinds = ["rest", "face", "rest", "house", "rest"]
    lines = [f"{kind} {run}" for run in range(6) for kind in kinds for _ in range(2)]
    (tmp_path / "labels.txt").write_text("labels chunks\n" + "\n".join(lines))
    bold = save(rng.normal(100, 1, size=(*SHAPE, len(lines))).astype("f4"), tmp_path / "bold.nii")
    mask = save(np.ones(SHAPE, "u1"), tmp_path / "mask.nii")
    files = Bunch(
        func=[str(bold)], session_target=[str(tmp_path / "labels.txt")], mask_vt=[str(mask)]
    )
    monkeypatch.setenv("VOXPRIOR_DATA", str(tmp_path))
    monkeypatch.setattr("nilearn.datasets.fetch_haxby", lambda **options: files)
    data = haxby.load_haxby(("face", "house"))
    assert data.X.shape == (12, np.prod(SHAPE))
    assert sorted(map(int, data.groups)) == sorted([*range(6)] * 2)


def test_without_a_network_one_line_says_what_to_do(refused, monkeypatch, tmp_path):
    def offline(**options):
        raise OSError("no route to host")

    monkeypatch.delenv("VOXPRIOR_DATA", raising=False)
    monkeypatch.setattr("nilearn.datasets.fetch_haxby", offline)
    line = refused("demo", "--data", "haxby", "--out", tmp_path / "out")
    assert "no route to host" in line
    assert "VOXPRIOR_DATA" in line
    assert not (tmp_path / "out").exists()
