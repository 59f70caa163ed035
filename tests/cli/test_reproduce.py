from voxprior.papers import frame


def test_the_five_papers_are_listed(run):
    listed = run("reproduce").output
    names = ("palatucci2007", "carmi2009", "xiang2009", "rao2017", "chen2005")
    assert all(name in listed for name in names)
    assert "feature sharing from two examples per class" in listed


def test_every_paper_has_steps():
    for name in frame.names():
        paper = frame.load(name)
        assert paper.title
        assert len({step.name for step in paper.steps}) == len(paper.steps) > 0
