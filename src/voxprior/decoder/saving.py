"""A fitted decoder as the state of a model file, and back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voxprior import modelfile
from voxprior.decoder.one_class import ClassSpread
from voxprior.decoder.preparation import image_space
from voxprior.decoder.training import TrainingSample
from voxprior.validation.covariates import CovariateCoding

if TYPE_CHECKING:
    from voxprior.decoder.decoder import Decoder


def state_of(decoder: Decoder) -> dict[str, Any]:
    """Return what a model file holds of a fitted decoder."""
    spread, training = decoder.class_spread_, decoder.training_
    return {
        "images": decoder.masker_.to_dict(),
        "digest": decoder.masker_.space.digest,
        "estimator": decoder.estimator_,
        "covariates": None if decoder.covariates_ is None else decoder.covariates_.levels,
        "trials": decoder.trials_,
        "class_frequencies": decoder.class_frequencies_,
        "class_spread": None if spread is None else spread._asdict(),
        "training": None if training is None else training._asdict(),
    }


def restored(kind: type[Decoder], path: Path, trusted: Sequence[str]) -> Decoder:
    """Build the decoder that a model file holds."""
    state = modelfile.read(path, trusted)
    images = image_space(path, state)
    levels = state["covariates"]
    coding = None if levels is None else CovariateCoding(levels)
    n_covariates = 0 if coding is None else len(coding.columns)
    if not trusted:  # the user's own types may ask for more than a scan of zeros
        modelfile.check_model(path, state, n_covariates)
    reading = {"standardize": images.standardize, "scale": images.scale}
    decoder = kind(state["estimator"], mask=images.space.mask, **reading)
    decoder.masker_, decoder.estimator_ = images, state["estimator"]
    decoder.trials_ = state["trials"]
    decoder.class_frequencies_ = state["class_frequencies"]
    spread, training = state["class_spread"], state["training"]
    decoder.class_spread_ = None if spread is None else ClassSpread(**spread)
    n_values = getattr(decoder.estimator_, "n_features_in_", None)
    with modelfile.naming(path):
        decoder.training_ = None if training is None else TrainingSample.from_dict(
            training, None if n_values is None else n_values - n_covariates
        )  # fmt: skip
    decoder.covariates_ = coding
    if hasattr(decoder.estimator_, "classes_"):
        decoder.classes_ = decoder.estimator_.classes_
    return decoder
