"""Many participants from Python: runs by name, each one alone, the group."""

import json
import shutil
from dataclasses import replace

import nibabel
import pytest
from sklearn.linear_model import LogisticRegression

from voxprior import Decoder
from voxprior.errors import InputError
from voxprior.study import Study, find_derivatives, find_runs, find_subjects
from voxprior.study.participants import are_tasks
from voxprior.validation import Cluster, Result

SPACE = "MNI152NLin2009cAsym"


def test_runs_are_found_by_name(bids):
    folder = find_derivatives(bids, None)
    assert folder == bids / "derivatives" / "fmriprep"
    assert find_subjects(folder, []) == ["01", "02", "03"]
    assert find_subjects(folder, ["sub-02"]) == ["02"]
    runs = find_runs(bids, folder, "01", "faces", SPACE)
    assert [run.bold.name.split("_")[2] for run in runs] == ["run-1", "run-2", "run-3"]
    assert all(run.mask.name.endswith("_desc-brain_mask.nii.gz") for run in runs)
    assert [run.events.name for run in runs] == [
        f"sub-01_task-faces_run-{n}_events.tsv" for n in (1, 2, 3)
    ]
    assert {run.t_r for run in runs} == {2.0}


def test_sessions_shared_events_and_resolutions(bids):
    folder = find_derivatives(bids, None)
    func = folder / "sub-01" / "func"
    session = folder / "sub-04" / "ses-a" / "func"
    session.mkdir(parents=True)
    bold = next(func.glob("*run-1*_bold.nii.gz"))
    name = (
        f"sub-04_ses-a_task-faces_contrast-faceHouse_space-{SPACE}_res-2_desc-preproc_bold.nii.gz"
    )
    shutil.copy(bold, session / name)
    with pytest.raises(FileNotFoundError, match=r"sub-04_ses-a_task-faces_events.tsv"):
        find_runs(bids, folder, "04", "faces", SPACE)
    shared = bids / "task-faces_events.tsv"
    shared.write_text("onset\tduration\n")
    (run,) = find_runs(bids, folder, "04", "faces", f"{SPACE}:res-2")
    assert run.events == shared
    assert run.mask is None
    assert run.t_r is None
    shutil.copy(bold, session / name.replace("res-2", "res-1"))
    with pytest.raises(ValueError, match="Say more in space"):
        find_runs(bids, folder, "04", "faces", SPACE)


def study_of(bids, out, **changes):
    settings = {"task": "faces", "conditions": ["face", "house"], "decoder": Decoder("logistic")}
    return Study.from_bids(bids, out, **settings | changes)


def test_python_and_the_command_find_the_same(run, bids, tmp_path, bare_report):
    by_python, by_command = tmp_path / "python", tmp_path / "command"
    said = []
    study = study_of(bids, by_python, progress=said.append)
    alone = study.decode_participants()
    group = study.decode_group()
    assert said == [f"sub-0{n}: 3 runs" for n in (1, 2, 3)]
    options = ["--task", "faces", "--conditions", "face", "house", "--model", "logistic"]
    for level in ("participant", "group"):
        assert run("bids", bids, by_command, level, *options).exit_code == 0
    results = sorted(path.relative_to(by_python) for path in by_python.rglob("*_result.json"))
    assert len(results) == 4
    for path in results:
        pair = (Result.from_json(folder / path) for folder in (by_python, by_command))
        first, second = pair
        assert first.equals(second), path
    name = f"group/task-faces_contrast-faceHouse_space-{SPACE}_desc-logistic_secondlevel.tsv"
    assert (by_python / name).read_bytes() == (by_command / name).read_bytes()
    assert set(alone["participants"]) == {"sub-01", "sub-02", "sub-03"}
    assert group["second_level"]["between"]["n"] == 3


def test_the_finished_are_kept_until_a_setting_changes(bids, tmp_path, bare_report):
    said = []
    settings = {"progress": said.append, "participants": ["01"]}
    for estimator in (LogisticRegression(), LogisticRegression(), LogisticRegression(C=0.1)):
        study_of(
            bids, tmp_path / "out", decoder=Decoder(estimator), **settings
        ).decode_participants()
    kept = "sub-01: finished before with these settings, kept"
    assert said == ["sub-01: 3 runs", kept, "sub-01: 3 runs"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"participants": ["09"]}, r"participants 09.*Expected participants among 01"),
        ({"derivatives": "nowhere"}, "Say where fMRIPrep's output is, derivatives"),
        ({"task": "houses"}, "no preprocessed run of task 'houses'"),
    ],
)
def test_what_is_not_there_is_said(bids, tmp_path, settings, words):
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        study_of(bids, tmp_path, **settings)


def test_one_participant_is_no_group(bids, tmp_path):
    with pytest.raises(ValueError, match="at least 2, got 1"):
        study_of(bids, tmp_path, participants=["01"]).decode_group()


def test_a_study_prints_on_one_line(bids, tmp_path):
    shown = repr(study_of(bids, tmp_path / "out"))
    assert shown.startswith("Study('task-faces_contrast-faceHouse_space-")
    assert " participants, " in shown
    assert "\n" not in shown


def test_maps_of_participants_and_of_the_group(bids, tmp_path, bare_report):
    said = []
    study = study_of(bids, tmp_path / "out", progress=said.append, mapping=True)
    with pytest.warns(UserWarning, match="nothing can reach the level"):
        study.decode_group()
    study_of(bids, study.out, mapping=True, participants=["01"]).decode_participants()
    assert any("signs flipped of whole maps: the smallest possible p is 0.25" in s for s in said)
    group, name = (
        tmp_path / "out" / "group",
        f"task-faces_contrast-faceHouse_space-{SPACE}_desc-logistic",
    )
    found = json.loads((group / f"{name}_map.json").read_text("utf-8"))
    assert "mean difference of house and face over participants" in found["hypothesis"]
    assert (group / f"{name}_stat-wherestatistic_statmap.nii.gz").exists()
    assert (group / f"{name}_clusters.tsv").exists()
    own = json.loads((tmp_path / "out/sub-01/func" / f"sub-01_{name}_map.json").read_text("utf-8"))
    assert own["scheme"] == "labels exchanged among blocks within each group"


def test_accuracies_of_participants_are_mapped_over_the_group(bids, tmp_path, bare_report):
    """Every participant's neighbourhoods, decoded over their own runs, with signs flipped."""
    said = []
    study = study_of(bids, tmp_path / "out", progress=said.append, searchlight=6.0)
    with pytest.warns(UserWarning, match="nothing can reach the level"):
        study.decode_group()
    assert any("signs flipped of whole maps" in line for line in said)
    group, name = (
        tmp_path / "out" / "group",
        f"task-faces_contrast-faceHouse_space-{SPACE}_desc-logistic",
    )
    found = json.loads((group / f"{name}_searchlight_map.json").read_text("utf-8"))
    assert "mean decoding accuracy over participants" in found["hypothesis"]
    assert "few participants" in found["hypothesis"]
    assert found["contrast"] == "positive where decoding is above chance"
    statistic = group / f"{name}_searchlight_stat-statistic_statmap.nii.gz"
    effect = nibabel.load(str(statistic).replace("statistic_", "effect_")).get_fdata()
    assert -0.51 < effect.min() < effect.max() < 0.51
    assert (group / f"{name}_searchlight_report.html").exists()


def test_a_radius_below_a_voxel_is_refused_before_decoding(bids, tmp_path):
    with pytest.raises(InputError, match="below a voxel"):
        study_of(bids, tmp_path / "out", searchlight=0.1).decode_group()
    assert not list((tmp_path / "out").rglob("*.html"))


def test_participants_learn_from_each_other(bids, tmp_path, bare_report):
    said = []
    study = study_of(bids, tmp_path / "out", prior_from="group", progress=said.append)
    found = study.decode_participants()
    assert set(found["participants"]) == {"sub-01", "sub-02", "sub-03"}
    settings = next((tmp_path / "out" / "sub-01").rglob("*_decoding.json")).read_text("utf-8")
    assert '"PriorFrom": "group"' in settings
    assert "sub-02" in settings  # the files of those who taught decide the outcome too
    study.decode_participants()
    assert said[-1] == "sub-03: finished before with these settings, kept"


def test_a_prior_from_nobody_is_refused(bids, tmp_path):
    with pytest.raises(InputError, match="no other participants"):
        study_of(bids, tmp_path, prior_from="group", participants=["01"])
    with pytest.raises(InputError, match="is not a choice"):
        study_of(bids, tmp_path, prior_from="everyone")


def as_bytes(folder):
    """All files below a folder that two runs share; run.json has times."""
    files = [path for path in folder.rglob("*") if path.is_file() and "run.json" not in path.name]
    kept = {str(path.relative_to(folder)): path.read_bytes() for path in files}
    return {name: content for name, content in kept.items() if not name.endswith("manifest.json")}


class TestParticipantsOnWorkers:
    """A participant is a task where there are more of them than folds."""

    @pytest.fixture(autouse=True)
    def threads(self, monkeypatch):
        """Workers are threads of this process: started at once."""
        distributed = pytest.importorskip("distributed")
        real = distributed.LocalCluster
        quick = {"processes": False}
        monkeypatch.setattr(distributed, "LocalCluster", lambda **given: real(**given | quick))

    @staticmethod
    def of_two_runs(bids, out, **changes):
        study = study_of(bids, out, **changes)
        return replace(study, runs={label: runs[:2] for label, runs in study.runs.items()})

    def test_files_are_the_same_to_the_byte(self, bids, tmp_path, bare_report):
        told, again = [], []
        alone = self.of_two_runs(bids, tmp_path / "a", progress=told.append)
        found = alone.decode_participants()
        study = self.of_two_runs(bids, tmp_path / "b", progress=again.append)
        assert not are_tasks(study, [*study.runs])
        with Cluster("local:2") as workers:
            assert are_tasks(study, [*study.runs])
            assert not are_tasks(study_of(bids, tmp_path / "c"), [*study.runs])
            there = study.decode_participants()
            assert workers.started
        assert as_bytes(tmp_path / "a") == as_bytes(tmp_path / "b")
        assert there["participants"] == found["participants"]
        assert sorted(told) == sorted(again)

    def test_an_error_of_one_leaves_nothing_half_written(self, bids, tmp_path, bare_report):
        study = self.of_two_runs(bids, tmp_path / "out")
        damaged = study.runs["02"][0].bold
        damaged.write_bytes(damaged.read_bytes()[:-20])
        with Cluster("local:1"), pytest.raises(OSError, match=damaged.name):
            study.decode_participants()
        whole = {path.name for path in (tmp_path / "out").iterdir() if path.is_dir()}
        assert whole <= {"sub-01", "sub-03"}
        assert not [*(tmp_path / "out").rglob("*.partial")]
        for label in whole:
            assert [*(tmp_path / "out" / label).rglob("*_decoding.json")]
