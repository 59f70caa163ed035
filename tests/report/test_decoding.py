"""The report of a fitted model: its maps, and what is said of it."""

import sys
import warnings
from types import ModuleType

import numpy as np
import pytest
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from voxprior import FeatureSharingNB, VoxelSpace, registry
from voxprior.images import ImageSpace
from voxprior.models.noise import NoiseWhitening
from voxprior.report import make_report, model_maps
from voxprior.report.figures import blank
from voxprior.report.pictures import Legend, Picture
from voxprior.validation import cross_validate


@pytest.fixture(scope="module")
def scans():
    rng = np.random.default_rng(0)
    y = np.repeat(["face", "house"], 10)
    space = VoxelSpace.grid((4, 3, 3), 3 * np.eye(4))
    X = rng.normal(size=(20, 36)) + (y == "house")[:, None] * (np.arange(36) < 4)
    return X, y, space


def test_an_empty_map_is_said_to_be_empty(scans):
    X, y, space = scans
    model = LogisticRegression().fit(X, y)
    model.coef_[:] = 0
    result = cross_validate(LogisticRegression(), X, y, cv=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = make_report(model, ImageSpace(space), result)
    (entry,) = report.summary["maps"]
    assert "image" not in entry
    assert "viewer" not in entry
    assert report.summary["stage"] is None
    assert "The map is empty" in report.html


def test_the_viewer_opens_at_the_strongest_voxel(scans):
    X, y, space = scans
    result = cross_validate(LogisticRegression(), X, y, cv=4)

    def opened_at(voxel):
        model = LogisticRegression().fit(X, y)
        model.coef_[:] = 0
        model.coef_[0, voxel] = 2.0
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            summary = make_report(model, ImageSpace(space), result).summary
        (entry,), (viewer,) = summary["maps"], summary["viewers"]
        assert entry["name"] == "Weights"
        assert entry["viewer"] == 0
        return np.array(viewer["start"])

    np.testing.assert_array_equal(opened_at(0), space.coordinates[0])
    np.testing.assert_array_equal(opened_at(17), space.coordinates[17])


def test_a_pipeline_is_told_in_words(scans):
    X, y, space = scans
    model = make_pipeline(NoiseWhitening(min_volumes=5), FeatureSharingNB(space)).fit(X, y)
    result = cross_validate(model, X, y, cv=4)
    known = {"Data": {"scanner": "3 T"}, "Preprocessing": {"covariates": "age regressed out"}}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        summary = make_report(model, ImageSpace(space), result, done=known).summary
    assert "after whitening by a noise covariance" in summary["methods"]
    assert "age regressed out" in summary["methods"]
    assert "36 in a grid of 4 x 3 x 3, 3 x 3 x 3 mm each" in summary["methods"]
    assert summary["done"]["Data"]["values per scan"] == "36"
    assert summary["done"]["Data"]["scanner"] == "3 T"


@pytest.mark.parametrize("step", [PCA(5), TruncatedSVD(5), SelectKBest(f_classif, k=7)], ids=repr)
def test_weights_are_led_back_to_the_voxels(scans, step):
    X, y, _ = scans
    model = make_pipeline(step, LogisticRegression()).fit(X, y)
    shift = np.random.default_rng(1).normal(size=X.shape[1])
    moved = model.decision_function(X[:1] + shift) - model.decision_function(X[:1])
    assert model_maps(model)["weights"] @ shift == pytest.approx(moved[0])


# ---------------------------------------------------------------- families without pictures


def join(monkeypatch, **names):
    """Register a model of scikit-learn as a family whose pictures module has these names."""
    module = ModuleType("toy_pictures")
    vars(module).update(names)
    monkeypatch.setitem(sys.modules, "toy_pictures", module)
    pictures = None if names.get("missing") else "toy_pictures"
    target = "sklearn.discriminant_analysis:LinearDiscriminantAnalysis"
    toy = registry.Model("toy", target, "classifier", "none", pictures=pictures)
    monkeypatch.setattr(registry, "MODELS", (*registry.MODELS, toy))


@pytest.mark.parametrize(
    ("names", "map_name", "pictures"),
    [
        ({"missing": True}, "Weights", []),
        ({}, "Weights", []),
        ({"LEGENDS": {"weights": Legend("Slopes", "")}}, "Slopes", []),
        ({"LEGENDS": {}}, "Weights", []),
        ({"draw": lambda *_: [Picture("Own", blank(1, 1))]}, "Weights", ["Own"]),
    ],
    ids=["no module", "nothing in it", "legends", "empty legends", "draw"],
)
def test_a_family_may_lack_pictures_or_legends(scans, monkeypatch, names, map_name, pictures):
    X, y, space = scans
    join(monkeypatch, **names)
    model = LinearDiscriminantAnalysis().fit(X, y)
    result = cross_validate(LinearDiscriminantAnalysis(), X, y, cv=4)
    report = make_report(model, ImageSpace(space), result, training=(X, y))
    assert [one["name"] for one in report.summary["maps"]] == [map_name]
    assert [one["title"] for one in report.summary["pictures"]] == pictures
    assert "LinearDiscriminantAnalysis" in report.html


def test_a_family_of_this_package_may_have_no_file_of_pictures():
    family = registry._family("new", "no_such_family", "New", "classifier", "none", "new words")
    assert family.drawing() is None
