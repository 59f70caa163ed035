"""Sets of voxels decoded one by one and tested together: what searchlights and regions share.

Every set is decoded by ridge regression on the class labels, one group held out at a time (some
of all groups, where each is of one class), see
`voxprior.mapping.local_ridge`; or, slowly, by any other estimator. The sets are tested by the
maximum of their scores (equal accuracies are ordered by the margin),

    p_c = (1 + #{b : max_c' score_c'b >= score_c}) / (1 + B)                                (1)

for relabellings b as the design allows, so that the chance of any false claim is at most the level.

| symbol | variable | shape |
|---|---|---|
| score_c | `observed` | (number of sets,) |
| max_c' score_c'b | `null_max` | (B,) |
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from voxprior.errors import InputError, option
from voxprior.mapping.exchange import Exchange, choose_exchange
from voxprior.mapping.local_estimator import estimator_scores
from voxprior.mapping.local_ridge import SCORES, Labellings, Scores, labellings, neighborhood_scores
from voxprior.mapping.maptest import checked_labels, checked_scans
from voxprior.mapping.vicinity import Neighborhoods
from voxprior.space import VoxelSpace
from voxprior.validation.run import run_tasks

STANDARDIZE = ("auto", "zscore", "center", "none")
RIDGE = "ridge regression on the class labels"
SCORE_WORDS = {"auc": "area under ROC", "margin": "standardised margin"}
# Scans per group from which on voxels are divided by their standard deviation.
MANY_SCANS = 8
# Folds of scans that belong to no groups.
N_FOLDS = 10
# Sets of voxels of one task.
AT_ONCE = 512
# Spread below which a voxel is constant up to rounding, relative to its values.
CONSTANT = 1e-10
# Difference up to which scores are equal: single precision, of margins added to accuracies.
EQUAL = 1e-6


@dataclass(frozen=True)
class LocalOptions:
    """How sets of voxels are decoded and tested: options of `searchlight` and `region_test`.

    Attributes
    ----------
    score : {"accuracy", "auc", "margin"}
        "margin" is the mean held-out margin of a set in units of its standard deviation over
        relabellings: finer than accuracy, and not to be read as a share.
    estimator : classifier, optional
        Decodes every set instead of ridge; thousands of times slower.
    blocks, scheme
        How labels are exchanged, see `voxprior.validation.relabelling`.
    standardize : {"auto", "zscore", "center", "none"}
        What is done to every voxel within each group, without labels. "auto": nothing where groups
        do not hold the classes equally often, else "zscore", or "center" below 8 scans per group.
    alpha : float
        Penalty of the ridge, relative to the mean squared length of training scans.
    level : float
        Of significance, for all sets together.
    n_permutations : int
        Relabellings. Where the design has no more than twice as many, all are used.
    n_jobs, random_state, progress
        See `voxprior.validation.cross_validate`.
    """

    score: str = "accuracy"
    estimator: Any = None
    blocks: Any = None
    scheme: str = "auto"
    standardize: str = "auto"
    alpha: float = 0.1
    level: float = 0.05
    n_permutations: int = 1000
    n_jobs: int | None = None
    random_state: int = 0
    progress: bool = False

    def __post_init__(self) -> None:
        for name, known in (("score", SCORES), ("standardize", STANDARDIZE)):
            if getattr(self, name) not in known:
                got = option(name, getattr(self, name))
                raise InputError(f"{got} is not known", expected=", ".join(known))
        if not 0 < self.level < 1:
            got = option("level", self.level)
            raise InputError(f"{got} is not a level", expected="between 0 and 1")
        if not self.alpha > 0:
            raise InputError(f"{option('alpha', self.alpha)} is not a penalty", expected="above 0")


def local_options(given: dict[str, Any]) -> LocalOptions:
    """Options by name, or an error that names those there are."""
    known = [field.name for field in fields(LocalOptions)]
    unknown = [name for name in given if name not in known]
    if unknown:
        raise InputError(
            f"{option(unknown[0])} is not an option of this test", expected=", ".join(known)
        )
    return LocalOptions(**given)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LocalResult:
    """Outcome of a test of sets of voxels, apart from their values."""

    null_max: np.ndarray  # (B,) highest score of every relabelling; the margin orders accuracies
    threshold: float  # what a score must exceed to be significant; inf where nothing can
    smallest_p: float  # that the design and the number of relabellings can give
    n_distinct: int  # distinct relabellings of the design
    exact: bool  # whether all of them were used
    scheme: str  # how labels were exchanged, in words
    hypothesis: str  # what a small p says, in words
    name: str  # of the score
    decoder: str  # what decodes a set, in words
    level: float
    complete: bool  # False after Ctrl-C

    @property
    def relabellings(self) -> str:
        """How many there were and how labels were exchanged, in words."""
        many = f"all {len(self.null_max)}" if self.exact else f"{len(self.null_max)} random"
        return f"smallest possible p {self.smallest_p:.3g}; {many} relabellings, {self.scheme}"

    @property
    def reachable(self) -> bool:
        """Whether a score of this name can exceed the threshold."""
        highest = np.inf if self.name == SCORE_WORDS["margin"] else 1.0
        return self.threshold < highest

    @property
    def needed(self) -> str:
        """What a score must exceed, in words, and that none can where none can."""
        if self.threshold == np.inf:
            return f"no threshold: too few relabellings for a level of {self.level:g}"
        told = f"threshold {self.threshold:.3f}"
        if self.reachable:
            return told
        told = f"{told}, which no {self.name} can exceed"
        ties = self.name == "accuracy" and self.decoder == RIDGE
        return f"{told} (among those of 1 the margin decides)" if ties else told

    def told(self) -> dict[str, Any]:
        """What is neither a map nor a table, by name."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        content["threshold_is_reachable"] = self.reachable
        return {k: v for k, v in content.items() if isinstance(v, str | int | float | tuple)}


class LocalDesign(NamedTuple):
    """Scans ready to be decoded, their labels under every relabelling, and how those came about."""

    X: np.ndarray
    labels: Labellings
    exchange: Exchange


class LocalTest(NamedTuple):
    """Scores of all sets, and their tests by relabelling."""

    observed: np.ndarray
    p_fwer: np.ndarray
    p_uncorrected: np.ndarray
    null_max: np.ndarray
    complete: bool


def local_design(X, y, groups, options: LocalOptions) -> LocalDesign:
    """Check scans and labels, draw the relabellings, and standardise within groups."""
    X = checked_scans(X)
    y, groups, blocks = (
        checked_labels(values, len(X), name)
        for values, name in ((y, "y"), (groups, "groups"), (options.blocks, "blocks"))
    )
    exchange = choose_exchange(
        y,
        groups,
        blocks,
        n=len(X),
        scheme=options.scheme,
        n_permutations=options.n_permutations,
        random_state=options.random_state,
    )
    labels = _labels(exchange, groups, options.random_state)
    standard = _standardized(X, labels, groups, options.standardize)
    return LocalDesign(standard, labels, exchange)


def _labels(exchange: Exchange, groups: Any, random_state: int) -> Labellings:
    """Labels of scans under every relabelling, and the folds that test them."""
    if not exchange.classes:
        raise InputError(
            "Sets of voxels are tested by how well they tell classes apart",
            expected="labels of classes",
            remedy="Test single voxels, with map_test",
        )
    if groups is None or exchange.scheme == "whole":
        # Units that move together are tested together; labels play no part in it. Of groups of one
        # class, one left out at a time leaves training with less of its class.
        rng = np.random.default_rng((random_state, 2))
        n_units = int(exchange.unit.max()) + 1
        fold = (rng.permutation(n_units) % min(N_FOLDS, n_units))[exchange.unit]
    else:
        fold = np.unique(groups, return_inverse=True)[1].ravel()
    check_groups(fold)
    codes = exchange.targets[:, exchange.unit]
    return labellings(codes, fold, len(exchange.classes), pooled=exchange.scheme == "whole")


def check_groups(groups: np.ndarray | None) -> None:
    """Refuse a single group, which cannot be held out."""
    if groups is not None and len(np.unique(groups)) < 2:
        raise InputError("One group cannot be held out", expected="2 groups or more", got="1")


def _standardized(X: np.ndarray, labels: Labellings, groups: Any, how: str) -> np.ndarray:
    """Scans (n, V) in float64, centred or z-scored within groups; constant voxels become 0."""
    grouped = groups is not None
    fold = np.unique(groups, return_inverse=True)[1].ravel() if grouped else labels.fold
    if how == "auto":
        table = np.zeros((int(fold.max()) + 1, labels.n_classes), int)
        np.add.at(table, (fold, labels.codes[:, 0]), 1)
        crossed = grouped and bool((table == table[:, :1]).all())
        wide = bool((table.sum(axis=1) >= MANY_SCANS).all())
        how = ("zscore" if wide else "center") if crossed else "none"
    out = np.array(X, dtype=float)
    size = np.abs(out).max(axis=0)
    for g in np.unique(fold) if how != "none" else ():
        rows = fold == g
        out[rows] -= out[rows].mean(axis=0)
        if how == "zscore":
            spread = out[rows].std(axis=0)
            varies = spread > CONSTANT * size
            out[rows] = np.where(varies, out[rows] / np.where(varies, spread, 1.0), 0.0)
    out[:, np.abs(out - out[:1]).max(axis=0) <= CONSTANT * size] = 0.0
    return out


def decoder_words(estimator: Any) -> str:
    """What decodes a set of voxels."""
    return RIDGE if estimator is None else type(estimator).__name__


# --- the test ---------------------------------------------------------------------------------


class LocalScores(NamedTuple):
    """Scores of some sets: the true ones, how many relabellings reach them, and maxima."""

    observed: np.ndarray  # as reported
    compared: np.ndarray  # equal accuracies ordered by margins
    reached: np.ndarray
    highest: np.ndarray  # (B,)


def local_test(
    design: LocalDesign, sets: Neighborhoods, space: VoxelSpace | None, options: LocalOptions
) -> LocalTest:
    """Decode all sets under all relabellings, and correct for their number."""
    X, labels, _ = design
    how: tuple[Any, ...] = (_by_ridge, options.alpha)
    if options.estimator is not None:
        how = (_by_estimator, options.estimator, space)
    running: dict[str, Any] = {
        "n_jobs": options.n_jobs,
        "random_state": options.random_state,
        "progress": options.progress,
    }
    n_sets = len(sets.sizes)
    tasks = np.array_split(np.arange(n_sets), -(-n_sets // AT_ONCE))
    shared = (X, sets, labels, options.score, *how[1:])
    outcome = run_tasks(how[0], tasks, shared, name="blocks of voxel sets", **running)
    n_null = labels.codes.shape[1] - 1
    observed, reached = np.full(n_sets, np.nan), np.full(n_sets, n_null)
    compared = observed.copy()
    highest = np.full(n_null, -np.inf)
    for index, found in zip(outcome.indices, outcome.values):
        observed[tasks[index]], reached[tasks[index]] = found.observed, found.reached
        compared[tasks[index]] = found.compared
        highest = np.maximum(highest, found.highest)
    alone = (1 + reached) / (1 + n_null)
    return LocalTest(observed, corrected(compared, highest), alone, highest, outcome.complete)


def local_frame(
    design: LocalDesign, found: LocalTest, options: LocalOptions, claim: str
) -> dict[str, Any]:
    """Fields of a `LocalResult`; `claim` has {classes} for those that are decoded."""
    exchange = design.exchange
    return {
        "null_max": found.null_max,
        "threshold": threshold(found.null_max, options.level),
        "smallest_p": exchange.smallest_p,
        "n_distinct": exchange.n_distinct,
        "exact": exchange.exact,
        "scheme": exchange.statement,
        "hypothesis": claim.format(classes=told_apart(exchange.classes)),
        "name": SCORE_WORDS.get(options.score, options.score),
        "decoder": decoder_words(options.estimator),
        "level": options.level,
        "complete": found.complete,
    }


def _by_ridge(centers, seed, X, sets, labels, score, alpha) -> LocalScores:
    return _summed(neighborhood_scores(X, sets, centers, labels, score, alpha))


def _by_estimator(centers, seed, X, sets, labels, score, estimator, space) -> LocalScores:
    scores = estimator_scores(X, sets, centers, labels, score, estimator, space, seed)
    return _summed(Scores(scores, scores[:, 0]))


def _summed(scores: Scores) -> LocalScores:
    own, null = scores.compared[:, 0], scores.compared[:, 1:]
    slack = EQUAL * np.maximum(1.0, np.abs(own))
    reached = (null >= (own - slack)[:, None]).sum(axis=1)
    return LocalScores(scores.observed, own, reached, null.max(axis=0, initial=-np.inf))


def corrected(observed: np.ndarray, highest: np.ndarray) -> np.ndarray:
    """Values p (1) corrected for the number of sets; 1 for sets that were not decoded.

    >>> corrected(np.array([0.9, 0.6, np.nan]), np.array([0.7, 0.8, 0.5]))
    array([0.25, 0.75, 1.  ])
    """
    slack = EQUAL * np.maximum(1.0, np.abs(observed))
    ordered = np.sort(highest)
    level = np.nan_to_num(observed - slack, nan=-np.inf, neginf=-np.inf)
    return (1 + len(ordered) - np.searchsorted(ordered, level)) / (1 + len(ordered))


def threshold(highest: np.ndarray, level: float) -> float:
    """Score that one must exceed for a corrected p of at most the level; inf where none can.

    >>> threshold(np.arange(1.0, 20.0), 0.1)
    18.0
    """
    allowed = int(np.floor(level * (1 + len(highest)) + 1e-9))
    return float(np.sort(highest)[-allowed]) if allowed else np.inf


def told_apart(classes: tuple) -> str:
    """Classes in words.

    >>> told_apart(("cat", "face", "house"))
    'cat, face and house'
    """
    return f"{', '.join(map(str, classes[:-1]))} and {classes[-1]}"
