"""`voxprior pack`, and other commands on what it wrote."""

import pickle
import shutil

import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import SHAPE, save
from tests.hostile_stores import CHUNK, HOSTILE, exchanged, good_store

from voxprior import max_memory
from voxprior.blocks import BlockedScans
from voxprior.images import chunks, load_maps
from voxprior.validation.cluster import Sent


@pytest.fixture
def study(tmp_path):
    """Sixteen maps in four runs; dogs are above cats in the first slab."""
    rng, rows = np.random.default_rng(0), []
    for i in range(16):
        values = rng.normal(size=SHAPE) + 9
        values[0] += 3.0 * (i % 2)
        save(values.astype("f4"), tmp_path / "maps" / f"s{i:02}.nii.gz")
        rows.append({"file": f"s{i:02}", "label": ["cat", "dog"][i % 2], "run": f"r{i // 4}"})
    pd.DataFrame(rows).to_csv(tmp_path / "labels.tsv", sep="\t", index=False)
    return tmp_path


def pack(study, *more):
    images = sorted((study / "maps").iterdir())
    labels = ["--labels", study / "labels.tsv", "--groups", "run"]
    return ["pack", *images, *labels, "--out", study / "study.zarr", *more]


def test_commands_take_the_store(run, run_json, refused, study):
    packed = run_json(*pack(study))
    assert (packed["scans"], packed["voxels"]) == (16, np.prod(SHAPE))
    assert not (study / ".study.zarr.lock").exists()
    store = study / "study.zarr"
    assert "holds 16 packed scans already" in refused(*pack(study))
    decoded = run_json("decode", store, "--out", study / "a", "--no-stock", "--max-memory", "9GB")
    images = pack(study)[1:-2]
    same = run_json("decode", *images, "--out", study / "b", "--no-stock")
    assert decoded["scores"] == same["scores"]
    model = study / "a" / "model.skops"
    assert len(run_json("predict", model, store)) == 16
    assert run_json("map", store, "--out", study / "c", "--permutations", 20)["clusters"]
    given = ["--labels", study / "labels.tsv", "--conditions", "cat,dog"]
    compared = ["compare", store, *given, "--models", "gp", "--repeats", 0]
    assert run(*compared, "--out", study / "d").exit_code == 0


def test_a_model_whose_scans_are_too_many_is_left_out_with_a_warning(run, study):
    assert run(*pack(study)).exit_code == 0
    size = 16 * np.prod(SHAPE) * 4
    call = ["decode", study / "study.zarr", "--model", "gp", "--no-stock", "--max-memory", size]
    result = run(*call, "--out", study / "a")
    assert result.exit_code == 0, result.output
    told = [line for line in result.output.splitlines() if line.startswith("warning: ")]
    assert any("model.skops" in line for line in told), result.output
    assert not (study / "a" / "model.skops").exists()
    for name in ("result.json", "predictions.tsv", "report.html"):
        assert (study / "a" / name).exists()


def test_workers_read_a_large_store_themselves(run, study):
    assert run(*pack(study)).exit_code == 0
    with max_memory(1000):
        scans = load_maps(study / "study.zarr").X
        sent = pickle.dumps(Sent([scans]), protocol=5)
        (received,) = pickle.loads(sent).arguments
        assert isinstance(received, BlockedScans)
        np.testing.assert_array_equal(received[:, 3:9], scans[:, 3:9])
    values = scans[:, :].tobytes()
    assert not any(values[k : k + 64] in sent for k in range(0, len(values), 64))


def test_what_is_refused(refused, study):
    told = refused(*pack(study), "--events", study / "labels.tsv")
    assert "--events: would have no effect" in told
    told = refused("pack", study / "maps" / "s00.nii.gz", "--label", "x", "--out", study / "a.zarr")
    assert "--label: would have no effect; these options need --labels" in told
    assert "ends in .zarr" in refused(*pack(study)[:-1], study / "study")
    empty = study / "empty.zarr"
    empty.mkdir()
    assert "is not a packed study" in refused("decode", empty, "--out", study / "o")
    told = refused("decode", empty, "--key", "file", "--out", study / "o")
    assert "--key: would have no effect" in told
    assert "is not a size" in refused("decode", empty, "--out", study / "o", "--max-memory", "x")


def test_text_for_people(run, study):
    done = run(*pack(study))
    assert done.exit_code == 0, done.output
    assert "16 scans of" in done.output
    one_sample = ["map", study / "study.zarr", "--one-sample", "--despite-floor"]
    assert run(*one_sample, "--out", study / "m").exit_code == 0


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK", CHUNK)
        yield good_store(tmp_path_factory.mktemp("study"))


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_a_changed_store_is_refused_by_the_command(refused, good, tmp_path, change):
    store = shutil.copytree(good, tmp_path / "s.zarr")
    change(store)
    told = refused("map", store, "--one-sample", "--despite-floor", "--out", tmp_path / "out")
    assert "s.zarr" in told
    assert [path for path in tmp_path.iterdir() if path.name not in ("s.zarr", "elsewhere")] == []


COMMANDS = {
    "decode": ["--no-stock", "--model", "gp"],
    "compare": ["--models", "gp", "--repeats", 0],
    "map": ["--one-sample", "--despite-floor"],
}


@pytest.mark.parametrize("limit", ["5KB", "1GB"])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_reads_a_chunk_in_the_place_of_another(refused, good, tmp_path, command, limit):
    store = shutil.copytree(good, tmp_path / "s.zarr")
    exchanged(store)
    call = [command, store, *COMMANDS[command], "--max-memory", limit, "--out", tmp_path / "out"]
    assert "is damaged (it is not what was packed at this place)" in refused(*call)
    assert not (tmp_path / "out").exists()
