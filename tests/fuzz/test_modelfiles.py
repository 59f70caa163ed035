"""Model files with bytes, members or objects that voxprior did not write.

Files are sealed again after they were changed inside, as a forger can do, so that the digest does
not stop them. Some of what is put into them would make the file ``canary`` if it were run.
"""

import copy
import json

import nibabel
import pytest
from hypothesis import strategies as st
from tests.fuzz.edits import REALS, edited
from tests.modelfile.forging import (
    array,
    as_node,
    call,
    items,
    mapping,
    node,
    npy,
    packed,
    sealed,
    tuple_of,
    unpacked,
    value,
)
from tests.modelfile.models import fitted, scans

from voxprior.modelfile.schema import GRAMMAR, TRUSTED
from voxprior.registry import model

pytestmark = pytest.mark.fuzz

CANARY = "canary"
HARMFUL = (
    call("builtins.open", CANARY, "w"),
    call("builtins.exec", f"open({CANARY!r}, 'w')"),
    call("numpy.save", CANARY, 1.0),
    call("os.system", f"touch {CANARY}"),
    call("numpy.testing._private.utils.runstring", f"open({CANARY!r}, 'w')", {}),
    node("FunctionNode", "os.system"),
    mapping({f"touch {CANARY}": value(1)}, key="os.system"),
)
NAMES = sorted({name for names in TRUSTED.values() for name in names})

plain = st.one_of(
    st.none(), st.booleans(), st.integers(), st.sampled_from(REALS), st.text(max_size=8)
)
nodes = st.one_of(
    plain.map(value),
    plain.map(value),
    st.lists(plain.map(value), max_size=3).map(lambda inner: items(*inner)),
    st.lists(plain.map(value), max_size=3).map(lambda inner: tuple_of(*inner)),
    st.dictionaries(st.text(max_size=5), plain, max_size=3).map(as_node),
    st.sampled_from(NAMES).map(lambda name: node("ObjectNode", name, content=mapping({}))),
    st.sampled_from(["1.npy", "2.npy", "9.npy"]).map(array),
    st.sampled_from(HARMFUL),
    plain,
)
keys = st.sampled_from(sorted({"__class__", "__module__", "__loader__", "__id__", "type"}))
texts = st.one_of(plain, st.sampled_from([*NAMES, *GRAMMAR, "numpy", "json", "../1.npy"]))


def places(tree):
    """Every (holder, key) of a tree of objects; what is there can be replaced."""
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, child in inside:
        yield tree, key
        if isinstance(child, dict | list):
            yield from places(child)


@st.composite
def changed_trees(draw, tree):
    """A tree of objects in which one to three places hold something else."""
    tree = copy.deepcopy(tree)
    for _ in range(draw(st.integers(1, 3))):
        found = list(places(tree))
        names = [place for place in found if place[1] in ("__class__", "__module__", "file")]
        holders = [holder for holder, key in found if key == "__loader__"]
        way = draw(st.sampled_from(["node", "node", "name", "key", "gone"]))
        if way == "name" and names:
            holder, key = draw(st.sampled_from(names))
            holder[key] = draw(texts)
        elif way == "key" and holders:
            draw(st.sampled_from(holders))[draw(keys)] = draw(texts)
        elif found:
            holder, key = draw(st.sampled_from(found))
            if way == "gone":
                del holder[key]
            else:
                holder[key] = copy.deepcopy(draw(nodes))
    return tree


arrays = st.one_of(
    st.sampled_from(REALS).map(lambda number: npy([number] * 3)),
    st.lists(st.integers(0, 3), max_size=3).map(lambda shape: npy([0.0]).replace(b"1", b"2")),
    st.text(max_size=5).map(lambda text: npy([text])),
    st.just(npy([None], allow_pickle=True)),
)


@st.composite
def forged(draw, good):
    """The bytes of a model file after changes at one depth: file, member or object."""
    depth = draw(st.sampled_from(["file", "member", "swap", "tree", "tree", "tree"]))
    if depth == "file":
        return draw(edited(good))
    members = unpacked(good)
    if depth == "tree":
        tree = draw(changed_trees(json.loads(members["schema.json"])))
        members["schema.json"] = json.dumps(tree).encode()
        named = {name for name in members if f'"{name}"' in members["schema.json"].decode()}
        return packed(sealed({n: c for n, c in members.items() if n in named | {"schema.json"}}))
    name = draw(st.sampled_from(sorted(members)))
    if depth == "swap":
        other = draw(st.sampled_from(sorted(members)))
        members[name] = draw(st.one_of(st.just(members[other]), arrays))
    else:
        members[name] = draw(edited(members[name]))
    return packed(members if draw(st.booleans()) else sealed(members))


@pytest.mark.parametrize("family", ["naive-bayes", "sharing", "gp"])
def test_forged_files(family, explore, obeys, tmp_path):
    path, scan = tmp_path / "model.skops", tmp_path / "scan.nii"
    good = fitted(model(family).make()).save(path).read_bytes()
    nibabel.save(scans(1)[0], scan)
    assert obeys("predict", path, scan) == 0

    def check(content):
        path.write_bytes(content)
        obeys("predict", path, scan)
        assert sorted(tmp_path.iterdir()) == sorted([path, scan, tmp_path / "place"])

    explore(check, forged(good), round_of=100)
