"""Outcome of an audit: findings, and all checks with their outcomes; and how findings are heeded.

A check returns what it found, a message each, or `NotChecked` with the reason. What was not looked
at is never reported as if it had been: every check of an audit has a line, whatever the outcome.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from voxprior.errors import InputError, InputWarning, in_python, option

FOUND, NOT_FOUND, NOT_CHECKED = "found", "not found", "not checked"


@dataclass(frozen=True)
class Finding:
    """Something the audit found.

    Attributes
    ----------
    name : str
        A name of `voxprior.validation.audit.SEVERITY`; naming it in ``allow`` overrides it.
    severity : {"error", "warning"}
        Whether it stops the run.
    message : str
        What was found and what to do, in the words of Python.
    allowed : bool
        Whether the user has overridden it.
    marked : str
        The message with the marks of `voxprior.errors.option`, for other front ends. Only the
        message is saved.

    Examples
    --------
    >>> from voxprior.errors import option
    >>> from voxprior.validation import Finding
    >>> found = Finding("shared-group", "error", f"Split by group, {option('cv', 'groups')}.")
    >>> found.message
    "Split by group, cv='groups'."
    """

    name: str
    severity: str
    message: str
    allowed: bool = False
    marked: str = field(default="", compare=False, repr=False)

    def __post_init__(self):
        object.__setattr__(self, "marked", self.marked or self.message)
        object.__setattr__(self, "message", in_python(self.marked))

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as a plain dictionary, without marks."""
        content = asdict(self)
        del content["marked"]
        return content


@dataclass(frozen=True)
class Check:
    """One thing an audit looks for, and what came of it.

    Attributes
    ----------
    name : str
        That of the finding it may lead to.
    outcome : {"found", "not found", "not checked"}
        What came out.
    reason : str
        Why it could not be checked; empty where it was.
    askable : bool
        Whether it could be, with something that the user may supply: groups, or a table.

    Examples
    --------
    >>> from voxprior.validation import Check
    >>> print(Check("shared-group", "not checked", "no groups are given"))
    shared-group: not checked, because no groups are given
    """

    name: str
    outcome: str
    reason: str = ""
    askable: bool = False

    def __str__(self) -> str:
        because = f", because {self.reason}" if self.reason else ""
        return f"{self.name}: {self.outcome}{because}"

    def to_dict(self) -> dict[str, Any]:
        """Return the check as a plain dictionary."""
        return asdict(self)


class NotChecked(NamedTuple):
    """Answer of a check that could not be made; `askable` if the user may supply what it lacks."""

    reason: str
    askable: bool = False


Answer = list[str] | NotChecked


@dataclass(frozen=True)
class Audit(Sequence):
    """Findings of an audit, in order, errors first; ``checks`` lists what was looked for.

    Examples
    --------
    >>> from voxprior.validation import Check, Finding
    >>> from voxprior.validation.audit import Audit
    >>> finding, check = Finding("shared-group", "error", "Split."), Check("shared-group", "found")
    >>> found = Audit((finding,), (check,))
    >>> len(found), found[0].name
    (1, 'shared-group')
    """

    findings: tuple[Finding, ...] = ()
    checks: tuple[Check, ...] = ()

    def __getitem__(self, which):
        return self.findings[which]

    def __len__(self) -> int:
        return len(self.findings)


class AuditError(InputError):
    """Findings that make the number untrue; ``findings`` holds them."""

    def __init__(self, findings: Sequence[Finding]):
        self.findings = tuple(findings)
        super().__init__("\n".join(f"[{f.name}] {f.marked}" for f in self.findings))

    @property
    def marked(self) -> str:
        """The findings, a line each, and how to go on, with marks."""
        names = list(dict.fromkeys(f.name for f in self.findings))
        return f"{self.what}\nTo go on all the same: {option('allow', names)}"

    def __reduce__(self):
        return type(self), (self.findings,)


class AuditWarning(InputWarning):
    """A finding of the audit that does not stop the run."""


def heed(findings: Sequence[Finding], stacklevel: int = 3) -> None:
    """Raise `AuditError` for errors and warn of warnings, except those that are allowed."""
    errors = [f for f in findings if f.severity == "error" and not f.allowed]
    if errors:
        raise AuditError(errors)
    for finding in findings:
        if not finding.allowed:
            warnings.warn(AuditWarning(f"[{finding.name}] {finding.marked}"), stacklevel=stacklevel)
