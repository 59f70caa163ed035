import pytest

from voxprior.cli.arguments import parameters


def test_set_overrides_config(tmp_path):
    path = tmp_path / "model.toml"
    path.write_text('radius = 1.5\nmeans = "all"\n')
    assert parameters(path, ["radius=3", "nodes=[1, 2]", "mu=1e-3", "text=a b"]) == {
        "radius": 3,
        "means": "all",
        "nodes": [1, 2],
        "mu": 0.001,
        "text": "a b",
    }


def test_json_is_read(tmp_path):
    path = tmp_path / "model.json"
    path.write_text('{"a": null}')
    assert parameters(path) == {"a": None}


@pytest.mark.parametrize("change", ["radius", "=2", "a b=2"])
def test_a_change_must_be_name_and_value(change):
    with pytest.raises(ValueError, match="name=value"):
        parameters(None, [change])


@pytest.mark.parametrize(("name", "text"), [("a.toml", "= ="), ("a.json", "{"), ("b.json", "[1]")])
def test_bad_files_are_named(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ValueError, match=name):
        parameters(path)
    with pytest.raises(FileNotFoundError, match="no such config"):
        parameters(tmp_path / "absent.toml")
