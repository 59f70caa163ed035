"""`voxprior map`, `decode --map`: files, words, and what is refused in one line."""

import json
import re

import nibabel
import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import AFFINE, SHAPE, save

INSIDE = np.ones(SHAPE, dtype="i2")


@pytest.fixture
def pairs(tmp_path):
    """Eight runs of one map per class; b is above a in the first slab, named by an atlas."""
    rng = np.random.default_rng(0)
    rows = []
    for run in range(8):
        for label in "ab":
            values = rng.normal(size=SHAPE) + run
            values[0] += 5.0 * (label == "b")
            name = f"run-{run}_{label}.nii.gz"
            save(values.astype("f4"), tmp_path / "maps" / name)
            side = {"site": "north" if label == "a" else "south", "age": 30.5 + len(rows)}
            rows.append({"file": name, "label": label, "run": f"r{run}"} | side)
    table = tmp_path / "labels.tsv"
    pd.DataFrame(rows).to_csv(table, sep="\t", index=False)
    numbers = INSIDE.copy()
    numbers[0] = 2
    save(INSIDE, tmp_path / "mask.nii.gz")
    save(numbers, tmp_path / "atlas.nii.gz")
    names = pd.DataFrame({"index": [1, 2], "name": ["rest", "slab"]})
    names.to_csv(tmp_path / "atlas.tsv", sep="\t", index=False)
    return tmp_path


def command(pairs, *more):
    images = sorted((pairs / "maps").iterdir())
    given = ["--labels", pairs / "labels.tsv", "--mask", pairs / "mask.nii.gz"]
    return ["map", *images, *given, "--out", pairs / "out", *more]


def test_files_tables_and_page(run_json, pairs):
    atlas = ["--atlas", pairs / "atlas.nii.gz", "--atlas-labels", pairs / "atlas.tsv"]
    found = run_json(*command(pairs, "--groups", "run", *atlas))
    out = pairs / "out"
    assert {p.name for p in out.iterdir()} == {
        "report.html",
        "figures",
        "map.json",
        "clusters.tsv",
        "peaks.tsv",
        "maps",
        "manifest.json",
        "run.json",
    }
    written = json.loads((out / "map.json").read_text("utf-8"))
    beside = {"folder", "schema_version"}
    assert written == {k: v for k, v in found.items() if k not in beside}
    assert found["smallest_p"] == 2 / 256
    assert found["clusters"][0]["region"] == "slab"
    maps = {p.name.split(".")[0]: nibabel.load(p).get_fdata() for p in (out / "maps").iterdir()}
    assert set(maps) == {"statistic", "effect", "logp", "significant"}
    assert maps["effect"][0].mean() == pytest.approx(5, abs=1)
    kept = maps["significant"] != 0
    assert kept[0].mean() > 0.8
    assert kept.sum() == found["significant"] == sum(c["voxels"] for c in found["clusters"])
    np.testing.assert_allclose(kept, maps["logp"] >= -np.log10(0.05))
    np.testing.assert_allclose(nibabel.load(out / "maps" / "logp.nii.gz").affine, AFFINE)
    page = (out / "report.html").read_text("utf-8")
    assert "b and a differ, in mean or in spread" in page
    assert "slab" in page
    shown = set(re.findall('data-file="(.*?)"', page))
    assert shown == {"where-moderated-t", "where-significant-voxels", "where-corrected-p"}
    written = {p.name for p in (out / "figures").iterdir()}
    assert written == {f"{name}.{kind}" for name in shown for kind in ("svg", "png")}
    assert page.count('class="viewer"') == 3
    assert "How to read this: Where classes differ by more than exchanged labels give" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    peaks = pd.read_csv(out / "peaks.tsv", sep="\t")
    assert peaks["region"][0] == "slab"


def test_what_people_read(run, pairs):
    result = run(*command(pairs, "--groups", "run", "--statistic", "tfce"))
    assert result.exit_code == 0, result.output
    told = " ".join(result.output.split())
    assert "All 256 relabellings, labels exchanged among scans within each group" in told
    assert "borders say little" in told
    assert "Report:" in told


@pytest.mark.parametrize("statistic", ["pattern", "cluster"])
def test_other_statistics(run_json, pairs, statistic):
    found = run_json(*command(pairs, "--groups", "run", "--statistic", statistic))
    names = {p.name for p in (pairs / "out" / "maps").iterdir()}
    if statistic == "pattern":
        assert names == {"statistic.nii.gz", "effect.nii.gz"}
        assert found["significant"] == 0
        assert "nothing of single voxels" in found["hypothesis"]
    else:
        assert "logp.nii.gz" in names


def test_one_sample_and_its_words(run_json, run, pairs):
    images = sorted((pairs / "maps").glob("*_b.nii.gz"))
    out = pairs / "zero"
    found = run_json("map", *images, "--mask", pairs / "mask.nii.gz", "--one-sample", "-o", out)
    assert "mean of the maps is not zero" in found["hypothesis"]
    assert found["n_distinct"] == 2**8
    table = ["--labels", pairs / "labels.tsv", "--unmatched", "drop"]
    given = ["map", *images, *table, "--one-sample", "--covariates", "age", "-o", out]
    adjusted = run_json(*given, "--mask", pairs / "mask.nii.gz")
    assert any("approximate" in note for note in adjusted["notes"])


def test_numbers(run_json, pairs):
    found = run_json(*command(pairs, "--label", "age", "--permutations", "50"))
    assert "number" in found["hypothesis"]
    assert found["n_relabellings"] == 50


def test_a_design_that_cannot_reach_the_level(refused, run_json, pairs):
    images = [p for p in sorted((pairs / "maps").iterdir()) if p.name < "run-5"]
    given = ["map", *images, "--labels", pairs / "labels.tsv", "--groups", "run"]
    given += ["--mask", pairs / "mask.nii.gz", "--unmatched", "drop", "--out", pairs / "out"]
    line = refused(*given)
    assert "6 such groups would suffice" in line
    assert "--despite-floor" in line
    assert not (pairs / "out").exists()
    found = run_json(*given, "--despite-floor")
    assert found["significant"] == 0
    assert "No p below 0.062" in found["notes"][0]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--statistic", "z"], "--statistic z is not known"),
        (["--level", "2"], "--level 2.0 is not a level"),
        (["--correction", "fdr", "--statistic", "tfce"], "--correction fdr is for single voxels"),
        (["--atlas-labels", "x.tsv"], "without --atlas"),
        (["--groups", "site", "--scheme", "free"], "nested in groups"),
        (["--one-sample", "--label", "label"], "are for scans with labels"),
    ],
)
def test_bad_options_are_told_in_one_line(refused, pairs, more, told):
    assert told in refused(*command(pairs, *more))
    assert not (pairs / "out").exists()


def test_a_mask_without_voxels_and_another_grid(refused, pairs):
    save(INSIDE * 0, pairs / "empty.nii.gz")
    images = sorted((pairs / "maps").iterdir())
    given = ["map", *images, "--labels", pairs / "labels.tsv", "--out", pairs / "out"]
    assert "mask" in refused(*given, "--mask", pairs / "empty.nii.gz")
    save(np.ones((2, 2, 2), dtype="i2"), pairs / "other.nii.gz")
    line = refused(*command(pairs, "--groups", "run", "--atlas", pairs / "other.nii.gz"))
    assert "other.nii.gz" in line


def test_decode_adds_the_map_to_its_report(run_json, pairs):
    images = sorted((pairs / "maps").iterdir())
    given = ["--labels", pairs / "labels.tsv", "--groups", "run", "--mask", pairs / "mask.nii.gz"]
    out = pairs / "decoded"
    found = run_json("decode", *images, *given, "--model", "logistic", "--map", "--out", out)
    assert found["map"]["significant"] > 5
    page = (out / "report.html").read_text("utf-8")
    assert "Where classes differ" in page
    assert 'href="#where"' in page
    assert (out / "maps" / "where-significant.nii.gz").exists()
    assert (out / "clusters.tsv").exists()


class TestNeighbourhoodsAndRegions:
    def test_files_page_and_words(self, run_json, pairs):
        atlas = ["--regions", pairs / "atlas.nii.gz", "--atlas-labels", pairs / "atlas.tsv"]
        found = run_json(
            *command(pairs, "--groups", "run", "--searchlight", "4", *atlas, "--permutations", "50")
        )
        out = pairs / "out"
        assert found["regions"]["table"][0]["region"] == "slab"
        assert found["searchlight"]["n_significant"] >= 0
        table = pd.read_csv(out / "regions.tsv", sep="\t")
        assert table["region"].tolist()[0] == "slab"
        assert {"searchlight-accuracy.nii.gz", "searchlight-logp.nii.gz"} <= {
            path.name for path in (out / "maps").iterdir()
        }
        page = (out / "report.html").read_text("utf-8")
        assert "<h2>Searchlight</h2>" in page
        assert "<h2>Regions</h2>" in page
        assert "not the voxel at its centre" in page

    def test_printed(self, run, pairs):
        said = run(*command(pairs, "--groups", "run", "--searchlight", "4", "--permutations", "20"))
        assert "neighbourhood" in said.output

    def test_nothing_is_claimed_where_nothing_is_found(self, run, pairs):
        table = pd.read_csv(pairs / "labels.tsv", sep="\t")
        table["label"] = list("abba" * 4)  # what is above is as often in one class as in the other
        table.to_csv(pairs / "labels.tsv", sep="\t", index=False)
        more = ["--searchlight", "4", "--permutations", "20", "--despite-floor", "--level", "0.001"]
        said = " ".join(run(*command(pairs, "--groups", "run", *more)).output.split())
        assert "No voxel is significant" in said
        assert "What a small p says: In this voxel" in said
        assert "What a small p says: The voxels around this one" in said

    def test_a_radius_below_a_voxel(self, refused, pairs):
        said = refused(*command(pairs, "--groups", "run", "--searchlight", "0.5"))
        assert "--searchlight 0.5 is below a voxel" in said
        assert "relabellings" not in said  # before anything is tested

    def test_one_group_and_units_without_a_radius(self, refused, pairs):
        table = pd.read_csv(pairs / "labels.tsv", sep="\t")
        table.assign(run="r").to_csv(pairs / "labels.tsv", sep="\t", index=False)
        said = refused(*command(pairs, "--groups", "run", "--searchlight", "4"))
        assert "One group cannot be held out" in said
        assert "relabellings" not in said
        said = refused(*command(pairs, "--groups", "run", "--units", "rings"))
        assert "no effect without --searchlight" in said

    def test_an_atlas_on_another_grid(self, refused, pairs):
        save(np.ones((2, 2, 2), "i2"), pairs / "small.nii.gz")
        said = refused(*command(pairs, "--groups", "run", "--regions", pairs / "small.nii.gz"))
        assert "grid is 2 x 2 x 2" in said
