import json

from voxprior.registry import models


def test_all_are_listed(run):
    result = run("families", "--json")
    rows = {row["name"]: row for row in json.loads(result.output)}
    assert set(models()) == set(rows)
    assert rows["sharing"]["estimator"] == "FeatureSharingNB"
    assert "prior knowledge" in run("families").output


def test_parameters_of_one(run, run_json, refused):
    assert "connectivity :" in run("families", "sharing").output
    assert run_json("families", "logistic")["parameters"]["C"] == "1.0"
    assert "no model" in refused("families", "best")
