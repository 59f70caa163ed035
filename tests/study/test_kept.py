"""What is kept of a study is of these very files, settings, code and versions; else it is not."""

import importlib
import json
import os
import re
import sys
import warnings

import nibabel
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from voxprior import Decoder
from voxprior.errors import InputError, InputWarning
from voxprior.study import Study
from voxprior.study.second_level import second_level
from voxprior.validation import Result

SPACE = "MNI152NLin2009cAsym"
KEPT = "sub-01: finished before with these settings, kept"


@pytest.fixture(autouse=True)
def _quick(bare_report):
    pass


@pytest.fixture
def confounds(bids):
    """Tables of confounds with their descriptions, beside every run."""
    rng = np.random.default_rng(0)
    for bold in bids.rglob("*_desc-preproc_bold.nii.gz"):
        start = bold.name.split("_space-")[0]
        n = nibabel.load(bold).shape[3]
        table = pd.DataFrame(rng.normal(size=(n, 2)), columns=["csf", "white_matter"])
        path = bold.with_name(f"{start}_desc-confounds_timeseries.tsv")
        table.to_csv(path, sep="\t", index=False)
        path.with_suffix(".json").write_text("{}")
    return {"strategy": ["wm_csf"], "wm_csf": "basic"}


@pytest.fixture
def mask(bids, tmp_path):
    found = next(bids.rglob("*_desc-brain_mask.nii.gz"))
    path = tmp_path / "brain.nii.gz"
    nibabel.load(found).to_filename(path)
    return path


def study_of(bids, out, **changes):
    settings = {"task": "faces", "conditions": ["face", "house"], "participants": ["01"]}
    return Study.from_bids(
        bids,
        out,
        **settings | {"decoder": Decoder("logistic"), "reporting": {"stock": False}} | changes,
    )


def decoded(bids, out, **changes):
    """Decode participants; says whether the first was kept."""
    said = []
    study_of(bids, out, progress=said.append, **changes).decode_participants()
    return KEPT in said


def with_same_times(path, content):
    """Write a file so that its size and time tell nothing."""
    state = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def one(bids, pattern):
    return sorted(bids.rglob(pattern))[0]


def other_noise(bids):
    path = one(bids, "*confounds_timeseries.tsv")
    table = pd.read_csv(path, sep="\t")
    path.write_text(table[::-1].to_csv(sep="\t", index=False))


def other_scans(bids):
    path = one(bids, "*_desc-preproc_bold.nii.gz")
    image = nibabel.load(path)
    values = np.asarray(image.dataobj)[..., ::-1].copy()
    state = path.stat()
    nibabel.Nifti1Image(values, image.affine, image.header).to_filename(path)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def other_run_mask(bids):
    path = one(bids, "*run-1_*_desc-brain_mask.nii.gz")
    image = nibabel.load(path)
    values = np.asarray(image.dataobj).copy()
    values[0] = 0
    nibabel.Nifti1Image(values, image.affine).to_filename(path)


def other_events(bids):
    path = one(bids, "*_events.tsv")
    with_same_times(path, path.read_bytes().replace(b"6.0\thouse", b"5.0\thouse"))


CHANGES = {
    "confounds": other_noise,
    "confounds described": lambda b: one(b, "*_timeseries.json").write_text('{"a": {}}'),
    "confounds described no more": lambda b: one(b, "*_timeseries.json").unlink(),
    "scans": other_scans,
    "mask of a run": other_run_mask,
    "events": lambda b: with_same_times(
        one(b, "*_events.tsv"),
        one(b, "*_events.tsv").read_bytes().replace(b"6.0\thouse", b"5.0\thouse"),
    ),
    "sidecar": lambda b: one(b, "*_bold.json").write_text('{"RepetitionTime": 2.0, "a": 1}'),
    "sidecar gone": lambda b: one(b, "*_bold.json").unlink(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_file_with_other_content_is_read_again(bids, tmp_path, confounds, change):
    options = {"confounds": confounds, "t_r": None}
    assert not decoded(bids, tmp_path / "out", **options)
    assert decoded(bids, tmp_path / "out", **options)
    before = {path: path.read_bytes() for path in bids.rglob("*") if path.is_file()}
    change(bids)
    after = {path: path.read_bytes() for path in bids.rglob("*") if path.is_file()}
    assert before != after
    try:
        assert not decoded(bids, tmp_path / "out", **options)
    except InputError:  # as in a fresh folder
        with pytest.raises(InputError):
            decoded(bids, tmp_path / "fresh", **options)
        return
    decoded(bids, tmp_path / "fresh", **options)
    results = [next((tmp_path / name).rglob("*_result.json")) for name in ("out", "fresh")]
    assert results[0].read_bytes() == results[1].read_bytes()


def test_a_sidecar_that_appears_is_read(bids, tmp_path):
    for path in bids.rglob("*_bold.json"):
        path.unlink()
    for path in bids.rglob("*_bold.nii.gz"):
        image = nibabel.load(path)
        image = nibabel.Nifti1Image(np.asarray(image.dataobj), image.affine)
        image.header.set_zooms((3, 3, 3, 2.0))
        image.header.set_xyzt_units("mm", "sec")
        image.to_filename(path)
    assert not decoded(bids, tmp_path / "out")
    assert decoded(bids, tmp_path / "out")
    for path in bids.rglob("*_bold.nii.gz"):
        path.with_name(path.name.replace(".nii.gz", ".json")).write_text('{"RepetitionTime": 20.0}')
    with pytest.raises(InputError):
        decoded(bids, tmp_path / "out")


@pytest.mark.parametrize("name", ["mask", "atlas", "atlas_labels"])
def test_a_file_that_a_setting_names_is_known_by_its_content(bids, tmp_path, mask, name):
    labels = tmp_path / "regions.tsv"
    labels.write_text("index\tname\n1\tone place\n")
    options = {"mask": str(mask)}
    options["reporting"] = {"stock": False, "atlas": str(mask), "atlas_labels": str(labels)}
    assert not decoded(bids, tmp_path / "out", **options)
    assert decoded(bids, tmp_path / "out", **options)
    if name == "atlas_labels":
        with_same_times(labels, labels.read_bytes().replace(b"one", b"two"))
    else:
        image = nibabel.load(mask)
        values = np.asarray(image.dataobj).copy()
        values[0] = 0
        nibabel.Nifti1Image(values, image.affine).to_filename(mask)
    assert not decoded(bids, tmp_path / "out", **options)


def test_an_image_in_memory_is_known_by_its_content(bids, tmp_path, mask):
    image = nibabel.load(mask)
    whole = np.asarray(image.dataobj)
    smaller = whole.copy()
    smaller[0] = 0
    kept = [
        decoded(bids, tmp_path / "out", mask=nibabel.Nifti1Image(values.copy(), image.affine))
        for values in (whole, whole, smaller)
    ]
    assert kept == [False, True, False]


@pytest.mark.parametrize("package", ["numpy", "scipy", "sklearn", "voxprior"])
def test_another_version_decodes_again(bids, tmp_path, monkeypatch, package):
    decoded(bids, tmp_path / "out")
    monkeypatch.setattr(importlib.import_module(package), "__version__", "9.9")
    assert not decoded(bids, tmp_path / "out")


TEXT = """
from sklearn.linear_model import LogisticRegression
class Mine(LogisticRegression):
    def predict(self, X):
        return super().predict(X)
"""


def test_mended_code_decodes_again(bids, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    kept = []
    for text in (TEXT, TEXT, TEXT.replace("predict(X)", "predict(-X)")):
        (tmp_path / "mended_model.py").write_text(text)
        sys.modules.pop("mended_model", None)
        importlib.invalidate_caches()
        model = importlib.import_module("mended_model").Mine()
        kept.append(decoded(bids, tmp_path / "out", decoder=Decoder(model)))
    assert kept == [False, True, False]


def test_code_that_cannot_be_read_keeps_nothing(bids, tmp_path):
    model = make_pipeline(FunctionTransformer(lambda X: X), LogisticRegression())
    options = {"decoder": Decoder(model), "participants": ["01", "02"]}
    for _ in range(2):
        with pytest.warns(InputWarning, match="No participant is kept: the source of the model"):
            assert not decoded(bids, tmp_path / "out", **options)
    with pytest.warns(InputWarning, match="Scores of participants alone are left out"):
        found = study_of(bids, tmp_path / "out", **options).decode_group()
    assert found["second_level"]["within"]["n"] == 0


DAMAGES = {
    "record cut": ("decoding.json", lambda text: text[: len(text) // 2]),
    "record empty": ("decoding.json", lambda text: ""),
    "record a list": ("decoding.json", lambda text: "[]"),
    "record deep": ("decoding.json", lambda text: "[" * 100_000 + "]" * 100_000),
    "record of bytes": ("decoding.json", lambda text: "\udcff"),
    "result edited": ("result.json", lambda text: text.replace('"face"', '"fade"')),
    "result cut": ("result.json", lambda text: text[:100]),
    "result gone": ("result.json", None),
    "no manifest": ("manifest.json", None),
    "manifest deep": ("manifest.json", lambda text: "[" * 100_000),
}


@pytest.mark.parametrize(("name", "damage"), DAMAGES.values(), ids=DAMAGES)
def test_what_was_damaged_is_made_again_and_not_taken_by_the_group(bids, tmp_path, name, damage):
    out, both = tmp_path / "out", {"participants": ["01", "02"]}
    decoded(bids, out, **both)
    path = next((out / "sub-01").rglob(f"*_{name}"))
    if damage is None:
        path.unlink()
    else:
        path.write_text(damage(path.read_text("utf-8")), "utf-8", "surrogateescape")
    if next((out / "sub-01").rglob("*_result.json"), None) is not None:
        with pytest.raises(InputError, match=r"sub-01: .*level participant"):
            study_of(bids, out, **both).decode_group()
        assert not (out / "group").exists()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an edited file is kept as .old
        assert not decoded(bids, out, **both)
    assert decoded(bids, out, **both)


OTHERS = {
    "conditions": ({"conditions": ["face", "house", "rest"], "rest": "none"}, "conditions"),
    "delay": ({"delay": 2.0}, r"delay \(0.0, here 2.0\)"),
    "unit": ({"unit": "volume"}, r"unit \(block, here volume\)"),
    "standardize": ({"standardize": "train"}, r"standardize \(auto, here train\)"),
    "smoothing": ({"smoothing_fwhm": 4.0}, r"smoothing_fwhm \(None, here 4.0\)"),
    "seed": ({"decoder": Decoder("logistic", random_state=3)}, r"random_state \(0, here 3\)"),
    "parameter": ({"decoder": Decoder(LogisticRegression(C=2.0))}, r"C \(1.0, here 2.0\)"),
}
GIVEN = {
    "name": "one",
    "delay": 0.0,
    "unit": "block",
    "standardize": "auto",
    "smoothing_fwhm": None,
}


@pytest.mark.parametrize(("other", "told"), OTHERS.values(), ids=OTHERS)
def test_the_group_refuses_participants_of_other_settings(bids, tmp_path, other, told):
    options = GIVEN | {"participants": ["01", "02"], "model": "logistic"}
    if told.startswith("C"):
        options["decoder"] = Decoder(LogisticRegression())
    decoded(bids, tmp_path / "out", **options)
    with pytest.raises(InputError, match=rf"sub-01 .*{told}"):
        study_of(bids, tmp_path / "out", **options | other).decode_group()
    assert not (tmp_path / "out" / "group").exists()
    study_of(bids, tmp_path / "out", **options).decode_group()


def test_participants_of_two_splits_are_no_group(bids, tmp_path):
    decoded(bids, tmp_path / "out")
    decoded(bids, tmp_path / "out", participants=["02"], cv="few-shot:2")
    with pytest.raises(InputError, match=r"sub-02 .*cv \(few-shot:2, here None\)"):
        study_of(bids, tmp_path / "out", participants=["01", "02"]).decode_group()


@pytest.mark.parametrize("change", [other_scans, other_run_mask], ids=["scans", "mask"])
def test_the_group_refuses_participants_of_other_files(bids, tmp_path, change):
    both = {"participants": ["01", "02"]}
    decoded(bids, tmp_path / "out", **both)
    change(bids)
    with pytest.raises(InputError, match=r"sub-01 .*\.nii\.gz.*level participant again"):
        study_of(bids, tmp_path / "out", **both).decode_group()


def test_participants_of_other_classes_are_no_group(bids, tmp_path):
    for path in (bids / "sub-02").rglob("*_events.tsv"):
        path.write_text(re.sub("face", "cat", path.read_text(), count=1))
    options = {"participants": ["01", "02"], "conditions": None}
    decoded(bids, tmp_path / "out", **options)
    with pytest.raises(InputError, match="sub-01 was decoded with other classes than the group"):
        study_of(bids, tmp_path / "out", **options).decode_group()


def test_chance_is_the_same_for_all():
    """Classes equal over all and unequal in everybody: accuracy would have two chances."""

    def table(group, labels):
        columns = {"fold": 0, "sample": range(len(labels)), "group": group}
        return pd.DataFrame(columns | {"y_true": labels, "y_pred": ["a"] * len(labels)})

    def result(*tables):
        whole = pd.concat(tables, ignore_index=True)
        whole["sample"] = range(len(whole))
        values = {"accuracy": [0.5], "balanced_accuracy": [0.5], "n_train": [4], "n_test": [4]}
        scores = pd.DataFrame({"fold": [0]} | values)
        return Result("classification", whole, scores, scores[["fold"]], ("a", "b"), {})

    first, second = table("sub-1", [*"aaab"]), table("sub-2", [*"bbba"])
    alone = {"1": result(first), "2": result(second)}
    found = second_level(result(first, second), alone)
    assert set(found["score"]) == {"balanced_accuracy"}
    assert found["within"].tolist() == found["between"].tolist() == [0.5, 0.5]
    assert set(found["chance"]) == {0.5}
    equal = [table(f"sub-{n}", [*"abab"]) for n in (1, 2)]
    alone = {str(n + 1): result(one) for n, one in enumerate(equal)}
    assert set(second_level(result(*equal), alone)["score"]) == {"accuracy"}


def test_a_file_that_changes_while_it_is_read_is_refused(bids, tmp_path, monkeypatch):
    read = Study.read

    def read_and_change(self, *arguments):
        data = read(self, *arguments)
        other_scans(bids)
        return data

    monkeypatch.setattr(Study, "read", read_and_change)
    with pytest.raises(InputError, match="was changed while it was read"):
        decoded(bids, tmp_path / "out")
    assert not [*(tmp_path / "out").rglob("*_decoding.json")]


def test_a_record_says_what_it_was_made_of(bids, tmp_path, confounds):
    decoded(bids, tmp_path / "out", confounds=confounds)
    record = json.loads(next((tmp_path / "out").rglob("*_decoding.json")).read_text("utf-8"))
    assert len(record["Contents"]) == 9 + 3 + 2 * 3
    assert all(record["Contents"].values())
    assert {"voxprior", "numpy", "scipy", "scikit-learn"} < set(record["Versions"])
    assert len(record["Code"]) == 64
