"""Writing and reading model files: what comes back, what is trusted, what cannot be kept."""

import os
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from tests.modelfile.models import LABELS, OWN, OwnClassifier, decided, few_shot, fitted, scans

from voxprior import Decoder, FeatureSharingNB
from voxprior.errors import InputError, InputTypeError
from voxprior.modelfile import files
from voxprior.registry import model

FOREST = [
    "sklearn.ensemble._forest.RandomForestClassifier",
    "sklearn.tree._classes.DecisionTreeClassifier",
    "sklearn.tree._tree.Tree",
]


def test_own_types_come_back_once_they_are_trusted(tmp_path):
    path = fitted(OwnClassifier()).save(tmp_path / "model.skops")
    with pytest.raises(InputError, match=r"builtins.bytes .* and 2 more.* name them in trusted"):
        Decoder.load(path)
    for name in OWN:
        with pytest.raises(InputError, match=rf"does not trust, {name} \("):
            Decoder.load(path, trusted=[other for other in OWN if other != name])
    own = Decoder.load(path, trusted=OWN).estimator_[-1]
    assert own.function is np.mean
    assert (own.names_, own.bytes_, own.dtype_) == ({"a"}, (b"same", b"same"), np.float32)
    assert own.slope_ * 3 == 1
    assert own.random_.normal() == np.random.RandomState(0).normal()


def test_a_forest_comes_back_once_its_parts_are_trusted(tmp_path):
    forest = fitted(RandomForestClassifier(3, random_state=0))
    path = forest.save(tmp_path / "model.skops")
    again = Decoder.load(path, trusted=FOREST)
    assert_array_equal(again.predict_proba(scans()), forest.predict_proba(scans()))


def test_names_to_trust_are_a_list(tmp_path):
    path = fitted(model("naive-bayes").make()).save(tmp_path / "model.skops")
    with pytest.raises(InputTypeError, match=r"a list of names. Got the string"):
        Decoder.load(path, trusted="sklearn.svm._classes.SVC")


def test_what_is_shared_is_kept_once_and_stays_shared(tmp_path):
    decoder = few_shot()
    assert decoder.estimator_["whiten"].space is decoder.estimator_["classify"].space
    again = Decoder.load(decoder.save(tmp_path / "model.skops"))
    assert again.estimator_["whiten"].space is again.estimator_["classify"].space


def test_another_process_writes_the_same_bytes(tmp_path):
    code = "import sys; from tests.modelfile.models import few_shot; few_shot().save(sys.argv[1])"
    # Where sets have another order than here: a seed that this process would draw once in 2**32.
    path = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "1"}
    command = [sys.executable, "-c", code, str(tmp_path / "there.skops")]
    subprocess.run(command, check=True, env=os.environ | path)
    here = few_shot().save(tmp_path / "here.skops")
    assert here.read_bytes() == (tmp_path / "there.skops").read_bytes()


def test_a_file_has_no_date_and_no_compression(tmp_path):
    path = fitted(model("naive-bayes").make()).save(tmp_path / "model.skops")
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    assert {entry.compress_type for entry in entries} == {zipfile.ZIP_STORED}
    assert [entry.filename for entry in entries[:3]] == ["voxprior.json", "schema.json", "1.npy"]


def test_arrays_on_disk_come_back_as_arrays(tmp_path):
    decoder = fitted(model("naive-bayes").make())
    bayes = decoder.estimator_[-1]
    on_disk = np.memmap(tmp_path / "theta", bayes.theta_.dtype, "w+", shape=bayes.theta_.shape)
    on_disk[:] = bayes.theta_
    bayes.theta_ = on_disk
    again = Decoder.load(decoder.save(tmp_path / "model.skops"))
    assert type(again.estimator_[-1].theta_) is np.ndarray
    assert_array_equal(again.estimator_[-1].theta_, on_disk)


CANNOT_BE_KEPT = {
    "a folder": (
        lambda: make_pipeline(model("naive-bayes").make(), memory="cache"),
        r"keeps files in a folder, cache. Set memory=None",
    ),
    "a method": (lambda: OwnClassifier(np.random.RandomState(0).normal), r"never built"),
    "keys that are true or false": (lambda: decided([False, True]), r"True, False or None"),
    "an array with names that are not Latin": (
        lambda: OwnClassifier(np.zeros(1, [("δ", "f8")])),
        r"is not an array that numpy can read",
    ),
    "too much text": (lambda: OwnClassifier("x" * 8_000_001), r"too many objects"),
    "a table": (lambda: OwnClassifier(pd.DataFrame({"a": [1]})), r"cannot be written: TypeError"),
}


@pytest.mark.filterwarnings("ignore:Stored array in format 3.0")
@pytest.mark.parametrize(("make", "reason"), CANNOT_BE_KEPT.values(), ids=CANNOT_BE_KEPT)
def test_what_cannot_be_kept_is_refused_when_it_is_saved(make, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    decoder = fitted(make(), LABELS == "face")
    path = tmp_path / "model.skops"
    path.write_text("the model before")
    with pytest.raises(InputError, match=reason) as found:
        decoder.save(path)
    assert str(found.value).startswith(f"{path}: ")
    assert path.read_text() == "the model before"
    assert not list(tmp_path.glob(".model*"))


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    decoder = fitted(model("naive-bayes").make())
    path = decoder.save(tmp_path / "model.skops")
    before = path.read_bytes()

    def full(members, stream):
        stream.write(b"PK")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.archive, "pack", full)
    with pytest.raises(OSError, match="No space"):
        decoder.save(path)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == before


def test_the_system_tells_its_memory():
    assert files.available_memory() > 1e6


def test_memory_without_proc(monkeypatch):
    def absent(self):
        raise FileNotFoundError

    monkeypatch.setattr("pathlib.Path.read_text", absent)
    assert files.available_memory() > 1e6
    monkeypatch.setattr(os, "sysconf", lambda name: (_ for _ in ()).throw(ValueError(name)))
    assert files.available_memory() is None


def test_a_saved_version_may_be_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "VERSIONED", ())
    path = fitted(FeatureSharingNB()).save(tmp_path / "model.skops")
    monkeypatch.setattr(files, "VERSIONED", ("numpy",))
    with pytest.warns(UserWarning, match=r"was saved with numpy None \(now "):
        Decoder.load(path)
