"""Noise of people with one map each scores like noise, by whatever command it is decoded."""

import json

import nibabel
import numpy as np
import pandas as pd
import pytest

N_STUDIES, N_PEOPLE = 20, 24


def study(folder, seed):
    rng = np.random.default_rng(seed)
    folder.mkdir()
    for person in range(N_PEOPLE):
        values = rng.normal(size=(4, 4, 4)).astype("f4")
        nibabel.Nifti1Image(values, np.eye(4)).to_filename(folder / f"sub-{person:02d}_map.nii")
    table = pd.DataFrame(
        {
            "participant_id": [f"sub-{person:02d}" for person in range(N_PEOPLE)],
            "group": np.tile(["control", "patient"], N_PEOPLE // 2),
        }
    )
    table.to_csv(folder / "people.tsv", sep="\t", index=False)
    maps = sorted(str(path) for path in folder.glob("*.nii"))
    return [*maps, "--labels", folder / "people.tsv", "--label", "group"]


def accuracy(command, found):
    if command == "decode":
        return found["scores"]["accuracy"]["value"]
    return np.mean([row["accuracy"] for row in found["models"]])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("groups", [[], ["--groups", "participant_id"]], ids=["alone", "grouped"])
@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("decode", ["--model", "auto", "--no-stock"]),
        ("compare", ["--models", "auto,naive-bayes", "--no-curve"]),
    ],
)
def test_the_mean_accuracy_is_near_one_half(run, tmp_path, bare_report, command, options, groups):
    found = []
    for seed in range(N_STUDIES):
        asked = study(tmp_path / f"study{seed}", seed)
        out = ["--out", tmp_path / f"out{seed}"]
        done = run(command, *asked, *groups, *options, *out, "--json")
        assert done.exit_code == 0, done.output
        found.append(accuracy(command, json.loads(done.stdout)))
    assert 0.4 < np.mean(found) < 0.6
