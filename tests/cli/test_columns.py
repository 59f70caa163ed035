"""What a table says beside the label, and people with one map each, by the commands."""

import nibabel
import numpy as np
import pandas as pd
import pytest

N = 24


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Maps of noise, one per person, and their table."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for k in range(N):
        image = nibabel.Nifti1Image(rng.normal(5, 1, (4, 4, 3)).astype("f4"), np.eye(4))
        nibabel.save(image, f"sub-{k:02d}.nii.gz")
    group = np.repeat(["patient", "control"], N // 2)
    table = {"participant_id": [f"sub-{k:02d}" for k in range(N)], "group": group}

    def write(**columns):
        frame = pd.DataFrame(table | columns)
        frame.to_csv("participants.tsv", sep="\t", index=False, na_rep="n/a")
        files = [f"sub-{k:02d}.nii.gz" for k in range(N)]
        given = ["--labels", "participants.tsv", "--label", "group", "--mask", "data"]
        return [*files, *given, "--out", "out"]

    return write


SITE = np.repeat(["Oslo", "London"], N // 2)


@pytest.mark.parametrize("groups", [[], ["--groups", "participant_id"]])
@pytest.mark.parametrize("command", ["decode", "compare"])
def test_a_site_that_follows_the_label(study, run, command, groups):
    models = ["--models", "logistic"] if command == "compare" else ["--model", "logistic"]
    models += ["--repeats", 0] if command == "compare" else ["--no-stock"]
    done = run(command, *study(site=SITE), *models, *groups)
    assert done.exit_code == 0, done.output
    told = " ".join(done.output.split())
    assert "'site' follows the label exactly: the score cannot tell them apart" in told
    assert "'participant_id'" not in told
    assert "'group'" not in told
    assert "leave-one-out" not in told
    other = run(command, *study(site=np.tile(SITE[::12], N // 2)), *models, *groups)
    assert "labels-confounded]" not in other.output


def test_what_is_regressed_out_is_not_to_be_left_in(study, run):
    given = study(site=SITE)
    done = run("decode", *given, "--model", "logistic", "--covariates", "site", "--no-stock")
    told = " ".join(done.output.split())
    assert "a score without it is that of 'site'" in told
    assert "do not regress" not in told


@pytest.mark.parametrize("packed", [False, True])
def test_a_store_with_its_table(study, run, packed):
    """A store keeps no column that nothing uses, so the table is given again."""
    given = study(site=SITE)
    if packed:
        assert run("pack", *given[:-1], "study.zarr").exit_code == 0
        given = ["study.zarr", "--labels", "participants.tsv", "--label", "group", "--out", "out"]
    done = run("decode", *given, "--model", "logistic", "--no-stock")
    told = " ".join(done.output.split())
    assert done.exit_code == 0, told
    assert "'site' follows the label exactly" in told
    assert "'group' " not in told


@pytest.mark.parametrize("label", ["age", "weight"])
def test_numbers_too(study, run, label):
    age = np.random.default_rng(1).uniform(20, 80, N)
    given = study(age=age, weight=60 + age)
    given[given.index("group")] = label
    done = run("decode", *given, "--model", "ridge", "--no-stock")
    told = " ".join(done.output.split())
    other = {"age": "weight", "weight": "age"}[label]
    assert f"'{other}' follows the label exactly" in told
    assert f"'{label}'" not in told


def test_the_split_is_that_of_scans_without_groups(study, run, tmp_path):
    given = study()
    told = []
    for groups in ([], ["--groups", "participant_id"]):
        done = run("decode", *given, "--model", "logistic", "--no-stock", *groups)
        assert done.exit_code == 0, done.output
        found = pd.read_csv("out/predictions.tsv", sep="\t")
        told.append(found[["fold", "sample", "y_pred"]])
    assert told[0].equals(told[1])
    assert told[0]["fold"].nunique() == 5
