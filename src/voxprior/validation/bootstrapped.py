"""Two decoders learned again from resampled subjects: is the difference more than luck of the draw?

`compare_decoders` asks whether two decoders, as learned from these scans, differ on them. The
bootstrap of the whole comparison also draws the scans that are learned from: in each of B resamples
both decoders are fitted, with all of their choices, to scans drawn with replacement and tested on
those not drawn. With d_b the difference of their scores in resample b,

    difference = mean of d_b,    interval = quantiles (1 − level)/2 and (1 + level)/2 of d_b
    p = 2 min(1 + #{d_b ≤ 0}, 1 + #{d_b ≥ 0}) / (B + 1),   at most 1

As a resample holds 63 % of the distinct scans, the scores are those of smaller samples.

| symbol | variable | shape |
|---|---|---|
| d_b | `differences` | (B,) |

Reference: B. Efron and R. Tibshirani. An Introduction to the Bootstrap. Chapman & Hall, 1993.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from voxprior.errors import InputError, option
from voxprior.validation.result import Result
from voxprior.validation.scores import TIE, check_same_scans, row_scores

FEWEST = 20


class BootstrapComparison(NamedTuple):
    """Paired comparison of two decoders over resamples."""

    score: str
    difference: float  # first minus second
    low: float
    high: float
    p_value: float  # two-sided
    differences: np.ndarray  # (B,)


def compare_bootstrapped(
    first: Result, second: Result, score: str | None = None, level: float = 0.95
) -> BootstrapComparison:
    """Test whether two decoders differ, learned from resampled scans: fold by fold of `Bootstrap`.

    Parameters
    ----------
    first, second : Result
        Of `cross_validate` with the same folds of `voxprior.validation.Bootstrap`, at least 20.
    score : str
        accuracy (default; mae for regression), log_loss, brier or mae.
    level : float
        Level of the interval, between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from voxprior.validation import Bootstrap, compare_bootstrapped, cross_validate
    >>> y = np.tile([0, 1], 12)
    >>> X = np.random.default_rng(0).normal(size=(24, 3)) + 2 * y[:, None]
    >>> models = (GaussianNB(), DummyClassifier())
    >>> good, blind = (cross_validate(m, X, y, cv=Bootstrap(39)) for m in models)
    >>> compare_bootstrapped(good, blind).p_value
    0.05
    """
    if not 0 < level < 1:
        raise InputError(
            f"{option('level', level)} cannot be used", expected="a number between 0 and 1"
        )
    if score is None:
        score = "mae" if first.task == "regression" else "accuracy"
    check_same_scans(first, second)
    means = [_fold_means(result, score) for result in (first, second)]
    d = means[0] - means[1]
    if len(d) < FEWEST:
        raise InputError(
            "Decoders cannot be compared over resamples",
            expected=f"at least {FEWEST} folds of Bootstrap",
            got=f"{len(d)} folds",
        )
    low, high = np.quantile(d, [(1 - level) / 2, (1 + level) / 2])
    rest = min(1 + int(np.sum(d <= TIE)), 1 + int(np.sum(d >= -TIE)))
    p = min(1.0, 2 * rest / (len(d) + 1))
    return BootstrapComparison(score, float(d.mean()), float(low), float(high), p, d)


def _fold_means(result: Result, score: str) -> np.ndarray:
    value = row_scores(result, score)
    if value is None or score == "balanced_accuracy":
        raise InputError(
            f"{option('score', score)} is not a mean over scans that both decoders have",
            expected="accuracy, log_loss, brier or mae",
        )
    folds = result.predictions["fold"].to_numpy()
    return pd.Series(value).groupby(folds).mean().to_numpy()
