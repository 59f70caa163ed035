"""Scores of participants: how they are tested, and that every place says the same."""

import html
import json
from itertools import product

import numpy as np
import pandas as pd
import pytest

from voxprior import Decoder
from voxprior.errors import InputError
from voxprior.study.second_level import as_tables, group_tests, over_participants, second_level
from voxprior.validation import Result
from voxprior.validation.comparison import flip_signs

WITH_CONTENT = Decoder.generate_report
SPACE = "MNI152NLin2009cAsym"
COMMON = ["--conditions", "face", "house", "--no-stock"]


def naive_p(values, two_sided):
    sums = [float(np.dot(signs, values)) for signs in product([1, -1], repeat=len(values))]
    sums = np.abs(sums) if two_sided else np.array(sums)
    return np.mean(sums >= sums[0] - 1e-12)


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("n", [2, 4, 7])
def test_signs_are_flipped(rng, n, two_sided):
    values = rng.normal(0.4, size=n)
    found = flip_signs(values, two_sided=two_sided)
    assert found.p_value == pytest.approx(naive_p(values, two_sided))
    assert found.smallest_p == (2 if two_sided else 1) / 2**n
    assert f"all {2**n} sign flips" in found.words
    all_above = flip_signs(np.arange(1.0, n + 1), two_sided=two_sided)
    assert all_above.p_value == all_above.smallest_p


@pytest.mark.parametrize("n", [6, 8])
def test_the_interval_holds_the_means_that_the_test_does_not_reject(rng, n):
    values = rng.normal(size=n)
    found = flip_signs(values)
    inside = np.linspace(found.low + 1e-9, found.high - 1e-9, 20)
    outside = [found.low - 1e-9, found.low - 1, found.high + 1e-9, found.high + 1]
    assert all(naive_p(values - mean, True) > 0.05 for mean in inside)
    assert all(naive_p(values - mean, True) <= 0.05 for mean in outside)


def test_many_signs_are_drawn(rng):
    values = rng.normal(0.1, size=40)
    found = flip_signs(values, n_permutations=2000)
    assert not found.exact
    assert found.smallest_p == 1 / 2001
    assert "2,000 random sign flips" in found.words
    shifted = flip_signs(values - found.low + 0.02, n_permutations=2000)
    assert shifted.p_value < 0.05 < flip_signs(values - values.mean()).p_value
    assert found.low < values.mean() < found.high


@pytest.mark.parametrize("n", [2, 5])
def test_few_participants_have_no_interval(n):
    found = over_participants(pd.Series(np.arange(1.0, n + 1)), two_sided=False)
    assert found["low"] is None
    assert "6 participants" in found["interval"]
    assert found["p"] == found["smallest_p"] == 1 / 2**n


def group_of(right, permutation=None, n=8):
    """Result of a group; the share of right answers of each participant."""
    truth = np.tile(["a", "b"], n // 2)
    parts = []
    for number, share in enumerate(right):
        guess = np.where(np.arange(n) < round(share * n), truth, np.where(truth == "a", "b", "a"))
        columns = {"fold": number, "sample": np.arange(n) + number * n, "group": f"sub-{number}"}
        parts.append(pd.DataFrame(columns | {"y_true": truth, "y_pred": guess}))
    folds = range(len(right))
    scores = pd.DataFrame({"fold": folds, "accuracy": right, "n_train": 8, "n_test": n})
    settings = {} if permutation is None else {"permutation": permutation}
    whole = pd.concat(parts, ignore_index=True)
    return Result("classification", whole, scores, scores[["fold"]], ("a", "b"), settings)


def outcome_of(right, alone, **more):
    result = group_of(right, more.pop("permutation", None))
    own = {str(n): None if one is None else group_of([one]) for n, one in enumerate(alone)}
    table = second_level(result, own)
    return table, group_tests(table, result, **more)


def test_within_is_tested_by_sign_flips():
    right = [0.625, 0.75, 0.5, 0.875]
    _, tests = outcome_of([0.75] * 4, right)
    assert tests["within"]["p"] == naive_p(np.array(right) - 0.5, False) == 0.125
    line = tests["within"]["line"]
    assert "over 4 participants" in line
    assert "p = 0.125 (all 16 sign flips, one-sided, smallest possible p 0.0625)" in line
    assert "t" not in tests["within"]


def test_between_claims_no_p_that_takes_participants_for_independent():
    table, tests = outcome_of([1.0] * 12, [1.0] * 12)
    assert tests["within"]["p"] == 1 / 2**12
    assert "p" not in tests["between"]
    assert "share training participants" in tests["between"]["line"]
    assert "p =" not in tests["between"]["line"]
    assert table["between"].tolist() == [1.0] * 12


def test_between_has_the_p_of_the_permutation_test():
    found = {"score": "margin", "p_value": 0.012, "smallest_p": 0.002, "stands_for": "svm"}
    _, tests = outcome_of([0.75] * 6, [0.75] * 6, permutation=found | {"decoder": "ridge"})
    assert tests["between"]["p"] == 0.012
    assert "p = 0.012 (permutation test of the" in tests["between"]["line"]
    assert "of ridge, smallest possible p 0.002" in tests["between"]["line"]


def test_a_prior_from_the_others_leaves_no_independent_participants():
    _, tests = outcome_of([0.75] * 8, [0.75] * 8, shared=True)
    assert "p" not in tests["within"]
    assert tests["within"]["low"] is None
    assert "share training participants" in tests["within"]["line"]


def test_the_page_has_a_dot_for_every_participant():
    table, tests = outcome_of([0.5, 0.75, 1.0], [0.625, None, 0.875])
    of_all, between = as_tables(table, tests | {"compared": []})
    assert of_all["line"] == tests["within"]["line"]
    assert between["line"] == tests["between"]["line"]
    assert [row[0] for row in of_all["rows"]] == [*table["participant_id"], "mean"]
    assert of_all["rows"][-1][-1] == "0.750"
    (axes,) = of_all["picture"].figure.axes
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [sorted(line.get_ydata()) for line in dots] == [[0.625, 0.875], [0.5, 0.75, 1.0]]


@pytest.fixture
def group(run, bids, tmp_path, bare_report):
    """Decode a group, under a name and with a model; returns what was printed."""

    def decode(model="logistic", *more, levels=("participant", "group"), name=None):
        given = [*COMMON, "--model", model, *(["--name", name] if name else []), *more]
        for level in levels:
            result = run("bids", bids, tmp_path / "out", level, *given)
            assert result.exit_code == 0, result.output
        return result.output

    return decode


def names_of(folder, ending):
    return sorted(path.name for path in folder.rglob(f"*{ending}"))


@pytest.fixture
def page_of_group(group, monkeypatch):
    """Decode participants quickly, and the group with the page as it is."""

    def decode(model="logistic"):
        group(model, levels=["participant"])
        with monkeypatch.context() as patch:
            patch.setattr(Decoder, "generate_report", WITH_CONTENT)
            return group(model, levels=["group"])

    return decode


def test_terminal_page_index_and_files_agree(page_of_group, tmp_path):
    said = page_of_group()
    (page,) = (tmp_path / "out" / "group").glob("*_report.html")
    tests = json.loads(
        page.with_name(page.name.replace("report.html", "secondlevel.json")).read_text()
    )
    index = (tmp_path / "out" / "index.html").read_text()
    for column in ("within", "between"):
        line = tests[column]["line"]
        assert line in said
        assert line in html.unescape(page.read_text())
        assert line in html.unescape(index)
    assert 'alt="Participants"' in page.read_text()


def test_contrasts_and_models_are_side_by_side(group, tmp_path):
    out = tmp_path / "out"
    group(name="faces-houses")
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file() and p.name != "index.html"}
    ours = [p for p in before if p.name != "dataset_description.json"]
    assert all("contrast-facesHouses" in path.name for path in ours)
    group(name="other")
    group("naive-bayes", name="faces-houses")
    assert {path: path.read_bytes() for path in before} == before
    assert len(names_of(out, "secondlevel.tsv")) == 3
    index = (out / "index.html").read_text()
    pages = [path.relative_to(out).as_posix() for path in out.rglob("*_report.html")]
    assert len(pages) == 3 * 4
    assert all(f'href="{page}"' in index for page in pages)


def test_models_of_the_same_participants_are_compared(group, page_of_group, tmp_path):
    group()
    said = page_of_group("naive-bayes")
    folder = tmp_path / "out" / "group"
    tables = {
        model: pd.read_csv(next(folder.glob(f"*desc-{model}_secondlevel.tsv")), sep="\t")
        for model in ("logistic", "naivebayes")
    }
    written = json.loads(next(folder.glob("*desc-naivebayes_secondlevel.json")).read_text())
    (found,) = written["compared"]
    assert found["name"] == "logistic"
    difference = tables["naivebayes"]["within"] - tables["logistic"]["within"]
    assert found["within"]["mean"] == pytest.approx(difference.mean(), abs=1e-5)
    assert found["within"]["p"] == pytest.approx(naive_p(difference.round(5), True))
    assert "p" not in found["between"]
    assert found["line"] in said
    page = next(folder.glob("*desc-naivebayes_report.html")).read_text()
    assert found["line"] in html.unescape(page)
    assert "within, logistic" in page
    assert found["scores"]["within"] == pytest.approx(
        tables["logistic"]["within"].tolist(), abs=1e-5
    )


@pytest.mark.parametrize("other", [["--smoothing", 4], ["--unit", "volume"], ["--delay", 2]])
def test_groups_that_differ_in_more_than_the_model_are_not_compared(group, other):
    group()
    said = group("logistic", *other, name="other")
    assert "Not compared with face-house (logistic): it differs in" in said
    assert str(other[0]).strip("-") in said


def test_participants_who_changed_are_not_compared(group):
    group()
    group("logistic", "--split", "few-shot:2", "--participant-label", "01", levels=["participant"])
    said = group("naive-bayes")
    assert "Not compared with logistic: " in said
    assert "Compared with" not in said


def test_the_group_says_under_which_names_participants_were_decoded(group):
    group("logistic", levels=["participant"])
    said = group("naive-bayes", levels=["group"])
    assert "no scores; run the level participant first" in said
    assert f"There are scores of task-faces_contrast-faceHouse_space-{SPACE}_desc-logistic." in said


def test_an_index_of_somebody_else_stays(group, tmp_path):
    (tmp_path / "out").mkdir()
    group("logistic", "--participant-label", "01", levels=["participant"])
    index = tmp_path / "out" / "index.html"
    index.write_text("<title>mine</title>")
    said = group("logistic", "--participant-label", "01", levels=["participant"])
    assert "index.html: is not of voxprior and stays as it is" in said
    assert index.read_text() == "<title>mine</title>"


@pytest.mark.parametrize("name", ["", "-", "a/b", "../x", "a_", "x" * 41, "é"])
def test_a_name_that_no_file_can_have_is_refused(refused, bids, tmp_path, name):
    line = refused("bids", bids, tmp_path / "out", "group", *COMMON, "--name", name)
    assert "cannot be part of a file name" in line
    assert not (tmp_path / "out").exists()


def test_a_name_of_two_lines_is_refused(refused, bids, tmp_path):
    line = refused("bids", bids, tmp_path / "out", "group", *COMMON, "--name", "a\nb")
    assert "holds a line break" in line
    assert not (tmp_path / "out").exists()


def test_names_that_lead_to_the_same_files_are_refused(group, refused, bids, tmp_path):
    one = ["--participant-label", "01", "--model", "logistic"]
    group("logistic", *one[:2], levels=["participant"], name="a-b")
    line = refused("bids", bids, tmp_path / "out", "participant", *COMMON, *one, "--name", "aB")
    assert "files of the contrast a-b have the names that aB would have" in line
    assert "--name" in line


def test_the_task_is_found_where_there_is_one(run, refused, bids, tmp_path, bare_report):
    from voxprior.study import Study

    assert Study.from_bids(bids, tmp_path / "out").name.startswith("task-faces_contrast-all_")
    for path in [*(bids / "derivatives").rglob("sub-02_*run-3*")]:
        path.rename(path.with_name(path.name.replace("task-faces", "task-rest")))
    line = refused("bids", bids, tmp_path / "out", "group", *COMMON)
    assert "has runs of 2 tasks" in line
    assert "--task among faces, rest" in line
    study = Study.from_bids(bids, tmp_path / "out", participants=["01", "03"])
    assert study.name.startswith("task-faces_")
    with pytest.raises(InputError, match="Expected task among faces, rest"):
        Study.from_bids(bids, tmp_path / "out")
