import errno
import os
import warnings
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
import typer
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from voxprior import Decoder
from voxprior.cli.arguments import with_groups
from voxprior.cli.decode import decode
from voxprior.cli.errors import fault, one_line, reported
from voxprior.cli.words import flags_of, speaking_of
from voxprior.decoder.experiment import Experiment
from voxprior.errors import InputError, InputWarning, option
from voxprior.models import growth
from voxprior.validation import AuditError, Finding, audit
from voxprior.validation.audit import heed

Out = Annotated[Path | None, typer.Option("--out")]


def invoke(problem, *arguments):
    """Run a command that does what `problem` does."""
    app = typer.Typer(pretty_exceptions_enable=False)

    def command(out: Out = None) -> None:
        problem()

    app.command()(reported(command))
    return CliRunner().invoke(app, [str(a) for a in arguments])


def raising(error):
    def problem():
        raise error

    return problem


def in_the_package(statement):
    """Run a statement as one of a module of the package."""
    inside = {"__name__": "voxprior.somewhere", "np": np}
    return lambda: exec(compile(statement, "somewhere.py", "exec"), inside)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestBadInput:
    @pytest.mark.parametrize(
        ("error", "text"),
        [
            (InputError("two\nlines"), "voxprior: two lines."),
            (
                FileNotFoundError(errno.ENOENT, "No such file", "x.nii"),
                "voxprior: x.nii: no such file.",
            ),
            (
                OSError(errno.ENOSPC, "No space left on device"),
                "voxprior: no space left on device.",
            ),
            (MemoryError(), "voxprior: not enough memory"),
        ],
    )
    def test_is_one_line_and_exit_2(self, error, text, here):
        result = invoke(raising(error))
        assert result.exit_code == 2
        assert result.output.startswith(text)
        assert result.output.count("\n") == 1
        assert not list(here.iterdir())

    @pytest.mark.parametrize(
        "problem",
        [
            in_the_package("raise ValueError('a message')"),
            in_the_package("raise TypeError('a message')"),
            lambda: heed([Finding("few", "error", "Few scans.")]),
            lambda: LogisticRegression(C=-1).fit([[0.0], [1.0]], [0, 1]),
            lambda: LogisticRegression().fit([[np.nan], [1.0]], [0, 1]),
        ],
    )
    def test_is_what_is_refused_on_purpose(self, problem, here):
        result = invoke(problem)
        assert result.exit_code == 2, result.output
        assert not list(here.iterdir())

    def test_a_finding_is_named_once(self):
        findings = [Finding("shared-group", "error", text) for text in ("One.", "Two.")]
        with speaking_of(flags_of(with_groups(decode))):
            line = one_line(AuditError(findings))
        assert line.endswith("Two. To go on all the same: --allow shared-group")

    def test_what_the_audit_found_is_said_in_options(self):
        X, y, runs = np.ones((8, 2)), np.tile([0, 1], 4), np.repeat([0, 1, 1, 2], 2)
        folds = [(np.arange(4), np.arange(4, 8))]
        (shared,) = audit(LogisticRegression(), X, y, runs, folds)
        with speaking_of(flags_of(with_groups(decode))):
            line = one_line(AuditError([shared]))
        assert "split by group, --split groups. To go on all the same: --allow shared-g" in line


class TestInternalError:
    @pytest.mark.parametrize(
        "problem",
        [
            raising(ZeroDivisionError("x")),
            raising(KeyError("x")),
            raising(AssertionError()),
            in_the_package("int('x')"),
            in_the_package("len(3)"),
            in_the_package("np.ones(3) @ np.ones(4)"),
            lambda: np.linalg.inv(np.zeros((2, 2))),
            raising(ValueError("of a library")),
        ],
    )
    def test_is_one_line_exit_1_and_a_log(self, problem, here):
        result = invoke(problem)
        assert result.exit_code == 1
        assert result.output.startswith("voxprior: internal error: ")
        assert result.output.count("\n") == 1
        (log,) = here.iterdir()
        assert f"The log is {log}; please report it." in result.output
        assert "Traceback (most recent call last)" in log.read_text()

    def test_the_log_is_in_the_output_folder_and_says_how_it_came(self, here):
        out = here / "deep" / "out"
        result = invoke(raising(ZeroDivisionError("by\nzero")), "--out", out)
        assert "internal error: ZeroDivisionError: by zero. The log is" in result.output
        (log,) = out.iterdir()
        text = log.read_text()
        assert "command = 'command'" in text
        assert f"out = {out!r}" in text
        assert f"numpy {np.__version__}" in text
        assert not list(here.glob("*.log"))

    def test_no_log_replaces_another(self, here):
        for _ in range(2):
            invoke(raising(KeyError("x")))
        assert len(list(here.iterdir())) == 2

    def test_a_folder_that_cannot_be_written_hides_nothing(self, here, monkeypatch):
        (here / "file").write_text("the user's")
        result = invoke(raising(KeyError("x")), "--out", here / "file")
        assert result.exit_code == 1
        assert (here / "file").read_text() == "the user's"
        assert len(list(here.glob("*.log"))) == 1

        def full(*_, **__):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("tempfile.mkstemp", full)
        result = invoke(raising(KeyError("x")))
        assert result.exit_code == 1
        assert "internal error: KeyError: 'x'. No log could be written" in result.output

    @pytest.mark.parametrize("problem", [raising(ValueError("x")), raising(InputError("x"))])
    def test_debugging_shows_the_traceback_of_either(self, problem, monkeypatch, here):
        monkeypatch.setenv("VOXPRIOR_DEBUG", "1")
        assert isinstance(invoke(problem).exception, ValueError)
        assert not list(here.iterdir())

    def test_an_empty_message_is_told(self):
        assert fault(AssertionError()) == "internal error: AssertionError."

    @pytest.mark.parametrize("end", [typer.Exit(3), typer.Abort(), typer.BadParameter("x")])
    def test_the_ways_that_typer_ends_a_command_stay(self, end, here):
        result = invoke(raising(end))
        assert result.exit_code == getattr(end, "exit_code", 1)
        assert "internal error" not in result.output
        assert not list(here.iterdir())


class TestAtWork:
    """Whole commands, with a fault inside."""

    def test_nothing_but_the_log_remains_and_the_folder_can_be_used(
        self, run, study, tmp_path, monkeypatch, bare_report
    ):
        out = tmp_path / "out"
        command = ["decode", *study, "--model", "naive-bayes", "--out", out]
        with monkeypatch.context() as broken:
            broken.setattr(Decoder, "fit", raising_method(IndexError("list index out of range")))
            broken.setattr(Experiment, "evaluate", raising_method(IndexError("out of range")))
            result = run(*command)
        assert result.exit_code == 1
        (log,) = out.iterdir()
        assert "IndexError" in log.read_text()
        assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []
        assert run(*command).exit_code == 0
        assert (out / "result.json").exists()

    @pytest.mark.parametrize("name", ["absent.nii", "[/].nii", "\x1b[31mred.nii"])
    def test_names_are_told_as_they_are(self, refused, study, tmp_path, name):
        line = refused("decode", *study, "--mask", name, "--out", tmp_path / "out")
        assert name.replace("\x1b", "\\x1b") in line


def raising_method(error):
    def method(*_, **__):
        raise error

    return method


@pytest.mark.parametrize(("said", "text"), [("3 folds kept.", "3 folds kept."), ("", "Nothing")])
def test_ctrl_c_ends_with_130(said, text):
    result = invoke(raising(KeyboardInterrupt(said) if said else KeyboardInterrupt()))
    assert result.exit_code == 130
    assert result.output.startswith("voxprior: stopped.")
    assert text in result.output


def test_warnings_are_lines_and_libraries_are_quiet():
    def warn():
        for _ in range(2):
            warnings.warn("look\nhere", UserWarning, stacklevel=1)
        warnings.warn("will change", FutureWarning, stacklevel=1)
        warnings.warn(InputWarning(f"Set {option('out', 'x y')}."), stacklevel=1)

    result = invoke(warn)
    assert result.exit_code == 0
    assert result.output == "warning: look here\nwarning: Set --out 'x y'.\n"


def test_a_log_of_another_user_stays(here):
    """Files are made anew, so a name that is taken, even by a link, is never written to."""
    os.symlink(here / "elsewhere", here / "voxprior-error-x.log")
    invoke(raising(KeyError("x")))
    assert not (here / "elsewhere").exists()


@pytest.mark.parametrize(
    ("model", "name", "less"),
    [
        ("gp", "GPClassifier", "or the model auto, take less"),
        ("auto", "AutoClassifier", "or the model sharing, take less"),
        ("network", "InverseTreeClassifier", "or --set doubt=None or the model sharing, take less"),
    ],
)
def test_a_long_fit_is_told_before_it_starts(
    run, study, tmp_path, bare_report, monkeypatch, model, name, less
):
    monkeypatch.setattr(growth, "LONG", 0.0)
    result = run("decode", *study, "--model", model, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.output.splitlines() if f"{name} takes about" in line][:1]
    assert line.startswith("warning: ")
    assert "on one core" in line
    assert less in line
