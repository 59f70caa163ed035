from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from voxprior.cli.arguments import ManyValues, names, parameters, with_groups


@dataclass
class Colours:
    paint: Annotated[str, typer.Argument()]
    dark: Annotated[bool, typer.Option("--dark")] = False
    mix: Annotated[list[str] | None, typer.Option()] = None


def make_app():
    app, seen = typer.Typer(), {}

    def draw(colours: Colours, width: Annotated[int, typer.Option()] = 1) -> None:
        """Draw."""
        seen.update(colours=colours, width=width)

    app.command(cls=ManyValues)(with_groups(draw))
    return app, seen


def invoke(*words):
    app, seen = make_app()
    result = CliRunner().invoke(app, list(words))
    return result, seen


def test_fields_of_a_dataclass_become_options():
    result, seen = invoke("red", "--dark", "--width", "3")
    assert result.exit_code == 0
    assert seen == {"colours": Colours("red", True, None), "width": 3}
    assert "--mix" in invoke("--help")[0].output


def test_repeatable_options_take_several_words_after_arguments():
    _, seen = invoke("red", "--mix", "blue", "green,white", "--width", "2", "--mix", "black")
    assert seen["colours"].mix == ["blue", "green,white", "black"]
    assert names(seen["colours"].mix) == ["blue", "green", "white", "black"]
    assert seen["width"] == 2


def test_before_an_argument_they_take_one_word():
    _, seen = invoke("--mix", "blue", "red")
    assert seen["colours"] == Colours("red", False, ["blue"])


def test_an_option_without_a_value_is_refused():
    result, seen = invoke("red", "--mix")
    assert result.exit_code == 2
    assert not seen


def test_a_file_with_a_comma_stays_whole(tmp_path):
    path = tmp_path / "a,b.tsv"
    path.touch()
    assert names([str(path), "c,d"]) == [str(path), "c", "d"]
    assert names(None) == []


@given(st.lists(st.text("abc", min_size=1), min_size=1))
def test_commas_and_repeats_are_the_same(words):
    assert names([",".join(words)]) == names(words) == words


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.json", '{"radius": 1, "radius": 2}'),
        ("c.json", '{"a": {"b": 1, "b": 2}}'),
        ("c.json", "[" * 100_000),
        ("c.json", "[1]"),
        ("c.toml", "radius = 1\nradius = 2"),
        ("c.toml", "a = " + "[" * 100_000),
    ],
)
def test_config_that_contradicts_itself_or_has_no_end_is_refused(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ValueError, match=name):
        parameters(path)


def test_set_changes_the_config_but_not_itself(tmp_path):
    path = tmp_path / "c.json"
    path.write_text('{"radius": 1, "radius": 1, "scale": 2}')
    assert parameters(path, ["radius=3", "radius=3"]) == {"radius": 3, "scale": 2}
    for other in ("2", "1.0", "True", "'1'"):
        with pytest.raises(ValueError, match="--set gives radius twice"):
            parameters(path, ["radius=1", f"radius={other}"])


def test_a_value_nested_without_end_stays_text():
    deep = "[" * 10_000 + "]" * 10_000
    assert parameters(None, [f"a={deep}"]) == {"a": deep}
