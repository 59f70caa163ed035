import errno
import warnings

import pytest
import typer
from typer.testing import CliRunner

from voxprior.cli.errors import in_options, one_line, reported
from voxprior.validation import AuditError, Finding


def invoke(problem, monkeypatch=None):
    app = typer.Typer(pretty_exceptions_enable=False)

    def command() -> None:
        problem()

    app.command()(reported(command))
    return CliRunner().invoke(app, [])


def raising(error):
    def problem():
        raise error

    return problem


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("two\nlines"), "voxprior: two lines"),
        (
            FileNotFoundError(errno.ENOENT, "No such file", "x.nii"),
            "voxprior: x.nii: no such file.",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), "voxprior: no space left on device."),
        (MemoryError(), "voxprior: not enough memory"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(error, text):
    result = invoke(raising(error))
    assert result.exit_code == 2
    assert result.output.startswith(text)
    assert result.output.count("\n") == 1


def test_debugging_shows_the_error(monkeypatch):
    monkeypatch.setenv("VOXPRIOR_DEBUG", "1")
    assert isinstance(invoke(raising(ValueError("x"))).exception, ValueError)


def test_a_bug_is_not_hidden():
    assert isinstance(invoke(raising(ZeroDivisionError())).exception, ZeroDivisionError)


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

    result = invoke(warn)
    assert result.exit_code == 0
    assert result.output == "warning: look here\n"


def test_the_audit_says_how_to_go_on():
    finding = Finding("shared-group", "error", "Runs are shared.")
    assert one_line(AuditError([finding])).endswith("all the same: --allow shared-group")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("or ask for resample=True.", "or ask for --resample."),
        ("a mask (mask=None computes one)", "a mask (no --mask computes one)"),
        ("Use standardize='train' or 'none'.", "Use --standardize train or 'none'."),
        ("Or use unmatched='drop'.", "Or use --unmatched drop."),
        ("for instance with LeaveOneGroupOut.", "for instance with --split groups."),
        ("use calibration=None.", "use --set calibration=None."),
        ("leave it: --set whiten=False.", "leave it: --set whiten=False."),
        ("1 = one, x=3", "1 = one, x=3"),
    ],
)
def test_python_is_said_in_options(text, said):
    assert in_options(text) == said
