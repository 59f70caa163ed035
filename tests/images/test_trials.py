"""Timing to samples, against a loop over volumes written from the definition."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxprior.images.trials import (
    Block,
    blocks_of_events,
    blocks_of_labels,
    cut_trials,
    read_volume_labels,
    rest_volumes,
)


def events(*rows):
    return pd.DataFrame(rows, columns=["onset", "duration", "trial_type"])


@settings(max_examples=60, deadline=None)
@given(
    onset=st.integers(0, 300),
    duration=st.integers(0, 80),
    delay=st.integers(0, 60),
    t_r=st.sampled_from([5, 8, 20, 25]),
)
def test_a_block_owns_the_volumes_acquired_while_it_lasts(onset, duration, delay, t_r):
    """In tenths of a second, so that the oracle counts in whole numbers."""
    n = 1 + 400 // t_r
    (block,) = blocks_of_events(
        events((onset / 10, duration / 10, "a")), n, t_r / 10, delay / 10, name="run"
    )
    start, stop = onset + delay, onset + duration + delay
    owned = [i for i in range(n + 20 * t_r) if start <= i * t_r < stop]
    if owned:
        assert (block.first, block.stop) == (owned[0], owned[-1] + 1)
    else:  # shorter than a volume: the next one stands for it
        assert block.first == next(i for i in range(10_000) if i * t_r >= start)
        assert block.stop == block.first + 1


def test_events_from_a_file(tmp_path):
    path = tmp_path / "events.tsv"
    path.write_text("onset\tduration\ttrial_type\tresponse\n0\t4\tface\tn/a\n6.0\t4\tn/a\t1\n")
    assert blocks_of_events(path, 10, 2.0) == [Block("face", 0, 2), Block(None, 3, 5)]
    assert blocks_of_events(path, 10, 2.0, label_column=None)[0].label is None


def test_bad_events_are_named(tmp_path):
    path = tmp_path / "events.tsv"
    path.write_text("onset\tduration\n1\t2\n")
    with pytest.raises(
        ValueError, match=r"events.tsv: the events table has no column 'trial_type'"
    ):
        blocks_of_events(path, 10, 2.0)
    path.write_text("onset\tduration\ttrial_type\n1\tn/a\tface\n")
    with pytest.raises(ValueError, match=r"events.tsv: duration must be a number .* row 1"):
        blocks_of_events(path, 10, 2.0)
    path.write_text("onset\tduration\ttrial_type\n1\t2\tface\n20\t2\tface\n")
    with pytest.raises(
        ValueError, match=r"events.tsv: an event starts at 20 s, but bold ends at 20 s"
    ):
        blocks_of_events(path, 10, 2.0, name="bold")
    with pytest.raises(FileNotFoundError, match=r"absent.tsv"):
        blocks_of_events(tmp_path / "absent.tsv", 10, 2.0)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from("abr"), min_size=1, max_size=20), st.integers(0, 3))
def test_stretches_of_labels_are_blocks(labels, delay):
    blocks = blocks_of_labels(np.array(labels), delay)
    spelled = [b.label for b in blocks for _ in range(b.first, b.stop)]
    assert spelled == labels
    assert all(x.label != y.label and x.stop == y.first for x, y in zip(blocks, blocks[1:]))
    assert blocks[0].first == delay


def test_rest_is_what_no_other_block_owns():
    blocks = [Block("rest", 0, 2), Block("a", 2, 4), Block("rest", 4, 6), Block("b", 7, 99)]
    quiet = rest_volumes(blocks, 9, ("rest",))
    np.testing.assert_array_equal(np.flatnonzero(quiet), [0, 1, 4, 5, 6])


@pytest.mark.parametrize(
    "text",
    ["rest 0\nface 0\nface 1\n", "labels chunks\nrest 0\nface 0\nface 1\n"],
    ids=["bare", "header"],
)
def test_attribute_files(tmp_path, text):
    path = tmp_path / "labels.txt"
    path.write_text(text)
    found = read_volume_labels(path, 3)
    assert found.labels.tolist() == ["rest", "face", "face"]
    assert found.runs.tolist() == [0, 0, 1]
    for n, more in ((2, "labels without images"), (4, "images without labels")):
        with pytest.raises(
            ValueError, match=rf"labels.txt: has 3 labels but bold has {n} .*{more}"
        ):
            read_volume_labels(path, n, "bold")


def test_attribute_files_without_labels(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("runs,other\n0,1\n")
    with pytest.raises(ValueError, match=r"labels.csv: has no column of labels"):
        read_volume_labels(path, 1)
    path.write_text("1,2,3\n")
    with pytest.raises(
        ValueError, match=r"labels.csv: is not a file of labels. Expected one or two columns"
    ):
        read_volume_labels(path, 1)
    with pytest.raises(ValueError, match="1 volumes have no label"):
        read_volume_labels(pd.DataFrame({"labels": ["a", None]}), 2)


@pytest.fixture
def run(rng):
    return rng.normal(size=(12, 3)).astype(np.float32)


BLOCKS = [Block("a", 0, 3), Block("b", 4, 7), Block("a", 9, 12)]
ALL = np.ones(12, dtype=bool)


def test_block_means(run):
    found = cut_trials(run, ALL, BLOCKS)
    expected = [run[0:3].mean(0), run[4:7].mean(0), run[9:12].mean(0)]
    np.testing.assert_allclose(found.rows, expected, rtol=1e-5, atol=1e-7)
    assert found.labels == ["a", "b", "a"]
    assert found.rows.dtype == np.float32


def test_volumes_carry_their_block(run):
    found = cut_trials(run, ALL, BLOCKS, "volume")
    np.testing.assert_array_equal(found.rows, run[[0, 1, 2, 4, 5, 6, 9, 10, 11]])
    assert found.blocks == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_windows_are_time_major(run):
    found = cut_trials(run, ALL, BLOCKS, "window", 2)
    trials = found.rows.reshape(3, 2, 3)
    np.testing.assert_array_equal(trials[1], run[4:6])
    np.testing.assert_array_equal(found.rows[1, 3:], run[5])  # feature t * V + v


def test_trials_that_lose_volumes_are_dropped_and_counted(run):
    kept = ALL.copy()
    kept[[5, 6]] = False
    values = run[kept]
    found = cut_trials(values, kept, BLOCKS, name="bold")
    assert found.labels == ["a", "a"]
    assert found.dropped == ["bold, volumes 4 to 6, b: 2 volumes scrubbed"]
    np.testing.assert_allclose(found.rows[1], run[9:12].mean(axis=0), rtol=1e-5)
    single = cut_trials(values, kept, BLOCKS, "volume")
    assert len(single.labels) == 7
    assert len(single.dropped) == 2
    long = cut_trials(run, ALL, BLOCKS, "window", 4)
    assert long.dropped == ["run, volumes 9 to 12, a: 1 volumes past the end of the run"]
    early = cut_trials(run, ALL, [Block("a", -1, 2)])
    assert "starts before the run" in early.dropped[0]
    assert early.rows.shape == (0, 3)
