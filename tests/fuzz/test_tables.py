"""Tables of subjects, labels of volumes, confounds, costs and settings, in all that text can be."""

import json

import numpy as np
import pytest
from hypothesis import strategies as st
from tests.fuzz.conftest import refusing
from tests.fuzz.edits import REALS, edited, wrapped

from voxprior.cli.arguments import parameters
from voxprior.cli.predict import _costs
from voxprior.images import join_table
from voxprior.images.confounds import confounds_of
from voxprior.images.trials import read_volume_labels

pytestmark = pytest.mark.fuzz

FILES = [f"maps/sub-0{n}_map.nii.gz" for n in range(1, 5)]
COLUMNS = ("participant_id", "file", "subject", "group", "age", "sex", "labels", "chunks", "run")
ENCODINGS = ("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1")
SETTINGS = ("radius", "n_iterations", "means", "space", "step", "", "a.b", "__class__")

words = st.text(st.characters(codec="utf-8"), max_size=6)
cells = st.one_of(
    st.sampled_from(["n/a", "", "nan", "ill", "well", "f", "m", "1", "2.5", "01", "-", "#", '"']),
    st.sampled_from(REALS).map(str),
    words,
)
names = st.one_of(st.sampled_from(COLUMNS), words)


@st.composite
def rows(draw, n_rows):
    """Lines of cells with a header, mostly as many in each, the subjects first."""
    header = ["participant_id", *draw(st.lists(names, max_size=4))]
    lines = [draw(st.permutations(header)) if draw(st.integers(0, 5)) == 0 else header]
    for number in range(n_rows):
        width = len(header) - 1 + draw(st.sampled_from([0] * 9 + [-1, 1]))
        subject = draw(st.sampled_from([f"sub-0{number + 1}"] * 9 + ["sub-01"]))
        lines.append([subject, *draw(st.lists(cells, min_size=max(width, 0), max_size=width + 1))])
    return lines


@st.composite
def tables(draw, n_rows=4):
    """A name and the bytes of a table of numbers, words and gaps."""
    name = draw(st.sampled_from(["x.tsv", "x.csv", "x.txt", "x.tsv.gz"]))
    usual = "," if name == "x.csv" else "\t"
    between = draw(st.sampled_from([usual] * 6 + ["\t", ",", " ", ";"]))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    lines = draw(rows(n_rows + draw(st.sampled_from([0] * 6 + [-1, 1, -n_rows]))))
    text = end.join(between.join(line) for line in lines) + end
    content = text.encode(draw(st.sampled_from(ENCODINGS)), "replace")
    by_name = "gzip" if name.endswith("gz") else "plain"
    return name, draw(wrapped(draw(edited(content, most=1)), by_name))


def test_subjects(explore, tmp_path):
    def check(file, label, covariates, key, unmatched):
        path = tmp_path / file[0]
        path.write_bytes(file[1])
        with refusing():
            found = join_table(
                FILES, path, label=label, covariates=covariates, key=key, unmatched=unmatched
            )
            assert len(found.positions) == len(found.table) <= len(FILES)
            assert label is None or len(found.y) == len(found.positions)
        path.unlink()

    explore(
        check,
        tables(),
        st.one_of(st.none(), names),
        st.lists(names, max_size=2),
        st.one_of(st.none(), names),
        st.sampled_from(["raise", "drop", "drop", "ignore"]),
        round_of=100,
    )


def test_tables_of_runs_and_costs(explore, tmp_path):
    def labels(path):
        assert len(read_volume_labels(path, 4).labels) == 4

    def confounds(path):
        table, kept = confounds_of(path, None, 4, "run")
        assert len(table) == len(kept) == 4

    def costs(path):
        table, actions = _costs(path, np.array(["group", "age"]))
        assert table.shape == (len(actions), 2)

    readers = {"labels": labels, "confounds": confounds, "costs": costs}

    def check(file, reader):
        path = tmp_path / file[0]
        path.write_bytes(file[1])
        with refusing():
            readers[reader](path)
        path.unlink()

    explore(check, tables(), st.sampled_from(sorted(readers)), round_of=100)


plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=6,
)


def test_settings(explore, tmp_path):
    def check(found, name, changes):
        path = tmp_path / name
        path.write_bytes(found)
        with refusing():
            assert isinstance(parameters(path, changes), dict)
        path.unlink()

    written = st.dictionaries(st.sampled_from(SETTINGS), plain, max_size=3).map(json.dumps)
    lines = st.lists(st.tuples(words, words).map(" = ".join)).map("\n".join)
    text = st.one_of(written, lines).map(lambda text: text.encode("utf-8"))
    values = st.one_of(words, st.text("()[]{}-+*/.,:'\"0123456789eE_x ", max_size=20))
    change = st.tuples(st.sampled_from(SETTINGS), values).map("=".join)
    explore(
        check,
        text.flatmap(lambda content: edited(content, most=2)),
        st.sampled_from(["x.json", "x.toml"]),
        st.lists(change, max_size=2),
        round_of=100,
    )
