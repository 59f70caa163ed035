"""Bars of progress: text for a terminal, one line that is kept in a notebook."""

import sys
from types import ModuleType

import pytest

from voxprior.errors import InputWarning
from voxprior.validation import progress
from voxprior.validation.progress import NotebookBar, progress_bar


@pytest.fixture
def notebook(monkeypatch):
    """What a notebook is given to show, in the order that it is given."""
    shown: list[str] = []

    class Handle:
        def update(self, bar):
            shown.append(bar._repr_html_())

    def display(bar, display_id):
        assert display_id
        shown.append(bar._repr_html_())
        return Handle()

    module = ModuleType("IPython.display")
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    return shown


def test_a_notebook_keeps_one_bar_that_ends_full(notebook, capfd, recwarn):
    with progress_bar(True, "a < b", 3) as advance:
        advance()
        advance(2)
    assert 'value="0"' in notebook[0]
    assert '<progress max="3" value="3"></progress> 3/3, 0 s' in notebook[-1]
    assert "a &lt; b" in notebook[-1]
    assert "".join(capfd.readouterr()) == ""
    assert list(recwarn) == []


def test_a_notebook_is_told_where_work_stopped(notebook):
    def work():
        with progress_bar(True, "folds", 4) as advance:
            advance()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert 'value="1"' in notebook[-1]


def test_a_notebook_shows_nothing_that_was_not_asked_for(notebook, capfd):
    with progress_bar(False, "folds", 2) as advance:
        advance()
    assert notebook == []
    assert "".join(capfd.readouterr()) == ""


def test_a_bar_says_how_long_the_rest_takes(monkeypatch):
    clock = iter([10.0, 10.0, 16.0, 20.0])
    monkeypatch.setattr("voxprior.validation.progress.time.monotonic", lambda: next(clock))
    bar = NotebookBar("folds", 4, began=10.0)
    assert repr(bar) == "folds 0/4, started"
    bar.done = 1
    assert repr(bar) == "folds 1/4, about 0 s left"
    bar.done = 2
    assert repr(bar) == "folds 2/4, about 6 s left"
    bar.done = 4
    assert repr(bar) == "folds 4/4, 10 s"


@pytest.mark.parametrize("seconds", [2.0, 50.0])
def test_a_terminal_tells_the_time_left_after_one_step(monkeypatch, seconds):
    bars, clock = [], [0.0]

    class Timed(progress.Progress):
        def __init__(self, *columns, **options):
            super().__init__(*columns, **options, get_time=lambda: clock[0], auto_refresh=False)
            bars.append(self)

    monkeypatch.setattr(progress, "Progress", Timed)
    with progress_bar(True, "blocks", 10) as advance:
        for done in (1, 2):
            clock[0] += seconds
            advance()
            assert bars[0].tasks[0].time_remaining == (10 - done) * seconds


@pytest.mark.parametrize("show", [True, False])
def test_long_work_that_nobody_sees_is_announced_once(monkeypatch, show, recwarn):
    now = iter([0.0, 9.0, 18.0, 27.0])
    clock = ModuleType("time")
    clock.monotonic = lambda: next(now)
    monkeypatch.setattr(progress, "time", clock)
    with progress_bar(show, "folds", 20) as advance:
        with pytest.warns(
            InputWarning, match=r"^1 of 20 folds took 9 s: about 3 minutes are left\.$"
        ):
            advance()
        advance()
    assert list(recwarn) == []


def test_short_work_is_silent(recwarn):
    with progress_bar(False, "folds", 20) as advance:
        advance()
    assert list(recwarn) == []
