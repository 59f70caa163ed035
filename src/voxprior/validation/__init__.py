"""Estimator and data to a Result: splits and the one parallel loop."""

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
    "Bootstrap",
    "FewShotSplit",
    "Jackknife",
    "LeaveOneGroupOut",
    "LeaveOnePerClassOut",
    "MonteCarloLeaveOnePerClassOut",
    "Result",
    "cross_validate",
]
