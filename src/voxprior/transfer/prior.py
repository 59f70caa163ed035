"""TransferPrior: learn from other subjects once, then adapt to a new one from a scan per class.

`TransferPrior.fit` pretends of each subject in turn that it is new (`episodes`), learns the levels
(`levels`, `maps`) and whether they help (`weights`), and keeps statistics only (`GroupPrior`).
`TransferPrior.adapt` returns a fitted `TransferClassifier`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, _fit_context, clone
from sklearn.utils import check_array
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from voxprior import registry
from voxprior.decision.base import offer_groups
from voxprior.errors import InputError, option
from voxprior.labels import encode, known_codes
from voxprior.space import VoxelSpace
from voxprior.transfer.episodes import (
    Episode,
    Moments,
    Scans,
    Split,
    episode,
    episodes_of,
    moments,
    scans_of,
    sizes_of,
    traits,
)
from voxprior.transfer.levels import Lesson, Rules, learn
from voxprior.transfer.likeness import sketch
from voxprior.transfer.map_trust import MapLesson, learn_maps
from voxprior.transfer.maps import GroupMaps
from voxprior.transfer.weights import admitted, left_out_losses

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GroupPrior:
    """Statistics of other subjects, and nothing that shows their scans.

    Attributes
    ----------
    classes : array of shape (C,)
    subjects : list of str
        Their names.
    lessons : dict of int to Lesson
        What they teach a subject, by its number of scans per class.
    left_out : dict of int to dict of str to array of shape (m,)
        Mean log-loss of every level on each of them, learned from the others.
    levels : dict of int to list of str
        Levels that helped them.
    space : VoxelSpace or None
        The space they share, if they do.
    maps : GroupMaps or None
        Prior maps in it.
    map_lessons : dict of int to MapLesson
        How far the maps can be trusted.
    sketches : dict of str to array
        A few random projections of each scan, by which a scan is recognised.
    """

    classes: NDArray
    subjects: list[str]
    lessons: dict[int, Lesson]
    left_out: dict[int, dict[str, Array]]
    levels: dict[int, list[str]]
    space: VoxelSpace | None
    maps: GroupMaps | None
    map_lessons: dict[int, MapLesson]
    sketches: dict[str, NDArray] = field(repr=False)

    def __deepcopy__(self, memo: Any) -> GroupPrior:
        return self  # it never changes

    def size_for(self, n: int) -> int:
        """The number of scans per class, among those learned, that serves n of them."""
        return max((size for size in self.lessons if size <= n), default=min(self.lessons))


class TransferPrior(BaseEstimator):
    """A prior from other subjects, for a new one with few scans.

    Voxels need not correspond: what is learned is how sure to be with a given number of scans per
    class (calibration), how classes relate (geometry) and how their scores are read (readout).
    Where subjects share a `space`, prior maps are learned too. A level counts only if it helped the
    other subjects, each left out in turn.

    Parameters
    ----------
    base : classifier, optional
        Reference and fall-back, any classifier with ``predict_proba``. By default
        `FeatureSharingNB` with James-Stein shrinkage, and `AutoClassifier` where there is one scan
        per class.
    space : VoxelSpace, optional
        Where voxels are, if they are in the same places in all subjects: prior maps are learned.
    scores : {"means", "base"}
        What others calibrate and read: scores by the subject's class means, or the base's
        log-probabilities, which leave no place for the geometry.
    max_episodes : int
        Most episodes of each size per subject.
    kappa0, lambda0 : float
        m other subjects are trusted with their geometry by m / (m + kappa0); the readout is held
        to a calibration by a ridge of lambda0 / m.

    Attributes
    ----------
    prior_ : GroupPrior
        All that was learned.
    prior_subjects_ : list of str
        The subjects it was learned from.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from voxprior.simulate import subjects
    >>> study = subjects(5, (8, 8, 4), n_runs=4, random_state=0)
    >>> others = {name: (one.X, one.y, one.groups) for name, one in list(study.items())[1:]}
    >>> prior = TransferPrior(LogisticRegression(), max_episodes=4).fit(others)
    >>> new = study["sub-01"]
    >>> first = new.groups == 0
    >>> model = prior.adapt(new.X[first], new.y[first], new.groups[first])
    >>> bool(model.score(new.X[~first], new.y[~first]) > 1 / 3)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "base": [HasMethods(["fit", "predict_proba"]), None],
        "space": [VoxelSpace, None],
        "scores": [StrOptions({"means", "base"})],
        "max_episodes": [Interval(Integral, 1, None, closed="left")],
        "kappa0": [Interval(Real, 0, None, closed="left")],
        "lambda0": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        base: Any = None,
        *,
        space: VoxelSpace | None = None,
        scores: str = "means",
        max_episodes: int = 24,
        kappa0: float = 9.0,
        lambda0: float = 0.03,
    ):
        self.base = base
        self.space = space
        self.scores = scores
        self.max_episodes = max_episodes
        self.kappa0 = kappa0
        self.lambda0 = lambda0

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, subjects: Mapping[str, tuple[Any, Any, Any]], y: Any = None) -> TransferPrior:
        """Learn from other subjects.

        Parameters
        ----------
        subjects : dict of str to (X, y, groups)
            Scans (n, V) of each subject, their classes, and their runs, or None.
        y : None
            Ignored.
        """
        classes, known = read_subjects(subjects)
        rules = Rules(self.kappa0, self.lambda0, self.scores == "base")
        each = [traits(one) for one in known]
        common = set.intersection(*(set(sizes_of(one)) for one in known))
        if not common:
            raise InputError(
                "Other subjects have too few scans to learn from",
                expected="at least two runs, or two scans of every class, of each subject",
                remedy="Leave out the subjects with fewer",
            )
        episodes = {n: [self._episodes(one, n) for one in known] for n in sorted(common)}
        lessons = {n: learn(all_of, each, rules) for n, all_of in episodes.items()}
        left_out = {n: left_out_losses(all_of, each, rules) for n, all_of in episodes.items()}
        names = [str(name) for name in subjects]
        self.prior_ = GroupPrior(
            classes,
            names,
            lessons,
            left_out,
            {n: list(admitted(losses, rules.from_base)) for n, losses in left_out.items()},
            self._shared(known),
            *learn_maps(self.space, known, lessons, episodes, self.max_episodes),
            {name: sketch(_centered(one)) for name, one in zip(names, known)},
        )
        self.prior_subjects_ = names
        return self

    def adapt(self, X: Any, y: Any, groups: Any = None) -> Any:
        """Fit a classifier for a new subject: a fitted `TransferClassifier`.

        Scans that it predicts later must be prepared like these. If these were centred by run,
        later ones must be too; if not, the mean of these scans is subtracted from later ones.
        """
        from voxprior.transfer.classifier import TransferClassifier

        check_is_fitted(self)
        return TransferClassifier(self.prior_, base=self.base, space=self.space).fit(X, y, groups)

    def _episodes(self, scans: Scans, size: int) -> list[Episode]:
        """Episodes of a subject, with what the base says in each."""
        found = []
        for split in episodes_of(scans, size, self.max_episodes):
            known, new = moments(scans, split.train), scans.X[split.test]
            base = base_log_probabilities(self.base, scans, split, known, self.space)
            found.append(episode(known, new, scans.codes[split.test], base))
        return found

    def _shared(self, known: list[Scans]) -> VoxelSpace | None:
        """The space of the maps, whose voxels all subjects must have."""
        sizes = sorted({one.X.shape[1] for one in known})
        if self.space is not None and sizes != [self.space.n_voxels]:
            raise InputError(
                f"Subjects do not share the {option('space')}",
                expected=f"scans of {self.space.n_voxels} voxels",
                got=f"{', '.join(map(str, sizes))}",
                remedy=f"Leave {option('space')} out: only maps need voxels that correspond",
            )
        return self.space


def read_subjects(subjects: Any) -> tuple[NDArray, list[Scans]]:
    """Classes, which all subjects must have, and the scans of each."""
    if not isinstance(subjects, Mapping) or not subjects:
        raise InputError(
            "There are no other subjects to learn from",
            expected="a dict of name to (X, y, groups)",
            got=type(subjects).__name__ if subjects else "none",
        )
    labels = {name: np.unique(np.asarray(one[1])) for name, one in subjects.items()}
    everyone = np.unique(np.concatenate(list(labels.values())))
    for name, own in labels.items():
        missing = np.setdiff1d(everyone, own)
        if len(missing):
            raise InputError(
                f"Subject {name} lacks classes that others have",
                expected=f"scans of all of {everyone.tolist()}",
                got=f"none of {missing.tolist()}",
                remedy="Leave the subject out, or the classes",
            )
    return encode(everyone).classes, [
        read_scans(*one, classes=everyone, name=str(name)) for name, one in subjects.items()
    ]


def read_scans(X: Any, y: Any, groups: Any = None, *, classes: NDArray, name: str = "") -> Scans:
    """Checked scans of one subject."""
    X = check_array(X, dtype=(np.float64, np.float32), input_name=f"X of {name}" if name else "X")
    check_consistent_length(X, y, groups)
    groups = None if groups is None else np.asarray(groups)
    return scans_of(X, known_codes(np.asarray(y), classes), groups, len(classes))


def _centered(scans: Scans) -> Array:
    return scans.X - moments(scans, np.arange(len(scans.X))).center


def fitted_base(
    base: Any, X: Array, codes: NDArray, runs: NDArray | None, space: VoxelSpace | None
) -> Any:
    """Copy of the base, or of the default for that many scans, fitted to a subject's scans."""
    if base is None:
        few = np.bincount(codes).min() < 2
        base = registry.model("auto").make() if few else registry.model("sharing").make()
        if not few:
            base.set_params(shrinkage="james-stein")
        if space is not None:
            base.set_params(space=space)
    return clone(base).fit(X, codes, **offer_groups(base, runs))


def base_log_probabilities(
    base: Any, scans: Scans, split: Split, known: Moments, space: VoxelSpace | None
) -> Array:
    """Log-probabilities (tests, C) of the base in an episode."""
    runs = None if scans.runs is None else scans.runs[split.train]
    X = scans.X - known.center
    model = fitted_base(base, X[split.train], scans.codes[split.train], runs, space)
    return np.log(np.maximum(model.predict_proba(X[split.test]), 1e-15))
