"""The list of trusted names is exactly what the models of voxprior hold."""

import json
import zipfile
from importlib import import_module

import pytest
import skops
from numpy.testing import assert_array_equal
from tests.modelfile.models import MODELS, scans

from voxprior import Decoder
from voxprior.modelfile import schema

SPARSE_ARRAYS = tuple(map(int, skops.__version__.split(".")[:2])) >= (0, 15)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Every model as a fitted decoder, and its file."""
    folder = tmp_path_factory.mktemp("models")
    known = {name: make for name, make in MODELS.items() if SPARSE_ARRAYS or name != "sparse array"}
    made = {name: make() for name, make in known.items()}
    return {
        name: (decoder, decoder.save(folder / f"{i}.skops"))
        for i, (name, decoder) in enumerate(made.items())
    }


def names_in(path):
    """Loader and name of every node of a file."""
    with zipfile.ZipFile(path) as archive:
        tree = json.loads(archive.read("schema.json"))
    for key in ("protocol", "_skops_version"):
        del tree[key]
    found = set()
    for node in schema.nodes(tree):
        node.pop("__id__", None)
        found.add((node["__loader__"], schema.name_of(node)))
    return found


def test_nothing_is_missing_and_nothing_is_unneeded(saved):
    needed = {pair for _, path in saved.values() for pair in names_in(path)}
    listed = {(loader, name) for loader, names in schema.TRUSTED.items() for name in names}
    if not SPARSE_ARRAYS:
        listed.remove(("SparseMatrixNode", "scipy.sparse._csr.csr_array"))
    assert needed == listed


def test_every_model_comes_back_and_saves_the_same_bytes(saved, tmp_path):
    images = scans()
    for name, (decoder, path) in saved.items():
        again = Decoder.load(path)
        assert decoder.save(tmp_path / "twice.skops").read_bytes() == path.read_bytes(), name
        assert again.save(tmp_path / "again.skops").read_bytes() == path.read_bytes(), name
        if decoder.covariates_ is None and decoder.trials_ is None:
            assert_array_equal(again.predict(images), decoder.predict(images), err_msg=name)


def test_the_deepest_model_is_far_from_the_limits(saved):
    def depth(node):
        children = node.values() if isinstance(node, dict) else node
        inner = [depth(child) for child in children if isinstance(child, dict | list)]
        return ("__loader__" in node) + max(inner, default=0)

    deepest, longest = 0, 0
    for _, path in saved.values():
        with zipfile.ZipFile(path) as archive:
            text = archive.read("schema.json")
        deepest, longest = max(deepest, depth(json.loads(text))), max(longest, len(text))
    assert deepest < schema.MOST_NESTED / 3
    assert longest < schema.MOST_BYTES / 50


def test_objects_that_are_trusted_cannot_be_called():
    for name in schema.TRUSTED["ObjectNode"]:
        module, _, kind = name.rpartition(".")
        bases = getattr(import_module(module), kind).__mro__
        assert not any("__call__" in vars(base) for base in bases), name
