"""TransferClassifier: a new subject decoded from its own few scans and a prior from others."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.validation import validate_data

from voxprior.algebra import log_softmax_rows
from voxprior.errors import InputError
from voxprior.labels import known_codes
from voxprior.models.base import VoxelClassifier, check_times
from voxprior.space import VoxelSpace
from voxprior.transfer.decisions import decisions
from voxprior.transfer.episodes import (
    Episode,
    Moments,
    Scans,
    Split,
    episode,
    moments,
    n_units,
    scans_of,
    units_of,
)
from voxprior.transfer.levels import log_probabilities, mixing, scaled
from voxprior.transfer.likeness import near_copies
from voxprior.transfer.maps import map_scorer
from voxprior.transfer.prior import GroupPrior, base_log_probabilities, fitted_base
from voxprior.transfer.weights import level_weights, own_evidence, own_fit, pooled

Array = NDArray[np.float64]


class TransferClassifier(VoxelClassifier):
    """A classifier for one subject, with a prior from others.

    Probabilities are a weighted geometric mean of levels: the base, calibration by others, their
    geometry, their readout, and prior maps. The weights come from what helped the others, and from
    what the subject's own scans say, see `voxprior.transfer.weights`.

    Parameters
    ----------
    prior : GroupPrior
        What others taught, `TransferPrior.prior_`.
    base : classifier, optional
        Reference and fall-back; see `TransferPrior`.
    space : VoxelSpace, optional
        Where voxels are. Prior maps are used if the others are in the same space.

    Attributes
    ----------
    classes_ : array of shape (C,)
    prior_subjects_ : list of str
        The subjects the prior was learned from.
    n_scans_ : int
        Scans of the rarest class.
    levels_ : dict of str to float
        Weights of base, calibration, geometry, readout and maps.
    evidence_ : float
        Nats that the subject's own class means give for the others' geometry.
    decisions_ : list of str
        What was decided, with the number that decided it.
    base_ : classifier
        The fitted base.
    n_features_in_ : int
    """

    # Noise variances do what scaling by the training scans would.
    scales_voxels: ClassVar[bool] = True
    # What reports draw and call it.
    pictures: ClassVar[str] = "voxprior.report.pictures.transfer"
    words: ClassVar[str] = "class means of the subject with a prior learned from other subjects"

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "prior": [GroupPrior],
        "base": [HasMethods(["fit", "predict_proba"]), None],
        "space": [VoxelSpace, None],
    }

    def __init__(self, prior: GroupPrior, base: Any = None, space: VoxelSpace | None = None):
        self.prior = prior
        self.base = base
        self.space = space

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, groups: Any = None) -> TransferClassifier:
        """Adapt the prior to a subject's scans.

        Parameters
        ----------
        X : array of shape (n, V)
            Scans of the new subject.
        y : array of shape (n,)
            Their classes; all classes of the others must occur.
        groups : array of shape (n,), optional
            Their runs; runs that hold all classes are centred.
        """
        X, y = validate_data(self, X, y, dtype=self._scan_dtype)
        self.classes_ = self.prior.classes
        codes = known_codes(y, self.classes_)
        self._check_classes(codes)
        scans = scans_of(
            X, codes, None if groups is None else np.asarray(groups), len(self.classes_)
        )
        known = moments(scans, np.arange(len(X)))
        self._check_copies(scans.X - known.center)
        # Scans that `fit` centred by run come without their run later, and lose the mean of all.
        self._center = known.center + (X - scans.X).mean(axis=0)
        self.n_scans_ = int(known.counts.min())
        self.base_ = fitted_base(self.base, scans.X - known.center, codes, scans.runs, self.space)
        self._weigh(scans, known)
        self.prior_subjects_ = list(self.prior.subjects)
        return self

    def _check_classes(self, codes: NDArray[np.intp]) -> None:
        missing = np.setdiff1d(np.arange(len(self.classes_)), codes)
        if len(missing):
            raise InputError(
                "The new subject lacks classes that the others have",
                expected=f"scans of all of {self.classes_.tolist()}",
                got=f"none of {self.classes_[missing].tolist()}",
            )

    def _check_copies(self, X: Array) -> None:
        """A subject in its own prior would be decoded from scans that it is tested on."""
        copies = near_copies(X, self.prior.sketches)
        if copies:
            raise InputError(
                f"Scans of the new subject are in its prior, as scans of {', '.join(copies)}",
                expected="a prior from other subjects",
                remedy="Learn the prior without them",
            )

    def _weigh(self, scans: Scans, known: Moments) -> None:
        """Weights of all levels."""
        size = self.prior.size_for(self.n_scans_)
        self.lesson_size_ = size
        lesson = self.prior.lessons[size]
        nothing = np.empty((0, scans.X.shape[1]))
        own = self._episode(known, nothing, np.empty((0, len(self.classes_))))
        self.evidence_ = own_evidence(own, lesson)
        fits = self._own_fits(scans)
        weights = level_weights(self.prior.levels[size], self.evidence_, fits)
        share = self._map_share(size)
        self.levels_ = {level: (1 - share) * weight for level, weight in weights.items()}
        self.levels_["maps"] = share
        self._means, self._variances = known.means, known.variances
        self._counts, self._degrees = known.counts, known.degrees
        self.decisions_ = decisions(self.prior, size, self.n_scans_, self.levels_, self.evidence_)

    def _episode(self, known: Moments, new: Array, base: Array) -> Episode:
        return episode(known, new, np.zeros(len(new), dtype=np.intp), base)

    def _own_fits(self, scans: Scans) -> dict[str, float] | None:
        """How well the levels predict own scans, a run left out at a time; None with one run."""
        smaller = [n for n in self.prior.lessons if n < self.n_scans_]
        if n_units(scans) < 2 or not smaller:
            return None
        units, found = units_of(scans), []
        for unit in range(n_units(scans)):
            split = Split(np.flatnonzero(units != unit), np.flatnonzero(units == unit))
            known = moments(scans, split.train)
            base = base_log_probabilities(self.base, scans, split, known, self.space)
            found.append(episode(known, scans.X[split.test], scans.codes[split.test], base))
        return own_fit(found, self.prior.lessons[max(smaller)])

    def _map_share(self, size: int) -> float:
        """Share of the prior maps, 0 where there are none or voxels do not correspond."""
        if self.prior.maps is None or self.space != self.prior.space:
            return 0.0
        check_times(self, self.prior.maps.mean.shape[1])
        return self.prior.map_lessons[size].share

    def _known(self) -> Moments:
        center = np.zeros(self.n_features_in_)
        return Moments(
            self._means, self._variances, self._variances, self._degrees, self._counts, center
        )

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithm of `predict_proba`, (n, C)."""
        X = self._new_scans(X) - self._center
        known = self._known()
        log_p: dict[str, Array] = {"base": np.log(np.maximum(self.base_.predict_proba(X), 1e-15))}
        if self.levels_["base"] < 1:
            lesson = self.prior.lessons[self.lesson_size_]
            log_p |= log_probabilities(self._episode(known, X, log_p["base"]), lesson)
        if self.prior.maps is not None and self.levels_["maps"] > 0:
            t = self.prior.map_lessons[self.lesson_size_].temperature
            log_p["maps"] = log_softmax_rows(t * map_scorer(self.prior.maps, known).scores(X))
        return pooled(log_p, self.levels_)

    def predict_proba(self, X: Any) -> Array:
        """Probabilities (n, C) of the classes."""
        return np.exp(self.predict_log_proba(X))

    def voxel_maps(self) -> dict[str, NDArray]:
        """Voxel weights of each class against the mean of all; the base's maps if it decides alone.

        Readout and geometry are linear in the scans like the rest, so all levels add up; the base
        never has a share next to them.
        """
        if self.levels_["base"] == 1 and hasattr(self.base_, "voxel_maps"):
            return self.base_.voxel_maps()
        lesson, known = self.prior.lessons[self.lesson_size_], self._known()
        nothing = np.empty((0, len(self.classes_)))
        empty = np.empty((0, self.n_features_in_))
        own = scaled(self._episode(known, empty, nothing), lesson.units)
        weighted = lesson.units.weight(self.n_features_in_) * known.means / known.variances
        if self._degrees == 0:
            weighted = weighted / lesson.noise_share
        plain = mixing(own, lesson.shape, 0.0) @ weighted
        shaped = mixing(own, lesson.shape, lesson.trust) @ weighted
        total = self.levels_["calibration"] * lesson.temperature * plain
        total += self.levels_["geometry"] * lesson.temperature_geometry * shaped
        total += self.levels_["readout"] * (lesson.slope @ plain)
        if self.prior.maps is not None and self.levels_["maps"] > 0:
            t = self.prior.map_lessons[self.lesson_size_].temperature
            total += self.levels_["maps"] * t * map_scorer(self.prior.maps, known).weights
        total -= total.mean(axis=0)
        return {f"weight:{name}": row for name, row in zip(self.classes_, total)}
