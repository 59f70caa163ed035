"""Arrays of a model file that would be read past, or predict nothing: refused when it is loaded."""

import numpy as np
import pytest
from tests.modelfile.forging import array, npy, value, with_tree
from tests.modelfile.models import fitted

from voxprior import Decoder
from voxprior.decision import CombinedClassifier
from voxprior.errors import InputError
from voxprior.registry import model


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Bytes of honest files by the name of their model; 3 classes, 24 scans, 48 voxels."""
    path = tmp_path_factory.mktemp("honest") / "model.skops"
    return {name: fitted(model(name).make()).save(path).read_bytes() for name in ("sharing", "svm")}


@pytest.fixture
def load(good, tmp_path):
    """Load a file in which attributes of the last step of a model are these."""

    def forged(name, **attributes):
        def change(tree):
            steps = tree["content"]["estimator"]["content"]["content"]["steps"]["content"]
            last = steps[-1]["content"][1]["content"]["content"]
            last |= {key: value(plain) for key, plain in attributes.items() if key not in arrays}
            last |= {key: array(member) for key, member in arrays.items()}

        found = [key for key in attributes if isinstance(attributes[key], np.ndarray)]
        arrays = {key: f"{900 + i}.npy" for i, key in enumerate(found)}
        added = {member: npy(attributes[key]) for key, member in arrays.items()}
        path = tmp_path / "model.skops"
        path.write_bytes(with_tree(good[name], change, added))
        return Decoder.load(path)

    return forged


@pytest.mark.parametrize(
    "attributes",
    [
        {"var_": np.ones((3, 1))},
        {"var_": np.ones((1, 48))},
        {"theta_": np.zeros((3, 47))},
        {"theta_": np.zeros((3, 4800)), "var_": np.ones((3, 4800))},
    ],
)
def test_means_and_variances_of_other_shapes_are_refused(load, attributes):
    with pytest.raises(InputError, match=r"FeatureSharingNB whose (theta|var)_ cannot be right"):
        load("sharing", **attributes)


MACHINES = [
    {"_n_support": np.array([2**30, -(2**30), 24], "i4")},  # ended the process
    {"_n_support": np.array([24, 0, 1], "i4")},
    {"_n_support": np.array([24] + 3000 * [0], "i4")},
    {"_dual_coef_": np.ones((1, 24))},
    {"_dual_coef_": np.ones((2, 1))},
    {"_intercept_": np.ones(1)},
    {"support_": np.zeros(1, "i4")},
    {"support_vectors_": np.zeros((24, 1))},
    {"_probA": np.zeros(1), "_probB": np.zeros(1)},
    {"_probA": np.zeros(3)},
    {"classes_": np.array(["face"])},
    {"kernel": "precomputed", "support_": np.full(24, 2**30, "i4")},
    {"_sparse": True},
    {"_n_support": None},
]


@pytest.mark.parametrize("attributes", MACHINES)
def test_a_machine_whose_arrays_do_not_fit_is_refused(load, attributes):
    with pytest.raises(InputError, match="support vector machine whose parts do not fit"):
        load("svm", **attributes)


def test_an_honest_machine_is_read(load):
    assert load("svm").classes_.tolist() == ["face", "house", "shoe"]


def test_a_machine_that_is_a_parameter_is_read(tmp_path):
    both = [("svm", model("svm").make(probability=True)), ("bayes", model("naive-bayes").make())]
    path = fitted(CombinedClassifier(both)).save(tmp_path / "model.skops")
    assert len(Decoder.load(path).classes_) == 3


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_weights_that_are_not_numbers_are_refused(load, wrong):
    with pytest.raises(InputError, match="FeatureSharingNB whose theta_ cannot be right"):
        load("sharing", theta_=np.full((3, 48), wrong))
