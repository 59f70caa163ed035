"""Options of the commands, in any combination and with any value."""

import numpy as np
import pandas as pd
import pytest
import typer.main
from hypothesis import strategies as st
from tests.cli.conftest import bids, make_run, maps, mask, runs, save
from tests.fuzz.edits import NUMBERS, REALS

from voxprior.cli import app

__all__ = ["bids", "maps", "mask", "runs"]  # fixtures
pytestmark = pytest.mark.fuzz

COMMANDS = typer.main.get_command(app).commands
# Files below the folder of the test, as others name them.
FILES = ("../maps", "../participants.tsv", "../mask.nii.gz", "../runs/run-1_events.tsv", "../none")
WORDS = (
    *("auto", "groups", "kfold:3", "few-shot:2", "two-out", "block", "window", "volume", "raise"),
    *("drop", "run", "baseline", "train", "none", "epi", "data", "background", "fsaverage9"),
    *("group", "age", "sex", "site", "age,sex", "participant_id", "face,house", "ill", "motion"),
    *(
        "sharing",
        "naive-bayes",
        "radius=2",
        "means=none",
        "x=y",
        "ill=.1,well=.9",
        "ill=x",
        "faces",
    ),
    *("", ",", "-", "--", "[/]", "\x1b[31m", "a/b", "*", "~", "é", "0x10", "1_000", "1e400"),
)
# Worth a choice of their own: any other value would start workers, or compute for minutes.
BOUNDED = {
    "jobs": ["1", "0", "-2", "x", "1.5"],
    "permutations": ["0", "3", "-1", "x"],
    "repeats": ["0", "1", "-1", "x"],
    "models": ["naive-bayes", "naive-bayes,nearest", "none", ","],
    "out": ["out", "a/b", "../mask.nii.gz", "../maps", "."],
    "table_file": ["out.tsv", "a/out.tsv", "../maps", "."],
}
# Families that take longer are tested by their own names.
MODELS = ["naive-bayes", "sharing", "logistic", "ridge", "none", ""]
values = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(FILES),
    st.sampled_from(REALS).map(str),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
)
whole = st.one_of(st.integers(-2, 20), st.sampled_from(NUMBERS)).map(str)
real = st.one_of(st.floats(0, 10), st.sampled_from(REALS)).map(str)
NUMERIC = dict.fromkeys(["window", "seed"], whole) | dict.fromkeys(
    ["smoothing", "delay", "high_pass", "low_pass", "t_r", "reject"], real
)


def option_of(parameter):
    """One option of a command, with a value where it takes one."""
    flag = st.sampled_from(parameter.opts)
    if getattr(parameter, "is_flag", False):
        return flag.map(lambda name: [name])
    pool = MODELS if parameter.name == "model" else BOUNDED.get(parameter.name)
    value = st.sampled_from(pool) if pool else NUMERIC.get(parameter.name, values)
    return st.tuples(flag, value).map(list)


def options(command, most=4):
    """Some options of a command, in any order."""
    known = [p for p in COMMANDS[command].params if p.param_type_name == "option"]
    known = [p for p in known if p.name not in ("help", "out")]
    one = st.one_of([option_of(p) for p in known])
    return st.lists(one, max_size=most).map(
        lambda lists: [word for words in lists for word in words]
    )


OUT = st.sampled_from(["out"] * 6 + BOUNDED["out"]).map(lambda name: ["--out", name])


def test_decode_maps(explore, obeys, maps, mask, bare_report):
    given = ["../maps/*.nii.gz", "--labels", "../participants.tsv", "--label", "group"]

    def check(out, some):
        obeys("decode", *given, "--model", "naive-bayes", *out, *some)

    explore(check, OUT, options("decode"), round_of=20)


def test_decode_runs(explore, obeys, runs, bare_report):
    given = ["../runs/run-*_bold.nii.gz", "--events", "../runs/run-*_events.tsv"]

    def check(out, some):
        obeys("decode", *given, "--model", "naive-bayes", "--mask", "data", *out, *some)

    explore(check, OUT, options("decode"), round_of=20)


def test_compare(explore, obeys, maps, mask, bare_report):
    given = ["../maps/*.nii.gz", "--labels", "../participants.tsv", "--label", "group"]

    def check(some):
        obeys("compare", *given, "--models", "naive-bayes", "--repeats", 0, "--out", "out", *some)

    explore(check, options("compare"), round_of=10)


def test_predict(explore, obeys, maps, tmp_path, monkeypatch):
    from voxprior import Decoder
    from voxprior.registry import model

    y = pd.read_csv(tmp_path / "participants.tsv", sep="\t")["group"].to_numpy()
    Decoder(model("naive-bayes").make()).fit(str(maps / "*.nii.gz"), y).save(tmp_path / "m.skops")
    values, _, _ = make_run(np.random.default_rng(0))
    save(values, tmp_path / "run.nii.gz", t_r=2.0)
    images = st.sampled_from(["../maps/*.nii.gz", "../run.nii.gz", "../participants.tsv", "none"])

    def check(image, some):
        obeys("predict", "../m.skops", image, *some)

    explore(check, images, options("predict"), round_of=50)


def test_bids(explore, obeys, bids, bare_report):
    level = st.sampled_from(["participant", "group", "session"])

    def check(level, some):
        given = ["../bids", "out", level, "--task", "faces", "--model", "naive-bayes"]
        obeys("bids", *given, *some, several=True)

    explore(check, level, options("bids"), round_of=10)


def test_others(explore, obeys):
    words = st.lists(
        st.one_of(values, st.sampled_from(["--help", "--version", "--json"])), max_size=3
    )

    def check(command, some):
        # What the papers did, and the demo, take minutes: none of these words names one of them.
        obeys(command, *some, *(["--none"] if command == "demo" else []))

    explore(check, st.sampled_from(["families", "reproduce", "demo", "none"]), words, round_of=50)
