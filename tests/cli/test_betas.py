"""Betas by the command: one 4-D file or many 3-D files, and new runs with their groups."""

import nibabel
import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import SHAPE, save

from voxprior import Decoder

RUNS, FINGERS = np.repeat([1, 2, 3, 4], 6), np.tile(["thumb", "index"], 12)


@pytest.fixture
def betas(tmp_path):
    """betas.nii.gz with betas.tsv, and the same as con_0001.nii and so on with con.csv."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(24, *SHAPE)) + 5 * rng.normal(size=(4, *SHAPE))[RUNS - 1]
    values[FINGERS == "thumb", 2] += 1.5
    values = values.astype("f4")
    save(np.moveaxis(values, 0, -1), tmp_path / "betas.nii.gz")
    table = pd.DataFrame({"Finger": FINGERS, "RUN": RUNS})
    table.to_csv(tmp_path / "betas.tsv", sep="\t", index=False)
    for number, one in enumerate(values, start=1):
        save(one, tmp_path / "con" / f"con_{number:04d}.nii")
    table.insert(0, "Image", [f"{number:04d}.img" for number in range(1, 25)])
    table.to_csv(tmp_path / "con.csv", index=False)
    return tmp_path


def test_one_file_and_many_give_the_same(run_json, betas, bare_report):
    options = ["--label", "finger", "--model", "gp"]
    one = run_json(
        "decode", betas / "betas.nii.gz", "--labels", betas / "betas.tsv", *options,
        "--out", betas / "one",
    )  # fmt: skip
    many = run_json(
        "decode", betas / "con" / "*.nii", "--labels", betas / "con.csv", *options,
        "--out", betas / "many",
    )  # fmt: skip
    assert one["scores"] == many["scores"]
    assert one["split"] == "LeaveOneGroupOut()"
    assert one["scores"]["accuracy"]["value"] > 0.8
    assert one["decisions"][0] == "Scans were grouped by the column 'RUN'."
    assert "had the mean of its group subtracted" in one["decisions"][2]


class TestPrediction:
    @pytest.fixture
    def model(self, betas):
        data = Decoder("sharing")
        images = sorted((betas / "con").glob("*.nii"))
        return data.fit(images[:18], FINGERS[:18], RUNS[:18]).save(betas / "model.skops")

    @pytest.fixture
    def new(self, betas):
        return sorted((betas / "con").glob("*.nii"))[18:]

    def test_a_run_is_centred_by_its_own_maps(self, run_json, model, new, betas):
        table = betas / "new.tsv"
        pd.DataFrame({"file": [path.name for path in new], "run": 9}).to_csv(
            table, sep="\t", index=False
        )
        found = run_json("predict", model, *new, "--groups", table)
        assert [row["prediction"] for row in found] == FINGERS[18:].tolist()
        # A 4-D file is a group, and rows of other runs in the table do not matter.
        values = np.stack([nibabel.load(p).get_fdata() for p in new], axis=-1)
        series = save(values.astype("f4"), betas / "new.nii.gz")
        as_series = run_json("predict", model, series)
        assert [row["p_thumb"] for row in as_series] == pytest.approx(
            [row["p_thumb"] for row in found], rel=1e-6
        )
        by_rows = betas / "rows.tsv"
        by_rows.write_text("Runs\n" + "9\n" * 6)
        assert run_json("predict", model, series, "--groups", by_rows) == as_series

    def test_what_has_no_group_is_warned_about(self, run, model, new, betas):
        result = run("predict", model, *new)
        assert result.exit_code == 0
        assert "6 of 6 scans have no group" in result.output
        assert "Give --groups, with all scans of each" in result.output
        table = betas / "new.tsv"
        lines = [f"{path.stem}\t{'n/a' if i == 2 else 9}" for i, path in enumerate(new)]
        table.write_text("\n".join(["file\trun", *lines[:5]]))
        assert "2 of 6 scans have no group" in run("predict", model, *new, "--groups", table).output

    def test_tables_without_a_group_are_refused(self, refused, model, new, betas):
        table = betas / "new.tsv"
        table.write_text("file\tdx\tage\nx\ty\t1\n")
        line = refused("predict", model, *new, "--groups", table)
        assert "one column must name the group of each map, for instance 'run'" in line

    def test_groups_that_would_have_no_effect_are_refused(self, refused, run, betas, new):
        images = sorted((betas / "con").glob("*.nii"))
        model = Decoder("sharing", standardize="train").fit(images, FINGERS)
        path = model.save(betas / "plain.skops")
        line = refused("predict", path, *new, "--groups", betas / "con.csv")
        assert "the model does not centre maps by group" in line
        more = ["--groups", betas / "con.csv", "--volume-labels", betas / "betas.tsv"]
        assert "--groups: would have no effect; it is for maps" in refused(
            "predict", path, betas / "betas.nii.gz", *more
        )


def test_words(refused, betas):
    """Messages name options of the command."""
    maps, out = str(betas / "con" / "*.nii"), ["--out", betas / "out"]
    labels = ["--labels", betas / "con.csv", "--label", "finger"]
    line = refused("decode", maps, *labels, "--standardize", "run", *out)
    assert "--standardize run needs 4-D runs" in line
    assert "Set --standardize group for maps of several runs, or --standardize train" in line
    assert "--scale mean is not a choice" in refused(
        "decode", maps, *labels, "--scale", "mean", *out
    )
    line = refused("decode", maps, *labels, "--scale", "global", *out)
    assert "--scale global cannot divide by it" in line
    betas.joinpath("few.csv").write_text("name,finger\n0001,thumb\n")
    line = refused("decode", maps, "--labels", betas / "few.csv", "--label", "finger", *out)
    assert "Say which column does by --key" in line
    line = refused(
        "decode", betas / "betas.nii.gz", "--labels", betas / "few.csv", "--label", "finger", *out
    )
    assert "betas.nii.gz: has 24 volumes, but" in line
    assert "has 1 rows for it. Expected one row per volume. Say by --key" in line
