"""What AutoRegressor decided, in sentences with the numbers that decided."""

from __future__ import annotations

from typing import Any

import numpy as np

from voxprior.auto.regression_kernels import ScanKernels
from voxprior.auto.student import STRETCHES, TAUS

# Noise ratios from which a member says that there is next to nothing to find.
NOTHING_FOUND = 10.0


def decisions_of(model: Any, scans: ScanKernels, icc: float) -> list[str]:
    """One sentence per decision of a fitted `AutoRegressor`."""
    return [_views(model), _units(model, scans, icc), _success(model), *_weights(model)]


def _views(model: Any) -> str:
    count = len(model.views_)
    return f"The scans were read in {count} view{'s' * (count > 1)}: {', '.join(model.views_)}."


def _units(model: Any, scans: ScanKernels, icc: float) -> str:
    if scans.groups is None:
        return (
            f"Scans are independent, one left out at a time. Effective sample size: {len(scans.X)}."
        )
    centered = "were" if scans.centered else "were not"
    return (
        f"{len(scans.X)} scans of {scans.groups.max() + 1} groups, left out group by group: groups "
        f"explain {icc:.2f} of the variance of the targets, and scans {centered} centred by group. "
        f"Effective sample size: {model.n_eff_:.1f}."
    )


def _success(model: Any) -> str:
    if np.isnan(model.left_out_r2_):
        return (
            "No scan could be left out and predicted (too few of them, or a target that does not "
            "vary): members have equal weights."
        )
    return (
        f"On left-out training scans R² was {model.left_out_r2_:.2f} and the mean log density "
        f"{model.left_out_log_density_:.2f}."
    )


def _weights(model: Any) -> list[str]:
    noisy = model.member_weights_[:, TAUS >= NOTHING_FOUND].sum()
    stretch = float(np.exp(model.stretch_posterior_ @ np.log(STRETCHES)))
    return [
        f"Members that find almost nothing have {model.mean_weight_ + noisy:.2f} of the weight: "
        f"{model.mean_weight_:.2f} for the mean alone, {noisy:.2f} for at least ten times as much "
        "noise as signal.",
        f"Linear members, which the voxel map shows, have {model.linear_weight_:.2f} of the "
        "weight.",
        f"Intervals are {stretch:.2f} times as wide as those of the members, with "
        f"{model.degrees_of_freedom_:.1f} degrees of freedom.",
    ]
