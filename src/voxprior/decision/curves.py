"""Curves of a decoder's probabilities as plain data: reliability, risk-coverage, expected cost.

A scan that was tested in several repeats is one scan: its probabilities are averaged first
(`average_repeats`).

* **reliability**: share of right answers among scans whose confidence falls into a bin; ECE is the
  mean gap between confidence and that share, weighted by scans
* **risk-coverage**: error among the scans answered, against how many they are, most confident first
* **expected cost**: mean cost against the reject threshold: L[a, y] where answered, d_y where not
* **confusion**: scans by action (rows, abstention last) and true class (columns)

Bands come from drawing whole groups, runs or subjects, with replacement (`group_bootstrap`): a
statistic is computed on each of B draws; its α/2 and 1 - α/2 quantiles over the draws, point by
point, are the band. Scans of one group depend on each other, so drawing scans would give bands that
are too narrow.

References
----------
Davison & Hinkley, "Bootstrap methods and their application", 1997, section 3.8.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from voxprior.decision.bayes import cost_matrix, decide
from voxprior.errors import InputError, option
from voxprior.labels import known_codes


class Band(NamedTuple):
    """Lower and upper limit of a statistic, of the statistic's shape."""

    low: np.ndarray
    high: np.ndarray


class Scans(NamedTuple):
    """Scans, each once, with the probabilities averaged over repeats."""

    code: np.ndarray  # (n,) index of the true class
    probabilities: np.ndarray  # (n, C)
    groups: np.ndarray  # (n,)
    classes: np.ndarray  # (C,)


class Reliability(NamedTuple):
    """Reliability diagram; empty bins are NaN."""

    edges: np.ndarray  # (B + 1,)
    confidence: np.ndarray  # (B,) mean confidence in the bin
    frequency: np.ndarray  # (B,) part of right answers
    n_scans: np.ndarray  # (B,)
    ece: float
    band: Band | None  # of the frequency


class RiskCoverage(NamedTuple):
    """Error among the answered scans, by how many are answered."""

    coverage: np.ndarray  # (G,)
    risk: np.ndarray  # (G,)
    threshold: np.ndarray  # (G,) answering needs at least this confidence
    area: float  # mean risk over all coverages 1/n ... 1
    band: Band | None


class CostCurve(NamedTuple):
    """Mean cost and coverage by reject threshold."""

    threshold: np.ndarray  # (G,)
    cost: np.ndarray  # (G,)
    coverage: np.ndarray  # (G,)
    band: Band | None


class ProperScores(NamedTuple):
    """Brier score (0 to 1) and log-loss with their bands."""

    brier: float
    log_loss: float
    brier_band: Band | None
    log_loss_band: Band | None


def average_repeats(y, probabilities, classes, samples=None, groups=None) -> Scans:
    """One row per scan: true class, mean probabilities over its repeats, group.

    Examples
    --------
    >>> from voxprior.decision import average_repeats
    >>> p = [[0.6, 0.4], [0.2, 0.8], [0.8, 0.2]]
    >>> average_repeats(["a", "b", "a"], p, ["a", "b"], samples=[5, 7, 5]).probabilities.round(3)
    array([[0.7, 0.3],
           [0.2, 0.8]])
    """
    y, p, classes = np.asarray(y), np.asarray(probabilities, dtype=float), np.asarray(classes)
    if p.shape != (len(y), len(classes)):
        raise InputError(
            "The probabilities do not fit the labels",
            expected=f"shape {(len(y), len(classes))}",
            got=str(p.shape),
        )
    code = known_codes(y, classes)
    samples = np.arange(len(y)) if samples is None else np.asarray(samples)
    _, first, scan = np.unique(samples, return_index=True, return_inverse=True)
    mean = np.zeros((len(first), len(classes)))
    np.add.at(mean, scan, p)
    mean /= np.bincount(scan)[:, None]
    groups = samples if groups is None else np.asarray(groups)
    return Scans(code[first], mean, groups[first], classes)


def group_bootstrap(
    statistic: Callable[[np.ndarray], np.ndarray],
    groups,
    *,
    n_draws: int = 1000,
    level: float = 0.95,
    random_state: int | None = 0,
) -> Band:
    """Percentile band of ``statistic(indices)`` over draws of whole groups.

    Parameters
    ----------
    statistic : callable
        From indices of scans (with repetition) to an array; NaN where it is not defined.
    groups : array of shape (n,)
        Group of each scan.
    n_draws, level, random_state
        Number of draws, coverage aimed at, seed.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.decision import group_bootstrap
    >>> right = np.array([1, 1, 0, 1, 1, 1, 0, 0])
    >>> band = group_bootstrap(lambda i: right[i].mean(), np.repeat([0, 1, 2, 3], 2))
    >>> float(band.low), float(band.high)
    (0.25, 1.0)
    """
    names, unit = np.unique(np.asarray(groups), return_inverse=True)
    if len(names) < 2:
        raise InputError("There is nothing to draw from", expected="two groups or more", got="one")
    members = [np.flatnonzero(unit == u) for u in range(len(names))]
    rng = np.random.default_rng(random_state)
    draws = [
        statistic(np.concatenate([members[u] for u in rng.integers(len(names), size=len(names))]))
        for _ in range(n_draws)
    ]
    tail = (1 - level) / 2
    with warnings.catch_warnings():  # a point that no draw defines stays NaN
        warnings.simplefilter("ignore", RuntimeWarning)
        low, high = np.nanquantile(np.asarray(draws, dtype=float), [tail, 1 - tail], axis=0)
    return Band(low, high)


def _band(statistic, scans: Scans, n_draws: int, random_state) -> Band | None:
    if n_draws == 0:
        return None
    return group_bootstrap(statistic, scans.groups, n_draws=n_draws, random_state=random_state)


def _confidence(scans: Scans, label) -> tuple[np.ndarray, np.ndarray]:
    """Confidence and whether it was justified: of the answer, or of one class."""
    p = scans.probabilities
    if label is None:
        return p.max(axis=1), p.argmax(axis=1) == scans.code
    chosen = scans.classes.tolist().index(label)
    return p[:, chosen], scans.code == chosen


def reliability_curve(
    scans: Scans, *, label=None, n_bins=10, strategy="uniform", n_draws=0, random_state=0
) -> Reliability:
    """Reliability diagram of the answers, or of one class's probability.

    Parameters
    ----------
    scans : Scans
        From `average_repeats`.
    label : label or None
        None: confidence is the largest probability. A label: confidence is that class's.
    n_bins, strategy : int, {"uniform", "quantile"}
        Bins of equal width over [0, 1], or of equal numbers of scans.
    n_draws, random_state : int
        Bootstrap draws of whole groups for the band; 0 for none.
    """
    confidence, right = _confidence(scans, label)
    if strategy == "uniform":
        edges = np.linspace(0, 1, n_bins + 1)
    elif strategy == "quantile":
        edges = np.unique(np.quantile(confidence, np.linspace(0, 1, n_bins + 1)))
    else:
        raise InputError(
            f"{option('strategy', strategy)} is not known", expected="'uniform' or 'quantile'"
        )
    n_bins = max(len(edges) - 1, 1)
    bin_of = np.clip(np.searchsorted(edges, confidence, side="right") - 1, 0, n_bins - 1)

    def means(index, value):
        count = np.bincount(bin_of[index], minlength=n_bins)
        total = np.bincount(bin_of[index], weights=value[index], minlength=n_bins)
        return np.divide(total, count, out=np.full(n_bins, np.nan), where=count > 0)

    everything = np.arange(len(confidence))
    count = np.bincount(bin_of, minlength=n_bins)
    mean_confidence, frequency = means(everything, confidence), means(everything, right)
    gap = np.nansum(count * np.abs(mean_confidence - frequency)) / len(confidence)
    band = _band(lambda index: means(index, right), scans, n_draws, random_state)
    return Reliability(edges, mean_confidence, frequency, count, float(gap), band)


def proper_scores(scans: Scans, *, n_draws=0, random_state=0) -> ProperScores:
    """Brier score and log-loss of the scans."""
    p = scans.probabilities
    one_hot = np.eye(p.shape[1])[scans.code]
    brier = 0.5 * ((p - one_hot) ** 2).sum(axis=1)
    loss = -np.log(np.clip(p[np.arange(len(p)), scans.code], np.finfo(float).eps, None))
    bands = [
        _band(lambda index, v=value: v[index].mean(), scans, n_draws, random_state)
        for value in (brier, loss)
    ]
    return ProperScores(float(brier.mean()), float(loss.mean()), *bands)


def risk_coverage_curve(scans: Scans, *, n_points=None, n_draws=0, random_state=0) -> RiskCoverage:
    """Error among the most confident scans, for growing numbers of them.

    Scans of equal confidence are answered together, so the risk inside a tie is that of the tie's
    mean: the order of the input does not matter.
    """
    confidence, right = _confidence(scans, None)
    n = len(confidence)
    grid = np.arange(1, n + 1) / n if n_points is None else np.linspace(1 / n, 1, n_points)

    def risks(index):
        return np.interp(grid, np.arange(1, len(index) + 1) / len(index), _risks(index))

    def _risks(index):
        order = index[np.argsort(-confidence[index], kind="stable")]
        _, tie = np.unique(-confidence[order], return_inverse=True)
        wrong = (~right[order]).astype(float)
        even = (np.bincount(tie, weights=wrong) / np.bincount(tie))[tie]
        return np.cumsum(even) / np.arange(1, len(order) + 1)

    everything = np.arange(n)
    ranked = np.sort(confidence)[::-1]
    threshold = ranked[np.clip(np.ceil(grid * n - 1e-9).astype(int) - 1, 0, n - 1)]
    area = float(_risks(everything).mean())
    band = _band(risks, scans, n_draws, random_state)
    return RiskCoverage(grid, risks(everything), threshold, area, band)


def expected_cost_curve(
    scans: Scans, costs=None, abstain=0.5, *, thresholds=None, n_draws=0, random_state=0
) -> CostCurve:
    """Mean cost of deciding at least expected cost, by the reject threshold.

    Parameters
    ----------
    scans : Scans
        From `average_repeats`.
    costs : array (C, C), dict or DataFrame
        As in `BayesDecision`; None: every error costs 1.
    abstain : float or array of shape (C,)
        Cost of not answering.
    thresholds : array
        Smallest confidence that is answered; default 0 to 1 in steps of .02.
    """
    L = cost_matrix(costs, scans.classes)
    d = np.broadcast_to(np.asarray(abstain, dtype=float), len(scans.classes))
    grid = np.linspace(0, 1, 51) if thresholds is None else np.asarray(thresholds, dtype=float)
    p = scans.probabilities
    action = decide(p, None if costs is None else L)
    answered = p.max(axis=1)[:, None] >= grid  # (n, G)
    cost = np.where(answered, L[action, scans.code][:, None], d[scans.code][:, None])
    band = _band(lambda index: cost[index].mean(axis=0), scans, n_draws, random_state)
    return CostCurve(grid, cost.mean(axis=0), answered.mean(axis=0), band)


def confusion_table(y_true, y_pred, classes, reject_label=None) -> pd.DataFrame:
    """Count scans by action (rows) and true class (columns), with a row for abstentions.

    Every predicted label that is not a class counts as an abstention; its row is named by
    `reject_label`, or by that label. The table is oriented like a cost matrix.

    Examples
    --------
    >>> from voxprior.decision import confusion_table
    >>> confusion_table([0, 0, 1], [0, -1, 1], classes=[0, 1])
    class    0  1
    action
     0       1  0
     1       0  1
    -1       1  0
    """
    y_true, y_pred = np.asarray(y_true), np.asarray(y_pred)
    labels = list(classes)
    other = sorted(set(y_pred.tolist()) - set(labels), key=str)
    if len(other) > 1 or (other and reject_label is not None and other != [reject_label]):
        raise InputError(
            "Labels of abstentions are not one",
            expected=f"one label besides the classes {labels}",
            got=str(other),
        )
    rows = labels + ([reject_label] if reject_label is not None else other)
    counts = [[int(np.sum((y_pred == a) & (y_true == c))) for c in labels] for a in rows]
    return pd.DataFrame(
        counts, index=pd.Index(rows, name="action"), columns=pd.Index(labels, name="class")
    )
