"""JSON and TOML of other people: bounded, and nothing in them is guessed."""

import os

import pytest

from voxprior.documents import DEEPEST, MOST_BYTES, read_json, read_toml
from voxprior.errors import InputError


def written(tmp_path, text, name="given.json"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1, "b": {"c": [true, null, 2.5]}}', {"a": 1, "b": {"c": [True, None, 2.5]}}),
        ("[1, 2]", [1, 2]),
        ("3", 3),
        ('{"a": 1, "a": 1}', {"a": 1}),
        (b'\xef\xbb\xbf{"a": "\xc3\xa9"}', {"a": "é"}),
        ("[" * DEEPEST + "1" + "]" * DEEPEST, None),
    ],
)
def test_json_is_read(tmp_path, text, found):
    got = read_json(written(tmp_path, text))
    assert found is None or got == found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": 1, "a": 2}', "'a' stands there twice, with different values: 1 and 2"),
        ('{"a": 1, "a": true}', "1 and True"),
        ('{"a": {"b": [{"c": 1, "c": "x"}]}}', "'c' stands there twice"),
        ('{"a": {"b": 1}, "a": {"b": 2}}', "'a' stands there twice"),
        ("[" * 100_000 + "]" * 100_000, "nested more than"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested more than"),
        ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "nested more than"),
        ("9" * 5_000, "digits"),
        ("", "Expecting value"),
        ("{", "Expecting property name"),
        (b"\xff\xfe", "utf-8"),
        (b" " * (MOST_BYTES + 1), "MB"),
    ],
)
def test_json_is_refused_in_one_line(tmp_path, text, told):
    with pytest.raises(InputError, match=told) as caught:
        read_json(written(tmp_path, text), "sidecar")
    assert "given.json" in str(caught.value)
    assert "(sidecar)" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a = 1\na = 2", "Cannot overwrite"),
        ("[a]\nb = 1\n[a]\nb = 2", "Cannot declare"),
        ("a = {b = 1, b = 2}", "overwrite|Duplicate"),
        ("a = " + "[" * 20_000 + "]" * 20_000, "nested more than"),
        ("a." * 1_000 + "a = 1", "nested more than"),
        ("a = " + "9" * 5_000, "digits"),
        ("a =", "Invalid value"),
    ],
)
def test_toml_is_refused_in_one_line(tmp_path, text, told):
    with pytest.raises(InputError, match=told):
        read_toml(written(tmp_path, text, "given.toml"))


def test_toml_is_read(tmp_path):
    assert read_toml(written(tmp_path, "a = 1\n[b]\nc = 'x'")) == {"a": 1, "b": {"c": "x"}}


def test_what_is_not_a_regular_file_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    for name, told in (("pipe.json", "not a regular file"), ("none.json", "no such JSON file")):
        with pytest.raises(FileNotFoundError, match=told):
            read_json(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="not a regular file"):
        read_toml(tmp_path)


@pytest.mark.parametrize("text", ["a." * 100_000 + "b = 1", "[" + "a." * 20_000 + "b]"])
def test_keys_of_many_dots_are_refused_before_they_are_parsed(tmp_path, text):
    path = tmp_path / "model.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"cannot be read as TOML.*(dots|kB)"):
        read_toml(path)
