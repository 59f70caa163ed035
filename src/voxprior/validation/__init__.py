"""Estimator and data to a Result: splits, the one parallel loop, audit, inference."""

from voxprior.validation.audit import AuditError, AuditWarning, Check, Finding, audit
from voxprior.validation.bootstrapped import compare_bootstrapped
from voxprior.validation.choice import score_after_nested_choice
from voxprior.validation.cluster import Cluster
from voxprior.validation.comparison import compare_decoders, score_after_choice
from voxprior.validation.covariates import (
    CovariateCoding,
    CovariateRemoval,
    compare_with_covariates,
    covariate_matrix,
    with_covariates,
)
from voxprior.validation.intervals import Interval, chance_level, difference_interval, interval
from voxprior.validation.learning import LearningCurve, learning_curve
from voxprior.validation.permutation import PermutationResult, permutation_test
from voxprior.validation.relabel import relabelling
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
from voxprior.validation.verdict import Verdict, verdict

__all__ = [
    "AuditError",
    "AuditWarning",
    "Bootstrap",
    "Check",
    "Cluster",
    "CovariateCoding",
    "CovariateRemoval",
    "FewShotSplit",
    "Finding",
    "Interval",
    "Jackknife",
    "LearningCurve",
    "LeaveOneGroupOut",
    "LeaveOnePerClassOut",
    "MonteCarloLeaveOnePerClassOut",
    "PermutationResult",
    "Result",
    "Verdict",
    "audit",
    "chance_level",
    "compare_bootstrapped",
    "compare_decoders",
    "compare_with_covariates",
    "covariate_matrix",
    "cross_validate",
    "difference_interval",
    "interval",
    "learning_curve",
    "permutation_test",
    "relabelling",
    "score_after_choice",
    "score_after_nested_choice",
    "verdict",
    "with_covariates",
]
