"""Names become models and splits, with the words that are said of them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import nibabel
import numpy as np
import pytest
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    StratifiedGroupKFold,
    StratifiedKFold,
)
from sklearn.utils.estimator_checks import check_estimator

import voxprior
from voxprior import registry
from voxprior.errors import InputError, refuses_input
from voxprior.registry import check_kind, kind_of, model, model_of, models, split_words, splitter
from voxprior.validation import Bootstrap, FewShotSplit, MonteCarloLeaveOnePerClassOut

DOCS = Path(__file__).parents[1] / "docs"

# ---------------------------------------------------------------- models


@pytest.mark.parametrize("one", models().values(), ids=lambda one: one.name)
def test_every_name_makes_a_model_of_its_kind(one):
    built = one.make()
    assert built.__sklearn_tags__().estimator_type == one.kind
    assert all(isinstance(text, str) and text for text in one.describe().values())
    if one.role == "family":
        assert model_of(built) is one
        assert one.pictures is None or one.drawing().LEGENDS
        assert (DOCS / f"{one.docs}.md").is_file()
        assert getattr(voxprior, one.label) is one.estimator


def test_roles_and_kinds_are_told_apart():
    assert set(models("regressor", "baseline")) == {"ridge"}
    flat = {"naive-bayes", "logistic", "svm", "lda"}
    assert set(models("classifier", "baseline")) == flat
    assert set(models(role="recipe")) == {"few-shot"}
    assert model_of(object()) is None


def test_parameters_reach_the_model():
    assert model("logistic").make(C=0.5).C == 0.5
    assert model("sharing").make(means="none").means == "none"
    recipe = model("few-shot").make(whiten=False, connectivity=6)
    assert recipe.named_steps["classify"].connectivity == 6
    assert "whiten" not in recipe.named_steps


@pytest.mark.parametrize("name", ["svm", "sharing"])
def test_a_parameter_that_is_not_there_is_refused(name):
    with pytest.raises(ValueError, match="no parameter volume"):
        model(name).make(volume=1)


@pytest.mark.parametrize(("name", "wrong"), [("sharing", {"means": "al"}), ("svm", {"C": -1.0})])
def test_a_wrong_value_is_refused_before_any_data(name, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        model(name).make(**wrong)


def test_an_unknown_name_lists_the_known():
    with pytest.raises(ValueError, match=r"no model 'svc'.*sharing.*logistic"):
        model("svc")


# ---------------------------------------------------------------- targets


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (["a", "b"], "classifier"),
        ([True, False], "classifier"),
        ([0, 1, 1], "classifier"),
        (np.repeat(np.arange(20), 2), "classifier"),
        ([61.5, 70.0, 55.25], "regressor"),
        (np.arange(30, 60), "regressor"),
    ],
)
def test_numbers_are_told_from_classes(y, kind):
    assert kind_of(y) == kind


def test_models_and_targets_must_suit():
    with pytest.raises(ValueError, match=r"numbers from 30 to 59.*gp-regression"):
        check_kind(model("logistic").make(), np.arange(30, 60))
    with pytest.raises(ValueError, match=r"classes such as 'a'.*sharing"):
        check_kind(model("ridge").make(), np.array(["a", "b"]))
    check_kind(model("ridge").make(), np.array([0, 1, 1]))


# ---------------------------------------------------------------- splits


def test_names_become_splitters():
    assert splitter("auto") is None
    assert isinstance(splitter("groups"), LeaveOneGroupOut)
    assert splitter("few-shot:4", 7).n_per_class == 4
    assert splitter("few-shot:4", 7).random_state == 7
    assert splitter("two-out:3").n_runs == 3
    assert splitter("bootstrap").n_repeats == 100
    assert not splitter("bootstrap", classes=False).stratify
    kinds = [FewShotSplit, MonteCarloLeaveOnePerClassOut, Bootstrap]
    assert [type(splitter(name)) for name in ("few-shot", "two-out", "bootstrap")] == kinds


@pytest.mark.parametrize(
    ("classes", "groups", "kind"),
    [
        (True, True, StratifiedGroupKFold),
        (True, False, StratifiedKFold),
        (False, True, GroupKFold),
        (False, False, KFold),
    ],
)
def test_folds_suit_the_data(classes, groups, kind):
    cv = splitter("folds:3", classes=classes, groups=groups)
    assert isinstance(cv, kind)
    y, runs = np.tile([0, 1], 6), np.repeat(range(6), 2)
    assert len(list(cv.split(y, y, runs if groups else None))) == 3


@pytest.mark.parametrize(
    ("text", "options", "match"),
    [
        ("loo", {}, "one of auto"),
        ("folds:x", {}, "whole number"),
        ("folds:0", {}, "whole number"),
        ("jackknife:3", {}, "'jackknife'"),
        ("groups", {"groups": False}, "without groups"),
        ("few-shot", {"classes": False}, "numbers"),
    ],
)
def test_what_makes_no_sense_is_refused(text, options, match):
    with pytest.raises(ValueError, match=match):
        splitter(text, **options)


@pytest.mark.parametrize(
    "text", ["groups", "two-out", "jackknife", "few-shot:3", "folds:4", "bootstrap:50"]
)
@pytest.mark.parametrize("groups", [False, True])
def test_every_split_is_told_in_words(text, groups):
    if text == "groups" and not groups:
        return
    words = split_words(splitter(text, groups=groups))
    assert not re.search(r"[A-Z(){}=_]", words)
    assert text.partition(":")[2] in words


def test_a_split_that_is_not_known_stays_as_it_is():
    assert split_words("by hand") == "by hand"


# ---------------------------------------------------------------- families of other packages

TOY = '''
import numpy as np
from voxprior.models.base import VoxelClassifier
from voxprior.registry import Model
from voxprior.report.pictures import Legend

LEGENDS = {"difference": Legend("Difference of the means", "Second class less the first.")}


class NearestMean(VoxelClassifier):
    """The nearest class mean.

    Parameters
    ----------
    sharpness : float
        Nats per squared unit of distance.
    """

    def __init__(self, sharpness=0.1):
        self.sharpness = sharpness

    def fit(self, X, y):
        X, codes = self._training_scans(X, y)
        self.means_ = np.array([X[codes == c].mean(axis=0) for c in range(len(self.classes_))])
        return self

    def predict_proba(self, X):
        X = self._new_scans(X)
        scores = -self.sharpness * ((X[:, None, :] - self.means_) ** 2).sum(axis=2)
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)

    def voxel_maps(self):
        return {"difference": self.means_[-1] - self.means_[0]}


FAMILY = Model("toy-mean", "toy:NearestMean", "classifier", "classes are round clouds",
               "a nearest class mean", pictures="toy")
BROKEN = "not a model"
'''
JOINING = "[voxprior.families]\ntoy-mean = toy:FAMILY\n"


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A package with a family, as pip would have installed it."""
    return _package(tmp_path_factory.mktemp("installed"), JOINING)


def _package(folder, joining):
    (folder / "toy.py").write_text(TOY)
    info = folder / "toy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(joining)
    return folder


@pytest.fixture
def join(monkeypatch):
    """Make a package seen in this process."""
    registry._joined.cache_clear()
    yield monkeypatch.syspath_prepend
    registry._joined.cache_clear()
    sys.modules.pop("toy", None)


def test_a_family_joins_by_its_entry_point(toy, join):
    join(toy)
    joined = model("toy-mean")
    assert joined.describe()["prior"] == "classes are round clouds"
    assert model_of(joined.make(sharpness=2)) is joined
    check_estimator(joined.make())


def test_what_cannot_join_is_told_and_left_out(tmp_path, join):
    join(_package(tmp_path, JOINING + "broken = toy:BROKEN\nabsent = toy:NONE\n"))
    with pytest.warns(UserWarning, match="The family") as told:
        names = models()
    said = " ".join(str(one.message) for one in told)
    assert "'broken' is left out: it is not a Model" in said
    assert "'absent' cannot be loaded" in said
    assert {"broken", "absent"}.isdisjoint(names)
    assert "toy-mean" in names


@pytest.mark.slow
def test_commands_and_report_know_a_joined_family(toy, tmp_path):
    """In a process of its own, as users run it."""
    listed = json.loads(_voxprior(toy, "families", "--json"))
    assert "toy-mean" in {row["name"] for row in listed}
    labelled = _maps(tmp_path)
    _voxprior(toy, "decode", *labelled, "-m", "toy-mean", "--out", tmp_path / "one")
    page = (tmp_path / "one" / "report.html").read_text("utf-8")
    assert "a nearest class mean" in page
    assert "Difference of the means" in page
    compared = [*labelled, "--models", "toy-mean,logistic", "--repeats", 0]
    _voxprior(toy, "compare", *compared, "--out", tmp_path / "two")
    assert "toy-mean" in (tmp_path / "two" / "comparison.tsv").read_text("utf-8")
    kept = [tmp_path / "one" / "model.skops", labelled[0]]
    refused = _voxprior(toy, "predict", *kept, code=2)
    assert "toy.NearestMean" in refused  # an installed entry point is not trusted by itself
    assert "p_ill" in _voxprior(toy, "predict", *kept, "--trust", "toy.NearestMean")


def _voxprior(toy, *arguments, code=0):
    """Output of a command that sees the toy package; what it says where it ends with an error."""
    start = (
        f"import sys; sys.path.insert(0, {str(toy)!r}); from voxprior.cli import main; "
        "sys.argv[0] = 'voxprior'; main()"
    )
    command = [sys.executable, "-W", "ignore", "-c", start, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def _maps(folder):
    """Twelve small maps of two groups on disk, with their table, as arguments of a command."""
    rng, rows, images = np.random.default_rng(0), ["file\tgroup"], []
    for number in range(12):
        values = rng.normal(size=(4, 4, 3)) + 2 * (number % 2)
        images.append(folder / f"map{number}.nii.gz")
        nibabel.save(nibabel.Nifti1Image(values.astype("f4"), np.eye(4)), images[-1])
        rows.append(f"map{number}.nii.gz\t{'ill' if number % 2 else 'well'}")
    table = folder / "labels.tsv"
    table.write_text("\n".join(rows) + "\n")
    return [*images, "--labels", table, "--label", "group"]


@pytest.mark.parametrize("name", ["self", "cls", "__class__", ""])
def test_no_name_of_a_parameter_is_a_fault_of_the_program(name):
    for one in registry.models().values():
        with pytest.raises(InputError) as caught:
            one.make(**{name: 1})
        assert refuses_input(caught.value)
