"""Cells of a table are text; which become numbers, and what is refused instead of guessed."""

import gzip

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxprior.errors import InputError
from voxprior.images import cells as module
from voxprior.images import join_table, read_table
from voxprior.images.cells import cells_of, numbers, settled, typed
from voxprior.images.confounds import confounds_of
from voxprior.images.trials import blocks_of_events, read_volume_labels
from voxprior.mapping.atlas import _names

PLAIN = st.text(st.characters(codec="utf-8", exclude_characters='",\t\n\r \x00'), min_size=1)


def column(*texts):
    return pd.Series(texts, dtype=object)


# ---------------------------------------------------------------- text to cells


@given(st.lists(st.tuples(PLAIN, PLAIN, PLAIN), min_size=1), st.sampled_from(",\t"))
def test_a_table_as_pandas_writes_it_is_read_back(rows, sep):
    frame = pd.DataFrame(rows, columns=["one", "two", "three"])
    for quoting in (0, 1):  # where needed, and throughout
        text = frame.to_csv(sep=sep, index=False, quoting=quoting)
        found = cells_of(text, sep)
        assert found.to_dict("list") == frame.to_dict("list")
        assert cells_of(text.replace("\n", "\r\n"), sep).equals(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a,b\n"x, y",1\n', [["x, y", "1"]]),
        ('a,b\n "x" , 1 \n', [["x", "1"]]),
        ('a,b\n"he said ""no""",1\n', [['he said "no"', "1"]]),
        ('a,b\n5" disk,1\n', [['5" disk', "1"]]),
        ("a,b\nface#1,1\n#2,3\n", [["face#1", "1"], ["#2", "3"]]),
        ('"a","b"\n"x\ny","1"\n', [["x\ny", "1"]]),
        ('"a","b"\n"x","1"\n\n', [["x", "1"]]),
        ("a,b\n\n  \nx,1\n", [["x", "1"]]),
        ("a,b,\nx,1,\n", [["x", "1"]]),
        ("a,b\nx\n", [["x", ""]]),
        ("a,b\rx,1\r", [["x", "1"]]),
        ("a,a,b\nx,x,1\n", [["x", "1"]]),
        ("a,b", []),
    ],
)
def test_what_is_read(text, expected):
    found = cells_of(text, ",")
    assert found.columns.tolist() == ["a", "b"]
    assert found.to_numpy().tolist() == expected


def test_columns_without_a_name_are_numbered():
    assert list(cells_of(",a,\n1,2,3\n", ",")) == ["Unnamed: 0", "a", "Unnamed: 2"]


STRAY = {
    "opened and closed rows later": 'onset,kind\n1,"face\n2,house\n3,cat"\n',
    "opened": 'onset,kind\n1,"face\n',
    "opened and closed in its row": 'onset,kind,run\n1,"face,1"\n2,cat,1\n',
    "closed too early": 'onset,kind\n1,"face" big\n',
    "in a file of quoted cells": '"onset","kind"\n"1","face\n"2","cat"\n',
}


@pytest.mark.parametrize("text", STRAY.values(), ids=STRAY)
@pytest.mark.parametrize("sep", [",", "\t"])
def test_a_stray_quotation_mark_swallows_nothing(text, sep):
    with pytest.raises(ValueError, match="quotation mark"):
        cells_of(text.replace(",", sep), sep)


def test_a_stray_quotation_mark_between_blanks():
    with pytest.raises(ValueError, match=r"line 2: .*quotation mark"):
        cells_of('rest 0\n"face 0\nhouse" 0\n', None, ("labels",))
    found = cells_of('"my face" 0\nhouse 1\n', None, ("labels",))
    assert found.to_numpy().tolist() == [["my face", "0"], ["house", "1"]]


@pytest.mark.parametrize(
    "text", ["a\n" * 200, "a,b,c,d\n" * 40, ",".join("abc") + "\n" + "\n" * 200]
)
def test_many_cells_are_refused_before_they_are_made(monkeypatch, text):
    monkeypatch.setattr(module, "MOST_CELLS", 100)
    with pytest.raises(ValueError, match="more than 100 cells"):
        cells_of(text, ",")


def test_a_wide_header_does_not_widen_many_rows(monkeypatch):
    monkeypatch.setattr(module, "MOST_CELLS", 1_000)
    with pytest.raises(ValueError, match="more than 1,000 cells"):
        cells_of(",".join(f"c{i}" for i in range(100)) + "\n" + "1\n" * 20, ",")


# ---------------------------------------------------------------- cells to numbers


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "2"], [1, 2]),
        (["1", "01"], ["1", "01"]),
        (["1", "1.0"], ["1", "1.0"]),
        (["1", "+1", "1e0"], ["1", "+1", "1e0"]),
        (["01", "02"], [1, 2]),
        (["1.0", "2.0"], [1.0, 2.0]),
        (["1.5", "1.50", "2"], [1.5, 1.5, 2.0]),
        (["1", "x"], ["1", "x"]),
        (["True", "False"], [True, False]),
        (["True", "TRUE"], ["True", "TRUE"]),
        (["9007199254740993", "9007199254740992.0"], ["9007199254740993", "9007199254740992.0"]),
        (["1_000", "0x1"], ["1_000", "0x1"]),
    ],
)
def test_a_column_is_numbers_where_no_two_texts_are_one(texts, expected):
    found = settled(typed(column(*texts)))
    assert found.tolist() == expected
    assert [type(one) for one in found.tolist()] == [type(one) for one in expected]


def test_names_stay_two_where_measurements_are_one():
    assert typed(column("1.1", "1.10"), names=True).tolist() == ["1.1", "1.10"]
    assert numbers(column("1", "01", "1.0", "n/a")).iloc[:3].tolist() == [1, 1, 1]


@pytest.mark.parametrize("texts", [["1", "n/a", "2"], ["True", "", "False"]])
def test_whole_numbers_stay_so_beside_missing_ones(texts):
    found = typed(column(*texts))
    assert found.isna().tolist() == [False, True, False]
    kept = settled(found.dropna())
    assert kept.dtype.kind in "ib"
    assert [str(one) for one in kept] == [texts[0], texts[2]]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_numbers_are_those_of_python(values):
    np.testing.assert_array_equal(numbers(column(*map(repr, values))), values)


# ---------------------------------------------------------------- every reader of tables


def written(tmp_path, text, name="t.tsv"):
    path = tmp_path / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


READERS = {
    "table": lambda path: read_table(path),
    "join": lambda path: join_table(["a.nii", "b.nii"], path, label="x"),
    "events": lambda path: blocks_of_events(path, 10, 2.0, label_column="x"),
    "labels": lambda path: read_volume_labels(path, 2),
    "confounds": lambda path: confounds_of(path, None, 2, "run"),
    "atlas": lambda path: _names(path, np.array([1]), None),
}
TWICE = "labels,chunks,file,onset,duration,index,name,x,x\n{}\n{}\n"
ROWS = "face,1,a.nii,1,1,1,one,{},{}", "face,1,b.nii,2,1,2,two,{},{}"
OF_NUMBERS = "0,1,0,1,1,1,0,{},{}", "1,1,1,2,1,2,1,{},{}"


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.tsv.gz"])
@pytest.mark.parametrize("reader", READERS)
def test_a_column_that_is_there_twice_must_say_the_same(tmp_path, reader, name):
    sep = "," if name == "t.csv" else "\t"
    for (first, second), same in ((("11", "22"), True), (("12", "21"), False)):
        rows = ROWS if reader != "confounds" else OF_NUMBERS
        text = TWICE.format(rows[0].format(*first), rows[1].format(*second))
        path = written(tmp_path, text.replace(",", sep), name)
        if same:
            READERS[reader](path)
            continue
        with pytest.raises(InputError, match=r"'x' stands there twice, .*'1' and '2' in row 1"):
            READERS[reader](path)


def test_a_frame_with_a_column_twice_is_refused():
    frame = pd.DataFrame([["a", 1, 2]], columns=["file", "x", "x"])
    with pytest.raises(InputError, match="several columns 'x'"):
        join_table(["a.nii"], frame, label="x")


@pytest.mark.parametrize("reader", READERS)
def test_headers_that_look_the_same_are_refused(tmp_path, reader):
    text = TWICE.replace("x,x", "x,x\u200b").format(ROWS[0].format(1, 1), ROWS[1].format(2, 2))
    path = written(tmp_path, text, "t.csv")
    with pytest.raises(InputError, match=r"Two columns look the same .*U\+0078 U\+200B"):
        READERS[reader](path)


# ---------------------------------------------------------------- labels, groups, covariates


def maps_table(tmp_path, **columns):
    frame = pd.DataFrame(
        {"file": [f"m{i}" for i in range(len(next(iter(columns.values()))))], **columns}
    )
    frame.to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    return [f"{name}.nii" for name in frame["file"]], tmp_path / "t.tsv"


@pytest.mark.parametrize("column", ["groups", "run", "anything"])
def test_runs_written_in_two_ways_stay_two(tmp_path, column):
    files, path = maps_table(tmp_path, x=list("abab"), **{column: ["1", "01", "2", "02"]})
    found = join_table(files, path, label="x", groups=column)
    assert found.table[column].tolist() == ["1", "01", "2", "02"]


def test_sessions_with_a_point_stay_two(tmp_path):
    files, path = maps_table(tmp_path, x=list("ab"), part=["1.1", "1.10"])
    assert join_table(files, path, label="x", groups="part").table["part"].nunique() == 2


@pytest.mark.parametrize("labels", [["1", "01"], ["1", "1.0"], ["0", "-0"]])
def test_classes_written_in_two_ways_stay_two(tmp_path, labels):
    files, path = maps_table(tmp_path, x=labels * 2)
    assert join_table(files, path, label="x").y.tolist() == labels * 2


def test_whole_labels_stay_whole_where_one_is_missing(tmp_path):
    files, path = maps_table(tmp_path, x=["1", "2", "n/a", "2"], run=["1", "n/a", "2", "2"])
    found = join_table(files, path, label="x", unmatched="drop")
    assert found.y.tolist() == [1, 2, 2]
    assert found.y.dtype == np.int64
    both = join_table(files, path, label="x", groups="run", unmatched="drop")
    assert [str(run) for run in both.table["run"]] == ["1", "2"]


def test_a_covariate_that_writes_a_number_in_two_ways_is_refused(tmp_path):
    files, path = maps_table(tmp_path, x=list("abab"), age=["61", "061", "70", "71"])
    with pytest.raises(InputError, match="'age' writes a number in two ways, '61' and '061'"):
        join_table(files, path, label="x", covariates=["age"])


def test_many_numbers_in_two_ways_are_no_classes(tmp_path):
    ages = [str(n) for n in range(20, 40)]
    files, path = maps_table(tmp_path, x=[*ages, "20.0"])
    with pytest.raises(InputError, match=r"'x' writes a number in two ways, '20' and '20\.0'"):
        join_table(files, path, label="x")
    files, path = maps_table(tmp_path, x=["20.5", "20.50", "7"])
    assert join_table(files, path, label="x").y.tolist() == [20.5, 20.5, 7.0]


def test_one_column_by_two_names_is_refused(tmp_path):
    files, path = maps_table(tmp_path, age=["1", "2"], x=["a", "b"])
    for wanted in ({"label": "age", "covariates": ["AGE"]}, {"covariates": ["age", "Age"]}):
        with pytest.raises(InputError, match="are one column, 'age'"):
            join_table(files, path, **wanted)


@pytest.mark.parametrize("unmatched", ["raise", "drop"])
def test_a_second_row_of_a_file_under_another_name_is_refused(unmatched):
    table = pd.DataFrame({"file": ["a/one.nii", "two.nii", "one.nii"], "x": ["p", "q", "q"]})
    with pytest.raises(InputError, match=r"a/one.nii has several rows"):
        join_table(["a/one.nii", "a/two.nii"], table, label="x", unmatched=unmatched)
    both = join_table(["a/one.nii", "one.nii", "two.nii"], table, label="x")
    assert both.y.tolist() == ["p", "q", "q"]


# ---------------------------------------------------------------- runs


def test_trial_types_are_text_whatever_else_the_column_holds(tmp_path):
    rows = "onset\tduration\tkind\n0\t1\t1\n2\t1\t2\n4\t1\t{}\n"
    for last in ("n/a", "1.0", "01", "2.5"):
        blocks = blocks_of_events(written(tmp_path, rows.format(last)), 9, 2.0, label_column="kind")
        assert [block.label for block in blocks] == ["1", "2", None if last == "n/a" else last]


@pytest.mark.parametrize("name", ["labels.txt", "labels.csv"])
def test_labels_of_volumes_have_no_comments_and_no_equal_runs(tmp_path, name):
    sep = "," if name.endswith("csv") else " "
    rows = [("face#1", "1"), ("face#2", "01"), ("#house", "2"), ("house", "02")]
    path = written(tmp_path, "\n".join(sep.join(row) for row in rows), name)
    found = read_volume_labels(path, 4)
    assert found.labels.tolist() == [label for label, _ in rows]
    assert found.runs.tolist() == ["1", "01", "2", "02"]


@pytest.mark.parametrize("cell", ["", "n/a", "NaN"])
def test_volumes_without_a_run_or_a_label_are_refused(tmp_path, cell):
    path = written(tmp_path, f"labels,runs\nface,1\nface,{cell}\nhouse,2\n", "l.csv")
    with pytest.raises(InputError, match="1 volumes have no run, the first is volume 2"):
        read_volume_labels(path, 3)
    frame = pd.DataFrame({"labels": list("aab"), "runs": [1, np.nan, 2]})
    with pytest.raises(InputError, match="1 volumes have no run, the first is volume 2"):
        read_volume_labels(frame, 3)


def test_a_short_row_has_no_run(tmp_path):
    with pytest.raises(InputError, match="1 volumes have no run"):
        read_volume_labels(written(tmp_path, "face 1\nface\nhouse 2\n", "l.txt"), 3)
    with pytest.raises(InputError, match="1 volumes have no label, the first is volume 2"):
        read_volume_labels(written(tmp_path, "face,1\n,1\nhouse,2\n", "l.csv"), 3)


def test_regions_have_one_name(tmp_path):
    path = written(tmp_path, "index\tname\n1\tV1\n1\tV2\n")
    with pytest.raises(InputError, match="region 1 has two names, 'V1' and 'V2'"):
        _names(path, np.array([1]), None)
    with pytest.raises(InputError, match=r"must be a whole one\. Got 'x'"):
        _names(written(tmp_path, "index\tname\nx\tV1\n"), np.array([1]), None)
    known = _names(written(tmp_path, "index\tname\n1\t01\n01\t01\n2\tn/a\n"), np.array([1]), None)
    assert known == {1: "01", 2: "n/a"}
