"""Posteriors to actions, for any classifier with predict_proba."""

from voxprior.decision.bayes import BayesDecision, decide
from voxprior.decision.calibration import (
    IsotonicCalibrated,
    TemperatureCalibrated,
    apply_temperature,
    fit_temperature,
)
from voxprior.decision.combine import (
    CombinedClassifier,
    combine_mean,
    combine_product,
    evidence_weights,
    log_loss_weights,
)
from voxprior.decision.curves import (
    average_repeats,
    confusion_table,
    expected_cost_curve,
    group_bootstrap,
    proper_scores,
    reliability_curve,
    risk_coverage_curve,
)
from voxprior.decision.priors import correct_priors, estimate_priors

__all__ = [
    "BayesDecision",
    "CombinedClassifier",
    "IsotonicCalibrated",
    "TemperatureCalibrated",
    "apply_temperature",
    "average_repeats",
    "combine_mean",
    "combine_product",
    "confusion_table",
    "correct_priors",
    "decide",
    "estimate_priors",
    "evidence_weights",
    "expected_cost_curve",
    "fit_temperature",
    "group_bootstrap",
    "log_loss_weights",
    "proper_scores",
    "reliability_curve",
    "risk_coverage_curve",
]
