"""What programs read obeys the schema that is shipped with the package."""

import json
from importlib.resources import files

import jsonschema
import pytest
from tests.cli.test_demo import SMALL

from voxprior.cli.terminal import JSON_VERSION
from voxprior.simulate import scenes
from voxprior.validation.result import SCHEMA_VERSION

SCHEMA = json.loads(files("voxprior.output").joinpath("schema.json").read_text("utf-8"))


def check(content, name):
    jsonschema.validate(content, {"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]})


@pytest.fixture
def checked(run_json):
    """Run a command with --json and check what it printed."""

    def call(command, *arguments):
        content = run_json(command, *arguments)
        check(content, command)
        return content

    return call


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    parts = SCHEMA["$defs"]
    versions = {
        name: part["properties"]["schema_version"]["const"]
        for name, part in parts.items()
        if "schema_version" in part.get("properties", {})
    }
    assert versions.pop("result") == SCHEMA_VERSION
    assert set(versions.values()) == {JSON_VERSION}


def test_decode_and_predict(checked, study, mask, tmp_path, bare_report):
    out = tmp_path / "out"
    options = ["--mask", mask, "--model", "logistic", "--permutations", 3, "--out", out]
    checked("decode", *study, *options)
    result = json.loads((out / "result.json").read_text())
    check(result, "result")
    del result["checks"]
    with pytest.raises(jsonschema.ValidationError, match="checks"):
        check(result, "result")
    checked("predict", out / "model.skops", study[0])


def test_numbers(checked, maps, mask, tmp_path, bare_report):
    table = maps.parent / "participants.tsv"
    options = ["--labels", table, "--label", "age", "--mask", mask, "--model", "ridge"]
    checked("decode", str(maps / "*.nii.gz"), *options, "--out", tmp_path / "out")
    check(json.loads((tmp_path / "out" / "result.json").read_text()), "result")


def test_compare_and_map(checked, study, mask, tmp_path, bare_report):
    options = ["--mask", mask, "--out", tmp_path / "compared"]
    checked("compare", *study, *options, "--models", "logistic,naive-bayes", "--repeats", 0)
    checked("map", *study, "--mask", mask, "--out", tmp_path / "map")


def test_bids(checked, bids, tmp_path, bare_report):
    for level in ("participant", "group"):
        out = [bids, tmp_path / "out", level, "--task", "faces", "--model", "logistic"]
        checked("bids", *out)


def test_pack(checked, study, mask, tmp_path):
    checked("pack", *study, "--mask", mask, "--out", tmp_path / "study.zarr")


def test_families(checked):
    checked("families")
    checked("families", "sharing")


def test_demo(checked, tmp_path, bare_report, monkeypatch):
    monkeypatch.setattr(scenes, "SCENES", SMALL[:1])
    checked("demo", "--out", tmp_path / "out", "--seeds", 2, "--jobs", 1)
