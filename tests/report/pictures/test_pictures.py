"""What a report says of maps, models and splits: words for all that the registry knows."""

import re

import numpy as np
import pytest

from voxprior import VoxelSpace
from voxprior.registry import model, models
from voxprior.report.decoding import family_pictures
from voxprior.report.pictures import Legend, legend_of


@pytest.fixture(scope="module", params=[2, 3])
def classes(request):
    return np.array(["cat", "dog", "fox"])[: request.param]


@pytest.mark.parametrize("name", [n for n, one in models(role="family").items() if one.pictures])
def test_every_map_and_picture_is_explained(name, classes):
    family, rng = model(name), np.random.default_rng(0)
    code = np.arange(24) % len(classes)
    X = rng.normal(size=(24, 36)) + np.outer(code, np.arange(36) < 6)
    y = classes[code] if family.kind == "classifier" else code + 0.5
    space = VoxelSpace.grid((4, 3, 3), 3 * np.eye(4))
    fitted = family.make(space).fit(X, y)
    for map_name in fitted.voxel_maps():
        legend = legend_of(map_name, family.drawing().LEGENDS, getattr(fitted, "classes_", ()))
        assert legend.text, map_name
        assert not re.search(r"[{}_\[\]]", legend.title + legend.text)
    pictures = family_pictures(fitted, X, y, space)
    assert pictures or not hasattr(family.drawing(), "draw")
    assert all(p.title and p.caption for p in pictures)


def test_the_class_of_a_map_is_told():
    legends = model("gp").drawing().LEGENDS
    assert legend_of("weight:dog", legends, ["cat", "dog", "fox"]).title == "Weights: dog"
    assert (
        "red (positive) speaks for dog, blue (negative) for cat"
        in legend_of("weight", legends, ["cat", "dog"]).text
    )
    assert "raises the predicted number" in legend_of("weight", legends).text
    assert legend_of("own_map", legends).title == "Own map"


def test_braces_of_a_legend_are_only_text():
    legends = {"own": Legend("Own", "Values in {0, 1}; {sides}.")}
    assert legend_of("own", legends, ["cat", "dog"]).text.startswith(
        "Values in {0, 1}; red (positive) speaks"
    )
