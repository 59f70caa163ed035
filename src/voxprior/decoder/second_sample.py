"""A fitted decoder on scans that it has not learned from: how unlike they are, and how it scores.

`evaluate_on` is an external validation: the decoder as it is, on a second sample with labels, whose
scans and people are compared with the digests of the training sample first.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.utils.validation import check_is_fitted

from voxprior.decoder.predicting import Predicting, beyond
from voxprior.decoder.shift import Compared, compare_samples, shifts
from voxprior.decoder.training import BEYOND, Seen, TrainingSample, people_of
from voxprior.errors import InputError, InputWarning, nearest, option
from voxprior.images import Dataset, load_maps
from voxprior.images.findings import listed
from voxprior.validation import Result
from voxprior.validation.audit import Answer, Audit, NotChecked, audit, heed, judged
from voxprior.validation.second_sample import score_fitted

if TYPE_CHECKING:
    from voxprior.decoder.decoder import Decoder

__all__ = ["SecondSample", "sample_table"]

UNKNOWN = "the model file is of version 0.2 and holds no digests of its training sample"
OF_SAMPLE = ("training-scans", "training-people", "unlike-training", "sample-shifted")


class SecondSample(Predicting):
    """What a fitted `Decoder` does with a second sample."""

    scoring: Any

    def evaluate_on(
        self, images, y=None, groups=None, covariates=None, *, allow: Collection[str] = ()
    ) -> Result:
        """Test the fitted decoder on a second labelled sample: external validation.

        Nothing is fitted. Scans and people of the training sample are refused, by findings of the
        audit; what differs between the samples is named with numbers.

        Parameters
        ----------
        images, y, covariates
            As in `fit`; a Dataset was read with ``images=decoder.masker_``.
        groups : array-like of shape (n_samples,), default=None
            Person of each image, or run where the decoder was trained on runs: the unit of
            intervals.
        allow : sequence of str
            Names of findings to override, see `voxprior.validation.audit`.

        Returns
        -------
        Result
            Its single fold is the second sample. ``settings["samples"]`` compares it with training.
        """
        return evaluate_on(self, self.second_sample(images, y, groups, covariates), allow)

    def score(self, images, y=None, groups=None, covariates=None) -> float:
        """Score the fitted decoder by `scoring`, as scikit-learn's own tools do.

        Parameters
        ----------
        images, y, groups, covariates
            As in `evaluate_on`. Intervals and the training sample are not reported here.
        """
        scorer = _scorer(self.scoring, hasattr(self, "classes_"))
        data = self.second_sample(images, y, groups, covariates)
        return float(scorer(self, data, data.y))

    def second_sample(self, images, y=None, groups=None, covariates=None) -> Dataset:
        """Read labelled images as those of training were read."""
        check_is_fitted(self)
        given = {"y": y, "groups": groups, "covariates": covariates}
        if isinstance(images, Dataset):
            if groups is not None and self.masker_.standardize == "group":
                raise InputError(
                    "A Dataset is already read, so groups would have no effect",
                    remedy="Read it with images=decoder.masker_ and these groups",
                )
            arrays = {k: np.asarray(given.pop(k)) for k in ("y", "groups") if given[k] is not None}
            named = {"covariates": covariates} if covariates is not None else {}
            data = replace(images, **arrays, **named)
        else:
            data = load_maps(images, images=self.masker_, mesh=self.mesh, **given)
        if data.y is None:
            raise InputError("The second sample has no labels", remedy=f"Give {option('y')}")
        return data


def evaluate_on(decoder: Decoder, data: Dataset, allow: Collection[str]) -> Result:
    """Test a fitted decoder on a data set that was read like its training scans."""
    allow = [allow] if isinstance(allow, str) else allow
    _check_labels(decoder, data)
    rows = decoder._rows(data)
    compared, own = _of_sample(decoder, data, decoder._look(rows))
    scans = audit(decoder.estimator_, rows.X, data.y, data.groups, (), **data.known(), allow=allow)
    made = judged(own, allow)
    found = Audit(
        tuple(sorted((*scans, *made), key=lambda one: one.severity != "error")),
        (*scans.checks, *made.checks),
    )
    heed(found, stacklevel=4)
    settings: dict[str, Any] = {"mask": decoder.masker_.mask_words}
    settings["samples"] = [one.row() for one in compared]
    training = decoder.training_
    n_train = 0 if training is None else len(training.scans)
    return score_fitted(
        decoder.estimator_, rows.X, data.y, data.groups,
        n_train=n_train, findings=found, settings=settings,
    )  # fmt: skip


def sample_table(result: Result) -> dict[str, Any]:
    """The comparison of the samples, in the form of the report's tables."""
    return {
        "caption": "This sample and the training sample",
        "columns": ["", "training", "here", "p of a difference"],
        "rows": result.settings.get("samples", []),
    }


def _of_sample(
    decoder: Decoder, data: Dataset, seen: Seen | None
) -> tuple[list[Compared], dict[str, Answer]]:
    """Compare with the training sample: sizes and numbers, and answers of the audit."""
    training = decoder.training_
    if training is None or seen is None:
        warnings.warn(InputWarning(f"Training scans cannot be found: {UNKNOWN}."), stacklevel=4)
        return [], {name: NotChecked(UNKNOWN) for name in OF_SAMPLE}
    names = data.names or tuple(f"scan {i}" for i in range(data.n_samples))
    same = [names[i] for i in training.shared_scans(seen)]
    answers: dict[str, Answer] = {"training-scans": []}
    if same:
        answers["training-scans"] = [
            f"{len(same)} of {data.n_samples} scans are training scans of the model: "
            f"{listed(same)}. Leave them out."
        ]
    answers["training-people"] = _shared_people(decoder, training, data)
    unlike = training.unlike(seen)
    far = bool((unlike > BEYOND).any())
    answers["unlike-training"] = [beyond(training, unlike, names)] if far else []
    shares, classes = decoder.class_frequencies_, getattr(decoder, "classes_", ())
    compared = compare_samples(training, shares, classes, data, seen)
    answers["sample-shifted"] = list(shifts(compared))
    return compared, answers


def _shared_people(decoder: Decoder, training: TrainingSample, data: Dataset) -> Answer:
    people = people_of(data, decoder.masker_)
    if isinstance(people, str):
        return NotChecked(people)
    if training.people is None:
        return NotChecked("the training sample had no groups that name people")
    same = training.shared_people(people)
    return [
        f"{len(same)} of {len(np.unique(people))} groups are in the training sample of the model: "
        f"{listed(same)}. Leave them out."
    ] if same else []  # fmt: skip


def _check_labels(decoder: Decoder, data: Dataset) -> None:
    """Refuse labels that the model has not learned, and a sample that cannot be scored."""
    classes = getattr(decoder, "classes_", None)
    if classes is None:
        if np.asarray(data.y).dtype.kind not in "iuf":
            raise InputError("The model predicts a number", got="labels that are words")
        return
    found, known = np.unique(data.y), set(np.asarray(classes).tolist())
    strange = [label for label in found.tolist() if label not in known]
    if strange:
        raise InputError(
            f"The second sample has labels that the model does not know, {listed(strange)}",
            expected=f"{', '.join(map(str, classes))}",
            remedy="Leave these scans out, or call the classes as in training",
        )
    if len(found) < 2:
        raise InputError(
            "The second sample has a single class, so nothing can be told apart",
            expected=f"scans of {' and '.join(map(str, classes))}",
            got=str(found[0]),
        )


def _scorer(scoring: Any, classes: bool) -> Any:
    """Scorer of a name or a callable; accuracy or R² where there is none."""
    default = "accuracy" if classes else "r2"
    try:
        return get_scorer(default if scoring is None else scoring)
    except ValueError as error:
        near = nearest(str(scoring), get_scorer_names())
        raise InputError(
            f"{option('scoring', scoring)} is not a score{near}",
            expected="a name that sklearn.metrics.get_scorer_names() lists, or a function",
        ) from error
