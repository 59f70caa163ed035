from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command
from typer.testing import CliRunner

from voxprior.cli import app
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


def repeatable():
    """Every option of every command that takes several values."""
    for name, command in get_command(app).commands.items():
        for parameter in command.params:
            if getattr(parameter, "multiple", False):
                yield name, command, parameter


EVERY = list(repeatable())
FORMS = {
    "comma": lambda flag, one, two, words: [*words, flag, f"{one},{two}"],
    "comma and blank": lambda flag, one, two, words: [*words, flag, f"{one}, {two}"],
    "repeated": lambda flag, one, two, words: [*words, flag, one, flag, two],
    "blank": lambda flag, one, two, words: [*words, flag, one, two],
    "blank, then an option": lambda flag, one, two, words: [*words, flag, one, two, "-h"][:-1],
    "equals sign": lambda flag, one, two, words: [*words, f"{flag}={one}", two],
    "options first": lambda flag, one, two, words: [flag, one, two, *words],
    "options first, equals sign": lambda flag, one, two, words: [f"{flag}={one}", two, *words],
    "options first and last": lambda flag, one, two, words: [
        *words[-2:],
        *words[:-2],
        flag,
        one,
        two,
    ],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("name", "command", "parameter"), EVERY, ids=[f"{n} {p.opts[0]}" for n, _, p in EVERY]
)
def test_every_list_is_read_by_comma_and_by_blank(name, command, parameter, form):
    one, two = ("radius=2", "means=all") if "--set" in parameter.opts else ("ill=.1", "well=.9")
    arguments = ["study", "out", "participant"] if name == "bids" else ["model.skops", "a.nii"]
    words = [*arguments, *(["--task", "t"] if name == "bids" else ["--out", "out"])]
    context = command.make_context(name, FORMS[form](parameter.opts[0], one, two, words))
    values = context.params[parameter.name]
    if "--set" in parameter.opts:
        assert parameters(None, values) == {"radius": 2, "means": "all"}
    else:
        assert names(values) == [one, two]
    given = {p.name: context.params[p.name] for p in command.params
             if p.param_type_name == "argument"}  # fmt: skip
    flat = [
        v
        for value in given.values()
        for v in (value if isinstance(value, list | tuple) else [value])
    ]
    assert list(map(str, flat)) == arguments


def test_values_of_set_with_commas_stay_whole():
    assert parameters(None, ["a=[1,2],b='x,c=3'"]) == {"a": [1, 2], "b": "x,c=3"}
    assert parameters(None, ["a='x,b=3'"]) == {"a": "x,b=3"}
    assert parameters(None, ["a=1,2"]) == {"a": (1, 2)}


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
