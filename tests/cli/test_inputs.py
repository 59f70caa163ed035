import nibabel
import numpy as np
import pandas as pd
import pytest
from nilearn.surface import InMemoryMesh, PolyData, PolyMesh

from voxprior.cli.arguments import files
from voxprior.cli.inputs import mesh, paired, read, refuse
from voxprior.cli.options import Preparation, Scans, Trials
from voxprior.errors import InputError
from voxprior.validation import Result


def test_hemispheres_are_paired_by_name():
    images = ["a_hemi-L.gii", "a_hemi-R.gii", "b_hemi-R.gii", "b_hemi-L.gii"]
    assert paired(images) == [
        {"left": "a_hemi-L.gii", "right": "a_hemi-R.gii"},
        {"right": "b_hemi-R.gii", "left": "b_hemi-L.gii"},
    ]
    freesurfer, hcp = ["x/lh.a.gii", "x/rh.a.gii"], ["lh/a.R.gii", "lh/a.L.gii"]
    assert paired(freesurfer) == [{"left": freesurfer[0], "right": freesurfer[1]}]
    assert paired(hcp) == [{"right": hcp[0], "left": hcp[1]}]
    with pytest.raises(InputError, match=r"does not name the hemisphere\. Expected hemi-L"):
        paired(["a.gii"])


def test_a_mesh_is_a_template_or_files():
    assert mesh(None) is None
    assert mesh(["fsaverage5"]) == "fsaverage5"
    both = {"left": "hemi-L.gii", "right": "hemi-R.gii"}
    assert mesh(["hemi-L.gii,hemi-R.gii"]) == mesh(["hemi-L.gii", "hemi-R.gii"]) == both


def test_patterns_become_files(tmp_path):
    for name in ("b.tsv", "a.tsv", "odd[1].tsv"):
        (tmp_path / name).touch()
    assert files([f"{tmp_path}/[ab].tsv"]) == [f"{tmp_path}/a.tsv", f"{tmp_path}/b.tsv"]
    assert files([f"{tmp_path}/odd[1].tsv", "later.tsv"]) == [f"{tmp_path}/odd[1].tsv", "later.tsv"]
    with pytest.raises(FileNotFoundError, match="no file matches"):
        files([f"{tmp_path}/*.csv"])


def test_options_without_effect_are_refused():
    refuse(Trials(), "delay", "unit", because="are for runs")
    with pytest.raises(ValueError, match=r"--delay, --confounds.*are for runs"):
        refuse(
            Trials(delay=5.0, confounds=["motion"]), "delay", "confounds", because="are for runs"
        )


def test_preparation_names_what_the_reader_takes():
    settings = Preparation(smoothing=4.0, detrend=True).settings()
    assert settings["smoothing_fwhm"] == 4.0
    assert "smoothing" not in settings


def test_a_column_called_label_is_found(maps):
    table = maps.parent / "labels.csv"
    frame = pd.read_csv(maps.parent / "participants.tsv", sep="\t")
    frame.rename(columns={"group": "label"}).to_csv(table, index=False)
    labelled = Scans([str(maps / "*.nii.gz")], labels=table)
    data = read(labelled, Trials(conditions=["ill"]), Preparation())
    assert set(data.y) == {"ill"}
    assert data.n_samples == 6


def test_unmatched_files_are_dropped_on_request(maps, capsys):
    (maps / "sub-01_map.nii.gz").unlink()
    table = maps.parent / "participants.tsv"
    labelled = Scans([str(maps / "*.nii.gz")], labels=table, label="group")
    with pytest.raises(ValueError, match="has no image"):
        read(labelled, Trials(), Preparation())
    labelled.unmatched = "drop"
    assert read(labelled, Trials(), Preparation()).n_samples == 11
    assert "warning: 1 left out" in capsys.readouterr().err


def test_confounds_come_from_tables(runs, mask, rng):
    for number in range(1, 5):
        drift = pd.DataFrame({"drift": rng.normal(size=24)})
        drift.to_csv(runs / f"run-{number}_confounds.tsv", sep="\t", index=False)
    labelled = Scans(
        [str(runs / "*_bold.nii.gz")], events=[str(runs / "*_events.tsv")], mask=str(mask)
    )
    clean = read(labelled, Trials(confounds=[str(runs / "*_confounds.tsv")]), Preparation())
    plain = read(labelled, Trials(), Preparation())
    assert clean.X.shape == plain.X.shape
    assert not np.allclose(clean.X, plain.X)
    with pytest.raises(ValueError, match="confounds"):
        read(labelled, Trials(confounds=["motion"]), Preparation())


def test_surfaces_are_decoded(run, tmp_path, rng, bare_report):
    corners = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    faces = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]])
    sides = {"left": InMemoryMesh(corners - 5, faces), "right": InMemoryMesh(corners + 5, faces)}
    PolyMesh(**sides).to_filename(tmp_path / "mesh.gii")
    meshes = sorted(tmp_path.glob("mesh*.gii"))
    assert len(meshes) == 2
    labels = np.tile(["ill", "well"], 6)
    for number, label in enumerate(labels):
        data = {side: rng.normal(size=4) + 3 * (label == "ill") for side in sides}
        PolyData(**{k: v.astype("f4") for k, v in data.items()}).to_filename(
            tmp_path / f"sub-{number:02d}.gii"
        )
    names = [f"sub-{number:02d}" for number in range(12)]
    table = tmp_path / "participants.tsv"
    pd.DataFrame({"participant_id": names, "label": labels}).to_csv(table, sep="\t", index=False)
    out = tmp_path / "out"
    result = run(
        "decode", *sorted(tmp_path.glob("sub-*.gii")), "--surface", *meshes,
        "--labels", table, "--model", "logistic", "--out", out,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert Result.from_json(out / "result.json").pooled()["accuracy"] > 0.8
    written = sorted(path.name for path in (out / "maps").iterdir())
    assert written == ["maps.tsv", "weights_hemi-L.gii", "weights_hemi-R.gii"]
    assert nibabel.load(out / "maps" / written[1]).agg_data().shape == (4,)
    again = run(
        "predict", out / "model.skops", *sorted(tmp_path.glob("sub-0[01]_*.gii")),
        "--surface", *meshes,
    )  # fmt: skip
    assert again.exit_code == 0, again.output
    assert again.stdout.count("\n") == 3
