"""Estimator and data to a Result: splits and the one parallel loop."""

from voxprior.validation.audit import AuditError, AuditWarning, Finding, audit
from voxprior.validation.result import Result
from voxprior.validation.run import cross_validate
from voxprior.validation.splits import (
    Bootstrap,
    FewShotSplit,
    Jackknife,
    LeaveOneGroupOut,
    LeaveOnePerClassOut,
    MonteCarloLeaveOnePerClassOut,
)

__all__ = [
    "AuditError",
    "AuditWarning",
    "Bootstrap",
    "FewShotSplit",
    "Finding",
    "Jackknife",
    "LeaveOneGroupOut",
    "LeaveOnePerClassOut",
    "MonteCarloLeaveOnePerClassOut",
    "Result",
    "audit",
    "cross_validate",
]
