"""Papers run as steps, are joined, and end in one page; absent data are named."""

import os
import re

import numpy as np
import pytest
from matplotlib.figure import Figure

from voxprior.papers import datasets, frame, page
from voxprior.papers.claims import Claim
from voxprior.papers.frame import Paper, Part, Run, Step, Table, drawing
from voxprior.validation import Cluster
from voxprior.validation import run as run_module
from voxprior.validation.run import Outcome, run_tasks


def first(run):
    for _ in run.each(range(3)):
        pass
    claim = Claim("A beats <b>B</b>", [1.0, 1.1, 1.2, 0.9, 1.0], "five", "p. 1", "all")
    rows = [{"method": "A", "score": 0.12345, "note": None}]
    return Part({"Scores": Table(rows, "fewer scans")}, {"figure1_a_map": picture()}, [claim])


def second(run):
    refuted = Claim("C is best", [-1.0, -1.1, -1.2, -0.9, -1.0], "five")
    return Part({"Scores": Table([{"method": "C", "score": 1.0, "note": "x"}])}, {}, [refuted])


def third(run):
    return Part({"Faces": Table([{"n": len(list(datasets.folder("imm_faces").iterdir()))}])})


def picture():
    return drawing(Figure(figsize=(1, 1)), "Published: nothing. Here: nothing.")


@pytest.fixture
def papers(monkeypatch):
    steps = [Step("first", first, 2.0), Step("second", second), Step("third", third)]
    known = {"smith1999": Paper("Smith 1999", steps), "doe2001": Paper("Doe 2001", steps[1:2])}
    monkeypatch.setattr(frame, "load", known.__getitem__)
    monkeypatch.setattr(frame, "names", lambda: {name: p.title for name, p in known.items()})


def thread_cluster(monkeypatch, tell=None):
    """A cluster whose workers are threads of this process, which know the papers made up here."""
    distributed = pytest.importorskip("distributed")
    real, quick = distributed.LocalCluster, {"processes": False}
    monkeypatch.setattr(distributed, "LocalCluster", lambda **given: real(**given | quick))
    return Cluster("local:2", tell=tell, dashboard=True)


@pytest.fixture
def no_data(monkeypatch):
    monkeypatch.delenv("VOXPRIOR_DATA", raising=False)


def test_steps_are_joined_in_order(papers, no_data, capsys):
    (found,) = frame.reproduce(["smith1999"], quick=True)
    assert [row["method"] for row in found.part.tables["Scores"].rows] == ["A", "C"]
    assert found.part.tables["Scores"].differs == "fewer scans"
    assert [claim.verdict.value for claim in found.part.claims] == ["holds", "refuted"]
    told = capsys.readouterr().err
    assert "smith1999: first" in told
    assert "left" in told


@pytest.mark.parametrize("seconds_here", [0.0, np.inf])
def test_steps_go_over_workers(papers, monkeypatch, tmp_path, seconds_here, capsys):
    monkeypatch.setattr(run_module, "SECONDS_HERE", seconds_here)  # none is tried here before
    (tmp_path / "imm_faces").mkdir()
    monkeypatch.setenv("VOXPRIOR_DATA", str(tmp_path))
    told: list[str] = []
    alone = frame.reproduce(["smith1999", "doe2001"], quick=True)
    capsys.readouterr()
    with thread_cluster(monkeypatch, told.append) as cluster:
        found = frame.reproduce(["smith1999", "doe2001"], quick=True)
        assert cluster.started
    assert found == alone
    assert found[0].part.tables["Faces"].rows == [{"n": 0}]
    assert told[0].startswith("Dask dashboard: ")
    assert "doe2001: second: 0 s, about" in capsys.readouterr().err
    assert os.environ["VOXPRIOR_DATA"] == str(tmp_path)


def test_the_longest_step_goes_first(papers, no_data, monkeypatch):
    given: list[frame.Place] = []

    def note(work, tasks, shared, **options):
        given.extend(tasks)
        return run_tasks(work, tasks, shared, **options)

    monkeypatch.setattr(frame, "run_tasks", note)
    with thread_cluster(monkeypatch):
        frame.reproduce(["doe2001", "smith1999"])
    assert given[0] == ("smith1999", 0)


def test_a_stop_with_a_cluster_gives_no_half_of_a_paper(papers, no_data, monkeypatch):
    outcome = Outcome([0], [(Part(), 0.0)], False)
    monkeypatch.setattr(frame, "run_tasks", lambda *_, **__: outcome)
    with thread_cluster(monkeypatch), pytest.raises(KeyboardInterrupt):
        frame.reproduce(["smith1999"])


@pytest.mark.slow
def test_a_paper_by_worker_processes(run, no_data, tmp_path):
    pytest.importorskip("distributed")
    told = ""
    for name, more in (("one", []), ("two", ["--cluster", "local:2", "--dashboard"])):
        result = run("reproduce", "palatucci2007", "--quick", "--out", tmp_path / name, *more)
        assert result.exit_code == 0, result.output
        told = result.output
    assert "Dask dashboard: http" in told
    assert "s left" in told
    files = sorted(p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*.*"))
    assert len(files) > 2
    for file in files:
        assert (tmp_path / "two" / file).read_bytes() == (tmp_path / "one" / file).read_bytes()


def test_absent_data_are_named_with_where_to_get_them(papers, no_data, tmp_path):
    (found,) = frame.reproduce(["smith1999"])
    text = found.part.tables["Left out: third"].rows
    assert "VOXPRIOR_DATA is not set" in text
    assert "IMM face database" in text
    (tmp_path / "imm_faces").mkdir()
    with datasets.looking_in(tmp_path):
        (found,) = frame.reproduce(["smith1999"])
    assert found.part.tables["Faces"].rows == [{"n": 0}]
    assert "VOXPRIOR_DATA" not in os.environ


def test_a_missing_set_is_named_once_with_all_that_it_stopped(monkeypatch, no_data):
    steps = [Step("third", third), Step("second", second), Step("fourth", third)]
    monkeypatch.setattr(frame, "load", {"smith1999": Paper("Smith 1999", steps)}.__getitem__)
    shown = page.page(frame.reproduce(["smith1999"]))
    assert shown.count("Left out: third, fourth: data set &#39;imm_faces&#39;") == 1
    assert shown.count('class="caution"') == 1


def test_the_place_of_data_is_put_back(monkeypatch, tmp_path):
    monkeypatch.setenv("VOXPRIOR_DATA", "before")
    with datasets.looking_in(None):
        assert os.environ["VOXPRIOR_DATA"] == "before"
    with pytest.raises(datasets.DataAbsentError, match="StarPlus"), datasets.looking_in(tmp_path):
        datasets.starplus_files()
    assert os.environ["VOXPRIOR_DATA"] == "before"


def test_markdown_has_claims_tables_and_figures(papers, no_data, tmp_path):
    (found,) = frame.reproduce(["smith1999"], quick=True)
    page.write(found, tmp_path)
    text = (tmp_path / "results.md").read_text()
    assert page.QUICK in text
    assert "| A | 0.123 | - |" in text
    assert "![Figure 1: a map](figure1_a_map.png)" in text
    assert "| REFUTED |" in text
    assert (tmp_path / "figure1_a_map.png").read_bytes().startswith(b"\x89PNG")


def test_one_page_has_every_claim_of_every_paper(papers, no_data):
    found = frame.reproduce(["smith1999", "doe2001"])
    assert page.count(found) == "3 claims: 1 holds, 0 undecided, 2 refuted."
    html = page.page(found)
    assert html.count('class="refuted"') == 2
    assert "A beats &lt;b&gt;B&lt;/b&gt;" in html
    assert "data:image/png;base64," in html
    assert "IMM face database" in html
    assert "http" not in html.replace("http-equiv", "")  # nothing is fetched
    assert page.QUICK not in html
    text = page.claims_in_markdown(found)
    assert text.index("## Smith 1999") < text.index("## Doe 2001")
    assert text.count("REFUTED") == 2


def test_a_paper_without_claims_says_so():
    found = [frame.Reproduction("doe2001", "Doe 2001", False, Part())]
    assert "No claim was tested." in page.page(found)
    assert "No claim was tested." in page.claims_in_markdown(found)


def test_command_writes_where_it_is_told(run, papers, no_data, tmp_path):
    result = run("reproduce", "all", "--quick", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    names = {str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*.*")}
    assert names == {
        "index.html", "claims.md", "manifest.json", "smith1999/results.md",
        "smith1999/figure1_a_map.png", "doe2001/results.md",
    }  # fmt: skip
    assert "3 claims" in result.output


def test_without_a_folder_nothing_is_written(run, papers, no_data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("reproduce", "doe2001")
    assert result.exit_code == 0, result.output
    assert "| C is best |" in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("paper", ["smith1999", "doe2001", "all"])
def test_no_link_leads_to_a_picture_that_is_not_there(run, papers, no_data, tmp_path, paper):
    printed = run("reproduce", paper, "--quick").output
    assert "](" not in printed
    assert ("Pictures are drawn with --out: Figure 1: a map." in printed) == (paper != "doe2001")
    run("reproduce", paper, "--quick", "--out", tmp_path / "out")
    for written in (tmp_path / "out").rglob("*.md"):
        links = re.findall(r"\]\(([^)]+)\)", written.read_text())
        assert all((written.parent / link).is_file() for link in links)


def test_somebody_elses_folder_is_refused(refused, papers, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    assert "is not empty" in refused("reproduce", "doe2001", "--out", tmp_path)


def test_bad_input_is_one_line(refused, papers, tmp_path):
    assert "one of smith1999, doe2001, or all" in refused("reproduce", "jones2001")
    text = refused("reproduce", "smith1999", "--data", tmp_path / "no")
    assert "no such folder" in text
    assert "--data" in text


def test_durations_and_runs():
    assert [frame.in_words(s) for s in (3.4, 99, 101, 3600)] == ["3 s", "99 s", "2 min", "60 min"]
    assert list(Run(quick=True).each("ab")) == ["a", "b"]
