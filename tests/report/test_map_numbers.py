"""Numbers of maps, peaks, stock decoders and the checklist, made again from the files beside."""

import json
from dataclasses import replace

import nibabel
import numpy as np
import pandas as pd
import pytest
from tests.report.reading import Page, numbers, shown

from voxprior import Decoder, VoxelSpace
from voxprior.decoder.experiment import Experiment
from voxprior.decoder.local_maps import Places
from voxprior.decoder.stock import stock_decoders
from voxprior.images import Dataset
from voxprior.mapping import Atlas
from voxprior.validation import Result

SPACE = VoxelSpace.grid(
    (6, 5, 4), np.array([[6.0, 0, 0, -15], [0, 6, 0, -20], [0, 0, 6, 3], [0, 0, 0, 1]])
)
ATLAS = Atlas((SPACE.coordinates[:, 0] < 3) + 1, {1: "right half", 2: "left half"})


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    y, runs = np.tile(["face", "house"], 16), np.repeat(np.arange(8), 4)
    X = rng.normal(size=(32, 120)) + 1.2 * (y == "face")[:, None] * (np.arange(120) < 20)
    return Dataset(X.astype("f4"), y, SPACE, groups=runs)


@pytest.fixture(scope="module")
def written(data, tmp_path_factory):
    """Page and folder of a decoding with a tested map and stock decoders."""
    folder = tmp_path_factory.mktemp("decoded")
    decoder = Decoder("logistic")
    test = {"statistic": "t", "n_permutations": 199, "despite_floor": True}
    done = decoder.decode(
        data, atlas=ATLAS, mapping=lambda data, atlas: decoder.map(data, atlas=atlas, **test)
    )
    done.write(folder)
    return Page((folder / "report.html").read_text("utf-8")), folder


def number(text):
    return float(text.replace("−", "-").replace(",", ""))


def value_at(folder, stem, place):
    """Value of a map in the voxel nearest to a place in millimetres."""
    image = nibabel.load(folder / "maps" / f"{stem}.nii.gz")
    voxel = np.linalg.inv(image.affine) @ [*place, 1]
    return image.get_fdata()[tuple(np.round(voxel[:3]).astype(int))]


@pytest.mark.parametrize(("title", "stem"), [("Weights", "weights"), ("t", "where-statistic")])
def test_peaks_of_maps(written, title, stem):
    page, folder = written
    columns, *rows = page.folded[f"Peaks of {title}"]
    assert columns == ["x", "y", "z", "value", "region"]
    places = np.array([[number(cell) for cell in row[:3]] for row in rows])
    values = np.array([number(row[3]) for row in rows])
    known = nibabel.load(folder / "maps" / f"{stem}.nii.gz").get_fdata()
    found = [value_at(folder, stem, place) for place in places]
    np.testing.assert_allclose(values, found, rtol=0.006)
    assert abs(found[0]) == np.abs(known).max()
    assert (np.diff(np.abs(found)) <= 0).all()
    apart = np.linalg.norm(places[:, None] - places, axis=-1)[~np.eye(len(places), dtype=bool)]
    assert apart.min() >= 12
    assert [row[4] for row in rows] == [
        "left half" if x < 3 else "right half" for x in places[:, 0]
    ]


def test_the_tested_map(written):
    page, folder = written
    found = json.loads((folder / "map.json").read_text("utf-8"))
    kept = nibabel.load(folder / "maps" / "where-significant.nii.gz").get_fdata()
    n = int((kept != 0).sum())
    assert n == found["significant"] > 0
    assert f"{n} of 120 voxels are significant" in page.text["where"]
    assert f"p of the whole map {found['p_global']:.2g}." in page.text["where"]
    assert f"The smallest possible p is {found['smallest_p']:.2g}." in page.text["where"]
    for name in ("clusters", "peaks"):
        table = pd.read_csv(folder / f"{name}.tsv", sep="\t")
        (rows,) = [rows for rows in page.tables.values() if rows[0] == list(table.columns)]
        assert len(rows) == 1 + len(table)
        for row, (_, true) in zip(rows[1:], table.iterrows()):
            for cell, value in zip(row, true):
                if isinstance(value, str):
                    assert cell == value
                elif not np.isnan(value):
                    assert number(cell) == pytest.approx(value, rel=1e-3)


@pytest.mark.filterwarnings("ignore")
def test_the_stock_decoders(written, data):
    page, folder = written
    result = Result.from_json(folder / "result.json")
    known = Experiment(data, None, (), None, {"n_jobs": 1, "random_state": 0, "progress": False})
    (rows,) = [rows for rows in page.tables.values() if rows[0][0] == "decoder"]
    assert rows[1][1:] == [shown(value) for value in result.pooled().values()]
    assert len(rows) == 2 + len(stock_decoders("classifier"))
    for row, (name, model) in zip(rows[2:], stock_decoders("classifier").items()):
        again = known.evaluate(model).pooled()
        assert row[0] == name
        assert row[1] == shown(again["accuracy"])
        assert f"{name} {shown(again['accuracy'])}" in page.text["answer"]
        told = dict(zip(result.score_names, row[1:]))
        assert told["log_loss"] in ("-", shown(again["log_loss"]))


def test_the_checklist_and_tables(written):
    page, folder = written
    result = Result.from_json(folder / "result.json")
    settings = result.settings
    known = {str(settings[key]) for key in ("n_samples", "n_features", "n_groups", "n_folds")}
    known |= {str(count) for count in settings["class_counts"].values()}
    known |= {str(settings["random_state"]), "95"}
    known |= {shown(v) for row in page.tables["scores"][1:] for v in numbers_in(row)}
    known |= {"6", "5", "4"}  # the grid, and the size of its voxels
    for value in settings["parameters"].values():
        known |= numbers(str(value)) | ({f"{value:.6g}"} if isinstance(value, float) else set())
    versions = {v for text in page.tables["checklist"][-2] for v in text.split() if v[0].isdigit()}
    told = numbers(" ".join(cell for row in page.tables["checklist"] for cell in row))
    assert {one for one in told if not any(one in v for v in versions)} - known == set()
    assert (
        dict(page.tables["checklist"])["Metric"]
        == f"accuracy, {shown(result.pooled()['accuracy'])}"
    )


def numbers_in(row):
    return [float(part) for cell in row for part in cell.split(" to ") if is_number(part)]


def is_number(text):
    return text.replace(".", "", 1).isdigit()


def test_no_other_number_is_said_of_maps(written):
    page, folder = written
    found = json.loads((folder / "map.json").read_text("utf-8"))
    tables = [rows for name, rows in page.tables.items() if name not in ("scores", "checklist")]
    known = {one for rows in tables for row in rows for cell in row for one in numbers(cell)}
    known |= {str(found["significant"]), "120", f"{found['p_global']:.2g}", f"{found['level']:g}"}
    known |= {f"{found['smallest_p']:.2g}", "199", "200", "10", "1.3", "0.05", "2", "0.01"}
    known |= set().union(*(numbers(note) for note in found["notes"]))
    assert numbers(page.text["where"]) - known == set()
    assert numbers(page.text["maps"]) - known == set()


# ---------------------------------------------------------------- neighbourhoods and regions


def test_neighbourhoods_and_regions(data, tmp_path):
    decoder = Decoder()
    done = decoder.map(data, statistic="t", n_permutations=99, despite_floor=True)
    located = decoder.locate(data, Places(7.0, "mm", ATLAS), n_permutations=99)
    done = replace(done, located=located)
    done.write(tmp_path)
    page = Page((tmp_path / "report.html").read_text("utf-8"))
    found = json.loads((tmp_path / "map.json").read_text("utf-8"))
    light = found["searchlight"]
    score = nibabel.load(
        tmp_path / "maps" / f"searchlight-{light['name'].replace(' ', '-')}.nii.gz"
    )
    told = f"{light['n_significant']} of 120 neighbourhoods are significant"
    assert (told if light["n_significant"] else "No neighbourhood is") in page.text["searchlight"]
    assert (
        f"highest {light['name']} {np.nanmax(score.get_fdata()):.3f}." in page.text["searchlight"]
    )
    table = pd.read_csv(tmp_path / "regions.tsv", sep="\t")
    (rows,) = [rows for rows in page.tables.values() if rows[0] == list(table.columns)]
    for row, (_, true) in zip(rows[1:], table.iterrows(), strict=True):
        assert row[0] == true.iloc[0]
        for cell, value in zip(row[1:], true.iloc[1:]):
            assert number(cell) == pytest.approx(value, rel=1e-3)
    claimed = (table["p_fwer"] <= found["regions"]["level"]).sum()
    assert (f"{claimed} of {len(table)} regions are" if claimed else "No region is") in page.text[
        "regions"
    ]
