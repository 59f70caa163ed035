import numpy as np
import pytest

from voxprior.cli.models import BASELINES, check_kind, kind_of, make_model, model_names


def test_every_name_makes_a_model_of_its_kind():
    for kind in ("classifier", "regressor"):
        families, baselines = model_names(kind)
        assert len(families) >= 2
        for name in [*families, *baselines]:
            assert make_model(name).__sklearn_tags__().estimator_type == kind


def test_parameters_reach_the_model():
    assert make_model("logistic", {"C": 0.5}).C == 0.5
    assert make_model("sharing", {"means": "none"}).means == "none"
    with pytest.raises(ValueError, match="no parameter volume"):
        make_model("svm", {"volume": 1})
    with pytest.raises(ValueError, match="no parameter volume"):
        make_model("sharing", {"volume": 1})


def test_an_unknown_name_lists_the_known():
    with pytest.raises(ValueError, match=r"unknown model 'svc'.*sharing.*logistic"):
        make_model("svc")


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
    with pytest.raises(ValueError, match="choose --model gp-regression"):
        check_kind("logistic", make_model("logistic"), np.arange(30, 60))
    with pytest.raises(ValueError, match="choose --model sharing"):
        check_kind("ridge", make_model("ridge"), np.array(["a", "b"]))
    check_kind("ridge", make_model("ridge"), np.array([0, 1, 1]))
    assert set(BASELINES) == {"naive-bayes", "logistic", "svm", "ridge"}


def test_a_recipe_is_a_model_by_name():
    recipe = make_model("few-shot", {"whiten": False, "connectivity": 6})
    assert recipe.named_steps["classify"].connectivity == 6
    assert "whiten" not in recipe.named_steps
