"""Events of runs, and how they are cut into trials."""

import nibabel
import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st
from tests.fuzz.conftest import refusing
from tests.fuzz.edits import REALS, edited

from voxprior.images import load_runs

pytestmark = pytest.mark.fuzz

N_VOLUMES, T_R = 16, 2.0
LABELS = ("face", "house", "rest", "n/a", "", "a/b", "[/]", "1", "1.0")


def seconds(usual):
    some = st.integers(0, usual).map(lambda n: n * 0.5)
    return st.one_of(some, some, some, st.sampled_from([*REALS, "n/a", "x", ""]))


events = st.lists(
    st.tuples(seconds(4 * N_VOLUMES), seconds(12), st.sampled_from(LABELS)), max_size=6
)
shapes = st.fixed_dictionaries(
    {},
    optional={
        "unit": st.sampled_from(["block", "volume", "window", "trial"]),
        "window": st.integers(-1, 20),
        "delay": st.one_of(st.sampled_from(REALS), st.floats(-10, 10)),
        "conditions": st.lists(st.sampled_from(LABELS), max_size=3),
        "rest": st.lists(st.sampled_from(LABELS), max_size=2),
        "group_by": st.sampled_from(["auto", "run", "block", "scan"]),
        "t_r": st.one_of(st.sampled_from(REALS), st.floats(0.5, 4)),
        "label_column": st.sampled_from(["trial_type", None, "onset", "none"]),
        "detrend": st.booleans(),
        "high_pass": st.one_of(st.sampled_from(REALS), st.floats(0.001, 0.3)),
        "low_pass": st.one_of(st.sampled_from(REALS), st.floats(0.001, 0.3)),
        "standardize": st.sampled_from(["auto", "run", "baseline", "train", "none", "zscore"]),
    },
)


@pytest.fixture
def run():
    values = np.random.default_rng(0).normal(100, 5, size=(3, 3, 2, N_VOLUMES)).astype("f4")
    image = nibabel.Nifti1Image(values, np.eye(4))
    image.header.set_zooms((3, 3, 3, T_R))
    image.header.set_xyzt_units("mm", "sec")
    return image


def test_events_in_memory(explore, run):
    def check(rows, settings):
        table = pd.DataFrame(rows, columns=["onset", "duration", "trial_type"])
        with refusing():
            lawful(load_runs(run, table, mask="data", **settings))

    explore(check, events, shapes)


def test_events_in_files(explore, run, tmp_path):
    path = tmp_path / "events.tsv"
    header = st.sampled_from(["onset\tduration\ttrial_type"] * 6 + ["onset\tduration", "a\tb\tc"])
    lines = events.map(lambda rows: ["\t".join(map(str, row)) for row in rows])
    files = st.tuples(header, lines).map(lambda parts: "\n".join([parts[0], *parts[1]]).encode())

    def check(content, settings):
        path.write_bytes(content)
        with refusing():
            lawful(load_runs(run, str(path), mask="data", **settings))

    explore(check, files.flatmap(lambda content: edited(content, most=1)), shapes)


def lawful(data):
    """Every trial has its values, its block and its name, and a label where labels are known."""
    assert np.isfinite(data.X).all()
    assert len(data.X) == len(data.names) == len(data.blocks) > 0
    assert data.y is None or len(data.y) == len(data.X)
