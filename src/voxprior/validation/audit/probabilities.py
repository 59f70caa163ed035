"""Probabilities that are not on the scale of the evidence: AUC is high, and log-loss at chance.

Order is right where AUC is above chance; log-loss also asks how far apart probabilities are. Put on
another scale b they are p_i[c]^b / Σ_k p_i[k]^b. The slope of the log-likelihood in b at b = 1 is
the loss that the probabilities state minus the loss that came,

    U_i = log p_i[y_i] - Σ_c p_i[c] log p_i[c]                                              (1)

whose mean is 0 wherever labels come with the probabilities stated, whatever these are. Three things
must hold for a finding:

* U, summed by group, has a mean other than 0: Student's t over groups, two-sided, p ≤ .01;
* of what log-loss would gain over chance on the best scale (that of the other groups, for every
  group) less than a quarter is gained:  L0 - L < ¼ (L0 - L*);
* the 95 % interval of AUC is above ½.

The first one bounds the rate of false alarms by 1 % for probabilities that are right, as far as
groups are independent and t holds; the others only make findings rarer. The slow tests
measure that rate.

| symbol | variable | shape |
|---|---|---|
| log p | `log_p` | (m, C) |
| U summed by group | `surplus` | (G,) |
| b | `SCALES` | (S,) |
| L* | `best` | scalar |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from voxprior.validation.audit.finding import Answer, NotChecked
from voxprior.validation.intervals import FEWEST_GROUPS, chance_level, interval

if TYPE_CHECKING:
    from voxprior.validation.result import Result

LEVEL = 0.01
GAINED = 0.25
SCALES = np.exp(np.linspace(-7, 7, 141))


def probability_scale(result: Result) -> Answer:
    """AUC is high and log-loss at chance."""
    if result.task == "regression":
        return NotChecked("the target is a number")
    if not result.has_probabilities:
        return NotChecked("the decoder gives no probabilities")
    table = result.predictions
    group = np.unique(table["group"].to_numpy(), return_inverse=True)[1]
    if group.max() + 1 < FEWEST_GROUPS:
        return NotChecked(f"there are fewer than {FEWEST_GROUPS} independent groups")
    code = np.searchsorted(np.array(result.classes), table["y_true"].to_numpy())
    log_p = np.log(np.clip(result.probabilities(), np.finfo(float).eps, None))
    chance = chance_level(result, "log_loss") or 0.0
    loss, best, scale = scaled_losses(log_p, code, group)
    if chance - loss >= GAINED * (chance - best) or surplus_p(log_p, code, group) > LEVEL:
        return []
    auc = interval(result, "auc")
    if not auc.low > 0.5:
        return []
    return [
        f"AUC is {auc.estimate:.3f} but log-loss {loss:.3f}, chance {chance:.3f}: probabilities "
        f"are not on the scale of the evidence, they are too {'sure' if scale < 1 else 'modest'}. "
        f"With log-odds {scale:.2g} times as large log-loss would be {best:.3f}. Calibrate inside "
        "the fold, for instance by voxprior.decision.TemperatureCalibrated."
    ]


def surplus_p(log_p: np.ndarray, code: np.ndarray, group: np.ndarray) -> float:
    """p-value that the loss that came is the loss that the probabilities state, by (1)."""
    stated = (np.exp(log_p) * log_p).sum(axis=1)
    surplus = np.bincount(group, weights=log_p[np.arange(len(code)), code] - stated)
    if np.ptp(surplus) <= 1e-12 * np.abs(surplus).max():
        return 1.0
    return float(stats.ttest_1samp(surplus, 0.0).pvalue)


def scaled_losses(
    log_p: np.ndarray, code: np.ndarray, group: np.ndarray
) -> tuple[float, float, float]:
    """Log-loss as it is, on the scale that is best for the other groups, and the best for all."""
    losses = np.empty((group.max() + 1, len(SCALES)))
    for s, b in enumerate(SCALES):
        scaled = b * log_p
        lost = logsumexp(scaled, axis=1) - scaled[np.arange(len(code)), code]
        losses[:, s] = np.bincount(group, weights=lost)
    chosen = (losses.sum(axis=0) - losses).argmin(axis=1)
    best = losses[np.arange(len(losses)), chosen].sum() / len(code)
    loss = -log_p[np.arange(len(code)), code].mean()
    return float(loss), float(best), float(SCALES[losses.sum(axis=0).argmin()])
