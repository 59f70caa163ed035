"""`decode --dry-run` says what decode would do, and leaves nothing behind."""

import shutil

import pytest
from tests.cli.test_schema import check


def listed(folder):
    return {path: path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]}


def of_runs(runs):
    events = ["--events", runs / "run-*_events.tsv", "--conditions", "face,house", "--mask", "data"]
    return [runs / "run-*_bold.nii.gz", *events]


@pytest.mark.parametrize("kind", ["study", "runs"])
def test_nothing_is_written(run, request, kind, tmp_path, monkeypatch):
    given = request.getfixturevalue(kind)
    call = of_runs(given) if kind == "runs" else given
    monkeypatch.chdir(tmp_path)
    before = listed(tmp_path)
    result = run("decode", *call, "--model", "logistic", "--permutations", 99, "--curve", "--out",
                 tmp_path / "new" / "out", "--dry-run")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert listed(tmp_path) == before
    for said in ("nothing was written", "Model: logistic", "Scans per class: ", "Audit: ",
                 "smallest possible p", "Estimate, from fits"):  # fmt: skip
        assert said in " ".join(result.output.split())


def test_an_older_output_stays_as_it_is(run, study, mask, tmp_path, bare_report):
    call = ["decode", *study, "--mask", mask, "--model", "logistic", "--out", tmp_path / "out"]
    assert run(*call).exit_code == 0
    before = listed(tmp_path)
    assert run(*call, "--dry-run").exit_code == 0
    assert listed(tmp_path) == before


def test_it_is_json_for_programs(run_json, study, mask, tmp_path):
    call = ["decode", *study, "--mask", mask, "--model", "logistic", "--out", tmp_path / "out"]
    found = run_json(*call, "--dry-run", "--permutations", 9)
    check(found, "plan")
    assert found["class_counts"] == {"ill": 6, "well": 6}
    assert found["permutation"]["smallest_p"] == 0.1


def test_what_would_stop_decode_stops_it_after_the_plan(run, study, maps, mask, tmp_path):
    shutil.copy(maps / "sub-01_map.nii.gz", maps / "sub-02_map.nii.gz")
    call = ["decode", *study, "--mask", mask, "--model", "logistic", "--out", tmp_path / "out"]
    planned = run(*call, "--dry-run")
    assert planned.exit_code == run(*call).exit_code == 2
    assert "Scans per class: ill 6, well 6." in planned.output
    assert "--allow" in planned.output


def test_what_decode_refuses_a_dry_run_refuses(refused, study, mask, tmp_path):
    others = tmp_path / "others"
    others.mkdir()
    (others / "thesis.txt").write_text("mine")
    call = ["decode", *study, "--mask", mask, "--dry-run", "--out"]
    assert "is not empty" in refused(*call, others)
    assert "a file has that name" in refused(*call, others / "thesis.txt")
    assert "is read" in refused(*call, mask)
    told = refused(*call, tmp_path / "out", "--positive", "neither")
    assert "--positive" in told


def test_what_the_plan_leaves_out_is_named(run, study, mask, tmp_path):
    call = ["decode", *study, "--mask", mask, "--model", "logistic", "--out", tmp_path / "out"]
    assert "the plan is without --map," in run(*call, "--dry-run", "--map").output
    assert "the plan is without" not in run(*call, "--dry-run").output
