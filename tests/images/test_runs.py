"""Runs with events or labels, confounds and scrubbing, to a Dataset."""

import json
from pathlib import Path

import nibabel
import numpy as np
import pandas as pd
import pytest

from voxprior.errors import InputError
from voxprior.images import load_runs, read_confounds

LABELS = ["rest"] * 2 + ["face"] * 3 + ["rest"] * 2 + ["house"] * 3
LABELS = LABELS * 2  # 20 volumes


def raw_rows(path, mask_path):
    mask = np.asarray(nibabel.load(mask_path).dataobj) > 0
    return nibabel.load(path).get_fdata()[mask].T


def zscore(rows, by=slice(None)):
    return (rows - rows[by].mean(axis=0)) / rows[by].std(axis=0)


def test_block_means_of_a_standardised_run(run_path, mask_path):
    data = load_runs(run_path, labels=LABELS, mask=mask_path)
    Z = zscore(raw_rows(run_path, mask_path))
    expected = [Z[2:5].mean(0), Z[7:10].mean(0), Z[12:15].mean(0), Z[17:20].mean(0)]
    np.testing.assert_allclose(data.X, expected, atol=1e-5)
    assert data.X.dtype == np.float32
    assert data.y.tolist() == ["face", "house", "face", "house"]
    assert data.standardize == "run"
    assert data.groups is None
    assert data.names[0].endswith("volumes 2 to 4, face")


def test_baseline_is_the_rest_volumes(run_path, mask_path):
    data = load_runs(run_path, labels=LABELS, mask=mask_path, standardize="baseline")
    rest = np.array(LABELS) == "rest"
    Z = zscore(raw_rows(run_path, mask_path), rest)
    np.testing.assert_allclose(data.X[0], Z[2:5].mean(axis=0), atol=1e-5)
    chosen = load_runs(
        run_path, labels=LABELS, mask=mask_path, standardize="baseline", conditions=["house"]
    )
    np.testing.assert_array_equal(chosen.X, data.X[data.y == "house"])


def test_events_and_labels_agree(run_path, mask_path, tmp_path):
    path = tmp_path / "events.tsv"
    rows = [(4, 6, "face"), (14, 6, "house"), (24, 6, "face"), (34, 6, "house")]
    table = pd.DataFrame(rows, columns=["onset", "duration", "trial_type"])
    table.to_csv(path, sep="\t", index=False)
    (everything,) = load_runs(run_path, str(tmp_path / "ev*.tsv"), mask=mask_path).y[None]
    assert everything.tolist() == ["face", "house", "face", "house"]
    for standardize in ("run", "baseline"):
        options = {"mask": mask_path, "standardize": standardize}
        by_labels = load_runs(run_path, labels=LABELS, **options)
        by_events = load_runs(run_path, path, **options)
        np.testing.assert_array_equal(by_labels.X, by_events.X)
    holed = table.assign(trial_type=["face", None, "face", "house"])
    for conditions in (None, ["face", "house"]):
        data = load_runs(run_path, holed, mask=mask_path, conditions=conditions)
        assert data.y.tolist() == ["face", "face", "house"]
        assert data.dropped[0].endswith("event at volume 7: no label")
    unknown = load_runs(
        run_path, table.drop(columns="trial_type"), mask=mask_path, label_column=None
    )
    assert unknown.y is None
    assert unknown.n_samples == 4


def test_windows_with_a_delay(run_path, mask_path):
    data = load_runs(run_path, labels=LABELS, mask=mask_path, unit="window", window=3, delay=2.0)
    Z = zscore(raw_rows(run_path, mask_path))
    assert data.n_times == 3
    np.testing.assert_allclose(data.X.reshape(3, 3, -1)[0], Z[3:6], atol=1e-5)
    assert len(data.dropped) == 1  # the last one ends a volume past the run
    assert "past the end" in data.dropped[0]


def test_several_runs_become_groups(run_path, save, mask_path, rng):
    second = save(
        rng.normal(100, 5, size=(5, 4, 3, 20)), "sub-01_task-x_run-2_bold.nii.gz", t_r=2.0
    )
    data = load_runs([run_path, second], labels=[LABELS, LABELS], mask=mask_path)
    assert (
        data.groups.tolist() == ["sub-01_task-x_run-1_bold"] * 4 + ["sub-01_task-x_run-2_bold"] * 4
    )
    assert data.blocks.tolist() == list(range(8))
    alone = load_runs(second, labels=LABELS, images=data.images)
    np.testing.assert_array_equal(alone.X, data.X[4:])  # a run is the same alone
    subjects = load_runs(
        [run_path, second], labels=[LABELS] * 2, mask=mask_path, groups=["p1", "p2"]
    )
    assert subjects.groups.tolist() == ["p1"] * 4 + ["p2"] * 4


def test_volumes_carry_their_block_as_group(run_path, mask_path):
    data = load_runs(run_path, labels=LABELS, mask=mask_path, unit="volume")
    assert data.n_samples == 12
    np.testing.assert_array_equal(data.groups, np.repeat([0, 1, 2, 3], 3))
    np.testing.assert_array_equal(data.blocks, data.groups)
    table = pd.DataFrame({"labels": LABELS, "run": [1] * 10 + [2] * 10})
    several = load_runs(run_path, labels=table, mask=mask_path, unit="volume")
    np.testing.assert_array_equal(several.groups, np.repeat([1, 2], 6))
    np.testing.assert_array_equal(several.blocks, np.repeat([0, 1, 2, 3], 3))
    blocks = load_runs(run_path, labels=table, mask=mask_path, unit="volume", group_by="block")
    np.testing.assert_array_equal(blocks.groups, several.blocks)


def test_train_leaves_the_values(run_path, mask_path):
    data = load_runs(run_path, labels=LABELS, mask=mask_path, unit="volume", standardize="train")
    raw = raw_rows(run_path, mask_path)[np.array(LABELS) != "rest"]
    np.testing.assert_array_equal(data.X, raw.astype(np.float32))
    assert data.standardize == "train"


def test_confounds_are_regressed_out(save, mask_path, rng):
    drift = rng.normal(size=20)
    values = rng.normal(500, 1, size=(5, 4, 3, 20)) + 50 * drift
    path = save(values, "run.nii.gz", t_r=2.0)
    options = {"labels": LABELS, "mask": mask_path, "unit": "volume", "standardize": "none"}
    dirty = load_runs(path, **options)
    clean = load_runs(path, confounds=pd.DataFrame({"drift": drift}), **options)
    assert clean.X.std() < 0.1 * dirty.X.std()
    with pytest.raises(ValueError, match=r"run.nii.gz: has 20 volumes but its confounds have 19"):
        load_runs(path, confounds=drift[:19, None], **options)
    with pytest.raises(ValueError, match="missing values in drift"):
        load_runs(path, confounds=pd.DataFrame({"drift": [np.nan, *drift[1:]]}), **options)


@pytest.fixture
def fmriprep(save, tmp_path, rng):
    """A run in an fMRIPrep folder whose volume 8 moved."""
    stem = "sub-01_task-x_run-1"
    values = rng.normal(500, 5, size=(5, 4, 3, 20))
    name = f"{stem}_space-MNI152NLin2009cAsym_desc-preproc_bold.nii.gz"
    path = save(values.astype(np.float32), name, t_r=2.0)
    axes = ["trans_x", "trans_y", "trans_z", "rot_x", "rot_y", "rot_z"]
    table = pd.DataFrame(rng.normal(size=(20, 6)), columns=axes)
    table["framewise_displacement"] = [np.nan, *[0.1] * 19]
    table.loc[8, "framewise_displacement"] = 3.0
    table["std_dvars"] = [np.nan, *[1.0] * 19]
    table.to_csv(
        tmp_path / f"{stem}_desc-confounds_timeseries.tsv", sep="\t", index=False, na_rep="n/a"
    )
    (tmp_path / f"{stem}_desc-confounds_timeseries.json").write_text(json.dumps({}))
    return path


SCRUB = {"strategy": ("motion", "scrub"), "motion": "basic", "scrub": 0}


def test_fmriprep_confounds_and_scrubbing(fmriprep, mask_path):
    found = read_confounds(fmriprep, **SCRUB)
    assert list(np.flatnonzero(~found.kept)) == [8]
    assert len(found.table) == 20
    data = load_runs(fmriprep, labels=LABELS, mask=mask_path, confounds=SCRUB)
    assert data.y.tolist() == ["face", "face", "house"]
    assert len(data.dropped) == 1
    assert data.dropped[0].endswith("volumes 7 to 9, house: 1 volumes scrubbed")
    volumes = load_runs(fmriprep, labels=LABELS, mask=mask_path, confounds=SCRUB, unit="volume")
    assert volumes.n_samples == 11
    # Statistics are those of the kept volumes, and motion is orthogonal to what is left.
    every = load_runs(fmriprep, labels=["a"] * 20, mask=mask_path, confounds=SCRUB, unit="volume")
    np.testing.assert_allclose(every.X.mean(axis=0), 0, atol=1e-5)
    motion = found.table.to_numpy()[found.kept]
    motion = motion - motion.mean(axis=0)
    np.testing.assert_allclose(motion.T @ every.X, 0, atol=1e-3)


def twice(rows):
    return [[*row, cell] for row, cell in zip(rows, ["rot_z", *(row[0] for row in rows[1:])])]


def with_cell(text):
    return lambda rows: [[text if i == 6 else row[0], *row[1:]] for i, row in enumerate(rows)]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (twice, "column 'rot_z' stands there twice"),
        (with_cell("abc"), "column 'trans_x' of the confounds holds words"),
        (with_cell("1e308"), "column 'trans_x' of the confounds holds"),
        (with_cell("-inf"), "column 'trans_x' of the confounds holds"),
        (with_cell("n/a"), "confounds have missing values in trans_x"),
        (with_cell('"1'), "quotation mark"),
    ],
)
def test_fmriprep_confounds_that_cannot_be_used_are_refused(fmriprep, change, told):
    (path,) = Path(fmriprep).parent.glob("*_timeseries.tsv")
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    path.write_text("".join("\t".join(row) + "\n" for row in change(rows)))
    with pytest.raises(InputError, match=told):
        read_confounds(fmriprep, ("motion",), motion="basic")


def test_missing_fmriprep_confounds_name_the_file(run_path, mask_path, fmriprep):
    with pytest.raises(ValueError, match=r"run-1_bold.nii.gz: no usable fMRIPrep confounds"):
        load_runs(run_path, labels=LABELS, mask=mask_path, confounds={"strategy": ("motion",)})
    with pytest.raises(ValueError, match="Give paths, not images"):
        load_runs(
            nibabel.load(run_path),
            labels=LABELS,
            mask=mask_path,
            confounds={"strategy": ("motion",)},
        )
    with pytest.raises(
        ValueError, match=r"preproc_bold.nii.gz: no usable fMRIPrep confounds: .*csf"
    ):
        read_confounds(fmriprep, strategy=("wm_csf",))
    with pytest.raises(ValueError, match="Expected at least one noise component"):
        read_confounds(fmriprep, strategy=())


def test_bad_input(run_path, maps, mask_path, save, rng):
    options = {"mask": mask_path}
    with pytest.raises(ValueError, match=r"sub-01_map.nii.gz: is not a 4-D run"):
        load_runs(maps[0][0], labels=["a"], **options)
    with pytest.raises(ValueError, match=r"has 19 labels .* 20 volumes: images without labels"):
        load_runs(run_path, labels=LABELS[1:], **options)
    with pytest.raises(ValueError, match="2 runs but 1 tables: images without labels"):
        load_runs([run_path, run_path], labels=[LABELS], **options)
    with pytest.raises(ValueError, match="1 runs but 2 tables: labels without images"):
        load_runs(run_path, ["a.tsv", "b.tsv"], **options)
    with pytest.raises(ValueError, match=r"events .* or labels .* neither is there"):
        load_runs(run_path, **options)
    with pytest.raises(
        ValueError, match=r"conditions=\['tree'\]: .* no trial .* among face, house"
    ):
        load_runs(run_path, labels=LABELS, conditions=["face", "tree"], **options)
    late = ["rest"] * 2 + ["face"] * 4 + ["rest"] * 12 + ["house"] * 2
    chosen = {"conditions": ["face", "house"], "unit": "window", "window": 4}
    with pytest.raises(ValueError, match=r"No trial is left of 'house': .* past the end"):
        load_runs(run_path, labels=late, **chosen, **options)
    with pytest.raises(ValueError, match="No trial is left: no block has a wanted label"):
        load_runs(run_path, labels=["rest"] * 20, **options)
    with pytest.raises(ValueError, match=r"unit='window' needs .* Give window"):
        load_runs(run_path, labels=LABELS, unit="window", **options)
    with pytest.raises(ValueError, match=r"unit='\w+' is not a choice. Expected one of"):
        load_runs(run_path, labels=LABELS, unit="trial", **options)
    timeless = save(rng.normal(size=(5, 4, 3, 20)), "timeless.nii.gz", t_r=0.0)
    with pytest.raises(ValueError, match=r"timeless.nii.gz: onsets and delays .* Give t_r"):
        load_runs(timeless, labels=LABELS, delay=4.0, **options)
    data = load_runs(run_path, labels=LABELS, **options)
    with pytest.raises(ValueError, match=r"settings of its own. Leave out mask"):
        load_runs(run_path, labels=LABELS, images=data.images, **options)
    everything = ["a", "b"] * 10
    with pytest.raises(ValueError, match=r"at least 2 rest volumes. Got 0"):
        load_runs(run_path, labels=everything, standardize="baseline", **options)
