"""Model files of trusted types whose parts do not fit together: refused before they are used."""

import pytest
from tests.modelfile.forging import as_node, value, with_tree
from tests.modelfile.models import fitted

from voxprior import Decoder
from voxprior.errors import InputError
from voxprior.registry import model


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("honest") / "model.skops"
    return fitted(model("sharing").make()).save(path).read_bytes()


def with_attribute(data, name, node):
    """Forge a file in which an attribute of the last step of the model is this node."""

    def change(tree):
        steps = tree["content"]["estimator"]["content"]["content"]["steps"]["content"]
        _, last = steps[-1]["content"]
        last["content"]["content"][name] = node

    return with_tree(data, change)


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("theta_", value("a text")),
        ("classes_", as_node([["face", "house", "shoe"]])),
        ("classes_", as_node(["face", "house"])),
        ("n_features_in_", value(10**15)),
        ("n_features_in_", value(-3)),
        ("n_features_in_", value("48")),
        ("n_features_in_", value(47)),
        ("var_", value(None)),
    ],
)
def test_a_part_that_does_not_fit_is_named(good, tmp_path, name, node):
    path = tmp_path / "model.skops"
    path.write_bytes(with_attribute(good, name, node))
    with pytest.raises(InputError, match=r"model.skops: holds FeatureSharingNB whose (\w+) cannot"):
        Decoder.load(path)
