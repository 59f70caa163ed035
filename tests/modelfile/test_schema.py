"""Rules of the schema at their bounds."""

import json

import pytest

from voxprior.errors import InputError
from voxprior.modelfile import schema


def node(loader="ListNode", module="builtins", name="list", **held):
    return {"__class__": name, "__module__": module, "__loader__": loader, **held}


def plain(content="1"):
    return node("JsonNode", name="str", content=content)


def nested(depth):
    inner = plain()
    for _ in range(depth - 1):
        inner = node(content=[inner])
    return inner


def audited(tree, members=(), trusted=()):
    return schema.audit(tree | {"protocol": 2}, members, trusted)


def test_depth_and_size_have_a_bound():
    assert len(list(schema.nodes(nested(60)))) == 60
    with pytest.raises(InputError, match="nests objects too deeply"):
        list(schema.nodes(nested(61)))
    text = json.dumps(plain()).encode()
    assert schema.parse(text, len(text)) == plain()
    with pytest.raises(InputError, match="too many objects"):
        schema.parse(text, len(text) - 1)


@pytest.mark.parametrize("text", [b"[]", b"3", b'"a"'])
def test_a_schema_is_a_mapping(text):
    with pytest.raises(InputError, match="malformed"):
        schema.parse(text)
    with pytest.raises(InputError, match="repeats a key"):
        schema.parse(b'{"a": 1, "a": 2}')


@pytest.mark.parametrize("protocol", [1, None, 2.0, True, "2"])
def test_old_protocols_are_refused(protocol):
    with pytest.raises(InputError, match="protocol"):
        schema.audit(plain() | {"protocol": protocol}, (), ())
    assert schema.audit(plain() | {"protocol": 3}, (), ()) == ["builtins.str"]


@pytest.mark.parametrize("content", ["{}", "[1]", "x", 3, None])
def test_values_are_plain(content):
    with pytest.raises(InputError, match="content of"):
        audited(plain(content))
    for good in ("null", "true", '"a"', "1.5"):
        assert audited(plain(good)) == ["builtins.str"]


def test_objects_that_occur_more_than_once_are_numbered():
    alone, pair, texts = [node("ObjectNode")], [node("ObjectNode"), node("ObjectNode")], [plain()]
    arrays = [node("NdArrayNode", "numpy", "ndarray") for _ in range(3)]
    unlike = [node("ObjectNode"), node("ObjectNode", content=plain())]
    schema.number([alone, texts * 2, pair, unlike, arrays])
    assert [one.get("__id__") for one in (*alone, *texts, *pair, *unlike)] == [
        None, None, 1, 1, None, None]  # fmt: skip
    assert [one["__id__"] for one in arrays] == [2, 2, 2]


def test_numbers_of_objects_are_whole_and_mean_one_object():
    same = node(content=[plain() | {"__id__": 1}, plain() | {"__id__": 1}])
    assert audited(same) == ["builtins.list", "builtins.str"]
    with pytest.raises(InputError, match="different objects"):
        audited(node(content=[plain() | {"__id__": 1}, plain("2") | {"__id__": 1}]))
    for bad in (True, "1", 1.0):
        with pytest.raises(InputError, match="__id__"):
            audited(node(content=[plain() | {"__id__": bad}]))


@pytest.mark.parametrize("count", [1, 5, 6, 8])
def test_five_strangers_are_named(count):
    strangers = [node("TypeNode", "evil", f"C{i}") for i in range(count)]
    with pytest.raises(InputError) as error:
        audited(node(content=strangers))
    told = str(error.value)
    assert told.count("evil.C") == min(count, 5)
    assert (f"and {count - 5} more" in told) == (count > 5)
    assert audited(node(content=strangers), trusted=[f"evil.C{i}" for i in range(count)])


def test_a_class_with_a_dot_is_not_trusted():
    strange = node("TypeNode", "builtins", "x.int")
    with pytest.raises(InputError, match="does not trust"):
        audited(strange, trusted=["builtins.x.int"])


def test_members_are_those_of_the_schema():
    array = node("NdArrayNode", "numpy", "ndarray", type="numpy", file="a.npy")
    assert audited(array, ["a.npy"]) == ["numpy.ndarray"]
    for members in ([], ["b.npy"], ["a.npy", "b.npy"]):
        with pytest.raises(InputError, match="other members"):
            audited(dict(array), members)


def test_text_from_files_is_shown_short_and_in_one_line():
    assert schema.shown("a\nb") == "a\\nb"
    assert len(schema.shown("x" * 500)) == 120


@pytest.mark.parametrize("key", ["builtins.bool", "builtins.NoneType"])
def test_keys_that_are_lost_are_not_written(key):
    module, name = key.split(".")
    types = node(content=[node("TypeNode", module, name)])
    with pytest.raises(InputError, match="keys of a dict"):
        schema.normalize(node("DictNode", name="dict", key_types=types, content={}))
    types["content"][0]["__class__"] = "str"
    made = schema.normalize(node("DictNode", name="dict", key_types=types, content={}, extra=1))
    assert "extra" not in made
    mapped = node("NdArrayNode", "numpy", "memmap", type="numpy", file="a.npy")
    assert schema.normalize(mapped)["__class__"] == "ndarray"


def test_key_types_are_types():
    types = node(content=[node("TypeNode", "builtins", "str")])
    whole = node("DictNode", name="dict", key_types=types, content={"a": plain()})
    assert audited(whole) == ["builtins.dict", "builtins.list", "builtins.str"]
    for bad in (plain(), node(content=[plain()]), node("TupleNode", name="tuple", content=[])):
        with pytest.raises(InputError, match="key_types"):
            audited(whole | {"key_types": bad})
