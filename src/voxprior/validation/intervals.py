"""Intervals: how far a cross-validated score may be from its expectation, and by which method.

The split decides the method:

* **beta-binomial**, for the accuracy on one test set of scans that are independent (each its own
  group): k right of n gives the quantiles of Beta(k + ½, n - k + ½), Jeffreys' interval [1]_;
* **corrected resampled t** [2]_, for regression on repeated random splits with test sets no larger
  than training sets: variance (1/J + n_test/n_train) s² of the J folds' scores, J - 1 degrees;
* **group variance**, for log-loss: see below;
* **group bootstrap** for everything else: whole groups are drawn, see below;
* none, and the reason is given, below 5 groups, for a loss that does not vary, for a log-loss of
  fewer than two errors and for a score that is not defined.

**What is covered.** The score that such a validation has on average over data sets: for means over
scans, the expected score, on new scans of new groups from the same population, of a decoder trained
on as many scans as the folds train on; for AUC and R² that of all predictions together. With a
single test set it is the score of that very decoder on new scans.

**The group bootstrap** draws the G test groups with replacement, a group with all its scans and
repeats, and gives the variance V of the score over draws. A scan also trains the folds that it does
not test, so the score varies more over data sets than V, and how much more cannot be estimated
from one validation [3]_. Its range is known, though. A score that is linear in the decoder's
weights, and those in the scans, is a sum over pairs of scans: where there is no signal each pair
counts twice and the variance is 2V; where there is much, each scan counts twice and it is 4V. A
count stands still once a decoder is nearly right, which leaves 1V to 2V. The middle is taken:

    variance = (1 + λ h) V G/(G-1) + [repeated] s²/J                                        (1)
    λ = 2 for Brier and R², ½ for others, 0 for a single test set

A scan of a rare class tests as much as any other but trains its class's mean with more weight,
1/n_c instead of C/n; squared and averaged over scans that is h = n/C² Σ_c 1/n_c (1 for equal
classes, for regression, and for scores that weigh classes alike in testing too). s²/J, the variance
of J repeated random folds' mean score, is what other draws of them would change. Quantiles are
Student's with G - 1 degrees of freedom, t.

**Limits.** A score between 0 and 1 is read as a share of ñ independent scans, as many as have that
variance, but never more than there are [4]_; so limits stay inside, and open at 1.000:

    ñ = min(n, p(1-p)/variance · (z/t)²)          quantiles of Beta(pñ + ½, (1-p)ñ + ½)     (2)

where n counts scans (n/h of them where classes weigh alike, and more where repeats of a scan
disagree). A loss q (Brier, absolute error, 1 - R²) gets limits on the log scale:

    q · exp(± t √variance / q)                                                              (3)

**Log-loss** of an over-confident decoder varies through single test scans, and little through
training; (1) is then far too much, and the exponential of (3) explodes. With s the standard
deviation over scans of the loss in nats, L_g the summed loss of group g and m_g its scans,

    V = Σ_g (L_g - q m_g)²/n² · G/(G-1),    λ = 2/(1 + s²),    x = t √variance / q          (4)
    low = q e^-x,    high = q e^x where x ≤ ½, else q e^½ (x + ½)                           (5)

with the variance of (1). (5) is (3) as long as the interval is short, and goes on along a straight
line. Near a ceiling the loss rests on errors that most data sets do not contain, and no interval
holds: below two wrong scans none is given.

The difference of two decoders on the same folds has ± t √variance, no smaller than n scans of which
one differs would give, 1/n².

``benchmarks/coverage.py`` counts how often nominal 95 % intervals hold what they should, on designs
that none of this was made on; its table is on the page "How the numbers were made".

References
----------
.. [1] Brown, Cai & DasGupta, "Interval estimation for a binomial proportion", Statistical Science
   16, 2001.
.. [2] Nadeau & Bengio, "Inference for the generalization error", Machine Learning 52, 2003.
.. [3] Bengio & Grandvalet, "No unbiased estimator of the variance of K-fold cross-validation", JMLR
   5, 2004.
.. [4] Korn & Graubard, "Confidence intervals for proportions with small expected number of positive
   counts estimated from survey data", Survey Methodology 24, 1998.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from voxprior.errors import InputError, option
from voxprior.validation.scores import (
    DISTRIBUTION_SCORES,
    OfGroups,
    check_same_scans,
    row_scores,
    score_of_groups,
    score_predictions,
)

if TYPE_CHECKING:
    from voxprior.validation.result import Result

FEWEST_GROUPS = 5
FEWEST_ERRORS = 2
# λ of (1): 1 + λ is the middle of 1 to 2, and of 2 to 4.
SHARED_TRAINING = {"count": 0.5, "loss": 2.0}
COUNTS = ("accuracy", "coverage", "selective_accuracy")
CLASSWISE = ("balanced_accuracy", "auc")
LINEAR = ("log_loss", "brier", "r2")
STILL = "the loss does not vary between groups"


class Interval(NamedTuple):
    """A score with its interval; NaN limits and a reason where none can be given."""

    score: str
    estimate: float
    low: float
    high: float
    level: float
    method: str  # "beta-binomial", "corrected resampled t", "group bootstrap" (variance) or "none"
    reason: str  # why this method, or why none


class Variation(NamedTuple):
    """A score, its variance over data sets, and the degrees of freedom of that variance."""

    estimate: float
    variance: float
    degrees: int


def interval(
    result: Result,
    score: str | None = None,
    *,
    level: float = 0.95,
    n_draws: int = 1000,
    random_state: int | None = 0,
) -> Interval:
    """Interval of a score by the method that belongs to the split.

    Parameters
    ----------
    result : Result
        From `cross_validate`.
    score : str
        A name of ``result.score_names``; default the first of them.
    level : float
        Nominal coverage.
    n_draws, random_state : int
        Draws of the group bootstrap, and its seed.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from voxprior.validation import FewShotSplit, cross_validate, interval
    >>> X, y = load_iris(return_X_y=True)
    >>> few = cross_validate(GaussianNB(), X, y, cv=FewShotSplit(5, n_repeats=20))
    >>> found = interval(few)
    >>> found.method, round(found.low, 2), round(found.high, 2)
    ('group bootstrap', 0.85, 0.95)
    """
    names = result.score_names
    score = names[0] if score is None else score
    if score not in names:
        raise InputError(
            f"{option('score', score)} is not a score of this result",
            expected=f"one of {', '.join(names)}",
        )
    estimate = score_predictions(result.predictions, result.task, result.classes)[score]
    method, reason = choose_method(result, score)
    if not np.isfinite(estimate):
        method, reason = "none", "the score is not defined for these predictions"
    low = high = np.nan
    if method == "beta-binomial":
        tested = len(result.predictions)
        low, high = beta_binomial(round(estimate * tested), tested, level)
    elif method == "group variance":
        found, errors = log_loss_variation(result)
        low, high = loss_limits(found, level)
        if errors < FEWEST_ERRORS or np.isnan(low):
            few = "too few errors to bound the loss"
            reason = few if errors < FEWEST_ERRORS else STILL
            method, low, high = "none", np.nan, np.nan
    elif method != "none":
        found = (
            _over_folds(result, score)
            if method == "corrected resampled t"
            else bootstrap_variation(result, score, n_draws, random_state)
        )
        estimate = found.estimate
        n = independent_scans(result, score) if score in COUNTS + CLASSWISE else np.nan
        low, high = limits(found, score, n, level)
        if np.isnan(low):
            method, reason = "none", STILL
    return Interval(score, float(estimate), float(low), float(high), level, method, reason)


def chance_level(result: Result, score: str) -> float | None:
    """Score of a decoder that ignores the images: it states the class frequencies, or the mean.

    None for scores that have no such level.
    """
    truth = result.predictions.drop_duplicates("sample")["y_true"]
    if result.task == "regression":
        values = truth.to_numpy(float)
        return {"r2": 0.0, "mae": float(np.abs(values - values.mean()).mean())}.get(score)
    share = truth.value_counts(normalize=True)
    return {
        "accuracy": float(share.max()),
        "balanced_accuracy": 1 / len(result.classes),
        "auc": 0.5,
        "log_loss": float(-(share * np.log(share)).sum()),
        "brier": float(0.5 * (1 - (share**2).sum())),
    }.get(score)


def choose_method(result: Result, score: str) -> tuple[str, str]:
    """Which interval belongs to the split of a result, and why."""
    tested, folds = result.predictions, result.scores
    n_groups = tested["group"].nunique()
    alike = score == "accuracy" or (score == "balanced_accuracy" and result.balanced)
    if len(folds) == 1 and alike and n_groups == len(tested):
        return "beta-binomial", "one test set of independent scans"
    no_larger = bool((folds["n_test"] <= folds["n_train"]).all())
    numbers = result.task == "regression" and folds[score].notna().all()
    if numbers and len(folds) > 1 and _repeated(result) and no_larger:
        return "corrected resampled t", "repeated random splits"
    if n_groups < FEWEST_GROUPS:
        return "none", f"fewer than {FEWEST_GROUPS} independent groups"
    if score == "log_loss":
        return "group variance", f"{n_groups} groups"
    return "group bootstrap", f"{n_groups} groups drawn whole"


def _repeated(result: Result) -> bool:
    return bool(result.predictions["sample"].duplicated().any())


def difference_interval(
    first: Result,
    second: Result,
    score: str,
    *,
    level: float = 0.95,
    n_draws: int = 1000,
    random_state: int | None = 0,
) -> Interval:
    """Interval of how much the first of two decoders scores above the second on the same folds.

    Parameters
    ----------
    first, second : Result
        Of the same scans and folds.
    score, level, n_draws, random_state
        As in `interval`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from voxprior.validation import cross_validate
    >>> from voxprior.validation.intervals import difference_interval
    >>> y, runs = np.tile([0, 1], 12), np.repeat(range(6), 4)
    >>> X = np.random.default_rng(0).normal(size=(24, 3)) + 2 * y[:, None]
    >>> good, blind = (cross_validate(m, X, y, runs) for m in (GaussianNB(), DummyClassifier()))
    >>> found = difference_interval(good, blind, "accuracy")
    >>> found.low > 0, round(found.estimate, 2)
    (True, 0.5)
    """
    check_same_scans(first, second)
    estimate = first.pooled()[score] - second.pooled()[score]
    n_groups = first.predictions["group"].nunique()
    if not np.isfinite(estimate) or n_groups < FEWEST_GROUPS:
        undefined = "the score is not defined for these predictions"
        reason = f"fewer than {FEWEST_GROUPS} independent groups"
        reason = reason if np.isfinite(estimate) else undefined
        return Interval(score, float(estimate), np.nan, np.nan, level, "none", reason)
    mine, other = (score_of_groups(result, score) for result in (first, second))
    found = _over_groups(
        lambda weights: mine(weights) - other(weights),
        first,
        score,
        first.scores[score].reset_index(drop=True) - second.scores[score].reset_index(drop=True),
        n_draws,
        random_state,
    )
    if score in COUNTS + CLASSWISE:
        least: float = independent_scans(first, score) ** -2
        found = found._replace(variance=max(found.variance, least))
    low, high = _symmetric(found, level)
    reason = f"{n_groups} groups drawn whole"
    return Interval(score, found.estimate, low, high, level, "group bootstrap", reason)


def beta_binomial(right: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Jeffreys' interval of a share: quantiles of Beta(k + ½, n - k + ½).

    Examples
    --------
    >>> from voxprior.validation.intervals import beta_binomial
    >>> [round(limit, 3) for limit in beta_binomial(16, 20)]
    [0.592, 0.928]
    """
    tail = (1 - level) / 2
    low, high = stats.beta.ppf([tail, 1 - tail], right + 0.5, n - right + 0.5)
    # At the edges the limit is the edge: the data are consistent with 0 or 1. Close to them the
    # quantiles can leave out a share of a fraction of one scan.
    share = right / n
    return (
        (0.0 if right <= 0 else min(float(low), share)),
        (1.0 if right >= n else max(float(high), share)),
    )


def corrected_t(scores, n_train: float, n_test: float, level: float = 0.95) -> tuple[float, float]:
    """Interval of the mean score of J overlapping random splits, Nadeau and Bengio's.

    Examples
    --------
    >>> from voxprior.validation.intervals import corrected_t
    >>> [round(limit, 3) for limit in corrected_t([0.7, 0.8, 0.75, 0.85], 20, 20)]
    [0.545, 1.005]
    """
    return _symmetric(_corrected(np.asarray(scores, dtype=float), n_train, n_test), level)


def _symmetric(found: Variation, level: float) -> tuple[float, float]:
    half = float(stats.t.ppf((1 + level) / 2, found.degrees) * np.sqrt(found.variance))
    return found.estimate - half, found.estimate + half


def _corrected(scores: np.ndarray, n_train: float, n_test: float) -> Variation:
    J = len(scores)
    if J < 2:
        raise InputError("There is no corrected resampled t interval of one split", expected="two")
    variance = (1 / J + n_test / n_train) * scores.var(ddof=1)
    return Variation(float(scores.mean()), float(variance), J - 1)


def _over_folds(result: Result, score: str) -> Variation:
    folds = result.scores
    return _corrected(folds[score].to_numpy(), folds["n_train"].mean(), folds["n_test"].mean())


def bootstrap_variation(result: Result, score: str, n_draws: int, random_state) -> Variation:
    """(1) of a score."""
    of_groups = score_of_groups(result, score)
    return _over_groups(of_groups, result, score, result.scores[score], n_draws, random_state)


def log_loss_variation(result: Result) -> tuple[Variation, float]:
    """(4), and how many scans were wrong (a scan tested repeatedly counts in part)."""
    scan, group = (
        np.unique(result.predictions[name].to_numpy(), return_inverse=True)[1]
        for name in ("sample", "group")
    )
    loss, right = (np.asarray(row_scores(result, name)) for name in ("log_loss", "accuracy"))
    m, n, G = np.bincount(group), len(group), group.max() + 1
    q = loss.mean()
    V = np.square(np.bincount(group, weights=loss) - q * m).sum() / n**2 * G / (G - 1)
    times = np.bincount(scan)
    spread = (np.bincount(scan, weights=loss) / times).var()
    training = SHARED_TRAINING["loss"] * rarity(result) / (1 + spread)
    variance = (1 + training * (len(result.scores) > 1)) * V
    if _repeated(result) and len(result.scores) > 1:
        variance += result.scores["log_loss"].var(ddof=1) / len(result.scores)
    errors = float((1 - np.bincount(scan, weights=right) / times).sum())
    return Variation(float(q), float(variance), int(G) - 1), errors


def loss_limits(found: Variation, level: float) -> tuple[float, float]:
    """Limits (5) of a log-loss; NaN where the variance is 0.

    Examples
    --------
    >>> from voxprior.validation.intervals import Variation, loss_limits
    >>> variance = (1 + 2 / 1.04) * 0.0004  # s = .2 and equal classes
    >>> [round(limit, 3) for limit in loss_limits(Variation(0.6, variance, 4), 0.95)]
    [0.512, 0.703]
    """
    q, t = found.estimate, stats.t.ppf((1 + level) / 2, found.degrees)
    if q <= 0 or np.sqrt(found.variance) <= 1e-9 * q:
        return np.nan, np.nan
    x = float(t * np.sqrt(found.variance) / q)
    above = np.exp(x) if x <= 0.5 else np.exp(0.5) * (x + 0.5)
    return float(q * np.exp(-x)), float(q * above)


def _over_groups(
    statistic: OfGroups, result: Result, score: str, by_fold: pd.Series, n_draws: int, random_state
) -> Variation:
    """(1), of a score or of a difference of scores, `by_fold` of each fold."""
    G = result.predictions["group"].nunique()
    counts = np.random.default_rng(random_state).multinomial(G, np.full(G, 1 / G), n_draws)
    draws = statistic(counts)
    draws = draws[np.isfinite(draws)]  # a draw that misses a class has no score
    kind = "loss" if score in LINEAR else "count"
    training = SHARED_TRAINING[kind] if len(by_fold) > 1 else 0.0
    if result.classes and score not in CLASSWISE:
        training *= rarity(result)
    variance = (1 + training) * draws.var() * G / (G - 1) if len(draws) > 1 else 0.0
    by_fold = by_fold.dropna()
    if _repeated(result) and len(by_fold) > 1:
        variance += by_fold.var(ddof=1) / len(by_fold)
    return Variation(float(statistic(np.ones((1, G)))[0]), float(variance), G - 1)


def limits(found: Variation, score: str, n: float, level: float) -> tuple[float, float]:
    """Limits (2) or (3) of a score; NaN where the variance is 0 and nothing bounds it."""
    t = stats.t.ppf((1 + level) / 2, found.degrees)
    if score in COUNTS + CLASSWISE:
        z, p = stats.norm.ppf((1 + level) / 2), found.estimate
        worth = n
        if found.variance > 0:
            worth = min(n, p * (1 - p) / found.variance * (z / t) ** 2)
        return beta_binomial(p * worth, worth, level) if worth > 0 else (0.0, 1.0)  # (2)
    if score in DISTRIBUTION_SCORES:  # of either sign, or a share
        half = t * np.sqrt(found.variance) if found.variance > 0 else np.nan
        top = 1.0 if score == "interval_coverage" else np.inf
        return found.estimate - half, float(np.minimum(found.estimate + half, top))
    loss = 1 - found.estimate if score == "r2" else found.estimate
    if np.sqrt(found.variance) <= 1e-9 * loss or loss <= 0:
        return np.nan, np.nan
    factor = np.exp(t * np.sqrt(found.variance) / loss)
    low, high = loss / factor, loss * factor  # (3)
    if score == "r2":
        return 1 - high, 1 - low
    return low, min(high, 1.0) if score == "brier" else high


def rarity(result: Result) -> float:
    """Return h of (1), 1 where classes are equal."""
    counts = result.class_counts()
    return float(counts.sum() * (1 / counts).sum() / len(counts) ** 2)


def independent_scans(result: Result, score: str) -> float:
    """Return n of (2): scans tested; where classes weigh alike, n/h.

    Right answers of a scan tested repeatedly vary less than those of one tested once, p(1-p), as
    far as its repeats disagree: it counts as correspondingly more scans.
    """
    sample, truth, guess = (
        result.predictions[name].to_numpy() for name in ("sample", "y_true", "y_pred")
    )
    scan = np.unique(sample, return_inverse=True)[1]
    n = scan.max() + 1
    if score in CLASSWISE:
        n = n / rarity(result)
    right = np.bincount(scan, weights=truth == guess) / np.bincount(scan)
    p, variance = right.mean(), right.var()
    return float(n * p * (1 - p) / variance) if variance > 0 else float(n)
